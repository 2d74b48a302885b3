// SPDX-License-Identifier: MIT
#pragma once

#include <chrono>
#include <cstdint>
#include <limits>

namespace framelane::base {

/// An absolute time that never comes, in ns of CLOCK_MONOTONIC.
inline constexpr std::int64_t kForever = std::numeric_limits<std::int64_t>::max();

/// Now, in ns of CLOCK_MONOTONIC (the clock of every time in a lane). About 30 ns; no system call where the vDSO
/// serves.
[[nodiscard]] std::int64_t monotonic_ns() noexcept;

/// now + timeout in ns of CLOCK_MONOTONIC; kForever when that overflows or the timeout is the largest one.
[[nodiscard]] std::int64_t deadline_after(std::chrono::nanoseconds timeout) noexcept;

}  // namespace framelane::base
