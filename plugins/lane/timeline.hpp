// SPDX-License-Identifier: MIT
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>

#include <gst/gst.h>

#include "framelane/format/frame_info.hpp"

#include "lane/clock.hpp"
#include "lane/enums.hpp"

namespace framelane::gst {

/// Maps the producer's running time to the consumer's. PTS, DTS and the segment's numbers stay what they are; only the
/// segment's base moves, by D = what is added to a running time. So audio and video that crossed separately stay in
/// step, and a muxer sees the timestamps of the file.
///
/// Threads: the streaming thread; restart() any.
class Timeline {
 public:
  Timeline(GstElement* element, TimestampMode mode);

  /// The producer's segment, from here on.
  void set_segment(const GstSegment& segment);
  /// The element goes to PLAYING: its base time has changed.
  void restart() noexcept { restarted_.store(true, std::memory_order_release); }

  enum class Verdict {
    kPush,
    kSegmentFirst,  ///< push segment(), then the frame
    kDrop,          ///< mode clock, and the frame was due before this pipeline began
  };
  /// Where a frame belongs. With mode arrival its times are rewritten.
  [[nodiscard]] Verdict place(format::FrameInfo& info, std::int64_t due_ns);
  /// True from set_segment() until place() or take_segment().
  [[nodiscard]] bool pending() const noexcept { return pending_; }
  /// True once a frame was placed.
  [[nodiscard]] bool placed() const noexcept { return placed_; }
  /// The segment to push when no frame comes first (a gap, the end).
  [[nodiscard]] const GstSegment& take_segment();
  /// A flush has ended: the segment has to be said again, and where it lies is found anew.
  void flush() noexcept {
    pending_ = true;
    restart();
  }
  /// D, once it is known; empty where running times of both sides don't compare. Any thread.
  [[nodiscard]] std::optional<std::int64_t> offset() const noexcept {
    const std::int64_t offset = known_offset_.load(std::memory_order_relaxed);
    return offset == format::kNoClockTime ? std::nullopt : std::optional(offset);
  }
  /// The shifted segment.
  [[nodiscard]] const GstSegment& segment() const noexcept { return shifted_; }

 private:
  struct Meeting;  // where two lanes of one producer agree on D

  [[nodiscard]] TimestampMode mode_for(const format::FrameInfo& info) const noexcept;
  [[nodiscard]] std::optional<std::int64_t> running_time(const format::FrameInfo& info) const;
  [[nodiscard]] std::int64_t offset_for(TimestampMode mode, std::int64_t running);
  [[nodiscard]] std::int64_t meet(std::int64_t running);
  [[nodiscard]] std::int64_t running_now() const;
  void shift();
  Verdict arrive(format::FrameInfo& info);

  GstElement* element_;
  TimestampMode mode_;
  BaseTime base_time_;
  std::atomic<bool> restarted_{false};

  GstSegment original_;
  GstSegment shifted_;
  bool pending_ = true;  // the segment wasn't pushed yet
  bool placed_ = false;
  std::int64_t offset_ = 0;                                       // D, ns
  std::atomic<std::int64_t> known_offset_{format::kNoClockTime};  // for other threads
  TimestampMode used_ = TimestampMode::kAuto;
  std::optional<std::int64_t> base_;    // ours, when D was made; CLOCK_MONOTONIC
  std::optional<std::int64_t> origin_;  // the producer's
  std::shared_ptr<const Meeting> meeting_;
};

}  // namespace framelane::gst
