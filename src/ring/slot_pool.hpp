// SPDX-License-Identifier: MIT
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "framelane/base/result.hpp"

#include "memory/sealed_memory.hpp"
#include "ring/layout.hpp"

namespace framelane::ring {

/// How many slots a lane needs; DESIGN: burst + history + 8 + max-loans + max-consumers x (max-held + 1).
struct PoolSizes {
  std::uint32_t burst = 8;
  std::uint32_t history = 0;
  std::uint32_t max_loans = 16;
  std::uint32_t max_held = 4;
  std::uint32_t max_consumers = kMaxConsumers;
  std::uint32_t max_side_data = kDefaultSideData;  // bytes that a frame may carry beside its payload

  /// Used whoever is connected.
  [[nodiscard]] std::uint64_t own_slots() const noexcept {
    return std::uint64_t{burst} + history + kRetireAhead + max_loans;
  }
  /// What a consumer may hold comes out of its own reserve; one more for the slot it copies while it holds the most.
  [[nodiscard]] std::uint64_t reserve() const noexcept { return std::uint64_t{max_held} + 1; }
  [[nodiscard]] std::uint64_t total_slots() const noexcept { return own_slots() + max_consumers * reserve(); }
  /// From one metadata record to the next, bytes.
  [[nodiscard]] std::uint32_t record_stride() const noexcept {
    return static_cast<std::uint32_t>(memory::round_up(sizeof(MetaRecord) + max_side_data, kCacheLine));
  }
  /// Errors: kInvalidArgument when a segment can't have that many slots, or a record that much side data.
  [[nodiscard]] Result<void> check() const;
};

/// A slot lent to a writer.
struct SlotRef {
  std::uint16_t slot = 0;
  std::byte* data = nullptr;
  std::uint32_t capacity = 0;
};

/// The data segments of a lane and which of their slots are free. Only the newest segment lends slots; older ones
/// drain.
///
/// Threads: every call under the Writer's mutex, but record() of a slot that the caller has on loan, and shown_*().
class SlotPool {
 public:
  SlotPool(std::string name, PoolSizes sizes, std::uint64_t max_frame_size, bool allow_unsealed);

  [[nodiscard]] const PoolSizes& sizes() const noexcept { return sizes_; }
  /// Another burst depth; the next segment has the slots for it.
  void set_burst(std::uint32_t burst) noexcept;

  /// Makes sure that the newest segment has slots of `size` bytes and enough of them. `exact`: that size and no larger.
  /// Errors: kTooLarge, kNoMemory, kFull (two older segments are still in use), kUnsupported, kSystem.
  [[nodiscard]] Result<void> ensure(std::uint64_t size, bool exact);
  [[nodiscard]] bool fits(std::uint64_t size) const noexcept;
  /// True while as many segments are in use as there may be: ensure() of another size has to wait.
  [[nodiscard]] bool draining() const noexcept;

  /// A free slot, the last one that was given back (it is still in the cache); empty if there is none.
  [[nodiscard]] std::optional<SlotRef> take_free() noexcept;
  void give_back(std::uint16_t slot) noexcept;
  [[nodiscard]] MetaRecord& record(std::uint16_t slot) const noexcept { return *slots_[slot].record; }
  [[nodiscard]] std::byte* data(std::uint16_t slot) const noexcept { return slots_[slot].data; }

  /// Slots of the newest segment that a consumer's reserve will need. Prefault them without the mutex (it takes
  /// milliseconds), then call use().
  struct Reserve {
    std::shared_ptr<memory::SealedMemory> memory;  // keeps the segment mapped meanwhile; null: nothing to do
    SegmentSpec spec{};
    std::uint32_t from = 0;
    std::uint32_t to = 0;
  };
  /// `connected` counts the new consumer; one that left gave its reserve back to the next.
  [[nodiscard]] Reserve next_reserve(std::uint32_t connected) noexcept;
  static void prefault(const Reserve& reserve) noexcept;
  void use(const Reserve& reserve) noexcept;

  struct Segment {
    SegmentSpec spec{};
    std::shared_ptr<memory::SealedMemory> memory;
    std::uint32_t busy = 0;    // slots on loan, in the ring or held
    std::uint32_t in_use = 0;  // slots that were ever handed to the free list
    bool announced = false;
  };
  /// A segment that consumers have not been told of yet, or null.
  [[nodiscard]] Segment* unannounced() noexcept;
  /// An older segment whose slots are all free, or null.
  [[nodiscard]] Segment* drained() noexcept;
  /// Unmaps a drained segment and recycles its slot ids.
  void drop(std::uint32_t id) noexcept;
  /// True when unannounced() or drained() may have something; read by the publishing thread without the mutex.
  [[nodiscard]] bool changed() const noexcept { return changed_.load(std::memory_order_acquire); }
  /// True when unannounced() may have something: no frame in it may be published before.
  [[nodiscard]] bool untold() const noexcept { return untold_.load(std::memory_order_acquire); }
  void clear_changed() noexcept { changed_.store(false, std::memory_order_relaxed); }
  void clear_untold() noexcept { untold_.store(false, std::memory_order_relaxed); }

  [[nodiscard]] const std::vector<Segment>& segments() const noexcept { return segments_; }
  [[nodiscard]] std::uint32_t free_count() const noexcept { return static_cast<std::uint32_t>(free_.size()); }
  /// Bytes of a slot that is lent now; 0 before the first segment.
  [[nodiscard]] std::uint64_t slot_size() const noexcept {
    return segments_.empty() ? 0 : segments_.back().spec.slot_size;
  }
  [[nodiscard]] std::uint32_t slots_in_use() const noexcept { return segments_.empty() ? 0 : segments_.back().in_use; }
  /// The same two, for statistics: without the mutex, and perhaps a moment old.
  [[nodiscard]] std::uint64_t shown_slot_size() const noexcept {
    return shown_slot_size_.load(std::memory_order_relaxed);
  }
  [[nodiscard]] std::uint32_t shown_slots() const noexcept { return shown_slots_.load(std::memory_order_relaxed); }

 private:
  struct Slot {
    std::byte* data = nullptr;
    MetaRecord* record = nullptr;
    std::uint32_t segment = 0;  // SegmentSpec::id
  };

  [[nodiscard]] Result<SegmentSpec> plan(std::uint64_t slot_size) const;
  [[nodiscard]] std::uint64_t grown_size(std::uint64_t size) const noexcept;
  /// Older segments that nobody was told of: they need no message, and must not count among the old ones.
  void drop_unknown() noexcept;
  [[nodiscard]] std::optional<std::uint32_t> free_range(std::uint32_t count) const noexcept;
  [[nodiscard]] static Reserve first_unused(const Segment& segment, std::uint64_t count) noexcept;
  [[nodiscard]] Segment* segment_of(std::uint16_t slot) noexcept;

  std::string name_;
  PoolSizes sizes_;
  std::uint64_t max_frame_size_;
  bool allow_unsealed_;
  bool outgrown_ = false;       // the newest segment has too few slots for sizes_
  std::uint32_t reserves_ = 0;  // the most consumers that were connected at once
  std::uint32_t next_id_ = 1;
  std::vector<Segment> segments_;  // oldest first; the last one lends
  std::vector<Slot> slots_;
  std::vector<std::uint16_t> free_;
  std::atomic<bool> changed_{false};
  std::atomic<bool> untold_{false};
  std::atomic<std::uint64_t> shown_slot_size_{0};
  std::atomic<std::uint32_t> shown_slots_{0};
};

}  // namespace framelane::ring
