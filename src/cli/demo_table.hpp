// SPDX-License-Identifier: MIT
#pragma once

#include <string>
#include <vector>

#include "cli/demo_report.hpp"

namespace framelane::cli {

/// One line of the demo's table.
struct DemoRow {
  std::string name;
  int pid = 0;
  std::string state;  ///< instead of the report's when not empty
  const DemoReport* report = nullptr;
};

/// Draws the demo's table: on a terminal over the one drawn before, else as new plain lines. 80 columns.
class DemoTable {
 public:
  explicit DemoTable(bool terminal) noexcept : terminal_(terminal) {}

  void draw(double seconds, const std::vector<DemoRow>& rows);
  /// Prints a line that stays: the next table is drawn below it.
  void note(const std::string& text);

 private:
  bool terminal_;
  std::size_t lines_ = 0;  // of the table that can be drawn over
};

}  // namespace framelane::cli
