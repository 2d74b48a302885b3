// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>

#include "framelane/base/result.hpp"

#include "transport/control_socket.hpp"

namespace framelane::transport {

enum class FlushState {
  kEmpty,    ///< everything is sent
  kBlocked,  ///< the socket is full: flush again when it is writable
};

/// Messages that wait until a connection's socket takes them, in order. Bounded, so that a peer that doesn't read costs
/// little: when it overflows, the caller evicts the peer.
///
/// Threads:   any; flush() in one thread never reorders what another one pushes.
/// Real time: push() and flush() never wait for the peer (they take a mutex that is held for one send at most).
class SendQueue {
 public:
  static constexpr std::size_t kMaxMessages = 1024;
  static constexpr std::size_t kMaxBytes = std::size_t{1} << 20;

  /// `want_writable(true)` is called when messages begin to wait, `(false)` when all are sent, in this order, under the
  /// queue's lock: it should only switch EPOLLOUT of the connection's Watch (Watch::set_events()).
  explicit SendQueue(std::function<void(bool)> want_writable = {});

  /// Appends a message; call flush() soon. A single message is taken by an empty queue whatever its size.
  /// Errors: kFull (kMaxMessages or kMaxBytes would be exceeded; nothing was appended: evict the peer),
  /// kPeerLost (an earlier flush failed).
  [[nodiscard]] Result<void> push(OutgoingPtr message);

  /// Sends what the socket takes. Errors: those of ControlSocket::send(); then the queue is emptied and takes no more.
  [[nodiscard]] Result<FlushState> flush(ControlSocket& socket);

  /// Flushes until all is sent or `deadline_ns` (CLOCK_MONOTONIC) comes. Waits: not for the monitor's thread.
  /// Errors: kTimeout, and those of flush().
  [[nodiscard]] Result<void> drain(ControlSocket& socket, std::int64_t deadline_ns);

  [[nodiscard]] std::size_t size() const;

 private:
  Result<FlushState> flush_locked(ControlSocket& socket);
  void set_blocked(bool blocked);

  mutable std::mutex mutex_;
  std::deque<OutgoingPtr> messages_;
  std::size_t bytes_ = 0;
  bool blocked_ = false;
  bool lost_ = false;
  std::function<void(bool)> want_writable_;
};

}  // namespace framelane::transport
