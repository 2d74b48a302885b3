// SPDX-License-Identifier: MIT
#include "ring/spinner.hpp"

#include <gtest/gtest.h>

namespace framelane::ring {
namespace {

TEST(Spinner, OffLooksOnce) {
  Spinner spinner(SpinKind::kOff, 1.0);
  int looks = 0;
  EXPECT_FALSE(spinner.spin([&] { return ++looks, false; }, base::kForever));
  EXPECT_EQ(looks, 1);
}

TEST(Spinner, SeesWhatBecomesReady) {
  Spinner spinner(SpinKind::kAdaptive, 0.02);
  int looks = 0;
  EXPECT_TRUE(spinner.spin([&] { return ++looks == 3; }, base::kForever));
  EXPECT_TRUE(spinner.spin_briefly([&] { return true; }));
  EXPECT_FALSE(spinner.spin_briefly([&] { return false; }));
}

TEST(Spinner, BusyGoesOnUntilTheDeadline) {
  if (base::online_cpus() < 2) GTEST_SKIP() << "nobody spins on one CPU";
  Spinner spinner(SpinKind::kBusy, 0.0);
  const std::int64_t deadline = base::monotonic_ns() + 2'000'000;
  EXPECT_FALSE(spinner.spin([] { return false; }, deadline));
  EXPECT_GE(base::monotonic_ns(), deadline);
}

// --- the beat of a paced stream

constexpr std::int64_t kPeriod = 16'666'667;

TEST(Phase, IsFoundAfterTenFrames) {
  Phase phase;
  std::int64_t now = 1'000'000'000;
  for (std::uint64_t i = 0; i < 9; ++i, now += kPeriod) {
    phase.note(now, i);
    EXPECT_EQ(phase.due(), 0) << i;
  }
  phase.note(now, 9);
  EXPECT_EQ(phase.due(), now + kPeriod);
  EXPECT_EQ(phase.jitter(), 0);
}

TEST(Phase, FollowsAStreamThatDriftsAndJitters) {
  Phase phase;
  std::int64_t now = 1'000'000'000;
  for (int i = 0; i < 200; ++i) {
    now += kPeriod + i * 100;  // slower and slower
    phase.note(now + (i % 2 == 0 ? 30'000 : -30'000), static_cast<std::uint64_t>(i));
  }
  EXPECT_NEAR(static_cast<double>(phase.period()), static_cast<double>(kPeriod + 199 * 100), 10'000);
  EXPECT_GT(phase.jitter(), 30'000);
  EXPECT_LT(phase.jitter(), 90'000);
}

TEST(Phase, IsLostWithAnotherBeatAndFoundAgain) {
  Phase phase;
  std::int64_t now = 1'000'000'000;
  std::uint64_t index = 0;
  for (int i = 0; i < 20; ++i) phase.note(now += kPeriod, index++);
  phase.note(now += 3 * kPeriod, index++);
  EXPECT_EQ(phase.due(), 0);
  EXPECT_TRUE(phase.is_slow());
  for (int i = 0; i < 20; ++i) phase.note(now += 2 * kPeriod, index++);
  EXPECT_EQ(phase.due(), now + 2 * kPeriod);
}

TEST(Phase, HasNoneInABurstOrAfterAPause) {
  Phase phase;
  std::uint64_t index = 0;
  for (std::int64_t i = 0; i < 100; ++i) phase.note(1'000'000'000 + i * 1000, index++);
  EXPECT_EQ(phase.due(), 0);
  EXPECT_FALSE(phase.is_slow());
  for (std::int64_t i = 0; i < 100; ++i) phase.note(i * 5'000'000'000, index++);
  EXPECT_EQ(phase.due(), 0);
}

TEST(Phase, IsTheStreamsAndNotThatOfTheFramesThatWereTaken) {
  Phase paced;
  std::int64_t now = 1'000'000'000;
  std::uint64_t index = 0;
  for (std::uint64_t step : {1u, 2u, 5u, 1u, 3u, 2u, 1u, 1u, 4u, 1u, 2u, 1u}) {
    now += static_cast<std::int64_t>(step) * kPeriod;
    paced.note(now, index += step);
  }
  EXPECT_EQ(paced.due(), now + kPeriod);
  Phase fast;  // of 20 µs, of which every hundredth frame is taken
  for (std::uint64_t i = 1; i < 100; ++i) fast.note(1'000'000'000 + static_cast<std::int64_t>(i) * 2'000'000, i * 100);
  EXPECT_FALSE(fast.is_slow());
}

TEST(Spinner, WakesBeforeAFrameIsDue) {
  if (base::online_cpus() < 2) GTEST_SKIP() << "nobody spins on one CPU";
  Spinner adaptive(SpinKind::kAdaptive, 0.02);
  Spinner off(SpinKind::kOff, 0.02);
  Spinner poor(SpinKind::kAdaptive, 0.001);
  std::int64_t now = 1'000'000'000;
  EXPECT_EQ(adaptive.wake_at(now), base::kForever);
  for (int i = 0; i < 20; ++i) {
    now += kPeriod;
    for (Spinner* spinner : {&adaptive, &off, &poor}) spinner->note(now, static_cast<std::uint64_t>(i));
  }
  const std::int64_t at = adaptive.wake_at(now + 1000);
  EXPECT_GT(at, now + kPeriod / 2);
  EXPECT_LT(at, now + kPeriod);
  EXPECT_EQ(off.wake_at(now), base::kForever);
  EXPECT_EQ(poor.wake_at(now), base::kForever) << "its budget doesn't reach";
  EXPECT_EQ(adaptive.wake_at(now + kPeriod), base::kForever) << "already there";
  adaptive.woke(at, at + 200'000);  // who wakes late has to be woken sooner
  EXPECT_LT(adaptive.wake_at(now), at);
  for (int i = 0; i < 10; ++i) adaptive.woke(at, at + 10'000'000);
  EXPECT_EQ(adaptive.wake_at(now), base::kForever) << "a spin of that length costs more than the budget";
  for (std::uint64_t i = 20; i < 320; ++i) adaptive.note(now += kPeriod, i);
  EXPECT_NE(adaptive.wake_at(now), base::kForever) << "it tries again";
}

}  // namespace
}  // namespace framelane::ring
