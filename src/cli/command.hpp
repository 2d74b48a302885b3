// SPDX-License-Identifier: MIT
#pragma once

#include <functional>

#include <CLI/CLI.hpp>

namespace framelane::cli {

/// Exit codes of the command. Its help and manual say them (command_tree.hpp), so scripts may rely on them.
enum ExitCode : int {
  kOk = 0,
  kFailed = 1,          ///< it could not do what was asked; one sentence on standard error says why
  kUsage = 2,           ///< unknown subcommand, option or value
  kBadInput = 3,        ///< `send`: the input is damaged or ends too early; the whole frames before that were sent
  kNothingCame = 4,     ///< nobody, or no frame, came in the time that --timeout gives
  kInterrupted = 130,   ///< Ctrl-C or a termination signal; everything it started is gone, files end with a whole frame
  kOutputClosed = 141,  ///< whoever read the output has closed it (128 + SIGPIPE, as shells say it)
};

/// What the parsed command line asked for. It runs after parsing, so that no subcommand starts work that a later option
/// would have refused.
using Action = std::function<int()>;

// Each adds its subcommand to `app`; when that is given, `chosen` is what to run.
void add_bench(CLI::App& app, Action& chosen);
void add_bench_gst(CLI::App& bench, Action& chosen);
void add_bench_rpc(CLI::App& bench, Action& chosen);
void add_bench_rtt(CLI::App& bench, Action& chosen);
void add_bench_take(CLI::App& bench, Action& chosen);
void add_bench_transports(CLI::App& bench, Action& chosen);
void add_completion(CLI::App& app, Action& chosen);
void add_demo(CLI::App& app, Action& chosen);
void add_demo_consumer(CLI::App& app, Action& chosen);
void add_doctor(CLI::App& app, Action& chosen);
void add_ls(CLI::App& app, Action& chosen);
void add_recv(CLI::App& app, Action& chosen);
void add_send(CLI::App& app, Action& chosen);
void add_top(CLI::App& app, Action& chosen);

}  // namespace framelane::cli
