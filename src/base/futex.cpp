// SPDX-License-Identifier: MIT
#include "base/futex.hpp"

#include <cerrno>

#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.hpp"

namespace framelane::base {
namespace {

// A 32-bit build with a 64-bit time_t must use the time64 call: the old one would read half of tv_sec as nanoseconds.
#if defined(SYS_futex_time64)
constexpr long kFutexCall = sizeof(time_t) > sizeof(long) ? SYS_futex_time64 : SYS_futex;
#else
constexpr long kFutexCall = SYS_futex;
#endif

std::uint32_t* address(const std::atomic<std::uint32_t>& word) noexcept {
  static_assert(sizeof word == sizeof(std::uint32_t) && std::atomic<std::uint32_t>::is_always_lock_free);
  return const_cast<std::uint32_t*>(reinterpret_cast<const std::uint32_t*>(&word));
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
  const long rc =
      syscall(kFutexCall, address(word), FUTEX_WAIT_BITSET, expected, until, nullptr, FUTEX_BITSET_MATCH_ANY);
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
  syscall(kFutexCall, address(word), FUTEX_WAKE, count, nullptr, nullptr, 0);
  errno = saved;
}

}  // namespace framelane::base
