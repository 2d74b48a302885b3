// SPDX-License-Identifier: MIT
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "framelane/base/result.hpp"
#include "framelane/format/event.hpp"
#include "framelane/lane/frame.hpp"

#include "lane/rate_limit.hpp"
#include "ring/reader.hpp"
#include "transport/control_socket.hpp"
#include "transport/monitor.hpp"
#include "wire/control_message.hpp"

namespace framelane::lane {

struct ConnectionSettings {
  std::uint64_t max_frame_size = 256u << 20;  // bytes
  bool latest = false;
  ring::SpinKind spin = ring::SpinKind::kAdaptive;
  double spin_budget = 0.02;
  std::function<void()> on_flush;  // on the monitor's thread, at each FLUSH_START
};

/// A consumer's connection to one producer, through shared memory: its ring, its segments, its control socket. It lives
/// as long as the Consumer uses it or one of its Frames is held.
///
/// Threads: one taking thread; the monitor's thread fills the inbox; Frames release from any thread.
class Connection final : public ring::ControlIn {
 public:
  /// Takes over what the WELCOME brought. The caller has to drop() it. Errors: kProtocol, kNoMemory, kSystem.
  [[nodiscard]] static Result<Connection*> create(transport::ControlSocket socket, wire::Welcome welcome,
                                                  std::vector<base::UniqueFd> fds, const ConnectionSettings& settings);

  /// The Consumer is done with it: from now on only held Frames keep it.
  void drop() noexcept;
  /// Gives a Frame's slot back. Any thread.
  void release(std::uint16_t slot) noexcept {
    if (reader_->release(slot)) delete this;
  }

  enum class Step : std::uint8_t { kNothing, kFrame, kMarker };
  /// Takes the next entry, if it is there. The events that stand before it go to events().
  /// Errors: kProtocol, kPeerLost, kInterrupted, kTooLarge (a new segment beyond max_frame_size), kNoMemory.
  [[nodiscard]] Result<Step> poll(Frame& frame);
  /// Events that stand before the frame or marker of the last poll(), and at first the sticky ones. The caller takes
  /// them out.
  [[nodiscard]] std::deque<format::Event>& events() noexcept { return events_; }

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

  [[nodiscard]] bool spin_briefly() noexcept { return !awaits_message_ && reader_->spin_briefly(); }
  template <class Stop>
  void wait(Stop&& stop, std::int64_t deadline_ns) noexcept {
    if (awaits_message_) {
      if (!stop()) wait_for_message(deadline_ns);
    } else {
      reader_->wait([&] { return lost_.load(std::memory_order_acquire) || stop(); }, deadline_ns);
    }
  }
  void wake() noexcept;  // any thread: ends wait()

  /// The last poll() found an entry whose control message is still on its way; wait() waits for it.
  [[nodiscard]] bool awaits_message() const noexcept { return awaits_message_; }
  /// The producer is gone. Look before poll(): what it published before is still taken.
  [[nodiscard]] bool lost() const noexcept { return lost_.load(std::memory_order_acquire); }
  /// Why, if it broke the protocol.
  [[nodiscard]] std::optional<Error> fault() const;

  /// Tells the producer that we take no more; slots go back as the Frames are released.
  void leave() noexcept;

  /// Sends a request to the producer, or nothing of it. Any thread. Errors: kFull (too many at once, or the producer
  /// doesn't read them), kPeerLost, kSystem.
  [[nodiscard]] Result<void> send(const format::Request& request);

  [[nodiscard]] const std::array<std::uint8_t, 16>& instance_id() const noexcept { return instance_id_; }
  [[nodiscard]] bool gating() const noexcept { return gating_; }
  [[nodiscard]] bool demoted() const noexcept { return demoted_.load(std::memory_order_relaxed); }
  [[nodiscard]] const ring::Reader& reader() const noexcept { return *reader_; }

  // ring::ControlIn
  [[nodiscard]] Result<std::uint64_t> apply_up_to(std::uint16_t ctl) override;

 private:
  friend class framelane::Frame;
  struct Inbound {
    std::uint64_t number = 0;
    wire::Message message;
    std::vector<base::UniqueFd> fds;
    std::size_t bytes = 0;
  };

  Connection(transport::ControlSocket socket, const wire::Welcome& welcome, std::unique_ptr<ring::Reader> reader,
             const ConnectionSettings& settings);
  ~Connection() override = default;

  [[nodiscard]] Result<void> watch();
  void on_socket();
  void on_message(transport::Received received);
  void set_lost(std::optional<Error> why) noexcept;
  [[nodiscard]] Result<Inbound> next_message();
  void wait_for_message(std::int64_t deadline_ns) noexcept;
  [[nodiscard]] bool inbox_is_full() const noexcept;
  [[nodiscard]] Result<void> apply(Inbound& message);
  [[nodiscard]] Result<void> apply_event(std::uint64_t number, wire::EventMessage& message);
  [[nodiscard]] Result<void> apply_flush_stop(std::uint64_t number, const wire::FlushStop& message);
  [[nodiscard]] Result<void> apply_segment(const wire::AddSegment& message, std::vector<base::UniqueFd>& fds);
  [[nodiscard]] bool make_frame(const ring::Taken& taken, Frame& frame);
  [[nodiscard]] bool copy_frame(const ring::Taken& taken, Frame& frame) noexcept;

  transport::ControlSocket socket_;
  bool unsealed_ = false;
  std::uint64_t max_frame_size_ = 0;
  std::function<void()> on_flush_;
  bool gating_ = false;
  std::array<std::uint8_t, 16> instance_id_{};
  std::unique_ptr<ring::Reader> reader_;
  std::uint64_t applied_ = 0;  // number of the last message that was applied
  std::deque<format::Event> events_;
  std::uint32_t flushes_ended_ = 0;  // FLUSH_STOPs that were applied
  bool awaits_message_ = false;      // the last poll() found an entry whose control message is still on its way
  std::uint32_t inbox_seen_ = 0;     // inbox_word_ when that message was looked for
  std::int64_t missing_since_ = 0;   // since when it is looked for; 0 = it isn't

  // FLUSH_STARTs that came. SYNC FLUSH: the monitor adds one and then wakes; the taking thread reads the wake word
  // before it looks, so a wake after that look changes the word and the futex doesn't sleep. Its own atomic, and not a
  // message in the inbox: it has to overtake those.
  std::atomic<std::uint32_t> flushes_begun_{0};
  std::atomic<std::uint32_t> flushes_told_{0};  // the taking thread's: FLUSH_STOPs that its caller knows of
  std::atomic<bool> lost_{false};
  std::atomic<bool> demoted_{false};
  std::atomic<std::uint32_t> inbox_word_{0};  // futex: changes when something arrives or ends
  mutable std::mutex inbox_mutex_;
  std::deque<Inbound> inbox_;
  std::size_t inbox_bytes_ = 0;
  bool inbox_full_ = false;
  bool died_ = false;  // the monitor's: the process is gone, though its socket may be open in a child of it
  std::optional<Error> fault_;

  std::mutex send_mutex_;
  RateLimit send_limit_{kRequestsAtOnce, kRequestsPerSecond};  // send_mutex_

  // Last, so that the monitor's callbacks end before anything that they use.
  base::UniqueFd pidfd_;
  transport::Watch socket_watch_;
  transport::Watch death_watch_;
};

}  // namespace framelane::lane
