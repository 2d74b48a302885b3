// SPDX-License-Identifier: MIT
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "framelane/base/result.hpp"

#include "base/unique_fd.hpp"
#include "transport/monitor.hpp"

namespace framelane::transport {

/// Accepts the connections of a listening socket, on the monitor's thread. When the system can't (no descriptors, no
/// memory) it says so once, pauses and tries again.
///
/// Threads: any, but the destructor not while holding a lock that the callback takes.
class Acceptor {
 public:
  /// Gets each connection, non-blocking. On the monitor's thread: must not wait.
  using Callback = std::function<void(base::UniqueFd connection)>;

  /// `listener` stays the caller's and must outlive the Acceptor. `place` names it in logs. Errors: kSystem.
  [[nodiscard]] static Result<std::unique_ptr<Acceptor>> start(Monitor& monitor, int listener, std::string place,
                                                               Callback callback);
  Acceptor(const Acceptor&) = delete;
  Acceptor& operator=(const Acceptor&) = delete;

 private:
  Acceptor(Monitor& monitor, int listener, std::string place, Callback callback);
  void on_connection();
  bool accept_one();
  void pause();

  Monitor& monitor_;
  int listener_;
  std::string place_;
  Callback callback_;
  bool paused_ = false;  // and the log says so
  Watch resume_;
  Watch watch_;  // last: its callback uses all of it
};

}  // namespace framelane::transport
