// SPDX-License-Identifier: MIT
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "base/clock.hpp"
#include "base/cpu.hpp"
#include "cli/bench_ends.hpp"
#include "cli/bench_setup.hpp"
#include "cli/bench_sockets.hpp"
#include "cli/command.hpp"
#include "cli/lane_options.hpp"
#include "cli/percentiles.hpp"
#include "cli/transports_report.hpp"

namespace framelane::cli {
namespace {

constexpr const char* kFooter =
    "Two processes, bound to two CPUs, send frames to each other over lanes in shared\n"
    "memory, Unix domain sockets and TCP on the loopback; in turns with them, as the\n"
    "floor, over bare sockets with one sendmsg and one recvmsg a frame. Only the\n"
    "ratios within one run count. bench/README.md says what is measured, what isn't.\n"
    "\n"
    "The result is kept, as transports.json, in $XDG_CACHE_HOME/framelane (else\n"
    "~/.cache/framelane), and beside it which of UDS and TCP was faster: consumers go\n"
    "by it where nothing else says which to take. --no-profile keeps nothing.\n"
    "\n"
    "Examples:\n"
    "  framelane bench transports\n"
    "  framelane bench transports --sizes 512,65536 --rounds 21 --json\n"
    "  framelane bench transports --touch all --seconds 60";

constexpr std::uint32_t kMostSamples = 5000;                     // of one part of one round; it ends with them
constexpr std::size_t kMostWarmUpBytes = std::size_t{96} << 20;  // before the rounds of a size, over each way
constexpr std::uint64_t kFramesPerLookAtTime = 8;
constexpr std::size_t kMostQueuedBytes = std::size_t{16} << 20;  // in a lane's ring, of large frames

struct Options {
  std::vector<std::size_t> sizes{64, 512, 4096, 65536, 1 << 20, 8 << 20};
  std::uint32_t rounds = 5;
  double seconds = 20;
  Touch touch = Touch::kEdges;
  Spin spin = Spin::kAdaptive;
  bool json = false;
  bool no_profile = false;
};

/// Of one way, size and round.
struct Count {
  std::uint32_t round_trips;  // kept
  std::uint64_t frames;       // one way
  std::int64_t took_ns;       // and how long they took
};

/// What the processes and their parent share.
struct Shared {
  SharedArray<LineWord> last;             // [1]: number of the part's last frame
  SharedArray<std::uint32_t> samples;     // [sizes][rounds][kWays][kMostSamples]: round trips, ns
  SharedArray<Count> counts;              // [sizes][rounds][kWays]
  SharedArray<std::uint32_t> connecting;  // [rounds][kLanes], ns
};

/// What stands before the processes are forked.
struct Setting : StreamBench {
  SocketPair meeting;  // where they wait for each other
};

struct Task {
  const Options& options;
  const Setting& setting;
  Shared& shared;
  std::uint32_t side;  // 0 measures, 1 answers
};

std::size_t index_of(const Task& task, std::size_t size, std::uint32_t round, std::uint32_t way) {
  return (size * task.options.rounds + round) * kWays + way;
}

// --- ends

/// Frames over a bare socket, behind the calls of a LaneEnd.
class BareEnd {
 public:
  BareEnd(int fd, std::size_t size, Touch touch) : fd_(fd), touch_(touch), out_(size), in_(size) {}

  [[nodiscard]] bool send(std::uint64_t number) {
    write_payload(out_, number, touch_);
    return send_all(fd_, out_);
  }
  [[nodiscard]] bool receive(std::uint64_t number) { return receive_all(fd_, in_) && payload_is(in_, number, touch_); }
  [[nodiscard]] static std::string why() { return "the peer did not answer on a bare socket"; }

 private:
  int fd_;
  Touch touch_;
  std::vector<std::byte> out_;
  std::vector<std::byte> in_;
};

/// Waits for the other process to come as far, asleep: its threads may need this CPU.
Result<void> meet(const Task& task) {
  const int fd = task.setting.meeting[task.side].get();
  std::byte word{1};
  if (send_all(fd, {&word, 1}) && receive_all(fd, {&word, 1})) return {};
  return fail(Code::kPeerLost, "the other process did not come");
}

/// Descriptor of the lane that `side` produces.
std::string lane_of(const Task& task, std::uint32_t way, std::uint32_t side) {
  const std::string name = side == 0 ? "ping" : "pong";
  if (way == kTcp) return fmt::format("lane.tcp://127.0.0.1:{}/{}", task.setting.ports[side], name);
  return fmt::format("lane.{}://{}/{}", way_word(way), std::getenv("FRAMELANE_DIR"), name + way_word(way));
}

Result<LaneEnd> open_lane(const Task& task, std::uint32_t way, std::size_t size) {
  LaneEnd::Settings settings;
  settings.out = lane_of(task, way, task.side);
  settings.in = lane_of(task, way, 1 - task.side);
  settings.size = size;
  settings.touch = task.options.touch;
  settings.spin = task.options.spin;
  settings.stamps = Stamps::kAuto;
  settings.burst = static_cast<std::uint32_t>(std::clamp<std::size_t>(kMostQueuedBytes / size, 2, 8));
  return LaneEnd::open(settings);
}

// --- one part: the measuring side, and the other

/// Goes on over all parts; each frame has the next number.
struct Numbers {
  LineWord& last;
  std::uint64_t next = 1;
};

template <class End>
bool there_and_back(End& end, std::uint64_t number) {
  return end.send(number) && end.receive(number);
}

template <class End>
bool measure_round_trips(End& end, Numbers& numbers, std::int64_t budget_ns, std::span<std::uint32_t> room,
                         std::uint32_t& count) {
  const std::int64_t stop = base::monotonic_ns() + budget_ns;
  for (bool last = false; !last;) {
    const std::int64_t start = base::monotonic_ns();
    const std::uint64_t number = numbers.next++;
    last = count + 1 == room.size() || start >= stop;
    if (last) numbers.last.value.store(number, std::memory_order_release);
    if (!there_and_back(end, number)) return false;
    const std::int64_t took = base::monotonic_ns() - start;
    room[count++] =
        static_cast<std::uint32_t>(std::clamp<std::int64_t>(took, 0, std::numeric_limits<std::uint32_t>::max()));
  }
  return true;
}

template <class End>
bool echo(End& end, Numbers& numbers) {
  for (;;) {
    const std::uint64_t number = numbers.next++;
    if (!end.receive(number) || !end.send(number)) return false;
    if (numbers.last.value.load(std::memory_order_acquire) == number) return true;
  }
}

/// Sends one way for `budget_ns` and at least `least` frames; the clock stops when the other side has them all.
template <class End>
bool measure_one_way(End& end, Numbers& numbers, std::int64_t budget_ns, std::uint64_t least, Count& count) {
  const std::int64_t start = base::monotonic_ns();
  for (bool last = false; !last;) {
    const std::uint64_t number = numbers.next++;
    const bool look = ++count.frames >= least && (count.frames % kFramesPerLookAtTime == 0 || count.frames < 64);
    last = look && base::monotonic_ns() - start >= budget_ns;
    if (last) numbers.last.value.store(number, std::memory_order_release);
    if (!end.send(number)) return false;
    if (last && !end.receive(number)) return false;
  }
  count.took_ns = base::monotonic_ns() - start;
  return true;
}

template <class End>
bool drain(End& end, Numbers& numbers) {
  for (;;) {
    const std::uint64_t number = numbers.next++;
    if (!end.receive(number)) return false;
    if (numbers.last.value.load(std::memory_order_acquire) == number) return end.send(number);
  }
}

/// One way's turn in a round. Without `index` it only warms up: both ends, all slots, their pages.
template <class End>
bool take_turn(const Task& task, End& end, Numbers& numbers, std::size_t size, std::optional<std::size_t> index) {
  if (task.side == 1) return echo(end, numbers) && drain(end, numbers);
  if (!index) {
    const std::uint64_t frames = std::clamp<std::uint64_t>(kMostWarmUpBytes / size, 8, 200);
    std::vector<std::uint32_t> room(std::min<std::uint64_t>(frames, 100));
    std::uint32_t trips = 0;
    Count ignored{};
    return measure_round_trips(end, numbers, 1'000'000'000, room, trips) &&
           measure_one_way(end, numbers, 0, frames, ignored);
  }
  const Options& options = task.options;
  const double parts = 2.0 * kWays * static_cast<double>(options.sizes.size()) * options.rounds;
  const auto budget_ns = static_cast<std::int64_t>(options.seconds * 1e9 / parts);
  Count& count = task.shared.counts[*index];
  return measure_round_trips(end, numbers, budget_ns,
                             task.shared.samples.all().subspan(*index * kMostSamples, kMostSamples),
                             count.round_trips) &&
         measure_one_way(end, numbers, budget_ns, 1, count);
}

// --- the processes

Result<void> measure_size(const Task& task, std::size_t at, Numbers& numbers) {
  const std::size_t size = task.options.sizes[at];
  std::vector<LaneEnd> lanes;
  for (std::uint32_t way = 0; way < kLanes; ++way) {
    auto lane = open_lane(task, way, size);
    if (!lane) return tl::unexpected(std::move(lane.error()));
    lanes.push_back(std::move(*lane));
  }
  std::array<BareEnd, 2> bare{{{task.setting.bare[0][task.side].get(), size, task.options.touch},
                               {task.setting.bare[1][task.side].get(), size, task.options.touch}}};
  for (std::uint32_t turn = 0; turn <= task.options.rounds; ++turn) {
    // A lane over a stream and its bare socket one after the other.
    for (const std::uint32_t way : {kShm, kUds, kBareUds, kTcp, kBareTcp}) {
      const auto index = turn == 0 ? std::nullopt : std::optional(index_of(task, at, turn - 1, way));
      const auto measured = [&](auto& end) -> Result<void> {
        if (take_turn(task, end, numbers, size, index)) return {};
        return fail(Code::kPeerLost, fmt::format("{}, {} bytes: {}", way_word(way), size, end.why()));
      };
      auto done = way < kLanes ? measured(lanes[way]) : measured(bare[way - kLanes]);
      if (!done) return done;
    }
  }
  return meet(task);  // then nobody needs these lanes
}

/// How long a consumer needs from nothing to a connection.
Result<void> measure_connecting(const Task& task) {
  std::vector<Producer> producers;
  for (std::uint32_t way = 0; way < kLanes && task.side == 1; ++way) {
    ProducerSettings settings;
    settings.lane = lane_of(task, way, 1);
    settings.max_consumers = 32;
    auto producer = Producer::open(std::move(settings));
    if (!producer) return tl::unexpected(std::move(producer.error()));
    producers.push_back(std::move(*producer));
  }
  if (auto met = meet(task); !met) return met;
  for (std::uint32_t i = 0; i < task.options.rounds * kLanes && task.side == 0; ++i) {
    ConsumerSettings settings;
    settings.lane = lane_of(task, i % kLanes, 1);
    const std::int64_t start = base::monotonic_ns();
    auto consumer = Consumer::open(std::move(settings));
    if (!consumer) return tl::unexpected(std::move(consumer.error()));
    if (auto connected = consumer->connect(kPatience); !connected) return connected;
    task.shared.connecting[i] = static_cast<std::uint32_t>(
        std::clamp<std::int64_t>(base::monotonic_ns() - start, 0, std::numeric_limits<std::uint32_t>::max()));
  }
  return meet(task);
}

int play(const Task& task) {
  if (auto pinned = base::pin_this_thread(task.setting.cpus[task.side]); !pinned)
    return report_failure(pinned.error().text);
  if (auto done = measure_connecting(task); !done) return report_failure(done.error().text);
  Numbers numbers{task.shared.last[0]};
  for (std::size_t at = 0; at < task.options.sizes.size(); ++at) {
    if (auto done = measure_size(task, at, numbers); !done) return report_failure(done.error().text);
    if (auto met = meet(task); !met) return report_failure(met.error().text);  // all is closed
  }
  return kOk;
}

// --- figures

SizeFigures evaluate_size(const Task& task, std::size_t at) {
  SizeFigures figures;
  figures.size = task.options.sizes[at];
  for (std::uint32_t way = 0; way < kWays; ++way) {
    WayFigures& one = figures.ways[way];
    std::vector<std::uint32_t> all;
    for (std::uint32_t round = 0; round < task.options.rounds; ++round) {
      const std::size_t index = index_of(task, at, round, way);
      const Count& count = task.shared.counts[index];
      const auto room = task.shared.samples.all().subspan(index * kMostSamples, count.round_trips);
      std::vector<std::uint32_t> samples(room.begin(), room.end());
      all.insert(all.end(), samples.begin(), samples.end());
      one.round_p50_ns.push_back(static_cast<double>(summarize_samples(samples).p50_ns));
      one.frames_per_second.push_back(static_cast<double>(count.frames) * 1e9 /
                                      static_cast<double>(std::max<std::int64_t>(count.took_ns, 1)));
    }
    one.round_trip = summarize_samples(all);
  }
  return figures;
}

Report evaluate(const Task& task) {
  Report report;
  for (std::uint32_t way = 0; way < kLanes; ++way) {
    std::vector<std::uint32_t> samples;
    for (std::uint32_t round = 0; round < task.options.rounds; ++round)
      samples.push_back(task.shared.connecting[round * kLanes + way]);
    report.connecting[way] = summarize_samples(samples);
  }
  for (std::size_t at = 0; at < task.options.sizes.size(); ++at) report.sizes.push_back(evaluate_size(task, at));
  report.how = {{"rounds", task.options.rounds},
                {"seconds", task.options.seconds},
                {"spin", to_string(task.options.spin)},
                {"touch", task.options.touch == Touch::kAll ? "all" : "edges"},
                {"cpus", task.setting.cpus},
                {"pinned", true},
                {"clock_ns", clock_cost_ns()},
                {"machine", machine_json()}};
  return report;
}

Result<Setting> set_up() {
  auto bench = set_up_stream_bench();
  if (!bench) return tl::unexpected(bench.error());
  auto meeting = connect_uds_pair();
  if (!meeting) return tl::unexpected(meeting.error());
  return Setting{std::move(*bench), std::move(*meeting)};
}

Result<Shared> share(const Options& options) {
  const std::size_t parts = options.sizes.size() * options.rounds * kWays;
  auto last = SharedArray<LineWord>::create(1);
  auto samples = SharedArray<std::uint32_t>::create(parts * kMostSamples);
  auto counts = SharedArray<Count>::create(parts);
  auto connecting = SharedArray<std::uint32_t>::create(options.rounds * kLanes);
  if (!last || !samples || !counts || !connecting)
    return fail(Code::kNoMemory, "no memory for the samples; ask for fewer rounds or sizes");
  return Shared{std::move(*last), std::move(*samples), std::move(*counts), std::move(*connecting)};
}

int run(Options options) {
  std::sort(options.sizes.begin(), options.sizes.end());
  options.sizes.erase(std::unique(options.sizes.begin(), options.sizes.end()), options.sizes.end());
  auto setting = set_up();
  if (!setting) return report_failure(setting.error().text);
  auto shared = share(options);
  if (!shared) return report_failure(shared.error().text);
  const auto task = [&](std::uint32_t side) { return Task{options, *setting, *shared, side}; };
  const auto limit =
      std::chrono::seconds(static_cast<int>(options.seconds) + 1) * 2 + (4 + options.sizes.size()) * kPatience;
  const int code =
      run_pair({{{"measuring", [&] { return play(task(0)); }}, {"answering", [&] { return play(task(1)); }}}}, limit);
  if (code != kOk) return code;
  const Report report = evaluate(task(0));
  Result<std::string> saved = fail(Code::kNotFound);
  if (!options.no_profile) saved = save_profile(report);
  const auto kept = saved ? std::optional(*saved) : std::nullopt;
  fmt::print("{}", options.json ? report_json(report, kept).dump(2) + "\n" : report_text(report, kept));
  return options.no_profile || saved ? kOk : report_failure(saved.error().text);
}

}  // namespace

void add_bench_transports(CLI::App& bench, Action& chosen) {
  auto options = std::make_shared<Options>();
  CLI::App& command = *bench.add_subcommand("transports", "Lanes over shm, UDS and TCP, against bare sockets");
  command.footer(kFooter);
  command.add_option("--sizes", options->sizes, "Bytes of a frame, several (64 to 8388608)")
      ->type_name("B,B")
      ->delimiter(',')
      ->check(CLI::Range(1, 64 << 20));
  command.add_option("--rounds", options->rounds, "Rounds of all ways, for each size (5)")
      ->type_name("N")
      ->check(CLI::Range(1, 100));
  command.add_option("--seconds", options->seconds, "Of all parts and rounds (20)")
      ->type_name("S")
      ->check(CLI::Range(0.1, 600.0));
  add_choice(command, "--touch", options->touch, {{"edges", Touch::kEdges}, {"all", Touch::kAll}}, "edges|all",
             "What is written and read; edges: 8 bytes each (edges)");
  add_spin_option(command, options->spin);
  command.add_flag("--no-profile", options->no_profile, "Keeps no file of the result");
  command.add_flag("--json", options->json, "One JSON object");
  command.callback([options, &chosen] { chosen = [options] { return run(*options); }; });
}

}  // namespace framelane::cli
