// SPDX-License-Identifier: MIT
#pragma once

#include <gst/gst.h>

#include "framelane/format/frame_info.hpp"

namespace framelane::gst {

/// The producer's upstream is live. Travels with each frame so that a consumer that joins at any time knows.
inline constexpr std::uint32_t kUpstreamLive = 1u << 19;

// Bits 20 to 31 of FrameInfo::flags are GStreamer's media-specific flags (interlacing, RTP, ...): the same numbers.
inline constexpr std::uint32_t kMediaFlags = ~(static_cast<std::uint32_t>(GST_BUFFER_FLAG_LAST) - 1);

/// Times, offsets and flags of a buffer.
[[nodiscard]] format::FrameInfo info_of(GstBuffer* buffer);

/// Puts them on a buffer that has none yet.
void apply_info(GstBuffer* buffer, const format::FrameInfo& info);

}  // namespace framelane::gst
