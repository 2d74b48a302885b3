// SPDX-License-Identifier: MIT
#include "cli/bench_gst.hpp"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "base/clock.hpp"
#include "cli/bench_setup.hpp"
#include "cli/command.hpp"
#include "cli/percentiles.hpp"
#include "cli/temp_dir.hpp"

namespace framelane::cli {
namespace {

using namespace bench_gst;

constexpr const char* kFooter =
    "Two processes, bound to two CPUs, each a pipeline: a source that writes whole\n"
    "frames and a sink that reads a byte of every 4 KiB. In turns over\n"
    "  lane      lanesink and lanesrc\n"
    "  shm       GStreamer's shmsink and shmsrc, the source writing into their memory\n"
    "  shm_copy  the same, the source writing into its own: shmsink copies\n"
    "  floor     nothing, both ends in one process\n"
    "Latency is from when a frame was written to when it was read. Only ratios\n"
    "within one run count. bench/README.md says what is measured, and what isn't.\n"
    "\n"
    "Examples:\n"
    "  framelane bench gst\n"
    "  framelane bench gst --fps max --json\n"
    "  framelane bench gst --caps video/x-raw,format=GRAY8,width=64,height=64 \\\n"
    "    --fps max --frames 50000";

constexpr std::uint32_t kDefaultShmSize = 64u << 20;  // what shmsink itself takes
constexpr std::uint32_t kLeastShmBuffers = 4;
constexpr std::uint64_t kMostFrames = 2'000'000;

struct Options {
  std::string caps = "video/x-raw,format=NV12,width=1920,height=1080";
  std::string fps = "60";
  std::uint64_t frames = 0;  // 0: default_frames()
  std::uint32_t rounds = 3;
  std::uint32_t shm_size = 0;  // 0: kDefaultShmSize, or more
  std::uint32_t patience = 5;  // s
  Spin spin = Spin::kAdaptive;
  bool unpinned = false;
  bool json = false;
};

// 0 for "max", nothing for what is no rate.
std::optional<double> rate_of(const std::string& text) {
  if (text == "max") return 0;
  double rate = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), rate);
  const bool good = error == std::errc{} && end == text.data() + text.size() && rate >= 0.1 && rate <= 100'000;
  return good ? std::optional(rate) : std::nullopt;
}

// Five seconds of a paced stream; else 2 GiB, which keeps a run of any size at about a second.
std::uint64_t default_frames(double fps, std::size_t bytes) {
  if (fps > 0) return std::max<std::uint64_t>(static_cast<std::uint64_t>(5 * fps), 10);
  return std::clamp<std::uint64_t>((std::uint64_t{2} << 30) / bytes, 200, 50'000);
}

// One run of one way.
struct Run {
  bool hung = false;
  std::vector<std::uint32_t> samples;
  std::uint64_t lost = 0;
  std::uint64_t in_place = 0;  // this and the next two of the lane only
  std::uint64_t full_waits = 0;
  std::uint64_t wakes = 0;
  double fps = 0;              // 0: fewer than two frames came
  double producer_cpu_us = 0;  // per frame
  double consumer_cpu_us = 0;
};

// All runs of one way.
struct Figures {
  measure::LatencySummary latency;
  double fps = 0;
  double cpu_us = 0;
  double producer_cpu_us = 0;
  double consumer_cpu_us = 0;
  std::uint64_t lost = 0;
  std::uint32_t hung = 0;
  std::vector<Run> runs;
};

struct Bench {
  Options options;
  Probe probe;
  Job job;  // of every run, but for the way and the CPU
  std::optional<CpuPair> cpus;
  std::array<Figures, kWays.size()> figures;

  Figures& of(Way way) { return figures[static_cast<std::size_t>(way)]; }
};

Run evaluate(const Job& job, const Record& record, std::span<const std::uint32_t> samples, bool hung) {
  Run run;
  run.hung = hung;
  const std::uint32_t count = record.measured.load(std::memory_order_acquire);
  run.samples.assign(samples.begin(), samples.begin() + count);
  run.lost = record.lost;
  run.in_place = record.in_place;
  run.full_waits = record.full_waits;
  run.wakes = record.wakes;
  const double seconds = static_cast<double>(record.last_ns - record.first_ns) / 1e9;
  if (count > 1 && seconds > 0) run.fps = (count - 1) / seconds;
  if (hung) return run;  // what it used until it hung says nothing
  const double frames = static_cast<double>(job.frames) * 1000;
  run.producer_cpu_us = static_cast<double>(record.producer_cpu_ns) / frames;
  run.consumer_cpu_us = static_cast<double>(record.consumer_cpu_ns) / frames;
  return run;
}

// Runs one way once; the exit code says whether `run` is set.
int play(const Bench& bench, Way way, const std::string& directory, Run& run) {
  Job job = bench.job;
  job.way = way;
  job.socket = directory + "/shm";
  auto record = SharedArray<Record>::create(1);
  auto samples = SharedArray<std::uint32_t>::create(job.frames);
  if (!record || !samples) return report_failure("no memory for the samples; ask for fewer frames");
  Record& shared = (*record)[0];
  std::array<Job, 2> jobs{job, job};
  for (std::size_t side = 0; side < jobs.size() && bench.cpus; ++side) jobs[side].cpu = (*bench.cpus)[side];
  std::vector<Body> bodies;
  if (way == Way::kFloor) {
    bodies.emplace_back("only", [&] { return floor(jobs[0], shared, samples->all()); });
  } else {
    // The first is killed first: shmsrc would complain of a shmsink that is gone.
    bodies.emplace_back("consuming", [&] { return consume(jobs[1], shared, samples->all()); });
    bodies.emplace_back("producing", [&] { return produce(jobs[0], shared); });
  }
  // Until the first frame, each of so many seconds counts as progress: GStreamer may be slow to start.
  constexpr std::int64_t kSlowestStart = 15;
  const std::int64_t start = base::monotonic_ns();
  const auto progress = [&]() -> std::uint64_t {
    const std::uint64_t received = shared.received.value.load(std::memory_order_acquire);
    if (received != 0) return kSlowestStart + received;
    return static_cast<std::uint64_t>(std::min(kSlowestStart, (base::monotonic_ns() - start) / 1'000'000'000));
  };
  const BodiesEnd end = run_bodies(bodies, std::chrono::seconds(bench.options.patience), progress);
  const bool hung = end.end == GroupEnd::kTimedOut;
  if (hung && (way == Way::kLane || way == Way::kFloor)) {
    return report_failure(fmt::format("no frame came for {} s over {}; {} had", bench.options.patience,
                                      way == Way::kLane ? "the lane" : "no transport", shared.received.value.load()));
  }
  if (!hung && end.end != GroupEnd::kAllSucceeded) return report_end(end);
  run = evaluate(job, shared, samples->all(), hung);
  return kOk;
}

// Median over the runs that have it.
double median(const Figures& figures, double Run::*value) {
  std::vector<double> values;
  for (const Run& run : figures.runs) {
    if (run.*value > 0) values.push_back(run.*value);
  }
  return median_of(std::move(values));
}

void summarize(Figures& figures) {
  std::vector<std::uint32_t> all;
  for (const Run& run : figures.runs) {
    all.insert(all.end(), run.samples.begin(), run.samples.end());
    figures.lost += run.lost;
    figures.hung += run.hung ? 1 : 0;
  }
  figures.latency = summarize_samples(all);
  figures.fps = median(figures, &Run::fps);
  figures.producer_cpu_us = median(figures, &Run::producer_cpu_us);
  figures.consumer_cpu_us = median(figures, &Run::consumer_cpu_us);
  figures.cpu_us = figures.producer_cpu_us + figures.consumer_cpu_us;
}

// --- output

// Nothing where nothing was measured.
nlohmann::ordered_json figure(double value) {
  return value > 0 ? nlohmann::ordered_json(value) : nlohmann::ordered_json(nullptr);
}

nlohmann::ordered_json ratio(double ours, double theirs) { return figure(theirs > 0 ? ours / theirs : 0); }

double us(std::uint64_t ns) { return static_cast<double>(ns) / 1000; }

nlohmann::ordered_json figures_json(const Figures& figures) {
  std::vector<double> fps;
  for (const Run& run : figures.runs) fps.push_back(run.fps);
  return {{"p50_us", figure(us(figures.latency.p50_ns))},
          {"p99_us", figure(us(figures.latency.p99_ns))},
          {"fps", figure(figures.fps)},
          {"cpu_us_per_frame", figure(figures.cpu_us)},
          {"producer_cpu_us_per_frame", figure(figures.producer_cpu_us)},
          {"consumer_cpu_us_per_frame", figure(figures.consumer_cpu_us)},
          {"frames", figures.latency.count},
          {"lost", figures.lost},
          {"hung", figures.hung > 0},
          {"hung_rounds", figures.hung},
          {"fps_rounds", fps}};
}

// How the lane came to its figures: of all frames, those of the warm-up included.
nlohmann::ordered_json counters_json(const Figures& figures) {
  std::uint64_t in_place = 0;
  std::uint64_t full_waits = 0;
  std::uint64_t wakes = 0;
  for (const Run& run : figures.runs) {
    in_place += run.in_place;
    full_waits += run.full_waits;
    wakes += run.wakes;
  }
  return {{"in_place", in_place}, {"full_waits", full_waits}, {"wakes", wakes}};
}

constexpr const char* key_of(Way way) {
  constexpr std::array keys{"lane", "shm", "shm_copy", "floor"};
  return keys[static_cast<std::size_t>(way)];
}

void print_json(Bench& bench) {
  nlohmann::ordered_json json{{"bench", "gst"}};
  for (const Way way : kWays) json[key_of(way)] = figures_json(bench.of(way));
  const Figures& lane = bench.of(Way::kLane);
  const Figures& shm = bench.of(Way::kShm);
  json["lane"].update(counters_json(lane));
  json.update({{"ratio_latency", ratio(us(lane.latency.p50_ns), us(shm.latency.p50_ns))},
               {"ratio_fps", ratio(lane.fps, shm.fps)},
               {"ratio_cpu", ratio(lane.cpu_us, shm.cpu_us)},
               {"caps", bench.probe.caps},
               {"frame_bytes", bench.job.frame_bytes},
               {"wanted_fps", figure(bench.job.fps)},
               {"frames", bench.job.frames},
               {"warm_up", bench.job.warm_up},
               {"rounds", bench.options.rounds},
               {"spin", bench.job.spin},
               {"shm_size", bench.job.shm_size},
               {"pinned", bench.cpus.has_value()},
               {"machine", machine_json()}});
  if (bench.cpus) json["cpus"] = *bench.cpus;
  fmt::print("{}\n", json.dump(2));
}

std::string cell(double value) { return value > 0 ? fmt::format("{:.1f}", value) : "-"; }

void print_row(const char* label, const Figures& figures) {
  fmt::print("{:<22}{:>11}{:>11}{:>11}{:>11}{:>6}{:>6}\n", label, cell(us(figures.latency.p50_ns)),
             cell(us(figures.latency.p99_ns)), cell(figures.fps), cell(figures.cpu_us), figures.lost, figures.hung);
}

void print_text(Bench& bench) {
  fmt::print("{}\n{} B a frame, {}, {} rounds of {} frames, {}\n\n", bench.probe.caps, bench.job.frame_bytes,
             bench.job.fps > 0 ? bench.options.fps + " a second" : "full speed", bench.options.rounds, bench.job.frames,
             bench.cpus ? fmt::format("CPUs {} and {}", (*bench.cpus)[0], (*bench.cpus)[1]) : "bound to no CPU");
  fmt::print("{:<22}{:>11}{:>11}{:>11}{:>11}{:>6}{:>6}\n", "", "p50 µs ", "p99 µs ", "frames/s", "CPU µs/fr ", "lost",
             "hung");
  constexpr std::array labels{"lane", "shmsink, its memory", "shmsink, copying", "no transport"};
  for (const Way way : kWays) print_row(labels[static_cast<std::size_t>(way)], bench.of(way));
  const Figures& lane = bench.of(Way::kLane);
  const Figures& shm = bench.of(Way::kShm);
  if (shm.latency.count == 0) return;
  fmt::print("\nlane against shmsink's memory: latency {:.2f}, frames a second {:.2f}, CPU {}\n",
             us(lane.latency.p50_ns) / us(shm.latency.p50_ns), shm.fps > 0 ? lane.fps / shm.fps : 0,
             shm.cpu_us > 0 ? fmt::format("{:.2f}", lane.cpu_us / shm.cpu_us) : "-");
}

// --- the whole

int prepare(Bench& bench, double fps) {
  auto result = SharedArray<Probe>::create(1);
  if (!result) return report_failure(result.error().text);
  const Body body("probing", [&] { return probe(bench.options.caps, (*result)[0]); });
  // A fresh system's first start of GStreamer looks at every plugin. A failure has been said by the process itself.
  const BodiesEnd end = run_bodies({&body, 1}, std::chrono::seconds(60));
  if (end.end != GroupEnd::kAllSucceeded) return end.end == GroupEnd::kOneFailed ? int{kFailed} : report_end(end);
  bench.probe = (*result)[0];
  Job& job = bench.job;
  job.caps = bench.probe.caps;
  job.frame_bytes = bench.probe.frame_bytes;
  job.fps = fps;
  job.spin = to_string(bench.options.spin);
  job.frames = bench.options.frames != 0 ? bench.options.frames : default_frames(fps, job.frame_bytes);
  job.warm_up = fps > 0 ? std::clamp<std::uint64_t>(job.frames / 10, 10, 60)
                        : std::clamp<std::uint64_t>(job.frames / 10, 50, 2000);
  const auto least = static_cast<std::uint32_t>(kLeastShmBuffers * (job.frame_bytes + 4096));
  job.shm_size = std::max(bench.options.shm_size != 0 ? bench.options.shm_size : kDefaultShmSize, least);
  return kOk;
}

int run(const Options& options) {
  Bench bench;
  bench.options = options;
  const auto fps = rate_of(options.fps);
  if (!options.unpinned) {
    const auto cpus = choose_cpus();
    if (!cpus) return report_failure(cpus.error().text + ", or use --unpinned");
    bench.cpus = *cpus;
  }
  if (const int code = prepare(bench, fps.value_or(0)); code != kOk) return code;
  for (std::uint32_t round = 0; round < options.rounds; ++round) {
    for (const Way way : kWays) {
      auto directory = TempDir::create();
      if (!directory) return report_failure(directory.error().text);
      ::setenv("FRAMELANE_DIR", directory->path().c_str(), 1);
      Run one;
      if (const int code = play(bench, way, directory->path(), one); code != kOk) return code;
      bench.of(way).runs.push_back(std::move(one));
    }
  }
  for (Figures& figures : bench.figures) summarize(figures);
  options.json ? print_json(bench) : print_text(bench);
  return kOk;
}

}  // namespace

void add_bench_gst(CLI::App& bench, Action& chosen) {
  auto options = std::make_shared<Options>();
  CLI::App& command = *bench.add_subcommand("gst", "Pipelines over lanesink, against GStreamer's shmsink");
  command.footer(kFooter);
  command.add_option("--caps", options->caps, "Raw video, or audio (1024 samples a buffer)")->type_name("CAPS");
  command.add_option("--fps", options->fps, "Frames a second, or max: no pause (60)")
      ->type_name("N")
      ->check([](const std::string& text) {
        return rate_of(text) ? std::string() : "a rate is max, or a number from 0.1 to 100000";
      });
  command.add_option("--frames", options->frames, "Frames per round (5 s, or 2 GiB)")
      ->type_name("N")
      ->check(CLI::Range(std::uint64_t{2}, kMostFrames));
  command.add_option("--rounds", options->rounds, "Rounds of all four ways (3)")
      ->type_name("N")
      ->check(CLI::Range(1, 100));
  add_spin_option(command, options->spin);
  command.add_option("--shm-size", options->shm_size, "Of shmsink, bytes (64 MiB; at least 4 frames)")
      ->type_name("B")
      ->check(CLI::Range(1u, 1u << 31));
  command.add_option("--hang-after", options->patience, "No frame for so long: it hangs (5)")
      ->type_name("S")
      ->check(CLI::Range(1, 600));
  command.add_flag("--unpinned", options->unpinned, "Bound to no CPU");
  command.add_flag("--json", options->json, "One JSON object");
  command.callback([options, &chosen] { chosen = [options] { return run(*options); }; });
}

}  // namespace framelane::cli
