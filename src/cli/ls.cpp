// SPDX-License-Identifier: MIT
#include <algorithm>
#include <chrono>
#include <clocale>
#include <cstdio>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <fmt/format.h>

#include "framelane/descriptor/descriptor.hpp"

#include "base/text.hpp"
#include "cli/command.hpp"
#include "cli/lane_json.hpp"
#include "cli/lane_text.hpp"
#include "cli/top_screen.hpp"

namespace framelane::cli {
namespace {

constexpr std::chrono::seconds kPatience{1};
constexpr std::chrono::milliseconds kBetweenLooks{250};  // of one lane, for its rates
constexpr std::size_t kWide = 160;                       // columns of the tables of one lane

constexpr const char* kFooter =
    "Lists the lanes in $FRAMELANE_DIR, else in $XDG_RUNTIME_DIR/framelane, else in\n"
    "/tmp/framelane-<uid>. A lane that is only served over TCP has no file there, so\n"
    "it can't be found, nor asked: its producer answers on its own host alone.\n"
    "\n"
    "Examples:\n"
    "  framelane ls\n"
    "  framelane ls cam0\n"
    "  framelane ls --json | jq '.lanes[].name'\n"
    "\n"
    "Exit codes: 0 done, also when there are no lanes; 1 LANE isn't there or doesn't\n"
    "answer, or the directory can't be read; 2 wrong usage.";

struct Options {
  std::string lane;
  bool json = false;
};

int fail_with(const std::string& text) {
  fmt::print(stderr, "framelane ls: {}\n", text);
  return kFailed;
}

// --- all lanes

using Cells = std::vector<std::string>;

Cells cells_of(const LaneRow& row) {
  if (!row.live()) return {row.sample.name, row.sample.problem};
  const LaneStats& stats = *row.sample.stats;
  return {row.sample.name, format_text(stats.caps), fmt::format("{} ({})", stats.program, stats.pid),
          std::to_string(stats.consumers.size()), transports_text(stats.descriptor)};
}

/// Each column as wide as what is in it. The words of a lane that isn't live run on to the end of its line.
void print_table(const std::vector<Cells>& table) {
  std::vector<std::size_t> widths(table.front().size());
  for (const Cells& cells : table) {
    for (std::size_t i = 0; i < cells.size(); ++i) {
      if (cells.size() == widths.size() || i == 0) widths[i] = std::max(widths[i], width_of(cells[i]));
    }
  }
  for (const Cells& cells : table) {
    std::string line;
    for (std::size_t i = 0; i < cells.size(); ++i)
      line += i + 1 == cells.size() ? cells[i] : left(cells[i], widths[i]) + "  ";
    fmt::print("{}\n", line);
  }
}

int list_all(const Options& options) {
  LaneWatch watch;
  auto samples = watch.look(kPatience);
  if (!samples) return fail_with(samples.error().text);
  std::vector<LaneRow> rows = LaneHistory().rows_of(std::move(*samples));
  std::sort(rows.begin(), rows.end(),
            [](const LaneRow& a, const LaneRow& b) { return name_before(a.sample.name, b.sample.name); });
  if (options.json) {
    nlohmann::ordered_json json{{"directory", descriptor::runtime_dir()}, {"lanes", nlohmann::ordered_json::array()}};
    for (const LaneRow& row : rows) json["lanes"].push_back(lane_json(row));
    fmt::print("{}\n", json.dump(2, ' ', true, nlohmann::ordered_json::error_handler_t::replace));
    return kOk;
  }
  if (rows.empty()) {
    fmt::print("no lanes in {} (one that is only served over TCP has no file there)\n",
               base::printable(descriptor::runtime_dir(), 200));
    return kOk;
  }
  std::vector<Cells> table{{"LANE", "FORMAT", "PRODUCER", "CONSUMERS", "TRANSPORTS"}};
  for (const LaneRow& row : rows) table.push_back(cells_of(row));
  print_table(table);
  return kOk;
}

// --- one lane

int list_one(const Options& options) {
  const LaneSample before = look_at(options.lane, kPatience);
  if (!before.stats) return fail_with(before.problem);
  std::this_thread::sleep_for(kBetweenLooks);
  LaneSample sample = look_at(options.lane, kPatience);
  if (!sample.stats) return fail_with(sample.problem);
  sample.name = sample.stats->lane;
  const LaneRow row = row_of(std::move(sample), &*before.stats);
  if (options.json) {
    fmt::print("{}\n", lane_json(row).dump(2, ' ', true, nlohmann::ordered_json::error_handler_t::replace));
    return kOk;
  }
  for (const Line& line : draw_one(row, kWide, Glyphs::of_locale())) fmt::print("{}\n", text_of(line));
  return kOk;
}

}  // namespace

void add_ls(CLI::App& app, Action& chosen) {
  auto options = std::make_shared<Options>();
  CLI::App& command = *app.add_subcommand("ls", "Lists the lanes: format, producer, consumers, transports");
  command.footer(kFooter);
  command.add_option("LANE", options->lane, "Name or descriptor: this one in full")->type_name("");
  command.add_flag("--json", options->json, "One JSON object");
  command.callback([options, &chosen] {
    chosen = [options] {
      std::setlocale(LC_CTYPE, "");
      return options->lane.empty() ? list_all(*options) : list_one(*options);
    };
  });
}

}  // namespace framelane::cli
