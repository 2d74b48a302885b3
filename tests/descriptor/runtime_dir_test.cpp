// SPDX-License-Identifier: MIT
#include <string>

#include <gtest/gtest.h>
#include <unistd.h>

#include "framelane/descriptor/descriptor.hpp"

#include "environment.hpp"

namespace framelane::descriptor {
namespace {

using test::Environment;

std::string runtime_dir_with(const char* own, const char* session) {
  const Environment first("FRAMELANE_DIR", own);
  const Environment second("XDG_RUNTIME_DIR", session);
  return runtime_dir();
}

const std::string kLast = "/tmp/framelane-" + std::to_string(geteuid());

TEST(RuntimeDir, IsTheOneThatFramelaneDirNames) {
  EXPECT_EQ(runtime_dir_with("/srv/lanes", "/run/user/1000"), "/srv/lanes");
}

TEST(RuntimeDir, LiesInTheSessionsDirectoryOtherwise) {
  EXPECT_EQ(runtime_dir_with(nullptr, "/run/user/1000"), "/run/user/1000/framelane");
  EXPECT_EQ(runtime_dir_with("", "/run/user/1000"), "/run/user/1000/framelane");
}

TEST(RuntimeDir, IsOneOfThisUserInTmpAtLast) {
  EXPECT_EQ(runtime_dir_with(nullptr, nullptr), kLast);
  EXPECT_EQ(runtime_dir_with("", ""), kLast);
}

TEST(RuntimeDir, IgnoresASessionsDirectoryThatIsNotAbsolute) { EXPECT_EQ(runtime_dir_with(nullptr, "run"), kLast); }

TEST(RuntimeDir, HasNoSlashAtItsEnd) {
  EXPECT_EQ(runtime_dir_with("/srv/lanes//", nullptr), "/srv/lanes");
  EXPECT_EQ(runtime_dir_with("/", nullptr), "/");
  EXPECT_EQ(runtime_dir_with(nullptr, "/run/user/1000/"), "/run/user/1000/framelane");
  EXPECT_EQ(runtime_dir_with(nullptr, "/"), "/framelane");
}

TEST(RuntimeDir, MayBeTheRoot) {
  const Environment dir("FRAMELANE_DIR", "/");
  EXPECT_EQ(Descriptor::parse("cam0")->socket_path().value_or("none"), "/cam0");
}

}  // namespace
}  // namespace framelane::descriptor
