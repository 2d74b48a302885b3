// SPDX-License-Identifier: MIT
#include "measure/clock_filter.hpp"

#include <cstdlib>
#include <limits>
#include <random>

#include <gtest/gtest.h>

namespace framelane::measure {
namespace {

constexpr std::int64_t kSecond = 1'000'000'000;
constexpr std::int64_t kLeast = std::numeric_limits<std::int64_t>::min();
constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();

TEST(ClockFilter, KnowsNothingBeforeTheFirstExchange) {
  const ClockFilter filter;
  EXPECT_TRUE(filter.empty());
  EXPECT_EQ(filter.estimate(kSecond).offset_ns, 0);
  EXPECT_EQ(filter.estimate(kSecond).error_ns, 0);
}

TEST(ClockFilter, OneExchangeTellsTheOffsetToHalfItsTime) {
  ClockFilter filter;
  ASSERT_TRUE(filter.add(1000, 5'000'100, 1200));
  EXPECT_EQ(filter.estimate(1200).offset_ns, 5'000'100 - 1100);
  EXPECT_EQ(filter.estimate(1200).error_ns, 100);
}

TEST(ClockFilter, AnExchangeWithoutTimeStillHasAnError) {
  ClockFilter filter;
  ASSERT_TRUE(filter.add(1000, 7000, 1000));
  EXPECT_EQ(filter.estimate(1000).offset_ns, 6000);
  EXPECT_GE(filter.estimate(1000).error_ns, 1) << "0 would say that the clocks are one";
}

TEST(ClockFilter, TheQuickestOfEightExchangesCounts) {
  ClockFilter filter;
  for (const std::int64_t time : {900, 40, 700, 600, 500, 400, 300, 200})
    ASSERT_TRUE(filter.add(1000, 2000, 1000 + time));
  EXPECT_EQ(filter.estimate(1900).error_ns, 20);
  ASSERT_TRUE(filter.add(1000, 2000, 1800));
  EXPECT_EQ(filter.estimate(1900).error_ns, 20) << "the ninth takes the place of the first";
  ASSERT_TRUE(filter.add(1000, 2000, 1800));
  EXPECT_EQ(filter.estimate(1900).error_ns, 100) << "the tenth takes the place of the quickest";
}

TEST(ClockFilter, TheErrorGrowsWithTheAge) {
  ClockFilter filter;
  ASSERT_TRUE(filter.add(0, 0, 2000));
  EXPECT_EQ(filter.estimate(2000 + kSecond).error_ns, 1000 + kSecond / 1'000'000 * ClockFilter::kDriftPpm);
  // A slow one that is new says more than a quick one of long ago.
  ASSERT_TRUE(filter.add(100 * kSecond, 0, 100 * kSecond + 20'000));
  EXPECT_EQ(filter.estimate(100 * kSecond + 20'000).error_ns, 10'000);
}

TEST(ClockFilter, TheTrueOffsetIsAlwaysWithinTheError) {
  std::mt19937_64 random(20261130);
  const auto up_to = [&](std::int64_t most) {
    return static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(most + 1));
  };
  for (int run = 0; run < 200; ++run) {
    const std::int64_t offset = up_to(1'000'000 * kSecond);
    const std::int64_t drift_ppm = up_to(2 * ClockFilter::kDriftPpm) - ClockFilter::kDriftPpm;
    const auto theirs = [&](std::int64_t ours) { return ours + offset + ours / 1'000'000 * drift_ppm; };
    ClockFilter filter;
    std::int64_t now = kSecond;
    for (int exchange = 0; exchange < 30; ++exchange) {
      const std::int64_t asked = now;
      const std::int64_t answered = asked + up_to(3'000'000);  // the two ways are as unequal as they like
      now = answered + up_to(3'000'000);
      ASSERT_TRUE(filter.add(asked, theirs(answered), now));
      now += up_to(2 * kSecond);
      const ClockFilter::Estimate estimate = filter.estimate(now);
      ASSERT_LE(std::abs(theirs(now) - now - estimate.offset_ns), estimate.error_ns + 1000) << "rounded to the µs";
    }
  }
}

TEST(ClockFilter, TimesThatCannotBeAreLeftOut) {
  ClockFilter filter;
  for (const std::int64_t theirs : {kLeast, std::int64_t{-1}, (std::int64_t{1} << 62) + 1, kMost})
    EXPECT_FALSE(filter.add(1000, theirs, 2000)) << theirs;
  EXPECT_FALSE(filter.add(2000, 1000, 1999)) << "an answer before its question";
  EXPECT_FALSE(filter.add(-1, 1000, 1999));
  EXPECT_FALSE(filter.add(kLeast, 1000, kMost));
  EXPECT_TRUE(filter.empty());
}

TEST(ToOurClock, TranslatesTimesAndKeepsNone) {
  EXPECT_EQ(to_our_clock(5000, 3000, -7), 2000);
  EXPECT_EQ(to_our_clock(5000, -3000, -7), 8000);
  for (const std::int64_t theirs : {kLeast, std::int64_t{-1}, kMost}) EXPECT_EQ(to_our_clock(theirs, 3000, -7), -7);
}

}  // namespace
}  // namespace framelane::measure
