// SPDX-License-Identifier: MIT
#include "framelane/base/result.hpp"

#include <memory>
#include <set>
#include <string>

#include <gtest/gtest.h>

namespace framelane {
namespace {

TEST(Code, HasANameOfItsOwn) {
  std::set<std::string_view> names;
  constexpr int kFirst = static_cast<int>(Code::kTimeout);
  constexpr int kLast = static_cast<int>(Code::kSystem);
  for (int code = kFirst; code <= kLast; ++code) {
    const std::string_view name = to_string(static_cast<Code>(code));
    EXPECT_NE(name, "unknown") << code;
    EXPECT_TRUE(names.insert(name).second) << name;
  }
}

TEST(Code, OutsideOfTheListIsUnknown) {
  EXPECT_EQ(to_string(static_cast<Code>(0)), "unknown");
  EXPECT_EQ(to_string(static_cast<Code>(1000)), "unknown");
}

Result<std::unique_ptr<int>> half(int value) {
  if (value % 2 != 0) return fail(Code::kInvalidArgument, "odd");
  return std::make_unique<int>(value / 2);
}

TEST(Result, CarriesAValueOrAnError) {
  const auto good = half(4);
  ASSERT_TRUE(good);
  EXPECT_EQ(**good, 2);
  const auto bad = half(3);
  ASSERT_FALSE(bad);
  EXPECT_EQ(bad.error().code, Code::kInvalidArgument);
  EXPECT_EQ(bad.error().text, "odd");
}

}  // namespace
}  // namespace framelane
