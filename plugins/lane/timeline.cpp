// SPDX-License-Identifier: MIT
#include "lane/timeline.hpp"

#include <algorithm>
#include <cstdlib>
#include <mutex>
#include <vector>

#define GST_CAT_DEFAULT lane_debug
#include "lane/debug.hpp"
#include "lane/frame_info.hpp"

namespace framelane::gst {
namespace {

// Clocks that aren't the monotonic one drift against it; a new segment for less would be noise.
constexpr std::int64_t kDriftNs = 20'000'000;

bool moved(const std::optional<std::int64_t>& was, const std::optional<std::int64_t>& is) {
  return was.has_value() != is.has_value() || (is && std::llabs(*is - *was) > kDriftNs);
}

const void* pipeline_of(GstElement* element) {
  GstObject* top = GST_OBJECT_CAST(element);
  while (GST_OBJECT_PARENT(top) != nullptr) top = GST_OBJECT_PARENT(top);
  return top;
}

}  // namespace

struct Timeline::Meeting {
  const void* pipeline;  // only compared
  std::optional<std::int64_t> base;
  std::int64_t origin;
  std::int64_t offset;
};

Timeline::Timeline(GstElement* element, TimestampMode mode) : element_(element), mode_(mode) {
  gst_segment_init(&original_, GST_FORMAT_TIME);
  gst_segment_init(&shifted_, GST_FORMAT_TIME);
}

void Timeline::set_segment(const GstSegment& segment) {
  original_ = segment;
  pending_ = true;
}

const GstSegment& Timeline::take_segment() {
  if (pending_) shift();
  pending_ = false;
  return shifted_;
}

TimestampMode Timeline::mode_for(const format::FrameInfo& info) const noexcept {
  if (mode_ != TimestampMode::kAuto) return mode_;
  return (info.flags & kUpstreamLive) != 0 ? TimestampMode::kClock : TimestampMode::kFirst;
}

std::optional<std::int64_t> Timeline::running_time(const format::FrameInfo& info) const {
  const std::uint64_t time = info.pts != format::kNoTime ? info.pts : info.dts;
  if (time == format::kNoTime || original_.format != GST_FORMAT_TIME) return std::nullopt;
  guint64 running = 0;
  // Backwards without an end has no running time; GStreamer would complain about the question.
  if (original_.rate < 0 && original_.stop == GST_CLOCK_TIME_NONE) return std::nullopt;
  const gint sign = gst_segment_to_running_time_full(&original_, GST_FORMAT_TIME, time, &running);
  if (sign == 0) return std::nullopt;
  return sign > 0 ? static_cast<std::int64_t>(running) : -static_cast<std::int64_t>(running);
}

Timeline::Verdict Timeline::place(format::FrameInfo& info, std::int64_t due_ns) {
  placed_ = true;
  const TimestampMode mode = mode_for(info);
  if (mode == TimestampMode::kArrival) return arrive(info);
  const auto running = running_time(info);
  const auto base = base_time_.get(element_);
  std::optional<std::int64_t> origin = origin_;
  if (running && due_ns != format::kNoClockTime) origin = due_ns - *running;

  const bool restarted = restarted_.exchange(false, std::memory_order_acq_rel);
  if (pending_ || restarted || mode != used_ || moved(base_, base) || moved(origin_, origin)) {
    base_ = base;
    origin_ = origin;
    used_ = mode;
    const std::int64_t offset = offset_for(mode, running.value_or(0));
    pending_ = pending_ || offset != offset_;
    offset_ = offset;
  }
  if (mode == TimestampMode::kClock && running && *running + offset_ < 0) return Verdict::kDrop;
  if (!pending_) return Verdict::kPush;
  shift();
  pending_ = false;
  return Verdict::kSegmentFirst;
}

std::int64_t Timeline::offset_for(TimestampMode mode, std::int64_t running) {
  if (original_.format != GST_FORMAT_TIME || mode == TimestampMode::kProducer) return 0;
  if (mode == TimestampMode::kFirst) return meet(running);
  // Without both clocks (a preroll, a producer that says no times) there is nothing to go by but the first frame.
  return base_ && origin_ ? *origin_ - *base_ : meet(running);
}

std::int64_t Timeline::meet(std::int64_t running) {
  const std::int64_t offset = running_now() - running;
  if (!origin_) return offset;
  // An audio and a video lane of one producer come through two sources; whichever is first decides for both. The
  // producer's base time tells which lanes belong together.
  static std::mutex mutex;
  static std::vector<std::weak_ptr<const Meeting>> meetings;
  const void* const pipeline = pipeline_of(element_);
  const std::lock_guard lock(mutex);
  std::erase_if(meetings, [](const auto& meeting) { return meeting.expired(); });
  for (const auto& weak : meetings) {
    const auto meeting = weak.lock();
    if (meeting && meeting->pipeline == pipeline && !moved(meeting->base, base_) &&
        std::llabs(meeting->origin - *origin_) <= kDriftNs) {
      meeting_ = meeting;
      return meeting_->offset;
    }
  }
  meeting_ = std::make_shared<const Meeting>(Meeting{pipeline, base_, *origin_, offset});
  meetings.push_back(meeting_);
  return offset;
}

std::int64_t Timeline::running_now() const {
  return base_ ? monotonic_now() - *base_ : 0;  // no base time yet: PAUSED, the running time to come begins at 0
}

void Timeline::shift() {
  shifted_ = original_;
  known_offset_.store(format::kNoClockTime, std::memory_order_relaxed);
  if (original_.format != GST_FORMAT_TIME) return;
  known_offset_.store(offset_, std::memory_order_relaxed);
  if (!gst_segment_offset_running_time(&shifted_, GST_FORMAT_TIME, offset_)) {
    // Happens only when the whole segment lies before this pipeline's start.
    GST_WARNING_OBJECT(element_, "the segment can't move by %" G_GINT64_FORMAT " ns, it stays", offset_);
    shifted_ = original_;
    known_offset_.store(0, std::memory_order_relaxed);
  }
  GST_DEBUG_OBJECT(element_, "running times move by %" G_GINT64_FORMAT " ns", offset_);
}

Timeline::Verdict Timeline::arrive(format::FrameInfo& info) {
  base_ = base_time_.get(element_);
  info.pts = static_cast<std::uint64_t>(std::max<std::int64_t>(running_now(), 0));
  info.dts = format::kNoTime;
  if (!pending_ && used_ == TimestampMode::kArrival) return Verdict::kPush;
  used_ = TimestampMode::kArrival;
  known_offset_.store(format::kNoClockTime, std::memory_order_relaxed);
  gst_segment_init(&shifted_, GST_FORMAT_TIME);
  pending_ = false;
  return Verdict::kSegmentFirst;
}

}  // namespace framelane::gst
