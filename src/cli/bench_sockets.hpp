// SPDX-License-Identifier: MIT
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "framelane/base/result.hpp"

#include "base/unique_fd.hpp"
#include "cli/bench_setup.hpp"

// Bare stream sockets: the floor of what goes over a lane's stream. They block, and no call waits longer than
// kPatience.

namespace framelane::cli {

/// Two connected ends.
using SocketPair = std::array<base::UniqueFd, 2>;

/// Errors: kSystem.
[[nodiscard]] Result<SocketPair> connect_uds_pair();
/// On the loopback, without delay of small messages. Errors: kSystem.
[[nodiscard]] Result<SocketPair> connect_tcp_pair();

/// One system call where the socket takes all at once. False: broken, or nobody reads.
[[nodiscard]] bool send_all(int fd, std::span<const std::byte> bytes) noexcept;
/// One system call, unless a signal comes. False: broken, or nothing comes.
[[nodiscard]] bool receive_all(int fd, std::span<std::byte> bytes) noexcept;

/// Two ports of the loopback that were free a moment ago: each end of a pair of lanes listens on one. Errors: kSystem.
[[nodiscard]] Result<std::array<std::uint16_t, 2>> free_ports();

/// What a bench of streams stands on before its two processes are forked.
struct StreamBench {
  std::array<SocketPair, 2> bare;      // the floor: UDS, TCP
  std::array<std::uint16_t, 2> ports;  // of the lanes over TCP
  CpuPair cpus;
};
/// Errors: kSystem, kUnsupported (one CPU).
[[nodiscard]] Result<StreamBench> set_up_stream_bench();

}  // namespace framelane::cli
