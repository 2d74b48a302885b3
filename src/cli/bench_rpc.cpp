// SPDX-License-Identifier: MIT
#include <algorithm>
#include <array>
#include <cstdlib>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "framelane/lane/client.hpp"
#include "framelane/lane/server.hpp"

#include "base/clock.hpp"
#include "base/cpu.hpp"
#include "cli/bench_ends.hpp"
#include "cli/bench_setup.hpp"
#include "cli/bench_sockets.hpp"
#include "cli/command.hpp"
#include "cli/lane_options.hpp"
#include "cli/percentiles.hpp"

namespace framelane::cli {
namespace {

constexpr const char* kFooter =
    "Two processes, bound to two CPUs: a Client asks, a Server answers with the same\n"
    "bytes, over shared memory, Unix domain sockets and TCP on the loopback. In turns\n"
    "with them, as the floor, the same bytes go there and back over bare sockets,\n"
    "with one sendmsg and one recvmsg for each; of large messages fewer are in flight\n"
    "there, 128 KiB of them, as two ends that only send would wait for each other.\n"
    "Only the ratios within one run count. bench/README.md says what is measured, and\n"
    "what isn't.\n"
    "\n"
    "Examples:\n"
    "  framelane bench rpc\n"
    "  framelane bench rpc --size 65536 --transport shm --in-flight 16 --json\n"
    "  framelane bench rpc --spin adaptive --seconds 20";

constexpr std::uint32_t kWarmUp = 500;           // round trips before each part, not counted
constexpr std::uint32_t kMostSamples = 200'000;  // of a part of a round; it ends with them
constexpr std::uint32_t kRequestsPerLookAtTime = 32;

constexpr std::size_t kMostBareBytes = std::size_t{128} << 10;  // in flight over a bare socket, each way

enum class Over { kShm, kUds, kTcp, kAll };

struct Options {
  std::size_t size = 512;
  Over transport = Over::kAll;
  std::uint32_t in_flight = 64;
  double seconds = 12;
  std::uint32_t rounds = 5;
  Spin spin = Spin::kBusy;
  bool json = false;
};

const std::map<std::string, Over> kTransportWords{
    {"shm", Over::kShm}, {"uds", Over::kUds}, {"tcp", Over::kTcp}, {"all", Over::kAll}};

std::string_view word_of(Over transport) {
  for (const auto& [word, value] : kTransportWords) {
    if (value == transport) return word;
  }
  return "";
}

/// Of the lanes, in the order in which they are measured.
std::vector<Over> lanes_in(const Options& options) {
  if (options.transport != Over::kAll) return {options.transport};
  return {Over::kShm, Over::kUds, Over::kTcp};
}

/// What a round goes through: two bare sockets, then the lanes.
enum Bare : std::uint32_t { kBareUds, kBareTcp, kBareWays };
constexpr std::array<const char*, kBareWays> kBareWords{"bare UDS", "bare TCP"};

/// Of one way and round.
struct Count {
  std::uint64_t samples;  // kept
  std::uint64_t done;     // requests of the pipelined part
  std::int64_t took_ns;   // and how long they took
};

struct Shared {
  std::uint32_t ways;
  SharedArray<std::uint32_t> samples;  // [rounds][ways][kMostSamples]
  SharedArray<Count> counts;           // [rounds][ways]

  [[nodiscard]] std::span<std::uint32_t> room(std::uint32_t round, std::uint32_t way) {
    return samples.all().subspan((std::size_t{round} * ways + way) * kMostSamples, kMostSamples);
  }
  [[nodiscard]] Count& count(std::uint32_t round, std::uint32_t way) { return counts[round * ways + way]; }
};

// --- both ends, behind the same calls. The first byte of a message says whether it is the last of its part.

constexpr std::byte kLast{1};

/// Requests over a bare socket. Answers come in the order of the requests.
class BareAsker {
 public:
  BareAsker(int fd, const Options& options)
      : fd_(fd),
        most_(std::clamp<std::size_t>(kMostBareBytes / options.size, 1, options.in_flight)),
        back_(options.size) {}

  /// Sends one, and first waits for the oldest answer where too many would be in flight.
  [[nodiscard]] bool start(std::span<const std::byte> message) {
    if (waiting_ == most_ && !finish_one()) return false;
    ++waiting_;
    return send_all(fd_, message);
  }
  /// Waits for all the answers.
  [[nodiscard]] bool finish() {
    while (waiting_ != 0) {
      if (!finish_one()) return false;
    }
    return true;
  }
  /// Sends `message` and waits until it has come back.
  [[nodiscard]] bool ask(std::span<const std::byte> message) {
    return start(message) && finish() && back_.front() == message.front();
  }
  [[nodiscard]] static std::string why() { return "the peer did not answer on the bare socket"; }

 private:
  [[nodiscard]] bool finish_one() {
    --waiting_;
    return receive_all(fd_, back_);
  }

  int fd_;
  std::size_t most_;
  std::size_t waiting_ = 0;
  std::vector<std::byte> back_;
};

/// The same over lanes.
class LaneAsker {
 public:
  LaneAsker(Client& client, const Options& options) : client_(client), calls_(options.in_flight) {}

  [[nodiscard]] bool start(std::span<const std::byte> message) {
    Call& call = calls_[sent_++ % calls_.size()];
    if (call.pending() && !finish(call)) return false;
    auto next = client_.start(message);
    if (!next) return failed(next.error());
    call = std::move(*next);
    return true;
  }
  [[nodiscard]] bool finish() {
    for (Call& call : calls_) {
      if (call.pending() && !finish(call)) return false;
    }
    return true;
  }
  [[nodiscard]] bool ask(std::span<const std::byte> message) {
    const auto response = client_.call(message, kPatience);
    if (!response) return failed(response.error());
    return response->size() == message.size() && *response->data() == message.front();
  }
  [[nodiscard]] std::string why() const { return error_.text.empty() ? "a wrong answer" : error_.text; }

 private:
  [[nodiscard]] bool finish(Call& call) {
    const auto answered = call.wait(kPatience);
    return answered ? true : failed(answered.error());
  }
  bool failed(const Error& error) {
    error_ = error;
    return false;
  }

  Client& client_;
  std::vector<Call> calls_;
  std::size_t sent_ = 0;
  Error error_{Code::kSystem, {}};
};

bool echo_bare(int fd, std::vector<std::byte>& message) {
  do {
    if (!receive_all(fd, message) || !send_all(fd, message)) return false;
  } while (message.front() != kLast);
  return true;
}

Result<void> echo_lane(Server& server) {
  for (bool last = false; !last;) {
    auto request = server.next(2 * kPatience);
    if (!request) return tl::unexpected(request.error());
    last = request->size() != 0 && *request->data() == kLast;
    if (auto sent = request->respond(request->bytes()); !sent) return sent;
  }
  return {};
}

// --- the asking process

struct Budget {
  std::int64_t ns;                 // for one part of one round
  std::vector<std::byte> message;  // what is sent
};

/// Ends a part of the answering process.
template <class Asker>
bool end_part(Asker& asker, Budget& budget) {
  budget.message.front() = kLast;
  const bool ended = asker.ask(budget.message);
  budget.message.front() = std::byte{0};
  return ended;
}

template <class Asker>
bool measure_one_by_one(Asker& asker, Budget& budget, std::span<std::uint32_t> room, Count& count) {
  for (std::uint32_t i = 0; i < kWarmUp; ++i) {
    if (!asker.ask(budget.message)) return false;
  }
  const std::int64_t end = base::monotonic_ns() + budget.ns;
  for (std::uint32_t& sample : room) {
    const std::int64_t start = base::monotonic_ns();
    if (start >= end) break;
    if (!asker.ask(budget.message)) return false;
    const std::int64_t took = base::monotonic_ns() - start;
    sample = static_cast<std::uint32_t>(std::clamp<std::int64_t>(took, 0, std::numeric_limits<std::uint32_t>::max()));
    ++count.samples;
  }
  return end_part(asker, budget);
}

template <class Asker>
bool measure_pipelined(Asker& asker, Budget& budget, Count& count) {
  const std::int64_t start = base::monotonic_ns();
  do {
    if (!asker.start(budget.message)) return false;
    ++count.done;
  } while (count.done % kRequestsPerLookAtTime != 0 || base::monotonic_ns() - start < budget.ns);
  if (!asker.finish()) return false;
  count.took_ns = base::monotonic_ns() - start;
  return end_part(asker, budget);
}

/// In the processes, which know their directory.
template <class Settings>
Settings settings_of(const Options& options, Over transport, const std::array<std::uint16_t, 2>& ports) {
  Settings settings;
  if (transport == Over::kTcp) {
    settings.requests = fmt::format("lane.tcp://127.0.0.1:{}/rpc-requests", ports[0]);
    settings.responses = fmt::format("lane.tcp://127.0.0.1:{}/rpc-responses", ports[1]);
  } else {
    const std::string_view word = word_of(transport);
    const std::string path = fmt::format("lane.{}://{}/rpc-{}", word, std::getenv("FRAMELANE_DIR"), word);
    settings.requests = path + "-requests";
    settings.responses = path + "-responses";
  }
  settings.burst = options.in_flight;
  settings.max_request_size = options.size;
  settings.max_response_size = options.size;
  settings.spin = options.spin;
  return settings;
}

/// A Client or a Server for each transport.
template <class End, class Settings>
Result<std::vector<End>> open_ends(const Options& options, const StreamBench& setting) {
  std::vector<End> ends;
  for (const Over transport : lanes_in(options)) {
    auto end = End::open(settings_of<Settings>(options, transport, setting.ports));
    if (!end) return tl::unexpected(end.error());
    if (auto reserved = end->reserve(options.size); !reserved) return tl::unexpected(reserved.error());
    ends.push_back(std::move(*end));
  }
  return ends;
}

int asking_process(const Options& options, const StreamBench& setting, Shared& shared) {
  if (auto pinned = base::pin_this_thread(setting.cpus[0]); !pinned) return report_failure(pinned.error().text);
  auto clients = open_ends<Client, ClientSettings>(options, setting);
  if (!clients) return report_failure(clients.error().text);
  Budget budget{static_cast<std::int64_t>(options.seconds * 1e9 / options.rounds / shared.ways / 2), {}};
  budget.message.assign(options.size, kLast);
  for (Client& client : *clients) {
    if (auto met = client.call(budget.message, 2 * kPatience); !met) return report_failure(met.error().text);
  }
  budget.message.front() = std::byte{0};
  for (std::uint32_t round = 0; round < options.rounds; ++round) {
    const auto measure = [&](auto&& asker, std::uint32_t way) -> int {
      Count& count = shared.count(round, way);
      if (measure_one_by_one(asker, budget, shared.room(round, way), count) && measure_pipelined(asker, budget, count))
        return kOk;
      return report_failure(asker.why());
    };
    for (std::uint32_t way = 0; way < shared.ways; ++way) {
      const int code = way < kBareWays ? measure(BareAsker(setting.bare[way][0].get(), options), way)
                                       : measure(LaneAsker((*clients)[way - kBareWays], options), way);
      if (code != kOk) return code;
    }
  }
  return kOk;
}

int answering_process(const Options& options, const StreamBench& setting) {
  if (auto pinned = base::pin_this_thread(setting.cpus[1]); !pinned) return report_failure(pinned.error().text);
  auto servers = open_ends<Server, ServerSettings>(options, setting);
  if (!servers) return report_failure(servers.error().text);
  for (Server& server : *servers) {
    if (auto met = echo_lane(server); !met) return report_failure(met.error().text);
  }
  constexpr int kPartsOfAWay = 2;
  std::vector<std::byte> message(options.size);
  for (std::uint32_t round = 0; round < options.rounds; ++round) {
    for (const SocketPair& bare : setting.bare) {
      for (int part = 0; part < kPartsOfAWay; ++part) {
        if (!echo_bare(bare[1].get(), message)) return report_failure(BareAsker::why());
      }
    }
    for (Server& server : *servers) {
      for (int part = 0; part < kPartsOfAWay; ++part) {
        if (auto echoed = echo_lane(server); !echoed) return report_failure(echoed.error().text);
      }
    }
  }
  return kOk;
}

// --- figures

/// Of one way.
struct Outcome {
  std::string name;
  measure::LatencySummary one_by_one;
  std::vector<double> round_p50s;           // ns
  std::vector<double> requests_per_second;  // of each round
};

Outcome evaluate(Shared& shared, std::uint32_t way, std::uint32_t rounds, std::string name) {
  Outcome outcome{std::move(name), {}, {}, {}};
  std::vector<std::uint32_t> all;
  for (std::uint32_t round = 0; round < rounds; ++round) {
    const Count& count = shared.count(round, way);
    const auto room = shared.room(round, way).first(count.samples);
    std::vector<std::uint32_t> samples(room.begin(), room.end());
    all.insert(all.end(), samples.begin(), samples.end());
    outcome.round_p50s.push_back(static_cast<double>(summarize_samples(samples).p50_ns));
    outcome.requests_per_second.push_back(static_cast<double>(count.done) * 1e9 /
                                          static_cast<double>(std::max<std::int64_t>(count.took_ns, 1)));
  }
  outcome.one_by_one = summarize_samples(all);
  return outcome;
}

/// Of each round, so that both were measured one behind the other.
std::vector<double> ratios(const std::vector<double>& values, const std::vector<double>& floor) {
  std::vector<double> all;
  for (std::size_t round = 0; round < values.size(); ++round)
    all.push_back(values[round] / std::max(floor[round], 1.0));
  return all;
}

nlohmann::ordered_json spread_json(const std::vector<double>& values) {
  const auto [least, most] = std::minmax_element(values.begin(), values.end());
  return {{"median", median_of(values)}, {"min", *least}, {"max", *most}, {"all", values}};
}

nlohmann::ordered_json way_json(const Outcome& outcome) {
  return {{"one_by_one", to_json(outcome.one_by_one)},
          {"requests_per_second", spread_json(outcome.requests_per_second)}};
}

nlohmann::ordered_json lane_json(const Outcome& lane, const std::vector<Outcome>& outcomes) {
  nlohmann::ordered_json json = way_json(lane);
  for (const auto& [word, bare] : {std::pair("uds", kBareUds), std::pair("tcp", kBareTcp)}) {
    json[fmt::format("ratio_p50_to_{}", word)] = spread_json(ratios(lane.round_p50s, outcomes[bare].round_p50s));
    json[fmt::format("ratio_requests_to_{}", word)] =
        spread_json(ratios(lane.requests_per_second, outcomes[bare].requests_per_second));
  }
  return json;
}

void print_json(const Options& options, CpuPair cpus, const std::vector<Outcome>& outcomes) {
  nlohmann::ordered_json lanes;
  for (std::size_t way = kBareWays; way < outcomes.size(); ++way)
    lanes[outcomes[way].name] = lane_json(outcomes[way], outcomes);
  const nlohmann::ordered_json json{
      {"bench", "rpc"},
      {"size", options.size},
      {"in_flight", options.in_flight},
      {"lanes", lanes},
      {"floor", {{"uds", way_json(outcomes[kBareUds])}, {"tcp", way_json(outcomes[kBareTcp])}}},
      {"seconds", options.seconds},
      {"rounds", options.rounds},
      {"spin", to_string(options.spin)},
      {"cpus", cpus},
      {"pinned", true},
      {"clock_ns", clock_cost_ns()},
      {"machine", machine_json()}};
  fmt::print("{}\n", json.dump(2));
}

void print_text(const Options& options, CpuPair cpus, const std::vector<Outcome>& outcomes) {
  fmt::print("Request and response of {} bytes: {} rounds, CPUs {} and {}, spin {}\n", options.size, options.rounds,
             cpus[0], cpus[1], to_string(options.spin));
  fmt::print("One reading of the clock, {:.0f} ns, is part of every sample.\n", clock_cost_ns());
  fmt::print("\nOne at a time\n{}\n", summary_heading());
  for (const Outcome& outcome : outcomes) fmt::print("{}\n", summary_row(outcome.name, outcome.one_by_one));
  fmt::print("\n{} in flight        requests a second     least      most   to bare UDS  to bare TCP\n",
             options.in_flight);
  for (const Outcome& outcome : outcomes) {
    const std::vector<double>& all = outcome.requests_per_second;
    const auto [least, most] = std::minmax_element(all.begin(), all.end());
    fmt::print("{:<20} {:>17.0f} {:>9.0f} {:>9.0f} {:>12.2f} {:>12.2f}\n", outcome.name, median_of(all), *least, *most,
               median_of(ratios(all, outcomes[kBareUds].requests_per_second)),
               median_of(ratios(all, outcomes[kBareTcp].requests_per_second)));
  }
  fmt::print("\nRatio of the medians one at a time, per round\n");
  for (std::size_t way = kBareWays; way < outcomes.size(); ++way) {
    fmt::print("{}: to bare UDS {:.2f}, to bare TCP {:.2f}\n", outcomes[way].name,
               median_of(ratios(outcomes[way].round_p50s, outcomes[kBareUds].round_p50s)),
               median_of(ratios(outcomes[way].round_p50s, outcomes[kBareTcp].round_p50s)));
  }
}

int run(const Options& options) {
  auto setting = set_up_stream_bench();
  if (!setting) return report_failure(setting.error().text);
  const std::vector<Over> lanes = lanes_in(options);
  const auto ways = static_cast<std::uint32_t>(kBareWays + lanes.size());
  auto samples = SharedArray<std::uint32_t>::create(std::size_t{options.rounds} * ways * kMostSamples);
  auto counts = SharedArray<Count>::create(std::size_t{options.rounds} * ways);
  if (!samples || !counts) return report_failure("no memory for the samples; ask for fewer rounds");
  Shared shared{ways, std::move(*samples), std::move(*counts)};
  const auto limit = std::chrono::seconds(static_cast<int>(options.seconds) + 1) + 10 * kPatience;
  const int code = run_pair({{{"asking", [&] { return asking_process(options, *setting, shared); }},
                              {"answering", [&] { return answering_process(options, *setting); }}}},
                            limit);
  if (code != kOk) return code;
  std::vector<Outcome> outcomes;
  for (std::uint32_t way = 0; way < ways; ++way) {
    const std::string name(way < kBareWays ? kBareWords[way] : word_of(lanes[way - kBareWays]));
    outcomes.push_back(evaluate(shared, way, options.rounds, name));
  }
  if (options.json) {
    print_json(options, setting->cpus, outcomes);
  } else {
    print_text(options, setting->cpus, outcomes);
  }
  return kOk;
}

}  // namespace

void add_bench_rpc(CLI::App& bench, Action& chosen) {
  auto options = std::make_shared<Options>();
  CLI::App& command = *bench.add_subcommand("rpc", "Requests and responses, against bare sockets");
  command.footer(kFooter);
  command.add_option("--size", options->size, "Bytes of a request and of its response (512)")
      ->type_name("B")
      ->check(CLI::Range(1, 64 << 20));
  add_choice(command, "--transport", options->transport, kTransportWords, "shm|uds|tcp|all", "Of the lanes (all)");
  command.add_option("--in-flight", options->in_flight, "Requests at a time in the pipelined part (64)")
      ->type_name("N")
      ->check(CLI::Range(1, 256));
  command.add_option("--seconds", options->seconds, "Of all parts and rounds (12)")
      ->type_name("S")
      ->check(CLI::Range(0.1, 600.0));
  command.add_option("--rounds", options->rounds, "Rounds of bare sockets and lanes (5)")
      ->type_name("N")
      ->check(CLI::Range(1, 100));
  add_spin_option(command, options->spin);
  command.add_flag("--json", options->json, "One JSON object");
  command.callback([options, &chosen] { chosen = [options] { return run(*options); }; });
}

}  // namespace framelane::cli
