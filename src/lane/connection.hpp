// SPDX-License-Identifier: MIT
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "framelane/base/result.hpp"
#include "framelane/format/event.hpp"
#include "framelane/lane/frame.hpp"
#include "framelane/lane/settings.hpp"

#include "lane/rate_limit.hpp"
#include "ring/layout.hpp"
#include "ring/reader.hpp"
#include "wire/control_message.hpp"

namespace framelane::lane {

struct ConnectionSettings {
  std::uint64_t max_frame_size = 256u << 20;  // bytes
  std::uint32_t max_held = 4;                 // wish
  bool latest = false;
  ring::SpinKind spin = ring::SpinKind::kAdaptive;
  double spin_budget = 0.02;
  std::mutex* lock = nullptr;  // as ring::ReaderSettings::lock
  // On the monitor's thread: at each FLUSH_START, and when it gates no more, or again.
  std::function<void()> on_flush;
  std::function<void(bool demoted)> on_demoted;
};

/// An event on its way to the caller.
struct Pending {
  format::Event event;
  std::uint64_t index = 0;  // of kEndOfStream and kFlushStop: number of the first frame behind it
};

/// A consumer's connection to one producer. It lives as long as the Consumer uses it or one of its Frames is held.
///
/// Threads: one taking thread; Frames release from any thread; what says so may be called from any.
class Connection {
 public:
  enum class Step : std::uint8_t { kNothing, kFrame, kMarker };

  /// The Consumer is done with it: from now on only held Frames keep it.
  virtual void drop() noexcept = 0;
  /// Gives a Frame's slot back. Any thread.
  virtual void release(std::uint16_t slot) noexcept = 0;

  /// Takes the next frame or message, if it is there. The events that stand before it go to events().
  /// Errors: kProtocol, kPeerLost, kInterrupted, kTooLarge (beyond max_frame_size), kNoMemory.
  [[nodiscard]] virtual Result<Step> poll(Frame& frame) = 0;
  /// Waits for a microsecond or two at most. True when poll() may find something.
  [[nodiscard]] virtual bool spin_briefly() noexcept = 0;
  /// Waits until poll() may find something, `stop()` is true, or the deadline (ns of CLOCK_MONOTONIC) has come. Bounded
  /// by 200 ms.
  virtual void wait(const std::function<bool()>& stop, std::int64_t deadline_ns) noexcept = 0;
  virtual void wake() noexcept = 0;  ///< any thread: ends wait()

  /// The last poll() found something that a message on its way stands before; wait() waits for that one.
  [[nodiscard]] virtual bool awaits_message() const noexcept { return false; }
  /// Tells the producer that we take no more.
  virtual void leave() noexcept = 0;
  /// Sends a request to the producer, or nothing of it. Any thread. Errors: kFull (too many at once, or the producer
  /// doesn't read them), kPeerLost, kSystem.
  [[nodiscard]] Result<void> send(const format::Request& request);

  [[nodiscard]] virtual Transport transport() const noexcept = 0;
  /// Number of the frame that is expected next. The taking thread's.
  [[nodiscard]] virtual std::uint64_t next_index() const noexcept = 0;
  /// Sequence number of the ring's entry that is expected next; 0 where nobody knows, on a stream. The taking thread's.
  [[nodiscard]] virtual std::uint64_t cursor() const noexcept { return 0; }
  /// Before the first poll(), of a connection to the instance that the one before it had: those from frame `index` on
  /// are due. What lies between the two counts as lost. The taking thread's.
  virtual void expect(std::uint64_t index) noexcept = 0;
  // Statistics; any thread.
  [[nodiscard]] virtual const ring::ConsumerPage& page() const noexcept = 0;
  [[nodiscard]] virtual std::uint32_t held() const noexcept = 0;

  /// Events that stand before the frame or marker of the last poll(), and at first the sticky ones. The caller takes
  /// them out.
  [[nodiscard]] std::deque<Pending>& events() noexcept { return events_; }
  /// Forgets the events that wait, but for the sticky ones: a flush drops them with the frames.
  void drop_passing_events();

  /// The caller was told of the flush's end.
  void flush_is_told() noexcept { flushes_told_.store(flushes_ended_, std::memory_order_release); }
  /// True from a FLUSH_START until flush_is_told(). Any thread.
  [[nodiscard]] bool flushing() const noexcept {
    return flushes_begun_.load(std::memory_order_acquire) != flushes_told_.load(std::memory_order_acquire);
  }
  /// True from a FLUSH_START until its FLUSH_STOP is applied. Cheap.
  [[nodiscard]] bool flush_is_open() const noexcept {
    return flushes_begun_.load(std::memory_order_acquire) != flushes_ended_;
  }

  /// FLUSH_STOPs since the connection was made. The taking thread's.
  [[nodiscard]] std::uint32_t flushes_ended() const noexcept { return flushes_ended_; }

  /// The producer is gone. Look before poll(): what it published before is still taken. Any thread.
  [[nodiscard]] bool lost() const noexcept { return lost_.load(std::memory_order_acquire); }
  /// Why, if it broke the protocol. Any thread.
  [[nodiscard]] std::optional<Error> fault() const;
  /// How far the producer's times may be wrong that were translated to our clock, ns; 0: it is the same clock.
  [[nodiscard]] virtual std::int64_t clock_error_ns() const { return 0; }
  /// Granted by the producer.
  [[nodiscard]] bool gating() const noexcept { return gating_; }
  [[nodiscard]] bool demoted() const noexcept { return demoted_.load(std::memory_order_relaxed); }
  /// Of the producer.
  [[nodiscard]] const std::array<std::uint8_t, 16>& instance_id() const noexcept { return welcome_.instance_id; }
  [[nodiscard]] const wire::Welcome& welcome() const noexcept { return welcome_; }

 protected:
  Connection(wire::Welcome welcome, const ConnectionSettings& settings);
  virtual ~Connection() = default;
  /// No callback runs any more, or will.
  void stop_telling() noexcept;
  void tell_flush() const {
    if (on_flush_) on_flush_();
  }

  /// Where the payload of a Frame lies.
  enum class Place : std::uint8_t { kInline, kSlot, kCopy };
  void hand_out(const ring::Taken& taken, Place place, Frame& frame) noexcept {
    frame.size_ = taken.size;
    frame.side_size_ = taken.side_data;
    frame.seq_ = taken.index;
    frame.skipped_ = taken.skipped;
    frame.due_ns_ = taken.due_ns;
    frame.publish_ns_ = taken.publish_ns;
    if (place == Place::kInline) {
      frame.kind_ = Frame::Kind::kInline;
      return;
    }
    frame.data_ = taken.data;
    frame.record_ = taken.record;
    frame.kind_ = place == Place::kSlot ? Frame::Kind::kSlot : Frame::Kind::kCopy;
    if (place != Place::kSlot) return;
    frame.slot_ = taken.slot;
    frame.connection_ = this;
  }
  [[nodiscard]] static std::uint64_t* inline_words(Frame& frame) noexcept { return frame.inline_words_; }

  /// One more, on the monitor's thread.
  void begin_flush() noexcept;
  /// `count` since the connection was made have begun. Any thread.
  void begin_flushes(std::uint32_t count) noexcept;
  // On the taking thread.
  /// Frame `index` is the first that counts again; `count` flushes have ended.
  [[nodiscard]] Result<void> end_flushes(std::uint64_t index, std::uint32_t count);
  void add_event(format::Event event, std::uint64_t index) { events_.push_back({std::move(event), index}); }
  void set_demoted(bool demoted) noexcept;
  void set_lost(std::optional<Error> why) noexcept;

  /// Sends bytes to the producer as a whole, or nothing of them and false: it doesn't read. Under send_mutex_.
  [[nodiscard]] virtual Result<bool> send_now(std::span<const std::byte> message) = 0;
  std::mutex send_mutex_;

 private:
  std::function<void()> on_flush_;        // the monitor's thread
  std::function<void(bool)> on_demoted_;  // the same
  bool gating_ = false;
  wire::Welcome welcome_;
  std::deque<Pending> events_;

  // FLUSH_STARTs that came. SYNC FLUSH: the monitor adds one and then wakes; the taking thread reads the wake word
  // before it looks, so a wake after that look changes the word and the futex doesn't sleep. Its own atomic, and not a
  // message in the inbox: it has to overtake those.
  std::atomic<std::uint32_t> flushes_begun_{0};
  std::uint32_t flushes_ended_ = 0;             // FLUSH_STOPs that were applied
  std::atomic<std::uint32_t> flushes_told_{0};  // the taking thread's: FLUSH_STOPs that its caller knows of
  std::atomic<bool> lost_{false};
  std::atomic<bool> demoted_{false};
  mutable std::mutex fault_mutex_;
  std::optional<Error> fault_;
  RateLimit send_limit_{kRequestsAtOnce, kRequestsPerSecond};  // send_mutex_
};

[[nodiscard]] tl::unexpected<Error> broken_lane(std::string what);

/// The Consumer is done with a connection: it leaves the lane, and lives on only for the Frames that are held.
void let_go(Connection* connection) noexcept;

/// Says in a WELCOME by which clock the producer, this process, goes.
void set_clock(wire::Welcome& welcome) noexcept;
/// Whether the producer's CLOCK_MONOTONIC is ours, given that its kernel is. One that isn't known is.
[[nodiscard]] bool shares_time_namespace(const wire::Welcome& welcome) noexcept;
/// Whether the producer's CLOCK_MONOTONIC is ours. Hosts that aren't known are different.
[[nodiscard]] bool shares_clock(const wire::Welcome& welcome) noexcept;

}  // namespace framelane::lane
