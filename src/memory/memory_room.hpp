// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <string>

namespace framelane::memory {

/// Bytes that this process could still touch before the machine or one of its memory cgroups (version 1 or 2) runs out.
/// Page cache counts as room, since the kernel drops it first. A limit that can't be read doesn't count.
/// `root` is where /proc and /sys lie, so that a test can bring its own ("" for the real ones).
[[nodiscard]] std::uint64_t memory_room(const std::string& root = {});

}  // namespace framelane::memory
