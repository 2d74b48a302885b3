// SPDX-License-Identifier: MIT
#include "lane/frame_info.hpp"

namespace framelane::gst {
namespace {

// The lane's numbers are its own, so that they don't depend on GStreamer's. SYNC_AFTER has no place among the public
// ones.
constexpr std::uint32_t kSyncAfter = 1u << 18;

struct Flag {
  GstBufferFlags gst;
  std::uint32_t lane;
};

constexpr Flag kFlags[] = {
    {GST_BUFFER_FLAG_DISCONT, format::kDiscont},
    {GST_BUFFER_FLAG_DELTA_UNIT, format::kDeltaUnit},
    {GST_BUFFER_FLAG_HEADER, format::kHeader},
    {GST_BUFFER_FLAG_GAP, format::kGap},
    {GST_BUFFER_FLAG_CORRUPTED, format::kCorrupted},
    {GST_BUFFER_FLAG_MARKER, format::kMarker},
    {GST_BUFFER_FLAG_DROPPABLE, format::kDroppable},
    {GST_BUFFER_FLAG_RESYNC, format::kResync},
    {GST_BUFFER_FLAG_DECODE_ONLY, format::kDecodeOnly},
    {GST_BUFFER_FLAG_LIVE, format::kLive},
    {GST_BUFFER_FLAG_NON_DROPPABLE, format::kNonDroppable},
    {GST_BUFFER_FLAG_SYNC_AFTER, kSyncAfter},
};

// "None" is the same number on both sides, so times and offsets are copied as they are.
static_assert(GST_CLOCK_TIME_NONE == format::kNoTime && GST_BUFFER_OFFSET_NONE == format::kNoTime);

}  // namespace

format::FrameInfo info_of(GstBuffer* buffer) {
  const std::uint32_t flags = GST_BUFFER_FLAGS(buffer);
  format::FrameInfo info;
  info.pts = GST_BUFFER_PTS(buffer);
  info.dts = GST_BUFFER_DTS(buffer);
  info.duration = GST_BUFFER_DURATION(buffer);
  info.offset = GST_BUFFER_OFFSET(buffer);
  info.offset_end = GST_BUFFER_OFFSET_END(buffer);
  info.flags = flags & kMediaFlags;
  for (const Flag& flag : kFlags) {
    if ((flags & flag.gst) != 0) info.flags |= flag.lane;
  }
  return info;
}

void apply_info(GstBuffer* buffer, const format::FrameInfo& info) {
  GST_BUFFER_PTS(buffer) = info.pts;
  GST_BUFFER_DTS(buffer) = info.dts;
  GST_BUFFER_DURATION(buffer) = info.duration;
  GST_BUFFER_OFFSET(buffer) = info.offset;
  GST_BUFFER_OFFSET_END(buffer) = info.offset_end;
  std::uint32_t flags = info.flags & kMediaFlags;
  for (const Flag& flag : kFlags) {
    if ((info.flags & flag.lane) != 0) flags |= static_cast<std::uint32_t>(flag.gst);
  }
  // Only adds: TAG_MEMORY is the buffer's own.
  GST_BUFFER_FLAGS(buffer) |= flags;
}

}  // namespace framelane::gst
