// SPDX-License-Identifier: MIT
#include "transport/byte_stream.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <limits>

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <time.h>

#include "base/clock.hpp"
#include "base/text.hpp"

namespace framelane::transport {
namespace {

tl::unexpected<Error> stream_error(const char* what) {
  switch (errno) {
    case ECONNRESET:
    case EPIPE:
    case ENOTCONN:
    case ETIMEDOUT:
      return fail(Code::kPeerLost, "the process at the other end of the lane is gone");
    case ECONNREFUSED:  // of a connection that was on its way
    case EHOSTUNREACH:
    case ENETUNREACH:
      return fail(Code::kNotFound, "no producer can be reached: " + base::system_words(errno));
    default:
      break;
  }
  return fail(Code::kSystem, std::string(what) + base::system_words(errno));
}

msghdr message_of(std::span<const iovec> buffers) noexcept {
  msghdr message{};
  message.msg_iov = const_cast<iovec*>(buffers.data());  // sendmsg() and recvmsg() leave it alone
  message.msg_iovlen = buffers.size();
  return message;
}

}  // namespace

SocketStream::SocketStream(base::UniqueFd fd) noexcept : fd_(std::move(fd)) {
  const int flags = fcntl(fd_.get(), F_GETFL);
  if (flags >= 0) static_cast<void>(fcntl(fd_.get(), F_SETFL, flags | O_NONBLOCK));
}

Result<std::size_t> SocketStream::send(std::span<const iovec> buffers) noexcept {
  const msghdr message = message_of(buffers);
  while (true) {
    const ssize_t sent = sendmsg(fd_.get(), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent >= 0) return static_cast<std::size_t>(sent);
    if (errno == EAGAIN || errno == EWOULDBLOCK || errno == ENOBUFS) return 0;
    if (errno != EINTR) return stream_error("cannot send on a stream: ");
  }
}

Result<std::size_t> SocketStream::receive(std::span<const iovec> buffers) noexcept {
  msghdr message = message_of(buffers);
  while (true) {
    const ssize_t received = recvmsg(fd_.get(), &message, MSG_DONTWAIT);
    if (received > 0) return static_cast<std::size_t>(received);
    if (received == 0) return fail(Code::kPeerLost, "the process at the other end of the lane closed the stream");
    if (errno == EAGAIN || errno == EWOULDBLOCK) return 0;
    if (errno != EINTR) return stream_error("cannot receive from a stream: ");
  }
}

void SocketStream::finish() noexcept { ::shutdown(fd_.get(), SHUT_WR); }

void SocketStream::shutdown() noexcept { ::shutdown(fd_.get(), SHUT_RDWR); }

Result<void> wait_for(int fd, short events, int interrupt_fd, std::int64_t deadline_ns) noexcept {
  constexpr std::int64_t kNsPerSecond = 1'000'000'000;
  while (true) {
    const std::int64_t left = std::max<std::int64_t>(deadline_ns - base::monotonic_ns(), 0);
    const timespec time{static_cast<time_t>(left / kNsPerSecond), static_cast<long>(left % kNsPerSecond)};
    std::array<pollfd, 2> fds{{{fd, events, 0}, {interrupt_fd, POLLIN, 0}}};
    const int ready = ppoll(fds.data(), fds.size(), deadline_ns != base::kForever ? &time : nullptr, nullptr);
    if (ready > 0 && fds[1].revents != 0) return fail(Code::kInterrupted);
    if (ready > 0) return {};  // also an error or a hang-up: the next call tells which
    if (ready == 0 && base::monotonic_ns() >= deadline_ns) return fail(Code::kTimeout);
  }
}

}  // namespace framelane::transport
