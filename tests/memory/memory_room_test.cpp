// SPDX-License-Identifier: MIT
#include "memory/memory_room.hpp"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <limits>
#include <string>

#include <gtest/gtest.h>

namespace framelane::memory {
namespace {

constexpr std::uint64_t kUnlimited = std::numeric_limits<std::uint64_t>::max();

/// A machine made of files.
class MemoryRoom : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = testing::TempDir() + "framelane-room-XXXXXX";
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    root_ = pattern;
  }
  void TearDown() override { std::filesystem::remove_all(root_); }

  void write(const std::string& path, const std::string& text) {
    std::filesystem::create_directories(std::filesystem::path(root_ + path).parent_path());
    std::ofstream(root_ + path) << text;
  }
  void write_version_2(const std::string& group, const std::string& limit, const std::string& usage) {
    write("/sys/fs/cgroup" + group + "/memory.max", limit + "\n");
    write("/sys/fs/cgroup" + group + "/memory.current", usage + "\n");
  }
  void write_version_1(const std::string& group, const std::string& limit, const std::string& usage) {
    write("/sys/fs/cgroup/memory" + group + "/memory.limit_in_bytes", limit + "\n");
    write("/sys/fs/cgroup/memory" + group + "/memory.usage_in_bytes", usage + "\n");
  }

  std::string root_;
};

TEST_F(MemoryRoom, IsWhatTheMachineHasAvailable) {
  write("/proc/meminfo", "MemTotal:       1000 kB\nMemFree:  10 kB\nMemAvailable:    600 kB\nBuffers: 1 kB\n");
  EXPECT_EQ(memory_room(root_), 600u * 1024);
}

TEST_F(MemoryRoom, IsUnlimitedWhereNothingCanBeRead) { EXPECT_EQ(memory_room(root_), kUnlimited); }

TEST_F(MemoryRoom, IsWhatAVersion2GroupHasLeft) {
  write("/proc/self/cgroup", "0::/app\n");
  write_version_2("/app", "1000", "300");
  EXPECT_EQ(memory_room(root_), 700u);
}

TEST_F(MemoryRoom, CountsThePageCacheThatTheKernelWouldDrop) {
  write("/proc/self/cgroup", "0::/app\n");
  write_version_2("/app", "1000", "900");
  write("/sys/fs/cgroup/app/memory.stat", "anon 100\nfile 800\nshmem 100\ninactive_file 500\nactive_file 200\n");
  EXPECT_EQ(memory_room(root_), 800u);
}

TEST_F(MemoryRoom, IsLimitedByTheParentsOfAGroup) {
  write("/proc/self/cgroup", "0::/slice/app/leaf\n");
  write_version_2("/slice", "500", "450");
  write_version_2("/slice/app", "max", "400");
  write_version_2("/slice/app/leaf", "1000", "300");
  EXPECT_EQ(memory_room(root_), 50u);
}

TEST_F(MemoryRoom, IsUnlimitedInAGroupWithoutALimit) {
  write("/proc/self/cgroup", "0::/app\n");
  write_version_2("/app", "max", "300");
  EXPECT_EQ(memory_room(root_), kUnlimited);
}

TEST_F(MemoryRoom, IsNoneInAGroupThatIsOverItsLimit) {
  write("/proc/self/cgroup", "0::/app\n");
  write_version_2("/app", "1000", "1200");
  EXPECT_EQ(memory_room(root_), 0u);
}

TEST_F(MemoryRoom, IsWhatAVersion1GroupHasLeft) {
  write("/proc/self/cgroup", "9:name=systemd:/\n4:cpu,memory:/docker/abc\n3:cpuset:/\n0::/\n");
  write_version_1("/docker/abc", "1000", "600");
  write("/sys/fs/cgroup/memory/docker/abc/memory.stat",
        "inactive_file 7\ntotal_inactive_file 50\ntotal_active_file 50\n");
  EXPECT_EQ(memory_room(root_), 500u);
}

TEST_F(MemoryRoom, IsThatOfTheMountWhereAContainerCanNotSeeItsPath) {
  write("/proc/self/cgroup", "4:memory:/docker/abc\n");
  write_version_1("", "1000", "100");
  EXPECT_EQ(memory_room(root_), 900u);
}

TEST_F(MemoryRoom, NeverLooksOutsideOfTheMount) {
  write("/proc/self/cgroup", "0::/../../elsewhere\n");
  write_version_2("", "1000", "100");
  write("/sys/elsewhere/memory.max", "10\n");
  write("/sys/elsewhere/memory.current", "10\n");
  EXPECT_EQ(memory_room(root_), 900u);
}

TEST_F(MemoryRoom, SurvivesFilesThatMakeNoSense) {
  write("/proc/meminfo", "MemAvailable: lots\n\n:::\n");
  write("/proc/self/cgroup", "\n:\n::\n0\n0:memory\nx:memory:\n4:memory:/a\n");
  write("/sys/fs/cgroup/memory/a/memory.limit_in_bytes", "-\n");
  EXPECT_EQ(memory_room(root_), kUnlimited);
}

TEST(MemoryRoomOfThisMachine, IsSomeButNotAll) {
  EXPECT_GT(memory_room(), 0u);
  EXPECT_LT(memory_room(), kUnlimited);
}

}  // namespace
}  // namespace framelane::memory
