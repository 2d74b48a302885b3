// SPDX-License-Identifier: MIT
#pragma once

#include <string_view>

namespace framelane::base {

enum class LogLevel { kError, kWarning, kInfo, kDebug };

/// Receives every line that the library logs. Called from any thread, never on a frame's way; must not call back into a
/// Producer or Consumer.
using LogHook = void (*)(LogLevel level, std::string_view text, void* user);

/// Replaces where log lines go. nullptr brings back the default: errors and warnings to standard error, and all levels
/// up to the one in $FRAMELANE_LOG (error, warning, info, debug). Threads: any; takes effect for later lines. A line
/// that another thread is logging may still reach the old hook, so what `user` points to should live on.
void set_log_hook(LogHook hook, void* user) noexcept;

/// Logs one line through the hook. Threads: any. Real time: no, the hook may wait.
void log(LogLevel level, std::string_view text) noexcept;

}  // namespace framelane::base
