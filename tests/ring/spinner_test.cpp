// SPDX-License-Identifier: MIT
#include "ring/spinner.hpp"

#include <gtest/gtest.h>

namespace framelane::ring {
namespace {

// What a spin of 50 ms may cost at most is a matter of counting, not of time: its turns.
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

TEST(Spinner, SpinsThatWereWorthItCostCreditToo) {
  if (base::online_cpus() < 2) GTEST_SKIP() << "nobody spins on one CPU";
  // All of a CPU as budget gives the most credit at once: 200 us. Spins of 100 us that end well have to use it up.
  Spinner spinner(SpinKind::kAdaptive, 0.0000001);
  const auto spin_for = [&](std::int64_t ns) {
    const std::int64_t until = base::monotonic_ns() + ns;
    return spinner.spin([&] { return base::monotonic_ns() >= until; }, base::kForever);
  };
  int good = 0;
  for (int i = 0; i < 20; ++i) good += spin_for(100'000) ? 1 : 0;
  EXPECT_LE(good, 3) << "20 spins of 100 us are ten times the most credit";
}

}  // namespace
}  // namespace framelane::ring
