// SPDX-License-Identifier: MIT
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>

#include <sys/epoll.h>

#include "framelane/base/result.hpp"

namespace framelane::transport {

class Monitor;
struct MonitorCore;

/// A descriptor or timer that the monitor watches. Destroying it ends that: when ~Watch() returns, the callback isn't
/// running and will never run again. From within its own callback it returns at once (the callback object lives until
/// it returns).
///
/// Threads: one object from one thread at a time, but set_events() from any thread at any time. Don't destroy it while
///          holding a lock that its callback takes. In a forked child it is dead: nothing it does there reaches the
///          parent.
class Watch {
 public:
  Watch() noexcept = default;
  Watch(Watch&& other) noexcept;
  Watch& operator=(Watch&& other) noexcept;
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;
  ~Watch() { reset(); }

  /// Replaces the events waited for (EPOLLIN, EPOLLOUT, ...) and arms a watch that has fired its last event (see
  /// Monitor::watch). 0 disarms it, for a callback that can't take more now: at most one hang-up is still told, and
  /// set_events() tells the rest later. Never waits. Does nothing for a timer.
  void set_events(std::uint32_t events) noexcept;

  /// Ends the watch, before the descriptor is closed.
  void reset() noexcept;

  [[nodiscard]] explicit operator bool() const noexcept { return id_ != 0; }

 private:
  friend class Monitor;
  Watch(std::shared_ptr<MonitorCore> core, std::uint64_t id) noexcept : core_(std::move(core)), id_(id) {}

  std::shared_ptr<MonitorCore> core_;  // stays after reset(), as set_events() may be reading it
  std::atomic<std::uint64_t> id_{0};
};

/// The one thread of a process that watches control sockets, the deaths of peers, and deadlines. It starts on first
/// use, blocks every signal, and a forked child that uses it gets a new one.
///
/// Callbacks run on that thread, one at a time: they must not wait and must not throw. They may call everything here.
///
/// Threads: any.
class Monitor {
 public:
  using Callback = std::function<void(std::uint32_t events)>;
  using Task = std::function<void()>;

  /// Errors: kSystem (no thread or descriptor to be had; a later call tries again).
  [[nodiscard]] static Result<Monitor*> instance();

  /// Calls `callback` with the epoll events of `fd`, again and again while they last. The descriptor stays the caller's
  /// and must outlive the Watch; it must not be watched twice at the same time.
  ///
  /// A state that never ends is told only once, so that it can't spin: with EPOLLHUP, EPOLLERR or EPOLLRDHUP among the
  /// events, or with EPOLLONESHOT among the wanted ones (use it for pidfds, which stay readable), the callback isn't
  /// called again until set_events(). So on a hang-up read the socket until receive() says kPeerLost.
  ///
  /// Errors: kSystem (e.g. a file that can't be polled, or the limit of watches).
  [[nodiscard]] Result<Watch> watch(int fd, std::uint32_t events, Callback callback);

  /// Calls `task` once, after `delay` (to the next ms). Destroying the Watch cancels it.
  [[nodiscard]] Watch after(std::chrono::nanoseconds delay, Task task);
  /// Calls `task` again and again, `period` (at least 1 ms) after the last call ended.
  [[nodiscard]] Watch every(std::chrono::nanoseconds period, Task task);

  /// Runs `task` soon on the monitor's thread, after the tasks posted before it.
  void post(Task task);

  /// Runs `task` on the monitor's thread and returns when it is done: after that, every callback that ran before is
  /// over. On that thread itself the task runs at once. Don't call it while holding a lock that a callback takes.
  void call(const Task& task);

  [[nodiscard]] bool on_this_thread() const noexcept;

  explicit Monitor(std::shared_ptr<MonitorCore> core) noexcept : core_(std::move(core)) {}

 private:
  std::shared_ptr<MonitorCore> core_;
};

}  // namespace framelane::transport
