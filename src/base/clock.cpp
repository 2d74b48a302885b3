// SPDX-License-Identifier: MIT
#include "base/clock.hpp"

#include <time.h>

namespace framelane::base {

std::int64_t monotonic_ns() noexcept {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<std::int64_t>(now.tv_sec) * 1'000'000'000 + now.tv_nsec;
}

std::int64_t deadline_after(std::chrono::nanoseconds timeout) noexcept {
  if (timeout == std::chrono::nanoseconds::max()) return kForever;  // most waits: no need to ask for the time
  const std::int64_t now = monotonic_ns();
  if (timeout.count() > kForever - now) return kForever;
  return now + timeout.count();
}

}  // namespace framelane::base
