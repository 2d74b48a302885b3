// SPDX-License-Identifier: MIT
#pragma once

#include <optional>
#include <string>

#include <gst/gst.h>

#include "framelane/base/result.hpp"
#include "framelane/format/event.hpp"

#include "lane/gst_ptr.hpp"

// GStreamer's events in a lane, both directions: what one end writes, the other reads here.
namespace framelane::gst {

/// Numbers of kState events: sticky, so that a late joiner has the last of each.
enum class StateKind : std::uint32_t {
  kLayout = 0,   ///< media.hpp: where the planes of raw video lie when that isn't the default
  kLatency = 1,  ///< Latency, below
  // 2 to 11: GST_EVENT_CUSTOM_DOWNSTREAM_STICKY, one number for each name
  kFirstCustom = 2,
  kTocGlobal = 12,  ///< with the stream, see format::kFirstStreamState
  kTocCurrent = 13,
};
inline constexpr std::uint32_t kMostStickyCustom = 10;

/// Numbers of kCustom events.
enum class CustomKind : std::uint32_t {
  kDownstream = 1,        ///< GST_EVENT_CUSTOM_DOWNSTREAM
  kDownstreamSticky = 2,  ///< GST_EVENT_CUSTOM_DOWNSTREAM_STICKY
  kBoth = 3,              ///< GST_EVENT_CUSTOM_BOTH
  kDownstreamOob = 4,     ///< GST_EVENT_CUSTOM_DOWNSTREAM_OOB
  kBothOob = 5,           ///< GST_EVENT_CUSTOM_BOTH_OOB
};

/// Whether pads keep it. (GST_EVENT_IS_STICKY mixes two enumerations, which clang warns of in C++20.)
[[nodiscard]] inline bool is_sticky(GstEvent* event) noexcept {
  return (gst_event_type_get_flags(GST_EVENT_TYPE(event)) & GST_EVENT_TYPE_STICKY) != 0;
}

/// A custom event of which a late joiner gets the last one of its name.
[[nodiscard]] inline bool is_sticky_custom(const format::Event& event) noexcept {
  return event.type == format::EventType::kCustom &&
         event.number == static_cast<std::uint32_t>(CustomKind::kDownstreamSticky);
}

/// An event of this type and text.
[[nodiscard]] format::Event make_event(format::EventType type, std::string text = {}, std::uint32_t number = 0);

/// The lane's event for a downstream event of the producer's pipeline; empty if this kind doesn't cross. Caps, EOS and
/// flushes are not made here: the sink sends them by the calls that the lane has for them.
[[nodiscard]] std::optional<format::Event> to_lane(GstEvent* event);

/// The event for the consumer's pipeline. Errors: kProtocol (the text doesn't parse).
/// Not for kCaps, kSegment, kEndOfStream, flushes, and the layout and latency, which the source handles itself.
[[nodiscard]] Result<EventPtr> to_gst(const format::Event& event);

[[nodiscard]] format::Segment to_lane(const GstSegment& segment);
/// Errors: kProtocol (numbers that no segment can have).
[[nodiscard]] Result<GstSegment> to_gst(const format::Segment& segment);

/// What a consumer has to know to answer a LATENCY query.
struct Latency {
  bool live = false;                       ///< the producer's upstream is
  GstClockTime min = 0;                    ///< how late a frame enters the lane, ns
  GstClockTime max = GST_CLOCK_TIME_NONE;  ///< min, and how long the lane keeps a frame before it leaks; NONE: for ever

  friend bool operator==(const Latency&, const Latency&) = default;
};
[[nodiscard]] format::Event to_lane(const Latency& latency);
/// Errors: kProtocol.
[[nodiscard]] Result<Latency> latency_of(const format::Event& event);

}  // namespace framelane::gst
