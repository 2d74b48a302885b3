// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include <sys/uio.h>

#include "framelane/base/result.hpp"

#include "base/unique_fd.hpp"

namespace framelane::transport {

/// Bytes in order, both ways, without message borders: a Unix domain socket, TCP, or something that wraps one of them.
/// Nothing here waits; who must wait polls fd().
///
/// Threads: one that sends and one that receives at a time; finish() and shutdown() from any.
class ByteStream {
 public:
  virtual ~ByteStream() = default;

  /// Takes as many bytes as fit now, from the first buffers on; returns how many, 0 when none fit.
  /// Errors: kPeerLost, kNotFound (a connection on its way was refused), kSystem.
  [[nodiscard]] virtual Result<std::size_t> send(std::span<const iovec> buffers) noexcept = 0;
  /// Fills the buffers with what is there; returns how many bytes, 0 when none are.
  /// Errors: kPeerLost (the peer closed, and everything that it sent has been read), kSystem.
  [[nodiscard]] virtual Result<std::size_t> receive(std::span<const iovec> buffers) noexcept = 0;
  /// Sends nothing more: the peer sees the end after what was sent.
  virtual void finish() noexcept = 0;
  /// Ends the connection both ways: the peer, and a thread that polls fd(), see a hang-up.
  virtual void shutdown() noexcept = 0;
  [[nodiscard]] virtual int fd() const noexcept = 0;
};

/// A stream socket itself.
class SocketStream : public ByteStream {
 public:
  /// `fd` is connected, and becomes non-blocking.
  explicit SocketStream(base::UniqueFd fd) noexcept;

  [[nodiscard]] Result<std::size_t> send(std::span<const iovec> buffers) noexcept override;
  [[nodiscard]] Result<std::size_t> receive(std::span<const iovec> buffers) noexcept override;
  void finish() noexcept override;
  void shutdown() noexcept override;
  [[nodiscard]] int fd() const noexcept override { return fd_.get(); }

 private:
  base::UniqueFd fd_;
};

/// Waits until `fd` (-1: none) is ready for `events` (POLLIN, POLLOUT), `interrupt_fd` is readable (-1: none), or the
/// deadline (ns of CLOCK_MONOTONIC) is over. Errors: kInterrupted, kTimeout.
[[nodiscard]] Result<void> wait_for(int fd, short events, int interrupt_fd, std::int64_t deadline_ns) noexcept;

}  // namespace framelane::transport
