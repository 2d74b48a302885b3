// SPDX-License-Identifier: MIT
#include "framelane/lane/observer.hpp"

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <system_error>
#include <thread>
#include <utility>

#include "framelane/descriptor/descriptor.hpp"

#include "base/clock.hpp"
#include "base/text.hpp"
#include "lane/approach.hpp"
#include "transport/control_socket.hpp"
#include "transport/lane_files.hpp"

namespace framelane {
namespace {

/// Between two requests: less often than what a producer takes for a flood.
constexpr std::int64_t kPaceNs = 12'000'000;
/// Old answers that are thrown away in one call.
constexpr int kMostStale = 16;

// --- finding

LaneState state_of(const std::string& path) {
  const auto socket = transport::ControlSocket::connect(path, transport::AcceptFds::kNo);
  if (socket) return LaneState::kAlive;
  switch (socket.error().code) {
    case Code::kTimeout:
      return LaneState::kBusy;
    case Code::kNotFound:
      return LaneState::kStale;
    default:
      return LaneState::kForeign;
  }
}

bool is_lane_name(const std::string& name) {
  const auto descriptor = descriptor::Descriptor::parse(name);
  return descriptor && !descriptor->is_list() && descriptor->name() == name;
}

tl::unexpected<Error> unreadable(const std::string& directory, const std::error_code& error) {
  return fail(Code::kSystem, "cannot list the lane directory " + base::quoted(directory) + ": " + error.message());
}

// --- statistics

ConsumerInfo consumer_of(wire::WatchedConsumer told) {
  ConsumerInfo info;
  info.id = told.id;
  info.pid = static_cast<std::int32_t>(told.pid);
  info.uid = told.uid;
  info.name = std::move(told.name);
  info.transport = told.via == wire::Via::kTcp   ? Transport::kTcp
                   : told.via == wire::Via::kUds ? Transport::kUds
                                                 : Transport::kShm;
  info.address = std::move(told.address);
  info.gating = told.gating;
  info.demoted = told.demoted;
  info.latest = told.latest;
  info.lag = told.lag;
  info.held = told.held;
  info.taken = told.taken;
  info.skipped = told.skipped;
  info.copied = told.copied;
  info.max_held = told.max_held;
  info.sleeping = told.sleeping;
  info.sleeps = told.sleeps;
  info.spins = told.spins;
  info.latency = told.latency;
  return info;
}

Leaky leaky_of(wire::FullPolicy policy) noexcept {
  switch (policy) {
    case wire::FullPolicy::kDropNew:
      return Leaky::kUpstream;
    case wire::FullPolicy::kPassOver:
      return Leaky::kDownstream;
    case wire::FullPolicy::kWait:
      break;
  }
  return Leaky::kNo;
}

LaneStats lane_stats_of(wire::Stats told) {
  LaneStats stats;
  stats.at_ns = static_cast<std::int64_t>(told.at_ns);
  stats.opened_ns = static_cast<std::int64_t>(told.opened_ns);
  stats.instance_id = told.instance_id;
  stats.pid = static_cast<std::int32_t>(told.pid);
  stats.program = std::move(told.program);
  stats.lane = std::move(told.lane);
  stats.descriptor = std::move(told.served);
  stats.caps = std::move(told.caps);
  stats.ended = told.ended;
  stats.leaky = leaky_of(told.when_full);
  stats.slot_size = told.slot_size;
  stats.slots = told.slots;
  stats.loans = told.loans;
  stats.burst = told.burst;
  stats.max_consumers = told.max_consumers;
  stats.published = told.published;
  stats.bytes = told.bytes;
  stats.dropped_full = told.dropped_full;
  stats.passed_over = told.passed_over;
  stats.full_waits = told.full_waits;
  stats.wakes = told.wakes;
  stats.demotions = told.demotions;
  stats.evictions = told.evictions;
  stats.copied = told.copied;
  for (wire::WatchedConsumer& consumer : told.consumers) {
    if (consumer.gating) stats.unread = std::max(stats.unread, consumer.lag);
    stats.consumers.push_back(consumer_of(std::move(consumer)));
  }
  return stats;
}

tl::unexpected<Error> too_old(Error error) {
  if (error.code == Code::kUnsupported) error.text += " (a producer of an older release can't be observed)";
  return tl::unexpected(std::move(error));
}

/// The first address that is a path on this host.
Result<std::string> socket_path_of(const std::string& lane) {
  const auto descriptor = descriptor::Descriptor::parse(lane);
  if (!descriptor) return tl::unexpected(descriptor.error());
  for (const descriptor::Address& address : descriptor->addresses()) {
    if (address.is_path()) return address.socket_path();
  }
  return fail(Code::kUnsupported, "\"" + descriptor->to_string() +
                                      "\" can't be observed: statistics are told over the control socket, a file on "
                                      "the producer's host; give the lane's name there, like cam0");
}

}  // namespace

std::string_view to_string(LaneState state) noexcept {
  switch (state) {
    case LaneState::kBusy:
      return "busy";
    case LaneState::kStale:
      return "stale";
    case LaneState::kForeign:
      return "foreign";
    case LaneState::kAlive:
      break;
  }
  return "alive";
}

Result<std::vector<FoundLane>> find_lanes(const std::string& directory) {
  const std::string place = directory.empty() ? descriptor::runtime_dir() : directory;
  if (place[0] != '/') {
    return fail(Code::kInvalidArgument, "the lane directory " + base::quoted(place) +
                                            " is no absolute path; set FRAMELANE_DIR to one that begins with /");
  }
  if (auto safe = transport::check_directory(place); !safe) {
    if (safe.error().code == Code::kNotFound) return std::vector<FoundLane>();
    return tl::unexpected(std::move(safe.error()));
  }
  std::vector<FoundLane> lanes;
  std::error_code error;
  // increment() by hand: the operator throws.
  for (std::filesystem::directory_iterator entry(place, error), end; !error && entry != end; entry.increment(error)) {
    std::error_code gone;
    const std::string name = entry->path().filename().string();
    if (is_lane_name(name) && entry->symlink_status(gone).type() == std::filesystem::file_type::socket)
      lanes.push_back({name, entry->path().string(), LaneState::kAlive});
  }
  if (error) return unreadable(place, error);
  std::sort(lanes.begin(), lanes.end(), [](const FoundLane& a, const FoundLane& b) { return a.name < b.name; });
  for (FoundLane& lane : lanes) lane.state = state_of(lane.path);
  return lanes;
}

struct Observer::State {
  explicit State(transport::ControlSocket connected) : socket(std::move(connected)) {}

  [[nodiscard]] Result<void> drop_stale();
  [[nodiscard]] Result<void> ask();
  [[nodiscard]] std::int64_t next_ns() const noexcept { return asked_ns + kPaceNs; }

  transport::ControlSocket socket;
  bool asked = false;        // and no answer yet
  bool asked_ahead = false;  // what comes answers ask()
  std::int64_t asked_ns = 0;
};

/// An answer to an earlier call, which had given up.
Result<void> Observer::State::drop_stale() {
  for (int i = 0; i < kMostStale; ++i) {
    auto received = socket.receive();
    if (!received) return tl::unexpected(std::move(received.error()));
    if (!*received) return {};
    const auto message = wire::decode((*received)->bytes);
    if (!message) return tl::unexpected(message.error());
    if (const auto* const reject = std::get_if<wire::Reject>(&message->message))
      return too_old(lane::error_of(*reject));
    asked = false;
  }
  return fail(Code::kProtocol, "the producer sends answers that nobody asked for");
}

Result<void> Observer::State::ask() {
  if (auto dropped = drop_stale(); !dropped) return dropped;
  // One at a time: a producer that stands still isn't asked again and again.
  if (asked) return {};
  auto sent = socket.send(wire::encode(wire::StatsRequest{}, 0));
  // It may have said why it hung up.
  if (!sent && sent.error().code == Code::kPeerLost) return drop_stale();
  if (!sent) return tl::unexpected(std::move(sent.error()));
  if (*sent == transport::SendOutcome::kWouldBlock) return fail(Code::kTimeout, "the producer doesn't read");
  asked = true;
  asked_ns = base::monotonic_ns();
  return {};
}

Observer::Observer(std::unique_ptr<State> state) noexcept : state_(std::move(state)) {}
Observer::Observer(Observer&&) noexcept = default;
Observer& Observer::operator=(Observer&&) noexcept = default;
Observer::~Observer() = default;

Result<Observer> Observer::connect(const std::string& lane) {
  const auto path = socket_path_of(lane);
  if (!path) return tl::unexpected(path.error());
  auto socket = transport::ControlSocket::connect(*path, transport::AcceptFds::kNo);
  if (!socket) return tl::unexpected(std::move(socket.error()));
  if (auto fine = lane::check_producer(socket->peer().uid, *path); !fine)
    return tl::unexpected(std::move(fine.error()));
  wire::Hello hello;
  hello.role = wire::Role::kObserver;
  hello.gating = false;
  hello.name = program_invocation_short_name;
  auto sent = socket->send(wire::encode(hello, 0));
  if (!sent) return tl::unexpected(std::move(sent.error()));
  return Observer(std::make_unique<State>(std::move(*socket)));
}

Result<void> Observer::ask() {
  if (base::monotonic_ns() < state_->next_ns()) return {};
  auto asked = state_->ask();
  state_->asked_ahead = asked && state_->asked;
  return asked;
}

Result<LaneStats> Observer::stats(std::chrono::nanoseconds timeout) {
  const std::int64_t deadline = base::deadline_after(timeout);
  if (!std::exchange(state_->asked_ahead, false)) {
    const std::int64_t wait = std::min(state_->next_ns(), deadline) - base::monotonic_ns();
    if (wait > 0) std::this_thread::sleep_for(std::chrono::nanoseconds(wait));
    if (auto asked = state_->ask(); !asked) return tl::unexpected(std::move(asked.error()));
  }
  auto received = state_->socket.receive_until(deadline);
  if (!received && received.error().code == Code::kTimeout)
    return fail(Code::kTimeout, "the producer does not answer: it is stopped, or very busy");
  if (!received) return tl::unexpected(std::move(received.error()));
  state_->asked = false;
  auto message = wire::decode(received->bytes);
  if (!message) return tl::unexpected(message.error());
  if (const auto* const reject = std::get_if<wire::Reject>(&message->message)) return too_old(lane::error_of(*reject));
  auto* const stats = std::get_if<wire::Stats>(&message->message);
  if (stats == nullptr) return fail(Code::kProtocol, "the producer answered with a message that is no STATS");
  return lane_stats_of(std::move(*stats));
}

}  // namespace framelane
