// SPDX-License-Identifier: MIT
#include "framelane/base/log.hpp"

#include <cstdlib>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <unistd.h>

#include "base/child.hpp"
#include "base/unique_fd.hpp"

namespace framelane::base {
namespace {

using Lines = std::vector<std::pair<LogLevel, std::string>>;

void collect(LogLevel level, std::string_view text, void* user) {
  static_cast<Lines*>(user)->emplace_back(level, text);
}

/// What a process with this FRAMELANE_LOG (nullptr: none) prints when it logs one line of each level.
std::string printed_with(const char* level) {
  int ends[2];
  EXPECT_EQ(pipe(ends), 0);
  UniqueFd reader(ends[0]);
  UniqueFd writer(ends[1]);
  const int status = test::in_child([&] {
    if (level == nullptr) {
      unsetenv("FRAMELANE_LOG");
    } else {
      setenv("FRAMELANE_LOG", level, 1);
    }
    dup2(writer.get(), STDERR_FILENO);
    log(LogLevel::kError, "e");
    log(LogLevel::kWarning, "w");
    log(LogLevel::kInfo, "i");
    log(LogLevel::kDebug, "d");
    return 0;
  });
  EXPECT_EQ(status, 0);
  writer.reset();
  char buffer[4096];
  const ssize_t count = read(reader.get(), buffer, sizeof buffer);
  return count > 0 ? std::string(buffer, static_cast<std::size_t>(count)) : std::string();
}

const std::string kError = "framelane: error: e\n";
const std::string kWarning = "framelane: warning: w\n";
const std::string kInfo = "framelane: info: i\n";
const std::string kDebug = "framelane: debug: d\n";

TEST(Log, PrintsErrorsAndWarningsByDefault) {
  EXPECT_EQ(printed_with(nullptr), kError + kWarning);
  EXPECT_EQ(printed_with("nonsense"), kError + kWarning);
}

TEST(Log, PrintsUpToTheLevelOfTheEnvironment) {
  EXPECT_EQ(printed_with("error"), kError);
  EXPECT_EQ(printed_with("warning"), kError + kWarning);
  EXPECT_EQ(printed_with("info"), kError + kWarning + kInfo);
  EXPECT_EQ(printed_with("debug"), kError + kWarning + kInfo + kDebug);
}

TEST(Log, GoesToTheHookWithAllLevels) {
  Lines lines;
  set_log_hook(collect, &lines);
  log(LogLevel::kDebug, "one");
  log(LogLevel::kError, "two");
  set_log_hook(nullptr, nullptr);
  EXPECT_EQ(lines, (Lines{{LogLevel::kDebug, "one"}, {LogLevel::kError, "two"}}));
}

TEST(Log, GoesToThePrinterAgainWhenTheHookIsTakenAway) {
  Lines lines;
  set_log_hook(collect, &lines);
  set_log_hook(nullptr, nullptr);
  EXPECT_EQ(printed_with("error"), kError);
  EXPECT_TRUE(lines.empty());
}

void log_from_hook(LogLevel, std::string_view text, void* user) {
  auto* const seen = static_cast<std::vector<std::string>*>(user);
  seen->emplace_back(text);
  if (seen->size() < 2) log(LogLevel::kInfo, "from the hook");
}

TEST(Log, MayBeUsedByTheHookItself) {
  std::vector<std::string> seen;
  set_log_hook(log_from_hook, &seen);
  log(LogLevel::kInfo, "first");
  set_log_hook(nullptr, nullptr);
  EXPECT_EQ(seen, (std::vector<std::string>{"first", "from the hook"}));
}

}  // namespace
}  // namespace framelane::base
