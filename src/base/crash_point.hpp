// SPDX-License-Identifier: MIT
#pragma once

namespace framelane::base {

/// Only in the programs of tests/fault (crash_point.cpp). Any thread, with any lock held.
void crash_point(const char* name) noexcept;

}  // namespace framelane::base

// A named place at which tests/fault ends the process. In the library it is nothing at all: only those tests compile
// it, in the files that tests/fault/meson.build lists. Not for headers, which other files include, too.
#ifdef FRAMELANE_CRASH_POINTS
#define FRAMELANE_CRASH_POINT(name) ::framelane::base::crash_point(name)
#else
#define FRAMELANE_CRASH_POINT(name) static_cast<void>(0)
#endif
