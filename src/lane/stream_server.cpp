// SPDX-License-Identifier: MIT
#include "lane/stream_server.hpp"

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <new>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include "framelane/base/log.hpp"

#include "base/clock.hpp"
#include "base/crash_point.hpp"
#include "transport/acceptor.hpp"
#include "transport/lane_files.hpp"
#include "transport/psk.hpp"
#include "transport/secure_stream.hpp"
#include "transport/stream_socket.hpp"
#include "transport/tls_library.hpp"

namespace framelane::lane {
namespace {

constexpr std::size_t kMaxGreeting =
    64;  // connections that aren't consumers yet; a further one takes the oldest's place

std::string address_of(int fd) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  char host[NI_MAXHOST];
  char port[NI_MAXSERV];
  auto* const raw = reinterpret_cast<sockaddr*>(&address);
  if (getpeername(fd, raw, &size) != 0) return {};
  if (getnameinfo(raw, size, host, sizeof host, port, sizeof port, NI_NUMERICHOST | NI_NUMERICSERV) != 0) return {};
  return address.ss_family == AF_INET6 ? std::string("[") + host + "]:" + port : std::string(host) + ":" + port;
}

PeerInfo peer_of(int fd, Transport transport) {
  PeerInfo peer;
  peer.transport = transport;
  if (transport == Transport::kTcp) {
    peer.address = address_of(fd);
    return peer;
  }
  const transport::PeerCredentials credentials = transport::peer_credentials(fd);
  peer.pid = credentials.pid;
  peer.uid = credentials.uid;
  return peer;
}

}  // namespace

struct StreamServer::State : std::enable_shared_from_this<StreamServer::State> {
  struct Listener {
    Transport transport;
    base::UniqueFd fd;
    std::string place;
    std::unique_ptr<transport::Acceptor> acceptor;
  };

  void on_connection(Transport kind, base::UniqueFd fd);
  void make_room();
  void reap(Relay* relay);
  void end_greeting();
  void keep_signals(std::uint64_t token, std::unique_ptr<transport::ByteStream> stream,
                    const std::vector<std::byte>& welcome);
  [[nodiscard]] std::unique_ptr<transport::ByteStream> take_signals(std::uint64_t token);

  const pid_t pid = getpid();
  transport::Monitor* monitor = nullptr;
  RelayHost host;
  std::optional<transport::Psk> psk;  // of TCP
  transport::SocketFile file;
  std::vector<Listener> listeners;

  std::mutex mutex;
  std::condition_variable changed;
  bool accepting = false;
  struct Signals {
    std::uint64_t token;
    std::unique_ptr<transport::ByteStream> stream;
    transport::Watch timeout;
  };
  std::deque<Signals> signals;                 // whose consumer's frames aren't asked for yet; the oldest first
  std::vector<std::unique_ptr<Relay>> relays;  // in the order in which they came
  std::size_t threads = 0;                     // of relays
};

Result<std::unique_ptr<StreamServer>> StreamServer::listen(Place& place, const std::string& psk_file) {
  auto state = std::make_shared<State>();
  if (!psk_file.empty() && !place.tcp.empty()) {
    auto psk = transport::read_psk(psk_file);
    if (!psk) return tl::unexpected(std::move(psk.error()));
    if (auto ready = transport::TlsLibrary::get(); !ready) return tl::unexpected(std::move(ready.error()));
    state->psk = std::move(*psk);
  }
  if (place.uds) {
    auto path = stream_path(place.directory + "/" + place.lane);
    if (!path) return tl::unexpected(std::move(path.error()));
    auto fd = transport::listen_uds(*path);
    if (!fd) return tl::unexpected(std::move(fd.error()));
    state->file = transport::SocketFile(AT_FDCWD, *path);
    state->listeners.push_back({Transport::kUds, std::move(*fd), std::move(*path), nullptr});
  }
  for (Place::Tcp& address : place.tcp) {
    auto fd = transport::listen_tcp(address.host, address.port);
    if (!fd) return tl::unexpected(std::move(fd.error()));
    auto port = transport::local_port(fd->get());
    if (!port) return tl::unexpected(std::move(port.error()));
    address.port = *port;
    state->listeners.push_back({Transport::kTcp, std::move(*fd), address.host + ":" + std::to_string(*port), nullptr});
  }
  return std::unique_ptr<StreamServer>(new StreamServer(std::move(state)));
}

StreamServer::StreamServer(std::shared_ptr<State> state) noexcept : state_(std::move(state)) {}

StreamServer::~StreamServer() {
  if (state_->pid != getpid()) {  // a forked child's copy: neither threads nor monitor are there
    static_cast<void>(new (std::nothrow) std::shared_ptr<State>(std::move(state_)));
    return;
  }
  stop_accepting();
  drain(0);
}

Result<void> StreamServer::start(RelayHost host) {
  auto monitor = transport::Monitor::instance();
  if (!monitor) return tl::unexpected(monitor.error());
  state_->monitor = *monitor;
  state_->host = std::move(host);
  state_->host.keep_signals = [state = state_.get()](std::uint64_t token, auto signals, const auto& welcome) {
    state->keep_signals(token, std::move(signals), welcome);
  };
  state_->host.take_signals = [state = state_.get()](std::uint64_t token) { return state->take_signals(token); };
  state_->accepting = true;
  for (State::Listener& listener : state_->listeners) {
    auto acceptor = transport::Acceptor::start(**monitor, listener.fd.get(), listener.place,
                                               [state = state_.get(), kind = listener.transport](base::UniqueFd fd) {
                                                 state->on_connection(kind, std::move(fd));
                                               });
    if (!acceptor) return tl::unexpected(std::move(acceptor.error()));
    listener.acceptor = std::move(*acceptor);
  }
  return {};
}

void StreamServer::State::on_connection(Transport kind, base::UniqueFd fd) {
  transport::tune_stream(fd.get(), 0);
  PeerInfo peer = peer_of(fd.get(), kind);
  const bool plain = kind != Transport::kTcp || !psk;
  auto stream = transport::open_stream(std::move(fd), transport::TlsSide::kServer, plain ? nullptr : &*psk);
  if (!stream) {
    base::log(base::LogLevel::kWarning, "dropped a connection to " + host.descriptor + ": " + stream.error().text);
    return;
  }
  auto relay = std::make_unique<Relay>(host, std::move(*stream), std::move(peer));
  Relay* const raw = relay.get();
  const std::lock_guard lock(mutex);
  if (!accepting) return;
  make_room();
  // Its thread can't be joined by itself: the monitor's does it, when there is nothing left but to return.
  auto started =
      raw->start([self = shared_from_this(), raw] { self->monitor->post([self, raw] { self->reap(raw); }); });
  if (started) {
    relays.push_back(std::move(relay));
    ++threads;
  } else {
    base::log(base::LogLevel::kWarning, "dropped a connection to " + host.descriptor + ": " + started.error().text);
  }
}

/// Whoever connects and says nothing must not keep others out: the one that has been silent for longest goes.
void StreamServer::State::make_room() {
  const auto greets = [](const auto& relay) { return relay->is_greeting(); };
  if (static_cast<std::size_t>(std::count_if(relays.begin(), relays.end(), greets)) < kMaxGreeting) return;
  (*std::find_if(relays.begin(), relays.end(), greets))->end("dropped before its HELLO, to make room for others");
}

void StreamServer::State::keep_signals(std::uint64_t token, std::unique_ptr<transport::ByteStream> stream,
                                       const std::vector<std::byte>& welcome) {
  Signals kept{token, std::move(stream), monitor->after(host.handshake_timeout, [this, token] {
                 static_cast<void>(take_signals(token));  // nobody asked for them in time
               })};
  std::optional<Signals> oldest;  // ends after the lock, which its timer may wait for
  const std::lock_guard lock(mutex);
  if (!accepting) return;
  if (signals.size() >= kMaxGreeting) {
    oldest = std::move(signals.front());
    signals.pop_front();
  }
  // In the list before its peer learns that it is, and asks for the frames. A new socket has room for this.
  const iovec buffer{const_cast<std::byte*>(welcome.data()), welcome.size()};
  signals.push_back(std::move(kept));
  FRAMELANE_CRASH_POINT("signals: kept, before their WELCOME");
  static_cast<void>(signals.back().stream->send({&buffer, 1}));
}

std::unique_ptr<transport::ByteStream> StreamServer::State::take_signals(std::uint64_t token) {
  std::optional<Signals> taken;  // ends after the lock
  const std::lock_guard lock(mutex);
  const auto found =
      std::find_if(signals.begin(), signals.end(), [&](const Signals& one) { return one.token == token; });
  if (found == signals.end()) return nullptr;
  taken = std::move(*found);
  signals.erase(found);
  FRAMELANE_CRASH_POINT("signals: taken for a consumer");
  return std::move(taken->stream);
}

void StreamServer::State::reap(Relay* relay) {
  std::unique_ptr<Relay> over;
  {
    const std::lock_guard lock(mutex);
    const auto found = std::find_if(relays.begin(), relays.end(), [&](const auto& one) { return one.get() == relay; });
    over = std::move(*found);
    relays.erase(found);
  }
  over->join_thread();
  over.reset();
  const std::lock_guard lock(mutex);
  --threads;
  changed.notify_all();
}

void StreamServer::stop_accepting() noexcept {
  if (state_->pid != getpid()) return;
  {
    const std::lock_guard lock(state_->mutex);
    if (!std::exchange(state_->accepting, false)) return;
  }
  for (State::Listener& listener : state_->listeners) {
    listener.acceptor.reset();
    listener.fd.reset();
  }
  state_->file.remove(AT_FDCWD);
  state_->end_greeting();
}

void StreamServer::State::end_greeting() {
  std::deque<Signals> unclaimed;  // ends after the lock, which a timer may wait for
  const std::lock_guard lock(mutex);
  unclaimed.swap(signals);
  for (const auto& relay : relays) {
    if (relay->is_greeting()) relay->end("the producer closed");
  }
}

void StreamServer::drain(std::int64_t deadline_ns) noexcept {
  if (state_->pid != getpid()) return;
  const bool may_wait = state_->monitor != nullptr && !state_->monitor->on_this_thread();
  std::unique_lock lock(state_->mutex);
  const auto none = [&] { return state_->threads == 0; };
  while (may_wait && !none()) {
    const std::int64_t left = deadline_ns - base::monotonic_ns();
    if (left <= 0) break;
    state_->changed.wait_for(lock, std::chrono::nanoseconds(std::min<std::int64_t>(left, 1'000'000'000)));
  }
  for (const auto& relay : state_->relays) relay->end("it didn't read the rest in time");
  if (may_wait) state_->changed.wait(lock, none);
}

}  // namespace framelane::lane
