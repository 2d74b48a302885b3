// SPDX-License-Identifier: MIT
#include "cli/demo_table.hpp"

#include <cstdio>

#include <fmt/format.h>

namespace framelane::cli {
namespace {

constexpr const char* kUp = "\x1b[{}A";        // cursor up
constexpr const char* kClearLine = "\x1b[2K";  // the whole line
constexpr const char* kBold = "\x1b[1m";
constexpr const char* kPlain = "\x1b[0m";

double microseconds(std::uint64_t ns) { return static_cast<double>(ns) / 1000; }

std::string heading() {
  return fmt::format("{:<9}{:>8}  {:<8}{:>5}{:>8}{:>6}{:>6}{:>9}{:>9}{:>9}", "consumer", "pid", "state", "fps",
                     "frames", "lost", "held", "p50 µs", "p99 µs", "max µs");
}

std::string line_of(const DemoRow& row) {
  const DemoReport& report = *row.report;
  return fmt::format("{:<9}{:>8}  {:<8}{:>5.0f}{:>8}{:>6}{:>6}{:>9.1f}{:>9.1f}{:>9.1f}", row.name, row.pid,
                     row.state.empty() ? report.state : row.state, report.fps, report.frames, report.lost, report.held,
                     microseconds(report.latency.p50_ns), microseconds(report.latency.p99_ns),
                     microseconds(report.latency.max_ns));
}

}  // namespace

void DemoTable::draw(double seconds, const std::vector<DemoRow>& rows) {
  if (!terminal_) {
    if (lines_ == 0) fmt::print("  t    {}\n", heading());
    for (const DemoRow& row : rows) fmt::print("{:>3.0f} s  {}\n", seconds, line_of(row));
    lines_ = 1;
    std::fflush(stdout);
    return;
  }
  if (lines_ > 0) fmt::print(kUp, lines_);
  fmt::print("{}{}{}{}\n", kClearLine, kBold, heading(), kPlain);
  for (const DemoRow& row : rows) fmt::print("{}{}\n", kClearLine, line_of(row));
  fmt::print("{}{:>3.0f} s   latency is from publish to take, measured by the lane\n", kClearLine, seconds);
  lines_ = rows.size() + 2;
  std::fflush(stdout);
}

void DemoTable::note(const std::string& text) {
  fmt::print("{}\n", text);
  lines_ = 0;
  std::fflush(stdout);
}

}  // namespace framelane::cli
