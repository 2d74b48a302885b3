// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/clock.hpp"
#include "base/cpu.hpp"
#include "ring/phase.hpp"

namespace framelane::ring {

enum class SpinKind : std::uint8_t { kAdaptive, kBusy, kOff };

/// Decides how long a waiting thread spins before it sleeps, and, of a stream with a beat, when it wakes to spin: a
/// sleeping thread needs 100 µs to see a frame, a spinning one less than one.
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

  /// Frame `index` was published then.
  void note(std::int64_t publish_ns, std::uint64_t index) noexcept {
    phase_.note(publish_ns, index);
    lead_ -= (lead_ - kLeastLeadNs) / 64;  // so that one late wake is forgotten
  }

  /// When a sleep that begins now should end, since the next frame is due soon after; base::kForever when nobody knows.
  [[nodiscard]] std::int64_t wake_at(std::int64_t now) const noexcept {
    const std::int64_t due = phase_.due();
    if (kind_ != SpinKind::kAdaptive || due == 0 || !affordable()) return base::kForever;
    const std::int64_t at = due - lead_;
    return at > now ? at : base::kForever;
  }
  /// A sleep until wake_at() has ended by itself: learns how late a sleeper wakes.
  void woke(std::int64_t at, std::int64_t now) noexcept {
    // A wake that is late by far is the machine's doing, and says nothing about the next one.
    lead_ += std::clamp(now - at + kLeastLeadNs - lead_, std::int64_t{0}, lead_ / 2);
  }

 private:
  static constexpr std::uint32_t kTurnsPerLook = 64;      // a clock read costs about as much as one pause
  static constexpr std::int64_t kFreeNs = 10'000;         // about what a sleep and wake cost
  static constexpr std::int64_t kMostCreditNs = 400'000;  // the longest spin that the budget may buy at once

  // Credit grows by budget_ of the time that passes, so spinning beyond the free part costs at most that share of a
  // CPU.
  std::int64_t allowance(std::int64_t now) noexcept {
    earn(now);
    const std::int64_t due = phase_.due();
    // Of a slow stream nothing comes soon after a frame.
    if (due == 0 || !affordable()) return phase_.is_slow() ? kFreeNs : kFreeNs + credit_ns_;
    return now >= due - lead_ - kLeastLeadNs && now <= due + tail() ? kFreeNs + credit_ns_ : kFreeNs;
  }

  void earn(std::int64_t now) noexcept {
    const auto earned = static_cast<std::int64_t>(static_cast<double>(now - counted_until_) * budget_);
    credit_ns_ = std::min(kMostCreditNs, credit_ns_ + earned);
    counted_until_ = now;
  }

  // How long after it was due a frame is still worth a spin.
  [[nodiscard]] std::int64_t tail() const noexcept { return 4 * phase_.jitter() + kLeastLeadNs; }
  [[nodiscard]] bool affordable() const noexcept {
    const std::int64_t window = lead_ + 2 * phase_.jitter();
    return window < kMostCreditNs && window < static_cast<std::int64_t>(static_cast<double>(phase_.period()) * budget_);
  }

  static constexpr std::int64_t kLeastLeadNs = 20'000;

  SpinKind kind_;
  double budget_;
  Phase phase_;
  std::int64_t lead_ = 120'000;  // before a frame is due, so that a sleeper has time to wake
  std::int64_t credit_ns_ = 0;
  std::int64_t counted_until_ = 0;
};

}  // namespace framelane::ring
