// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <sys/types.h>

#include "framelane/base/result.hpp"

#include "base/unique_fd.hpp"
#include "wire/control_message.hpp"

namespace framelane::transport {

/// Who is at the other end, as the kernel says; taken when the connection was made.
struct PeerCredentials {
  pid_t pid = 0;
  uid_t uid = 65534;
  gid_t gid = 65534;

  /// False when the peer is in another pid or user namespace: then pid is 0 or uid the overflow uid 65534.
  [[nodiscard]] bool known() const noexcept { return pid > 0 && uid != 65534; }
};

/// Of the peer of a connected Unix domain socket. What the system doesn't tell stays unknown.
[[nodiscard]] PeerCredentials peer_credentials(int fd) noexcept;
/// Of the same: a descriptor that becomes readable when the peer's process ends, even if a child that it forked keeps
/// the socket open. Of a socket that connected, the peer's process is the one that listened. Errors: kPeerLost (it has
/// ended), kUnsupported (the kernel has no pidfds, or the peer's pid is unknown: only the hang-up can be watched),
/// kSystem.
[[nodiscard]] Result<base::UniqueFd> peer_pidfd(int fd);

using SharedFd = std::shared_ptr<const base::UniqueFd>;

/// A shared duplicate of a descriptor that somebody else owns. Errors: kSystem (e.g. too many open files).
[[nodiscard]] Result<SharedFd> share_fd(int fd);

/// One encoded message, ready to be sent to any number of connections. Immutable.
struct Outgoing {
  std::vector<std::byte> datagram;  ///< header and payload, or the header alone
  std::vector<SharedFd> fds;        ///< what the message carries, then the memfd of a large payload
  std::size_t cost = 0;             ///< bytes that it occupies until it is sent, memfd included
};
using OutgoingPtr = std::shared_ptr<const Outgoing>;

/// Makes encode()'s bytes ready: a message beyond wire::kMaxInlineBytes is put into a sealed memfd, once for all
/// receivers. Errors: kTooLarge (beyond wire::kMaxMessageBytes, or more than wire::kMaxFds descriptors), kNoMemory,
/// kUnsupported, kSystem (the memfd).
[[nodiscard]] Result<OutgoingPtr> make_outgoing(std::vector<std::byte> encoded, std::vector<SharedFd> fds = {});

enum class SendOutcome {
  kSent,
  kWouldBlock,  ///< the peer's buffer is full: again when the socket is writable
};

/// One received message in one piece (a payload that came in a memfd is already copied behind its header), ready for
/// wire::decode(), and the descriptors that came with it.
struct Received {
  std::vector<std::byte> bytes;
  std::vector<base::UniqueFd> fds;
};

/// Whether a socket takes descriptors from its peer. A producer never does.
enum class AcceptFds { kNo, kYes };

/// One end of a control connection: a non-blocking SOCK_SEQPACKET socket. No call but receive_until() waits.
///
/// Threads: send() and receive() may be called from different threads at the same time.
class ControlSocket {
 public:
  /// Connects to a lane as a consumer does, or, with AcceptFds::kNo, as an observer.
  /// Errors: kNotFound (no socket there, or nobody listens), kPermission, kTimeout (the producer is there, but is so
  /// busy that its backlog is full: try again), kTooLarge (path), kInvalidArgument (no socket but another file),
  /// kSystem.
  [[nodiscard]] static Result<ControlSocket> connect(const std::string& path, AcceptFds accept_fds = AcceptFds::kYes);

  /// Takes over a connected, non-blocking SEQPACKET socket.
  ControlSocket(base::UniqueFd fd, AcceptFds accept_fds) noexcept;
  ControlSocket(ControlSocket&&) noexcept = default;
  ControlSocket& operator=(ControlSocket&&) noexcept = default;

  /// Sends one message with its descriptors, or nothing of it.
  /// Errors: kPeerLost, kTooLarge (the system takes no datagram of this size), kSystem.
  [[nodiscard]] Result<SendOutcome> send(const Outgoing& message) noexcept;
  /// The same for bytes of encode() that only this connection gets. Errors: also those of make_outgoing().
  [[nodiscard]] Result<SendOutcome> send(std::span<const std::byte> encoded, std::span<const int> fds = {});

  /// The next message; empty when there is none yet. Everything that the peer sent before it died is still received
  /// before kPeerLost. Errors: kPeerLost (closed or died), kProtocol (header, size, a memfd that isn't sealed, more
  /// descriptors than allowed or any with AcceptFds::kNo; they are closed), kNoMemory, kSystem.
  [[nodiscard]] Result<std::optional<Received>> receive();
  /// Waits for a message until `deadline_ns` (CLOCK_MONOTONIC). Never call it on the monitor's thread.
  /// Errors: kTimeout, and those of receive().
  [[nodiscard]] Result<Received> receive_until(std::int64_t deadline_ns);

  [[nodiscard]] PeerCredentials peer() const noexcept;
  /// As transport::peer_pidfd().
  [[nodiscard]] Result<base::UniqueFd> peer_pidfd() const { return transport::peer_pidfd(fd_.get()); }

  /// Sends nothing more: the peer sees the end after what was sent, and its own close is still seen here.
  void finish() noexcept;
  /// Ends the connection for both sides and for every copy of the socket; the descriptor stays valid until destruction.
  void shutdown() noexcept;

  [[nodiscard]] int fd() const noexcept { return fd_.get(); }
  [[nodiscard]] bool valid() const noexcept { return fd_.valid(); }

 private:
  [[nodiscard]] Result<std::optional<Received>> receive_sized(std::size_t size);
  [[nodiscard]] Result<SendOutcome> send_datagram(std::span<const std::byte> datagram,
                                                  std::span<const int> fds) noexcept;

  base::UniqueFd fd_;
  AcceptFds accept_fds_;
};

}  // namespace framelane::transport
