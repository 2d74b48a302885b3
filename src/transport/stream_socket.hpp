// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "framelane/base/result.hpp"

#include "base/unique_fd.hpp"

// Sockets for byte streams: Unix domain ones by path, TCP by host and port. What goes over them is the same.

namespace framelane::transport {

/// Listens on a path (mode 0600), in place of a stale socket; the caller has the lane's lock. Non-blocking.
/// Errors: kTooLarge (path), kInvalidArgument (something that isn't a socket lies there), kPermission, kSystem.
[[nodiscard]] Result<base::UniqueFd> listen_uds(const std::string& path);

/// Listens on a host's address and port; port 0 takes any (see local_port()). Non-blocking.
/// Errors: kNotFound (no such host, or not this machine's address), kInUse (the port), kPermission, kSystem.
[[nodiscard]] Result<base::UniqueFd> listen_tcp(const std::string& host, std::uint16_t port);

/// The port of a TCP socket of ours. Errors: kSystem.
[[nodiscard]] Result<std::uint16_t> local_port(int fd);

/// Errors: kNotFound (nobody listens there), kTimeout (its backlog is full), kPermission, kTooLarge, kSystem.
[[nodiscard]] Result<base::UniqueFd> connect_uds(const std::string& path);

/// Begins to connect to one of the host's addresses, the `turn`-th, and so around. Doesn't wait for the peer: until the
/// connection stands the socket takes and has nothing, and when it can't be had both ways of use say why. The look-up
/// of a host's name is the C library's, and waits as long as its resolver says.
/// Errors: kNotFound (no such host, or nobody listens there), kTimeout, kPermission, kSystem.
[[nodiscard]] Result<base::UniqueFd> begin_tcp(const std::string& host, std::uint16_t port, std::size_t turn = 0);

/// Whether a host is this one alone: all addresses of its name are loopback ones. Waits as begin_tcp() does.
/// Errors: kNotFound, kTimeout (no such host).
[[nodiscard]] Result<bool> is_loopback_host(const std::string& host);

enum class End { kOurs, kTheirs };
/// Whether that end of a TCP socket has a loopback address: what comes from there comes from this host.
[[nodiscard]] bool is_loopback(int fd, End end) noexcept;

/// Whether the peer's system has all that was sent on a TCP socket; also when it is broken.
[[nodiscard]] bool all_delivered(int fd) noexcept;

/// For a connection that carries frames of `frame_size` bytes: buffers of two frames (as far as the system allows), no
/// delay of small messages, and a look after a silent peer every few seconds.
void tune_stream(int fd, std::size_t frame_size) noexcept;

}  // namespace framelane::transport
