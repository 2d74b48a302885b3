// SPDX-License-Identifier: MIT
#include "framelane/base/log.hpp"

#include <cstdint>
#include <mutex>
#include <new>
#include <string_view>

#include "capi/error.hpp"
#include "capi/structs.hpp"

namespace framelane::capi {
namespace {

struct Hook {
  framelane_log_fn call;
  void* user;
  Hook* before;  // so that all of them can still be found
};
Hook* hooks = nullptr;  // never freed: a line that another thread is logging may still come

void hand_on(base::LogLevel level, std::string_view text, void* user) {
  char line[1024];
  print_text(text, line, sizeof line);
  const auto* const hook = static_cast<const Hook*>(user);
  hook->call(static_cast<std::int32_t>(level), line, hook->user);
}

}  // namespace
}  // namespace framelane::capi

using namespace framelane;
using namespace framelane::capi;

framelane_code framelane_set_log_hook(framelane_log_fn hook, void* user) {
  if (hook == nullptr) {
    base::set_log_hook(nullptr, nullptr);
    return FRAMELANE_OK;
  }
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  Hook* same = hooks;
  while (same != nullptr && (same->call != hook || same->user != user)) same = same->before;
  if (same == nullptr) same = new (std::nothrow) Hook{hook, user, hooks};
  if (same == nullptr) return report(Code::kNoMemory, "out of memory");
  if (same->before == hooks) hooks = same;
  base::set_log_hook(hand_on, same);
  return FRAMELANE_OK;
}

void framelane_log(int32_t level, const char* text) {
  const auto known = level < FRAMELANE_LOG_ERROR ? FRAMELANE_LOG_ERROR : level;
  base::log(static_cast<base::LogLevel>(known > FRAMELANE_LOG_DEBUG ? FRAMELANE_LOG_DEBUG : known), or_empty(text));
}
