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

}  // namespace
}  // namespace framelane::ring
