// SPDX-License-Identifier: MIT
#pragma once

#include <atomic>

#if defined(__SANITIZE_THREAD__)
#define FRAMELANE_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define FRAMELANE_TSAN 1
#endif
#endif

namespace framelane::base {

/// Orders every earlier access of this thread before every later one, as all threads see them.
inline void full_fence() noexcept {
#if defined(FRAMELANE_TSAN)
  // TSan knows no fences (g++ refuses them); a seq_cst RMW of one variable of all threads is as strong.
  static std::atomic<int> common{0};
  common.fetch_add(0, std::memory_order_seq_cst);
#else
  std::atomic_thread_fence(std::memory_order_seq_cst);
#endif
}

/// Keeps later accesses behind earlier loads of this thread.
inline void acquire_fence() noexcept {
#if !defined(FRAMELANE_TSAN)  // under TSan the loads on both sides are atomic, and x86 keeps their order
  std::atomic_thread_fence(std::memory_order_acquire);
#endif
}

/// Keeps earlier accesses of this thread before its later stores. Free on x86.
inline void release_fence() noexcept {
#if !defined(FRAMELANE_TSAN)  // as above
  std::atomic_thread_fence(std::memory_order_release);
#endif
}

/// Makes earlier non-temporal stores (streaming copies into a slot) visible before a later release store. Release alone
/// doesn't order them on x86; elsewhere there is nothing to do.
inline void streaming_store_fence() noexcept {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_sfence();
#endif
}

}  // namespace framelane::base
