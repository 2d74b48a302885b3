// SPDX-License-Identifier: MIT
#include "transport/control_server.hpp"

#include <cerrno>
#include <cstdint>
#include <map>
#include <mutex>
#include <utility>

#include <unistd.h>

#include "framelane/base/log.hpp"

#include "base/crash_point.hpp"
#include "base/text.hpp"
#include "ring/layout.hpp"
#include "transport/acceptor.hpp"
#include "transport/monitor.hpp"

namespace framelane::transport {
namespace {

std::string versions(std::uint32_t min, std::uint32_t max) {
  return min == max ? std::to_string(min) : std::to_string(min) + " to " + std::to_string(max);
}

/// A connection that has not said HELLO yet. The watches come last, so that they end before the socket is closed.
struct Pending {
  explicit Pending(base::UniqueFd fd) noexcept : socket(std::move(fd), AcceptFds::kNo) {}

  ControlSocket socket;
  Watch readable;
  Watch timeout;
};

}  // namespace

// Everything but the construction runs on the monitor's thread, so only num_pending() needs the mutex.
struct ControlServer::State {
  State(LaneFiles&& files_, HelloHandler& handler_, ServerSettings settings_, Monitor& monitor_)
      : files(std::move(files_)), handler(handler_), settings(settings_), monitor(monitor_) {}

  Result<void> start();
  void stop();
  void make_room();
  void add(base::UniqueFd fd);
  void on_message(std::uint64_t id);
  void on_timeout(std::uint64_t id);
  std::unique_ptr<Pending> take(std::uint64_t id);
  void greet(ControlSocket& socket, const Received& received);

  LaneFiles files;
  HelloHandler& handler;
  const ServerSettings settings;
  Monitor& monitor;
  const pid_t pid = getpid();
  std::mutex mutex;
  std::map<std::uint64_t, std::unique_ptr<Pending>> pending;
  std::uint64_t next_id = 1;
  std::unique_ptr<Acceptor> acceptor;
};

Result<void> ControlServer::State::start() {
  auto started = Acceptor::start(monitor, files.listener(), files.socket_path(), [this](base::UniqueFd fd) {
    make_room();
    add(std::move(fd));
  });
  if (!started) return tl::unexpected(std::move(started.error()));
  acceptor = std::move(*started);
  return {};
}

void ControlServer::State::stop() {
  acceptor.reset();
  const std::lock_guard lock(mutex);
  pending.clear();
}

/// Whoever connects and says nothing must not keep others out: the one that has been silent for longest goes, unless
/// its HELLO is there by now.
void ControlServer::State::make_room() {
  if (pending.size() < settings.max_pending) return;
  const std::uint64_t oldest = pending.begin()->first;
  on_message(oldest);
  if (pending.count(oldest) == 0) return;
  const auto connection = take(oldest);
  base::log(base::LogLevel::kInfo,
            "dropped a connection to " + files.socket_path() + " that said no HELLO, to make room for others");
}

void ControlServer::State::add(base::UniqueFd fd) {
  auto connection = std::make_unique<Pending>(std::move(fd));
  const std::lock_guard lock(mutex);
  const std::uint64_t id = next_id++;
  auto watched = monitor.watch(connection->socket.fd(), EPOLLIN, [this, id](std::uint32_t) { on_message(id); });
  if (!watched) {
    base::log(base::LogLevel::kWarning, "dropped a connection to " + files.socket_path() + ": " + watched.error().text);
    return;
  }
  connection->readable = std::move(*watched);
  connection->timeout = monitor.after(settings.handshake_timeout, [this, id] { on_timeout(id); });
  pending.emplace(id, std::move(connection));
}

std::unique_ptr<Pending> ControlServer::State::take(std::uint64_t id) {
  const std::lock_guard lock(mutex);
  return std::move(pending.extract(id).mapped());
}

void ControlServer::State::on_message(std::uint64_t id) {
  auto received = pending.at(id)->socket.receive();
  if (received && !*received) return;
  const auto connection = take(id);
  connection->readable.reset();
  connection->timeout.reset();
  if (received) return greet(connection->socket, **received);
  if (received.error().code != Code::kProtocol) return;
  reject(connection->socket, wire::RejectCode::kBadHello, std::move(received.error().text));
}

void ControlServer::State::on_timeout(std::uint64_t id) {
  const auto connection = take(id);
  base::log(base::LogLevel::kInfo, "dropped a connection to " + files.socket_path() + " that said no HELLO in time");
}

void ControlServer::State::greet(ControlSocket& socket, const Received& received) {
  const auto decoded = wire::decode(received.bytes);
  if (!decoded) return reject(socket, wire::RejectCode::kBadHello, decoded.error().text);
  const auto* const hello = std::get_if<wire::Hello>(&decoded->message);
  if (hello == nullptr) {
    const std::string_view name = to_string(wire::type_of(decoded->message));
    return reject(socket, wire::RejectCode::kBadHello, "a connection must begin with HELLO, not " + std::string(name));
  }
  if (auto refusal = refusal_of(*hello)) return reject(socket, refusal->code, std::move(refusal->sentence));
  FRAMELANE_CRASH_POINT("HELLO: received");
  const PeerCredentials peer = socket.peer();
  handler.on_hello(std::move(socket), *hello, peer);
}

void reject(ControlSocket& socket, wire::RejectCode code, std::string sentence) {
  base::log(base::LogLevel::kInfo, "rejected a connection: " + sentence);
  const auto bytes = wire::encode(wire::Reject{code, std::move(sentence)}, 0);
  [[maybe_unused]] const auto sent = socket.send(bytes);  // a peer that is gone needs no answer
}

std::optional<wire::Reject> refusal_of(const wire::Hello& hello) {
  if (hello.version_min > wire::kVersionMax || hello.version_max < wire::kVersionMin) {
    return wire::Reject{wire::RejectCode::kVersion,
                        "the producer speaks version " + versions(wire::kVersionMin, wire::kVersionMax) +
                            " of the control protocol and you speak " + versions(hello.version_min, hello.version_max) +
                            ": use the same release of Framelane on both sides"};
  }
  const bool needs_shm = hello.role == wire::Role::kConsumer && (hello.transports & ~wire::kTransportShm) == 0;
  if (hello.byte_order != wire::kNativeByteOrder && needs_shm) {
    return wire::Reject{wire::RejectCode::kByteOrder,
                        "the producer's memory has another byte order than yours: it can't be shared, use lane.tcp"};
  }
  if (hello.abi_version != ring::kAbiVersion && needs_shm) {
    return wire::Reject{wire::RejectCode::kVersion, "the producer shares memory by ABI version " +
                                                        std::to_string(ring::kAbiVersion) + " and you by " +
                                                        std::to_string(hello.abi_version) +
                                                        ": use the same release of Framelane on both sides"};
  }
  return std::nullopt;
}

Result<std::unique_ptr<ControlServer>> ControlServer::start(LaneFiles&& files, HelloHandler& handler,
                                                            ServerSettings settings) {
  const auto monitor = Monitor::instance();
  if (!monitor) return tl::unexpected(monitor.error());
  auto state = std::make_unique<State>(std::move(files), handler, settings, **monitor);
  if (auto started = state->start(); !started) return tl::unexpected(std::move(started.error()));
  return std::unique_ptr<ControlServer>(new ControlServer(std::move(state)));
}

ControlServer::ControlServer(std::unique_ptr<State> state) noexcept : state_(std::move(state)) {}

ControlServer::~ControlServer() {
  stop();
  // In a forked child nothing here is its own, and the parent may have been in the middle of anything when it forked.
  if (state_->pid != getpid()) [[maybe_unused]]
    State* const parents = state_.release();
}

void ControlServer::stop() noexcept {
  if (state_->pid != getpid()) return;
  state_->monitor.call([this] { state_->stop(); });
  state_->files.release();
}

const std::string& ControlServer::socket_path() const noexcept { return state_->files.socket_path(); }

std::size_t ControlServer::num_pending() const {
  const std::lock_guard lock(state_->mutex);
  return state_->pending.size();
}

}  // namespace framelane::transport
