// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cstdio>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <fmt/format.h>

#include "framelane/lane/observer.hpp"

#include "base/cpu.hpp"
#include "cli/bench_ends.hpp"
#include "cli/bench_setup.hpp"
#include "cli/command.hpp"
#include "cli/lane_options.hpp"
#include "cli/percentiles.hpp"

namespace framelane::cli {
namespace {

constexpr const char* kFooter =
    "Two processes, bound to two CPUs, pass a number there and back: in turns over\n"
    "two bare cache lines (the limit of this machine, at this moment) and over two\n"
    "lanes through the public API (loan, write, publish; take, read, release).\n"
    "Only the ratio within one run counts: a minute later the same machine may be\n"
    "three times as fast. bench/README.md says what is measured, and what isn't.\n"
    "\n"
    "Examples:\n"
    "  framelane bench rtt\n"
    "  framelane bench rtt --size 1024 --samples 20000 --rounds 9 --json\n"
    "  framelane bench rtt --spin adaptive --stamps on\n"
    "  framelane bench rtt --observed\n"
    "  framelane bench rtt --size 3110400 --touch all --unpinned";

constexpr std::uint64_t kWarmUp = 1000;                  // round trips before each round, not counted
constexpr std::chrono::milliseconds kObserveEvery{100};  // with --observed
constexpr std::chrono::seconds kLongestRound{10};        // then the round ends with the samples that it has

struct Options {
  std::size_t size = 32;
  std::uint32_t samples = 0;  // 0: kDefaultSamples
  std::uint32_t rounds = 5;
  Spin spin = Spin::kBusy;
  Stamps stamps = Stamps::kOff;
  Touch touch = Touch::kEdges;
  std::vector<int> cpus;
  bool unpinned = false;
  bool observed = false;
  bool json = false;

  /// What a round goes through: the bare limit, the lane, and the lane while somebody watches it.
  [[nodiscard]] std::uint32_t kinds() const noexcept { return observed ? 3 : 2; }
};

// A sleeping consumer needs 100 µs and more for what a spinning one does in 0.5.
std::uint32_t default_samples(const Options& options) {
  if (options.observed) return options.spin == Spin::kBusy ? 1'000'000 : 10'000;  // a round of several looks
  return options.spin == Spin::kBusy && options.size <= 65536 ? 100'000 : 5'000;
}

enum Watch : std::uint64_t { kIdle = 0, kWatching = 1, kOver = 2 };

// What the processes and their parent share. Message numbers go on over all rounds, so nothing is ever reset.
struct Meeting {
  LineWord ping;   // written by the measuring process
  LineWord pong;   // written by the echo process
  LineWord last;   // written by the measuring process: the number of the round's last message
  LineWord watch;  // written by the measuring process: a Watch
  LineWord looks;  // written by the observer: how often it was answered
};

struct Shared {
  SharedArray<Meeting> meeting;
  SharedArray<std::uint32_t> samples;  // [rounds][kinds][samples], the bare limit first
  SharedArray<std::uint32_t> counts;   // [rounds][kinds]: samples taken
  std::uint32_t samples_per_round;
  std::uint32_t kinds;
};

struct RoundRoom {
  std::span<std::uint32_t> samples;
  std::uint32_t& count;
};

RoundRoom room_of(Shared& shared, std::uint32_t round, std::uint32_t kind) {
  const std::size_t index = std::size_t{shared.kinds} * round + kind;
  return {shared.samples.all().subspan(index * shared.samples_per_round, shared.samples_per_round),
          shared.counts[index]};
}

// One round. Each sample is the time from before send() to after receive(), one reading of the clock included.
template <class End>
bool measure_round(End& end, Meeting& meeting, std::uint64_t& next, RoundRoom room) {
  const auto there_and_back = [&] {
    const std::uint64_t number = next++;
    return end.send(number) && end.receive(number);
  };
  meeting.last.value.store(next + kWarmUp + room.samples.size() - 1, std::memory_order_release);
  for (std::uint64_t i = 0; i < kWarmUp; ++i) {
    if (!there_and_back()) return false;
  }
  const std::int64_t deadline = base::deadline_after(kLongestRound);
  std::uint32_t count = 0;
  for (std::uint32_t& sample : room.samples) {
    const std::int64_t start = base::monotonic_ns();
    // Out of time: make the next message the last one. The peer learns it with the message.
    const bool last = start > deadline;
    if (last) meeting.last.value.store(next, std::memory_order_release);
    if (!there_and_back()) return false;
    const std::int64_t took = base::monotonic_ns() - start;
    sample = static_cast<std::uint32_t>(std::clamp<std::int64_t>(took, 0, std::numeric_limits<std::uint32_t>::max()));
    ++count;
    if (last) break;
  }
  room.count = count;
  return true;
}

// Answers until the round's last message.
template <class End>
bool echo_round(End& end, const Meeting& meeting, std::uint64_t& next) {
  for (;;) {
    const std::uint64_t number = next++;
    if (!end.receive(number) || !end.send(number)) return false;
    if (meeting.last.value.load(std::memory_order_acquire) == number) return true;
  }
}

Result<LaneEnd> open_lane_end(const Options& options, const char* out, const char* in) {
  LaneEnd::Settings settings;
  settings.out = out;
  settings.in = in;
  settings.size = options.size;
  settings.touch = options.touch;
  settings.spin = options.spin;
  settings.stamps = options.stamps;
  return LaneEnd::open(settings);
}

// Body of both processes: `round(end, number)` plays one side of one round.
template <class Round>
int play(const Options& options, const char* out, const char* in, FloorEnd floor, std::optional<int> cpu,
         const Round& round) {
  if (cpu.has_value()) {
    if (auto pinned = base::pin_this_thread(*cpu); !pinned) return report_failure(pinned.error().text);
  }
  auto lane = open_lane_end(options, out, in);
  if (!lane) return report_failure(lane.error().text);
  for (std::uint32_t number = 0; number < options.rounds; ++number) {
    if (!round(floor, number, 0u)) return report_failure(floor.why());
    for (std::uint32_t kind = 1; kind < options.kinds(); ++kind) {
      if (!round(*lane, number, kind)) return report_failure(lane->why());
    }
  }
  return kOk;
}

int measuring_process(const Options& options, Shared& shared, std::optional<int> cpu) {
  Meeting& meeting = shared.meeting[0];
  std::uint64_t next = 1;
  const int code = play(options, "ping", "pong", FloorEnd(meeting.ping, meeting.pong), cpu,
                        [&](auto& end, std::uint32_t round, std::uint32_t kind) {
                          meeting.watch.value.store(kind == 2 ? kWatching : kIdle, std::memory_order_release);
                          const bool done = measure_round(end, meeting, next, room_of(shared, round, kind));
                          meeting.watch.value.store(kIdle, std::memory_order_release);
                          return done;
                        });
  meeting.watch.value.store(kOver, std::memory_order_release);
  return code;
}

// Asks a lane over a connection that is kept.
Result<void> look_at(const std::string& lane, std::map<std::string, Observer>& observers) {
  auto found = observers.find(lane);
  if (found == observers.end()) {
    auto observer = Observer::connect(lane);
    if (!observer) return tl::unexpected(observer.error());
    found = observers.emplace(lane, std::move(*observer)).first;
  }
  if (const auto stats = found->second.stats(kPatience); !stats) return tl::unexpected(stats.error());
  return {};
}

// Asks both lanes ten times a second, as `framelane top` does, in the rounds that are observed.
int observing_process(Shared& shared) {
  Meeting& meeting = shared.meeting[0];
  std::map<std::string, Observer> observers;
  std::string trouble;
  for (std::uint64_t watch = kIdle; watch != kOver; watch = meeting.watch.value.load(std::memory_order_acquire)) {
    if (watch == kWatching) {
      for (const char* const lane : {"ping", "pong"}) {
        if (const auto looked = look_at(lane, observers)) {
          meeting.looks.value.fetch_add(1, std::memory_order_relaxed);
        } else {
          // At the end of the last round one of the lanes may be gone before the other end says so.
          trouble = looked.error().text;
          observers.erase(lane);
        }
      }
    }
    std::this_thread::sleep_for(watch == kWatching ? kObserveEvery : std::chrono::milliseconds(1));
  }
  if (trouble.empty() || meeting.looks.value.load(std::memory_order_relaxed) != 0) return kOk;
  return report_failure("nobody could look at the lanes: " + trouble);
}

int echo_process(const Options& options, Shared& shared, std::optional<int> cpu) {
  Meeting& meeting = shared.meeting[0];
  std::uint64_t next = 1;
  return play(options, "pong", "ping", FloorEnd(meeting.pong, meeting.ping), cpu,
              [&](auto& end, std::uint32_t, std::uint32_t) { return echo_round(end, meeting, next); });
}

struct Outcome {
  measure::LatencySummary floor;
  measure::LatencySummary lane;
  measure::LatencySummary observed;
  std::vector<double> round_ratios;     // of the medians, per round
  std::vector<double> observed_ratios;  // of the medians, observed to not observed, per round
  std::uint64_t looks = 0;              // answers that the observer got
  double fine_floor = 0;                // ns, see append_block_means(); 0 with too few samples
  double fine_lane = 0;
  double fine_observed = 0;

  [[nodiscard]] double ratio() const {
    return static_cast<double>(lane.p50_ns) / static_cast<double>(std::max<std::uint64_t>(floor.p50_ns, 1));
  }
};

// Means of 100 samples in a row. Where the clock ticks in steps of 10 ns (the counter of many AMD CPUs does), a median
// of 110 ns can only move to 120; the median of these means can move by less than 1.
void append_block_means(std::span<const std::uint32_t> samples, std::vector<double>& means) {
  constexpr std::size_t kBlock = 100;
  for (std::size_t at = 0; at + kBlock <= samples.size(); at += kBlock) {
    double sum = 0;
    for (const std::uint32_t sample : samples.subspan(at, kBlock)) sum += sample;
    means.push_back(sum / kBlock);
  }
}

Outcome evaluate(Shared& shared, std::uint32_t rounds) {
  Outcome outcome;
  std::array<std::vector<std::uint32_t>, 3> all;
  std::array<std::vector<double>, 3> means;
  for (std::uint32_t round = 0; round < rounds; ++round) {
    std::array<double, 3> p50{};
    for (std::uint32_t kind = 0; kind < shared.kinds; ++kind) {
      const RoundRoom room = room_of(shared, round, kind);
      std::vector<std::uint32_t> samples(room.samples.begin(), room.samples.begin() + room.count);
      all[kind].insert(all[kind].end(), samples.begin(), samples.end());
      append_block_means(samples, means[kind]);
      p50[kind] = static_cast<double>(summarize_samples(samples).p50_ns);
    }
    outcome.round_ratios.push_back(p50[1] / std::max(p50[0], 1.0));
    outcome.observed_ratios.push_back(p50[2] / std::max(p50[1], 1.0));
  }
  outcome.floor = summarize_samples(all[0]);
  outcome.lane = summarize_samples(all[1]);
  outcome.observed = summarize_samples(all[2]);
  outcome.fine_observed = median_of(std::move(means[2]));
  outcome.looks = shared.meeting[0].looks.value.load(std::memory_order_relaxed);
  outcome.fine_floor = median_of(std::move(means[0]));
  outcome.fine_lane = median_of(std::move(means[1]));
  return outcome;
}

// Measures once; the exit code says whether `outcome` is set.
int measure(const Options& options, std::optional<CpuPair> cpus, Outcome& outcome) {
  auto meeting = SharedArray<Meeting>::create(1);
  const std::size_t parts = std::size_t{options.kinds()} * options.rounds;
  auto samples = SharedArray<std::uint32_t>::create(parts * options.samples);
  auto counts = SharedArray<std::uint32_t>::create(parts);
  if (!meeting || !samples || !counts) return report_failure("no memory for the samples; ask for fewer");
  Shared shared{std::move(*meeting), std::move(*samples), std::move(*counts), options.samples, options.kinds()};
  const auto cpu = [&](std::size_t side) { return cpus ? std::optional((*cpus)[side]) : std::nullopt; };
  std::vector<Body> bodies{{"measuring", [&] { return measuring_process(options, shared, cpu(0)); }},
                           {"echo", [&] { return echo_process(options, shared, cpu(1)); }}};
  if (options.observed) bodies.emplace_back("observing", [&] { return observing_process(shared); });
  const int code = run_privately(bodies, (kLongestRound + kPatience) * static_cast<int>(parts) + 4 * kPatience);
  if (code != kOk) return code;
  outcome = evaluate(shared, options.rounds);
  if (!options.observed || outcome.looks != 0) return kOk;
  return report_failure("the observed rounds were over before anybody had looked; ask for more --samples");
}

// {"floor_ns":…, "lane_ns":…, "ratio":…, "ratio_less_clock":…}: the same without the clock's steps, and without its
// cost.
nlohmann::ordered_json fine_json(const Outcome& outcome, double clock_ns) {
  if (outcome.fine_floor <= clock_ns) return nullptr;
  return {{"floor_ns", outcome.fine_floor},
          {"lane_ns", outcome.fine_lane},
          {"ratio", outcome.fine_lane / outcome.fine_floor},
          {"ratio_less_clock", (outcome.fine_lane - clock_ns) / (outcome.fine_floor - clock_ns)}};
}

nlohmann::ordered_json outcome_json(const Outcome& outcome, double clock_ns) {
  const auto [least, most] = std::minmax_element(outcome.round_ratios.begin(), outcome.round_ratios.end());
  return {
      {"floor", to_json(outcome.floor)},
      {"lane", to_json(outcome.lane)},
      {"ratio_p50", outcome.ratio()},
      {"ratio_p50_rounds",
       {{"median", median_of(outcome.round_ratios)}, {"min", *least}, {"max", *most}, {"all", outcome.round_ratios}}},
      {"fine", fine_json(outcome, clock_ns)}};
}

// The lane observed against itself unobserved, in the same run.
nlohmann::ordered_json observed_json(const Outcome& outcome) {
  const auto [least, most] = std::minmax_element(outcome.observed_ratios.begin(), outcome.observed_ratios.end());
  return {{"lane", to_json(outcome.observed)},
          {"looks", outcome.looks},
          {"ratio_p50_rounds", {{"median", median_of(outcome.observed_ratios)}, {"min", *least}, {"max", *most}}},
          {"fine_ratio", outcome.fine_lane > 0 ? outcome.fine_observed / outcome.fine_lane : 0}};
}

void print_observed(const Outcome& outcome) {
  const auto [least, most] = std::minmax_element(outcome.observed_ratios.begin(), outcome.observed_ratios.end());
  fmt::print("{}\n", summary_row("lane, observed", outcome.observed));
  fmt::print("observed to not observed ({} looks): medians per round {:.3f}, {:.3f} to {:.3f}", outcome.looks,
             median_of(outcome.observed_ratios), *least, *most);
  if (outcome.fine_lane > 0) fmt::print("; means of 100: {:.4f}", outcome.fine_observed / outcome.fine_lane);
  fmt::print("\n");
}

void print_outcome(const Outcome& outcome, double clock_ns) {
  const auto [least, most] = std::minmax_element(outcome.round_ratios.begin(), outcome.round_ratios.end());
  fmt::print("{}\n{}\n{}\n", summary_heading(), summary_row("bare limit", outcome.floor),
             summary_row("lane", outcome.lane));
  fmt::print("ratio of the medians {:.2f}; per round: median {:.2f}, {:.2f} to {:.2f}\n", outcome.ratio(),
             median_of(outcome.round_ratios), *least, *most);
  if (outcome.fine_floor <= clock_ns) return;
  fmt::print("means of 100: medians {:.1f} and {:.1f}, ratio {:.3f}; less the clock {:.3f}\n", outcome.fine_floor,
             outcome.fine_lane, outcome.fine_lane / outcome.fine_floor,
             (outcome.fine_lane - clock_ns) / (outcome.fine_floor - clock_ns));
}

void print_json(const Options& options, CpuPair cpus, const Outcome& pinned, const std::optional<Outcome>& unpinned) {
  const double clock_ns = clock_cost_ns();
  nlohmann::ordered_json json{{"bench", "rtt"}};
  json.update(outcome_json(pinned, clock_ns));
  json.update({{"size", options.size},
               {"samples", options.samples},
               {"rounds", options.rounds},
               {"spin", to_string(options.spin)},
               {"stamps", to_string(options.stamps)},
               {"touch", options.touch == Touch::kAll ? "all" : "edges"},
               {"cpus", cpus},
               {"pinned", true},
               {"clock_ns", clock_ns}});
  if (options.observed) json["observed"] = observed_json(pinned);
  if (unpinned.has_value()) json["unpinned"] = outcome_json(*unpinned, clock_ns);
  json["machine"] = machine_json();
  fmt::print("{}\n", json.dump(2));
}

void print_text(const Options& options, CpuPair cpus, const Outcome& pinned, const std::optional<Outcome>& unpinned) {
  fmt::print("Round trip of {} bytes: {} rounds of {} samples, spin {}, stamps {}\n", options.size, options.rounds,
             options.samples, to_string(options.spin), to_string(options.stamps));
  const double clock_ns = clock_cost_ns();
  fmt::print("One reading of the clock, {:.0f} ns, is part of every sample.\n\n", clock_ns);
  fmt::print("Two processes, bound to CPUs {} and {}\n", cpus[0], cpus[1]);
  print_outcome(pinned, clock_ns);
  if (options.observed) print_observed(pinned);
  if (!unpinned.has_value()) return;
  fmt::print("\nTwo processes, on any CPU\n");
  print_outcome(*unpinned, clock_ns);
}

int run(Options options) {
  if (options.samples == 0) options.samples = default_samples(options);
  CpuPair cpus{};
  if (options.cpus.empty()) {
    auto chosen = choose_cpus();
    if (!chosen) return report_failure(chosen.error().text);
    cpus = *chosen;
  } else {
    cpus = {options.cpus[0], options.cpus[1]};
    if (cpus[0] == cpus[1]) {
      fmt::print(stderr, "framelane bench: --cpus wants two different CPUs\n");
      return kUsage;
    }
  }
  Outcome pinned;
  if (const int code = measure(options, cpus, pinned); code != kOk) return code;
  std::optional<Outcome> unpinned;
  if (options.unpinned) {
    if (const int code = measure(options, std::nullopt, unpinned.emplace()); code != kOk) return code;
  }
  if (options.json) {
    print_json(options, cpus, pinned, unpinned);
  } else {
    print_text(options, cpus, pinned, unpinned);
  }
  return kOk;
}

}  // namespace

void add_bench_rtt(CLI::App& bench, Action& chosen) {
  auto options = std::make_shared<Options>();
  CLI::App& command = *bench.add_subcommand("rtt", "Round trip between two processes, against the bare limit");
  command.footer(kFooter);
  command.add_option("--size", options->size, "Bytes of a frame (32)")->type_name("B")->check(CLI::Range(1, 256 << 20));
  command.add_option("--samples", options->samples, "Round trips per round (100000; 5000 if slow)")
      ->type_name("N")
      ->check(CLI::Range(1, 1'000'000));
  command.add_option("--rounds", options->rounds, "Rounds of bare limit, then lane (5)")
      ->type_name("N")
      ->check(CLI::Range(1, 100));
  add_spin_option(command, options->spin);
  add_stamps_option(command, options->stamps);
  add_choice(command, "--touch", options->touch, {{"edges", Touch::kEdges}, {"all", Touch::kAll}}, "edges|all",
             "What is written and read; edges: 8 bytes each (edges)");
  command.add_option("--cpus", options->cpus, "The two CPUs (of different cores)")
      ->type_name("A,B")
      ->delimiter(',')
      ->expected(2)
      ->check(CLI::Range(0, 4095));
  command.add_flag("--unpinned", options->unpinned, "Once more, bound to no CPU");
  command.add_flag("--observed", options->observed, "Also rounds in which somebody watches, 10 times a second");
  command.add_flag("--json", options->json, "One JSON object");
  command.callback([options, &chosen] { chosen = [options] { return run(*options); }; });
}

}  // namespace framelane::cli
