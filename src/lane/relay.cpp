// SPDX-License-Identifier: MIT
#include "lane/relay.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include "framelane/base/log.hpp"

#include "base/clock.hpp"
#include "base/crash_point.hpp"
#include "base/host.hpp"
#include "base/text.hpp"
#include "base/thread.hpp"
#include "lane/approach.hpp"
#include "transport/control_server.hpp"
#include "transport/control_socket.hpp"
#include "transport/stream_socket.hpp"

namespace framelane::lane {
namespace {

/// Bytes of a frame that the publishing thread sends for us. To copy them costs about what a wake of our thread does,
/// which may then have to wait for a CPU; and a socket that is empty has room for them with the system's usual limits.
/// Of larger frames a rest would be left to us each time.
constexpr std::size_t kMostMeanwhile = std::size_t{256} << 10;
constexpr std::int64_t kLastWordsNs = 1'000'000'000;  // for a peer to read why it was rejected

/// A connected pair, as a producer and a consumer in one process have it.
Result<std::pair<transport::ControlSocket, transport::ControlSocket>> socket_pair() {
  int fds[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds) != 0)
    return fail(Code::kSystem, std::string("no sockets for a consumer: ") + base::system_words(errno));
  return std::pair(transport::ControlSocket(base::UniqueFd(fds[0]), transport::AcceptFds::kNo),
                   transport::ControlSocket(base::UniqueFd(fds[1]), transport::AcceptFds::kYes));
}

wire::RejectCode reject_code(const Error& why) noexcept {
  switch (why.code) {
    case Code::kRefused:
      return wire::RejectCode::kTooMany;
    case Code::kTooLarge:
      return wire::RejectCode::kFrameSize;
    default:
      return wire::RejectCode::kNoResources;
  }
}

}  // namespace

class Relay::Door final : public ring::StandIn {
 public:
  [[nodiscard]] bool serve() noexcept override {
    // SYNC DOOR: the relay's thread has it, but while it sleeps in the ring's futex (Reader::sleep()).
    const std::unique_lock lock(mutex, std::try_to_lock);
    return lock && relay != nullptr && relay->forward_meanwhile();
  }

  std::mutex mutex;
  Relay* relay = nullptr;  // while it forwards
};

Relay::Relay(const RelayHost& host, transport::OpenStream opened, PeerInfo peer)
    : host_(host),
      stream_(std::move(opened.stream)),
      secure_(opened.secure),
      peer_(std::move(peer)),
      stop_fd_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      sender_(*stream_, stop_fd_.get()),
      receiver_(*stream_, *this, 1, wire::kMaxInlineBytes),  // as on the control socket
      door_(std::make_shared<Door>()) {}

Relay::~Relay() = default;

Result<void> Relay::start(std::function<void()> over) {
  if (!stop_fd_.valid()) return fail(Code::kSystem, "no event descriptor for a consumer");
  over_ = std::move(over);
  auto thread = base::start_thread("framelane-relay", [this] {
    const auto served = serve();
    death_watch_.reset();
    watch_.reset();
    signals_watch_.reset();
    if (stream_ != nullptr) stream_->shutdown();
    std::unique_ptr<ConsumerCore> core;
    std::string reason = served ? "it was told the end" : served.error().text;
    {
      const std::lock_guard lock(mutex_);
      core = std::move(core_);
      if (!reason_.empty()) reason = reason_;
    }
    core.reset();
    if (stream_ == nullptr) return over_();  // handed over
    const bool refused =
        !served && (served.error().code == Code::kPermission || served.error().code == Code::kProtocol);
    base::log(refused ? base::LogLevel::kWarning : base::LogLevel::kInfo,
              "a consumer of " + host_.descriptor + " over " + std::string(to_string(peer_.transport)) +
                  " is gone: " + reason);
    over_();
  });
  if (!thread) return tl::unexpected(std::move(thread.error()));
  thread_ = std::move(*thread);
  return {};
}

void Relay::end(std::string reason) noexcept {
  {
    const std::lock_guard lock(mutex_);
    if (reason_.empty()) reason_ = std::move(reason);
    greeting_ = false;
    if (core_ != nullptr) core_->interrupt();
  }
  eventfd_write(stop_fd_.get(), 1);
}

Result<void> Relay::serve() {
  const std::int64_t deadline = base::deadline_after(host_.handshake_timeout);
  if (auto done = await_handshake(deadline); !done) return done;
  auto hello = await_hello(deadline);
  if (!hello) return tl::unexpected(std::move(hello.error()));
  FRAMELANE_CRASH_POINT("relay: HELLO received");
  if (auto no = refusal(*hello)) return reject(std::move(*no));
  if (hello->role == wire::Role::kSignals) return hand_over_signals(hello->token);
  const Admission admission = host_.admission(peer_);
  if (admission == Admission::kRefused)
    return reject({wire::RejectCode::kPermission, "the producer doesn't let you read this lane"});
  greeting_ = false;  // from here on it may be counted, and gets all that follows
  if (auto joined = join_ring(*hello, admission == Admission::kGating, deadline); !joined)
    return reject({reject_code(joined.error()), joined.error().text});
  FRAMELANE_CRASH_POINT("relay: in the ring, before the signals");
  if (auto watched = watch_signals(host_.take_signals(hello->token)); !watched) return watched;
  FRAMELANE_CRASH_POINT("relay: before the WELCOME");
  if (auto sent = welcome(*hello, deadline); !sent) return sent;
  FRAMELANE_CRASH_POINT("relay: WELCOME sent");
  if (auto watched = watch(); !watched) return watched;
  auto done = forward();
  if (!done) return done;
  // The producer has ended the lane.
  if (auto told = sender_.send(wire::Leave{}, 0, base::kForever); !told) return told;
  FRAMELANE_CRASH_POINT("relay: end told");
  stream_->finish();
  return await_delivery();
}

/// A TCP socket that is closed while the peer still sends would take back what is on its way.
Result<void> Relay::await_delivery() {
  constexpr std::int64_t kLookNs = 1'000'000;
  while (peer_.transport == Transport::kTcp && !transport::all_delivered(stream_->fd())) {
    auto look = transport::wait_for(-1, 0, stop_fd_.get(), base::monotonic_ns() + kLookNs);
    if (!look && look.error().code != Code::kTimeout) return look;
  }
  return {};
}

// --- greeting

Result<void> Relay::await_handshake(std::int64_t deadline_ns) {
  while (secure_ != nullptr) {
    auto step = secure_->handshake();
    if (!step) return tl::unexpected(std::move(step.error()));
    if (*step == transport::Handshake::kDone) return {};
    const short events = *step == transport::Handshake::kWantsWrite ? POLLOUT : POLLIN;
    auto ready = transport::wait_for(stream_->fd(), events, stop_fd_.get(), deadline_ns);
    if (!ready && ready.error().code == Code::kTimeout)
      return fail(Code::kTimeout, "it didn't end its handshake in time");
    if (!ready) return ready;
  }
  return {};
}

Result<wire::Hello> Relay::await_hello(std::int64_t deadline_ns) {
  auto received = receiver_.receive_until(deadline_ns, stop_fd_.get());
  if (!received) {
    Error why = std::move(received.error());
    if (why.code == Code::kTimeout) why.text = "it said no HELLO in time";
    if (why.code == Code::kProtocol) return reject({wire::RejectCode::kBadHello, why.text});
    return tl::unexpected(std::move(why));
  }
  if (auto* const hello = std::get_if<wire::Hello>(&received->message)) return std::move(*hello);
  return reject({wire::RejectCode::kBadHello, "a connection must begin with HELLO, not " +
                                                  std::string(to_string(wire::type_of(received->message)))});
}

std::optional<wire::Reject> Relay::refusal(const wire::Hello& hello) {
  if (auto no = transport::refusal_of(hello)) return no;
  if (hello.byte_order != wire::kNativeByteOrder) {
    return wire::Reject{wire::RejectCode::kByteOrder,
                        "the producer's host has another byte order than yours: its frames would be read wrongly"};
  }
  if (hello.role == wire::Role::kObserver)
    return wire::Reject{wire::RejectCode::kUnsupported, "observers are answered on the control socket only"};
  if (hello.lane != host_.lane) {
    return wire::Reject{wire::RejectCode::kUnknownLane,
                        "the lane \"" + hello.lane + "\" isn't here; this is \"" + host_.lane + "\""};
  }
  peer_.name = hello.name;
  return std::nullopt;
}

Result<void> Relay::join_ring(const wire::Hello& hello, bool may_gate, std::int64_t deadline_ns) {
  auto pair = socket_pair();
  if (!pair) return tl::unexpected(std::move(pair.error()));
  ApproachSettings wanted;
  wanted.hello = hello;
  wanted.hello.max_held = 1;  // the frame that is being sent
  wanted.hello.max_frame_size = wire::kMaxFrameBytes;
  wanted.hello.abi_version = ring::kAbiVersion;
  wanted.connection.max_frame_size = wire::kMaxFrameBytes;
  wanted.connection.latest = hello.mode == wire::Mode::kLatest;
  wanted.connection.lock = &door_->mutex;
  wanted.connection.on_flush = [this] { on_flush(); };
  wanted.connection.on_demoted = [this](bool demoted) { on_demoted(demoted); };
  auto monitor = transport::Monitor::instance();
  if (!monitor) return tl::unexpected(monitor.error());
  (*monitor)->call([&] { host_.join(std::move(pair->first), {wanted.hello, peer_, may_gate, door_}); });
  const auto joining = approach_after_hello(std::move(pair->second), wanted.connection);
  while (true) {
    auto connection = joining->step();
    if (!connection) return tl::unexpected(std::move(connection.error().error));
    if (*connection != nullptr) return take_over(*connection);
    auto ready = transport::wait_for(joining->fd(), joining->events(), stop_fd_.get(), deadline_ns);
    if (!ready) return ready;
  }
}

Result<void> Relay::take_over(Connection* connection) {
  auto core = ConsumerCore::create(connection, host_.descriptor);
  if (!core) return tl::unexpected(std::move(core.error()));
  const std::lock_guard lock(mutex_);
  core_ = std::move(*core);
  if (!reason_.empty()) return fail(Code::kInterrupted, reason_);  // end() found nothing to interrupt
  return {};
}

Result<void> Relay::welcome(const wire::Hello& hello, std::int64_t deadline_ns) {
  const Connection& ring = *core_->connection();
  wire::Welcome welcome;
  welcome.instance_id = host_.instance_id;
  welcome.consumer_id = ring.welcome().consumer_id;
  welcome.start = ring.next_index();
  welcome.max_held = std::clamp(hello.max_held, 1u, host_.max_held);
  welcome.gating = ring.gating();
  set_clock(welcome);
  welcome.served = host_.served;
  return sender_.send(welcome, 0, deadline_ns);
}

tl::unexpected<Error> Relay::reject(wire::Reject reject) {
  Error why{Code::kRefused, "it was rejected: " + reject.sentence};
  const std::int64_t deadline = base::monotonic_ns() + kLastWordsNs;
  if (sender_.send(std::move(reject), 0, deadline)) {
    stream_->finish();
    await_hang_up(deadline);  // or what it sent and nobody reads would reset the stream, and the REJECT with it
  }
  return tl::unexpected(std::move(why));
}

void Relay::await_hang_up(std::int64_t deadline_ns) noexcept {
  std::array<std::byte, 4096> ignored;
  const iovec room{ignored.data(), ignored.size()};
  // The wait says when it is over, also to one that always has something to read: a peer may send without an end.
  while (base::monotonic_ns() < deadline_ns &&
         transport::wait_for(stream_->fd(), POLLIN, stop_fd_.get(), deadline_ns)) {
    if (!stream_->receive({&room, 1})) return;
  }
}

// --- sending

Result<void> Relay::forward() {
  const std::lock_guard lock(door_->mutex);  // free while next() sleeps
  if (secure_ == nullptr) door_->relay = this;
  auto done = forward_items();
  door_->relay = nullptr;
  return done;
}

Result<void> Relay::forward_items() {
  while (true) {
    auto item = core_->next(base::kForever, true);
    if (!item && item.error().code == Code::kInterrupted && goes_on_with_rest()) {
      if (auto sent = sender_.send_rest(base::kForever); !sent) return sent;
      continue;
    }
    if (!item && item.error().code == Code::kPeerLost) return {};
    if (!item) return tl::unexpected(std::move(item.error()));
    FRAMELANE_CRASH_POINT("relay: frame taken");
    if (auto sent = send_item(**item); !sent) return sent;
    FRAMELANE_CRASH_POINT("relay: frame sent, before it is released");
  }
}

/// In place of our thread, which sleeps. True: it may sleep on.
bool Relay::forward_meanwhile() noexcept {
  using Sent = transport::StreamSender::Sent;
  if (sender_.has_rest() || core_->connection() == nullptr) return false;
  while (true) {
    Frame frame;
    const auto step = core_->take_meanwhile(frame);
    if (step != Connection::Step::kFrame) return step == Connection::Step::kNothing;
    FRAMELANE_CRASH_POINT("door: frame taken");
    const bool small = frame.size() <= kMostMeanwhile;
    const auto sent = small ? sender_.send_frame_now(message_of(frame), frame.side_data(), frame.bytes())
                            : Result<Sent>(Sent::kNothing);
    if (sent && *sent == Sent::kWhole) {
      FRAMELANE_CRASH_POINT("door: frame sent, before it is released");
      continue;
    }
    if (sent && *sent == Sent::kPart) {
      core_->interrupt();  // next() would see nothing to do
    } else {
      core_->put_back(std::move(frame));  // an error comes again, too
    }
    return false;
  }
}

/// Whether next() was interrupted for nothing but what forward_meanwhile() left.
bool Relay::goes_on_with_rest() {
  const std::lock_guard lock(mutex_);
  if (!sender_.has_rest() || !reason_.empty()) return false;
  core_->resume();
  return true;
}

Result<void> Relay::send_item(const Item& item) {
  if (const auto* const frame = std::get_if<Frame>(&item)) return send_frame(*frame);
  return send_event(std::get<format::Event>(item));
}

Result<void> Relay::send_frame(const Frame& frame) {
  return sender_.send_frame(message_of(frame), frame.side_data(), frame.bytes(), base::kForever);
}

wire::FrameMessage Relay::message_of(const Frame& frame) {
  if (frame.size() > tuned_for_) {
    tuned_for_ = frame.size();
    transport::tune_stream(stream_->fd(), tuned_for_);
  }
  wire::FrameMessage message;
  message.index = frame.seq();
  message.publish_ns = frame.published();
  message.info = frame.info();
  return message;
}

Result<void> Relay::send_event(const format::Event& event) {
  using format::EventType;
  if (core_->connection() == nullptr) return {};  // a flush that the end of the lane has ended
  const Connection& ring = *core_->connection();
  switch (event.type) {
    case EventType::kFlushStart:
      // Of one that is told and over already, both messages have its number.
      return sender_.send(wire::FlushStart{ring.flushes_ended() + (ring.flush_is_open() ? 1 : 0)}, 0, base::kForever);
    case EventType::kFlushStop:
      return sender_.send(wire::FlushStop{core_->event_index(), ring.flushes_ended()}, 0, base::kForever);
    default:
      return sender_.send(wire::EventMessage{event, core_->event_index()}, 0, base::kForever);
  }
}

// --- signals

/// This stream is no consumer of its own: it waits for that consumer's frames.
Result<void> Relay::hand_over_signals(std::uint64_t token) {
  wire::Welcome welcome;
  welcome.instance_id = host_.instance_id;
  welcome.served = host_.served;
  set_clock(welcome);
  FRAMELANE_CRASH_POINT("relay: signals greeted, before they are kept");
  host_.keep_signals(token, std::exchange(stream_, nullptr), wire::encode(welcome, 0));
  return {};
}

/// `signals` null: it has none.
Result<void> Relay::watch_signals(std::unique_ptr<transport::ByteStream> signals) {
  if (signals == nullptr) return {};
  auto monitor = transport::Monitor::instance();
  if (!monitor) return tl::unexpected(monitor.error());
  signals_receiver_.emplace(*signals, static_cast<transport::FrameReceiver&>(*this), 1, wire::kMaxInlineBytes);
  const int fd = signals->fd();
  {
    const std::lock_guard lock(mutex_);
    signals_ = std::move(signals);
    // What came to pass before.
    if (flushes_begun_ != 0) signal(wire::FlushStart{flushes_begun_});
    if (demoted_) signal(wire::Demoted{true});
  }
  auto watched = (*monitor)->watch(fd, 0, [this](std::uint32_t) { on_signals(); });
  if (!watched) return tl::unexpected(std::move(watched.error()));
  signals_watch_ = std::move(*watched);
  (*monitor)->call([this] { on_signals(); });
  return {};
}

void Relay::on_flush() {
  const std::lock_guard lock(mutex_);
  signal(wire::FlushStart{++flushes_begun_});
}

void Relay::on_demoted(bool demoted) {
  const std::lock_guard lock(mutex_);
  demoted_ = demoted;
  signal(wire::Demoted{demoted});
}

/// Under mutex_. Never waits: a stream with no room for this has told its peer enough.
void Relay::signal(const wire::Message& message) noexcept {
  if (signals_ == nullptr) return;
  const auto bytes = wire::encode(message, 0);
  const iovec buffer{const_cast<std::byte*>(bytes.data()), bytes.size()};
  const auto sent = signals_->send({&buffer, 1});
  if (!sent || *sent != bytes.size()) signals_->shutdown();  // of flushes the frames' stream tells the same, later
}

void Relay::on_signals() {
  while (true) {
    auto received = signals_receiver_->receive();
    if (!received) return;  // it closed, of which the frames' stream tells
    if (!*received) break;
    const auto* const clock = std::get_if<wire::Clock>(&(*received)->message);
    if (clock == nullptr || !questions_.take(base::monotonic_ns()))
      return end("it sent signals that consumers don't send");
    const std::lock_guard lock(mutex_);
    signal(wire::Clock{clock->asked_ns, static_cast<std::uint64_t>(base::monotonic_ns())});
  }
  signals_watch_.set_events(EPOLLIN | EPOLLRDHUP);
}

// --- what the consumer says

Result<void> Relay::watch() {
  auto monitor = transport::Monitor::instance();
  if (!monitor) return tl::unexpected(monitor.error());
  auto watched = (*monitor)->watch(stream_->fd(), 0, [this](std::uint32_t) { on_stream(); });
  if (!watched) return tl::unexpected(std::move(watched.error()));
  watch_ = std::move(*watched);
  if (auto death = watch_death(**monitor); !death) return death;
  // What came with the HELLO may be in the receiver already.
  (*monitor)->call([this] { on_stream(); });
  return {};
}

/// A child that the consumer forked can keep the stream open. (Over TCP there is no way to see that.)
Result<void> Relay::watch_death(transport::Monitor& monitor) {
  if (peer_.transport != Transport::kUds) return {};
  auto pidfd = transport::peer_pidfd(stream_->fd());
  if (!pidfd && pidfd.error().code == Code::kPeerLost) return tl::unexpected(std::move(pidfd.error()));
  if (!pidfd) return {};  // the hang-up alone has to do
  pidfd_ = std::move(*pidfd);
  auto watched =
      monitor.watch(pidfd_.get(), EPOLLIN | EPOLLONESHOT, [this](std::uint32_t) { end("its process ended"); });
  if (!watched) return tl::unexpected(std::move(watched.error()));
  death_watch_ = std::move(*watched);
  return {};
}

void Relay::on_stream() {
  // As many as there are: more than an honest consumer sends end it.
  while (true) {
    auto received = receiver_.receive();
    if (!received) return end(received.error().code == Code::kPeerLost ? "it closed" : received.error().text);
    if (!*received) break;
    if (!on_message(std::move(**received))) return;
  }
  watch_.set_events(EPOLLIN | EPOLLRDHUP);
}

bool Relay::on_message(wire::Decoded message) {
  if (!messages_.take(base::monotonic_ns())) {
    end("it floods its stream with messages");
    return false;
  }
  if (auto* const request = std::get_if<wire::RequestMessage>(&message.message)) {
    static_cast<void>(core_->send(request->request));  // more than an honest one sends are dropped
    return true;
  }
  const bool leaves = std::holds_alternative<wire::Leave>(message.message);
  end(leaves ? "it left" : "it sent a message that consumers don't send");
  return false;
}

Result<transport::FrameRoom> Relay::room_for(const wire::FrameMessage&) {
  return fail(Code::kProtocol, "it sent a frame, which consumers don't send");
}

}  // namespace framelane::lane
