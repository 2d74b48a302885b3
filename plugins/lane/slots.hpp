// SPDX-License-Identifier: MIT
#pragma once

#include <array>
#include <atomic>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include <gst/gst.h>

#include "framelane/lane/producer.hpp"

#include "lane/lane_memory.hpp"

namespace framelane::gst {

/// The producer of a running sink, and its slots as GstMemory. A slot is lent while its memory lives; published while
/// this class keeps the memory, until every consumer released it; free when the memory is freed. Pools and memories
/// refer to this class, never to the element.
///
/// Threads: lend(), forget() and close() from any thread; the rest from the streaming thread.
class Slots {
 public:
  /// Errors: those of Producer::open().
  [[nodiscard]] static Result<std::shared_ptr<Slots>> open(const ProducerSettings& settings);
  explicit Slots(Producer producer, const ProducerSettings& settings);

  [[nodiscard]] Producer& producer() noexcept { return producer_; }
  [[nodiscard]] const Producer& producer() const noexcept { return producer_; }

  /// A loan for upstream; empty when max-loans are out or the lane is closed. Never waits, so no state change can hang
  /// in it.
  [[nodiscard]] std::optional<Loan> lend(gsize size);
  /// A loan for a copy that the sink itself makes; it may have one when upstream has all of its own.
  [[nodiscard]] Result<Loan> lend_to_sink(gsize size);
  /// Makes room for frames of `size` bytes, if that can be had.
  void reserve(gsize size);

  /// Why a buffer can't be published where it lies; kNone if it can.
  enum class Reason {
    kNone,
    kForeign,
    kDmabuf,
    kOverflow,
    kSeveralMemories,
    kPart,
    kRepeated,
    kMapped,
    kLayout,
    kCount
  };
  [[nodiscard]] Reason why_not_in_place(GstBuffer* buffer, const GstAllocator* allocator);
  /// Publishes memory for which why_not_in_place() was kNone, and keeps it until no consumer reads it any more.
  /// Errors: those of Producer::publish(). Empty: somebody has mapped it for writing, copy it.
  [[nodiscard]] std::optional<Result<Published>> publish_in_place(LaneMemory& memory, gsize size,
                                                                  const format::FrameInfo& info,
                                                                  std::span<const std::byte> side_data);

  /// Memory from the heap was given out where a slot was wanted.
  void count_overflow() noexcept { overflows_.fetch_add(1, std::memory_order_relaxed); }
  [[nodiscard]] std::uint64_t overflows() const noexcept { return overflows_.load(std::memory_order_relaxed); }
  /// A memory with a loan is freed.
  void forget(const LaneMemory& memory) noexcept;
  /// Ends the lane. What consumers still read stays mapped until they release it.
  void close() noexcept;

 private:
  void reclaim();
  [[nodiscard]] std::optional<Loan> lend_at_once(gsize size);
  void set_published(LaneMemory& memory, bool published);

  Producer producer_;
  const std::uint32_t max_loans_;
  std::atomic<std::uint64_t> overflows_{0};

  std::mutex mutex_;
  bool closed_ = false;
  std::uint32_t lent_ = 0;                // to upstream, not published
  std::array<LaneMemory*, 4096> kept_{};  // by slot: published, referenced and locked
  std::vector<std::uint16_t> reclaimed_;
};

}  // namespace framelane::gst
