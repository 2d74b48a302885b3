// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <cstdint>

namespace framelane::ring {

/// Learns the beat of a paced stream from when its frames were published, so that a consumer can be awake at the moment
/// of the next one and asleep before.
///
/// Threads: one.
/// Units:   ns of CLOCK_MONOTONIC.
class Phase {
 public:
  /// Indices grow. Frames that weren't taken, or not stamped, may lie between two.
  void note(std::int64_t publish_ns, std::uint64_t index) noexcept {
    const auto frames = static_cast<std::int64_t>(index - index_);
    const std::int64_t gap = (publish_ns - last_) / std::max(frames, std::int64_t{1});
    last_ = publish_ns;
    index_ = index;
    const std::int64_t error = gap - period_;
    const std::int64_t miss = error < 0 ? -error : error;
    if (gap < kLeastPeriodNs || gap > kMostPeriodNs || miss > period_ / 8) {  // another beat, or none
      period_ = gap;
      jitter_ = beats_ = 0;
      return;
    }
    period_ += error / kSlow;
    jitter_ += (miss - jitter_) / kQuick;
    beats_ = std::min(beats_ + 1, kBeats);
  }

  /// When the next frame is due; 0 while there is no beat.
  [[nodiscard]] std::int64_t due() const noexcept { return beats_ == kBeats ? last_ + period_ : 0; }
  /// The stream's frames are at least 1 ms apart.
  [[nodiscard]] bool is_slow() const noexcept { return period_ >= kLeastPeriodNs; }
  [[nodiscard]] std::int64_t period() const noexcept { return period_; }
  /// How far frames usually are from where they are due.
  [[nodiscard]] std::int64_t jitter() const noexcept { return jitter_; }

 private:
  static constexpr std::int64_t kLeastPeriodNs = 1'000'000;  // closer frames than that are found without
  static constexpr std::int64_t kMostPeriodNs = 2'000'000'000;
  static constexpr std::int64_t kSlow = 16;
  static constexpr std::int64_t kQuick = 8;
  static constexpr std::int64_t kBeats = 8;

  std::int64_t last_ = 0;
  std::uint64_t index_ = 0;
  std::int64_t period_ = 0;
  std::int64_t jitter_ = 0;
  std::int64_t beats_ = 0;  // in a row
};

}  // namespace framelane::ring
