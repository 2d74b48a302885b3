// SPDX-License-Identifier: MIT
#include "transport/control_socket.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <limits>
#include <new>
#include <utility>

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.hpp"
#include "base/text.hpp"
#include "memory/sealed_memory.hpp"
#include "transport/lane_files.hpp"

// Linux 6.5; older C libraries don't name it.
#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77
#endif

namespace framelane::transport {
namespace {

tl::unexpected<Error> peer_lost() { return fail(Code::kPeerLost, "the process at the other end of the lane is gone"); }

// A producer that starts replaces what its predecessor left: then nothing lies there for a moment.
bool is_other_file(const std::string& path) {
  struct stat status {};
  return stat(path.c_str(), &status) == 0 && !S_ISSOCK(status.st_mode);
}

tl::unexpected<Error> connect_error(const std::string& path) {
  const std::string what = "cannot connect to the lane " + base::quoted(path) + ": ";
  switch (errno) {
    case ENOENT:
    case ENOTDIR:
      return fail(Code::kNotFound, what + "no producer has created it; start one, or check name and FRAMELANE_DIR");
    case ECONNREFUSED:
      if (is_other_file(path)) {
        return fail(Code::kInvalidArgument,
                    what + "a file that is no socket lies there; remove it, or choose another name");
      }
      return fail(Code::kNotFound, what + "its producer is gone; start it again");
    case EAGAIN:
      return fail(Code::kTimeout, what + "its producer is too busy to answer; try again");
    case EACCES:
    case EPERM:
      return fail(Code::kPermission, what + "this user may not; run as the producer's user");
    case EPROTOTYPE:
      return fail(Code::kInvalidArgument, what + "another program's socket lies there");
    default:
      return fail(Code::kSystem, what + base::system_words(errno));
  }
}

/// The payload of `encoded` in a sealed memfd, for a header of its own.
Result<base::UniqueFd> to_memfd(std::span<const std::byte> encoded) {
  const auto payload = encoded.subspan(wire::kHeaderBytes);
  auto memory = memory::create_sealed("framelane-message", payload.size(), memory::Sharing::kReadOnly);
  if (!memory) return tl::unexpected(std::move(memory.error()));
  std::memcpy(memory->mapping.data(), payload.data(), payload.size());
  return std::move(memory->fd);
}

using HeaderBytes = std::array<std::byte, wire::kHeaderBytes>;

HeaderBytes header_for_memfd(std::span<const std::byte> encoded) noexcept {
  HeaderBytes header;
  std::copy_n(encoded.begin(), header.size(), header.begin());
  wire::set_flags(header, wire::kFlagPayloadInMemfd);
  return header;
}

Result<void> check_sizes(std::size_t bytes, std::size_t fds) {
  if (bytes > wire::kMaxMessageBytes) {
    return fail(Code::kTooLarge, "a control message of " + std::to_string(bytes) + " bytes is beyond the limit of " +
                                     std::to_string(wire::kMaxMessageBytes));
  }
  const std::size_t most = wire::kMaxFds - (bytes > wire::kMaxInlineBytes ? 1 : 0);
  if (fds <= most) return {};
  return fail(Code::kTooLarge, "a control message with " + std::to_string(fds) +
                                   " descriptors is beyond the limit of " + std::to_string(most));
}

/// Room for the descriptors of one message, aligned as the kernel wants it.
struct FdBuffer {
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int) * wire::kMaxFds)> bytes{};
};

void attach(msghdr& message, FdBuffer& buffer, std::span<const int> fds) noexcept {
  if (fds.empty()) return;
  message.msg_control = buffer.bytes.data();
  message.msg_controllen = CMSG_SPACE(fds.size_bytes());
  cmsghdr* const header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(fds.size_bytes());
  std::memcpy(CMSG_DATA(header), fds.data(), fds.size_bytes());
}

/// Takes charge of every descriptor that the kernel put into our table.
void detach(msghdr& message, std::vector<base::UniqueFd>& fds) {
  for (cmsghdr* header = CMSG_FIRSTHDR(&message); header != nullptr; header = CMSG_NXTHDR(&message, header)) {
    if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) continue;
    const std::size_t count = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (std::size_t i = 0; i < count; ++i) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(header) + i * sizeof(int), sizeof fd);
      fds.emplace_back(fd);
    }
  }
}

/// recvmsg() that reads on after ECONNRESET. The kernel reports that once, when the peer died with unread messages of
/// ours, and before what the peer had sent: those messages are still there.
ssize_t receive_datagram(int fd, msghdr& message, int flags) noexcept {
  bool was_reset = false;
  while (true) {
    const ssize_t size = recvmsg(fd, &message, flags | MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (size >= 0 || (errno != EINTR && (errno != ECONNRESET || was_reset))) return size;
    was_reset = was_reset || errno == ECONNRESET;
  }
}

tl::unexpected<Error> receive_error() {
  if (errno == ECONNRESET || errno == EPIPE || errno == ENOTCONN) return peer_lost();
  return fail(Code::kSystem, "cannot receive from the control socket: " + base::system_words(errno));
}

/// Why the kernel could not hand over all descriptors of a message.
tl::unexpected<Error> lost_fds(int fd, AcceptFds accept) {
  if (accept == AcceptFds::kNo) {
    return fail(Code::kProtocol, "the peer sent file descriptors, which only a producer may send");
  }
  const base::UniqueFd probe(fcntl(fd, F_DUPFD_CLOEXEC, 0));
  if (!probe.valid() && errno == EMFILE) {
    return fail(Code::kSystem, "this process has too many open files to receive the lane's memory; raise ulimit -n");
  }
  return fail(Code::kProtocol, "the peer sent more than " + std::to_string(wire::kMaxFds) + " file descriptors");
}

/// Puts a payload that came in a memfd behind its header, and clears the flag.
Result<void> fetch_payload(Received& received) {
  const auto header = wire::decode_header(received.bytes);
  if (!header) return tl::unexpected(header.error());
  if ((header->flags & wire::kFlagPayloadInMemfd) == 0) return {};
  if (received.bytes.size() != wire::kHeaderBytes || received.fds.empty()) {
    return fail(Code::kProtocol, "the peer sent a broken message header: field flags: no memfd came with the message");
  }
  const base::UniqueFd fd = std::move(received.fds.back());
  received.fds.pop_back();
  const auto mapping = memory::map_received(fd.get(), header->payload_size, memory::Sharing::kReadOnly);
  if (!mapping) return tl::unexpected(mapping.error());
  received.bytes.insert(received.bytes.end(), mapping->data(), mapping->data() + header->payload_size);
  wire::set_flags(received.bytes, 0);
  return {};
}

Result<base::UniqueFd> pidfd_of(pid_t pid) {
  if (pid <= 0) return fail(Code::kUnsupported, "the peer's process is in another pid namespace");
  base::UniqueFd fd(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
  if (fd.valid()) return fd;
  if (errno == ESRCH || errno == EINVAL) return peer_lost();
  if (errno == ENOSYS || errno == EPERM)
    return fail(Code::kUnsupported, "pidfd_open is not available: " + base::system_words(errno));
  return fail(Code::kSystem, "pidfd_open failed: " + base::system_words(errno));
}

}  // namespace

Result<SharedFd> share_fd(int fd) {
  base::UniqueFd copy(fcntl(fd, F_DUPFD_CLOEXEC, 0));
  if (!copy.valid()) return fail(Code::kSystem, "cannot duplicate a file descriptor: " + base::system_words(errno));
  return std::make_shared<const base::UniqueFd>(std::move(copy));
}

Result<OutgoingPtr> make_outgoing(std::vector<std::byte> encoded, std::vector<SharedFd> fds) {
  if (auto checked = check_sizes(encoded.size(), fds.size()); !checked) return tl::unexpected(checked.error());
  const std::size_t cost = encoded.size() + sizeof(Outgoing);
  if (encoded.size() > wire::kMaxInlineBytes) {
    auto memfd = to_memfd(encoded);
    if (!memfd) return tl::unexpected(std::move(memfd.error()));
    fds.push_back(std::make_shared<const base::UniqueFd>(std::move(*memfd)));
    const HeaderBytes header = header_for_memfd(encoded);
    encoded.assign(header.begin(), header.end());
    encoded.shrink_to_fit();
  }
  return std::make_shared<const Outgoing>(Outgoing{std::move(encoded), std::move(fds), cost});
}

Result<ControlSocket> ControlSocket::connect(const std::string& path, AcceptFds accept_fds) {
  const auto address = unix_address(path);
  if (!address) return tl::unexpected(address.error());
  base::UniqueFd fd(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd.valid()) return fail(Code::kSystem, "cannot create a socket: " + base::system_words(errno));
  if (::connect(fd.get(), reinterpret_cast<const sockaddr*>(&*address), sizeof *address) != 0)
    return connect_error(path);
  return ControlSocket(std::move(fd), accept_fds);
}

ControlSocket::ControlSocket(base::UniqueFd fd, AcceptFds accept_fds) noexcept
    : fd_(std::move(fd)), accept_fds_(accept_fds) {}

Result<SendOutcome> ControlSocket::send(const Outgoing& message) noexcept {
  std::array<int, wire::kMaxFds> fds{};
  const std::size_t count = std::min(message.fds.size(), fds.size());
  for (std::size_t i = 0; i < count; ++i) fds[i] = message.fds[i]->get();
  return send_datagram(message.datagram, std::span(fds).first(count));
}

Result<SendOutcome> ControlSocket::send(std::span<const std::byte> encoded, std::span<const int> fds) {
  if (auto checked = check_sizes(encoded.size(), fds.size()); !checked) return tl::unexpected(checked.error());
  if (encoded.size() <= wire::kMaxInlineBytes) return send_datagram(encoded, fds);
  const auto memfd = to_memfd(encoded);
  if (!memfd) return tl::unexpected(memfd.error());
  std::vector<int> all(fds.begin(), fds.end());
  all.push_back(memfd->get());
  return send_datagram(header_for_memfd(encoded), all);
}

Result<SendOutcome> ControlSocket::send_datagram(std::span<const std::byte> datagram,
                                                 std::span<const int> fds) noexcept {
  iovec part{const_cast<std::byte*>(datagram.data()), datagram.size()};
  FdBuffer buffer;
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  attach(message, buffer, fds);
  ssize_t sent = 0;
  do {
    sent = sendmsg(fd_.get(), &message, MSG_DONTWAIT | MSG_NOSIGNAL);
  } while (sent < 0 && errno == EINTR);
  if (sent >= 0) return SendOutcome::kSent;
  switch (errno) {
    case EAGAIN:
      return SendOutcome::kWouldBlock;
    case EPIPE:
    case ECONNRESET:
    case ENOTCONN:
      return peer_lost();
    case EMSGSIZE:
      return fail(Code::kTooLarge, "the system takes no message of " + std::to_string(datagram.size()) +
                                       " bytes; raise net.core.wmem_default");
    default:
      return fail(Code::kSystem, "cannot send on the control socket: " + base::system_words(errno));
  }
}

Result<std::optional<Received>> ControlSocket::receive() {
  std::byte first{};
  iovec room{&first, sizeof first};  // without any, qemu-user says 0
  msghdr peek{};
  peek.msg_iov = &room;
  peek.msg_iovlen = 1;
  const ssize_t size = receive_datagram(fd_.get(), peek, MSG_PEEK | MSG_TRUNC);
  if (size < 0 && errno == EAGAIN) return std::nullopt;
  if (size < 0) return receive_error();
  if (size == 0) return peer_lost();
  if (static_cast<std::size_t>(size) > wire::kMaxInlineBytes) {
    return fail(Code::kProtocol, "the peer sent a datagram of " + std::to_string(size) + " bytes, and " +
                                     std::to_string(wire::kMaxInlineBytes) + " are the most");
  }
  try {
    return receive_sized(static_cast<std::size_t>(size));
  } catch (const std::bad_alloc&) {
    return fail(Code::kNoMemory, "no memory for a control message");
  }
}

Result<std::optional<Received>> ControlSocket::receive_sized(std::size_t size) {
  Received received;
  received.bytes.resize(size);
  iovec part{received.bytes.data(), size};
  FdBuffer buffer;
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  if (accept_fds_ == AcceptFds::kYes) {
    received.fds.reserve(wire::kMaxFds);  // now, as no allocation may fail once descriptors are in our table
    message.msg_control = buffer.bytes.data();
    message.msg_controllen = CMSG_LEN(sizeof(int) * wire::kMaxFds);
  }  // else the kernel drops them and says so, and they never enter our table
  const ssize_t got = receive_datagram(fd_.get(), message, 0);
  if (got < 0) return receive_error();
  detach(message, received.fds);
  if ((message.msg_flags & MSG_CTRUNC) != 0) return lost_fds(fd_.get(), accept_fds_);
  if ((message.msg_flags & MSG_TRUNC) != 0 || static_cast<std::size_t>(got) != size) {
    return fail(Code::kProtocol, "a control message was cut short");
  }
  if (auto fetched = fetch_payload(received); !fetched) return tl::unexpected(std::move(fetched.error()));
  return std::optional<Received>(std::move(received));
}

Result<Received> ControlSocket::receive_until(std::int64_t deadline_ns) {
  while (true) {
    auto received = receive();
    if (!received) return tl::unexpected(std::move(received.error()));
    if (*received) return std::move(**received);
    const std::int64_t left = deadline_ns - base::monotonic_ns();
    if (left <= 0) return fail(Code::kTimeout, "the process at the other end of the lane did not answer in time");
    pollfd wanted{fd_.get(), POLLIN, 0};
    poll(&wanted, 1, static_cast<int>(std::min<std::int64_t>(left / 1'000'000 + 1, std::numeric_limits<int>::max())));
  }
}

PeerCredentials peer_credentials(int fd) noexcept {
  ucred credentials{};
  socklen_t size = sizeof credentials;
  if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &credentials, &size) != 0) return {};
  return {credentials.pid, credentials.uid, credentials.gid};
}

PeerCredentials ControlSocket::peer() const noexcept { return peer_credentials(fd_.get()); }

Result<base::UniqueFd> peer_pidfd(int socket) {
  int fd = -1;
  socklen_t size = sizeof fd;
  if (getsockopt(socket, SOL_SOCKET, SO_PEERPIDFD, &fd, &size) == 0) return base::UniqueFd(fd);
  if (errno == EINVAL || errno == ESRCH) return peer_lost();
  // Before Linux 6.5. The pid could have been given to a new process only if the peer has died, and then its hang-up
  // says so.
  return pidfd_of(peer_credentials(socket).pid);
}

void ControlSocket::finish() noexcept { ::shutdown(fd_.get(), SHUT_WR); }

void ControlSocket::shutdown() noexcept { ::shutdown(fd_.get(), SHUT_RDWR); }

}  // namespace framelane::transport
