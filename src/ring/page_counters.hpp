// SPDX-License-Identifier: MIT
#pragma once

#include <atomic>
#include <cstdint>

#include "base/clock.hpp"
#include "measure/histogram.hpp"
#include "ring/layout.hpp"

namespace framelane::ring {

/// Of a counter that only the caller's thread writes.
inline void count(std::atomic<std::uint64_t>& counter, std::uint64_t more = 1) noexcept {
  counter.store(counter.load(std::memory_order_relaxed) + more, std::memory_order_relaxed);
}

/// One more frame in a consumer's own statistics. `publish_ns_untrusted` 0: it wasn't stamped. True when it carries a
/// time at which it can have been published.
inline bool count_taken(ConsumerPage& page, std::uint64_t skipped, bool copied,
                        std::int64_t publish_ns_untrusted) noexcept {
  count(page.taken);
  if (copied) count(page.copied);
  if (skipped != 0) count(page.skipped, skipped);
  if (publish_ns_untrusted == 0) return false;
  const std::int64_t now = base::monotonic_ns();
  if (publish_ns_untrusted < 0 || publish_ns_untrusted > now) return false;
  measure::record(page.latency, static_cast<std::uint64_t>(now - publish_ns_untrusted));
  return true;
}

}  // namespace framelane::ring
