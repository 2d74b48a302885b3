// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "framelane/base/result.hpp"

#include "lane/relay.hpp"
#include "lane/ways.hpp"

namespace framelane::lane {

/// Listens for the consumers of a lane that come over Unix domain sockets and TCP, and has a Relay for each.
///
/// Threads: one at a time; accepts on the monitor's thread.
class StreamServer {
 public:
  /// Listens on all of `place` but shared memory, and writes the ports that the system chose into it. The caller has
  /// the lane's lock. `psk_file`: of TCP; empty: plain.
  /// Errors: those of transport::listen_uds() and listen_tcp(), and of the key's file.
  [[nodiscard]] static Result<std::unique_ptr<StreamServer>> listen(Place& place, const std::string& psk_file);
  ~StreamServer();
  StreamServer(const StreamServer&) = delete;
  StreamServer& operator=(const StreamServer&) = delete;

  /// Begins to accept. Errors: kSystem.
  [[nodiscard]] Result<void> start(RelayHost host);
  /// Accepts no more, ends the connections that aren't consumers yet, and removes the socket.
  void stop_accepting() noexcept;
  /// Waits until every relay has ended, since the producer has ended the lane. At the deadline (ns of CLOCK_MONOTONIC)
  /// the rest is cut off. Doesn't wait at all on the monitor's thread.
  void drain(std::int64_t deadline_ns) noexcept;

 private:
  struct State;
  explicit StreamServer(std::shared_ptr<State> state) noexcept;
  std::shared_ptr<State> state_;
};

}  // namespace framelane::lane
