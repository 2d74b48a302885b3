// SPDX-License-Identifier: MIT
#include "cli/bench_setup.hpp"

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>

#include <fmt/format.h>
#include <sched.h>
#include <sys/utsname.h>

#include "base/clock.hpp"
#include "cli/child_process.hpp"
#include "cli/command.hpp"
#include "cli/lane_options.hpp"
#include "cli/percentiles.hpp"
#include "cli/temp_dir.hpp"

namespace framelane::cli {
namespace {

// "0-1" or "0,4" on systems whose cores have two threads; the CPU's own number otherwise. Empty if the kernel doesn't
// say.
std::string threads_of_core(int cpu) {
  std::ifstream file(fmt::format("/sys/devices/system/cpu/cpu{}/topology/thread_siblings_list", cpu));
  std::string text;
  std::getline(file, text);
  return text;
}

std::string cpu_model() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    const std::size_t colon = line.find(": ");
    if (line.starts_with("model name") && colon != std::string::npos) return line.substr(colon + 2);
  }
  return "unknown";
}

const std::map<std::string, Spin> kSpinWords{{"busy", Spin::kBusy}, {"adaptive", Spin::kAdaptive}, {"off", Spin::kOff}};
const std::map<std::string, Stamps> kStampsWords{{"auto", Stamps::kAuto}, {"on", Stamps::kOn}, {"off", Stamps::kOff}};

template <class T>
std::string_view word_of(const std::map<std::string, T>& words, T value) noexcept {
  for (const auto& [word, meaning] : words) {
    if (meaning == value) return word;
  }
  return "";
}

}  // namespace

Result<CpuPair> choose_cpus() {
  cpu_set_t set;
  CPU_ZERO(&set);
  std::vector<int> cpus;
  if (sched_getaffinity(0, sizeof set, &set) == 0) {
    for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
      if (CPU_ISSET(static_cast<unsigned>(cpu), &set)) cpus.push_back(cpu);
    }
  }
  if (cpus.size() < 2) {
    return fail(Code::kUnsupported, "needs two CPUs, and this process may run on only one; widen it with taskset");
  }
  const std::string first_core = threads_of_core(cpus[0]);
  for (std::size_t i = 1; i < cpus.size(); ++i) {
    if (first_core.empty() || threads_of_core(cpus[i]) != first_core) return CpuPair{cpus[0], cpus[i]};
  }
  return CpuPair{cpus[0], cpus[1]};
}

void add_spin_option(CLI::App& command, Spin& spin) {
  add_choice(command, "--spin", spin, kSpinWords, "busy|adaptive|off",
             fmt::format("How the ends wait ({})", to_string(spin)));
}

void add_stamps_option(CLI::App& command, Stamps& stamps) {
  add_choice(command, "--stamps", stamps, kStampsWords, "off|on|auto", "Time stamps on frames (off)");
}

std::string_view to_string(Spin spin) noexcept { return word_of(kSpinWords, spin); }
std::string_view to_string(Stamps stamps) noexcept { return word_of(kStampsWords, stamps); }

double clock_cost_ns() {
  // Per reading, over blocks: one difference of two readings is too coarse where the clock ticks in tens of ns.
  constexpr int kReadings = 100;
  std::vector<double> blocks;
  for (int block = 0; block < 200; ++block) {
    const std::int64_t start = base::monotonic_ns();
    std::int64_t now = start;
    for (int i = 0; i < kReadings; ++i) now = base::monotonic_ns();
    blocks.push_back(static_cast<double>(now - start) / kReadings);
  }
  return median_of(std::move(blocks));
}

nlohmann::ordered_json machine_json() {
  utsname system{};
  uname(&system);
#if defined(__clang__)
  const std::string compiler = "clang " __clang_version__;
#else
  const std::string compiler = "g++ " __VERSION__;
#endif
  return {{"cpu", cpu_model()},
          {"kernel", system.release},
          {"architecture", system.machine},
          {"compiler", compiler},
          {"version", FRAMELANE_VERSION}};
}

int report_failure(std::string_view text) {
  fmt::print(stderr, "framelane bench: {}\n", text);
  return kFailed;
}

BodiesEnd run_bodies(std::span<const Body> bodies, std::chrono::seconds limit,
                     const std::function<std::uint64_t()>& progress) {
  // Where nobody bounds the whole, each process still has its own last watchdog.
  const std::chrono::seconds watchdog = progress ? std::chrono::hours(1) : limit + std::chrono::seconds(5);
  TerminationSignals signals;
  std::vector<ChildProcess> children;
  for (const auto& [name, body] : bodies) {
    auto child = ChildProcess::fork(name, body, watchdog);
    if (!child) return {GroupEnd::kOneFailed, child.error().text};
    children.push_back(std::move(*child));
  }
  const ChildProcess* failed = nullptr;
  switch (const GroupEnd end = wait_for_all(children, signals, limit, &failed, progress)) {
    case GroupEnd::kAllSucceeded:
      return {end, {}};
    case GroupEnd::kInterrupted:
      return {end, "interrupted"};
    case GroupEnd::kTimedOut:
      return {end, fmt::format("not done after {} s; gave up", limit.count())};
    case GroupEnd::kOneFailed:
      break;
  }
  return {GroupEnd::kOneFailed, fmt::format("the {} process (pid {}) {}; there is no result", failed->name(),
                                            failed->pid(), failed->end_text())};
}

int report_end(const BodiesEnd& end) {
  if (end.end == GroupEnd::kAllSucceeded) return kOk;
  report_failure(end.why);
  return end.end == GroupEnd::kInterrupted ? kInterrupted : kFailed;
}

int run_privately(std::span<const Body> bodies, std::chrono::seconds limit) {
  auto directory = TempDir::create();
  if (!directory) return report_failure(directory.error().text);
  ::setenv("FRAMELANE_DIR", directory->path().c_str(), 1);
  return report_end(run_bodies(bodies, limit));
}

}  // namespace framelane::cli
