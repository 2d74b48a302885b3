// SPDX-License-Identifier: MIT
#include "lane/stream_connection.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include <poll.h>
#include <sys/eventfd.h>

#include "base/clock.hpp"
#include "base/crash_point.hpp"
#include "base/host.hpp"
#include "base/text.hpp"
#include "ring/page_counters.hpp"
#include "transport/control_socket.hpp"
#include "transport/stream_socket.hpp"

namespace framelane::lane {
namespace {

constexpr std::int64_t kWatchdogNs = 200'000'000;
/// A look for the newest frame ends after so much, more than both sockets' buffers hold (transport::tune_stream(), and
/// the system doubles that): who sends faster than we read would else keep us looking for ever.
constexpr std::uint64_t kBytesPerLook = std::uint64_t{4} << 20;
constexpr unsigned kFramesPerLook = 16;
constexpr std::uint64_t kBytesBesideAFrame = 128;  // about, of its message
constexpr unsigned kTurnsPerLook = 16;             // a look is a system call, some ten times a pause

}  // namespace

Result<Connection*> StreamConnection::create(Greeted greeted, Transport transport, const ConnectionSettings& settings) {
  const wire::Welcome& welcome = greeted.welcome;
  if (!welcome.segments.empty()) return broken_lane("segments of the WELCOME on a stream");
  if (welcome.max_held == 0 || welcome.max_held > std::max(settings.max_held, 1u))
    return broken_lane("max_held of the WELCOME");
  base::UniqueFd wake_fd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!wake_fd.valid()) return fail(Code::kSystem, "no event descriptor: " + base::system_words(errno));
  greeted.end->pool.prepare(welcome.max_held);
  auto* const connection = new StreamConnection(std::move(greeted), transport, std::move(wake_fd), settings);
  if (auto watched = connection->watch(); !watched) {
    connection->drop();
    return tl::unexpected(std::move(watched.error()));
  }
  return connection;
}

StreamConnection::StreamConnection(Greeted greeted, Transport transport, base::UniqueFd wake_fd,
                                   const ConnectionSettings& settings)
    : Connection(std::move(greeted.welcome), settings),
      end_(std::move(greeted.end)),
      sender_(*end_->stream, -1),
      transport_(transport),
      wake_fd_(std::move(wake_fd)),
      latest_(settings.latest),
      next_index_(this->welcome().start),
      spinner_(settings.spin, settings.spin_budget),
      page_(std::make_unique<ring::ConsumerPage>()),
      signals_(std::move(greeted.signals)) {
  if (!shares_clock(this->welcome())) clock_.emplace(*signals_->stream, greeted.clock);
}

void StreamConnection::drop() noexcept {
  death_watch_.reset();
  watch_.reset();
  if (clock_) clock_->stop();
  FRAMELANE_CRASH_POINT("stream: before it is shut");
  // The frames that are held lie here, and need them no more.
  end_->stream->shutdown();
  signals_->stream->shutdown();
  if (uses_.fetch_sub(1, std::memory_order_acq_rel) == 1) delete this;
}

// --- signals, on the monitor's thread

Result<void> StreamConnection::watch() {
  auto monitor = transport::Monitor::instance();
  if (!monitor) return tl::unexpected(monitor.error());
  auto watched =
      (*monitor)->watch(signals_->stream->fd(), EPOLLIN | EPOLLRDHUP, [this](std::uint32_t) { on_signals(); });
  if (!watched) return tl::unexpected(std::move(watched.error()));
  watch_ = std::move(*watched);
  if (auto death = watch_death(**monitor); !death) return death;
  (*monitor)->call([this, &monitor] {
    if (clock_) clock_->start(**monitor);
    on_signals();  // what came with the WELCOME may be in the receiver already
  });
  return {};
}

/// A child that the producer forked can keep the streams open. (Over TCP there is no way to see that.)
Result<void> StreamConnection::watch_death(transport::Monitor& monitor) {
  if (transport_ != Transport::kUds) return {};
  auto pidfd = transport::peer_pidfd(end_->stream->fd());
  if (!pidfd) {
    died_.store(pidfd.error().code == Code::kPeerLost, std::memory_order_release);
    return {};  // else the hang-up alone has to do
  }
  pidfd_ = std::move(*pidfd);
  auto watched = monitor.watch(pidfd_.get(), EPOLLIN | EPOLLONESHOT, [this](std::uint32_t) {
    died_.store(true, std::memory_order_release);
    wake();
  });
  if (!watched) return tl::unexpected(std::move(watched.error()));
  death_watch_ = std::move(*watched);
  return {};
}

void StreamConnection::on_signals() {
  while (true) {
    auto received = signals_->receiver.receive();
    if (!received) return;  // the producer is gone, which the frames' stream tells
    if (!*received) break;
    if (!on_signal((*received)->message)) return watch_.set_events(0);  // nothing more is believed
  }
  watch_.set_events(EPOLLIN | EPOLLRDHUP);
}

/// False: that isn't one.
bool StreamConnection::on_signal(const wire::Message& message) {
  if (const auto* const clock = std::get_if<wire::Clock>(&message)) return clock_ && clock_->on_answer(*clock);
  if (const auto* const demoted = std::get_if<wire::Demoted>(&message)) {
    set_demoted(demoted->demoted);
    return true;
  }
  const auto* const start = std::get_if<wire::FlushStart>(&message);
  if (start == nullptr) return false;
  begin_flushes(start->count);
  wake();
  tell_flush();
  return true;
}

void StreamConnection::release(std::uint16_t slot) noexcept {
  end_->pool.release(slot);
  if (uses_.fetch_sub(1, std::memory_order_acq_rel) == 1) delete this;
}

void StreamConnection::leave() noexcept {
  FRAMELANE_CRASH_POINT("LEAVE: before it is sent on a stream");
  const auto bytes = wire::encode(wire::Leave{}, 0);
  const std::lock_guard lock(send_mutex_);
  static_cast<void>(send_now(bytes));  // if it can't be sent, the producer learns it from the hang-up
}

Result<bool> StreamConnection::send_now(std::span<const std::byte> message) {
  // What was begun must be ended first: the stream has no other borders than its messages.
  auto ready = sender_.send_rest_now();
  if (!ready || !*ready) return ready;
  const auto sent = sender_.send_now(message);
  if (!sent) return tl::unexpected(sent.error());
  return *sent != transport::StreamSender::Sent::kNothing;
}

// --- waiting

bool StreamConnection::readable() const noexcept {
  pollfd fd{end_->stream->fd(), POLLIN, 0};
  return ::poll(&fd, 1, 0) > 0;
}

void StreamConnection::wait(const std::function<bool()>& stop, std::int64_t deadline_ns) noexcept {
  unsigned turn = 1;  // poll() has just looked
  const auto done = [&] { return lost() || stop() || (turn++ % kTurnsPerLook == 0 && readable()); };
  if (spinner_.spin(done, deadline_ns)) return ring::count(page_->spins);
  ring::count(page_->sleeps);
  {
    const std::lock_guard lock(send_mutex_);
    static_cast<void>(sender_.send_rest_now());
  }
  const std::int64_t now = base::monotonic_ns();
  const std::int64_t at = spinner_.wake_at(now);
  const auto ready =
      transport::wait_for(end_->stream->fd(), POLLIN, wake_fd_.get(), std::min({deadline_ns, now + kWatchdogNs, at}));
  if (ready) return;
  if (ready.error().code == Code::kInterrupted) {
    eventfd_t wakes = 0;
    eventfd_read(wake_fd_.get(), &wakes);  // before the caller's look at what they told of
  }
  if (at == base::kForever || ready.error().code != Code::kTimeout) return;
  if (const std::int64_t woken = base::monotonic_ns(); woken >= at) spinner_.woke(at, woken);
}

void StreamConnection::wake() noexcept { eventfd_write(wake_fd_.get(), 1); }

// --- taking

Result<Connection::Step> StreamConnection::poll(Frame& frame) {
  if (frame) frame.release();
  std::uint64_t bytes = 0;
  unsigned frames = 0;
  for (;;) {
    auto message = next_message();
    const bool is_frame = message && *message && std::holds_alternative<wire::FrameMessage>((*message)->message);
    if (frame && !is_frame) {  // in mode latest; it stands before what isn't a frame
      if (message) next_ = std::move(*message);
      count(frame);
      return Step::kFrame;
    }
    if (!message) return tl::unexpected(std::move(message.error()));
    if (!*message) return Step::kNothing;
    auto step = apply(std::move(**message), frame);
    if (!step) set_lost(step.error());
    if (!step || *step != Step::kFrame) return step;
    bytes += frame.size() + kBytesBesideAFrame;
    const bool look_on = ++frames < kFramesPerLook || bytes < kBytesPerLook;
    const bool dropped = flush_is_open();  // it was sent before
    if (dropped) frame.release();
    if ((latest_ || dropped) && look_on) continue;  // perhaps a newer one is there
    if (dropped) return Step::kMarker;
    count(frame);
    return step;
  }
}

void StreamConnection::count(const Frame& frame) noexcept {
  if (ring::count_taken(*page_, frame.skipped(), frame.is_copy(), frame.published()))
    spinner_.note(frame.published(), frame.seq());
}

/// Empty when nothing more is there, or will be: see lost().
Result<std::optional<wire::Decoded>> StreamConnection::next_message() {
  if (next_) return std::exchange(next_, std::nullopt);
  if (lost()) return std::optional<wire::Decoded>();
  const bool died = died_.load(std::memory_order_acquire);  // before the look: what it had sent is still taken
  auto received = end_->receiver.receive();
  if (received && !*received && died) set_lost(std::nullopt);
  if (received) return received;
  const bool closed = received.error().code == Code::kPeerLost;
  set_lost(closed ? std::nullopt : std::optional<Error>(received.error()));
  if (closed) return std::optional<wire::Decoded>();
  return received;
}

Result<Connection::Step> StreamConnection::apply(wire::Decoded message, Frame& frame) {
  if (auto* const next = std::get_if<wire::FrameMessage>(&message.message)) {
    if (clock_) translate_times(*next);
    return take_frame(*next, frame);
  }
  if (auto* const event = std::get_if<wire::EventMessage>(&message.message)) return apply_event(*event);
  if (const auto* const stop = std::get_if<wire::FlushStop>(&message.message)) return apply_flush_stop(*stop);
  if (const auto* const start = std::get_if<wire::FlushStart>(&message.message)) {
    begin_flushes(start->count);                                       // if the signal is still on its way
  } else if (!std::holds_alternative<wire::Leave>(message.message)) {  // that one is followed by the hang-up
    return broken_lane("type of a message on the stream");
  }
  return Step::kMarker;
}

/// How many frames were lost before the one that comes next.
Result<std::uint64_t> StreamConnection::advance_to(std::uint64_t index_untrusted) {
  if (index_untrusted < next_index_ || index_untrusted > wire::kMaxSeq)
    return broken_lane("index " + std::to_string(index_untrusted) + " of a frame or event, where " +
                       std::to_string(next_index_) + " or more was due");
  return index_untrusted - std::exchange(next_index_, index_untrusted);
}

Result<Connection::Step> StreamConnection::apply_event(wire::EventMessage& message) {
  if (message.event.type == format::EventType::kEndOfStream) {
    // No frame may follow that would tell of those lost before it.
    const auto lost = advance_to(message.seq);
    if (!lost) return tl::unexpected(lost.error());
    if (!flush_is_open()) ring::count(page_->skipped, *lost);
  }
  add_event(std::move(message.event), next_index_);
  return Step::kMarker;
}

Result<Connection::Step> StreamConnection::apply_flush_stop(const wire::FlushStop& message) {
  const auto dropped = advance_to(message.first_seq);  // not lost: nobody wants them any more
  if (!dropped) return tl::unexpected(dropped.error());
  begin_flushes(message.count);  // of several flushes that became one, only the end may come here
  if (auto ended = end_flushes(next_index_, message.count); !ended) return tl::unexpected(std::move(ended.error()));
  return Step::kMarker;
}

/// The producer's times by our clock.
void StreamConnection::translate_times(wire::FrameMessage& message) const noexcept {
  const std::int64_t offset = clock_->offset_ns();
  format::FrameInfo& info = message.info;
  info.due_ns = measure::to_our_clock(info.due_ns, offset, format::kNoClockTime);
  info.capture_ns = measure::to_our_clock(info.capture_ns, offset, format::kNoClockTime);
  if (message.publish_ns == 0) return;
  // What seems to come from the future is as wrong as the offset, and counts as published now.
  message.publish_ns = std::min(measure::to_our_clock(message.publish_ns, offset, 0), base::monotonic_ns());
}

Result<Connection::Step> StreamConnection::take_frame(const wire::FrameMessage& message, Frame& frame) {
  FRAMELANE_CRASH_POINT("stream: frame complete");
  FramePool::Complete complete = end_->pool.complete(message);
  ring::Taken& taken = complete.taken;
  if (!complete.is_copy) uses_.fetch_add(1, std::memory_order_relaxed);
  const auto lost = advance_to(taken.index);
  // In mode latest the frame before this one is there, and is passed over.
  taken.skipped = (lost ? *lost : 0) + (frame ? frame.skipped() + 1 : 0);
  frame = Frame();
  hand_out(taken, complete.is_copy ? Place::kCopy : Place::kSlot, frame);
  if (!lost) {
    frame.release();
    return tl::unexpected(lost.error());
  }
  ++next_index_;
  return Step::kFrame;
}

}  // namespace framelane::lane
