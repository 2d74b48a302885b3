// SPDX-License-Identifier: MIT
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "cli/top_screen.hpp"

namespace framelane::cli {

/// What the full screen asks for: the newest rows.
using LookAgain = std::function<Result<std::vector<LaneRow>>()>;

/// Shows the lanes until somebody quits (kOk) or a signal comes (kInterrupted); looks again every `interval`. The
/// terminal is as it was when this returns. Standard input and output must be a terminal.
[[nodiscard]] int run_full_screen(TopView& view, std::chrono::milliseconds interval, const LookAgain& look,
                                  const std::string& about);

}  // namespace framelane::cli
