// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "base/cpu.hpp"
#include "cli/bench_ends.hpp"
#include "cli/bench_setup.hpp"
#include "cli/command.hpp"
#include "cli/percentiles.hpp"

namespace framelane::cli {
namespace {

constexpr const char* kFooter =
    "What it costs to take a frame where it lies, by size, in one run. The content\n"
    "is there already: only the first and last 8 bytes of each frame are written\n"
    "anew, and read, so that the figures show the lane and not the memory.\n"
    "  one way  from before publish() to after the first read of the taken frame\n"
    "  take     take(), read and release of frames that were published before\n"
    "\n"
    "Examples:\n"
    "  framelane bench take\n"
    "  framelane bench take --sizes 32,1024,3110400 --json";

constexpr std::uint64_t kWarmUp = 256;
constexpr std::uint64_t kBatch = 8;  // the default burst depth: that many are published without a wait

struct Options {
  std::vector<std::uint32_t> sizes{32, 3'110'400};
  std::uint32_t samples = 20'000;
  std::uint32_t rounds = 5;
  bool json = false;
};

struct Meeting {
  LineWord ready;  // written by the producing process: the number of the last message that is there
  LineWord ack;    // written by the consuming process: the number of the last message that is done with
};

// [rounds][series][samples]; series 0 is the bare line, then one per size.
struct Shared {
  SharedArray<Meeting> meeting;
  SharedArray<std::int64_t> starts;       // CLOCK_MONOTONIC, before publish()
  SharedArray<std::int64_t> ends;         // CLOCK_MONOTONIC, after the first read
  SharedArray<std::uint32_t> take_costs;  // ns; series 0 stays unused
  std::uint32_t series;
  std::uint32_t samples;

  template <class T>
  std::span<T> room(SharedArray<T>& array, std::uint32_t round, std::uint32_t one) {
    return array.all().subspan((std::size_t{round} * series + one) * samples, samples);
  }
};

class FloorSender {
 public:
  explicit FloorSender(LineWord& ready) noexcept : ready_(ready) {}
  bool prepare(std::uint64_t, Touch) noexcept { return true; }
  bool publish(std::uint64_t number) noexcept {
    ready_.value.store(number, std::memory_order_release);
    return true;
  }

 private:
  LineWord& ready_;
};

class FloorReceiver {
 public:
  explicit FloorReceiver(const LineWord& ready) noexcept : ready_(ready) {}
  bool take(std::uint64_t number) noexcept { return await_word(ready_, number); }
  void release() noexcept {}

 private:
  const LineWord& ready_;
};

class LaneSender {
 public:
  LaneSender(Producer& producer, std::uint32_t size) noexcept : producer_(producer), size_(size) {}
  bool prepare(std::uint64_t number, Touch touch) {
    auto loan = producer_.loan(size_);
    if (!loan) return false;
    loan_ = std::move(*loan);
    write_payload({loan_.data(), size_}, number, touch);
    return true;
  }
  bool publish(std::uint64_t) {
    const auto published = producer_.publish(loan_, size_);
    return published.has_value() && *published == Published::kSent;
  }

 private:
  Producer& producer_;
  std::uint32_t size_;
  Loan loan_;
};

class LaneReceiver {
 public:
  LaneReceiver(Consumer& consumer, std::uint32_t size) noexcept : consumer_(consumer), size_(size) {}
  bool take(std::uint64_t number) {
    auto frame = consumer_.take(kPatience);
    if (!frame) return false;
    frame_ = std::move(*frame);
    return frame_.size() == size_ && payload_is(frame_.bytes(), number, Touch::kEdges);
  }
  void release() noexcept { frame_.release(); }

 private:
  Consumer& consumer_;
  std::uint32_t size_;
  Frame frame_;
};

template <class Sender>
bool send_one_way(Sender& sender, Meeting& meeting, std::uint64_t& next, std::span<std::int64_t> starts) {
  for (std::uint64_t i = 0; i < kWarmUp + starts.size(); ++i, ++next) {
    if (!await_word(meeting.ack, next - 1)) return false;
    // In the warm-up whole frames are written, so that every slot has its pages and its content.
    if (!sender.prepare(next, i < kWarmUp ? Touch::kAll : Touch::kEdges)) return false;
    const std::int64_t start = base::monotonic_ns();
    if (!sender.publish(next)) return false;
    if (i >= kWarmUp) starts[i - kWarmUp] = start;
  }
  return true;
}

template <class Receiver>
bool take_one_way(Receiver& receiver, Meeting& meeting, std::uint64_t& next, std::span<std::int64_t> ends) {
  for (std::uint64_t i = 0; i < kWarmUp + ends.size(); ++i, ++next) {
    if (!receiver.take(next)) return false;
    const std::int64_t end = base::monotonic_ns();
    receiver.release();
    if (i >= kWarmUp) ends[i - kWarmUp] = end;
    meeting.ack.value.store(next, std::memory_order_release);
  }
  return true;
}

bool send_batches(LaneSender& sender, Meeting& meeting, std::uint64_t& next, std::size_t frames) {
  for (std::size_t sent = 0; sent < frames; sent += kBatch, next += kBatch) {
    if (!await_word(meeting.ack, next - 1)) return false;
    for (std::uint64_t i = 0; i < kBatch; ++i) {
      if (!sender.prepare(next + i, Touch::kEdges) || !sender.publish(next + i)) return false;
    }
    meeting.ready.value.store(next + kBatch - 1, std::memory_order_release);
  }
  return true;
}

bool take_batches(LaneReceiver& receiver, Meeting& meeting, std::uint64_t& next, std::span<std::uint32_t> costs) {
  for (std::size_t taken = 0; taken < costs.size(); taken += kBatch, next += kBatch) {
    if (!await_word(meeting.ready, next + kBatch - 1)) return false;
    std::int64_t before = base::monotonic_ns();
    for (std::uint64_t i = 0; i < kBatch; ++i) {
      if (!receiver.take(next + i)) return false;
      receiver.release();
      const std::int64_t after = base::monotonic_ns();
      if (taken + i < costs.size()) costs[taken + i] = static_cast<std::uint32_t>(after - before);
      before = after;
    }
    meeting.ack.value.store(next + kBatch - 1, std::memory_order_release);
  }
  return true;
}

Result<Producer> open_producer(std::uint32_t largest) {
  ProducerSettings settings;
  settings.lane = "take";
  settings.burst = kBatch;
  settings.max_loans = 2;  // few slots, so that large frames don't ask for much memory
  settings.max_held = 1;
  settings.max_consumers = 1;
  settings.stamps = Stamps::kOff;
  settings.spin = Spin::kBusy;
  auto producer = Producer::open(std::move(settings));
  if (!producer) return producer;
  if (auto reserved = producer->reserve(largest); !reserved) return tl::unexpected(reserved.error());
  if (auto peer = producer->wait_for_consumers(1, 2 * kPatience); !peer) return tl::unexpected(peer.error());
  return producer;
}

Result<Consumer> open_consumer() {
  ConsumerSettings settings;
  settings.lane = "take";
  settings.max_held = 1;
  settings.reconnect = false;
  settings.spin = Spin::kBusy;
  auto consumer = Consumer::open(std::move(settings));
  if (!consumer) return consumer;
  if (auto connected = consumer->connect(2 * kPatience); !connected) return tl::unexpected(connected.error());
  return consumer;
}

int producing_process(const Options& options, Shared& shared, int cpu) {
  if (auto pinned = base::pin_this_thread(cpu); !pinned) return report_failure(pinned.error().text);
  auto producer = open_producer(*std::max_element(options.sizes.begin(), options.sizes.end()));
  if (!producer) return report_failure(producer.error().text);
  Meeting& meeting = shared.meeting[0];
  std::uint64_t next = 1;
  for (std::uint32_t round = 0; round < options.rounds; ++round) {
    FloorSender floor(meeting.ready);
    bool good = send_one_way(floor, meeting, next, shared.room(shared.starts, round, 0));
    for (std::uint32_t i = 0; good && i < options.sizes.size(); ++i) {
      LaneSender sender(*producer, options.sizes[i]);
      good = send_one_way(sender, meeting, next, shared.room(shared.starts, round, i + 1)) &&
             send_batches(sender, meeting, next, options.samples);
    }
    if (!good) return report_failure("a frame could not be published; the consumer may be gone");
  }
  // The lane has to stay until the last frame is taken.
  return await_word(meeting.ack, next - 1) ? kOk : report_failure("the last frame was not taken");
}

int consuming_process(const Options& options, Shared& shared, int cpu) {
  if (auto pinned = base::pin_this_thread(cpu); !pinned) return report_failure(pinned.error().text);
  auto consumer = open_consumer();
  if (!consumer) return report_failure(consumer.error().text);
  Meeting& meeting = shared.meeting[0];
  std::uint64_t next = 1;
  for (std::uint32_t round = 0; round < options.rounds; ++round) {
    FloorReceiver floor(meeting.ready);
    bool good = take_one_way(floor, meeting, next, shared.room(shared.ends, round, 0));
    for (std::uint32_t i = 0; good && i < options.sizes.size(); ++i) {
      LaneReceiver receiver(*consumer, options.sizes[i]);
      good = take_one_way(receiver, meeting, next, shared.room(shared.ends, round, i + 1)) &&
             take_batches(receiver, meeting, next, shared.room(shared.take_costs, round, i + 1));
    }
    if (!good) return report_failure("a frame was lost, late or not the one that was sent");
  }
  return kOk;
}

struct Series {
  measure::LatencySummary one_way;
  measure::LatencySummary take;
  std::vector<double> one_way_p50;  // per round
  std::vector<double> take_p50;
};

Series evaluate(Shared& shared, std::uint32_t rounds, std::uint32_t one) {
  Series result;
  std::vector<std::uint32_t> all_one_way;
  std::vector<std::uint32_t> all_takes;
  for (std::uint32_t round = 0; round < rounds; ++round) {
    const auto starts = shared.room(shared.starts, round, one);
    const auto ends = shared.room(shared.ends, round, one);
    const auto costs = shared.room(shared.take_costs, round, one);
    std::vector<std::uint32_t> one_way;
    for (std::size_t i = 0; i < starts.size(); ++i) {
      one_way.push_back(static_cast<std::uint32_t>(std::max<std::int64_t>(ends[i] - starts[i], 0)));
    }
    std::vector<std::uint32_t> takes(costs.begin(), costs.end());
    all_one_way.insert(all_one_way.end(), one_way.begin(), one_way.end());
    all_takes.insert(all_takes.end(), takes.begin(), takes.end());
    result.one_way_p50.push_back(static_cast<double>(summarize_samples(one_way).p50_ns));
    result.take_p50.push_back(static_cast<double>(summarize_samples(takes).p50_ns));
  }
  result.one_way = summarize_samples(all_one_way);
  result.take = summarize_samples(all_takes);
  return result;
}

// Median over the rounds of `ours` divided by `theirs`.
double median_ratio(const std::vector<double>& ours, const std::vector<double>& theirs) {
  std::vector<double> ratios;
  for (std::size_t i = 0; i < ours.size(); ++i) ratios.push_back(ours[i] / std::max(theirs[i], 1.0));
  return median_of(std::move(ratios));
}

void print_json(const Options& options, CpuPair cpus, const std::vector<Series>& all) {
  nlohmann::ordered_json json{{"bench", "take"}, {"floor", {{"one_way", to_json(all[0].one_way)}}}};
  for (std::size_t i = 0; i < options.sizes.size(); ++i) {
    json["sizes"].push_back({{"size", options.sizes[i]},
                             {"one_way", to_json(all[i + 1].one_way)},
                             {"take", to_json(all[i + 1].take)},
                             {"ratio_one_way_p50_to_floor", median_ratio(all[i + 1].one_way_p50, all[0].one_way_p50)},
                             {"ratio_one_way_p50_to_first", median_ratio(all[i + 1].one_way_p50, all[1].one_way_p50)},
                             {"ratio_take_p50_to_first", median_ratio(all[i + 1].take_p50, all[1].take_p50)}});
  }
  json.update({{"samples", options.samples},
               {"rounds", options.rounds},
               {"cpus", cpus},
               {"pinned", true},
               {"clock_ns", clock_cost_ns()},
               {"machine", machine_json()}});
  fmt::print("{}\n", json.dump(2));
}

void print_text(const Options& options, CpuPair cpus, const std::vector<Series>& all) {
  fmt::print("Taking frames in place: {} rounds of {} samples, CPUs {} and {}, both spinning\n", options.rounds,
             options.samples, cpus[0], cpus[1]);
  fmt::print("One reading of the clock, {:.0f} ns, is part of every sample.\n", clock_cost_ns());
  fmt::print("\nOne way: publish() to the first read\n{}\n{}\n", summary_heading(),
             summary_row("bare line", all[0].one_way));
  for (std::size_t i = 0; i < options.sizes.size(); ++i) {
    fmt::print("{}\n", summary_row(fmt::format("{} B", options.sizes[i]), all[i + 1].one_way));
  }
  fmt::print("\ntake(), read and release of a frame that is there\n{}\n", summary_heading());
  for (std::size_t i = 0; i < options.sizes.size(); ++i) {
    fmt::print("{}\n", summary_row(fmt::format("{} B", options.sizes[i]), all[i + 1].take));
  }
  for (std::size_t i = 1; i < options.sizes.size(); ++i) {
    fmt::print("\n{} B against {} B, medians: one way {:.2f}, take {:.2f}\n", options.sizes[i], options.sizes[0],
               median_ratio(all[i + 1].one_way_p50, all[1].one_way_p50),
               median_ratio(all[i + 1].take_p50, all[1].take_p50));
  }
}

int run(const Options& options) {
  const auto cpus = choose_cpus();
  if (!cpus) return report_failure(cpus.error().text);
  const auto series = static_cast<std::uint32_t>(options.sizes.size()) + 1;
  const std::size_t room = std::size_t{options.rounds} * series * options.samples;
  auto meeting = SharedArray<Meeting>::create(1);
  auto starts = SharedArray<std::int64_t>::create(room);
  auto ends = SharedArray<std::int64_t>::create(room);
  auto costs = SharedArray<std::uint32_t>::create(room);
  if (!meeting || !starts || !ends || !costs) return report_failure("no memory for the samples; ask for fewer");
  Shared shared{std::move(*meeting), std::move(*starts), std::move(*ends), std::move(*costs), series, options.samples};
  const int code = run_pair({{{"producing", [&] { return producing_process(options, shared, (*cpus)[0]); }},
                              {"consuming", [&] { return consuming_process(options, shared, (*cpus)[1]); }}}},
                            std::chrono::seconds(120));
  if (code != kOk) return code;
  std::vector<Series> all;
  for (std::uint32_t one = 0; one < series; ++one) all.push_back(evaluate(shared, options.rounds, one));
  if (options.json) {
    print_json(options, *cpus, all);
  } else {
    print_text(options, *cpus, all);
  }
  return kOk;
}

}  // namespace

void add_bench_take(CLI::App& bench, Action& chosen) {
  auto options = std::make_shared<Options>();
  CLI::App& command = *bench.add_subcommand("take", "Cost of taking frames in place, by size");
  command.footer(kFooter);
  command.add_option("--sizes", options->sizes, "Bytes of the frames (32,3110400)")
      ->type_name("B,B,…")
      ->delimiter(',')
      ->expected(1, 8)
      ->check(CLI::Range(1, 256 << 20));
  command.add_option("--samples", options->samples, "Frames per round and size (20000)")
      ->type_name("N")
      ->check(CLI::Range(1, 1'000'000));
  command.add_option("--rounds", options->rounds, "Rounds of all sizes (5)")->type_name("N")->check(CLI::Range(1, 100));
  command.add_flag("--json", options->json, "One JSON object");
  command.callback([options, &chosen] { chosen = [options] { return run(*options); }; });
}

}  // namespace framelane::cli
