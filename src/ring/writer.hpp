// SPDX-License-Identifier: MIT
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "framelane/base/result.hpp"
#include "framelane/format/frame_info.hpp"

#include "base/cpu.hpp"
#include "ring/consumer_table.hpp"
#include "ring/layout.hpp"
#include "ring/slot_pool.hpp"
#include "ring/spinner.hpp"

namespace framelane::ring {

/// What happens to a frame when the ring is full.
enum class WhenFull : std::uint8_t { kWait, kDropNew, kPassOver };

enum class StampKind : std::uint8_t { kAuto, kOn, kOff };

struct WriterSettings {
  std::string name = {};
  PoolSizes sizes = {};
  std::uint32_t most_burst = 0;  // the entry ring is made for this many frames; 0 = sizes.burst
  std::uint64_t max_frame_size = 256u << 20;
  WhenFull when_full = WhenFull::kWait;
  std::int64_t full_timeout_ns = 1'000'000'000;   // base::kForever: no bound
  std::int64_t stall_timeout_ns = 5'000'000'000;  // base::kForever: never demotes
  StampKind stamps = StampKind::kAuto;
  SpinKind spin = SpinKind::kAdaptive;
  double spin_budget = 0.02;
  bool allow_unsealed = false;
};

/// What the ring asks of the control channel; the lane room implements it. Called with the Writer's mutex held: must
/// not block, and must not call the Writer.
class ControlOut {
 public:
  virtual ~ControlOut() = default;
  virtual void add_segment(std::uint64_t number, std::uint64_t seq, const SegmentSpec& spec, int fd) = 0;
  virtual void retire_segment(std::uint64_t number, std::uint64_t seq, std::uint32_t segment_id) = 0;
  virtual void demoted(ConsumerId id, bool demoted) = 0;
  /// The consumer wrote what it must not; its connection has to end. It is ignored from now on.
  virtual void broke_protocol(ConsumerId id, std::string_view field) = 0;
};

struct WriterCounters {
  std::uint64_t published = 0;
  std::uint64_t bytes = 0;  // of the payloads of those
  std::uint64_t dropped_full = 0;
  std::uint64_t passed_over = 0;
  std::uint64_t full_waits = 0;
  std::uint64_t wakes = 0;
  std::uint64_t demotions = 0;
};

/// What a consumer is granted when it joins.
struct JoinWish {
  bool gating = false;
  std::uint32_t max_held = 4;
  std::shared_ptr<StandIn> stand_in{};
  std::uint64_t resume_untrusted = 0;  // entry that it wants to begin with, if that is still there; 0: none
};

/// Producer's side of the ring. The step names P1..P5 and R0..R4 are those of the ring's README.
///
/// Threads:   publish, publish_marker and drain from one thread; all else from any thread.
/// Real time: publish and loan make no system call and no allocation while consumers keep up and are awake.
/// Units:     sizes are bytes; times are ns of CLOCK_MONOTONIC.
/// Errors:    each call lists its own.
class Writer {
 public:
  /// Errors: kInvalidArgument, kNoMemory, kUnsupported, kSystem.
  [[nodiscard]] static Result<std::unique_ptr<Writer>> create(WriterSettings settings,
                                                              const std::array<std::uint8_t, 16>& instance_id,
                                                              ControlOut& control);

  // --- slots; any thread
  /// Makes room for frames of `slot_size` bytes ahead of time. Errors: those of SlotPool::ensure().
  [[nodiscard]] Result<void> reserve(std::uint64_t slot_size);
  /// Errors: kFull (max-loans are out, or two older segments are in use), kTooLarge, kNoMemory.
  [[nodiscard]] Result<SlotRef> loan(std::uint64_t size);
  /// True while a larger loan fails only because frames of older sizes are still being read.
  [[nodiscard]] bool draining() const noexcept;
  /// Empty when the mutex is taken, no loan is left, or a new segment would be needed.
  [[nodiscard]] std::optional<SlotRef> try_loan(std::uint64_t size);
  /// Also of a kept slot that is still in the ring: then it comes back when no consumer reads it any more.
  void discard(std::uint16_t slot) noexcept;
  /// Slots that an owner can still reach: loans, and kept ones that are published.
  [[nodiscard]] std::uint32_t in_hands() const noexcept {
    return handed_.load(std::memory_order_relaxed) - taken_back_.load(std::memory_order_relaxed);
  }
  /// A kept slot that is in the ring or still read, or that reclaimed() hasn't named yet.
  [[nodiscard]] bool is_published(std::uint16_t slot) const noexcept {
    return kept_[slot].load(std::memory_order_relaxed) != Keep::kNo;
  }
  /// Appends the kept slots that no consumer reads any more (they are loans again).
  void reclaimed(std::vector<std::uint16_t>& slots);
  /// Errors: kInvalidArgument (more slots or entries than the lane can have).
  [[nodiscard]] Result<void> set_burst(std::uint32_t burst);
  void set_when_full(WhenFull policy) noexcept { when_full_.store(policy, std::memory_order_relaxed); }

  // --- publishing thread
  /// Begins to fetch the next entry's line, which a polling consumer has. A publish that follows within its flight (100
  /// to 250 ns) finds the line on its way: that hides the publish's own instructions. Otherwise the consumer gets it
  /// back.
  void prepare() const noexcept { base::prefetch_for_write(&entries_[head_.load(std::memory_order_relaxed) & mask_]); }
  struct Outgoing {
    const SlotRef* slot = nullptr;            // null: inline
    const std::byte* inline_bytes = nullptr;  // kInlineBytes of them, whatever the size
    std::uint32_t size = 0;
    const format::FrameInfo* info = nullptr;  // never null
    bool keep = false;                        // the owner goes on reading the slot: it comes back through reclaimed()
    bool wake = true;                         // false: no system call and no wait for a lock
    std::span<const std::byte> side_data{};   // at most sizes.max_side_data bytes; none with an inline payload
  };
  /// True: in the ring. False: dropped by policy, and counted; the slot is still on loan.
  /// Errors: kInterrupted.
  [[nodiscard]] Result<bool> publish(const Outgoing& frame);
  /// Puts the message on every connection's queue. Called under the mutex.
  using QueueMessage = std::function<void(std::uint64_t number, std::uint64_t seq)>;
  enum class MarkerKind : std::uint8_t {
    kPlain,
    kBarrier,  // a consumer that joins later doesn't start before it
    kEnd,      // end of stream: a consumer that joins later starts at it at the latest
  };
  /// Has the message queued, and then publishes its marker. Errors: kInterrupted.
  [[nodiscard]] Result<void> publish_marker(const QueueMessage& queue, MarkerKind kind);
  /// Retires every entry, read or not: consumers go on behind them, and there is room for markers at once.
  void drop_unread() noexcept;
  /// Waits until gating consumers took everything. Errors: kTimeout, kInterrupted.
  [[nodiscard]] Result<void> drain(std::int64_t deadline_ns);

  // --- waits
  /// Reasons for which every wait returns kInterrupted; each one lasts until its own resume().
  enum Stop : std::uint32_t { kStopInterrupt = 1, kStopFlush = 2 };
  void interrupt(Stop why = kStopInterrupt) noexcept;
  void resume(Stop why = kStopInterrupt) noexcept { stops_.fetch_and(~std::uint32_t{why}, std::memory_order_seq_cst); }
  [[nodiscard]] bool interrupted() const noexcept { return stops_.load(std::memory_order_seq_cst) != 0; }
  void wake_consumers() noexcept;

  // --- consumers; the monitor's thread
  struct Joined {
    ConsumerId id = 0;
    std::uint32_t colour = 0;
    std::uint32_t max_held = 0;
    std::uint64_t start = 0;
    std::uint64_t start_number = 0;  // of the last control message before `start`
    bool ended = false;              // the stream has ended, and the end's marker lies before `start`
    int page_fd = -1;
    const std::vector<SlotPool::Segment>* segments = nullptr;
    std::shared_ptr<const ConsumerLink> link{};  // for lag() and the like, as long as it is wanted
  };
  /// `welcome` is called under the mutex, before the first publish that counts the new consumer. Errors: kFull
  /// (max-consumers), kNoMemory.
  [[nodiscard]] Result<ConsumerId> add_consumer(const JoinWish& wish,
                                                const std::function<void(const Joined&)>& welcome);
  void remove_consumer(ConsumerId id) noexcept;
  /// Closes the pages of consumers that left during a publish. False: one is still in use; try again soon.
  [[nodiscard]] bool free_pages() noexcept;
  /// The consumer takes no more, but may still hold frames.
  void stop_gating(ConsumerId id) noexcept;

  // --- what it is
  [[nodiscard]] int ring_fd() const noexcept { return memory_.fd.get(); }
  [[nodiscard]] std::uint32_t entry_count() const noexcept { return mask_ + 1; }
  // What observers ask for is read without the mutex, so that nobody who watches can keep a publish waiting. Any
  // thread.
  [[nodiscard]] WriterCounters counters() const noexcept;
  /// Frames published that the consumer hasn't taken and still can. 0 for one whose cursor can't be.
  [[nodiscard]] std::uint64_t lag(const ConsumerLink& link) const noexcept;
  struct Shape {
    std::uint32_t burst = 0;      // frames
    std::uint32_t slots = 0;      // of the newest segment, that can be used
    std::uint64_t slot_size = 0;  // bytes
    std::uint32_t loans = 0;
  };
  [[nodiscard]] Shape shape() const noexcept {
    return {burst_.load(std::memory_order_relaxed), pool_.shown_slots(), pool_.shown_slot_size(), loans()};
  }
  [[nodiscard]] const PoolSizes& sizes() const noexcept { return pool_.sizes(); }
  /// Calls `look` with the links and the pool under the mutex.
  void inspect(const std::function<void(const std::vector<std::shared_ptr<ConsumerLink>>&, const SlotPool&,
                                        std::uint32_t loans)>& look) const;
  [[nodiscard]] std::uint64_t oldest() const noexcept { return oldest_.load(std::memory_order_acquire); }

 private:
  using Lock = std::unique_lock<std::mutex>;
  enum class Floor : std::uint8_t {
    kKeepNewest,  // kept_newest()
    kKeepLast,    // from any thread: the last frame may be half published
    kNone,        // only from the publishing thread
  };
  enum class Keep : std::uint8_t { kNo, kInRing, kReclaimed };  // of a slot whose owner goes on reading it
  static constexpr std::uint16_t kNoSlot = 0xffff;
  static constexpr std::uint64_t kNobody = ~std::uint64_t{0};

  Writer(WriterSettings settings, memory::SealedMemory memory, ControlOut& control);
  /// Of a sequence number in the ring, and in what is kept for each of its entries.
  [[nodiscard]] std::size_t place_of(std::uint64_t seq) const noexcept { return static_cast<std::size_t>(seq & mask_); }
  [[nodiscard]] Entry& entry(std::uint64_t seq) noexcept { return entries_[place_of(seq)]; }
  [[nodiscard]] std::uint64_t frames_before(std::uint64_t seq) const noexcept {
    return frames_before_[place_of(seq)].load(std::memory_order_relaxed);
  }

  [[nodiscard]] std::uint32_t loans() const noexcept {
    return lent_.load(std::memory_order_relaxed) - published_.load(std::memory_order_relaxed);
  }
  static void add(std::atomic<std::uint32_t>& counter, std::uint32_t value) noexcept {  // one writer at a time
    counter.store(counter.load(std::memory_order_relaxed) + value, std::memory_order_relaxed);
  }

  // publish
  [[nodiscard]] bool has_entry_room() const noexcept;
  [[nodiscard]] bool has_frame_room() const noexcept;
  [[nodiscard]] Result<bool> make_room(bool may_block);
  [[nodiscard]] Result<void> make_marker_room();
  void write_entry(std::uint16_t flags, const Outgoing& frame, std::uint16_t slot, bool wake);
  void write_record(std::uint16_t slot, const Outgoing& frame) noexcept;
  [[nodiscard]] std::int64_t stamp() noexcept;
  [[nodiscard]] bool segments_due() noexcept;
  [[nodiscard]] Result<void> announce_segments();
  /// The publishing thread's look, without the mutex.
  [[nodiscard]] bool segments_changed() const noexcept {
    return pool_.changed() && (pool_.untold() || head_.load(std::memory_order_relaxed) >= look_again_at_);
  }
  void post_marker(const QueueMessage& queue, MarkerKind kind);

  // reclaim; under the mutex
  [[nodiscard]] std::optional<SlotRef> lend() noexcept;
  void refresh_cursors() noexcept;
  void read_cursor(ConsumerLink& link) noexcept;
  void update_gate() noexcept;
  [[nodiscard]] std::uint64_t kept_newest() const noexcept;  // frames
  std::uint32_t retire(std::uint32_t most, Floor floor) noexcept;
  void mark_retired(std::uint64_t seq) noexcept;
  void finish_retire(std::uint64_t oldest) noexcept;
  void pass_over_one() noexcept;
  void free_unheld() noexcept;
  [[nodiscard]] bool is_held(std::uint16_t slot) noexcept;
  void free_slot(std::uint16_t slot) noexcept;
  void reclaim() noexcept;
  void break_protocol(ConsumerLink& link, std::string_view field) noexcept;

  // full wait
  enum class WaitEnd { kMoved, kTimedOut, kInterrupted };
  [[nodiscard]] WaitEnd wait_for_slowest(Lock& lock, std::int64_t deadline_ns, bool may_demote);
  void sleep_until_moved(ConsumerLink& link, std::uint64_t seen, std::int64_t until_ns) noexcept;
  void demote(ConsumerLink& link) noexcept;
  [[nodiscard]] bool demote_if_stalled() noexcept;
  [[nodiscard]] std::shared_ptr<ConsumerLink> slowest() const noexcept;

  WriterSettings settings_;
  ControlOut& control_;
  memory::SealedMemory memory_;
  RingHeader* header_ = nullptr;
  Entry* entries_ = nullptr;
  std::uint32_t mask_ = 0;

  // Written by the publishing thread only; others read them under the mutex, behind head_.
  std::atomic<std::uint64_t> head_{0};  // next sequence number
  // Frames before entry i's sequence number. Atomic for lag(), which reads them without the mutex.
  std::unique_ptr<std::atomic<std::uint64_t>[]> frames_before_;
  std::vector<std::uint16_t> slot_of_entry_;
  std::uint32_t stamp_every_ = 1;
  std::uint32_t unstamped_ = 0;
  std::uint32_t fast_stamps_ = 0;
  std::int64_t last_stamp_ns_ = 0;
  std::uint64_t look_again_at_ = 0;       // when a drained segment waits for consumers that haven't passed the barrier
  std::atomic<std::uint64_t> frames_{0};  // published
  std::atomic<std::uint64_t> bytes_{0};   // of their payloads

  // Written under the mutex; the publishing thread reads them without it to see that there is room.
  std::atomic<std::uint64_t> oldest_{0};             // oldest entry not retired
  std::atomic<std::uint64_t> oldest_frames_{0};      // frames before it
  std::atomic<std::uint64_t> gate_frames_{kNobody};  // frames before the slowest gating cursor
  std::atomic<std::uint32_t> burst_{0};
  // Loans are what was lent less what was published; two counters, so that a publish needs no locked instruction.
  std::atomic<std::uint32_t> lent_{0};        // under the mutex: lent - discarded + kept ones that were reclaimed
  std::atomic<std::uint32_t> published_{0};   // the publishing thread's
  std::atomic<std::uint32_t> handed_{0};      // under the mutex: slots given into an owner's hands
  std::atomic<std::uint32_t> taken_back_{0};  // the publishing thread's: published and not kept
  std::atomic<WhenFull> when_full_;
  std::atomic<std::uint32_t> stops_{0};  // Stop bits

  mutable std::mutex mutex_;  // the reclaim mutex: never held across a wait
  SlotPool pool_;
  ConsumerTable table_;
  Spinner spinner_;
  std::uint64_t gate_cursor_ = kNobody;
  std::uint64_t number_ = 0;                   // of the last control message
  std::uint64_t barrier_ = 0;                  // joiners start here at the earliest
  std::uint64_t end_ = kNobody;                // joiners start here at the latest
  std::vector<std::uint64_t> numbers_;         // number of the last control message before entry i
  std::vector<std::uint16_t> held_;            // retired, but a consumer still reads them
  std::vector<std::uint16_t> kept_free_;       // kept slots for reclaimed()
  std::unique_ptr<std::atomic<Keep>[]> kept_;  // by slot
  ConsumerId next_consumer_ = 1;

  std::atomic<std::uint64_t> dropped_full_{0}, passed_over_{0}, full_waits_{0}, wakes_{0}, demotions_{0};
};

}  // namespace framelane::ring
