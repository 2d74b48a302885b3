// SPDX-License-Identifier: MIT
// `framelane doctor`: what this machine can do for lanes, what stands in the way, and how to change it.
#include "cli/doctor.hpp"

#include <algorithm>
#include <array>
#include <memory>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "framelane/descriptor/descriptor.hpp"

#include "cli/command.hpp"

namespace framelane::cli {
namespace {

constexpr const char* kFooter =
    "Tries what lanes use and reads what the system says; changes nothing. Each line\n"
    "is ok, a note (lanes work, but something costs latency or will be in the way) or\n"
    "a PROBLEM, with what it means and how to change it. Takes about two seconds.\n"
    "\n"
    "The exit code is 0 when lanes work here, 1 when they can't.\n"
    "\n"
    "Examples:\n"
    "  framelane doctor\n"
    "  framelane doctor --all\n"
    "  framelane doctor --json | jq '.findings[] | select(.verdict != \"ok\")'";

constexpr std::size_t kWidth = 80;
constexpr std::size_t kNameWidth = 24;

struct Options {
  bool json = false;
  bool all = false;
};

struct Row {
  const Probe* probe;
  Finding finding;
};

std::vector<Row> examine() {
  const System system{{}, descriptor::runtime_dir()};
  std::vector<Row> rows;
  for (const auto probes : {kernel_probes(), system_probes(), lane_probes()}) {
    for (const Probe& probe : probes) rows.push_back({&probe, probe.look(system)});
  }
  return rows;
}

// Words of `text` in lines of `width` bytes, each after `indent` spaces.
void print_wrapped(const std::string& text, std::size_t indent) {
  std::string line;
  std::size_t at = 0;
  while (at < text.size()) {
    const std::size_t end = std::min(text.find(' ', at), text.size());
    const std::string word = text.substr(at, end - at);
    if (!line.empty() && indent + line.size() + 1 + word.size() > kWidth) {
      fmt::print("{:{}}{}\n", "", indent, line);
      line.clear();
    }
    line += (line.empty() ? "" : " ") + word;
    at = end + 1;
  }
  if (!line.empty()) fmt::print("{:{}}{}\n", "", indent, line);
}

void print_row(const Row& row, bool all) {
  const Finding& finding = row.finding;
  const std::string start = fmt::format("{:<8}{:<{}}", to_string(finding.verdict), row.probe->name, kNameWidth);
  if (start.size() + finding.found.size() <= kWidth) {
    fmt::print("{}{}\n", start, finding.found);
  } else {
    fmt::print("{:<8}{}\n", to_string(finding.verdict), row.probe->name);
    print_wrapped(finding.found, 8);
  }
  if (finding.verdict == Verdict::kOk && !all) return;
  if (!finding.means.empty()) print_wrapped(finding.means + ".", 8);
  if (!finding.change.empty()) print_wrapped("-> " + finding.change, 8);
}

void print_text(const std::vector<Row>& rows, bool all) {
  const char* group = "";
  for (const Row& row : rows) {
    if (std::string_view(group) != row.probe->group) fmt::print("{}{}\n", *group == '\0' ? "" : "\n", row.probe->group);
    group = row.probe->group;
    print_row(row, all);
  }
}

void print_json(const std::vector<Row>& rows, bool works) {
  nlohmann::ordered_json findings = nlohmann::ordered_json::array();
  for (const Row& row : rows) {
    constexpr std::array<const char*, 3> words{"ok", "note", "problem"};
    findings.push_back({{"group", row.probe->group},
                        {"name", row.probe->name},
                        {"verdict", words[static_cast<std::size_t>(row.finding.verdict)]},
                        {"found", row.finding.found},
                        {"means", row.finding.means},
                        {"change", row.finding.change}});
  }
  const nlohmann::ordered_json json{{"lanes_work", works}, {"findings", std::move(findings)}};
  fmt::print("{}\n", json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace));
}

int run(const Options& options) {
  const std::vector<Row> rows = examine();
  const auto count = [&](Verdict verdict) {
    return std::count_if(rows.begin(), rows.end(), [&](const Row& row) { return row.finding.verdict == verdict; });
  };
  const bool works = std::none_of(rows.begin(), rows.end(), [](const Row& row) { return row.finding.fatal; });
  if (options.json) {
    print_json(rows, works);
  } else {
    print_text(rows, options.all);
    const auto problems = count(Verdict::kProblem);
    const auto notes = count(Verdict::kNote);
    fmt::print("\nLanes {}: {} problem{}, {} note{}.\n", works ? "work here" : "can't work here", problems,
               problems == 1 ? "" : "s", notes, notes == 1 ? "" : "s");
  }
  return works ? kOk : kFailed;
}

}  // namespace

void add_doctor(CLI::App& app, Action& chosen) {
  auto options = std::make_shared<Options>();
  CLI::App& command = *app.add_subcommand("doctor", "What this machine lacks for lanes and for low latency");
  command.footer(kFooter);
  command.add_flag("--all", options->all, "Says what it means also where all is well");
  command.add_flag("--json", options->json, "One JSON object");
  command.callback([options, &chosen] { chosen = [options] { return run(*options); }; });
}

}  // namespace framelane::cli
