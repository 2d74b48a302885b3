// SPDX-License-Identifier: MIT
#pragma once

#include <cstdlib>

namespace framelane::fuzz {

/// A property that holds for every input; the fuzzer keeps the input that breaks it.
inline void require(bool holds) {
  if (!holds) std::abort();
}

}  // namespace framelane::fuzz
