// SPDX-License-Identifier: MIT
#include "lane/stream_connection.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include <poll.h>
#include <sys/eventfd.h>

#include "base/clock.hpp"
#include "base/host.hpp"
#include "base/text.hpp"
#include "ring/page_counters.hpp"
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

bool shares_clock(const wire::Welcome& welcome) noexcept {
  return welcome.boot_id == base::boot_id() && welcome.boot_id != std::array<std::uint8_t, 16>{};
}

}  // namespace

Result<Connection*> StreamConnection::create(std::unique_ptr<StreamEnd> end, std::unique_ptr<StreamEnd> signals,
                                             wire::Welcome welcome, Transport transport,
                                             const ConnectionSettings& settings) {
  if (!welcome.segments.empty()) return broken_lane("segments of the WELCOME on a stream");
  if (welcome.max_held == 0 || welcome.max_held > std::max(settings.max_held, 1u))
    return broken_lane("max_held of the WELCOME");
  base::UniqueFd wake_fd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!wake_fd.valid()) return fail(Code::kSystem, "no event descriptor: " + base::system_words(errno));
  end->pool.prepare(welcome.max_held);
  auto* const connection = new StreamConnection(std::move(end), std::move(signals), std::move(welcome), transport,
                                                std::move(wake_fd), settings);
  if (auto watched = connection->watch(); !watched) {
    connection->drop();
    return tl::unexpected(std::move(watched.error()));
  }
  return connection;
}

StreamConnection::StreamConnection(std::unique_ptr<StreamEnd> end, std::unique_ptr<StreamEnd> signals,
                                   wire::Welcome welcome, Transport transport, base::UniqueFd wake_fd,
                                   const ConnectionSettings& settings)
    : Connection(std::move(welcome), settings.on_flush),
      end_(std::move(end)),
      transport_(transport),
      wake_fd_(std::move(wake_fd)),
      latest_(settings.latest),
      same_clock_(shares_clock(this->welcome())),
      next_index_(this->welcome().start),
      spinner_(settings.spin, settings.spin_budget),
      page_(std::make_unique<ring::ConsumerPage>()),
      signals_(std::move(signals)) {}

void StreamConnection::drop() noexcept {
  watch_.reset();
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
  (*monitor)->call([this] { on_signals(); });  // what came with the WELCOME may be in the receiver already
  return {};
}

void StreamConnection::on_signals() {
  while (true) {
    auto received = signals_->receiver.receive();
    if (!received) return;  // the producer is gone, which the frames' stream tells
    if (!*received) break;
    const auto* const start = std::get_if<wire::FlushStart>(&(*received)->message);
    if (start == nullptr) return watch_.set_events(0);  // nothing else is a signal, so nothing more is believed
    begin_flushes(start->count);
    wake();
    tell_flush();
  }
  watch_.set_events(EPOLLIN | EPOLLRDHUP);
}

void StreamConnection::release(std::uint16_t slot) noexcept {
  end_->pool.release(slot);
  if (uses_.fetch_sub(1, std::memory_order_acq_rel) == 1) delete this;
}

void StreamConnection::leave() noexcept {
  const auto bytes = wire::encode(wire::Leave{}, 0);
  const std::lock_guard lock(send_mutex_);
  static_cast<void>(send_now(bytes));  // if it can't be sent, the producer learns it from the hang-up
}

Result<bool> StreamConnection::send_now(std::span<const std::byte> message) {
  // What was begun must be ended first: the stream has no other borders than its messages.
  auto ready = send_rest();
  if (!ready || !*ready) return ready;
  const std::array<iovec, 1> buffer{{{const_cast<std::byte*>(message.data()), message.size()}}};
  auto sent = end_->stream->send(buffer);
  if (!sent) return tl::unexpected(std::move(sent.error()));
  if (*sent == 0) return false;
  unsent_.assign(message.begin() + static_cast<std::ptrdiff_t>(*sent), message.end());
  return true;
}

Result<bool> StreamConnection::send_rest() {
  if (unsent_.empty()) return true;
  const std::array<iovec, 1> buffer{{{unsent_.data(), unsent_.size()}}};
  auto sent = end_->stream->send(buffer);
  if (!sent) return tl::unexpected(std::move(sent.error()));
  unsent_.erase(unsent_.begin(), unsent_.begin() + static_cast<std::ptrdiff_t>(*sent));
  return unsent_.empty();
}

// --- waiting

bool StreamConnection::readable() const noexcept {
  pollfd fd{end_->stream->fd(), POLLIN, 0};
  return ::poll(&fd, 1, 0) > 0;
}

void StreamConnection::wait(const std::function<bool()>& stop, std::int64_t deadline_ns) noexcept {
  eventfd_t wakes = 0;
  eventfd_read(wake_fd_.get(), &wakes);  // before the look at what they told of
  unsigned turn = 0;
  const auto done = [&] { return lost() || stop() || (turn++ % kTurnsPerLook == 0 && readable()); };
  if (spinner_.spin(done, deadline_ns)) return ring::count(page_->spins);
  ring::count(page_->sleeps);
  {
    const std::lock_guard lock(send_mutex_);
    static_cast<void>(send_rest());
  }
  const std::int64_t now = base::monotonic_ns();
  const std::int64_t at = spinner_.wake_at(now);
  const auto ready =
      transport::wait_for(end_->stream->fd(), POLLIN, wake_fd_.get(), std::min({deadline_ns, now + kWatchdogNs, at}));
  if (at == base::kForever || ready || ready.error().code != Code::kTimeout) return;
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
  auto received = end_->receiver.receive();
  if (received) return received;
  const bool closed = received.error().code == Code::kPeerLost;
  set_lost(closed ? std::nullopt : std::optional<Error>(received.error()));
  if (closed) return std::optional<wire::Decoded>();
  return received;
}

Result<Connection::Step> StreamConnection::apply(wire::Decoded message, Frame& frame) {
  if (const auto* const next = std::get_if<wire::FrameMessage>(&message.message)) return take_frame(*next, frame);
  if (auto* const event = std::get_if<wire::EventMessage>(&message.message)) return apply_event(*event);
  if (const auto* const stop = std::get_if<wire::FlushStop>(&message.message)) return apply_flush_stop(*stop);
  if (const auto* const demoted = std::get_if<wire::Demoted>(&message.message)) {
    set_demoted(demoted->demoted);
  } else if (const auto* const start = std::get_if<wire::FlushStart>(&message.message)) {
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

Result<Connection::Step> StreamConnection::take_frame(const wire::FrameMessage& message, Frame& frame) {
  FramePool::Complete complete = end_->pool.complete(message);
  ring::Taken& taken = complete.taken;
  if (!complete.is_copy) uses_.fetch_add(1, std::memory_order_relaxed);
  if (!same_clock_) {
    taken.publish_ns = 0;
    taken.due_ns = format::kNoClockTime;
  }
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
