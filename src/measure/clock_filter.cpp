// SPDX-License-Identifier: MIT
#include "measure/clock_filter.hpp"

#include <algorithm>

namespace framelane::measure {
namespace {

constexpr std::int64_t kMostNs = std::int64_t{1} << 62;  // so that no difference of two overflows
constexpr std::int64_t kMillion = 1'000'000;

bool is_time(std::int64_t ns) noexcept { return ns >= 0 && ns <= kMostNs; }

}  // namespace

bool ClockFilter::add(std::int64_t asked_ns, std::int64_t their_ns_untrusted, std::int64_t got_ns) noexcept {
  if (!is_time(asked_ns) || !is_time(their_ns_untrusted) || !is_time(got_ns) || got_ns < asked_ns) return false;
  const std::int64_t half = (got_ns - asked_ns + 1) / 2;
  samples_[count_++ % kSamples] = {their_ns_untrusted - (asked_ns + half), half, got_ns};
  return true;
}

ClockFilter::Estimate ClockFilter::estimate(std::int64_t now_ns) const noexcept {
  Estimate best;
  for (std::size_t i = 0; i < std::min(count_, kSamples); ++i) {
    const Sample& sample = samples_[i];
    const std::int64_t age = std::max<std::int64_t>(now_ns - sample.at_ns, 0);
    const std::int64_t error = std::max<std::int64_t>(sample.error_ns + age / (kMillion / kDriftPpm), 1);
    if (i == 0 || error < best.error_ns) best = {sample.offset_ns, error};
  }
  return best;
}

std::int64_t to_our_clock(std::int64_t their_ns_untrusted, std::int64_t offset_ns, std::int64_t none) noexcept {
  return is_time(their_ns_untrusted) ? their_ns_untrusted - offset_ns : none;
}

}  // namespace framelane::measure
