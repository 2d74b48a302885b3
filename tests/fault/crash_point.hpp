// SPDX-License-Identifier: MIT
#pragma once

#include <chrono>
#include <string>

// What the points of src/base/crash_point.hpp do in this process. To be called before the first lane is opened.
namespace framelane::fault {

/// The process kills itself when it reaches the point for the `count`-th time, on whatever thread.
void die_at(const std::string& point, unsigned count);
/// Whoever reaches the point stays there for so long, each time.
void linger_at(const std::string& point, std::chrono::microseconds time);

}  // namespace framelane::fault
