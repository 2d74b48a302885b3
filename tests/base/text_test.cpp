// SPDX-License-Identifier: MIT
#include "base/text.hpp"

#include <cerrno>

#include <gtest/gtest.h>

namespace framelane::base {
namespace {

TEST(SystemWords, SayWhatHelps) {
  EXPECT_EQ(system_words(ENOENT), "No such file or directory");
  EXPECT_EQ(system_words(EMFILE), "Too many open files in this process; raise ulimit -n");
}

TEST(Printable, LeavesPrintableAsciiAsItIs) { EXPECT_EQ(printable("cam0 ~!\"\\"), "cam0 ~!\"\\"); }

TEST(Printable, EscapesWhatATerminalWouldActOn) {
  EXPECT_EQ(printable("a\x1b[2J\n\x7f\xc3\xa9"), "a\\x1b[2J\\x0a\\x7f\\xc3\\xa9");
  EXPECT_EQ(printable(std::string_view("\0x", 2)), "\\x00x");
}

TEST(Printable, CutsLongText) {
  EXPECT_EQ(printable("abcdef", 6), "abcdef");
  EXPECT_EQ(printable("abcdefg", 6), "abcdef...");
  EXPECT_EQ(printable("", 0), "");
}

}  // namespace
}  // namespace framelane::base
