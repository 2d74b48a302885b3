// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <cstddef>
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
  kState = 8,        ///< like kCustom, but sticky: text = serialised structure, number = its kind, below kMaxStates
  kFlushStart = 9,   ///< what was sent before and isn't taken yet is dropped; only by Producer::flush_start()
  kFlushStop = 10,   ///< what follows counts again; only by Producer::flush_stop()
};

/// Kinds of kState events. Those below kFirstStreamState belong to the lane; the others are forgotten, like tags, when
/// a new stream starts.
inline constexpr std::uint32_t kMaxStates = 16;
inline constexpr std::uint32_t kFirstStreamState = 12;

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

/// What a consumer asks of the producer. The names and meanings are GStreamer's.
enum class RequestType : std::uint16_t {
  kKeyUnit = 1,  ///< a frame that stands alone: time (kNoTime = at once), headers, number = count
  kCustom = 2,   ///< text = serialised structure, number = the sender's own kind
  kQos = 3,      ///< how the consumer keeps up: number = GstQOSType, proportion, jitter_ns, time
};

/// A request of a consumer. Which members count is said at each RequestType.
struct Request {
  RequestType type = RequestType::kKeyUnit;
  std::uint32_t number = 0;
  bool headers = false;          ///< the stream's headers, too
  std::uint64_t time = kNoTime;  ///< ns of the producer's running time
  double proportion = 1.0;       ///< of real time that the consumer needs; not negative
  std::int64_t jitter_ns = 0;    ///< how late (or, negative, early) its frames are
  std::string text;              ///< at most kMaxRequestText bytes

  friend bool operator==(const Request&, const Request&) = default;
};
inline constexpr std::size_t kMaxRequestText = std::size_t{16} << 10;

/// Makes one wish for a key unit of two: the sooner one, for all that either asks.
inline void merge_key_unit(Request& wish, const Request& other) noexcept {
  wish.time = wish.time == kNoTime || other.time == kNoTime ? kNoTime : std::min(wish.time, other.time);
  wish.headers = wish.headers || other.headers;
  wish.number = std::max(wish.number, other.number);
}

/// Events of which a late joiner is told the last one: stream start, caps, segment, tags and states (of each number).
[[nodiscard]] constexpr bool is_sticky(EventType type) noexcept {
  return type == EventType::kStreamStart || type == EventType::kCaps || type == EventType::kSegment ||
         type == EventType::kTag || type == EventType::kState;
}

}  // namespace framelane::format
