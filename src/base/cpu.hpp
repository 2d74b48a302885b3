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

/// CPUs that are online (at least 1), read once. On one CPU a spinning process only delays its peer. (Not the affinity
/// mask: a process pinned to one CPU may well wait for a peer on another.)
[[nodiscard]] int online_cpus() noexcept;

/// Binds the calling thread to one CPU. Errors: kSystem (no such CPU, or not allowed).
[[nodiscard]] Result<void> pin_this_thread(int cpu);

}  // namespace framelane::base
