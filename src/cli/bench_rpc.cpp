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
#include "cli/percentiles.hpp"

namespace framelane::cli {
namespace {

constexpr const char* kFooter =
    "Two processes, bound to two CPUs: a Client asks, a Server answers with the same\n"
    "bytes. In turns with it, as the floor, the same bytes go there and back over a\n"
    "bare Unix domain socket and over bare TCP on the loopback. Only the ratios\n"
    "within one run count. bench/README.md says what is measured, and what isn't.\n"
    "\n"
    "Examples:\n"
    "  framelane bench rpc\n"
    "  framelane bench rpc --size 65536 --transport shm --in-flight 16 --json\n"
    "  framelane bench rpc --spin adaptive --seconds 20";

constexpr std::uint32_t kWarmUp = 500;           // round trips before each part, not counted
constexpr std::uint32_t kMostSamples = 200'000;  // of a part of a round; it ends with them
constexpr std::uint32_t kRequestsPerLookAtTime = 32;

enum class Over { kShm, kUds, kTcp };

struct Options {
  std::size_t size = 512;
  Over transport = Over::kShm;
  std::uint32_t in_flight = 64;
  double seconds = 6;
  std::uint32_t rounds = 5;
  Spin spin = Spin::kBusy;
  bool json = false;
};

const std::map<std::string, Over> kTransportWords{{"shm", Over::kShm}, {"uds", Over::kUds}, {"tcp", Over::kTcp}};

std::string_view word_of(Over transport) {
  for (const auto& [word, value] : kTransportWords) {
    if (value == transport) return word;
  }
  return "";
}

enum Part : std::uint32_t { kBareUds, kBareTcp, kOneByOne, kPipelined };
constexpr std::uint32_t kParts = kPipelined + 1;

struct Count {
  std::uint64_t samples;  // kept
  std::uint64_t done;     // requests of the pipelined part
  std::int64_t took_ns;   // and how long they took
};

struct Shared {
  SharedArray<std::uint32_t> samples;  // [rounds][kPipelined][kMostSamples]
  SharedArray<Count> counts;           // [rounds][kParts]

  [[nodiscard]] std::span<std::uint32_t> room(std::uint32_t round, std::uint32_t part) {
    return samples.all().subspan((std::size_t{round} * kPipelined + part) * kMostSamples, kMostSamples);
  }
  [[nodiscard]] Count& count(std::uint32_t round, std::uint32_t part) { return counts[round * kParts + part]; }
};

// --- both ends, behind the same calls. The first byte of a message says whether it is the last of its part.

constexpr std::byte kLast{1};

/// Sends `message` and waits until it has come back.
class BareAsker {
 public:
  BareAsker(int fd, std::size_t size) : fd_(fd), back_(size) {}
  [[nodiscard]] bool ask(std::span<const std::byte> message) {
    return send_all(fd_, message) && receive_all(fd_, back_) && back_.front() == message.front();
  }
  [[nodiscard]] static std::string why() { return "the peer did not answer on the bare socket"; }

 private:
  int fd_;
  std::vector<std::byte> back_;
};

class LaneAsker {
 public:
  explicit LaneAsker(Client& client) : client_(client) {}
  [[nodiscard]] bool ask(std::span<const std::byte> message) {
    const auto response = client_.call(message, kPatience);
    if (!response) error_ = response.error();
    return response && response->size() == message.size() && *response->data() == message.front();
  }
  [[nodiscard]] std::string why() const { return error_.text.empty() ? "a wrong answer" : error_.text; }

 private:
  Client& client_;
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
  budget.message.front() = kLast;
  const bool ended = asker.ask(budget.message);
  budget.message.front() = std::byte{0};
  return ended;
}

Result<void> measure_pipelined(Client& client, Budget& budget, std::uint32_t in_flight, Count& count) {
  std::vector<Call> calls(in_flight);
  std::uint64_t sent = 0;
  const std::int64_t start = base::monotonic_ns();
  for (bool more = true; more;) {
    Call& call = calls[sent % in_flight];
    if (sent >= in_flight) {
      if (auto answered = call.wait(kPatience); !answered) return tl::unexpected(answered.error());
    }
    auto next = client.start(budget.message);
    if (!next) return tl::unexpected(next.error());
    call = std::move(*next);
    ++sent;
    more = sent % kRequestsPerLookAtTime != 0 || base::monotonic_ns() - start < budget.ns;
  }
  for (Call& call : calls) {
    if (!call.pending()) continue;
    if (auto answered = call.wait(kPatience); !answered) return tl::unexpected(answered.error());
  }
  count.done = sent;
  count.took_ns = base::monotonic_ns() - start;
  budget.message.front() = kLast;
  const auto ended = client.call(budget.message, kPatience);
  budget.message.front() = std::byte{0};
  return ended ? Result<void>() : tl::unexpected(ended.error());
}

struct Lanes {
  std::string requests;
  std::string responses;
};

/// In the processes, which know their directory.
Lanes lanes_of(const Options& options, const std::array<std::uint16_t, 2>& ports) {
  if (options.transport == Over::kTcp) {
    return {fmt::format("lane.tcp://127.0.0.1:{}/rpc-requests", ports[0]),
            fmt::format("lane.tcp://127.0.0.1:{}/rpc-responses", ports[1])};
  }
  const char* const directory = std::getenv("FRAMELANE_DIR");
  const std::string path = fmt::format("lane.{}://{}/rpc", word_of(options.transport), directory);
  return {path + "-requests", path + "-responses"};
}

template <class Settings>
Settings settings_of(const Options& options, const Lanes& lanes) {
  Settings settings;
  settings.requests = lanes.requests;
  settings.responses = lanes.responses;
  settings.burst = options.in_flight;
  settings.max_request_size = options.size;
  settings.max_response_size = options.size;
  settings.spin = options.spin;
  return settings;
}

struct Setting {
  SocketPair uds;
  SocketPair tcp;
  std::array<std::uint16_t, 2> ports;
  CpuPair cpus;
};

int asking_process(const Options& options, const Setting& setting, Shared& shared) {
  if (auto pinned = base::pin_this_thread(setting.cpus[0]); !pinned) return report_failure(pinned.error().text);
  auto client = Client::open(settings_of<ClientSettings>(options, lanes_of(options, setting.ports)));
  if (!client) return report_failure(client.error().text);
  if (auto reserved = client->reserve(options.size); !reserved) return report_failure(reserved.error().text);
  Budget budget{static_cast<std::int64_t>(options.seconds * 1e9 / options.rounds / kParts), {}};
  budget.message.assign(options.size, kLast);
  if (auto met = client->call(budget.message, 2 * kPatience); !met) return report_failure(met.error().text);
  budget.message.assign(options.size, std::byte{0});
  BareAsker uds(setting.uds[0].get(), options.size);
  BareAsker tcp(setting.tcp[0].get(), options.size);
  LaneAsker lane(*client);
  for (std::uint32_t round = 0; round < options.rounds; ++round) {
    const auto one_by_one = [&](auto& asker, Part part) {
      return measure_one_by_one(asker, budget, shared.room(round, part), shared.count(round, part));
    };
    if (!one_by_one(uds, kBareUds) || !one_by_one(tcp, kBareTcp)) return report_failure(BareAsker::why());
    if (!one_by_one(lane, kOneByOne)) return report_failure(lane.why());
    auto done = measure_pipelined(*client, budget, options.in_flight, shared.count(round, kPipelined));
    if (!done) return report_failure(done.error().text);
  }
  return kOk;
}

int answering_process(const Options& options, const Setting& setting) {
  if (auto pinned = base::pin_this_thread(setting.cpus[1]); !pinned) return report_failure(pinned.error().text);
  auto server = Server::open(settings_of<ServerSettings>(options, lanes_of(options, setting.ports)));
  if (!server) return report_failure(server.error().text);
  if (auto reserved = server->reserve(options.size); !reserved) return report_failure(reserved.error().text);
  if (auto met = echo_lane(*server); !met) return report_failure(met.error().text);
  std::vector<std::byte> message(options.size);
  for (std::uint32_t round = 0; round < options.rounds; ++round) {
    if (!echo_bare(setting.uds[1].get(), message) || !echo_bare(setting.tcp[1].get(), message))
      return report_failure(BareAsker::why());
    for (int part = 0; part < 2; ++part) {
      if (auto echoed = echo_lane(*server); !echoed) return report_failure(echoed.error().text);
    }
  }
  return kOk;
}

// --- figures

struct Outcome {
  std::array<measure::LatencySummary, kPipelined> parts;
  std::vector<double> requests_per_second;          // of each round
  std::array<std::vector<double>, 2> round_ratios;  // of the medians, to bare UDS and to bare TCP
};

Outcome evaluate(Shared& shared, std::uint32_t rounds) {
  Outcome outcome;
  std::array<std::vector<std::uint32_t>, kPipelined> all;
  for (std::uint32_t round = 0; round < rounds; ++round) {
    std::array<double, kPipelined> p50{};
    for (std::uint32_t part = 0; part < kPipelined; ++part) {
      const auto room = shared.room(round, part).first(shared.count(round, part).samples);
      std::vector<std::uint32_t> samples(room.begin(), room.end());
      all[part].insert(all[part].end(), samples.begin(), samples.end());
      p50[part] = static_cast<double>(summarize_samples(samples).p50_ns);
    }
    outcome.round_ratios[0].push_back(p50[kOneByOne] / std::max(p50[kBareUds], 1.0));
    outcome.round_ratios[1].push_back(p50[kOneByOne] / std::max(p50[kBareTcp], 1.0));
    const Count& count = shared.count(round, kPipelined);
    outcome.requests_per_second.push_back(static_cast<double>(count.done) * 1e9 /
                                          static_cast<double>(std::max<std::int64_t>(count.took_ns, 1)));
  }
  for (std::uint32_t part = 0; part < kPipelined; ++part) outcome.parts[part] = summarize_samples(all[part]);
  return outcome;
}

nlohmann::ordered_json spread_json(const std::vector<double>& values) {
  const auto [least, most] = std::minmax_element(values.begin(), values.end());
  return {{"median", median_of(values)}, {"min", *least}, {"max", *most}, {"all", values}};
}

void print_json(const Options& options, CpuPair cpus, const Outcome& outcome) {
  const nlohmann::ordered_json json{
      {"bench", "rpc"},
      {"transport", word_of(options.transport)},
      {"size", options.size},
      {"lane", to_json(outcome.parts[kOneByOne])},
      {"floor", {{"uds", to_json(outcome.parts[kBareUds])}, {"tcp", to_json(outcome.parts[kBareTcp])}}},
      {"ratio_p50_to_uds", spread_json(outcome.round_ratios[0])},
      {"ratio_p50_to_tcp", spread_json(outcome.round_ratios[1])},
      {"in_flight", options.in_flight},
      {"requests_per_second", spread_json(outcome.requests_per_second)},
      {"seconds", options.seconds},
      {"rounds", options.rounds},
      {"spin", to_string(options.spin)},
      {"cpus", cpus},
      {"pinned", true},
      {"clock_ns", clock_cost_ns()},
      {"machine", machine_json()}};
  fmt::print("{}\n", json.dump(2));
}

void print_text(const Options& options, CpuPair cpus, const Outcome& outcome) {
  fmt::print("Request and response of {} bytes over {}: {} rounds, CPUs {} and {}, spin {}\n", options.size,
             word_of(options.transport), options.rounds, cpus[0], cpus[1], to_string(options.spin));
  fmt::print("One reading of the clock, {:.0f} ns, is part of every sample.\n", clock_cost_ns());
  fmt::print("\nOne at a time\n{}\n{}\n{}\n{}\n", summary_heading(), summary_row("bare UDS", outcome.parts[kBareUds]),
             summary_row("bare TCP", outcome.parts[kBareTcp]), summary_row("lanes", outcome.parts[kOneByOne]));
  fmt::print("ratio of the medians, per round: to bare UDS {:.2f}, to bare TCP {:.2f}\n",
             median_of(outcome.round_ratios[0]), median_of(outcome.round_ratios[1]));
  const auto [least, most] =
      std::minmax_element(outcome.requests_per_second.begin(), outcome.requests_per_second.end());
  fmt::print("\n{} in flight: {:.0f} requests a second ({:.0f} to {:.0f})\n", options.in_flight,
             median_of(outcome.requests_per_second), *least, *most);
}

Result<Setting> set_up() {
  auto cpus = choose_cpus();
  if (!cpus) return tl::unexpected(cpus.error());
  auto uds = connect_uds_pair();
  if (!uds) return tl::unexpected(uds.error());
  auto tcp = connect_tcp_pair();
  if (!tcp) return tl::unexpected(tcp.error());
  const auto ports = free_ports();
  if (!ports) return tl::unexpected(ports.error());
  return Setting{std::move(*uds), std::move(*tcp), *ports, *cpus};
}

int run(const Options& options) {
  auto setting = set_up();
  if (!setting) return report_failure(setting.error().text);
  auto samples = SharedArray<std::uint32_t>::create(std::size_t{options.rounds} * kPipelined * kMostSamples);
  auto counts = SharedArray<Count>::create(std::size_t{options.rounds} * kParts);
  if (!samples || !counts) return report_failure("no memory for the samples; ask for fewer rounds");
  Shared shared{std::move(*samples), std::move(*counts)};
  const auto limit = std::chrono::seconds(static_cast<int>(options.seconds) + 1) + 10 * kPatience;
  const int code = run_pair({{{"asking", [&] { return asking_process(options, *setting, shared); }},
                              {"answering", [&] { return answering_process(options, *setting); }}}},
                            limit);
  if (code != kOk) return code;
  const Outcome outcome = evaluate(shared, options.rounds);
  if (options.json) {
    print_json(options, setting->cpus, outcome);
  } else {
    print_text(options, setting->cpus, outcome);
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
  command.add_option("--transport", options->transport, "Of the lanes: shm, uds or tcp (shm)")
      ->type_name("HOW")
      ->transform(CLI::CheckedTransformer(kTransportWords).description(""));
  command.add_option("--in-flight", options->in_flight, "Requests at a time in the pipelined part (64)")
      ->type_name("N")
      ->check(CLI::Range(1, 256));
  command.add_option("--seconds", options->seconds, "Of all parts and rounds (6)")
      ->type_name("S")
      ->check(CLI::Range(0.1, 600.0));
  command.add_option("--rounds", options->rounds, "Rounds of bare UDS, bare TCP, lanes (5)")
      ->type_name("N")
      ->check(CLI::Range(1, 100));
  add_spin_option(command, options->spin);
  command.add_flag("--json", options->json, "One JSON object");
  command.callback([options, &chosen] { chosen = [options] { return run(*options); }; });
}

}  // namespace framelane::cli
