// SPDX-License-Identifier: MIT
#pragma once

#include <atomic>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

#include <pthread.h>

#include "base/unique_fd.hpp"
#include "cli/child_process.hpp"

namespace framelane::cli {

/// Ctrl-C and termination signals while a subcommand moves frames: a thread of its own waits for them, tells the lane
/// to stop waiting, and wakes the thread that made this object from a blocking read or write, again and again, so that
/// it doesn't matter when that looks at came(). A second signal ends the process at once.
///
/// Also makes closed pipes and file size limits errors of a write (SIGPIPE, SIGXFSZ are ignored) while it lives.
///
/// Threads: make it before any other thread; came() from any.
class Interruption {
 public:
  Interruption();
  ~Interruption();
  Interruption(const Interruption&) = delete;
  Interruption& operator=(const Interruption&) = delete;

  /// What ends the lane's waits; called once, on the thread of this object, also when the signal has come already.
  void on_interrupt(std::function<void()> callback);

  [[nodiscard]] bool came() const noexcept { return came_.load(std::memory_order_acquire); }

 private:
  void watch();
  void tell();
  [[nodiscard]] bool stopped_within(int milliseconds) const;

  TerminationSignals signals_;
  base::UniqueFd stop_;
  pthread_t worker_;
  std::mutex mutex_;
  std::function<void()> callback_;  // guarded by mutex_
  std::atomic<bool> came_{false};
  std::thread thread_;
};

/// open(), where a FIFO waits for its other end: only an interruption (may be null) ends that, with EINTR.
[[nodiscard]] int open_patiently(const std::string& path, int flags, const Interruption* interruption);

}  // namespace framelane::cli
