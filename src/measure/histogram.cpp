// SPDX-License-Identifier: MIT
#include "measure/histogram.hpp"

#include <algorithm>
#include <limits>

namespace framelane::measure {
namespace {

constexpr auto kRelaxed = std::memory_order_relaxed;
constexpr std::uint64_t kMost = std::numeric_limits<std::uint64_t>::max();

/// One reading of the counters: a peer may write while we look, so nothing is read twice.
struct Snapshot {
  std::array<std::uint64_t, kBuckets> counts;
  std::uint64_t total = 0;
  std::uint32_t first = 0;  // buckets that aren't empty; meaningless when total is 0
  std::uint32_t last = 0;
};

Snapshot read_counts(const HistogramCells& cells) noexcept {
  // So that no numbers, a peer's inventions included, overflow the total.
  constexpr std::uint64_t kMostPerBucket = kMost / kBuckets;
  Snapshot snapshot;
  for (std::uint32_t bucket = 0; bucket < kBuckets; ++bucket) {
    const std::uint64_t count = std::min(cells.counts[bucket].load(kRelaxed), kMostPerBucket);
    snapshot.counts[bucket] = count;
    if (count == 0) continue;
    if (snapshot.total == 0) snapshot.first = bucket;
    snapshot.last = bucket;
    snapshot.total += count;
  }
  return snapshot;
}

/// Answers rising ranks in one walk over the buckets.
class RankWalk {
 public:
  explicit RankWalk(const Snapshot& snapshot) noexcept : snapshot_(snapshot), bucket_(snapshot.first) {
    seen_ = snapshot_.counts[bucket_];
  }

  /// The value below or at which all but one `beyond`-th of the total lies (2 = median, 100 = p99). Nearest rank: the
  /// rank is total * (beyond - 1) / beyond, rounded up.
  std::uint64_t value_but_for(std::uint64_t beyond) noexcept {
    const std::uint64_t rank = snapshot_.total - snapshot_.total / beyond;
    while (seen_ < rank && bucket_ < snapshot_.last) seen_ += snapshot_.counts[++bucket_];
    return bucket_value(bucket_);
  }

 private:
  const Snapshot& snapshot_;
  std::uint32_t bucket_;
  std::uint64_t seen_;
};

std::uint64_t add_saturating(std::uint64_t a, std::uint64_t b) noexcept { return a > kMost - b ? kMost : a + b; }

}  // namespace

LatencySummary summarize(const HistogramCells& cells) noexcept {
  const std::uint64_t min_plus_1 = cells.min_ns_plus_1.load(kRelaxed);
  const std::uint64_t max = cells.max_ns.load(kRelaxed);
  const Snapshot snapshot = read_counts(cells);
  LatencySummary summary;
  if (snapshot.total == 0) return summary;
  summary.count = snapshot.total;
  // The exact extremes, where they fit the counts. They don't when the writer counted more since, or invents numbers.
  const bool min_fits = min_plus_1 != 0 && bucket_of(min_plus_1 - 1) == snapshot.first;
  const bool max_fits = bucket_of(max) == snapshot.last;
  summary.min_ns = min_fits ? min_plus_1 - 1 : bucket_value(snapshot.first);
  summary.max_ns = std::max(summary.min_ns, max_fits ? max : bucket_value(snapshot.last));
  RankWalk walk(snapshot);
  const auto percentile = [&](std::uint64_t beyond) noexcept {
    return std::clamp(walk.value_but_for(beyond), summary.min_ns, summary.max_ns);
  };
  summary.p50_ns = percentile(2);
  summary.p90_ns = percentile(10);
  summary.p99_ns = percentile(100);
  summary.p999_ns = percentile(1000);
  summary.p9999_ns = percentile(10000);
  return summary;
}

void merge(HistogramCells& into, const HistogramCells& from) noexcept {
  for (std::uint32_t bucket = 0; bucket < kBuckets; ++bucket) {
    auto& count = into.counts[bucket];
    count.store(add_saturating(count.load(kRelaxed), from.counts[bucket].load(kRelaxed)), kRelaxed);
  }
  into.max_ns.store(std::max(into.max_ns.load(kRelaxed), from.max_ns.load(kRelaxed)), kRelaxed);
  const std::uint64_t least_from = from.min_ns_plus_1.load(kRelaxed);
  const std::uint64_t least_into = into.min_ns_plus_1.load(kRelaxed);
  if (least_from != 0 && (least_into == 0 || least_from < least_into)) into.min_ns_plus_1.store(least_from, kRelaxed);
}

}  // namespace framelane::measure
