// SPDX-License-Identifier: MIT
#include <algorithm>
#include <chrono>
#include <clocale>
#include <cstdio>
#include <map>
#include <memory>
#include <string>

#include <fmt/format.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "framelane/descriptor/descriptor.hpp"

#include "base/clock.hpp"
#include "base/text.hpp"
#include "cli/child_process.hpp"
#include "cli/command.hpp"
#include "cli/lane_json.hpp"
#include "cli/lane_options.hpp"
#include "cli/top_terminal.hpp"

namespace framelane::cli {
namespace {

using std::chrono::milliseconds;

constexpr const char* kFooter =
    "Shows every lane of this user with its rates, unread frames, drops, consumers\n"
    "and latency; Enter opens one, with all its consumers. h explains the columns.\n"
    "It asks each producer for a copy of its statistics, which changes nothing for\n"
    "the frames. Lanes that are only served over TCP have no file, and don't show.\n"
    "\n"
    "Keys: n f m u d c l sort by name, fps, MB/s, unread, drops, consumers, latency;\n"
    "r the other way round; arrows select; Enter opens; Esc goes back; q quits.\n"
    "\n"
    "Examples:\n"
    "  framelane top\n"
    "  framelane top --sort latency --interval 0.5\n"
    "  framelane top --once            for scripts: one interval, as text\n"
    "  framelane top --json            one JSON object a line and interval\n"
    "\n"
    "Exit codes: 0 quit; 1 failed (no terminal, a directory that can't be read);\n"
    "2 wrong usage; 130 interrupted.";

constexpr milliseconds kMostPatience{300};  // for lanes that don't answer, at each look
constexpr std::size_t kPipeColumns = 120;

struct Options {
  double interval = 1;  // seconds
  SortKey sort = SortKey::kName;
  bool once = false;
  bool json = false;

  [[nodiscard]] milliseconds period() const { return milliseconds(static_cast<int>(interval * 1000)); }
};

Result<std::vector<LaneRow>> look_again(LaneWatch& watch, LaneHistory& history, const Options& options) {
  auto samples = watch.look(std::min(kMostPatience, std::max(options.period() / 2, milliseconds(50))));
  if (!samples) return tl::unexpected(std::move(samples.error()));
  return history.rows_of(std::move(*samples));
}

int fail_with(const std::string& text) {
  fmt::print(stderr, "framelane top: {}\n", text);
  return kFailed;
}

/// Columns of standard output, if it is a terminal.
std::size_t columns_of_output() {
  winsize size{};
  return ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : kPipeColumns;
}

bool print_json(const std::vector<LaneRow>& rows, double interval) {
  nlohmann::ordered_json json{{"at_ns", base::monotonic_ns()}, {"interval_s", interval}};
  json["lanes"] = nlohmann::ordered_json::array();
  for (const LaneRow& row : rows) json["lanes"].push_back(lane_json(row));
  fmt::print("{}\n", json.dump(-1, ' ', true, nlohmann::ordered_json::error_handler_t::replace));
  return std::fflush(stdout) == 0;
}

/// Text or JSON, an interval at a time; the first look only starts the rates.
int run_in_lines(const Options& options) {
  TerminationSignals signals;
  LaneWatch watch;
  LaneHistory history;
  for (bool first = true;; first = false) {
    auto rows = look_again(watch, history, options);
    if (!rows) return fail_with(rows.error().text);
    if (!first) {
      sort_rows(*rows, options.sort, false);
      if (options.json && !print_json(*rows, options.interval)) return kFailed;
      if (!options.json) {
        for (const Line& line : draw_all(*rows, columns_of_output(), Glyphs::of_locale()))
          fmt::print("{}\n", text_of(line));
      }
      if (options.once) return kOk;
    }
    pollfd wanted{signals.fd(), POLLIN, 0};
    poll(&wanted, 1, static_cast<int>(options.period().count()));
    if (signals.came()) return kInterrupted;
  }
}

int run(const Options& options) {
  std::setlocale(LC_CTYPE, "");
  if (options.once || options.json) return run_in_lines(options);
  if (isatty(STDIN_FILENO) == 0 || isatty(STDOUT_FILENO) == 0)
    return fail_with("this is no terminal; use --once for text, --json for programs");
  LaneWatch watch;
  LaneHistory history;
  TopView view;
  view.sort = options.sort;
  return run_full_screen(
      view, options.period(), [&] { return look_again(watch, history, options); },
      fmt::format("every {:g} s, {}", options.interval, base::printable(descriptor::runtime_dir(), 200)));
}

}  // namespace

void add_top(CLI::App& app, Action& chosen) {
  auto options = std::make_shared<Options>();
  CLI::App& command = *app.add_subcommand("top", "Shows what flows: rates, drops, latency, each consumer");
  command.footer(kFooter);
  command.add_option("--interval", options->interval, "Seconds between two looks (1)")
      ->type_name("S")
      ->check(CLI::Range(0.1, 3600.0));
  std::map<std::string, SortKey> keys;
  std::string type;
  for (const SortKey key : {SortKey::kName, SortKey::kFps, SortKey::kRate, SortKey::kUnread, SortKey::kDrops,
                            SortKey::kConsumers, SortKey::kLatency}) {
    keys[std::string(name_of(key))] = key;
    type += (type.empty() ? "" : "|") + std::string(name_of(key));
  }
  add_choice(command, "--sort", options->sort, keys, type, "What orders the lanes (name)");
  command.add_flag("--once", options->once, "One interval as text, then the end");
  command.add_flag("--json", options->json, "One JSON object a line, each interval");
  command.callback([options, &chosen] { chosen = [options] { return run(*options); }; });
}

}  // namespace framelane::cli
