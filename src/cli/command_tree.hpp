// SPDX-License-Identifier: MIT
#pragma once

#include <string>
#include <vector>

#include <CLI/CLI.hpp>

// The command line as data: shell completion and the manual are made from what parses it, so neither can lag behind.
namespace framelane::cli {

struct OptionText {
  std::vector<std::string> names;    ///< "--json"; of a positional its name alone, "LANE"
  std::string value;                 ///< what stands behind it: "N", "auto|shm|uds"; empty for a flag
  std::vector<std::string> choices;  ///< the words that the value can be, if it is one of a few
  std::string description;
  bool positional = false;
  bool required = false;
};

struct CommandText {
  std::string path;  ///< "framelane bench rtt"
  std::string name;  ///< "rtt"
  std::string description;
  std::string footer;
  std::vector<OptionText> options;
  std::vector<CommandText> commands;
};

/// Without what the help hides.
[[nodiscard]] CommandText command_tree(const CLI::App& app);

/// ExitCode for people, at the end of the help and in the manual.
inline constexpr const char* kExitCodes =
    "Exit codes: 0 done; 1 failed, a sentence on standard error says why;\n"
    "2 wrong usage; 3 the input is damaged or too short, its whole frames are sent;\n"
    "4 nobody, or nothing, came in time; 130 interrupted; 141 whoever read the output\n"
    "has closed it.";

/// A bash script that completes subcommands, options, their words, lanes that are there and files.
[[nodiscard]] std::string bash_completion(const CommandText& command);
/// framelane(1) in man(7)'s macros.
[[nodiscard]] std::string manual_page(const CommandText& command);

}  // namespace framelane::cli
