// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <limits>

namespace framelane::format {

/// "No time", for the unsigned media times (the same value as GST_CLOCK_TIME_NONE).
inline constexpr std::uint64_t kNoTime = std::numeric_limits<std::uint64_t>::max();

/// "No time", for the signed CLOCK_MONOTONIC times.
inline constexpr std::int64_t kNoClockTime = std::numeric_limits<std::int64_t>::min();

/// Bits of FrameInfo::flags. The meanings are GStreamer's buffer flags; the numbers are the lane's own.
enum FrameFlag : std::uint32_t {
  kDiscont = 1u << 0,        ///< the frame doesn't follow its predecessor (the first one, or after a loss)
  kDeltaUnit = 1u << 1,      ///< can't be decoded without earlier frames
  kHeader = 1u << 2,         ///< stream header
  kGap = 1u << 3,            ///< neutral data, may be ignored
  kCorrupted = 1u << 4,      ///< the payload is damaged
  kMarker = 1u << 5,         ///< end of a group, e.g. the last packet of a picture
  kDroppable = 1u << 6,      ///< nothing depends on it
  kResync = 1u << 7,         ///< time has jumped
  kDecodeOnly = 1u << 8,     ///< decode, don't show
  kLive = 1u << 9,           ///< captured live
  kNonDroppable = 1u << 10,  ///< must not be dropped by policy of an element
};

/// What travels with a frame besides its bytes.
struct FrameInfo {
  std::uint64_t pts = kNoTime;             ///< presentation time, ns of the stream's segment
  std::uint64_t dts = kNoTime;             ///< decoding time, ns of the stream's segment
  std::uint64_t duration = kNoTime;        ///< ns
  std::uint64_t offset = kNoTime;          ///< in units of the format (frames, samples or bytes)
  std::uint64_t offset_end = kNoTime;      ///< in units of the format
  std::uint32_t flags = 0;                 ///< FrameFlag bits
  std::uint32_t type_id = 0;               ///< the application's own number for the kind of payload; 0 = none
  std::int64_t due_ns = kNoClockTime;      ///< when the frame is due, ns of CLOCK_MONOTONIC
  std::int64_t capture_ns = kNoClockTime;  ///< when its content was captured, ns of CLOCK_MONOTONIC

  friend bool operator==(const FrameInfo&, const FrameInfo&) = default;
};

}  // namespace framelane::format
