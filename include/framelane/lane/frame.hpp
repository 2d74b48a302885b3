// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "framelane/format/frame_info.hpp"

namespace framelane {

namespace lane {
class Connection;
}

/// One received frame, read-only. It lends the slot where the producer wrote it and gives the slot back when it is
/// destroyed; payloads of up to 32 bytes without metadata live in the Frame itself, and a consumer that already holds
/// max_held frames gets a private copy.
///
/// Threads:   one thread at a time; may be destroyed on any thread, in any order, also after its Consumer.
/// Real time: no call allocates; destruction makes a system call only if the producer is waiting for the slot (and
///            frees memory if is_copy()).
/// Units:     sizes are bytes; times are ns (of the stream's segment for info().pts, of CLOCK_MONOTONIC for due() and
///            published()).
class Frame {
 public:
  Frame() noexcept = default;
  Frame(Frame&& other) noexcept;
  Frame& operator=(Frame&& other) noexcept;
  Frame(const Frame&) = delete;
  Frame& operator=(const Frame&) = delete;
  ~Frame() {
    if (kind_ > Kind::kInline) release();
  }

  /// The payload, shape [size()]; starts 64-byte aligned unless it is inline. Valid until release().
  [[nodiscard]] std::span<const std::byte> bytes() const noexcept { return {data(), size_}; }
  [[nodiscard]] const std::byte* data() const noexcept {
    return kind_ == Kind::kInline ? reinterpret_cast<const std::byte*>(inline_words_) : data_;
  }
  [[nodiscard]] std::size_t size() const noexcept { return size_; }

  /// Number of this frame among the lane's frames, from 0, without events.
  [[nodiscard]] std::uint64_t seq() const noexcept { return seq_; }
  /// Frames that this consumer lost directly before this one.
  [[nodiscard]] std::uint64_t skipped() const noexcept { return skipped_; }

  /// What the producer sent beside the payload (serialised metas, for example): bytes whose meaning is the
  /// application's own, 64-byte aligned, empty when there are none. Never more than the lane's max_side_data, which a
  /// consumer checks against the slot's room before it believes it; the bytes themselves are the peer's, unchecked.
  /// Valid until release().
  [[nodiscard]] std::span<const std::byte> side_data() const noexcept;

  /// Times, flags and type id. Reads the slot's metadata record, so it costs a cache line.
  [[nodiscard]] format::FrameInfo info() const noexcept;
  [[nodiscard]] std::uint64_t pts() const noexcept { return info().pts; }
  [[nodiscard]] std::uint32_t type_id() const noexcept { return info().type_id; }
  /// When the frame is due, ns of CLOCK_MONOTONIC; format::kNoClockTime when the producer didn't say.
  [[nodiscard]] std::int64_t due() const noexcept { return due_ns_; }
  /// When the frame was published, ns of CLOCK_MONOTONIC; 0 when it wasn't stamped.
  [[nodiscard]] std::int64_t published() const noexcept { return publish_ns_; }

  [[nodiscard]] bool is_inline() const noexcept { return kind_ == Kind::kInline; }
  /// True for a private copy, made because max_held frames are held already.
  [[nodiscard]] bool is_copy() const noexcept { return kind_ == Kind::kCopy; }
  /// Index of the slot among the lane's slots (0..4095), the same for each frame that reuses it; -1 if not in a slot.
  [[nodiscard]] int slot() const noexcept { return kind_ == Kind::kSlot ? slot_ : -1; }
  [[nodiscard]] explicit operator bool() const noexcept { return kind_ != Kind::kEmpty; }

  /// Gives the slot back now; the Frame is empty afterwards.
  void release() noexcept;

 private:
  friend class lane::Connection;
  enum class Kind : std::uint8_t { kEmpty, kInline, kSlot, kCopy };

  Kind kind_ = Kind::kEmpty;
  std::uint16_t slot_ = 0;
  std::uint32_t size_ = 0;
  std::uint32_t side_size_ = 0;
  std::uint64_t seq_ = 0;
  std::uint64_t skipped_ = 0;
  std::int64_t due_ns_ = format::kNoClockTime;
  std::int64_t publish_ns_ = 0;
  const std::byte* data_ = nullptr;         // payload in a slot or in a private copy
  const std::byte* record_ = nullptr;       // metadata record and side data, in the segment or in the private copy
  lane::Connection* connection_ = nullptr;  // of a slot; lives as long as it is held
  std::uint64_t inline_words_[4];           // payload of a kInline
};

}  // namespace framelane
