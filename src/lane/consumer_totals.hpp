// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>

#include "lane/consumer_core.hpp"
#include "measure/histogram.hpp"

namespace framelane::lane {

/// Counters of the connections of a consumer that are over.
struct ConsumerCore::Totals {
  std::uint64_t taken = 0;
  std::uint64_t skipped = 0;
  std::uint64_t copied = 0;
  std::uint64_t sleeps = 0;
  std::uint64_t spins = 0;
  std::uint64_t connections = 0;
  measure::HistogramCells latency{};

  void add(const Totals& other) noexcept {
    taken += other.taken;
    skipped += other.skipped;
    copied += other.copied;
    sleeps += other.sleeps;
    spins += other.spins;
    connections += other.connections;
    measure::merge(latency, other.latency);
  }

  void add(const Connection& connection) noexcept {
    constexpr auto relaxed = std::memory_order_relaxed;
    const ring::ConsumerPage& page = connection.page();
    taken += page.taken.load(relaxed);
    skipped += page.skipped.load(relaxed);
    copied += page.copied.load(relaxed);
    sleeps += page.sleeps.load(relaxed);
    spins += page.spins.load(relaxed);
    measure::merge(latency, page.latency);
  }
};

}  // namespace framelane::lane
