// SPDX-License-Identifier: MIT
// What the application hears of its consumers: that they came and went, what they ask for, how they do.
#include <algorithm>
#include <utility>

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

ProducerStats ProducerCore::stats() const {
  constexpr auto relaxed = std::memory_order_relaxed;
  const ring::WriterCounters counters = writer_->counters();
  ProducerStats stats;
  stats.published = counters.published;
  stats.dropped_full = counters.dropped_full;
  stats.passed_over = counters.passed_over;
  stats.full_waits = counters.full_waits;
  stats.wakes = counters.wakes;
  stats.demotions = counters.demotions;
  stats.evictions = evictions_.load(relaxed);
  stats.copied = copied_.load(relaxed);
  std::vector<std::shared_ptr<ring::ConsumerLink>> seen;
  writer_->inspect([&](const auto& links, const ring::SlotPool& pool, std::uint32_t loans) {
    stats.loans = loans;
    stats.slots = pool.slots_in_use();
    stats.free_slots = pool.free_count();
    const std::lock_guard lock(peers_mutex_);
    for (const auto& link : links) {
      const auto found =
          std::find_if(peers_.begin(), peers_.end(), [&](const PeerPtr& peer) { return peer->id == link->id; });
      if (found == peers_.end()) continue;
      ConsumerInfo& info = stats.consumers.emplace_back((*found)->info);
      info.gating = link->gates;
      info.demoted = link->demoted;
      info.lag = writer_->lag(*link);
      seen.push_back(link);
    }
  });
  // Without the mutex, which a publish may want: reading a histogram takes microseconds.
  for (std::size_t i = 0; i < seen.size(); ++i) {
    const ring::ConsumerPage& page = *seen[i]->page;
    ConsumerInfo& info = stats.consumers[i];
    info.held = seen[i]->held_count();
    info.taken = page.taken.load(relaxed);
    info.skipped = page.skipped.load(relaxed);
    info.copied = page.copied.load(relaxed);
    info.latency = measure::summarize(page.latency);
  }
  return stats;
}

}  // namespace framelane::lane
