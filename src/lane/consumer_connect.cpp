// SPDX-License-Identifier: MIT
// How a Consumer finds its producer, and finds one again.
#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>

#include <poll.h>
#include <time.h>
#include <unistd.h>

#include "framelane/base/log.hpp"

#include "base/clock.hpp"
#include "lane/consumer_core.hpp"
#include "lane/consumer_totals.hpp"
#include "lane/settings_check.hpp"

namespace framelane::lane {
namespace {

constexpr std::int64_t kHandshakeNs = 5'000'000'000;
constexpr std::int64_t kFirstBackoffNs = 20'000'000;
constexpr std::int64_t kMostBackoffNs = 250'000'000;

Error lasting(const wire::Reject& reject) {
  switch (reject.code) {
    case wire::RejectCode::kPermission:
      return {Code::kPermission, reject.sentence};
    case wire::RejectCode::kFrameSize:
      return {Code::kTooLarge, reject.sentence};
    case wire::RejectCode::kUnsupported:
    case wire::RejectCode::kVersion:
    case wire::RejectCode::kByteOrder:
      return {Code::kUnsupported, reject.sentence};
    default:
      return {Code::kRefused, reject.sentence};
  }
}

}  // namespace

Result<void> ConsumerCore::connect(std::int64_t deadline_ns) {
  while (connection_ == nullptr) {
    if (interrupted()) return fail(Code::kInterrupted);
    auto moved = connect_step(deadline_ns);
    if (!moved) return tl::unexpected(moved.error());
    if (!*moved) return fail(Code::kTimeout, "no producer of " + descriptor_ + " yet");
  }
  return {};
}

Result<bool> ConsumerCore::connect_step(std::int64_t until_ns) {
  if (final_) return tl::unexpected(*final_);
  const std::int64_t now = base::monotonic_ns();
  if (connect_until_ == 0) {
    // connect-timeout bounds the first connection only: a lane that was there once is worth waiting for.
    connect_until_ = totals_->connections == 0 ? base::deadline_after(settings_.connect_timeout) : base::kForever;
  }
  if (handshake_) return await_welcome(until_ns);
  if (now >= next_try_) return call();
  if (now >= until_ns) return false;
  pause(std::min(next_try_, until_ns), -1);
  return true;
}

Result<bool> ConsumerCore::call() {
  auto socket = transport::ControlSocket::connect(path_);
  if (!socket) {
    const Code code = socket.error().code;
    if (code == Code::kNotFound || code == Code::kTimeout) return retry_later(socket.error());
    connect_until_ = 0;
    return tl::unexpected(socket.error());
  }
  const transport::PeerCredentials peer = socket->peer();
  if (peer.uid != geteuid() && peer.uid != 0) {
    connect_until_ = 0;
    return fail(Code::kPermission, "the producer of " + descriptor_ + " runs as another user (uid " +
                                       std::to_string(peer.uid) +
                                       "); frames are only taken from the same user or root");
  }
  const auto bytes = wire::encode(hello(), 0);
  auto sent = socket->send(bytes);
  if (!sent) return retry_later(sent.error());
  handshake_ = std::move(*socket);
  handshake_until_ = base::monotonic_ns() + kHandshakeNs;
  return true;
}

wire::Hello ConsumerCore::hello() const {
  wire::Hello hello;
  hello.mode = settings_.mode == Mode::kLatest ? wire::Mode::kLatest : wire::Mode::kEvery;
  hello.gating = settings_.gating && settings_.mode == Mode::kEvery;
  hello.max_held = settings_.max_held;
  hello.abi_version = ring::kAbiVersion;
  hello.transports = wire::kTransportShm;
  hello.max_frame_size = settings_.max_frame_size;
  hello.name = program_invocation_short_name;
  return hello;
}

Result<bool> ConsumerCore::await_welcome(std::int64_t until_ns) {
  auto received = handshake_->receive();
  if (!received) {
    const Error why = received.error();
    handshake_.reset();
    if (why.code == Code::kPeerLost) return retry_later(why);
    connect_until_ = 0;
    return tl::unexpected(why);
  }
  if (*received) return welcomed(std::move(**received));
  const std::int64_t now = base::monotonic_ns();
  if (now >= handshake_until_ || now >= connect_until_) {
    handshake_.reset();
    return retry_later({Code::kTimeout, "a producer is there, but doesn't answer"});
  }
  if (now >= until_ns) return false;
  pause(std::min({until_ns, handshake_until_, connect_until_}), handshake_->fd());
  return true;
}

Result<bool> ConsumerCore::welcomed(transport::Received received) {
  transport::ControlSocket socket = std::move(*handshake_);
  handshake_.reset();
  auto decoded = wire::decode(received.bytes);
  if (decoded) {
    if (const auto* const reject = std::get_if<wire::Reject>(&decoded->message)) {
      if (wire::is_passing(reject->code)) return retry_later({Code::kRefused, reject->sentence});
      connect_until_ = 0;
      return tl::unexpected(lasting(*reject));
    }
  }
  connect_until_ = 0;
  if (!decoded) return tl::unexpected(decoded.error());
  auto* const welcome = std::get_if<wire::Welcome>(&decoded->message);
  if (welcome == nullptr)
    return fail(Code::kProtocol, "the producer broke the lane's protocol: first message isn't a WELCOME");
  ConnectionSettings wanted;
  wanted.max_frame_size = settings_.max_frame_size;
  wanted.latest = settings_.mode == Mode::kLatest;
  wanted.spin = spin_kind(settings_.spin);
  wanted.spin_budget = settings_.spin_budget;
  {
    const std::lock_guard lock(mutex_);
    wanted.on_flush = flush_callback_;
  }
  const auto producer_id = welcome->instance_id;
  auto connection = Connection::create(std::move(socket), std::move(*welcome), std::move(received.fds), wanted);
  if (!connection) return tl::unexpected(connection.error());
  backoff_ns_ = 0;
  next_try_ = 0;
  refusal_.reset();
  caps_.clear();   // the next producer may say none
  ended_ = false;  // another producer's stream is another one, and waited for
  if (flush_told_) (*connection)->events().emplace_front().type = format::EventType::kFlushStop;
  {
    const std::lock_guard lock(mutex_);
    connection_ = *connection;
    producer_id_ = producer_id;
    ++totals_->connections;
  }
  tell_connection(true);
  base::log(base::LogLevel::kInfo, "connected to " + descriptor_ + " by shm (same host, descriptors passed)");
  return true;
}

Result<bool> ConsumerCore::retry_later(Error why) {
  const std::int64_t now = base::monotonic_ns();
  if (why.code == Code::kRefused) refusal_ = why;
  if (now >= connect_until_) {
    // The last try may have had no time for its answer; a refusal before it says more.
    if (why.code == Code::kTimeout && refusal_) why = *refusal_;
    refusal_.reset();
    connect_until_ = 0;
    next_try_ = 0;
    backoff_ns_ = 0;
    const Code code = why.code == Code::kRefused ? Code::kRefused : Code::kNotFound;
    const auto seconds = std::chrono::duration<double>(settings_.connect_timeout).count();
    char waited[32];
    std::snprintf(waited, sizeof waited, "%.3g s", seconds);
    return fail(code, "no connection to " + descriptor_ + " within " + waited + " (" + why.text +
                          "); start the producer, check the lane's name, or raise connect-timeout");
  }
  backoff_ns_ = backoff_ns_ == 0 ? kFirstBackoffNs : std::min(backoff_ns_ * 3 / 2, kMostBackoffNs);
  std::uniform_int_distribution<std::int64_t> spread(backoff_ns_ * 3 / 4, backoff_ns_ * 5 / 4);
  next_try_ = std::min(now + spread(jitter_), connect_until_);
  return true;
}

void ConsumerCore::pause(std::int64_t until_ns, int fd) noexcept {
  pollfd fds[2] = {{interrupt_fd_.get(), POLLIN, 0}, {fd, POLLIN, 0}};
  timespec left{};
  if (until_ns != base::kForever) {
    const std::int64_t wait = std::max<std::int64_t>(until_ns - base::monotonic_ns(), 0);
    left.tv_sec = static_cast<time_t>(wait / 1'000'000'000);
    left.tv_nsec = static_cast<long>(wait % 1'000'000'000);
  }
  ppoll(fds, fd >= 0 ? 2 : 1, until_ns != base::kForever ? &left : nullptr, nullptr);
}

}  // namespace framelane::lane
