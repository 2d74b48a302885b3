// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>

// Counts what a frame's way must not do: allocations of the whole process, and system calls of single threads.
//
// System calls are counted by a seccomp filter that traps each one; the handler counts it, then makes it. The filter
// stays on its thread for good, so count on a thread of its own.
namespace framelane::support {

/// malloc, calloc, realloc and aligned_alloc (operator new calls them) since the program started, on any thread.
[[nodiscard]] std::uint64_t allocations() noexcept;

/// From now on malloc() and the others return NULL for so many bytes or more on this thread; 0: all is granted again.
/// False where that can't be done (a sanitizer, another C library).
bool refuse_allocations(std::size_t from_bytes) noexcept;

/// Traps every system call of this thread from now on. False where that can't be done (another processor, a sanitizer).
[[nodiscard]] bool trap_system_calls() noexcept;
/// System calls of trapped threads so far; those made since trap_system_calls() on the calling thread.
[[nodiscard]] std::uint64_t trapped_calls() noexcept;
/// Number of the last call that was trapped on the calling thread; -1 = none.
[[nodiscard]] long last_trapped_call() noexcept;

}  // namespace framelane::support
