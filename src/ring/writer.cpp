// SPDX-License-Identifier: MIT
// Publishing: P1 to P5 of the ring's README, and the waits of a full ring. Reclaiming is in writer_reclaim.cpp.
#include "ring/writer.hpp"

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/clock.hpp"
#include "base/crash_point.hpp"
#include "base/fence.hpp"
#include "base/futex.hpp"

namespace framelane::ring {
namespace {

constexpr std::int64_t kWatchdogNs = 200'000'000;  // a lost wake costs this much and no more
constexpr std::int64_t kFastFrameNs = 50'000;      // closer together than this, only every 16th frame is stamped
constexpr std::uint32_t kSparseStamps = 16;
// From this size on, a slot that is still in the cache saves more than reclaiming for each loan costs (0.1 µs):
// without it, frames of 3 MB go through all slots in turn, and thereby through memory.
constexpr std::uint64_t kReuseHotFrom = 32 << 10;
constexpr int kTriesWithoutWait = 1000;  // of a publish that must not wait for the mutex

std::uint32_t entries_for(const PoolSizes& sizes, std::uint32_t most_burst) {
  const std::uint64_t frames = std::uint64_t{std::max(sizes.burst, most_burst)} + sizes.history + kSpareEntries;
  return static_cast<std::uint32_t>(std::bit_ceil(2 * frames));
}

}  // namespace

Result<std::unique_ptr<Writer>> Writer::create(WriterSettings settings, const std::array<std::uint8_t, 16>& instance_id,
                                               ControlOut& control) {
  if (auto fits = settings.sizes.check(); !fits) return tl::unexpected(fits.error());
  const std::uint32_t entries = entries_for(settings.sizes, settings.most_burst);
  if (entries > kMaxEntries)
    return fail(Code::kInvalidArgument, "burst and history are too large for one ring; lower them");
  auto memory = memory::create_sealed(settings.name + "-ring", ring_bytes(entries), memory::Sharing::kReadOnly,
                                      settings.allow_unsealed);
  if (!memory) return tl::unexpected(memory.error());
  auto* const header = new (memory->mapping.data()) RingHeader{};
  header->magic = kRingMagic;
  header->abi_version = kAbiVersion;
  header->byte_order = kByteOrderMark;
  header->header_size = kEntriesOffset;
  header->entry_size = sizeof(Entry);
  header->entry_count = entries;
  header->page_size = sizeof(ConsumerPage);
  std::copy(instance_id.begin(), instance_id.end(), header->instance_id);
  header->oldest_live.store(entries, std::memory_order_release);
  return std::unique_ptr<Writer>(new Writer(std::move(settings), std::move(*memory), control));
}

Writer::Writer(WriterSettings settings, memory::SealedMemory memory, ControlOut& control)
    : settings_(std::move(settings)),
      control_(control),
      memory_(std::move(memory)),
      header_(view_as<RingHeader>(memory_.mapping.data())),
      entries_(view_as<Entry>(memory_.mapping.data() + kEntriesOffset)),
      mask_(header_->entry_count - 1),
      when_full_(settings_.when_full),
      pool_(settings_.name, settings_.sizes, settings_.max_frame_size, settings_.allow_unsealed),
      spinner_(settings_.spin, settings_.spin_budget) {
  // The first number is E, so that the zeroes of a new ring are older than anything that is expected.
  const std::uint64_t first = entry_count();
  head_ = first;
  oldest_ = first;
  barrier_ = first;
  burst_ = settings_.sizes.burst;
  frames_before_ = std::make_unique<std::atomic<std::uint64_t>[]>(entry_count());
  slot_of_entry_.assign(entry_count(), kNoSlot);
  numbers_.resize(entry_count());
  held_.reserve(kMaxSlots);
  kept_free_.reserve(kMaxSlots);
  kept_ = std::make_unique<std::atomic<Keep>[]>(kMaxSlots);
}

// --- slots

Result<void> Writer::reserve(std::uint64_t slot_size) {
  const Lock lock(mutex_);
  return pool_.ensure(slot_size, true);
}

Result<SlotRef> Writer::loan(std::uint64_t size) {
  const Lock lock(mutex_);
  if (loans() >= settings_.sizes.max_loans) reclaim();
  if (loans() >= settings_.sizes.max_loans) {
    return fail(Code::kFull, "all " + std::to_string(settings_.sizes.max_loans) +
                                 " loans are out; publish or discard one, or raise max-loans");
  }
  if (!pool_.fits(size)) {
    reclaim();
    // Only a frame of the new size could push the newest ones out, and it has no place before they are gone.
    while (pool_.draining() && retire(kRetireAhead, Floor::kKeepLast) != 0) {
    }
    if (auto ready = pool_.ensure(size, false); !ready) return tl::unexpected(ready.error());
  }
  // Not in try_loan(): reclaiming may tell a consumer that it is demoted no more, which calls the system.
  if (pool_.slot_size() >= kReuseHotFrom) reclaim();
  const auto slot = lend();
  if (!slot) return fail(Code::kFull, "no slot is free; release frames, or raise burst or max-held");
  return *slot;
}

std::optional<SlotRef> Writer::lend() noexcept {
  auto slot = pool_.take_free();
  if (!slot) {
    reclaim();
    slot = pool_.take_free();
  }
  if (slot) {
    add(lent_, 1);
    add(handed_, 1);
    FRAMELANE_CRASH_POINT("loan: lent");
  }
  return slot;
}

bool Writer::draining() const noexcept {
  const Lock lock(mutex_);
  return pool_.draining();
}

std::optional<SlotRef> Writer::try_loan(std::uint64_t size) {
  const Lock lock(mutex_, std::try_to_lock);
  if (!lock.owns_lock() || !pool_.fits(size) || loans() >= settings_.sizes.max_loans) return std::nullopt;
  return lend();
}

void Writer::discard(std::uint16_t slot) noexcept {
  const Lock lock(mutex_);
  const Keep keep = kept_[slot].exchange(Keep::kNo, std::memory_order_relaxed);
  add(handed_, ~0u);
  if (keep == Keep::kInRing) return;  // free_slot() gives it back
  if (keep == Keep::kReclaimed) std::erase(kept_free_, slot);
  FRAMELANE_CRASH_POINT("discard: before the slot is free");
  add(lent_, ~0u);
  pool_.give_back(slot);
}

Result<void> Writer::set_burst(std::uint32_t burst) {
  const Lock lock(mutex_);
  PoolSizes wanted = pool_.sizes();
  wanted.burst = burst;
  if (auto fits = wanted.check(); !fits) return fits;
  if (entries_for(wanted, 0) > entry_count()) {
    return fail(Code::kInvalidArgument,
                "a burst of " + std::to_string(burst) + " frames is more than this lane's ring was made for");
  }
  pool_.set_burst(burst);
  burst_.store(burst, std::memory_order_relaxed);
  return {};
}

// --- publish

bool Writer::has_entry_room() const noexcept {
  // An entry is retired 8 publishes before it is overwritten: a tag stored last isn't enough, a slow reader's copy
  // could mix two frames.
  // SYNC OLDEST (acquire side): another thread may have retired. Its marks in the tags, the oldest_live that a lapped
  // reader looks up, and its last reads of our tables all come before we overwrite what belongs to a retired entry;
  // relaxed would let RETIRED land on the tag of the new frame.
  return head_.load(std::memory_order_relaxed) + kRetireAhead < oldest_.load(std::memory_order_acquire) + entry_count();
}

bool Writer::has_frame_room() const noexcept {
  const std::uint64_t frames = frames_before(head_.load(std::memory_order_relaxed));
  const std::uint64_t gate = gate_frames_.load(std::memory_order_relaxed);
  const std::uint64_t burst = burst_.load(std::memory_order_relaxed);
  const bool gate_open = gate == kNobody || frames - gate < burst;
  return gate_open &&
         frames - oldest_frames_.load(std::memory_order_relaxed) < burst + settings_.sizes.history + kRetireAhead;
}

// One function to the compiler, with what is unusual kept out of it: see Reader::poll.
[[gnu::flatten]] Result<bool> Writer::publish(const Outgoing& frame) {
  // A publish that must not call the system leaves a drained segment to the next one that may.
  if (frame.wake ? segments_changed() : pool_.untold()) {
    if (auto told = announce_segments(); !told) return tl::unexpected(told.error());
  }
  if (!has_entry_room() || !has_frame_room()) {  // P1
    auto room = make_room(frame.wake);
    if (!room) return room;
    if (!*room) {
      dropped_full_.fetch_add(1, std::memory_order_relaxed);
      return false;
    }
  }
  if (frame.slot == nullptr) {
    write_entry(kTagInline, frame, 0, frame.wake);
    return true;
  }
  const std::uint16_t slot = frame.slot->slot;
  write_record(slot, frame);
  kept_[slot].store(frame.keep ? Keep::kInRing : Keep::kNo, std::memory_order_relaxed);
  add(published_, 1);
  if (!frame.keep) add(taken_back_, 1);
  FRAMELANE_CRASH_POINT("P2: record written");
  base::streaming_store_fence();  // P2
  write_entry(frame.side_data.empty() ? 0 : kTagSideData, frame, slot, frame.wake);
  return true;
}

void Writer::write_record(std::uint16_t slot, const Outgoing& frame) noexcept {
  const format::FrameInfo& info = *frame.info;
  MetaRecord& record = pool_.record(slot);
  record.pts = info.pts;
  record.dts = info.dts;
  record.duration = info.duration;
  record.offset = info.offset;
  record.offset_end = info.offset_end;
  record.flags = info.flags;
  record.type_id = info.type_id;
  record.capture_ns = info.capture_ns;
  record.extra_size = static_cast<std::uint32_t>(frame.side_data.size());
  if (!frame.side_data.empty()) std::memcpy(&record + 1, frame.side_data.data(), frame.side_data.size());
}

void Writer::write_entry(std::uint16_t flags, const Outgoing& frame, std::uint16_t slot, bool wake) {
  constexpr auto relaxed = std::memory_order_relaxed;
  const std::uint64_t seq = head_.load(relaxed);
  const std::size_t next = place_of(seq + 1);
  const bool is_frame = (flags & kTagMarker) == 0;
  const std::uint64_t frames = frames_before(seq) + (is_frame ? 1 : 0);
  frames_before_[next].store(frames, relaxed);
  if (is_frame) {
    frames_.store(frames, relaxed);
    bytes_.store(bytes_.load(relaxed) + frame.size, relaxed);
  }
  numbers_[next] = number_;
  slot_of_entry_[place_of(seq)] = (flags & (kTagInline | kTagMarker)) == 0 ? slot : kNoSlot;

  const std::int64_t publish_ns = is_frame ? stamp() : 0;
  // From here to the tag in one go: a consumer that polls this line takes it away between two stores that are far
  // apart.
  Entry& line = entry(seq);
  line.size_slot.store(pack_size_slot(frame.size, slot, static_cast<std::uint16_t>(number_)), relaxed);  // P3
  FRAMELANE_CRASH_POINT("P3: words half written");
  line.due_ns.store(frame.info->due_ns, relaxed);
  line.publish_ns.store(publish_ns, relaxed);
  if ((flags & kTagInline) != 0) {
    for (std::size_t i = 0; i < std::size(line.inline_words); ++i) {
      std::uint64_t word;
      std::memcpy(&word, frame.inline_bytes + i * sizeof word, sizeof word);
      line.inline_words[i].store(word, relaxed);
    }
  }
  FRAMELANE_CRASH_POINT("P3: words written, before the head");
  // SYNC HEAD (release side): before the tag, so that whoever sees a consumer's cursor behind this entry also sees the
  // head behind it. After the tag, a fast consumer would seem to be ahead of the producer and be evicted.
  head_.store(seq + 1, std::memory_order_release);
  table_.begin_publish();
  FRAMELANE_CRASH_POINT("P4: before the tag");
  // SYNC PUBLISH (release side): the entry's words and the slot's bytes come before the tag. relaxed would show a
  // consumer a frame that isn't written yet.
  line.tag.store(make_tag(seq, flags), std::memory_order_release);  // P4
  FRAMELANE_CRASH_POINT("P5: tag stored, before the look at sleepers");
  const std::uint32_t woken = table_.finish_publish(wake);  // P5
  FRAMELANE_CRASH_POINT("P5: sleepers woken");
  if (woken != 0) wakes_.fetch_add(woken, relaxed);
}

std::int64_t Writer::stamp() noexcept {
  if (settings_.stamps == StampKind::kOff) return 0;
  if (settings_.stamps == StampKind::kAuto && ++unstamped_ < stamp_every_) return 0;
  const std::int64_t now = base::monotonic_ns();
  if (settings_.stamps == StampKind::kOn) return now;
  // Sixteen close frames in a row make stamps sparse; one gap makes them dense again.
  const bool fast = now - last_stamp_ns_ < kFastFrameNs * static_cast<std::int64_t>(unstamped_);
  fast_stamps_ = fast ? std::min(fast_stamps_ + 1, kSparseStamps) : 0;
  stamp_every_ = fast_stamps_ == kSparseStamps ? kSparseStamps : 1;
  unstamped_ = 0;
  last_stamp_ns_ = now;
  return now;
}

[[gnu::noinline]] Result<bool> Writer::make_room(bool may_block) {
  Lock lock(mutex_, std::defer_lock);
  if (may_block) {
    lock.lock();
  } else {
    for (int tries = 0; !lock.try_lock(); ++tries) {
      if (tries == kTriesWithoutWait) return false;  // whoever has it is being preempted; waiting could take any time
      base::cpu_relax();
    }
  }
  std::int64_t deadline = 0;
  for (;;) {
    FRAMELANE_CRASH_POINT("P1: no room");
    const WhenFull policy = when_full_.load(std::memory_order_relaxed);
    refresh_cursors();
    const std::uint32_t retired = retire(kRetireAhead, has_entry_room() ? Floor::kKeepNewest : Floor::kNone);
    if (has_entry_room() && has_frame_room()) return true;
    if (retired != 0) continue;  // a smaller burst can leave more than one turn's worth
    if (policy == WhenFull::kDropNew) {
      if (!demote_if_stalled()) return false;
      continue;
    }
    if (policy == WhenFull::kPassOver) {
      pass_over_one();
      continue;
    }
    if (interrupted()) return fail(Code::kInterrupted);
    if (deadline == 0) {
      full_waits_.fetch_add(1, std::memory_order_relaxed);
      deadline = base::deadline_after(std::chrono::nanoseconds(settings_.full_timeout_ns));
    }
    switch (wait_for_slowest(lock, deadline, true)) {
      case WaitEnd::kMoved:
        continue;
      case WaitEnd::kTimedOut:
        return false;
      case WaitEnd::kInterrupted:
        return fail(Code::kInterrupted);
    }
  }
}

// --- markers

Result<void> Writer::make_marker_room() {
  if (has_entry_room()) return {};
  Lock lock(mutex_);
  std::int64_t deadline = 0;
  for (;;) {
    refresh_cursors();
    retire(kRetireAhead, Floor::kNone);
    if (has_entry_room()) return {};
    if (deadline == 0) deadline = base::deadline_after(std::chrono::nanoseconds(settings_.full_timeout_ns));
    switch (wait_for_slowest(lock, deadline, true)) {
      case WaitEnd::kMoved:
        continue;
      case WaitEnd::kTimedOut:
        // No policy drops an event: a consumer that keeps one from being sent loses its say.
        if (const auto link = slowest()) demote(*link);
        continue;
      case WaitEnd::kInterrupted:
        return fail(Code::kInterrupted);
    }
  }
}

Result<void> Writer::publish_marker(const QueueMessage& queue, MarkerKind kind) {
  if (segments_changed()) {
    if (auto told = announce_segments(); !told) return told;
  }
  if (auto room = make_marker_room(); !room) return room;
  const Lock lock(mutex_);
  post_marker(queue, kind);
  return {};
}

void Writer::post_marker(const QueueMessage& queue, MarkerKind kind) {
  static constexpr format::FrameInfo kNoInfo{};
  const std::uint64_t seq = head_.load(std::memory_order_relaxed);
  FRAMELANE_CRASH_POINT("marker: before the message is queued");
  queue(++number_, seq);
  FRAMELANE_CRASH_POINT("marker: message queued, before the entry");
  if (kind == MarkerKind::kBarrier) barrier_ = seq + 1;
  end_ = kind == MarkerKind::kEnd ? seq : kind == MarkerKind::kBarrier ? kNobody : end_;
  write_entry(kTagMarker, {.info = &kNoInfo}, 0, true);
}

/// Whether a segment is to be announced or retired now. One is retired when all gating consumers have passed the last
/// barrier: who stands before it may have no memory for the segment which that announced, and take up the lane from
/// there in another way. Another barrier would keep it from the frames between.
bool Writer::segments_due() noexcept {
  const Lock lock(mutex_);
  if (pool_.unannounced() != nullptr) return true;
  pool_.clear_untold();
  if (pool_.drained() == nullptr) {
    pool_.clear_changed();
    return false;
  }
  refresh_cursors();
  if (gate_cursor_ >= barrier_) return true;
  look_again_at_ = head_.load(std::memory_order_relaxed) + kRetireAhead;
  return false;
}

[[gnu::noinline]] Result<void> Writer::announce_segments() {
  while (segments_due()) {
    if (auto room = make_marker_room(); !room) return room;
    const Lock lock(mutex_);
    if (SlotPool::Segment* const segment = pool_.unannounced()) {
      post_marker(
          [&](std::uint64_t number, std::uint64_t seq) {
            control_.add_segment(number, seq, segment->spec, segment->memory->fd.get());
          },
          MarkerKind::kBarrier);
      FRAMELANE_CRASH_POINT("segment: announced");
      segment->announced = true;
    } else if (const SlotPool::Segment* const old = pool_.drained()) {
      const std::uint32_t id = old->spec.id;
      post_marker([&](std::uint64_t number, std::uint64_t seq) { control_.retire_segment(number, seq, id); },
                  MarkerKind::kBarrier);
      FRAMELANE_CRASH_POINT("segment: retired, before it is dropped");
      pool_.drop(id);
    }
  }
  return {};
}

// --- waits

// A policy that never waits has to look at the clock itself, else one consumer that stands still starves all others for
// ever.
bool Writer::demote_if_stalled() noexcept {
  const std::shared_ptr<ConsumerLink> link = slowest();
  if (link == nullptr) return false;
  const std::int64_t now = base::monotonic_ns();
  if (link->waited_since == 0) link->waited_since = now;
  if (now - link->waited_since < settings_.stall_timeout_ns) return false;
  demote(*link);
  return true;
}

Writer::WaitEnd Writer::wait_for_slowest(Lock& lock, std::int64_t deadline_ns, bool may_demote) {
  const std::shared_ptr<ConsumerLink> link = slowest();
  if (link == nullptr) return WaitEnd::kMoved;
  const std::uint64_t seen = link->cursor;
  std::int64_t now = base::monotonic_ns();
  if (link->waited_since == 0 && may_demote) link->waited_since = now;
  const std::int64_t patience = may_demote ? settings_.stall_timeout_ns : base::kForever;
  const std::int64_t stall_at =
      patience > base::kForever - link->waited_since ? base::kForever : link->waited_since + patience;
  lock.unlock();
  sleep_until_moved(*link, seen, std::min({deadline_ns, stall_at, now + kWatchdogNs}));
  lock.lock();
  if (interrupted()) {
    link->waited_since = 0;  // a pause of the producer is no stall of the consumer
    return WaitEnd::kInterrupted;
  }
  refresh_cursors();
  const bool waited_for = link->gates && !link->gone.load(std::memory_order_acquire);
  if (link->cursor != seen || !waited_for) return WaitEnd::kMoved;  // it left or broke the protocol, perhaps
  now = base::monotonic_ns();
  if (now >= stall_at) {
    demote(*link);
    return WaitEnd::kMoved;
  }
  return now >= deadline_ns ? WaitEnd::kTimedOut : WaitEnd::kMoved;
}

void Writer::sleep_until_moved(ConsumerLink& link, std::uint64_t seen, std::int64_t until_ns) noexcept {
  const auto moved = [&] {
    return link.page->cursor.load(std::memory_order_acquire) != seen || link.gone.load(std::memory_order_acquire) ||
           interrupted();
  };
  if (spinner_.spin(moved, until_ns) || base::monotonic_ns() >= until_ns) return;
  // SYNC FULL (producer side): the flag, then the cursor again; the consumer stores its cursor, then looks at the flag.
  // Both are seq_cst, else each can miss the other and the producer sleeps although there is room.
  link.page->producer_waiting.store(1, std::memory_order_seq_cst);
  const bool still = link.page->cursor.load(std::memory_order_seq_cst) == seen &&
                     !link.gone.load(std::memory_order_seq_cst) && !interrupted();
  FRAMELANE_CRASH_POINT("full: flag set, before the sleep");
  if (still) base::futex_wait(link.page->producer_waiting, 1, until_ns);
  FRAMELANE_CRASH_POINT("full: woken, before the flag is cleared");
  link.page->producer_waiting.store(0, std::memory_order_relaxed);
}

Result<void> Writer::drain(std::int64_t deadline_ns) {
  Lock lock(mutex_);
  for (;;) {
    refresh_cursors();
    if (gate_cursor_ == kNobody || gate_cursor_ >= head_.load(std::memory_order_relaxed)) return {};
    if (interrupted()) return fail(Code::kInterrupted);
    switch (wait_for_slowest(lock, deadline_ns, false)) {
      case WaitEnd::kMoved:
        continue;
      case WaitEnd::kTimedOut:
        return fail(Code::kTimeout, "consumers have not taken every frame yet");
      case WaitEnd::kInterrupted:
        return fail(Code::kInterrupted);
    }
  }
}

void Writer::interrupt(Stop why) noexcept {
  stops_.fetch_or(why, std::memory_order_seq_cst);
  const Lock lock(mutex_);
  for (const auto& link : table_.links()) {
    link->page->producer_waiting.store(0, std::memory_order_seq_cst);
    base::futex_wake(link->page->producer_waiting, 1);
  }
}

void Writer::wake_consumers() noexcept {
  const Lock lock(mutex_);
  const std::uint32_t woken = table_.wake_sleepers();
  wakes_.fetch_add(woken, std::memory_order_relaxed);
}

}  // namespace framelane::ring
