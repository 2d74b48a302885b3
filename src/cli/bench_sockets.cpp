// SPDX-License-Identifier: MIT
#include "cli/bench_sockets.hpp"

#include <cerrno>
#include <string>
#include <utility>

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/time.h>

#include "base/text.hpp"
#include "cli/bench_ends.hpp"

namespace framelane::cli {
namespace {

Error socket_error(const char* what) { return {Code::kSystem, std::string(what) + ": " + base::system_words(errno)}; }

Result<void> bound_waits(const SocketPair& ends) {
  const timeval patience{kPatience.count(), 0};
  for (const base::UniqueFd& end : ends) {
    if (setsockopt(end.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience) != 0 ||
        setsockopt(end.get(), SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience) != 0)
      return tl::unexpected(socket_error("a socket without time-outs"));
  }
  return {};
}

/// A socket that listens on a free port of the loopback.
Result<base::UniqueFd> listen_on_loopback(sockaddr_in& address) {
  base::UniqueFd listening(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  auto* const plain = reinterpret_cast<sockaddr*>(&address);
  if (!listening.valid() || bind(listening.get(), plain, size) != 0 || listen(listening.get(), 1) != 0 ||
      getsockname(listening.get(), plain, &size) != 0)
    return tl::unexpected(socket_error("no port on the loopback"));
  return listening;
}

}  // namespace

Result<SocketPair> connect_uds_pair() {
  int fds[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) != 0)
    return tl::unexpected(socket_error("no pair of Unix domain sockets"));
  SocketPair ends{base::UniqueFd(fds[0]), base::UniqueFd(fds[1])};
  if (auto bounded = bound_waits(ends); !bounded) return tl::unexpected(bounded.error());
  return ends;
}

Result<SocketPair> connect_tcp_pair() {
  sockaddr_in address;
  const auto listening = listen_on_loopback(address);
  if (!listening) return tl::unexpected(listening.error());
  SocketPair ends{base::UniqueFd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)), base::UniqueFd()};
  if (!ends[0].valid() || connect(ends[0].get(), reinterpret_cast<sockaddr*>(&address), sizeof address) != 0)
    return tl::unexpected(socket_error("no TCP connection on the loopback"));
  ends[1] = base::UniqueFd(accept4(listening->get(), nullptr, nullptr, SOCK_CLOEXEC));
  if (!ends[1].valid()) return tl::unexpected(socket_error("no TCP connection on the loopback"));
  const int on = 1;
  for (const base::UniqueFd& end : ends) setsockopt(end.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  if (auto bounded = bound_waits(ends); !bounded) return tl::unexpected(bounded.error());
  return ends;
}

bool send_all(int fd, std::span<const std::byte> bytes) noexcept {
  while (!bytes.empty()) {
    const ssize_t sent = send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) return false;
    bytes = bytes.subspan(static_cast<std::size_t>(sent));
  }
  return true;
}

bool receive_all(int fd, std::span<std::byte> bytes) noexcept {
  while (!bytes.empty()) {
    const ssize_t got = recv(fd, bytes.data(), bytes.size(), MSG_WAITALL);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    bytes = bytes.subspan(static_cast<std::size_t>(got));
  }
  return true;
}

Result<std::array<std::uint16_t, 2>> free_ports() {
  std::array<sockaddr_in, 2> addresses;
  const auto first = listen_on_loopback(addresses[0]);
  if (!first) return tl::unexpected(first.error());
  const auto second = listen_on_loopback(addresses[1]);
  if (!second) return tl::unexpected(second.error());
  return std::array<std::uint16_t, 2>{ntohs(addresses[0].sin_port), ntohs(addresses[1].sin_port)};
}

Result<StreamBench> set_up_stream_bench() {
  auto cpus = choose_cpus();
  if (!cpus) return tl::unexpected(cpus.error());
  auto uds = connect_uds_pair();
  if (!uds) return tl::unexpected(uds.error());
  auto tcp = connect_tcp_pair();
  if (!tcp) return tl::unexpected(tcp.error());
  const auto ports = free_ports();
  if (!ports) return tl::unexpected(ports.error());
  return StreamBench{{std::move(*uds), std::move(*tcp)}, *ports, *cpus};
}

}  // namespace framelane::cli
