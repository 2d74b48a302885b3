// SPDX-License-Identifier: MIT
#include "lane/event_pump.hpp"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <utility>

#include <sys/eventfd.h>

#include "base/clock.hpp"
#include "base/text.hpp"
#include "base/thread.hpp"

namespace framelane::lane {
namespace {

constexpr std::int64_t kSliceNs = 200'000'000;  // how long a wait that can't be woken may go on

std::chrono::steady_clock::time_point time_point(std::int64_t ns) noexcept {
  return std::chrono::steady_clock::time_point(std::chrono::nanoseconds(ns));
}

}  // namespace

Result<std::unique_ptr<EventPump>> EventPump::create(Wait wait) {
  base::UniqueFd fd(eventfd(1, EFD_CLOEXEC | EFD_NONBLOCK));  // the taking thread looks first
  if (!fd.valid()) return fail(Code::kSystem, "no event descriptor: " + base::system_words(errno));
  std::unique_ptr<EventPump> pump(new EventPump(std::move(wait), std::move(fd)));
  auto thread = base::start_thread("framelane-event", [raw = pump.get()] { raw->run(); });
  if (!thread) return tl::unexpected(std::move(thread.error()));
  pump->thread_ = std::move(*thread);
  return pump;
}

void EventPump::stop(const std::function<void()>& wake) noexcept {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
    wanted_.store(true, std::memory_order_relaxed);
  }
  changed_.notify_all();
  wake();
  if (thread_.joinable()) thread_.join();
  eventfd_write(fd_.get(), 1);  // whoever waits on a duplicate of it sees that this is over
}

bool EventPump::claim(std::int64_t deadline_ns, bool now) noexcept {
  std::unique_lock lock(mutex_);
  const auto is_mine = [this] { return !ours_; };
  if (is_mine()) return true;
  if (now) wanted_.store(true, std::memory_order_relaxed);
  if (deadline_ns == base::kForever) {
    changed_.wait(lock, is_mine);
    return true;
  }
  return deadline_ns != 0 && changed_.wait_until(lock, time_point(deadline_ns), is_mine);
}

void EventPump::hand_back() noexcept {
  {
    const std::lock_guard lock(mutex_);
    if (ours_) return;
    eventfd_t count = 0;
    eventfd_read(fd_.get(), &count);
    wanted_.store(stop_, std::memory_order_relaxed);
    ours_ = true;
  }
  changed_.notify_all();
}

void EventPump::run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return ours_ || stop_; });
    if (stop_) return;
    lock.unlock();
    const bool there = wait_(base::monotonic_ns() + kSliceNs);
    lock.lock();
    if (!there && !wanted()) continue;
    ours_ = false;
    eventfd_write(fd_.get(), 1);
    changed_.notify_all();
  }
}

}  // namespace framelane::lane
