// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>

namespace framelane::measure {

/// Percentiles of a set of latencies, in ns, nearest-rank, each within 1 % (the buckets' width). All 0 when count is 0.
struct LatencySummary {
  std::uint64_t count = 0;
  std::uint64_t min_ns = 0;
  std::uint64_t p50_ns = 0;
  std::uint64_t p90_ns = 0;
  std::uint64_t p99_ns = 0;
  std::uint64_t p999_ns = 0;
  std::uint64_t p9999_ns = 0;
  std::uint64_t max_ns = 0;

  friend bool operator==(const LatencySummary&, const LatencySummary&) = default;
};

}  // namespace framelane::measure
