// SPDX-License-Identifier: MIT
#include "base/cpu.hpp"

#include <thread>

#include <gtest/gtest.h>
#include <sched.h>

namespace framelane::base {
namespace {

TEST(Cpu, CountsAtLeastTheOneThatRunsThis) { EXPECT_GE(online_cpus(), 1); }

TEST(PinThisThread, BindsToTheOneCpu) {
  std::thread([] {  // its own thread, so that the affinity ends with it
    const int cpu = sched_getcpu();
    ASSERT_TRUE(pin_this_thread(cpu));
    cpu_set_t set;
    ASSERT_EQ(sched_getaffinity(0, sizeof set, &set), 0);
    EXPECT_EQ(CPU_COUNT(&set), 1);
    EXPECT_TRUE(CPU_ISSET(static_cast<unsigned>(cpu), &set));
  })
      .join();
}

TEST(PinThisThread, RefusesACpuThatIsNotThere) {
  for (const int cpu : {-1, 1023, 1024, 1 << 30}) {
    const auto pinned = pin_this_thread(cpu);
    ASSERT_FALSE(pinned) << cpu;
    EXPECT_EQ(pinned.error().code, Code::kSystem);
    EXPECT_NE(pinned.error().text.find(std::to_string(cpu)), std::string::npos) << pinned.error().text;
  }
}

}  // namespace
}  // namespace framelane::base
