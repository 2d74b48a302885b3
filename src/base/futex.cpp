// SPDX-License-Identifier: MIT
#include "base/futex.hpp"

#include <algorithm>
#include <cerrno>
#include <limits>

#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.hpp"

namespace framelane::base {
namespace {

std::uint32_t* address(const std::atomic<std::uint32_t>& word) noexcept {
  static_assert(sizeof word == sizeof(std::uint32_t) && std::atomic<std::uint32_t>::is_always_lock_free);
  return const_cast<std::uint32_t*>(reinterpret_cast<const std::uint32_t*>(&word));
}

/// The old call's time. A 64-bit time_t on a 32-bit machine isn't that: it would read half of tv_sec as nanoseconds.
struct ShortTime {
  long seconds;
  long nanoseconds;
};

long futex(const std::atomic<std::uint32_t>& word, int operation, std::uint32_t value, const timespec* until) noexcept {
#if defined(SYS_futex_time64)
  if constexpr (sizeof(time_t) > sizeof(long)) {
    const long rc = syscall(SYS_futex_time64, address(word), operation, value, until, nullptr, FUTEX_BITSET_MATCH_ANY);
    if (rc != -1 || errno != ENOSYS) return rc;  // a kernel before Linux 5.1 doesn't have it, nor have some emulators
  }
#endif
  ShortTime at{};
  if (until != nullptr) {
    constexpr auto kMost = std::numeric_limits<long>::max();
    at = {static_cast<long>(std::min<std::int64_t>(until->tv_sec, kMost)), static_cast<long>(until->tv_nsec)};
  }
  return syscall(SYS_futex, address(word), operation, value, until == nullptr ? nullptr : &at, nullptr,
                 FUTEX_BITSET_MATCH_ANY);
}

}  // namespace

FutexResult futex_wait(const std::atomic<std::uint32_t>& word, std::uint32_t expected,
                       std::int64_t deadline_ns) noexcept {
  timespec at{};
  timespec* until = nullptr;
  if (deadline_ns != kForever) {
    if (deadline_ns < 0) deadline_ns = 0;
    at.tv_sec = static_cast<time_t>(deadline_ns / 1'000'000'000);
    at.tv_nsec = static_cast<long>(deadline_ns % 1'000'000'000);
    until = &at;
  }
  // FUTEX_WAIT_BITSET takes an absolute deadline, so that a wait that is started again keeps its bound.
  const long rc = futex(word, FUTEX_WAIT_BITSET, expected, until);
  if (rc == 0) return FutexResult::kWoken;
  switch (errno) {
    case EAGAIN:
      return FutexResult::kChanged;
    case ETIMEDOUT:
      return FutexResult::kTimedOut;
    default:
      return FutexResult::kInterrupted;
  }
}

void futex_wake(std::atomic<std::uint32_t>& word, int count) noexcept {
  const int saved = errno;
  futex(word, FUTEX_WAKE, static_cast<std::uint32_t>(count), nullptr);
  errno = saved;
}

}  // namespace framelane::base
