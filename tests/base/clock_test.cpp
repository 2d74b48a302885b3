// SPDX-License-Identifier: MIT
#include "base/clock.hpp"

#include <ctime>

#include <gtest/gtest.h>

namespace framelane::base {
namespace {

using std::chrono::nanoseconds;

TEST(Clock, IsClockMonotonicInNanoseconds) {
  timespec before{};
  timespec after{};
  clock_gettime(CLOCK_MONOTONIC, &before);
  const std::int64_t now = monotonic_ns();
  clock_gettime(CLOCK_MONOTONIC, &after);
  EXPECT_GE(now, before.tv_sec * std::int64_t{1'000'000'000} + before.tv_nsec);
  EXPECT_LE(now, after.tv_sec * std::int64_t{1'000'000'000} + after.tv_nsec);
}

TEST(Deadline, LiesTheTimeoutAfterNow) {
  const std::int64_t before = monotonic_ns();
  const std::int64_t deadline = deadline_after(std::chrono::seconds(5));
  EXPECT_GE(deadline, before + 5'000'000'000);
  EXPECT_LE(deadline, monotonic_ns() + 5'000'000'000);
}

TEST(Deadline, NeverComesWhenTheTimeoutIsTooLongToAdd) {
  EXPECT_EQ(deadline_after(nanoseconds::max()), kForever);
  EXPECT_EQ(deadline_after(nanoseconds::max() - nanoseconds(1)), kForever);
}

TEST(Deadline, HasPassedWhenTheTimeoutIsNegative) {
  for (const auto timeout : {nanoseconds(-1), nanoseconds::min()}) {
    const std::int64_t deadline = deadline_after(timeout);
    EXPECT_LT(deadline, monotonic_ns());
  }
}

}  // namespace
}  // namespace framelane::base
