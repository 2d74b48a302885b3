// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <string>

#include "framelane/format/frame_info.hpp"

namespace framelane::format {

/// What an event says. The names and meanings are GStreamer's.
enum class EventType : std::uint16_t {
  kStreamStart = 1,  ///< text = stream id, number = flags, group
  kCaps = 2,         ///< text = caps
  kSegment = 3,      ///< segment
  kTag = 4,          ///< text = serialised tag list, number = scope
  kGap = 5,          ///< gap
  kCustom = 6,       ///< text = serialised structure, number = the sender's own kind
  kEndOfStream = 7,  ///< nothing follows
  kState = 8,        ///< like kCustom, but sticky: text = serialised structure, number = its kind (0 or 1)
};

/// Units of a segment's numbers.
enum class SegmentFormat : std::uint32_t { kUndefined = 0, kDefault = 1, kBytes = 2, kTime = 3 };

/// How the stream's times map to running time (GStreamer's GstSegment, field by field). Numbers are in `format`'s units
/// (ns for kTime); UINT64_MAX means not set.
struct Segment {
  SegmentFormat format = SegmentFormat::kTime;
  std::uint32_t flags = 0;
  double rate = 1.0;
  double applied_rate = 1.0;
  std::uint64_t base = 0;
  std::uint64_t offset = 0;
  std::uint64_t start = 0;
  std::uint64_t stop = kNoTime;
  std::uint64_t time = 0;
  std::uint64_t position = 0;
  std::uint64_t duration = kNoTime;

  friend bool operator==(const Segment&, const Segment&) = default;
};

/// One event of a stream, in order with its frames. Which members count is said at each EventType.
struct Event {
  EventType type = EventType::kCustom;
  std::uint32_t number = 0;
  std::uint32_t group = 0;
  std::string text;
  Segment segment;
  std::uint64_t pts = kNoTime;       ///< of a kGap, ns
  std::uint64_t duration = kNoTime;  ///< of a kGap, ns

  friend bool operator==(const Event&, const Event&) = default;
};

/// Events of which a late joiner is told the last one: stream start, caps, segment, tags and states (of each number).
[[nodiscard]] constexpr bool is_sticky(EventType type) noexcept {
  return type == EventType::kStreamStart || type == EventType::kCaps || type == EventType::kSegment ||
         type == EventType::kTag || type == EventType::kState;
}

}  // namespace framelane::format
