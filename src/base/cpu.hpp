// SPDX-License-Identifier: MIT
#pragma once

#include "framelane/base/result.hpp"

namespace framelane::base {

/// Tells the CPU that this is a spin loop, so that a sibling thread runs and the loop's exit is not mispredicted.
inline void cpu_relax() noexcept {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__) || defined(__arm__)
  asm volatile("yield" ::: "memory");
#endif
}

/// CPUs that this process may run on (at least 1). Spinning on one CPU only delays the peer. The value is read once.
[[nodiscard]] int usable_cpus() noexcept;

/// Binds the calling thread to one CPU. Errors: kSystem (no such CPU, or not allowed).
[[nodiscard]] Result<void> pin_this_thread(int cpu);

}  // namespace framelane::base
