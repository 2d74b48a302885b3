// SPDX-License-Identifier: MIT
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace framelane::measure {

/// How far another host's CLOCK_MONOTONIC is from ours, from exchanges of messages: we ask, it answers with what its
/// clock says. The answer was given somewhere between our question and its arrival, so the middle is wrong by half
/// that time at most, however unequal the two ways are. Of the last eight exchanges the one with the smallest error
/// counts: the others were delayed by queues and sleeping threads. An exchange that grows old says less, since no two
/// clocks run alike.
///
/// Threads: one at a time.
/// Units:   ns of CLOCK_MONOTONIC, ours unless it says "their".
/// Source:  Cristian, "Probabilistic clock synchronization" (1989), for offset and bound of one exchange; RFC 5905
///          (NTP), section 10, for the filter: eight samples, the least delay, an error that grows with the age.
class ClockFilter {
 public:
  /// How much the two clocks may drift apart, parts per million. NTP takes 15 for a clock that is disciplined; ordinary
  /// quartzes are within 50 each. A host whose clock is being slewed (at most 500) may be off by more for so long.
  static constexpr std::int64_t kDriftPpm = 100;

  struct Estimate {
    std::int64_t offset_ns = 0;  ///< their clock minus ours
    std::int64_t error_ns = 0;   ///< the offset is wrong by this much at most
  };

  /// One exchange. Times that can't be (below 0, beyond 2^62, an answer before its question) are left out, and false.
  bool add(std::int64_t asked_ns, std::int64_t their_ns_untrusted, std::int64_t got_ns) noexcept;
  [[nodiscard]] bool empty() const noexcept { return count_ == 0; }
  /// Of the best exchange, as it counts at `now_ns`. All 0 while there was none.
  [[nodiscard]] Estimate estimate(std::int64_t now_ns) const noexcept;

 private:
  struct Sample {
    std::int64_t offset_ns = 0;
    std::int64_t error_ns = 0;  // when it was made
    std::int64_t at_ns = 0;
  };
  static constexpr std::size_t kSamples = 8;

  std::array<Sample, kSamples> samples_{};
  std::size_t count_ = 0;  // of all that were added
};

/// A time of their clock by ours; `none` where it can't be one.
[[nodiscard]] std::int64_t to_our_clock(std::int64_t their_ns_untrusted, std::int64_t offset_ns,
                                        std::int64_t none) noexcept;

}  // namespace framelane::measure
