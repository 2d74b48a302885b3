// SPDX-License-Identifier: MIT
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

#include "framelane/base/result.hpp"

#include "base/unique_fd.hpp"

namespace framelane::lane {

/// Waits on a thread of its own for a consumer that sleeps in its application's event loop, and makes a descriptor
/// readable when there is something to take. The consumer's core is one thread's at a time: this thread's until then,
/// and the taking thread's until that has found nothing more and hands it back.
///
/// Threads: claim() and hand_back() on the taking thread; wanted() on this one.
class EventPump {
 public:
  /// `wait(deadline)`: on the thread, until something may be taken (true) or the deadline (ns of CLOCK_MONOTONIC) has
  /// come; it also returns when wanted(). Errors: kSystem.
  using Wait = std::function<bool(std::int64_t deadline_ns)>;
  [[nodiscard]] static Result<std::unique_ptr<EventPump>> create(Wait wait);
  /// Ends the thread; `wake` makes its wait() look.
  void stop(const std::function<void()>& wake) noexcept;
  ~EventPump() = default;
  EventPump(const EventPump&) = delete;
  EventPump& operator=(const EventPump&) = delete;

  [[nodiscard]] int fd() const noexcept { return fd_.get(); }
  /// Waits until the core is the taking thread's. False: the deadline came first. `now`: whether or not there is
  /// anything to take.
  [[nodiscard]] bool claim(std::int64_t deadline_ns, bool now = false) noexcept;
  /// Nothing more is to be taken: the descriptor isn't readable any more, and the thread waits on.
  void hand_back() noexcept;
  /// The taking thread wants the core back, or the thread must end.
  [[nodiscard]] bool wanted() const noexcept { return wanted_.load(std::memory_order_relaxed); }

 private:
  EventPump(Wait wait, base::UniqueFd fd) : wait_(std::move(wait)), fd_(std::move(fd)) {}
  void run();

  Wait wait_;
  base::UniqueFd fd_;  // an eventfd: readable while the core is the taking thread's
  std::mutex mutex_;
  std::condition_variable changed_;
  bool ours_ = false;  // the core is the thread's. mutex_
  bool stop_ = false;  // mutex_
  std::atomic<bool> wanted_{false};
  std::thread thread_;
};

}  // namespace framelane::lane
