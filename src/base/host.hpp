// SPDX-License-Identifier: MIT
#pragma once

#include <array>
#include <cstdint>

namespace framelane::base {

/// Random id of this boot of the host, the same in all its processes and containers; all 0 where the system doesn't
/// tell. See time_namespace().
[[nodiscard]] std::array<std::uint8_t, 16> boot_id() noexcept;

/// The time namespace of this process; 0 where the system doesn't tell. Of one boot, who shares it shares
/// CLOCK_MONOTONIC.
[[nodiscard]] std::uint64_t time_namespace() noexcept;

}  // namespace framelane::base
