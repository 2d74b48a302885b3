// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <utility>

#include <sys/types.h>

#include "transport/control_socket.hpp"

namespace framelane::transport {

/// A directory of the test's own, removed with what is in it.
class TempDirectory {
 public:
  TempDirectory();
  TempDirectory(const TempDirectory&) = delete;
  TempDirectory& operator=(const TempDirectory&) = delete;
  ~TempDirectory();

  [[nodiscard]] const std::string& path() const noexcept { return path_; }
  [[nodiscard]] std::string operator/(const std::string& name) const { return path_ + '/' + name; }

 private:
  std::string path_;
};

/// A forked child that runs `body` and exits with what it returns. Killed and reaped at the latest by the destructor.
class Child {
 public:
  explicit Child(const std::function<int()>& body);
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  ~Child();

  [[nodiscard]] pid_t pid() const noexcept { return pid_; }
  void kill(int signal) const;
  /// Exit status as the shell says it (128 + signal); -1 when the child had to be killed after 20 s.
  int wait();

 private:
  pid_t pid_ = 0;
  bool reaped_ = false;
};

/// A pipe that carries one byte from one process to another: "I am so far".
class Signal {
 public:
  Signal();
  void send() const;
  /// False when it doesn't come within 20 s, or the sender is gone.
  [[nodiscard]] bool wait() const;

 private:
  base::UniqueFd read_;
  base::UniqueFd write_;
};

/// Waits up to 20 s until the condition holds; returns whether it does.
bool eventually(const std::function<bool()>& condition);

/// Open descriptors of this process.
[[nodiscard]] std::size_t open_fds();

struct Pair {
  ControlSocket producer;  // takes no descriptors
  ControlSocket consumer;
};
[[nodiscard]] Pair connected_pair();

/// Sends a datagram past ControlSocket's checks, as a hostile peer would. Returns what sendmsg() does.
ssize_t send_raw(int socket, const std::vector<std::byte>& bytes, const std::vector<int>& fds = {});

[[nodiscard]] inline bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

[[nodiscard]] std::string own_name();

/// 20 s from now, ns of CLOCK_MONOTONIC.
[[nodiscard]] std::int64_t soon();

}  // namespace framelane::transport
