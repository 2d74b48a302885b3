// SPDX-License-Identifier: MIT
#pragma once

#include <array>
#include <cstdint>

namespace framelane::base {

/// Random id of this boot of the host, the same in all its processes and containers; all 0 where the system doesn't
/// tell. Who shares it shares CLOCK_MONOTONIC (but in a time namespace).
[[nodiscard]] std::array<std::uint8_t, 16> boot_id() noexcept;

}  // namespace framelane::base
