// SPDX-License-Identifier: MIT
#pragma once

#include <array>
#include <atomic>
#include <bit>
#include <cstdint>

#include "framelane/measure/latency.hpp"

namespace framelane::measure {

// Log-linear buckets after HdrHistogram: exact below 128, then 64 buckets an octave. A value is known to within half a
// bucket, 1/128 of itself, which keeps the promise of 1 %. The last octave begins at 2^46 ns (20 hours); longer counts
// there.
inline constexpr std::uint32_t kSubBuckets = 64;
inline constexpr std::uint32_t kOctaves = 41;
inline constexpr std::uint32_t kBuckets = kSubBuckets * (kOctaves + 1);

[[nodiscard]] constexpr std::uint32_t bucket_of(std::uint64_t value) noexcept {
  if (value < kSubBuckets) return static_cast<std::uint32_t>(value);
  const auto shift = static_cast<std::uint32_t>(std::bit_width(value)) - 7;  // value >> shift is in 64 .. 127
  const std::uint32_t bucket = kSubBuckets * shift + static_cast<std::uint32_t>(value >> shift);
  return bucket < kBuckets ? bucket : kBuckets - 1;
}

/// Middle of a bucket.
[[nodiscard]] constexpr std::uint64_t bucket_value(std::uint32_t bucket) noexcept {
  if (bucket < kSubBuckets) return bucket;
  const std::uint32_t shift = bucket / kSubBuckets - 1;
  const std::uint64_t low = std::uint64_t{kSubBuckets + bucket % kSubBuckets} << shift;
  return low + (std::uint64_t{1} << shift) / 2;
}

/// Longer ones count as this: far beyond the last bucket.
inline constexpr std::uint64_t kMostNs = std::uint64_t{1} << 63;

/// The counters as they lie in a consumer page: one writer, any readers. Plain data, all zero at first.
struct HistogramCells {
  std::atomic<std::uint64_t> max_ns;
  std::atomic<std::uint64_t> min_ns_plus_1;  // 0 = none yet
  std::atomic<std::uint64_t> counts[kBuckets];
};
static_assert(sizeof(HistogramCells) == 16 + 8 * kBuckets);

/// Adds one latency. One thread per histogram. Real time: about 3 ns, no call.
inline void record(HistogramCells& cells, std::uint64_t ns) noexcept {
  if (ns > kMostNs) ns = kMostNs;  // else the minimum, stored plus 1, would wrap to "none yet"
  constexpr auto relaxed = std::memory_order_relaxed;
  auto& count = cells.counts[bucket_of(ns)];
  count.store(count.load(relaxed) + 1, relaxed);
  if (ns > cells.max_ns.load(relaxed)) cells.max_ns.store(ns, relaxed);
  const std::uint64_t least = cells.min_ns_plus_1.load(relaxed);
  if (least == 0 || ns < least - 1) cells.min_ns_plus_1.store(ns + 1, relaxed);
}

/// Nearest-rank percentiles, min <= p50 <= ... <= max. The cells may be a peer's, who may be writing: each is read
/// once, and any numbers give some summary, never a fault. Threads: any. Takes some 21 KiB of stack.
[[nodiscard]] LatencySummary summarize(const HistogramCells& cells) noexcept;

/// Adds the counts of `from` to `into` (e.g. over several connections). Nobody else may write `into` meanwhile.
void merge(HistogramCells& into, const HistogramCells& from) noexcept;

}  // namespace framelane::measure
