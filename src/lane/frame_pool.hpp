// SPDX-License-Identifier: MIT
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "ring/layout.hpp"
#include "ring/reader.hpp"
#include "transport/frame_stream.hpp"

namespace framelane::lane {

/// How the memory of a frame that isn't the ring's is laid out: its record, side data, and the payload as aligned as in
/// a slot: to a page from 4 KiB on, else to a cache line.
struct FrameLayout {
  FrameLayout(std::size_t side_data, std::size_t payload) noexcept;

  /// Null: no memory. Freed by std::free().
  [[nodiscard]] std::byte* allocate() const noexcept;

  std::size_t head;   // bytes before the payload
  std::size_t bytes;  // all of it
};

/// Where a stream's frames are read to: as many slots as the consumer may hold; a frame beyond them gets memory of
/// its own.
///
/// Threads:   one that reads frames; release() from any.
/// Real time: no allocation while the frames grow no larger and fewer than that are held.
class FramePool final : public transport::FrameReceiver {
 public:
  FramePool() = default;
  ~FramePool() override;
  FramePool(const FramePool&) = delete;
  FramePool& operator=(const FramePool&) = delete;

  /// Once, when the producer has said how many frames may be held. No frame may come before.
  void prepare(std::uint32_t max_held);
  [[nodiscard]] Result<transport::FrameRoom> room_for(const wire::FrameMessage& frame) override;

  struct Complete {
    ring::Taken taken;     // with where it lies
    bool is_copy = false;  // its memory, from taken.record on, now belongs to the caller
  };
  /// The frame whose room was asked for last has come.
  [[nodiscard]] Complete complete(const wire::FrameMessage& frame) noexcept;
  /// Gives a slot back. Any thread.
  void release(std::uint16_t slot) noexcept { slots_[slot].used.store(false, std::memory_order_release); }

 private:
  struct Slot {
    ~Slot();
    std::byte* memory = nullptr;
    std::size_t bytes = 0;
    // SYNC SLOT: a release's store comes after the last read of the frame, and the load before the next write sees it.
    std::atomic<bool> used{false};
  };
  [[nodiscard]] Slot* free_slot() noexcept;

  std::unique_ptr<Slot[]> slots_;
  std::uint32_t count_ = 0;
  Slot* coming_ = nullptr;    // the slot that is being filled
  std::byte* own_ = nullptr;  // or the memory that is
};

}  // namespace framelane::lane
