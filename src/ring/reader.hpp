// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "framelane/base/result.hpp"
#include "framelane/format/frame_info.hpp"

#include "memory/sealed_memory.hpp"
#include "ring/layout.hpp"
#include "ring/page_counters.hpp"
#include "ring/spinner.hpp"

namespace framelane::ring {

/// What the ring asks of the control channel; the lane room implements it. Called on the taking thread.
class ControlIn {
 public:
  virtual ~ControlIn() = default;
  /// Applies the control messages up to the one whose number ends in `ctl`, and returns that one's whole number.
  /// Must not wait: the take is undone when a message is still on its way, and poll() is called again.
  /// Errors: kTimeout (not there yet), kProtocol (didn't come in a second, or says what can't be), kPeerLost.
  [[nodiscard]] virtual Result<std::uint64_t> apply_up_to(std::uint16_t ctl) = 0;
};

/// What a consumer was told when it joined.
struct ReaderSettings {
  memory::Mapping ring;  // read-only
  memory::Mapping page;
  std::array<std::uint8_t, 16> instance_id{};
  std::uint32_t entry_count = 0;
  std::uint32_t colour = 0;
  std::uint32_t max_held = 4;
  std::uint64_t start = 0;
  std::uint64_t start_number = 0;
  bool latest = false;
  SpinKind spin = SpinKind::kAdaptive;
  double spin_budget = 0.02;
  std::mutex* lock =
      nullptr;  // held by whoever calls poll and wait, and free while wait sleeps; null: one thread calls
};

/// One entry that was taken. A frame in a slot is held until release().
struct Taken {
  bool marker = false;
  bool is_inline = false;
  std::uint16_t slot = 0;
  std::uint32_t size = 0;
  std::uint64_t index = 0;    // number of the frame among the lane's frames, from 0
  std::uint64_t skipped = 0;  // frames lost directly before it
  std::int64_t due_ns = format::kNoClockTime;
  std::int64_t publish_ns = 0;
  const std::byte* data = nullptr;        // in the slot
  const std::byte* record = nullptr;      // MetaRecord, and side_data bytes behind it
  std::uint32_t side_data = 0;            // bytes, checked: they lie in the record's stride
  std::uint64_t* inline_words = nullptr;  // where the caller wants an inline payload, kInlineBytes
};

/// Consumer's side of the ring. The step names T1..T6 are those of the ring's README.
///
/// Threads:   poll, wait and the segment calls from one thread; release and wake from any.
/// Real time: poll makes no system call and no allocation, except to wake a producer that waits, or to apply control
///            messages.
/// Units:     sizes are bytes; times are ns of CLOCK_MONOTONIC.
class Reader {
 public:
  enum class Step : std::uint8_t { kEmpty, kTaken };

  /// Errors: kProtocol (the ring's header contradicts what the WELCOME said; names the field).
  [[nodiscard]] static Result<std::unique_ptr<Reader>> create(ReaderSettings settings);
  ~Reader();

  /// Takes the next entry if it is there. Errors: kProtocol (names the field), and those of apply_up_to.
  [[nodiscard]] Result<Step> poll(Taken& taken, ControlIn& control);
  /// True when the next entry is there. Cheap; any result may be old at once.
  [[nodiscard]] bool ready() const noexcept;

  /// Waits for a microsecond or two at most, without a look at the clock. True when the next entry is there.
  [[nodiscard]] bool spin_briefly() noexcept {
    if (!spinner_.spin_briefly([this] { return ready(); })) return false;
    count(page_->spins);
    return true;
  }
  /// Waits until the next entry may be there, `stop()` is true, or the deadline has come: spins, then sleeps. Bounded
  /// by 200 ms.
  template <class Stop>
  void wait(Stop&& stop, std::int64_t deadline_ns) noexcept {
    const auto done = [&] { return ready() || stop(); };
    if (spinner_.spin(done, deadline_ns)) return count(page_->spins);
    const std::uint32_t word = page_->wake_word.load(std::memory_order_acquire);
    announce_sleep();
    if (!done()) sleep(word, deadline_ns);
    page_->waiting[colour_].ticket.store(0, std::memory_order_release);
  }
  /// Ends a wait() now. Any thread.
  void wake() noexcept;

  /// Errors: kProtocol (numbers that contradict each other or a live segment; names the field).
  [[nodiscard]] Result<void> add_segment(const SegmentSpec& spec_untrusted, memory::Mapping mapping);
  [[nodiscard]] Result<void> retire_segment(std::uint32_t id);

  /// A control message, number `number`, with its marker at `seq_untrusted`, ends a run of frames: those before it that
  /// weren't taken never will be. Called while it is applied. Returns how many they are. Errors: kProtocol.
  [[nodiscard]] Result<std::uint64_t> end_run(std::uint64_t number, std::uint64_t seq_untrusted);

  /// Gives a slot back. Any thread. True when that was the last use of this Reader: the owner is gone, and nothing is
  /// held.
  bool release(std::uint16_t slot) noexcept;
  /// The owner takes no more. True when nothing is held.
  [[nodiscard]] bool leave() noexcept;
  /// Exact on the taking thread; elsewhere it may be a moment old.
  [[nodiscard]] std::uint32_t held() const noexcept {
    // In this order: a release that we see comes after its take, so the difference is never negative.
    const std::int64_t released = released_.load(std::memory_order_acquire);
    return static_cast<std::uint32_t>(taken_.load(std::memory_order_relaxed) - released);
  }
  [[nodiscard]] std::uint32_t max_held() const noexcept { return max_held_; }
  /// Number of the frame that is expected next. The taking thread's.
  [[nodiscard]] std::uint64_t next_index() const noexcept { return next_index_; }
  /// Sequence number of the entry that is expected next.
  [[nodiscard]] std::uint64_t cursor() const noexcept { return cursor_; }
  /// Before the first poll(): frames from `index` on were due, and those that come no more count as skipped.
  void expect(std::uint64_t index) noexcept { next_index_ = std::min(next_index_, index); }

  void count_skipped(std::uint64_t frames) noexcept { count(page_->skipped, frames); }
  /// One more frame, number `index`; `publish_ns_untrusted` 0: it wasn't stamped.
  void count_taken(std::uint64_t index, std::uint64_t skipped, bool copied,
                   std::int64_t publish_ns_untrusted) noexcept {
    if (ring::count_taken(*page_, skipped, copied, publish_ns_untrusted)) spinner_.note(publish_ns_untrusted, index);
  }
  [[nodiscard]] const ConsumerPage& page() const noexcept { return *page_; }

 private:
  struct Segment {
    SegmentSpec spec{};
    memory::Mapping mapping;
    const std::byte* slots = nullptr;
    bool retired = false;

    [[nodiscard]] bool has(std::uint16_t slot) const noexcept {
      return slot >= spec.first_slot && slot - spec.first_slot < spec.slot_count;
    }
  };
  enum class Took : std::uint8_t { kYes, kAgain, kFault };

  explicit Reader(ReaderSettings settings);
  [[nodiscard]] const Entry& entry(std::uint64_t seq) const noexcept { return entries_[seq & mask_]; }
  [[nodiscard]] Took take(std::uint64_t tag, Taken& taken, ControlIn& control);
  [[nodiscard]] bool finish_take(std::uint64_t tag, std::uint64_t size_slot, Taken& taken, ControlIn& control);
  [[nodiscard]] bool locate(Taken& taken) const noexcept;
  [[nodiscard]] bool measure_side_data(Taken& taken);
  void prefetch(std::uint16_t slot) const noexcept;
  // These put what is wrong into fault_, and return false then (the last two always).
  [[nodiscard]] bool apply_up_to(std::uint16_t ctl, ControlIn& control);
  [[nodiscard]] bool skip(bool overwritten);
  bool misplaced(const Taken& taken);
  bool fault(const char* field, std::uint64_t value, const char* what);
  void walk_to_latest() noexcept;
  void advance(std::uint64_t cursor) noexcept;
  [[nodiscard]] bool set_hold(std::uint16_t slot) noexcept;
  void wake_waiting_producer() noexcept;
  void announce_sleep() noexcept;
  void sleep(std::uint32_t word, std::int64_t deadline_ns) noexcept;
  [[nodiscard]] const Segment* segment_of(std::uint16_t slot) const noexcept;
  void unmap_retired() noexcept;
  [[nodiscard]] bool is_read(const Segment& segment) const noexcept;

  memory::Mapping ring_;
  memory::Mapping page_mapping_;
  const RingHeader* header_ = nullptr;
  const Entry* entries_ = nullptr;
  ConsumerPage* page_ = nullptr;
  std::uint32_t mask_ = 0;
  std::uint32_t colour_ = 0;
  std::uint32_t max_held_ = 0;
  bool latest_ = false;
  std::uint64_t cursor_ = 0;      // next entry to take
  std::uint64_t applied_ = 0;     // number of the last control message that was applied
  std::uint64_t next_index_ = 0;  // frame expected next
  std::uint32_t ticket_ = 0;
  Error fault_{};
  Spinner spinner_;
  std::mutex* lock_;
  // Two counters, so that a take needs no locked instruction for them.
  std::atomic<std::int64_t> taken_{0};                  // slots held so far; the taking thread's
  std::atomic<std::int64_t> released_{0};               // slots given back, less taken_ once the owner has left
  std::vector<std::unique_ptr<Segment>> segments_;      // few; searched from the newest
  std::array<std::atomic<bool>, kMaxSlots> is_held_{};  // ours: the bits in the page are the producer's to spoil
};

}  // namespace framelane::ring
