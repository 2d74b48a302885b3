// SPDX-License-Identifier: MIT
#include "cli/command.hpp"

namespace framelane::cli {

void add_bench(CLI::App& app, Action& chosen) {
  CLI::App& bench = *app.add_subcommand("bench", "Measures what a lane costs on this machine, now");
  bench.require_subcommand(1);
  bench.footer(
      "Examples:\n"
      "  framelane bench rtt\n"
      "  framelane bench take --json\n"
      "  framelane bench rpc --size 65536\n"
      "  framelane bench transports\n"
      "  framelane bench gst --fps max");
  add_bench_rtt(bench, chosen);
  add_bench_take(bench, chosen);
  add_bench_rpc(bench, chosen);
  add_bench_transports(bench, chosen);
  add_bench_gst(bench, chosen);
}

}  // namespace framelane::cli
