// SPDX-License-Identifier: MIT
#include "ring/reader.hpp"

#include <algorithm>
#include <limits>
#include <utility>

#include "base/clock.hpp"
#include "base/crash_point.hpp"
#include "base/fence.hpp"
#include "base/futex.hpp"

namespace framelane::ring {
namespace {

constexpr std::int64_t kWatchdogNs = 200'000'000;  // a lost wake costs this much and no more

tl::unexpected<Error> broken(const std::string& what) {
  return fail(Code::kProtocol, "the producer broke the lane's protocol: " + what);
}

Result<void> check_header(const RingHeader& header_untrusted, const ReaderSettings& told) {
  const auto wrong = [](const char* field) { return broken(std::string("ring header field ") + field); };
  if (header_untrusted.magic != kRingMagic) return wrong("magic");
  if (header_untrusted.byte_order != kByteOrderMark) return wrong("byte_order");
  if (header_untrusted.abi_version != kAbiVersion) return wrong("abi_version");
  if (header_untrusted.header_size != kEntriesOffset) return wrong("header_size");
  if (header_untrusted.entry_size != sizeof(Entry)) return wrong("entry_size");
  if (header_untrusted.entry_count != told.entry_count) return wrong("entry_count");
  if (header_untrusted.page_size != sizeof(ConsumerPage)) return wrong("page_size");
  if (!std::equal(told.instance_id.begin(), told.instance_id.end(), header_untrusted.instance_id))
    return wrong("instance_id");
  return {};
}

}  // namespace

Result<std::unique_ptr<Reader>> Reader::create(ReaderSettings settings) {
  const std::uint32_t entries = settings.entry_count;
  if (entries < 2 * kSpareEntries || entries > kMaxEntries || (entries & (entries - 1)) != 0)
    return broken("entry_count");
  if (settings.ring.size() < ring_bytes(entries)) return broken("size of the ring segment");
  if (settings.page.size() < sizeof(ConsumerPage)) return broken("size of the consumer page");
  if (settings.colour >= kMaxConsumers) return broken("colour");
  if (settings.start < entries || settings.start > kSeqMask / 2) return broken("start");
  if (settings.start_number > settings.start - entries) return broken("number of the last control message");
  if (auto fine = check_header(*view_as<const RingHeader>(settings.ring.data()), settings); !fine)
    return tl::unexpected(fine.error());
  return std::unique_ptr<Reader>(new Reader(std::move(settings)));
}

Reader::Reader(ReaderSettings settings)
    : ring_(std::move(settings.ring)),
      page_mapping_(std::move(settings.page)),
      header_(view_as<const RingHeader>(ring_.data())),
      entries_(view_as<const Entry>(ring_.data() + kEntriesOffset)),
      page_(view_as<ConsumerPage>(page_mapping_.data())),
      mask_(settings.entry_count - 1),
      colour_(settings.colour),
      max_held_(settings.max_held),
      latest_(settings.latest),
      cursor_(settings.start),
      applied_(settings.start_number),
      next_index_(settings.start - settings.entry_count - settings.start_number),
      spinner_(settings.spin, settings.spin_budget),
      lock_(settings.lock) {}

Reader::~Reader() = default;

// --- take

bool Reader::ready() const noexcept {
  // seq_cst: between announce_sleep() and the sleep this load must not move before the ticket's store. On x86 it costs
  // nothing.
  const std::uint64_t tag = entry(cursor_).tag.load(std::memory_order_seq_cst);
  return seq_diff(tag_seq(tag), cursor_) >= 0;
}

// Everything that a take goes through when nothing is unusual is one function to the compiler (flatten), and what is
// unusual stays out of it (cold): calls and their spills were a third of a take.
[[gnu::flatten]] Result<Reader::Step> Reader::poll(Taken& taken, ControlIn& control) {
  // Bounded: a producer that laps us at each step, or only pretends to, must not keep us here.
  for (std::uint32_t tries = 0; tries <= mask_; ++tries) {
    if (latest_) walk_to_latest();
    // T1. SYNC PUBLISH (acquire side): the entry's words and the slot's bytes are read after the tag that announces
    // them.
    const std::uint64_t tag = entry(cursor_).tag.load(std::memory_order_acquire);
    const std::int64_t ahead = seq_diff(tag_seq(tag), cursor_);
    if (ahead < 0) return Step::kEmpty;
    if (ahead > 0 || (tag_flags(tag) & kTagRetired) != 0) {
      if (!skip(ahead > 0)) return tl::unexpected(fault_);
      continue;
    }
    FRAMELANE_CRASH_POINT("T1: tag seen");
    const Took took = take(tag, taken, control);
    if (took == Took::kYes) return Step::kTaken;
    if (took == Took::kFault) return tl::unexpected(fault_);
  }
  return Step::kEmpty;
}

Reader::Took Reader::take(std::uint64_t tag, Taken& taken, ControlIn& control) {
  constexpr auto relaxed = std::memory_order_relaxed;
  const Entry& line = entry(cursor_);
  const std::uint64_t size_slot = line.size_slot.load(relaxed);  // T2
  taken.due_ns = line.due_ns.load(relaxed);
  taken.publish_ns = line.publish_ns.load(relaxed);
  taken.marker = (tag_flags(tag) & kTagMarker) != 0;
  taken.is_inline = (tag_flags(tag) & kTagInline) != 0;
  taken.slot = static_cast<std::uint16_t>(size_slot >> 32);
  if (taken.is_inline) {
    for (std::size_t i = 0; i < std::size(line.inline_words); ++i) {
      taken.inline_words[i] = line.inline_words[i].load(relaxed);
    }
  }
  FRAMELANE_CRASH_POINT("T2: words copied");
  // SYNC LAPPED (acquire side): if one of these words is of a later frame, T4 finds the tag retired. For a slot, too:
  // the RMW of T3 is an acquire of the hold bits only, and says nothing of loads before it.
  base::acquire_fence();
  const bool in_slot = !taken.is_inline && !taken.marker;
  if (in_slot) {
    prefetch(taken.slot);
    if (taken.slot >= kMaxSlots || !set_hold(taken.slot)) {  // T3
      if (line.tag.load(std::memory_order_relaxed) != tag) return Took::kAgain;
      fault("slot", taken.slot, "of an entry is out of range or held already");
      return Took::kFault;
    }
  }
  FRAMELANE_CRASH_POINT("T3: hold bit set");
  // T4. SYNC HOLD (consumer side): our bit, then the tag again; the producer retires the tag, then looks for bits. An
  // unchanged tag means that the producer will see the bit before it reuses the slot. Anything weaker than seq_cst lets
  // both miss each other.
  if (line.tag.load(std::memory_order_seq_cst) != tag) {
    FRAMELANE_CRASH_POINT("T4: tag changed, before the bit is cleared");
    if (in_slot) release(taken.slot);
    return Took::kAgain;
  }
  FRAMELANE_CRASH_POINT("T4: tag unchanged");
  if (!finish_take(tag, size_slot, taken, control)) {
    if (in_slot) release(taken.slot);
    return Took::kFault;
  }
  FRAMELANE_CRASH_POINT("T6: before the cursor");
  // T6. SYNC TAKE (release side): the bit comes before the cursor. SYNC FULL (consumer side): the cursor comes before
  // the look at the flag.
  advance(cursor_ + 1);
  FRAMELANE_CRASH_POINT("T6: taken");
  return Took::kYes;
}

bool Reader::finish_take(std::uint64_t tag, std::uint64_t size_slot, Taken& taken, ControlIn& control) {
  const auto ctl = static_cast<std::uint16_t>(size_slot >> 48);
  taken.size = static_cast<std::uint32_t>(size_slot);
  taken.skipped = 0;
  taken.data = taken.record = nullptr;
  taken.side_data = 0;
  if (ctl != static_cast<std::uint16_t>(applied_) && !apply_up_to(ctl, control)) return false;  // T5
  if (taken.marker) return true;
  const std::uint64_t markers = applied_;  // each numbered message has one
  const std::uint64_t entries = cursor_ - (std::uint64_t{mask_} + 1);
  if (markers > entries || entries - markers < next_index_)
    return fault("number", markers, "of control messages before a frame");
  if (taken.is_inline) {
    if (taken.size > kInlineBytes) return fault("size", taken.size, "of an inline payload");
  } else if (!locate(taken)) {  // T5b
    return misplaced(taken);
  } else if ((tag_flags(tag) & kTagSideData) != 0 && !measure_side_data(taken)) {
    return false;
  }
  taken.index = entries - markers;
  taken.skipped = taken.index - next_index_;
  next_index_ = taken.index + 1;
  return true;
}

bool Reader::locate(Taken& taken) const noexcept {
  const Segment* const segment = segment_of(taken.slot);
  if (segment == nullptr || taken.size > segment->spec.slot_size) return false;
  const std::uint32_t i = taken.slot - segment->spec.first_slot;
  taken.data = segment->slots + i * segment->spec.slot_stride;
  taken.record = segment->mapping.data() + std::size_t{i} * segment->spec.record_stride;
  return true;
}

[[gnu::noinline]] bool Reader::measure_side_data(Taken& taken) {
  const auto* const record = view_as<const MetaRecord>(taken.record);
  // Read once: the producer could write another number between the check and the use.
  const std::uint32_t size_untrusted = __atomic_load_n(&record->extra_size, __ATOMIC_RELAXED);
  const std::size_t room = segment_of(taken.slot)->spec.record_stride - sizeof(MetaRecord);
  if (size_untrusted == 0 || size_untrusted > room)
    return fault("extra_size", size_untrusted, "of a frame's side data is none or beyond its record");
  taken.side_data = size_untrusted;
  return true;
}

void Reader::prefetch(std::uint16_t slot) const noexcept {
  // The payload's first line is on its way while the hold bit is set, whose locked instruction holds up plain loads.
  if (segments_.empty() || !segments_.back()->has(slot)) return;
  const Segment& newest = *segments_.back();
  __builtin_prefetch(newest.slots + (slot - newest.spec.first_slot) * newest.spec.slot_stride);
}

[[gnu::noinline, gnu::cold]] bool Reader::apply_up_to(std::uint16_t ctl, ControlIn& control) {
  FRAMELANE_CRASH_POINT("T5: before the messages");
  auto applied = control.apply_up_to(ctl);
  FRAMELANE_CRASH_POINT("T5: messages applied");
  if (applied) {
    applied_ = *applied;
  } else {
    fault_ = std::move(applied.error());
  }
  return applied.has_value();
}

[[gnu::noinline, gnu::cold]] bool Reader::misplaced(const Taken& taken) {
  if (segment_of(taken.slot) == nullptr) return fault("slot", taken.slot, "belongs to no segment");
  return fault("size", taken.size, "of a frame in a smaller slot");
}

[[gnu::noinline, gnu::cold]] bool Reader::fault(const char* field, std::uint64_t value, const char* what) {
  fault_ = broken(std::string(field) + ' ' + std::to_string(value) + ' ' + what).value();
  return false;
}

[[gnu::noinline, gnu::cold]] bool Reader::skip(bool overwritten) {
  const std::uint64_t oldest_untrusted = header_->oldest_live.load(std::memory_order_acquire);
  if (oldest_untrusted > kSeqMask / 2 || (overwritten && oldest_untrusted <= cursor_))
    return fault("oldest_live", oldest_untrusted, "");
  FRAMELANE_CRASH_POINT("skip: oldest_live read");
  // An entry is marked before oldest_live moves, so a retired one may still be the oldest: then just the next one.
  advance(std::max(cursor_ + 1, oldest_untrusted));
  return true;
}

void Reader::walk_to_latest() noexcept {
  std::uint64_t newest_frame = cursor_;
  std::uint64_t seq = cursor_;
  for (std::uint32_t step = 0; step <= mask_; ++step, ++seq) {
    const std::uint64_t tag = entry(seq).tag.load(std::memory_order_acquire);
    const std::int64_t ahead = seq_diff(tag_seq(tag), seq);
    if (ahead < 0) break;
    seq += static_cast<std::uint64_t>(ahead);  // lapped: the newest is here or behind it
    if ((tag_flags(tag) & (kTagRetired | kTagMarker)) == 0) newest_frame = seq;
  }
  FRAMELANE_CRASH_POINT("latest: walked to the newest");
  cursor_ = newest_frame;
}

void Reader::advance(std::uint64_t cursor) noexcept {
  cursor_ = cursor;
  page_->cursor.exchange(cursor, std::memory_order_seq_cst);
  FRAMELANE_CRASH_POINT("T6: cursor moved, before the look at the producer");
  wake_waiting_producer();
}

void Reader::wake_waiting_producer() noexcept {
  if (page_->producer_waiting.load(std::memory_order_seq_cst) == 0) return;
  if (page_->producer_waiting.exchange(0, std::memory_order_seq_cst) == 0) return;
  FRAMELANE_CRASH_POINT("full: flag taken, before the producer is woken");
  base::futex_wake(page_->producer_waiting, 1);
}

// --- holds

bool Reader::set_hold(std::uint16_t slot) noexcept {
  const std::uint32_t bit = 1u << (slot % 32);
  // Our own note first: the bit is in memory that the producer can write, too.
  if (is_held_[slot].load(std::memory_order_acquire)) return false;
  if ((page_->holds[slot / 32].fetch_or(bit, std::memory_order_seq_cst) & bit) != 0) return false;
  taken_.store(taken_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  is_held_[slot].store(true, std::memory_order_relaxed);
  return true;
}

bool Reader::release(std::uint16_t slot) noexcept {
  is_held_[slot].store(false, std::memory_order_release);
  FRAMELANE_CRASH_POINT("release: before the bit");
  // SYNC REUSE (release side): our last read of the slot comes before the producer's first write to it. relaxed would
  // let the producer scribble on a frame that is still being read.
  page_->holds[slot / 32].fetch_and(~(1u << (slot % 32)), std::memory_order_seq_cst);
  FRAMELANE_CRASH_POINT("release: bit cleared, before the look at the producer");
  wake_waiting_producer();
  // Last: held() must never be less than the bits, else several threads that stand here let the taking thread set more
  // of them than it may, and the producer ends the connection. And whoever counts to zero frees the page.
  return released_.fetch_add(1, std::memory_order_acq_rel) == -1;
}

bool Reader::leave() noexcept {
  // While the owner is here `released_` counts up from 0 and never ends at 0; from now on it counts from minus what is
  // held, and whoever brings it to 0 was the last.
  const std::int64_t taken = taken_.load(std::memory_order_relaxed);
  return released_.fetch_sub(taken, std::memory_order_acq_rel) == taken;
}

// --- segments

Result<void> Reader::add_segment(const SegmentSpec& spec_untrusted, memory::Mapping mapping) {
  const SegmentSpec& spec = spec_untrusted;
  const auto wrong = [&](const char* field) {
    return broken("segment " + std::to_string(spec.id) + ", field " + field);
  };
  if (spec.slot_count == 0 || spec.slot_count > kMaxSlots) return wrong("slot_count");
  if (spec.first_slot > kMaxSlots - spec.slot_count) return wrong("first_slot");
  if (spec.record_stride < sizeof(MetaRecord) || spec.record_stride % kCacheLine != 0 ||
      spec.record_stride > kMaxRecordStride)
    return wrong("record_stride");
  if (spec.slot_size == 0 || spec.slot_size > std::numeric_limits<std::uint32_t>::max()) return wrong("slot_size");
  if (spec.slot_stride < spec.slot_size || spec.slot_stride % kCacheLine != 0 ||
      spec.slot_stride > std::uint64_t{1} << 33)
    return wrong("slot_stride");
  if (spec.slots_offset % kCacheLine != 0 || spec.slots_offset < std::uint64_t{spec.slot_count} * spec.record_stride)
    return wrong("slots_offset");
  if (spec.total_bytes != mapping.size()) return wrong("total_bytes");
  if (spec.slots_offset > spec.total_bytes || spec.slot_count * spec.slot_stride > spec.total_bytes - spec.slots_offset)
    return wrong("slot_stride");
  unmap_retired();
  for (const auto& other : segments_) {
    if (other->retired) continue;
    const bool apart = spec.first_slot + spec.slot_count <= other->spec.first_slot ||
                       other->spec.first_slot + other->spec.slot_count <= spec.first_slot;
    if (!apart || other->spec.id == spec.id) return wrong("first_slot");
  }
  auto segment = std::make_unique<Segment>();
  segment->spec = spec;
  segment->mapping = std::move(mapping);
  segment->slots = segment->mapping.data() + spec.slots_offset;
  FRAMELANE_CRASH_POINT("segment: mapped");
  segments_.push_back(std::move(segment));
  return {};
}

Result<std::uint64_t> Reader::end_run(std::uint64_t number, std::uint64_t seq_untrusted) {
  // The entry that asked for this message is the marker itself or lies behind it.
  const std::uint64_t first = std::uint64_t{mask_} + 1;
  const std::uint64_t markers = number - 1;  // before it
  if (seq_untrusted > cursor_ || seq_untrusted < first + markers || seq_untrusted - first - markers < next_index_)
    return broken("sequence number " + std::to_string(seq_untrusted) + " of control message " + std::to_string(number));
  const std::uint64_t frames = seq_untrusted - first - markers;
  return frames - std::exchange(next_index_, frames);
}

Result<void> Reader::retire_segment(std::uint32_t id) {
  for (const auto& segment : segments_) {
    if (segment->spec.id != id || segment->retired) continue;
    FRAMELANE_CRASH_POINT("segment: retired, before it is unmapped");
    segment->retired = true;
    unmap_retired();
    return {};
  }
  return broken("segment " + std::to_string(id) + " was retired, but never added");
}

void Reader::unmap_retired() noexcept {
  std::erase_if(segments_, [this](const auto& segment) { return segment->retired && !is_read(*segment); });
}

bool Reader::is_read(const Segment& segment) const noexcept {
  const auto first = is_held_.begin() + segment.spec.first_slot;
  return std::any_of(first, first + segment.spec.slot_count,
                     [](const auto& held) { return held.load(std::memory_order_acquire); });
}

const Reader::Segment* Reader::segment_of(std::uint16_t slot) const noexcept {
  for (auto it = segments_.rbegin(); it != segments_.rend(); ++it) {
    if (!(*it)->retired && (*it)->has(slot)) return it->get();
  }
  return nullptr;
}

// --- sleep and wake

void Reader::announce_sleep() noexcept {
  if (++ticket_ == 0) ++ticket_;  // 0 means awake
  // SYNC WAKE (consumer side): the ticket, then the tag again (in ready()); the producer stores the tag, then looks for
  // tickets. Without seq_cst on both sides each can miss the other, and we sleep on a published frame.
  page_->waiting[colour_].ticket.store(ticket_, std::memory_order_seq_cst);
  FRAMELANE_CRASH_POINT("sleep: ticket stored");
}

void Reader::sleep(std::uint32_t word, std::int64_t deadline_ns) noexcept {
  count(page_->sleeps);
  const std::int64_t now = base::monotonic_ns();
  const std::int64_t at = spinner_.wake_at(now);
  // SYNC DOOR: from here on a stand-in may take with this Reader in our place, which only tries the lock. What it did
  // is ours to see when we have the lock again.
  if (lock_ != nullptr) lock_->unlock();
  FRAMELANE_CRASH_POINT("sleep: before the call");
  base::futex_wait(page_->wake_word, word, std::min({deadline_ns, now + kWatchdogNs, at}));
  FRAMELANE_CRASH_POINT("sleep: woken, before the ticket is cleared");
  if (lock_ != nullptr) lock_->lock();
  if (at == base::kForever) return;
  if (const std::int64_t woken = base::monotonic_ns(); woken >= at && !ready()) spinner_.woke(at, woken);
}

void Reader::wake() noexcept {
  page_->wake_word.fetch_add(1, std::memory_order_seq_cst);
  base::futex_wake(page_->wake_word, 1);
}

}  // namespace framelane::ring
