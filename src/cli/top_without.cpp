// SPDX-License-Identifier: MIT
// In place of top_curses.cpp where ncurses isn't built against.
#include <fmt/format.h>

#include "cli/command.hpp"
#include "cli/top_terminal.hpp"

namespace framelane::cli {

int run_full_screen(TopView&, std::chrono::milliseconds, const LookAgain&, const std::string&) {
  fmt::print(stderr,
             "framelane top: this build has no full screen: it was built without ncurses (Debian's libncurses-dev); "
             "--once and --json work\n");
  return kFailed;
}

}  // namespace framelane::cli
