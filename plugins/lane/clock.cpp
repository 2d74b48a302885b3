// SPDX-License-Identifier: MIT
#include "lane/clock.hpp"

#include <ctime>

#include "lane/gst_ptr.hpp"

namespace framelane::gst {
namespace {

constexpr std::int64_t kSamplePeriodNs = 1'000'000'000;

// Audio and network clocks are subclasses of GstSystemClock, so only the exact type counts.
bool is_monotonic(GstClock* clock) {
  if (G_OBJECT_TYPE(clock) != GST_TYPE_SYSTEM_CLOCK) return false;
  GstClockType type = GST_CLOCK_TYPE_OTHER;
  g_object_get(clock, "clock-type", &type, nullptr);
  return type == GST_CLOCK_TYPE_MONOTONIC;
}

// The clock is read between two readings of ours; the middle is right to within half their distance.
std::int64_t monotonic_minus(GstClock* clock) {
  const std::int64_t before = monotonic_now();
  const auto theirs = static_cast<std::int64_t>(gst_clock_get_time(clock));
  return before + (monotonic_now() - before) / 2 - theirs;
}

}  // namespace

std::int64_t monotonic_now() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return std::int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

std::optional<std::int64_t> BaseTime::get(GstElement* element) {
  GST_OBJECT_LOCK(element);
  const bool has_clock = GST_ELEMENT_CLOCK(element) != nullptr && GST_CLOCK_TIME_IS_VALID(element->base_time);
  const auto base = static_cast<std::int64_t>(element->base_time);
  const bool known = has_clock && GST_ELEMENT_CLOCK(element) == sampled_clock_;
  const ObjectPtr clock(
      has_clock && (!known || offset_ns_ != 0) ? GST_OBJECT_CAST(gst_object_ref(GST_ELEMENT_CLOCK(element))) : nullptr);
  GST_OBJECT_UNLOCK(element);
  if (!has_clock) return std::nullopt;
  if (known && offset_ns_ == 0) return base;
  GstClock* const gst_clock = GST_CLOCK_CAST(clock.get());
  if (!known && is_monotonic(gst_clock)) {
    offset_ns_ = 0;
  } else if (const std::int64_t now = monotonic_now(); !known || now - sampled_at_ns_ >= kSamplePeriodNs) {
    offset_ns_ = monotonic_minus(gst_clock);
    if (offset_ns_ == 0) offset_ns_ = 1;  // 0 says "no need to look"
    sampled_at_ns_ = now;
  }
  sampled_clock_ = gst_clock;
  return base + offset_ns_;
}

}  // namespace framelane::gst
