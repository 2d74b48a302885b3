// SPDX-License-Identifier: MIT
#include "framelane/base/log.hpp"

#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <string_view>

namespace framelane::base {
namespace {

struct Sink {
  std::mutex mutex;
  LogHook hook = nullptr;
  void* user = nullptr;
};

Sink& sink() {
  static Sink* const instance = new Sink;  // never destroyed: threads may log while the process ends
  return *instance;
}

LogLevel level_from_environment() {
  const char* text = std::getenv("FRAMELANE_LOG");
  const std::string_view wanted = text != nullptr ? text : "";
  if (wanted == "error") return LogLevel::kError;
  if (wanted == "info") return LogLevel::kInfo;
  if (wanted == "debug") return LogLevel::kDebug;
  return LogLevel::kWarning;
}

void to_standard_error(LogLevel level, std::string_view text) {
  static const LogLevel most = level_from_environment();
  static constexpr const char* kNames[] = {"error", "warning", "info", "debug"};
  if (level > most) return;
  std::fprintf(stderr, "framelane: %s: %.*s\n", kNames[static_cast<int>(level)], static_cast<int>(text.size()),
               text.data());
}

}  // namespace

void set_log_hook(LogHook hook, void* user) noexcept {
  const std::lock_guard lock(sink().mutex);
  sink().hook = hook;
  sink().user = user;
}

void log(LogLevel level, std::string_view text) noexcept {
  LogHook hook = nullptr;
  void* user = nullptr;
  {
    const std::lock_guard lock(sink().mutex);
    hook = sink().hook;
    user = sink().user;
  }
  if (hook != nullptr) {
    hook(level, text, user);
  } else {
    to_standard_error(level, text);
  }
}

}  // namespace framelane::base
