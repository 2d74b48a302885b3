// SPDX-License-Identifier: MIT
#include "ring/slot_pool.hpp"

#include <algorithm>
#include <iterator>
#include <limits>

#include "base/crash_point.hpp"

namespace framelane::ring {
namespace {

constexpr std::size_t kMostMapped = 8;    // drained ones wait for the publishing thread to say so
constexpr std::size_t kMostSegments = 3;  // the newest and two that drain
constexpr std::uint32_t kMostSlots = kMaxSlots / kMostSegments;  // of one segment
constexpr std::uint64_t kSharedPage = 4096;                      // in the ABI, whatever this machine's page size
// Below it, whole pages per slot cost more in cache and TLB than they give.
constexpr std::uint64_t kPageAlignFrom = 4096;

}  // namespace

Result<void> PoolSizes::check() const {
  // At least the frame that is being published must be kept from other threads that reclaim.
  if (burst == 0) return fail(Code::kInvalidArgument, "burst is 0; a lane needs at least 1");
  if (max_side_data > kMaxSideData) {
    return fail(Code::kInvalidArgument, "max-side-data is " + std::to_string(max_side_data) + "; it must be 0 to " +
                                            std::to_string(kMaxSideData));
  }
  if (total_slots() <= kMostSlots) return {};
  return fail(Code::kInvalidArgument, "burst " + std::to_string(burst) + " + history " + std::to_string(history) +
                                          " + max-loans " + std::to_string(max_loans) +
                                          " + 8 + max-consumers x (max-held + 1) makes " +
                                          std::to_string(total_slots()) + " slots, and a lane has at most " +
                                          std::to_string(kMostSlots) + "; lower one of them");
}

SlotPool::SlotPool(std::string name, PoolSizes sizes, std::uint64_t max_frame_size, bool allow_unsealed)
    : name_(std::move(name)), sizes_(sizes), max_frame_size_(max_frame_size), allow_unsealed_(allow_unsealed) {
  slots_.resize(kMaxSlots);
  free_.reserve(kMaxSlots);  // giving back never allocates
  segments_.reserve(kMostMapped);
}

void SlotPool::set_burst(std::uint32_t burst) noexcept {
  outgrown_ = outgrown_ || burst > sizes_.burst;
  sizes_.burst = burst;
}

bool SlotPool::fits(std::uint64_t size) const noexcept {
  return !segments_.empty() && !outgrown_ && size <= segments_.back().spec.slot_size;
}

std::uint64_t SlotPool::grown_size(std::uint64_t size) const noexcept {
  if (segments_.empty()) return size;
  return std::max(size, std::min(slot_size_with_room(size), max_frame_size_));
}

std::optional<std::uint32_t> SlotPool::free_range(std::uint32_t count) const noexcept {
  std::uint32_t first = 0;
  for (bool moved = true; moved;) {
    moved = false;
    for (const Segment& segment : segments_) {
      const std::uint32_t end = segment.spec.first_slot + segment.spec.slot_count;
      if (first < end && segment.spec.first_slot < first + count) {
        first = end;
        moved = true;
      }
    }
  }
  if (first + count > kMaxSlots) return std::nullopt;
  return first;
}

Result<SegmentSpec> SlotPool::plan(std::uint64_t slot_size) const {
  const auto count = static_cast<std::uint32_t>(std::min<std::uint64_t>(sizes_.total_slots(), kMostSlots));
  const auto first = free_range(count);
  if (!first) return fail(Code::kFull, "the slots of two older sizes are still in use; release frames and loans first");
  SegmentSpec spec{};
  spec.id = next_id_;
  spec.first_slot = *first;
  spec.slot_count = count;
  spec.record_stride = sizes_.record_stride();
  spec.slot_size = slot_size;
  spec.slot_stride = memory::round_up(slot_size, slot_size < kPageAlignFrom ? kCacheLine : kSharedPage);
  spec.slots_offset = memory::round_up(std::uint64_t{count} * spec.record_stride, kSharedPage);
  spec.total_bytes = memory::round_up(spec.slots_offset + count * spec.slot_stride, memory::page_size());
  if (spec.total_bytes > std::numeric_limits<std::size_t>::max() / 2) {
    return fail(Code::kNoMemory,
                std::to_string(count) + " slots of " + std::to_string(slot_size) +
                    " bytes don't fit into this process's address space; lower max-consumers, max-held or burst");
  }
  return spec;
}

bool SlotPool::draining() const noexcept {
  const auto busy =
      std::count_if(segments_.begin(), segments_.end(), [](const Segment& segment) { return segment.busy != 0; });
  return static_cast<std::size_t>(busy) >= kMostSegments;
}

Result<void> SlotPool::ensure(std::uint64_t size, bool exact) {
  if (size > max_frame_size_ || size > std::numeric_limits<std::uint32_t>::max()) {
    return fail(Code::kTooLarge, "a frame of " + std::to_string(size) + " bytes is larger than max-frame-size (" +
                                     std::to_string(max_frame_size_) +
                                     "); raise max-frame-size or send smaller frames");
  }
  if (fits(size)) return {};
  if (draining() || segments_.size() >= kMostMapped) {
    return fail(Code::kFull,
                "frames of two older sizes are still being read; release them before the size changes again");
  }
  const std::uint64_t kept = segments_.empty() ? 0 : segments_.back().spec.slot_size;
  const std::uint64_t wanted =
      std::max<std::uint64_t>({exact ? size : grown_size(size), outgrown_ ? kept : 0, kCacheLine});
  auto spec = plan(wanted);
  if (!spec) return tl::unexpected(spec.error());
  auto sealed = memory::create_sealed(name_ + "-data", static_cast<std::size_t>(spec->total_bytes),
                                      memory::Sharing::kReadOnly, allow_unsealed_);
  if (!sealed) return tl::unexpected(sealed.error());
  ++next_id_;
  Segment segment;
  segment.spec = *spec;
  segment.memory = std::make_shared<memory::SealedMemory>(std::move(*sealed));
  segments_.push_back(std::move(segment));
  free_.clear();  // slots of older segments are not lent any more
  FRAMELANE_CRASH_POINT("segment: made, before its slots are free");
  drop_unknown();
  outgrown_ = false;
  const Reserve first = first_unused(segments_.back(), sizes_.own_slots() + reserves_ * sizes_.reserve());
  prefault(first);
  use(first);
  untold_.store(true, std::memory_order_release);
  changed_.store(true, std::memory_order_release);
  return {};
}

void SlotPool::drop_unknown() noexcept {
  if (segments_.empty()) return;
  const auto newest = std::prev(segments_.end());
  segments_.erase(std::remove_if(segments_.begin(), newest,
                                 [](const Segment& segment) { return !segment.announced && segment.busy == 0; }),
                  newest);
}

SlotPool::Reserve SlotPool::first_unused(const Segment& segment, std::uint64_t count) noexcept {
  const std::uint64_t to = std::min<std::uint64_t>(segment.in_use + count, segment.spec.slot_count);
  return {segment.memory, segment.spec, segment.in_use, static_cast<std::uint32_t>(to)};
}

SlotPool::Reserve SlotPool::next_reserve(std::uint32_t connected) noexcept {
  if (connected <= reserves_) return {};
  reserves_ = connected;
  if (segments_.empty()) return {};
  return first_unused(segments_.back(), sizes_.reserve());
}

void SlotPool::prefault(const Reserve& reserve) noexcept {
  if (reserve.memory == nullptr || reserve.from == reserve.to) return;
  const SegmentSpec& spec = reserve.spec;
  const std::size_t count = reserve.to - reserve.from;
  const memory::Mapping& mapping = reserve.memory->mapping;
  memory::prefault(mapping, std::size_t{reserve.from} * spec.record_stride, count * spec.record_stride);
  memory::prefault(mapping, static_cast<std::size_t>(spec.slots_offset + reserve.from * spec.slot_stride),
                   static_cast<std::size_t>(count * spec.slot_stride));
}

void SlotPool::use(const Reserve& reserve) noexcept {
  if (reserve.memory == nullptr || segments_.empty()) return;
  Segment& segment = segments_.back();
  // A newer segment counts reserves_ itself.
  if (segment.spec.id != reserve.spec.id || segment.in_use != reserve.from) return;
  const SegmentSpec& spec = segment.spec;
  std::byte* const base = segment.memory->mapping.data();
  for (std::uint32_t i = reserve.to; i-- > reserve.from;) {  // the lowest comes out first
    const std::uint32_t slot = spec.first_slot + i;
    slots_[slot].data = base + spec.slots_offset + i * spec.slot_stride;
    slots_[slot].record = view_as<MetaRecord>(base + std::size_t{i} * spec.record_stride);
    slots_[slot].segment = spec.id;
    free_.push_back(static_cast<std::uint16_t>(slot));
  }
  segment.in_use = reserve.to;
  shown_slots_.store(segment.in_use, std::memory_order_relaxed);
  shown_slot_size_.store(spec.slot_size, std::memory_order_relaxed);
}

std::optional<SlotRef> SlotPool::take_free() noexcept {
  if (free_.empty()) return std::nullopt;
  const std::uint16_t slot = free_.back();
  free_.pop_back();
  Segment& segment = segments_.back();
  ++segment.busy;
  return SlotRef{slot, slots_[slot].data, static_cast<std::uint32_t>(segment.spec.slot_size)};
}

SlotPool::Segment* SlotPool::segment_of(std::uint16_t slot) noexcept {
  for (Segment& segment : segments_) {
    if (segment.spec.id == slots_[slot].segment) return &segment;
  }
  return nullptr;
}

void SlotPool::give_back(std::uint16_t slot) noexcept {
  Segment* const segment = segment_of(slot);
  if (segment == nullptr) return;
  --segment->busy;
  if (segment == &segments_.back()) {
    free_.push_back(slot);
  } else if (segment->busy == 0) {
    changed_.store(true, std::memory_order_release);
  }
}

SlotPool::Segment* SlotPool::unannounced() noexcept {
  for (Segment& segment : segments_) {
    if (!segment.announced) return &segment;
  }
  return nullptr;
}

SlotPool::Segment* SlotPool::drained() noexcept {
  for (Segment& segment : segments_) {
    if (&segment != &segments_.back() && segment.busy == 0) return &segment;
  }
  return nullptr;
}

void SlotPool::drop(std::uint32_t id) noexcept {
  std::erase_if(segments_, [id](const Segment& segment) { return segment.spec.id == id; });
}

}  // namespace framelane::ring
