// SPDX-License-Identifier: MIT
#include <filesystem>
#include <fstream>
#include <string_view>

#include <gmock/gmock.h>

#include "cli/doctor.hpp"
#include "cli/temp_dir.hpp"

namespace framelane::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

/// Probes that read /proc and /sys, over files that a test wrote.
class DoctorSystem : public ::testing::Test {
 protected:
  DoctorSystem() : directory_(std::move(*TempDir::create())), system_{directory_.path(), {}} {}

  void write(const std::string& path, const std::string& text) {
    const std::filesystem::path file = directory_.path() + path;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << text << "\n";
  }

  Finding look(std::string_view name) {
    for (const Probe& probe : system_probes()) {
      if (probe.name == name) return probe.look(system_);
    }
    ADD_FAILURE() << "no probe " << name;
    return {};
  }

  TempDir directory_;
  System system_;
};

TEST_F(DoctorSystem, AnEmptySystemIsNoProblem) {
  for (const char* name : {"control group's memory", "governor", "CPUs", "isolated", "send buffer", "receive buffer",
                           "huge pages", "container"}) {
    EXPECT_NE(look(name).verdict, Verdict::kProblem) << name;
    EXPECT_FALSE(look(name).found.empty()) << name;
  }
}

TEST_F(DoctorSystem, ControlGroupsOfBothVersionsSayWhatIsLeft) {
  write("/proc/self/cgroup", "0::/user.slice");
  write("/sys/fs/cgroup/user.slice/memory.max", "1073741824");
  write("/sys/fs/cgroup/user.slice/memory.current", "1063256064");
  EXPECT_EQ(look("control group's memory").verdict, Verdict::kProblem);
  EXPECT_EQ(look("control group's memory").found, "10 MiB of 1024 MiB left");
  write("/sys/fs/cgroup/user.slice/memory.current", "1048576");
  EXPECT_EQ(look("control group's memory").verdict, Verdict::kOk);
  write("/sys/fs/cgroup/user.slice/memory.max", "max");
  EXPECT_EQ(look("control group's memory").found, "no limit");

  write("/proc/self/cgroup", "5:cpu:/a\n4:hugetlb,memory:/docker/1\n0::/");
  write("/sys/fs/cgroup/memory/memory.limit_in_bytes", "104857600");  // as a container sees its own
  write("/sys/fs/cgroup/memory/memory.usage_in_bytes", "4857600");
  EXPECT_EQ(look("control group's memory").verdict, Verdict::kNote);
  write("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712");
  EXPECT_EQ(look("control group's memory").found, "no limit");
}

TEST_F(DoctorSystem, GovernorsThatSleepAreNoted) {
  write("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "powersave");
  EXPECT_EQ(look("governor").verdict, Verdict::kNote);
  EXPECT_THAT(look("governor").change, HasSubstr("cpupower"));
  write("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "performance");
  EXPECT_EQ(look("governor").verdict, Verdict::kOk);
}

TEST_F(DoctorSystem, SlowClocksAreNotedWithWhatTurnsTheirReadingsOff) {
  EXPECT_EQ(clock_finding("tsc", 22.4).verdict, Verdict::kOk);
  EXPECT_EQ(clock_finding("tsc", 22.4).found, "tsc, 22 ns a reading");
  const Finding slow = clock_finding("hpet", 1200);
  EXPECT_EQ(slow.verdict, Verdict::kNote);
  EXPECT_THAT(slow.change, HasSubstr("lanesink stamps=off"));
  EXPECT_THAT(slow.change, Not(HasSubstr("--"))) << "send has no such option";
}

TEST_F(DoctorSystem, SmallSocketBuffersAreNotedWithTheCommand) {
  write("/proc/sys/net/core/wmem_max", "212992");
  write("/proc/sys/net/core/rmem_max", "16777216");
  EXPECT_EQ(look("send buffer").verdict, Verdict::kNote);
  EXPECT_EQ(look("send buffer").change, "sysctl -w net.core.wmem_max=4194304");
  EXPECT_EQ(look("receive buffer").verdict, Verdict::kOk);
}

TEST_F(DoctorSystem, CpusPagesAndContainersAreRead) {
  write("/sys/devices/system/cpu/online", "0-7");
  write("/sys/devices/system/cpu/cpu0/topology/thread_siblings_list", "0,4");
  write("/sys/devices/system/cpu/isolated", "6-7");
  write("/sys/kernel/mm/transparent_hugepage/shmem_enabled", "always within_size [advise] never deny force");
  write("/proc/meminfo", "MemTotal: 1 kB\nHugePages_Total:      12");
  write("/proc/self/status", "Name: x\nSeccomp:\t2\nSeccomp_filters: 1");
  write("/.dockerenv", "");
  EXPECT_EQ(look("CPUs").found, "CPUs 0-7, two threads a core");
  EXPECT_EQ(look("isolated").found, "CPUs 6-7");
  EXPECT_EQ(look("huge pages").found, "shared memory: advise; reserved: 12");
  EXPECT_EQ(look("container").found, "in a container, system calls are filtered");
  write("/proc/self/status", "Name: 2\nSeccomp:\t0\nSpeculation: 2");
  EXPECT_EQ(look("container").found, "in a container");
}

TEST_F(DoctorSystem, BrokenFilesAreNoCrash) {
  write("/proc/self/cgroup", ":\n::\nx\n0::/../../..\n");
  write("/sys/kernel/mm/transparent_hugepage/shmem_enabled", "]x[");
  write("/proc/sys/net/core/wmem_max", "-5");
  write("/proc/self/status", "\nSeccomp:");
  for (const Probe& probe : system_probes()) {
    EXPECT_FALSE(probe.look(system_).found.empty()) << probe.name;
  }
}

}  // namespace
}  // namespace framelane::cli
