// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <string>

namespace framelane::fault {

/// The processes of lane_kills. `board` is its file; both return an exit code.
int produce_until_killed(const std::string& board, std::uint32_t producer, bool demotes);
int consume_until_killed(const std::string& board, std::size_t row, std::size_t kept);

}  // namespace framelane::fault
