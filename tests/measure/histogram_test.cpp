// SPDX-License-Identifier: MIT
#include "measure/histogram.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>
#include <memory>
#include <random>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

namespace framelane::measure {
namespace {

constexpr std::uint64_t kMost = std::numeric_limits<std::uint64_t>::max();
constexpr std::uint64_t kLimit = std::uint64_t{1} << 47;  // values below are known to 1 %

std::unique_ptr<HistogramCells> empty_cells() { return std::make_unique<HistogramCells>(); }

std::unique_ptr<HistogramCells> cells_of(const std::vector<std::uint64_t>& values) {
  auto cells = empty_cells();
  for (const std::uint64_t value : values) record(*cells, value);
  return cells;
}

/// The nearest-rank percentile of the values themselves: `per_10000` of 10,000.
std::uint64_t exact(const std::vector<std::uint64_t>& sorted, std::uint64_t per_10000) {
  const std::uint64_t rank = (sorted.size() * per_10000 + 9999) / 10000;
  return sorted[rank - 1];
}

void expect_within_one_percent(std::uint64_t got, std::uint64_t want) {
  const double error = std::abs(static_cast<double>(got) - static_cast<double>(want));
  EXPECT_LE(error, 0.01 * static_cast<double>(want)) << got << " for " << want;
}

void expect_matches(const LatencySummary& summary, std::vector<std::uint64_t> values) {
  std::sort(values.begin(), values.end());
  EXPECT_EQ(summary.count, values.size());
  EXPECT_EQ(summary.min_ns, values.front());
  EXPECT_EQ(summary.max_ns, values.back());
  expect_within_one_percent(summary.p50_ns, exact(values, 5000));
  expect_within_one_percent(summary.p90_ns, exact(values, 9000));
  expect_within_one_percent(summary.p99_ns, exact(values, 9900));
  expect_within_one_percent(summary.p999_ns, exact(values, 9990));
  expect_within_one_percent(summary.p9999_ns, exact(values, 9999));
}

void expect_in_order(const LatencySummary& s) {
  EXPECT_LE(s.min_ns, s.p50_ns);
  EXPECT_LE(s.p50_ns, s.p90_ns);
  EXPECT_LE(s.p90_ns, s.p99_ns);
  EXPECT_LE(s.p99_ns, s.p999_ns);
  EXPECT_LE(s.p999_ns, s.p9999_ns);
  EXPECT_LE(s.p9999_ns, s.max_ns);
}

/// Values with every magnitude equally likely.
std::vector<std::uint64_t> random_values(std::size_t count, std::uint32_t seed, std::uint64_t limit = kLimit) {
  std::mt19937_64 random(seed);
  std::uniform_real_distribution<double> exponent(0, std::log2(static_cast<double>(limit)));
  std::vector<std::uint64_t> values(count);
  for (auto& value : values) value = std::min(limit - 1, static_cast<std::uint64_t>(std::exp2(exponent(random))));
  return values;
}

TEST(Buckets, AreEnteredInOrderWithoutGaps) {
  std::uint32_t last = bucket_of(0);
  EXPECT_EQ(last, 0u);
  // Around each bucket's edges; between them nothing can change, since buckets are ranges.
  for (std::uint32_t bucket = 1; bucket < kBuckets; ++bucket) {
    const std::uint64_t middle = bucket_value(bucket);
    EXPECT_EQ(bucket_of(middle), bucket);
    EXPECT_GT(middle, bucket_value(bucket - 1));
    std::uint64_t low = bucket_value(bucket - 1);
    std::uint64_t high = middle;
    while (high - low > 1) {  // the first value of the bucket
      const std::uint64_t half = low + (high - low) / 2;
      (bucket_of(half) < bucket ? low : high) = half;
    }
    EXPECT_EQ(bucket_of(low), bucket - 1);
    EXPECT_EQ(bucket_of(high), bucket);
  }
}

TEST(Buckets, KnowAValueToOnePercent) {
  for (std::uint64_t value = 0; value < 100'000; ++value) {
    expect_within_one_percent(bucket_value(bucket_of(value)), value);
    if (value < 128) {
      EXPECT_EQ(bucket_value(bucket_of(value)), value);
    }
  }
  for (const std::uint64_t value : random_values(200'000, 1)) {
    expect_within_one_percent(bucket_value(bucket_of(value)), value);
  }
  expect_within_one_percent(bucket_value(bucket_of(kLimit - 1)), kLimit - 1);
}

TEST(Buckets, PutWhatIsTooLongIntoTheLastOne) {
  EXPECT_EQ(bucket_of(kLimit), kBuckets - 1);
  EXPECT_EQ(bucket_of(kMost), kBuckets - 1);
}

TEST(Summary, OfNothingIsAllZero) {
  const LatencySummary summary = summarize(*empty_cells());
  EXPECT_EQ(summary.count, 0u);
  EXPECT_EQ(summary.min_ns, 0u);
  EXPECT_EQ(summary.p50_ns, 0u);
  EXPECT_EQ(summary.max_ns, 0u);
}

TEST(Summary, OfOneValueIsThatValueEverywhere) {
  for (const std::uint64_t value : {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{129}, std::uint64_t{1'234'567}}) {
    const LatencySummary summary = summarize(*cells_of({value}));
    EXPECT_EQ(summary.count, 1u);
    EXPECT_EQ(summary.min_ns, value);
    EXPECT_EQ(summary.p50_ns, value);
    EXPECT_EQ(summary.p9999_ns, value);
    EXPECT_EQ(summary.max_ns, value);
  }
}

TEST(Summary, TakesTheNearestRank) {
  // Values below 128 are exact, so that a rank that is off by one shows.
  std::vector<std::uint64_t> values;
  for (std::uint64_t value = 1; value <= 100; ++value) values.push_back(value);
  LatencySummary summary = summarize(*cells_of(values));
  EXPECT_EQ(summary.p50_ns, 50u);
  EXPECT_EQ(summary.p90_ns, 90u);
  EXPECT_EQ(summary.p99_ns, 99u);
  EXPECT_EQ(summary.p999_ns, 100u);
  values.push_back(101);
  summary = summarize(*cells_of(values));
  EXPECT_EQ(summary.p50_ns, 51u);
  EXPECT_EQ(summary.p90_ns, 91u);
  EXPECT_EQ(summary.p99_ns, 100u);
}

TEST(Summary, IsWithinOnePercentOfTheSortedValues) {
  for (std::uint32_t seed = 1; seed <= 20; ++seed) {
    const auto values = random_values(1 + seed * 997, seed);
    expect_matches(summarize(*cells_of(values)), values);
  }
}

TEST(Summary, IsWithinOnePercentOfLatenciesAsTheyAre) {
  std::mt19937_64 random(7);
  std::lognormal_distribution<double> latency(6.0, 1.0);  // a median of 400 ns and a long tail
  std::vector<std::uint64_t> values(100'000);
  for (auto& value : values) value = static_cast<std::uint64_t>(latency(random));
  expect_matches(summarize(*cells_of(values)), values);
}

TEST(Summary, KeepsTheExactMaximumOfWhatIsTooLong) {
  const LatencySummary summary = summarize(*cells_of({5, kLimit * 8}));
  EXPECT_EQ(summary.min_ns, 5u);
  EXPECT_EQ(summary.max_ns, kLimit * 8);
  expect_in_order(summary);
}

TEST(Summary, CountsEvenTheLargestNumber) {
  const LatencySummary summary = summarize(*cells_of({kMost}));
  EXPECT_EQ(summary.count, 1u);
  EXPECT_GE(summary.min_ns, kLimit);
  expect_in_order(summary);
}

TEST(Summary, StaysInOrderWhateverAPeerWrites) {
  std::mt19937_64 random(3);
  const std::uint64_t favourites[] = {0, 1, 2, 63, 64, kLimit, kMost, kMost - 1, kMost / 2};
  const auto any = [&] { return random() % 2 == 0 ? favourites[random() % std::size(favourites)] : random(); };
  for (int round = 0; round < 300; ++round) {
    auto cells = empty_cells();
    const bool dense = round % 2 == 0;
    for (auto& count : cells->counts) count = dense || random() % 500 == 0 ? any() : 0;
    cells->max_ns = any();
    cells->min_ns_plus_1 = any();
    expect_in_order(summarize(*cells));
  }
}

TEST(Summary, DoesNotOverflowWhenAllCountersAreFull) {
  auto cells = empty_cells();
  for (auto& count : cells->counts) count = kMost;
  const LatencySummary summary = summarize(*cells);
  EXPECT_GT(summary.count, kMost / 2);
  expect_within_one_percent(summary.p50_ns, bucket_value((kBuckets - 1) / 2));
  expect_in_order(summary);
}

TEST(Summary, BelievesCountsRatherThanExtremesThatDoNotFitThem) {
  auto cells = cells_of({1000, 2000, 3000});
  cells->max_ns = 5;
  cells->min_ns_plus_1 = kMost;
  const LatencySummary summary = summarize(*cells);
  expect_within_one_percent(summary.min_ns, 1000);
  expect_within_one_percent(summary.p50_ns, 2000);
  expect_within_one_percent(summary.max_ns, 3000);
  expect_in_order(summary);
}

TEST(Summary, MayBeTakenWhileThePeerRecords) {
  auto cells = empty_cells();
  std::atomic<bool> stop{false};
  std::thread writer([&] {
    const auto values = random_values(4096, 11);
    for (std::size_t i = 0; !stop; i = (i + 1) % values.size()) record(*cells, values[i]);
  });
  std::uint64_t last = 0;
  while (last < 100'000) {
    const LatencySummary summary = summarize(*cells);
    expect_in_order(summary);
    EXPECT_GE(summary.count, last);
    last = summary.count;
  }
  stop = true;
  writer.join();
}

TEST(Merge, IsAsIfOneHadRecordedAll) {
  const auto first = random_values(5000, 21);
  const auto second = random_values(3000, 22);
  auto merged = cells_of(first);
  merge(*merged, *cells_of(second));
  std::vector<std::uint64_t> both = first;
  both.insert(both.end(), second.begin(), second.end());
  expect_matches(summarize(*merged), both);
}

TEST(Merge, OfNothingChangesNothing) {
  const auto values = random_values(100, 23);
  auto cells = cells_of(values);
  merge(*cells, *empty_cells());
  expect_matches(summarize(*cells), values);
  auto none = empty_cells();
  merge(*none, *cells);
  expect_matches(summarize(*none), values);
}

TEST(Merge, KeepsTheSmallerMinimumZeroIncluded) {
  auto cells = cells_of({10});
  merge(*cells, *cells_of({0}));
  EXPECT_EQ(summarize(*cells).min_ns, 0u);
  merge(*cells, *cells_of({5}));
  EXPECT_EQ(summarize(*cells).min_ns, 0u);
}

TEST(Merge, DoesNotWrapAroundOnHostileCounts) {
  auto hostile = empty_cells();
  for (auto& count : hostile->counts) count = kMost;
  auto cells = cells_of({100, 100, 100});
  merge(*cells, *hostile);
  EXPECT_EQ(cells->counts[100], kMost);
}

}  // namespace
}  // namespace framelane::measure
