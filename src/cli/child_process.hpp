// SPDX-License-Identifier: MIT
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <signal.h>
#include <sys/types.h>

#include "framelane/base/result.hpp"

#include "base/unique_fd.hpp"

namespace framelane::cli {

/// Turns SIGINT, SIGTERM, SIGHUP and the end of a child into a readable fd while it lives, so that one poll() waits for
/// all of them: a timer instead would disturb what the children measure. Create it before the first child and any
/// thread.
class TerminationSignals {
 public:
  TerminationSignals();
  ~TerminationSignals();
  TerminationSignals(const TerminationSignals&) = delete;
  TerminationSignals& operator=(const TerminationSignals&) = delete;

  [[nodiscard]] int fd() const noexcept { return fd_.get(); }
  /// True once one has come that asks us to end. Empties the fd.
  [[nodiscard]] bool came() noexcept;

 private:
  base::UniqueFd fd_;
  sigset_t before_;
  bool came_ = false;
};

/// What to run in a process of its own.
struct Spawn {
  std::string name;                                              ///< in messages
  std::vector<std::string> command;                              ///< program (looked up in PATH) and arguments
  std::vector<std::pair<std::string, std::string>> environment;  ///< variables that it gets besides ours
  std::string log_file;                                          ///< gets what it writes; empty: it writes where we do
  bool read_output = false;                                      ///< its standard output through output_fd() instead
};

/// A child that can't outlive us: it dies with this process (PR_SET_PDEATHSIG) and is killed and reaped, by its pid, at
/// the latest when this object goes. It has a process group of its own, so that Ctrl-C on the terminal reaches only us,
/// and we end the children in order.
///
/// Threads: one thread; fork() only while the process has no other.
class ChildProcess {
 public:
  /// Runs `body` in a fork of this process and exits with what it returns; SIGALRM ends it after `watchdog`.
  /// Errors: kSystem, kNoMemory.
  [[nodiscard]] static Result<ChildProcess> fork(std::string name, const std::function<int()>& body,
                                                 std::chrono::seconds watchdog);
  /// Errors: kNotFound (no such program), kSystem, kNoMemory.
  [[nodiscard]] static Result<ChildProcess> spawn(const Spawn& what);

  ChildProcess(ChildProcess&& other) noexcept;
  ChildProcess& operator=(ChildProcess&&) = delete;
  ~ChildProcess();

  [[nodiscard]] pid_t pid() const noexcept { return pid_; }
  [[nodiscard]] const std::string& name() const noexcept { return name_; }
  [[nodiscard]] int output_fd() const noexcept { return output_.get(); }

  /// False once it has exited; then it is reaped.
  [[nodiscard]] bool running();
  /// Waits for its end for at most `timeout`; true when it has ended.
  bool wait(std::chrono::milliseconds timeout);
  /// Sends a signal, unless it is reaped already.
  void signal(int number) noexcept;
  /// SIGKILL, and reaps it.
  void kill() noexcept;

  [[nodiscard]] bool succeeded() const noexcept;
  /// "exited with code 1", "was killed by signal 9 (Killed)"; after its end.
  [[nodiscard]] std::string end_text() const;

 private:
  ChildProcess(std::string name, pid_t pid, base::UniqueFd output) noexcept;

  std::string name_;
  pid_t pid_ = -1;
  std::optional<int> status_;  // as waitpid gives it; set once it is reaped
  base::UniqueFd output_;
};

/// How a group of children ended.
enum class GroupEnd { kAllSucceeded, kOneFailed, kTimedOut, kInterrupted };

/// Waits until all have succeeded. When one fails, `timeout` has passed or a signal has come, the others are killed.
/// `failed` then names the one that failed first. With `progress`, the timeout begins anew whenever its value changes.
GroupEnd wait_for_all(std::span<ChildProcess> children, TerminationSignals& signals, std::chrono::milliseconds timeout,
                      const ChildProcess** failed, const std::function<std::uint64_t()>& progress = {});

}  // namespace framelane::cli
