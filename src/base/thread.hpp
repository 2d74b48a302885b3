// SPDX-License-Identifier: MIT
#pragma once

#include <functional>
#include <thread>

#include "framelane/base/result.hpp"

namespace framelane::base {

/// A thread that takes no signals: those are for the application's own. `name`: at most 15 bytes.
/// Errors: kSystem.
[[nodiscard]] Result<std::thread> start_thread(const char* name, std::function<void()> body);

}  // namespace framelane::base
