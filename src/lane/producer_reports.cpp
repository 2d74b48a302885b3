// SPDX-License-Identifier: MIT
// What the application hears of its consumers: that they came and went, what they ask for, how they do.
#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/clock.hpp"
#include "lane/producer_core.hpp"
#include "measure/histogram.hpp"

namespace framelane::lane {

// --- coming and going

void ProducerCore::on_consumer(Producer::ConsumerCallback callback) {
  {
    const std::lock_guard lock(peers_mutex_);
    callback_ = std::move(callback);
  }
  // On the monitor's thread, so that nobody is announced twice, or after it went.
  monitor_->call([this] {
    std::vector<PeerPtr> peers;
    {
      const std::lock_guard lock(peers_mutex_);
      peers = peers_;
    }
    for (const PeerPtr& peer : peers) announce(*peer);
  });
}

void ProducerCore::announce(Peer& peer) {
  Producer::ConsumerCallback callback;
  {
    const std::lock_guard lock(peers_mutex_);
    callback = callback_;
  }
  if (!callback || std::exchange(peer.announced, true)) return;
  callback(peer.info, true, {});
}

void ProducerCore::announce_gone(const Peer& peer, std::string_view reason) {
  Producer::ConsumerCallback callback;
  {
    const std::lock_guard lock(peers_mutex_);
    callback = callback_;
  }
  if (callback && peer.announced) callback(peer.info, false, reason);
}

// --- requests

void ProducerCore::on_request_message(const PeerPtr& peer, format::Request request) {
  Producer::RequestCallback callback;
  {
    const std::lock_guard lock(peers_mutex_);
    if (closed_) return;
    peer->requests.push(std::move(request));
    if (std::exchange(requests_told_, true)) return;
    callback = request_callback_;
  }
  if (callback) callback();
}

std::vector<ConsumerRequest> ProducerCore::take_requests() {
  std::vector<ConsumerRequest> taken;
  const std::lock_guard lock(peers_mutex_);
  requests_told_ = false;
  for (const PeerPtr& peer : peers_) peer->requests.take(peer->id, taken);
  return taken;
}

void ProducerCore::on_request(Producer::RequestCallback callback) {
  {
    const std::lock_guard lock(peers_mutex_);
    request_callback_ = callback;
  }
  monitor_->call([&] {
    const auto waits = [this] {
      const std::lock_guard lock(peers_mutex_);
      return requests_told_;
    };
    if (callback && waits()) callback();
  });
}

// --- statistics

ConsumerInfo ProducerCore::info_of(const Peer& peer) const {
  constexpr auto relaxed = std::memory_order_relaxed;
  const ring::ConsumerLink& link = *peer.link;
  const ring::ConsumerPage& page = *link.page;
  ConsumerInfo info = peer.info;
  info.gating = link.gates.load(relaxed);
  info.demoted = link.demoted.load(relaxed);
  info.lag = writer_->lag(link);
  info.held = link.held_count();
  info.max_held = link.max_held;
  info.taken = page.taken.load(relaxed);
  info.skipped = page.skipped.load(relaxed);
  info.copied = page.copied.load(relaxed);
  info.sleeping = link.ticket().load(relaxed) != 0;
  info.sleeps = page.sleeps.load(relaxed);
  info.spins = page.spins.load(relaxed);
  info.latency = measure::summarize(page.latency);
  return info;
}

ProducerStats ProducerCore::stats() const {
  const ring::WriterCounters counters = writer_->counters();
  ProducerStats stats;
  stats.published = counters.published;
  stats.bytes = counters.bytes;
  stats.dropped_full = counters.dropped_full;
  stats.passed_over = counters.passed_over;
  stats.full_waits = counters.full_waits;
  stats.wakes = counters.wakes;
  stats.demotions = counters.demotions;
  stats.evictions = evictions_.load(std::memory_order_relaxed);
  stats.copied = copied_.load(std::memory_order_relaxed);
  writer_->inspect([&](const auto&, const ring::SlotPool& pool, std::uint32_t loans) {
    stats.loans = loans;
    stats.slots = pool.slots_in_use();
    stats.free_slots = pool.free_count();
  });
  std::vector<PeerPtr> peers;
  {
    const std::lock_guard lock(peers_mutex_);
    peers = peers_;
  }
  // Without a mutex, which a publish may want: reading a histogram takes microseconds.
  for (const PeerPtr& peer : peers) stats.consumers.push_back(info_of(*peer));
  return stats;
}

namespace {

wire::FullPolicy policy_of(Leaky leaky) noexcept {
  switch (leaky) {
    case Leaky::kUpstream:
      return wire::FullPolicy::kDropNew;
    case Leaky::kDownstream:
      return wire::FullPolicy::kPassOver;
    case Leaky::kNo:
      break;
  }
  return wire::FullPolicy::kWait;
}

wire::WatchedConsumer watched(const ConsumerInfo& info) {
  wire::WatchedConsumer told;
  told.id = info.id;
  told.pid = static_cast<std::uint32_t>(info.pid);
  told.uid = info.uid;
  told.name = info.name;
  told.via = info.transport == Transport::kTcp   ? wire::Via::kTcp
             : info.transport == Transport::kUds ? wire::Via::kUds
                                                 : wire::Via::kShm;
  told.address = info.address;
  told.latest = info.latest;
  told.gating = info.gating;
  told.demoted = info.demoted;
  told.sleeping = info.sleeping;
  told.max_held = info.max_held;
  told.held = info.held;
  told.lag = info.lag;
  told.taken = info.taken;
  told.skipped = info.skipped;
  told.copied = info.copied;
  told.sleeps = info.sleeps;
  told.spins = info.spins;
  told.latency = info.latency;
  return told;
}

/// What fits into a STATS, and "..." where the rest was.
std::string shortened(const std::string& caps) {
  static constexpr std::string_view kMore = "...";
  if (caps.size() <= wire::kMaxStatsCapsBytes) return caps;
  return caps.substr(0, wire::kMaxStatsCapsBytes - kMore.size()).append(kMore);
}

}  // namespace

// On the monitor's thread, and without a lock that the publishing thread wants for a frame: only the caps have one, for
// a pointer, which an event of new caps takes.
wire::Stats ProducerCore::observed() const {
  static_assert(ring::kMaxConsumers <= wire::kMaxWatched);
  const ring::WriterCounters counters = writer_->counters();
  const ring::Writer::Shape shape = writer_->shape();
  std::shared_ptr<const std::string> caps;
  {
    const std::lock_guard lock(caps_mutex_);
    caps = caps_;
  }
  wire::Stats stats;
  stats.at_ns = static_cast<std::uint64_t>(base::monotonic_ns());
  stats.opened_ns = static_cast<std::uint64_t>(opened_ns_);
  stats.instance_id = instance_id_;
  stats.pid = static_cast<std::uint32_t>(pid_);
  stats.program = program_invocation_short_name;
  stats.lane = place_.lane;
  stats.served = descriptor_;
  if (caps != nullptr) stats.caps = shortened(*caps);
  stats.ended = stream_.load(std::memory_order_relaxed) != Stream::kOpen;
  stats.when_full = policy_of(leaky_.load(std::memory_order_relaxed));
  stats.slot_size = shape.slot_size;
  stats.slots = shape.slots;
  stats.loans = shape.loans;
  stats.burst = shape.burst;
  stats.max_consumers = settings_.max_consumers;
  stats.published = counters.published;
  stats.bytes = counters.bytes;
  stats.dropped_full = counters.dropped_full;
  stats.passed_over = counters.passed_over;
  stats.full_waits = counters.full_waits;
  stats.wakes = counters.wakes;
  stats.demotions = counters.demotions;
  stats.evictions = evictions_.load(std::memory_order_relaxed);
  stats.copied = copied_.load(std::memory_order_relaxed);
  for (const PeerPtr& peer : watched_) stats.consumers.push_back(watched(info_of(*peer)));
  return stats;
}

}  // namespace framelane::lane
