// SPDX-License-Identifier: MIT
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>

#include "framelane/base/result.hpp"

#include "transport/control_socket.hpp"
#include "transport/lane_files.hpp"
#include "wire/control_message.hpp"

namespace framelane::transport {

struct ServerSettings {
  std::size_t max_pending = 64;  ///< connections without a HELLO; a further one takes the place of the oldest
  std::chrono::nanoseconds handshake_timeout = std::chrono::seconds(2);  ///< then a connection without HELLO is closed
};

/// What the server tells its owner. Called on the monitor's thread: must not wait.
class HelloHandler {
 public:
  virtual ~HelloHandler() = default;
  /// A peer said HELLO, and its version and byte order suit. The socket (AcceptFds::kNo) now belongs to the handler: it
  /// answers with WELCOME or reject(), and keeps or drops it. Must not destroy the ControlServer.
  virtual void on_hello(ControlSocket&& socket, const wire::Hello& hello, const PeerCredentials& peer) = 0;
};

/// Sends REJECT, best effort; the caller then drops the socket. The sentence reaches the peer although it is closed at
/// once.
void reject(ControlSocket& socket, wire::RejectCode code, std::string sentence);

/// Why a HELLO can't be served by this build, whatever the lane: protocol version, byte order, ABI version (of a
/// consumer that can only use shared memory). Empty when it can.
[[nodiscard]] std::optional<wire::Reject> refusal_of(const wire::Hello& hello);

/// Accepts the connections of a lane and reads their HELLO, on the monitor's thread.
///
/// Threads: start(), stop() and the destructor from any thread but not from within on_hello().
class ControlServer {
 public:
  /// Owns `files`. `handler` must outlive the server. Errors: kSystem (the monitor can't be had).
  [[nodiscard]] static Result<std::unique_ptr<ControlServer>> start(LaneFiles&& files, HelloHandler& handler,
                                                                    ServerSettings settings = {});
  ~ControlServer();
  ControlServer(const ControlServer&) = delete;
  ControlServer& operator=(const ControlServer&) = delete;

  /// Stops accepting, closes the pending handshakes, removes the socket and gives the lock back. When it returns, the
  /// handler isn't being called and won't be called any more.
  void stop() noexcept;

  [[nodiscard]] const std::string& socket_path() const noexcept;
  /// Connections that have not said HELLO yet.
  [[nodiscard]] std::size_t num_pending() const;

 private:
  struct State;
  explicit ControlServer(std::unique_ptr<State> state) noexcept;
  std::unique_ptr<State> state_;
};

}  // namespace framelane::transport
