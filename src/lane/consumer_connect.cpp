// SPDX-License-Identifier: MIT
// How a Consumer finds its producer, and finds one again: the negotiator.
#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <utility>

#include "framelane/base/log.hpp"

#include "base/clock.hpp"
#include "base/host.hpp"
#include "lane/consumer_core.hpp"
#include "lane/consumer_totals.hpp"
#include "lane/event_pump.hpp"
#include "lane/profile.hpp"
#include "lane/settings_check.hpp"
#include "transport/byte_stream.hpp"

namespace framelane::lane {
namespace {

constexpr std::int64_t kHandshakeNs = 5'000'000'000;
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

/// Why a way was taken that nothing failed before.
const char* reason_for(Transport transport) noexcept {
  switch (transport) {
    case Transport::kShm:
      return "same host, descriptors passed";
    case Transport::kTcp:
      return "the descriptor names a TCP address";
    default:
      return "the descriptor names a Unix domain socket";
  }
}

}  // namespace

Result<void> ConsumerCore::connect_here(std::int64_t deadline_ns) {
  while (connection_ == nullptr) {
    if (interrupted()) return fail(Code::kInterrupted);
    auto moved = connect_step(deadline_ns);
    if (!moved) return tl::unexpected(moved.error());
    if (!*moved) return fail(Code::kTimeout, "no producer of " + descriptor_ + " yet");
  }
  return {};
}

Result<bool> ConsumerCore::connect_step(std::int64_t until_ns) {
  if (final_) return tl::unexpected(*final_);
  const std::int64_t now = base::monotonic_ns();
  if (connect_until_ == 0) {
    // connect-timeout bounds the first connection only: a lane that was there once is worth waiting for.
    connect_until_ = totals_->connections == 0 ? base::deadline_after(settings_.connect_timeout) : base::kForever;
  }
  if (approach_ != nullptr) return await(until_ns);
  if (now >= next_try_) return try_way();
  if (now >= until_ns) return false;
  pause(std::min(next_try_, until_ns), -1, 0);
  return true;
}

ApproachSettings ConsumerCore::approach_settings() const {
  ApproachSettings wanted;
  wanted.hello.mode = settings_.mode == Mode::kLatest ? wire::Mode::kLatest : wire::Mode::kEvery;
  wanted.hello.gating = settings_.gating && settings_.mode == Mode::kEvery;
  wanted.hello.max_held = settings_.max_held;
  wanted.hello.abi_version = ring::kAbiVersion;
  wanted.hello.max_frame_size = settings_.max_frame_size;
  wanted.hello.name = program_invocation_short_name;
  wanted.connection.max_frame_size = settings_.max_frame_size;
  wanted.connection.max_held = settings_.max_held;
  wanted.connection.latest = settings_.mode == Mode::kLatest;
  wanted.connection.spin = spin_kind(settings_.spin);
  wanted.connection.spin_budget = settings_.spin_budget;
  wanted.psk_file = settings_.psk_file;
  wanted.turn = rounds_;
  const std::lock_guard lock(mutex_);
  wanted.connection.on_flush = flush_callback_;
  return wanted;
}

Result<bool> ConsumerCore::try_way() {
  const Way& way = ways_[way_];
  if (way.transport == Transport::kShm && shm_failed_) return way_failed({*shm_failed_, false});
  return begin_approach(way);
}

Result<bool> ConsumerCore::begin_approach(const Way& way) {
  auto begun = approach(way, approach_settings());
  if (!begun) return way_failed(begun.error());
  approach_ = std::move(*begun);
  approach_until_ = base::monotonic_ns() + kHandshakeNs;
  return true;
}

Result<bool> ConsumerCore::await(std::int64_t until_ns) {
  auto connection = approach_->step();
  if (!connection) return way_failed(std::move(connection.error()));
  if (*connection != nullptr) {
    approach_.reset();
    return found(*connection);
  }
  const std::int64_t now = base::monotonic_ns();
  cut_short_ = now < approach_until_ && now >= connect_until_;
  if (now >= approach_until_ || now >= connect_until_)
    return way_failed({{Code::kTimeout, "a producer is there, but doesn't answer"}, true});
  if (now >= until_ns) return false;
  pause(std::min({until_ns, approach_until_, connect_until_}), approach_->fd(), approach_->events());
  return true;
}

// --- success

Result<bool> ConsumerCore::found(Connection* connection) {
  if (spare_ != nullptr) {
    Connection* const spare = std::exchange(spare_, nullptr);
    const bool same = connection->instance_id() == spare->instance_id();
    (same ? spare : connection)->drop();
    if (!same) return adopt(spare, "");
    return adopt(connection, connection->transport() == Transport::kShm
                                 ? "the same instance was found on this host"
                                 : setbacks_in_words() + "; tcp was measured to be faster than uds here");
  }
  if (const auto way = better_way(*connection)) {
    spare_ = connection;
    return begin_approach(*way);
  }
  return adopt(connection, "");
}

/// Another way to the same producer, on this host, that is better than the one found, where nobody asked for just that:
/// its shared memory instead of TCP; or, where UDS is only what a name falls back to, TCP if that was measured to be
/// faster here.
std::optional<Way> ConsumerCore::better_way(const Connection& connection) const {
  const wire::Welcome& welcome = connection.welcome();
  if (settings_.transport != Transport::kAuto || welcome.boot_id != base::boot_id() || welcome.served.empty())
    return std::nullopt;
  const bool by_tcp = connection.transport() == Transport::kTcp;
  const bool by_fallback = connection.transport() == Transport::kUds && ways_[way_].is_fallback;
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

Result<bool> ConsumerCore::adopt(Connection* connection, std::string why) {
  std::string reason = setbacks_in_words();
  if (!why.empty()) reason = std::move(why);
  if (reason.empty()) reason = reason_for(connection->transport());
  connect_until_ = next_try_ = backoff_ns_ = 0;
  way_ = 0;
  setbacks_.clear();
  refusal_.reset();
  earlier_.reset();
  // The next producer may say none. Not from the pump's thread: the taking thread may be reading them.
  forget_caps_ = true;
  if (pump_ == nullptr) caps_.clear();
  ended_ = false;  // another producer's stream is another one, and waited for
  if (flush_told_) connection->events().emplace_front().event.type = format::EventType::kFlushStop;
  const std::string words = std::string(to_string(connection->transport())) + " (" + reason + ")";
  {
    const std::lock_guard lock(mutex_);
    set_connection(connection);
    producer_id_ = connection->instance_id();
    transport_ = connection->transport();
    transport_reason_ = std::move(reason);
    ++totals_->connections;
  }
  tell_connection(true);
  base::log(base::LogLevel::kInfo, "connected to " + descriptor_ + " by " + words);
  return true;
}

// --- failure

Result<bool> ConsumerCore::way_failed(Setback why) {
  approach_.reset();
  if (spare_ != nullptr) {  // the stream does, too
    Connection* const spare = std::exchange(spare_, nullptr);
    if (spare->transport() != Transport::kTcp)
      return adopt(spare, setbacks_in_words() + "; tcp, which is faster here: " + why.error.text);
    const auto is_shm = [](const auto& one) { return one.first == Transport::kShm; };
    if (std::none_of(setbacks_.begin(), setbacks_.end(), is_shm))
      setbacks_.push_back({Transport::kShm, std::move(why)});
    return adopt(spare, "");
  }
  const bool fallback = another_way_may_help(why);
  setbacks_.push_back({ways_[way_].transport, std::move(why)});
  do {
    ++way_;
  } while (way_ < ways_.size() && ways_[way_].is_fallback && !fallback);
  return way_ < ways_.size() ? Result<bool>(true) : round_failed();
}

/// Every way was tried once.
Result<bool> ConsumerCore::round_failed() {
  way_ = 0;
  ++rounds_;
  shm_failed_.reset();
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

std::string ConsumerCore::setbacks_in_words() const {
  std::string words;
  for (const auto& [transport, why] : setbacks_) {
    if (!words.empty()) words += "; ";
    words += std::string(to_string(transport)) + ": " + why.error.text;
  }
  return words;
}

Result<bool> ConsumerCore::retry_later(Error why) {
  const std::int64_t now = base::monotonic_ns();
  if (why.code == Code::kRefused) refusal_ = why;
  if (now >= connect_until_) {
    // The last try may have had no time for its answer; a refusal, or another whole try, before it says more.
    if (why.code == Code::kTimeout && refusal_) {
      why = *refusal_;
    } else if (cut_short_ && earlier_) {
      why = *earlier_;
    }
    refusal_.reset();
    earlier_.reset();
    connect_until_ = 0;
    next_try_ = 0;
    backoff_ns_ = 0;
    const Code code = why.code == Code::kRefused ? Code::kRefused : Code::kNotFound;
    const auto seconds = std::chrono::duration<double>(settings_.connect_timeout).count();
    char waited[32];
    std::snprintf(waited, sizeof waited, "%.3g s", seconds);
    return fail(code, "no connection to " + descriptor_ + " within " + waited + " (" + why.text +
                          "); start the producer, check the lane's name, or raise connect-timeout");
  }
  earlier_ = std::move(why);
  backoff_ns_ = backoff_ns_ == 0 ? kFirstBackoffNs : std::min(backoff_ns_ * 3 / 2, kMostBackoffNs);
  std::uniform_int_distribution<std::int64_t> spread(backoff_ns_ * 3 / 4, backoff_ns_ * 5 / 4);
  next_try_ = std::min(now + spread(jitter_), connect_until_);
  return true;
}

void ConsumerCore::pause(std::int64_t until_ns, int fd, short events) const noexcept {
  static_cast<void>(transport::wait_for(fd, events, interrupt_fd_.get(), until_ns));
}

}  // namespace framelane::lane
