// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/clock.hpp"
#include "base/cpu.hpp"

namespace framelane::ring {

enum class SpinKind : std::uint8_t { kAdaptive, kBusy, kOff };

/// Decides how long a waiting thread spins before it sleeps.
///
/// Threads: one waiting thread.
/// Source:  the free part is the ski-rental bound: a spin as long as a sleep and wake cost is at most twice the best
///          choice.
class Spinner {
 public:
  Spinner(SpinKind kind, double budget) noexcept
      : kind_(base::online_cpus() > 1 ? kind : SpinKind::kOff), budget_(std::clamp(budget, 0.0, 1.0)) {}

  /// A spin too short to read the clock for, a microsecond or two. Returns whether it is ready.
  template <class Ready>
  bool spin_briefly(Ready&& ready) const noexcept {
    if (kind_ == SpinKind::kOff) return ready();
    for (std::uint32_t turn = 0; turn < kTurnsPerLook; ++turn) {
      if (ready()) return true;
      base::cpu_relax();
    }
    return ready();
  }

  /// Spins until `ready()` or until the time is used up; returns whether it is ready. `deadline_ns` is CLOCK_MONOTONIC.
  template <class Ready>
  bool spin(Ready&& ready, std::int64_t deadline_ns) noexcept {
    if (kind_ == SpinKind::kOff) return ready();
    std::int64_t start = 0;
    std::int64_t now = 0;
    bool done = false;
    for (std::uint32_t turn = 0; !(done = ready()); ++turn) {
      base::cpu_relax();
      if (turn % kTurnsPerLook != kTurnsPerLook - 1) continue;
      now = base::monotonic_ns();
      if (start == 0) start = now;
      if (now >= deadline_ns || (kind_ == SpinKind::kAdaptive && now - start > allowance(now))) break;
    }
    // Also of a spin that was worth it: else a fast stream, or short timeouts in a loop, would spin all the time.
    credit_ns_ -= std::clamp(now - start - kFreeNs, std::int64_t{0}, credit_ns_);
    return done || ready();
  }

 private:
  static constexpr std::uint32_t kTurnsPerLook = 64;      // a clock read costs about as much as one pause
  static constexpr std::int64_t kFreeNs = 10'000;         // about what a sleep and wake cost
  static constexpr std::int64_t kMostCreditNs = 200'000;  // the longest spin that the budget may buy at once

  // Credit grows by budget_ of the time that passes, so spinning beyond the free part costs at most that share of a
  // CPU.
  std::int64_t allowance(std::int64_t now) noexcept {
    const auto earned = static_cast<std::int64_t>(static_cast<double>(now - counted_until_) * budget_);
    credit_ns_ = std::min(kMostCreditNs, credit_ns_ + earned);
    counted_until_ = now;
    return kFreeNs + credit_ns_;
  }

  SpinKind kind_;
  double budget_;
  std::int64_t credit_ns_ = 0;
  std::int64_t counted_until_ = 0;
};

}  // namespace framelane::ring
