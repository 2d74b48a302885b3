// SPDX-License-Identifier: MIT
#pragma once

#include <functional>

#include <CLI/CLI.hpp>

namespace framelane::cli {

/// Exit codes of the command. They are documented in its help, so scripts may rely on them.
enum ExitCode : int {
  kOk = 0,
  kFailed = 1,         ///< it could not do what was asked; one sentence on standard error says why
  kUsage = 2,          ///< unknown subcommand, option or value
  kInterrupted = 130,  ///< Ctrl-C or a termination signal; everything it started is gone
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
void add_demo(CLI::App& app, Action& chosen);
void add_demo_consumer(CLI::App& app, Action& chosen);
void add_ls(CLI::App& app, Action& chosen);
void add_top(CLI::App& app, Action& chosen);

}  // namespace framelane::cli
