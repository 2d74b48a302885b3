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

TEST(Phase, IsFoundAfterNineFrames) {
  Phase phase;
  std::int64_t now = 1'000'000'000;
  for (int i = 0; i < 9; ++i, now += kPeriod) {
    phase.note(now);
    EXPECT_EQ(phase.due(), 0) << i;
  }
  phase.note(now);
  EXPECT_EQ(phase.due(), now + kPeriod);
  EXPECT_EQ(phase.jitter(), 0);
}

TEST(Phase, FollowsAStreamThatDriftsAndJitters) {
  Phase phase;
  std::int64_t now = 1'000'000'000;
  for (int i = 0; i < 200; ++i) {
    now += kPeriod + i * 100;  // slower and slower
    phase.note(now + (i % 2 == 0 ? 30'000 : -30'000));
  }
  EXPECT_NEAR(static_cast<double>(phase.period()), static_cast<double>(kPeriod + 199 * 100), 10'000);
  EXPECT_GT(phase.jitter(), 30'000);
  EXPECT_LT(phase.jitter(), 90'000);
}

TEST(Phase, IsLostWithAnotherBeatAndFoundAgain) {
  Phase phase;
  std::int64_t now = 1'000'000'000;
  for (int i = 0; i < 20; ++i) phase.note(now += kPeriod);
  phase.note(now += 3 * kPeriod);
  EXPECT_EQ(phase.due(), 0);
  EXPECT_TRUE(phase.is_slow());
  for (int i = 0; i < 20; ++i) phase.note(now += 2 * kPeriod);
  EXPECT_EQ(phase.due(), now + 2 * kPeriod);
}

TEST(Phase, HasNoneInABurstOrAfterAPause) {
  Phase phase;
  for (std::int64_t i = 0; i < 100; ++i) phase.note(1'000'000'000 + i * 1000);
  EXPECT_EQ(phase.due(), 0);
  EXPECT_FALSE(phase.is_slow());
  for (std::int64_t i = 0; i < 100; ++i) phase.note(i * 5'000'000'000);
  EXPECT_EQ(phase.due(), 0);
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
    for (Spinner* spinner : {&adaptive, &off, &poor}) spinner->note(now);
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
  for (int i = 0; i < 300; ++i) adaptive.note(now += kPeriod);
  EXPECT_NE(adaptive.wake_at(now), base::kForever) << "it tries again";
}

}  // namespace
}  // namespace framelane::ring
