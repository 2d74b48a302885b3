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

/// Begins to fetch a cache line for writing. The compilers' builtin makes a read of it on plain x86-64.
inline void prefetch_for_write(const void* line) noexcept {
#if defined(__x86_64__)
  asm volatile("prefetchw %0" : : "m"(*static_cast<const char*>(line)));
#else
  __builtin_prefetch(line, 1);
#endif
}

/// CPUs that are online (at least 1), read once. On one CPU a spinning process only delays its peer. (Not the affinity
/// mask: a process pinned to one CPU may well wait for a peer on another.)
[[nodiscard]] int online_cpus() noexcept;

/// Binds the calling thread to one CPU. Errors: kSystem (no such CPU, or not allowed).
[[nodiscard]] Result<void> pin_this_thread(int cpu);

}  // namespace framelane::base
