// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <cstdint>

namespace framelane::lane {

/// Requests that a consumer sends: so many at once, and so many a second.
inline constexpr std::uint32_t kRequestsAtOnce = 64;
inline constexpr std::uint32_t kRequestsPerSecond = 200;
/// Messages that a producer reads from one consumer before it takes it for a flood. An honest one can't reach that: all
/// that its socket holds (some 300 small ones) may come in one piece after the producer stood still.
inline constexpr std::uint32_t kMessagesInAFlood = 1024;
inline constexpr std::uint32_t kFloodPerSecond = 2 * kRequestsPerSecond;

/// A bucket of tokens that fills up again by itself.
///
/// Threads: one at a time. Units: ns of CLOCK_MONOTONIC.
class RateLimit {
 public:
  RateLimit(std::uint32_t at_once, std::uint32_t per_second) noexcept
      : full_ns_(std::int64_t{at_once} * (kSecond / per_second)), each_ns_(kSecond / per_second) {}

  /// Takes a token, if one is left.
  [[nodiscard]] bool take(std::int64_t now_ns) noexcept {
    // The time up to which tokens are used: never further back than a full bucket.
    used_up_to_ns_ = std::max(used_up_to_ns_, now_ns - full_ns_);
    if (used_up_to_ns_ + each_ns_ > now_ns) return false;
    used_up_to_ns_ += each_ns_;
    return true;
  }

 private:
  static constexpr std::int64_t kSecond = 1'000'000'000;

  std::int64_t full_ns_;
  std::int64_t each_ns_;
  std::int64_t used_up_to_ns_ = 0;
};

}  // namespace framelane::lane
