// SPDX-License-Identifier: MIT
#include "base/unique_fd.hpp"

#include <utility>

#include <fcntl.h>
#include <gtest/gtest.h>

namespace framelane::base {
namespace {

int open_null() { return open("/dev/null", O_RDONLY | O_CLOEXEC); }
bool is_open(int fd) { return fcntl(fd, F_GETFD) != -1; }

TEST(UniqueFd, ClosesWhatItOwns) {
  const int fd = open_null();
  {
    const UniqueFd owner(fd);
    EXPECT_TRUE(owner.valid());
    EXPECT_EQ(owner.get(), fd);
    EXPECT_TRUE(is_open(fd));
  }
  EXPECT_FALSE(is_open(fd));
}

TEST(UniqueFd, OwnsNothingByDefault) {
  const UniqueFd none;
  EXPECT_FALSE(none.valid());
  EXPECT_EQ(none.get(), -1);
}

TEST(UniqueFd, CountsZeroAsADescriptor) {
  UniqueFd zero(0);
  EXPECT_TRUE(zero.valid());
  EXPECT_EQ(zero.release(), 0);
}

TEST(UniqueFd, HandsOverWhenMoved) {
  const int fd = open_null();
  UniqueFd first(fd);
  UniqueFd second(std::move(first));
  EXPECT_FALSE(first.valid());
  EXPECT_EQ(second.get(), fd);
  const int other = open_null();
  UniqueFd third(other);
  third = std::move(second);
  EXPECT_EQ(third.get(), fd);
  EXPECT_FALSE(is_open(other));
  UniqueFd& alias = third;
  third = std::move(alias);
  EXPECT_TRUE(is_open(fd));
  EXPECT_EQ(third.get(), fd);
}

TEST(UniqueFd, ReleasesWithoutClosing) {
  UniqueFd owner(open_null());
  const int fd = owner.release();
  EXPECT_FALSE(owner.valid());
  EXPECT_TRUE(is_open(fd));
  close(fd);
}

TEST(UniqueFd, ClosesTheOldOneWhenReset) {
  UniqueFd owner(open_null());
  const int old = owner.get();
  const int next = open_null();
  owner.reset(next);
  EXPECT_FALSE(is_open(old));
  EXPECT_TRUE(is_open(next));
  owner.reset();
  EXPECT_FALSE(is_open(next));
}

}  // namespace
}  // namespace framelane::base
