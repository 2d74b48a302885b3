// SPDX-License-Identifier: MIT
#pragma once

#include <cstdio>
#include <cstdlib>

namespace framelane::fuzz {

/// A property that holds for every input; the fuzzer keeps the input that breaks it.
inline void require(bool holds, int line = __builtin_LINE()) {
  if (holds) return;
  std::fprintf(stderr, "line %d: this does not hold\n", line);
  std::abort();
}

}  // namespace framelane::fuzz
