// SPDX-License-Identifier: MIT
#include "transport/stream_socket.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <vector>

#include <linux/sockios.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/text.hpp"
#include "transport/lane_files.hpp"

namespace framelane::transport {
namespace {

constexpr int kBacklog = 128;
constexpr std::size_t kLeastBuffer = std::size_t{256} << 10;
constexpr std::size_t kMostBuffer = std::size_t{16} << 20;

struct FreeAddresses {
  void operator()(addrinfo* list) const noexcept { freeaddrinfo(list); }
};
using Addresses = std::unique_ptr<addrinfo, FreeAddresses>;

/// An error of a call that concerns `what`, by errno.
tl::unexpected<Error> socket_error(const std::string& what) {
  const std::string text = what + ": " + base::system_words(errno);
  switch (errno) {
    case EADDRINUSE:
      return fail(Code::kInUse, text + "; choose another port, or 0 for any");
    case EADDRNOTAVAIL:
    case ECONNREFUSED:
    case EHOSTUNREACH:
    case ENETUNREACH:
    case ENOENT:
    case ENOTDIR:
      return fail(Code::kNotFound, text);
    case EAGAIN:
    case ETIMEDOUT:
      return fail(Code::kTimeout, text);
    case EACCES:
    case EPERM:
      return fail(Code::kPermission, text);
    default:
      return fail(Code::kSystem, text);
  }
}

std::string place(const std::string& host, std::uint16_t port) {
  const bool ip6 = host.find(':') != std::string::npos;
  return (ip6 ? "[" + host + "]" : host) + ":" + std::to_string(port);
}

Result<base::UniqueFd> stream_socket(int family) {
  base::UniqueFd fd(socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd.valid()) return socket_error("cannot create a socket");
  return fd;
}

Result<Addresses> look_up(const std::string& host, std::uint16_t port, int flags) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags | AI_NUMERICSERV;
  addrinfo* list = nullptr;
  const int failed = getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &list);
  if (failed == 0) return Addresses(list);
  return fail(failed == EAI_AGAIN ? Code::kTimeout : Code::kNotFound,
              "cannot find the host \"" + base::printable(host) + "\": " + gai_strerror(failed));
}

void set_number(int fd, int level, int option, int value) noexcept {
  static_cast<void>(setsockopt(fd, level, option, &value, sizeof value));  // a wish
}

bool is_loopback(const sockaddr& address) noexcept {
  const void* const any = &address;
  if (address.sa_family == AF_INET)
    return ntohl(static_cast<const sockaddr_in*>(any)->sin_addr.s_addr) >> 24 == IN_LOOPBACKNET;
  if (address.sa_family != AF_INET6) return false;
  return IN6_IS_ADDR_LOOPBACK(&static_cast<const sockaddr_in6*>(any)->sin6_addr) != 0;
}

}  // namespace

// --- Unix domain

Result<base::UniqueFd> listen_uds(const std::string& path) {
  auto address = unix_address(path);
  if (!address) return tl::unexpected(std::move(address.error()));
  struct stat status {};
  if (lstat(path.c_str(), &status) == 0) {
    if (!S_ISSOCK(status.st_mode)) {
      return fail(Code::kInvalidArgument, "a file that is no socket lies at " + base::quoted(path) + ": remove it");
    }
    if (unlink(path.c_str()) != 0) return socket_error("cannot remove the stale socket " + base::quoted(path));
  }
  auto fd = stream_socket(AF_UNIX);
  if (!fd) return fd;
  const std::string what = "cannot listen on " + base::quoted(path);
  // bind() gives the file the socket's mode (less the umask), so that it is never open to others.
  if (fchmod(fd->get(), 0600) != 0) return socket_error(what);
  if (bind(fd->get(), reinterpret_cast<const sockaddr*>(&*address), sizeof *address) != 0) return socket_error(what);
  if (listen(fd->get(), kBacklog) != 0) return socket_error(what);
  return fd;
}

Result<base::UniqueFd> connect_uds(const std::string& path) {
  auto address = unix_address(path);
  if (!address) return tl::unexpected(std::move(address.error()));
  auto fd = stream_socket(AF_UNIX);
  if (!fd) return fd;
  if (connect(fd->get(), reinterpret_cast<const sockaddr*>(&*address), sizeof *address) == 0) return fd;
  return socket_error("cannot connect to " + base::quoted(path));
}

// --- TCP

Result<base::UniqueFd> listen_tcp(const std::string& host, std::uint16_t port) {
  auto addresses = look_up(host, port, AI_PASSIVE);
  if (!addresses) return tl::unexpected(std::move(addresses.error()));
  const addrinfo& address = **addresses;
  auto fd = stream_socket(address.ai_family);
  if (!fd) return fd;
  set_number(fd->get(), SOL_SOCKET, SO_REUSEADDR, 1);  // else a restarted producer waits for its old connections
  if (address.ai_family == AF_INET6) set_number(fd->get(), IPPROTO_IPV6, IPV6_V6ONLY, 1);
  const std::string what = "cannot listen on " + place(host, port);
  if (bind(fd->get(), address.ai_addr, address.ai_addrlen) != 0) return socket_error(what);
  if (listen(fd->get(), kBacklog) != 0) return socket_error(what);
  return fd;
}

Result<std::uint16_t> local_port(int fd) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  if (getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) != 0) return socket_error("a socket has no name");
  if (address.ss_family == AF_INET) return ntohs(reinterpret_cast<const sockaddr_in*>(&address)->sin_port);
  if (address.ss_family == AF_INET6) return ntohs(reinterpret_cast<const sockaddr_in6*>(&address)->sin6_port);
  return fail(Code::kSystem, "a socket that isn't TCP has no port");
}

Result<base::UniqueFd> begin_tcp(const std::string& host, std::uint16_t port, std::size_t turn) {
  auto addresses = look_up(host, port, 0);
  if (!addresses) return tl::unexpected(std::move(addresses.error()));
  std::vector<const addrinfo*> all;
  for (const addrinfo* address = addresses->get(); address != nullptr; address = address->ai_next)
    all.push_back(address);
  const addrinfo& address = *all[turn % all.size()];
  auto fd = stream_socket(address.ai_family);
  if (!fd) return fd;
  if (connect(fd->get(), address.ai_addr, address.ai_addrlen) == 0 || errno == EINPROGRESS || errno == EINTR) return fd;
  return socket_error("cannot connect to " + place(host, port));
}

bool is_loopback(int fd, End end) noexcept {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  auto* const raw = reinterpret_cast<sockaddr*>(&address);
  if ((end == End::kOurs ? getsockname(fd, raw, &size) : getpeername(fd, raw, &size)) != 0) return false;
  return is_loopback(*raw);
}

Result<bool> is_loopback_host(const std::string& host) {
  auto addresses = look_up(host, 0, AI_PASSIVE);
  if (!addresses) return tl::unexpected(std::move(addresses.error()));
  for (const addrinfo* address = addresses->get(); address != nullptr; address = address->ai_next) {
    if (!is_loopback(*address->ai_addr)) return false;
  }
  return true;
}

bool all_delivered(int fd) noexcept {
  int unsent = 0;
  return ioctl(fd, SIOCOUTQ, &unsent) != 0 || unsent == 0;
}

void tune_stream(int fd, std::size_t frame_size) noexcept {
  const auto bytes = static_cast<int>(std::clamp(2 * std::min(frame_size, kMostBuffer), kLeastBuffer, kMostBuffer));
  set_number(fd, SOL_SOCKET, SO_SNDBUF, bytes);
  set_number(fd, SOL_SOCKET, SO_RCVBUF, bytes);
  // What follows is for TCP; on a Unix domain socket it does nothing.
  set_number(fd, IPPROTO_TCP, TCP_NODELAY, 1);
  set_number(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
  set_number(fd, IPPROTO_TCP, TCP_KEEPIDLE, 5);
  set_number(fd, IPPROTO_TCP, TCP_KEEPINTVL, 2);
  set_number(fd, IPPROTO_TCP, TCP_KEEPCNT, 3);
  set_number(fd, IPPROTO_TCP, TCP_USER_TIMEOUT,
             30'000);  // ms; keep-alive doesn't look while data wait to be acknowledged
}

}  // namespace framelane::transport
