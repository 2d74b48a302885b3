// SPDX-License-Identifier: MIT
#include "lane/negotiation.hpp"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>

#include <unistd.h>

#include "framelane/base/log.hpp"
#include "framelane/descriptor/descriptor.hpp"

#include "base/clock.hpp"
#include "base/host.hpp"
#include "lane/profile.hpp"
#include "lane/settings_check.hpp"
#include "ring/layout.hpp"
#include "transport/byte_stream.hpp"

namespace framelane::lane {
namespace {

constexpr std::int64_t kHandshakeNs = 5'000'000'000;
constexpr std::int64_t kLookNs = 100'000'000;  // at whether the one who doesn't answer has died
constexpr std::int64_t kFirstBackoffNs = 20'000'000;
constexpr std::int64_t kMostBackoffNs = 250'000'000;

/// The producer is there, but this way can't be had with it: another one may.
bool another_way_may_help(const Setback& why) noexcept {
  switch (why.error.code) {
    case Code::kUnsupported:
    case Code::kNoMemory:
    case Code::kSystem:
    case Code::kProtocol:
      return true;
    default:
      return false;
  }
}

}  // namespace

Negotiation::Negotiation(const ConsumerSettings& settings, std::string descriptor, std::vector<Way> ways,
                         int interrupt_fd)
    : settings_(settings),
      descriptor_(std::move(descriptor)),
      ways_(std::move(ways)),
      interrupt_fd_(interrupt_fd),
      jitter_(static_cast<std::uint32_t>(base::monotonic_ns()) ^ static_cast<std::uint32_t>(getpid())) {}

Negotiation::~Negotiation() { end(); }

void Negotiation::end() noexcept {
  approach_.reset();
  spare_.reset();
  if (Connection* const found = take_found().connection; found != nullptr) found->drop();
  let_former_go();
}

void Negotiation::forget() noexcept {
  found_.connection = former_ = nullptr;
  static_cast<void>(approach_.release());
  static_cast<void>(spare_.release());
}

Result<Negotiation::Progress> Negotiation::step(std::int64_t until_ns, bool first) {
  const std::int64_t now = base::monotonic_ns();
  // connect-timeout bounds the first connection only: a lane that was there once is worth waiting for.
  if (connect_until_ == 0) connect_until_ = first ? base::deadline_after(settings_.connect_timeout) : base::kForever;
  if (approach_ != nullptr) return await(until_ns);
  if (now >= next_try_) return try_way();
  if (now >= until_ns) return Progress::kLate;
  pause(std::min(next_try_, until_ns));
  return Progress::kMoved;
}

ApproachSettings Negotiation::approach_settings() const {
  ApproachSettings wanted;
  wanted.hello.mode = settings_.mode == Mode::kLatest ? wire::Mode::kLatest : wire::Mode::kEvery;
  wanted.hello.gating = settings_.gating && settings_.mode == Mode::kEvery;
  wanted.hello.max_held = settings_.max_held;
  wanted.hello.abi_version = ring::kAbiVersion;
  wanted.hello.max_frame_size = settings_.max_frame_size;
  wanted.hello.name = program_invocation_short_name;
  wanted.hello.resume = resume_;
  wanted.connection.max_frame_size = settings_.max_frame_size;
  wanted.connection.max_held = settings_.max_held;
  wanted.connection.latest = settings_.mode == Mode::kLatest;
  wanted.connection.spin = spin_kind(settings_.spin);
  wanted.connection.spin_budget = settings_.spin_budget;
  wanted.psk_file = settings_.psk_file;
  wanted.turn = rounds_;
  wanted.connection.on_flush = on_flush_;
  return wanted;
}

Negotiation::Step Negotiation::try_way() {
  const Way& way = ways_[way_];
  if (way.transport == Transport::kShm && shm_failed_) return way_failed({*shm_failed_, false});
  return begin_approach(way);
}

Negotiation::Step Negotiation::begin_approach(const Way& way) {
  auto begun = approach(way, approach_settings());
  if (!begun) return way_failed(begun.error());
  approach_ = std::move(*begun);
  approach_until_ = base::monotonic_ns() + kHandshakeNs;
  return Progress::kMoved;
}

Negotiation::Step Negotiation::await(std::int64_t until_ns) {
  auto connection = approach_->step();
  if (!connection) return way_failed(std::move(connection.error()));
  if (*connection != nullptr) {
    approach_.reset();
    return found(*connection);
  }
  const wire::Welcome* const half = approach_->half_way();
  if (half != nullptr && spare_ == nullptr && passed_over_.empty()) {
    if (const auto way = better_way(*half)) {
      spare_ = std::move(approach_);
      return begin_approach(*way);
    }
  }
  const std::int64_t now = base::monotonic_ns();
  cut_short_ = now < approach_until_ && now >= connect_until_;
  if (now >= approach_until_ || now >= connect_until_)
    return way_failed({{Code::kTimeout, "a producer is there, but doesn't answer"}, true});
  if (now >= until_ns) return Progress::kLate;
  pause(std::min({until_ns, approach_until_, connect_until_, now + kLookNs}), approach_->fd(), approach_->events());
  return Progress::kMoved;
}

// --- success

/// Another way to the same producer, on this host, that is better than the one that is being greeted, where nobody
/// asked for just that: its shared memory instead of TCP; or, where UDS is only what a name falls back to, TCP if that
/// was measured to be faster here. Asked before the producer counts us: what it publishes then isn't lost in the move.
std::optional<Way> Negotiation::better_way(const wire::Welcome& welcome) const {
  if (settings_.transport != Transport::kAuto || welcome.boot_id != base::boot_id() || welcome.served.empty())
    return std::nullopt;
  const bool by_tcp = ways_[way_].transport == Transport::kTcp;
  const bool by_fallback = ways_[way_].transport == Transport::kUds && ways_[way_].is_fallback;
  if (by_tcp && shm_failed_) return std::nullopt;
  // With a key TCP costs more than what was measured, and the producer's key may be another one.
  if (by_fallback && (!settings_.psk_file.empty() || faster_stream() != Transport::kTcp)) return std::nullopt;
  if (!by_tcp && !by_fallback) return std::nullopt;
  const auto served = descriptor::Descriptor::parse(welcome.served);
  if (!served) return std::nullopt;
  auto ways = consumer_ways(*served, by_tcp ? Transport::kShm : Transport::kTcp);
  if (!ways) return std::nullopt;
  const auto near = std::find_if(ways->begin(), ways->end(), [&](const Way& way) {
    return by_tcp || way.host == "::1" || way.host.starts_with("127.");
  });
  return near != ways->end() ? std::optional(std::move(*near)) : std::nullopt;
}

Negotiation::Step Negotiation::found(Connection* connection) {
  if (spare_ != nullptr && connection->instance_id() != spare_->half_way()->instance_id) {
    connection->drop();
    approach_ = std::move(spare_);
    passed_over_ = "another instance answers there";
    return Progress::kMoved;
  }
  found_ = {connection, reason_for(*connection)};
  spare_.reset();
  let_former_go();
  resume_ = {};
  begin_anew();
  return Progress::kFound;
}

/// Why it is that transport.
std::string Negotiation::reason_for(const Connection& connection) const {
  const bool moved = spare_ != nullptr;
  const std::string words = setbacks_in_words();
  if (moved && connection.transport() == Transport::kShm) return "the same instance was found on this host";
  if (moved) return words + "; tcp was measured to be faster than uds here";
  if (!words.empty()) {
    const bool by_uds = connection.transport() == Transport::kUds && !passed_over_.empty();
    return by_uds ? words + "; tcp, which is faster here: " + passed_over_ : words;
  }
  if (settings_.transport != Transport::kAuto)
    return "asked for: transport=" + std::string(to_string(settings_.transport));
  switch (connection.transport()) {
    case Transport::kShm:
      return "same host, descriptors passed";
    case Transport::kTcp:
      return "the descriptor names a TCP address";
    default:
      return "the descriptor names a Unix domain socket";
  }
}

void Negotiation::begin_anew() noexcept {
  connect_until_ = next_try_ = backoff_ns_ = 0;
  way_ = 0;
  setbacks_.clear();
  passed_over_.clear();
  refusal_.reset();
  earlier_.reset();
}

// --- taking up the lane

bool Negotiation::goes_on_without_memory(Connection* connection, const Error& why) {
  const bool lacking = why.code == Code::kNoMemory || why.code == Code::kUnsupported || why.code == Code::kSystem;
  if (!lacking || connection->transport() != Transport::kShm || ways_.size() < 2) return false;
  base::log(base::LogLevel::kWarning,
            "lost the shared memory of " + descriptor_ + " (" + why.text + "); going on over another transport");
  shm_failed_ = why;
  resume_ = {connection->instance_id(), connection->cursor()};
  former_ = connection;
  return true;
}

void Negotiation::let_former_go() noexcept {
  if (former_ != nullptr) let_go(std::exchange(former_, nullptr));
}

// --- failure

Negotiation::Step Negotiation::way_failed(Setback why) {
  approach_.reset();
  if (spare_ != nullptr) {  // the stream does, too
    approach_ = std::move(spare_);
    approach_until_ = base::monotonic_ns() + kHandshakeNs;
    better_way_failed(std::move(why));
    return Progress::kMoved;
  }
  passed_over_.clear();
  const bool fallback = another_way_may_help(why);
  setbacks_.push_back({ways_[way_].transport, std::move(why)});
  do {
    ++way_;
  } while (way_ < ways_.size() && ways_[way_].is_fallback && !fallback);
  return way_ < ways_.size() ? Step(Progress::kMoved) : round_failed();
}

void Negotiation::better_way_failed(Setback why) {
  passed_over_ = why.error.text;
  const auto is_shm = [](const auto& one) { return one.first == Transport::kShm; };
  if (ways_[way_].transport == Transport::kTcp && std::none_of(setbacks_.begin(), setbacks_.end(), is_shm))
    setbacks_.push_back({Transport::kShm, std::move(why)});
}

/// Every way was tried once.
Negotiation::Step Negotiation::round_failed() {
  way_ = 0;
  ++rounds_;
  shm_failed_.reset();
  let_former_go();  // it may be what keeps the next one out
  // The one that another try may mend says what is waited for; else the first, which was preferred.
  const auto passing =
      std::find_if(setbacks_.begin(), setbacks_.end(), [](const auto& one) { return one.second.passing; });
  const bool again = passing != setbacks_.end();
  Error why = (again ? *passing : setbacks_.front()).second.error;
  if (setbacks_.size() > 1) why.text = setbacks_in_words();
  setbacks_.clear();
  if (again) return retry_later(std::move(why));
  connect_until_ = 0;
  return tl::unexpected(std::move(why));
}

std::string Negotiation::setbacks_in_words() const {
  std::string words;
  for (const auto& [transport, why] : setbacks_) {
    if (!words.empty()) words += "; ";
    words += std::string(to_string(transport)) + ": " + why.error.text;
  }
  return words;
}

Negotiation::Step Negotiation::retry_later(Error why) {
  const std::int64_t now = base::monotonic_ns();
  if (why.code == Code::kRefused) refusal_ = why;
  if (now >= connect_until_) {
    Error over = out_of_time(std::move(why));
    begin_anew();
    return tl::unexpected(std::move(over));
  }
  earlier_ = std::move(why);
  backoff_ns_ = backoff_ns_ == 0 ? kFirstBackoffNs : std::min(backoff_ns_ * 3 / 2, kMostBackoffNs);
  std::uniform_int_distribution<std::int64_t> spread(backoff_ns_ * 3 / 4, backoff_ns_ * 5 / 4);
  next_try_ = std::min(now + spread(jitter_), connect_until_);
  return Progress::kMoved;
}

Error Negotiation::out_of_time(Error why) const {
  // The last try may have had no time for its answer; a refusal, or another whole try, before it says more.
  if (why.code == Code::kTimeout && refusal_) {
    why = *refusal_;
  } else if (cut_short_ && earlier_) {
    why = *earlier_;
  }
  const auto seconds = std::chrono::duration<double>(settings_.connect_timeout).count();
  char waited[32];
  std::snprintf(waited, sizeof waited, "%.3g s", seconds);
  return {why.code == Code::kRefused ? Code::kRefused : Code::kNotFound,
          "no connection to " + descriptor_ + " within " + waited + " (" + why.text +
              "); start the producer, check the lane's name, or raise connect-timeout"};
}

void Negotiation::pause(std::int64_t until_ns, int fd, short events) const noexcept {
  static_cast<void>(transport::wait_for(fd, events, interrupt_fd_, until_ns));
}

}  // namespace framelane::lane
