// SPDX-License-Identifier: MIT
#include "lane/approach.hpp"

#include <array>
#include <cerrno>
#include <optional>
#include <utility>

#include <poll.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/clock.hpp"
#include "base/crash_point.hpp"
#include "base/text.hpp"
#include "lane/shm_connection.hpp"
#include "lane/stream_connection.hpp"
#include "transport/control_socket.hpp"
#include "transport/psk.hpp"
#include "transport/secure_stream.hpp"
#include "transport/stream_socket.hpp"

namespace framelane::lane {
namespace {

tl::unexpected<Setback> setback(Error error, bool passing = false) {
  return tl::unexpected<Setback>(Setback{std::move(error), passing});
}

Code code_of(wire::RejectCode code) noexcept {
  using wire::RejectCode;
  switch (code) {
    case RejectCode::kPermission:
      return Code::kPermission;
    case RejectCode::kFrameSize:
      return Code::kTooLarge;
    case RejectCode::kUnknownLane:
      return Code::kNotFound;
    case RejectCode::kUnsupported:
    case RejectCode::kVersion:
    case RejectCode::kByteOrder:
      return Code::kUnsupported;
    default:
      return Code::kRefused;
  }
}

/// What the producer answered to the HELLO.
Tried<wire::Welcome> welcome_in(Result<wire::Decoded> answer) {
  if (!answer) return setback(std::move(answer.error()));
  if (const auto* const reject = std::get_if<wire::Reject>(&answer->message))
    return setback(error_of(*reject), wire::is_passing(reject->code));
  auto* const welcome = std::get_if<wire::Welcome>(&answer->message);
  if (welcome == nullptr) return setback(broken_lane("first message isn't a WELCOME").value());
  return std::move(*welcome);
}

/// Whether the process that listens where we are connected, by a Unix domain socket, has died. A child that it forked
/// may keep its sockets open: whoever connects there gets no answer. (No descriptor is kept for this: the connection
/// may need the last one.)
bool listener_has_died(int fd) {
  const auto pidfd = transport::peer_pidfd(fd);
  if (!pidfd) return pidfd.error().code == Code::kPeerLost;
  pollfd ended{pidfd->get(), POLLIN, 0};
  return ::poll(&ended, 1, 0) > 0;
}

tl::unexpected<Setback> died() {
  return setback({Code::kPeerLost, "the producer died, and a child that it forked keeps its socket open"}, true);
}

// --- shared memory

class ShmApproach final : public Approach {
 public:
  ShmApproach(transport::ControlSocket socket, const ConnectionSettings& settings)
      : socket_(std::move(socket)), settings_(settings) {}

  Tried<Connection*> step() override {
    auto received = socket_.receive();
    if (!received) return setback(received.error(), received.error().code == Code::kPeerLost);
    if (!*received && listener_has_died(socket_.fd())) return died();
    if (!*received) return nullptr;
    auto welcome = welcome_in(wire::decode((*received)->bytes));
    if (!welcome) return tl::unexpected(std::move(welcome.error()));
    FRAMELANE_CRASH_POINT("WELCOME: received");
    if (!shares_time_namespace(*welcome)) {  // descriptors were passed, so it is one kernel
      return setback({Code::kUnsupported,
                      "the producer lives in another time namespace, whose times can't be "
                      "translated in shared memory; use transport uds or tcp"});
    }
    auto connection =
        ShmConnection::create(std::move(socket_), std::move(*welcome), std::move((*received)->fds), settings_);
    if (!connection) return setback(std::move(connection.error()));
    FRAMELANE_CRASH_POINT("WELCOME: its memory mapped");
    return *connection;
  }
  [[nodiscard]] int fd() const noexcept override { return socket_.fd(); }
  [[nodiscard]] short events() const noexcept override { return POLLIN; }

 private:
  transport::ControlSocket socket_;
  ConnectionSettings settings_;
};

Tried<std::unique_ptr<Approach>> approach_shm(const Way& way, const ApproachSettings& settings) {
  auto socket = transport::ControlSocket::connect(way.path);
  if (!socket) {
    const Code code = socket.error().code;
    return setback(std::move(socket.error()), code == Code::kNotFound || code == Code::kTimeout);
  }
  if (auto fine = check_producer(socket->peer().uid, way.path); !fine) return setback(std::move(fine.error()));
  FRAMELANE_CRASH_POINT("HELLO: connected");
  auto sent = socket->send(wire::encode(settings.hello, 0));
  FRAMELANE_CRASH_POINT("HELLO: sent");
  if (!sent) return setback(std::move(sent.error()), true);
  return approach_after_hello(std::move(*socket), settings.connection);
}

// --- streams

tl::unexpected<Setback> stream_setback(Error error) {
  const Code code = error.code;
  return setback(std::move(error), code == Code::kPeerLost || code == Code::kNotFound || code == Code::kTimeout);
}

/// A connected, or connecting, stream of one of the ways that have one.
Tried<transport::OpenStream> open_stream(const Way& way, const ApproachSettings& settings) {
  const bool tcp = way.transport == Transport::kTcp;
  auto socket = tcp ? transport::begin_tcp(way.host, way.port, settings.turn) : transport::connect_uds(way.path);
  if (!socket) return stream_setback(std::move(socket.error()));
  if (!tcp) {
    if (auto fine = check_producer(transport::peer_credentials(socket->get()).uid, way.path); !fine)
      return setback(std::move(fine.error()));
  }
  transport::tune_stream(socket->get(), 0);
  std::optional<transport::Psk> psk;
  if (tcp && !settings.psk_file.empty()) {
    auto read = transport::read_psk(settings.psk_file);
    if (!read) return setback(std::move(read.error()));
    psk = std::move(*read);
  }
  auto stream = transport::open_stream(std::move(*socket), transport::TlsSide::kClient, psk ? &*psk : nullptr);
  if (!stream) return setback(std::move(stream.error()));
  return std::move(*stream);
}

/// Handshake of TLS, HELLO and WELCOME on one stream, and with them a first look at the producer's clock.
class Greeting {
 public:
  /// `clock` must outlive it.
  Greeting(transport::OpenStream opened, const wire::Hello& hello, std::uint64_t max_frame_size,
           measure::ClockFilter& clock)
      : hello_(wire::encode(hello, 0)),
        clock_(clock),
        secure_(opened.secure),
        end_(std::make_unique<StreamEnd>(std::move(opened.stream), max_frame_size)) {}

  /// Empty: not ready yet.
  [[nodiscard]] Tried<std::optional<wire::Welcome>> step() {
    if (secure_ != nullptr) {
      auto done = secure_->handshake();
      if (!done) return stream_setback(std::move(done.error()));
      wants_write_ = *done == transport::Handshake::kWantsWrite;
      if (*done != transport::Handshake::kDone) return std::nullopt;
      secure_ = nullptr;
    }
    if (!hello_.empty()) {
      if (asked_ns_ == 0) asked_ns_ = base::monotonic_ns();
      const iovec rest{hello_.data(), hello_.size()};
      auto sent = end_->stream->send({&rest, 1});
      if (!sent) return stream_setback(std::move(sent.error()));
      hello_.erase(hello_.begin(), hello_.begin() + static_cast<std::ptrdiff_t>(*sent));
      if (!hello_.empty()) return std::nullopt;
      FRAMELANE_CRASH_POINT("HELLO: sent on a stream");
    }
    auto received = end_->receiver.receive();
    if (!received) return stream_setback(std::move(received.error()));
    if (!*received) return std::nullopt;
    auto welcome = welcome_in(std::move(**received));
    if (!welcome) return tl::unexpected(std::move(welcome.error()));
    FRAMELANE_CRASH_POINT("WELCOME: received on a stream");
    clock_.add(asked_ns_, static_cast<std::int64_t>(welcome->clock_ns), base::monotonic_ns());
    return std::optional(std::move(*welcome));
  }
  [[nodiscard]] int fd() const noexcept { return end_->stream->fd(); }
  [[nodiscard]] short events() const noexcept {
    const bool writes = secure_ != nullptr ? wants_write_ : !hello_.empty();
    return writes ? POLLOUT : POLLIN;
  }
  [[nodiscard]] std::unique_ptr<StreamEnd> take_end() noexcept { return std::move(end_); }

 private:
  std::vector<std::byte> hello_;  // what of it isn't sent yet
  std::int64_t asked_ns_ = 0;     // when it went
  measure::ClockFilter& clock_;
  transport::SecureStream* secure_ = nullptr;  // until its handshake is done
  bool wants_write_ = true;                    // that handshake, which begins with our words
  std::unique_ptr<StreamEnd> end_;
};

/// Not 0.
Result<std::uint64_t> random_token() {
  std::uint64_t token = 0;
  while (token == 0) {
    if (getrandom(&token, sizeof token, 0) != sizeof token)
      return fail(Code::kSystem, std::string("no random numbers: ") + base::system_words(errno));
  }
  return token;
}

/// First the stream of the signals, then that of the frames, so that a consumer which the producer counts has all that
/// it needs: a producer that ends at once loses nothing.
class StreamApproach final : public Approach {
 public:
  [[nodiscard]] static Tried<std::unique_ptr<Approach>> begin(const Way& way, ApproachSettings settings) {
    auto token = random_token();
    if (!token) return setback(std::move(token.error()));
    settings.hello.token = *token;
    std::unique_ptr<StreamApproach> approach(new StreamApproach(way, std::move(settings)));
    if (auto begun = approach->greet(wire::Role::kSignals); !begun) return tl::unexpected(std::move(begun.error()));
    return approach;
  }

  Tried<Connection*> step() override {
    if (!greeting_) {
      if (auto begun = greet(wire::Role::kConsumer); !begun) return tl::unexpected(std::move(begun.error()));
    }
    auto welcome = greeting_->step();
    if (!welcome) return tl::unexpected(std::move(welcome.error()));
    if (!*welcome && way_.transport == Transport::kUds && listener_has_died(greeting_->fd())) return died();
    if (!*welcome) return nullptr;
    if (signals_ == nullptr) {
      half_way_ = std::move(**welcome);
      signals_ = greeting_->take_end();
      FRAMELANE_CRASH_POINT("WELCOME: of the signals, before the frames' HELLO");
      greeting_.reset();
      return nullptr;
    }
    if ((*welcome)->instance_id != half_way_.instance_id)
      return setback(broken_lane("instance_id of the second WELCOME").value(), true);
    auto connection =
        StreamConnection::create({greeting_->take_end(), std::move(signals_), std::move(**welcome), clock_},
                                 way_.transport, settings_.connection);
    if (!connection) return setback(std::move(connection.error()));
    return *connection;
  }
  [[nodiscard]] int fd() const noexcept override { return greeting_ ? greeting_->fd() : signals_->stream->fd(); }
  [[nodiscard]] short events() const noexcept override { return greeting_ ? greeting_->events() : POLLOUT; }
  [[nodiscard]] const wire::Welcome* half_way() const noexcept override {
    return signals_ != nullptr && !greeting_ ? &half_way_ : nullptr;
  }

 private:
  StreamApproach(Way way, ApproachSettings settings) : way_(std::move(way)), settings_(std::move(settings)) {}

  Tried<void> greet(wire::Role role) {
    auto stream = open_stream(way_, settings_);
    if (!stream) return tl::unexpected(std::move(stream.error()));
    wire::Hello hello = settings_.hello;
    hello.role = role;
    greeting_.emplace(std::move(*stream), hello, settings_.connection.max_frame_size, clock_);
    return {};
  }

  Way way_;
  ApproachSettings settings_;
  measure::ClockFilter clock_;
  std::optional<Greeting> greeting_;    // empty: half way
  std::unique_ptr<StreamEnd> signals_;  // null: they are still being greeted
  wire::Welcome half_way_;              // of the signals
};

}  // namespace

Error error_of(const wire::Reject& reject) { return {code_of(reject.code), reject.sentence}; }

Result<void> check_producer(uid_t uid, const std::string& path) {
  if (uid == geteuid() || uid == 0) return {};
  return fail(Code::kPermission, "the producer at " + path + " runs as another user (uid " + std::to_string(uid) +
                                     "); lanes are only taken from the same user or root");
}

std::unique_ptr<Approach> approach_after_hello(transport::ControlSocket socket, const ConnectionSettings& settings) {
  return std::make_unique<ShmApproach>(std::move(socket), settings);
}

Tried<std::unique_ptr<Approach>> approach(const Way& way, const ApproachSettings& settings) {
  ApproachSettings own = settings;
  own.hello.lane = way.lane;
  switch (way.transport) {
    case Transport::kTcp:
      own.hello.transports = wire::kTransportTcp;
      return StreamApproach::begin(way, std::move(own));
    case Transport::kUds:
      own.hello.transports = wire::kTransportUds;
      return StreamApproach::begin(way, std::move(own));
    default:
      own.hello.transports = wire::kTransportShm;
      return approach_shm(way, own);
  }
}

}  // namespace framelane::lane
