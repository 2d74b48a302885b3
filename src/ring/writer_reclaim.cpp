// SPDX-License-Identifier: MIT
// Reclaiming: R0 to R4 of the ring's README, consumers that join and leave. Every private function here runs under the
// mutex.
#include <algorithm>

#include "base/clock.hpp"
#include "base/crash_point.hpp"
#include "base/fence.hpp"
#include "base/futex.hpp"
#include "ring/writer.hpp"

namespace framelane::ring {

// --- cursors

void Writer::refresh_cursors() noexcept {
  for (const auto& link : table_.links()) {
    if (link->may_gate && !link->broken) read_cursor(*link);
  }
  update_gate();
}

void Writer::read_cursor(ConsumerLink& link) noexcept {
  // SYNC TAKE (acquire side): the consumer's hold bit comes before its cursor, so a cursor behind an entry means that
  // the bit is there for R4 to see. relaxed could show the cursor without the bit, and the slot would be reused under
  // the reader.
  const std::uint64_t cursor_untrusted = link.page->cursor.load(std::memory_order_acquire);
  // SYNC HEAD (acquire side): after the cursor, so that the head is never older than what the consumer took.
  const std::uint64_t head = head_.load(std::memory_order_acquire);
  if (cursor_untrusted < link.cursor || cursor_untrusted > head) {
    break_protocol(link, "cursor");
    return;
  }
  FRAMELANE_CRASH_POINT("R1: cursor read");
  if (cursor_untrusted != link.cursor) link.waited_since = 0;
  link.cursor = cursor_untrusted;
  if (!link.demoted) return;
  // Entries, not frames: a consumer that stopped before a ring full of markers is no frame behind, and would be waited
  // for again at once, for ever.
  if (head - link.cursor > burst_.load(std::memory_order_relaxed) / 2) return;
  link.demoted = false;
  link.gates = true;
  FRAMELANE_CRASH_POINT("demote: gates again, before it is told");
  control_.demoted(link.id, false);
}

void Writer::update_gate() noexcept {
  gate_cursor_ = kNobody;
  for (const auto& link : table_.links()) {
    if (link->gates) gate_cursor_ = std::min(gate_cursor_, link->cursor);
  }
  // A consumer that was passed over still has an old cursor; what it can still get begins at the oldest entry.
  const std::uint64_t oldest = oldest_.load(std::memory_order_relaxed);
  const std::uint64_t frames = gate_cursor_ == kNobody ? kNobody : frames_before(std::max(gate_cursor_, oldest));
  gate_frames_.store(frames, std::memory_order_relaxed);
}

std::shared_ptr<ConsumerLink> Writer::slowest() const noexcept {
  for (const auto& link : table_.links()) {
    if (link->gates && link->cursor == gate_cursor_) return link;
  }
  return nullptr;
}

void Writer::demote(ConsumerLink& link) noexcept {
  link.gates = false;
  link.demoted = true;
  link.waited_since = 0;
  demotions_.fetch_add(1, std::memory_order_relaxed);
  FRAMELANE_CRASH_POINT("demote: before it is told");
  control_.demoted(link.id, true);
  FRAMELANE_CRASH_POINT("demote: told, before the gate moves");
  update_gate();
}

void Writer::break_protocol(ConsumerLink& link, std::string_view field) noexcept {
  link.broken = true;
  link.gates = false;
  link.demoted = false;
  control_.broke_protocol(link.id, field);
}

// --- retire and free

void Writer::reclaim() noexcept {
  refresh_cursors();
  if (retire(kRetireAhead, Floor::kKeepNewest) == 0) free_unheld();
}

// R0: the newest frames stay, so that a paused consumer that doesn't gate has the burst, too. Where all gate, R1 keeps
// what they haven't read, and slots that were read are better reused while they are in the cache.
std::uint64_t Writer::kept_newest() const noexcept {
  const std::uint64_t history = settings_.sizes.history;
  const auto& links = table_.links();
  const bool all_gate = !links.empty() && std::all_of(links.begin(), links.end(), [](const auto& link) {
    return link->gates || link->broken || link->gone.load(std::memory_order_relaxed);
  });
  return all_gate ? std::max<std::uint64_t>(history, 1) : burst_.load(std::memory_order_relaxed) + history;
}

std::uint32_t Writer::retire(std::uint32_t most, Floor floor) noexcept {
  const std::uint64_t head = head_.load(std::memory_order_acquire);
  const std::uint64_t newest = floor == Floor::kKeepNewest ? kept_newest() : 1;
  const std::uint64_t first = oldest_.load(std::memory_order_relaxed);
  std::uint64_t seq = first;
  for (; seq - first < most && seq < head; ++seq) {
    if (floor != Floor::kNone && frames_before(head) - frames_before(seq) <= newest) break;
    if (gate_cursor_ <= seq) break;  // R1
    mark_retired(seq);
  }
  if (seq != first) finish_retire(seq);
  return static_cast<std::uint32_t>(seq - first);
}

void Writer::mark_retired(std::uint64_t seq) noexcept {
  Entry& line = entry(seq);
  line.tag.store(line.tag.load(std::memory_order_relaxed) | kTagRetired, std::memory_order_release);  // R2
  FRAMELANE_CRASH_POINT("R2: tag retired");
  const std::uint16_t slot = slot_of_entry_[place_of(seq)];
  if (slot != kNoSlot) held_.push_back(slot);
}

void Writer::finish_retire(std::uint64_t oldest) noexcept {
  oldest_frames_.store(frames_before(oldest), std::memory_order_relaxed);
  FRAMELANE_CRASH_POINT("R2: all tags retired, before oldest_live");
  header_->oldest_live.store(oldest, std::memory_order_release);
  FRAMELANE_CRASH_POINT("R2: oldest_live moved, before the producer's own");
  // SYNC OLDEST (release side): last, since the publishing thread doesn't take the mutex to look at it. If it saw room
  // before oldest_live says so, a reader that finds its entry overwritten would find no oldest_live beyond it.
  oldest_.store(oldest, std::memory_order_release);
  update_gate();
  FRAMELANE_CRASH_POINT("R3: before the fence");
  // R3. SYNC HOLD (producer side): RETIRED in the tag, then the hold bits; the consumer sets its bit, then looks at the
  // tag again. Without the full fence both can miss each other, and the slot is reused under the reader.
  base::full_fence();
  FRAMELANE_CRASH_POINT("R4: before the look at the hold bits");
  free_unheld();
}

void Writer::pass_over_one() noexcept {
  FRAMELANE_CRASH_POINT("pass over: begun");
  // From the oldest through the first frame that a slow consumer hasn't read: exactly one unread frame goes.
  const std::uint64_t head = head_.load(std::memory_order_relaxed);
  std::uint64_t seq = oldest_.load(std::memory_order_relaxed);
  for (bool unread = false; !unread && seq < head; ++seq) {
    unread = gate_cursor_ <= seq && frames_before(seq + 1) != frames_before(seq);
    mark_retired(seq);
    if (unread) passed_over_.fetch_add(1, std::memory_order_relaxed);
  }
  finish_retire(seq);
}

void Writer::drop_unread() noexcept {
  const Lock lock(mutex_);
  // All of it: the publishing thread is here, so no entry is half published. Whoever holds a slot keeps it.
  const std::uint64_t head = head_.load(std::memory_order_relaxed);
  const std::uint64_t oldest = oldest_.load(std::memory_order_relaxed);
  for (std::uint64_t seq = oldest; seq < head; ++seq) mark_retired(seq);
  FRAMELANE_CRASH_POINT("flush: all tags retired");
  if (oldest != head) finish_retire(head);
}

void Writer::free_unheld() noexcept {  // R4
  std::erase_if(held_, [this](std::uint16_t slot) {
    if (is_held(slot)) {
      FRAMELANE_CRASH_POINT("R4: slot held");
      return false;
    }
    FRAMELANE_CRASH_POINT("R4: slot not held, before it is free");
    free_slot(slot);
    return true;
  });
}

bool Writer::is_held(std::uint16_t slot) noexcept {
  bool held = false;
  for (const auto& link : table_.links()) {
    if (link->broken || !link->holds(slot)) continue;
    if (link->holds_too_many()) {
      break_protocol(*link, "holds");
    } else {
      held = true;
    }
  }
  return held;
}

void Writer::free_slot(std::uint16_t slot) noexcept {
  if (kept_[slot].load(std::memory_order_relaxed) == Keep::kNo) {
    pool_.give_back(slot);
    return;
  }
  kept_[slot].store(Keep::kReclaimed, std::memory_order_relaxed);
  add(lent_, 1);
  kept_free_.push_back(slot);
}

void Writer::reclaimed(std::vector<std::uint16_t>& slots) {
  const Lock lock(mutex_);
  reclaim();
  for (const std::uint16_t slot : kept_free_) kept_[slot].store(Keep::kNo, std::memory_order_relaxed);
  slots.insert(slots.end(), kept_free_.begin(), kept_free_.end());
  kept_free_.clear();
}

// --- consumers

Result<ConsumerId> Writer::add_consumer(const JoinWish& wish, const std::function<void(const Joined&)>& welcome) {
  auto memory =
      memory::create_sealed(settings_.name + "-consumer", sizeof(ConsumerPage), memory::Sharing::kReadWrite, false);
  if (!memory) return tl::unexpected(memory.error());
  memory::prefault(memory->mapping, 0, sizeof(ConsumerPage));
  auto link = std::make_shared<ConsumerLink>();
  FRAMELANE_CRASH_POINT("join: page made");
  link->page = view_as<ConsumerPage>(memory->mapping.data());
  link->memory = std::move(*memory);
  link->stand_in = wish.stand_in;
  link->may_gate = link->gates = wish.gating;
  link->max_held = std::min(wish.max_held, settings_.sizes.max_held);

  Lock lock(mutex_);
  const auto connected = static_cast<std::uint32_t>(table_.links().size());
  if (connected >= settings_.sizes.max_consumers) {
    return fail(Code::kFull,
                "the lane has its " + std::to_string(connected) + " consumers; raise max-consumers or end one");
  }
  SlotPool::Reserve reserve = pool_.next_reserve(connected + 1);
  lock.unlock();
  SlotPool::prefault(reserve);
  lock.lock();
  pool_.use(reserve);

  link->id = next_consumer_++;
  link->colour = table_.free_colour();
  const std::uint64_t head = head_.load(std::memory_order_acquire);
  std::uint64_t start = head;
  const std::uint64_t frames = frames_before(head);
  const std::uint64_t oldest = oldest_.load(std::memory_order_relaxed);
  const bool flushing = (stops_.load(std::memory_order_seq_cst) & kStopFlush) != 0;
  const std::uint64_t first = flushing ? head : std::max(oldest, barrier_);
  while (start > first && frames - frames_before(start - 1) <= settings_.sizes.history) --start;
  if (wish.resume_untrusted != 0 && wish.resume_untrusted <= head) start = std::max(first, wish.resume_untrusted);
  // Many messages after the end may have overwritten its marker: then the joiner has to be told of it.
  const bool ended = end_ != kNobody && end_ < oldest;
  if (!ended) start = std::min(start, end_);
  link->start = link->cursor = start;
  link->page->cursor.store(start, std::memory_order_release);
  FRAMELANE_CRASH_POINT("join: cursor written, before the WELCOME");
  welcome({link->id, link->colour, link->max_held, start, numbers_[place_of(start)], ended, link->memory.fd.get(),
           &pool_.segments(), link});
  FRAMELANE_CRASH_POINT("join: WELCOME queued, before the table");
  table_.add(link);
  FRAMELANE_CRASH_POINT("join: in the table");
  update_gate();
  return link->id;
}

void Writer::remove_consumer(ConsumerId id) noexcept {
  const Lock lock(mutex_);
  FRAMELANE_CRASH_POINT("leave: before the table");
  table_.remove(id);
  FRAMELANE_CRASH_POINT("leave: out of the table, before the gate moves");
  update_gate();
}

bool Writer::free_pages() noexcept {
  const Lock lock(mutex_);
  return table_.purge();
}

void Writer::stop_gating(ConsumerId id) noexcept {
  const Lock lock(mutex_);
  const auto link = table_.find(id);
  if (link == nullptr) return;
  link->may_gate = link->gates = link->demoted = false;
  FRAMELANE_CRASH_POINT("leave: gates no more, its page stays");
  update_gate();
  link->gone.store(true, std::memory_order_seq_cst);
  link->page->producer_waiting.store(0, std::memory_order_seq_cst);
  base::futex_wake(link->page->producer_waiting, 1);
}

// --- statistics

WriterCounters Writer::counters() const noexcept {
  constexpr auto relaxed = std::memory_order_relaxed;
  return {frames_.load(relaxed),     bytes_.load(relaxed), dropped_full_.load(relaxed), passed_over_.load(relaxed),
          full_waits_.load(relaxed), wakes_.load(relaxed), demotions_.load(relaxed)};
}

void Writer::inspect(const std::function<void(const std::vector<std::shared_ptr<ConsumerLink>>&, const SlotPool&,
                                              std::uint32_t)>& look) const {
  const Lock lock(mutex_);
  look(table_.links(), pool_, loans());
}

std::uint64_t Writer::lag(const ConsumerLink& link) const noexcept {
  // First, so that what is published and taken while this thread stands still doesn't count: this is never too much.
  const std::uint64_t frames = frames_.load(std::memory_order_acquire);
  const std::uint64_t cursor_untrusted = link.page->cursor.load(std::memory_order_acquire);
  if (cursor_untrusted > head_.load(std::memory_order_acquire)) return 0;
  std::uint64_t taken = oldest_frames_.load(std::memory_order_relaxed);
  if (cursor_untrusted > oldest_.load(std::memory_order_acquire)) {
    const std::uint64_t before = frames_before(cursor_untrusted);
    // The publish that overwrites that place has a fence between its predecessor's head and it (P5), so its number
    // would come with its predecessor's head. Then the consumer was lapped, and what is oldest counts.
    base::acquire_fence();
    const bool lapped = head_.load(std::memory_order_relaxed) - cursor_untrusted >= std::uint64_t{entry_count()} - 1;
    taken = lapped ? oldest_frames_.load(std::memory_order_relaxed) : before;
  }
  return frames > taken ? frames - taken : 0;
}

}  // namespace framelane::ring
