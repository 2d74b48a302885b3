// SPDX-License-Identifier: MIT
#include "lane/events.hpp"

#include <cmath>
#include <map>
#include <mutex>

#define GST_CAT_DEFAULT lane_debug
#include "lane/debug.hpp"
#include "lane/texts.hpp"

namespace framelane::gst {
namespace {

using format::EventType;

// A group id is a small number that each process counts on its own, so two producers would seem to be one group. In the
// lane it is scattered by a number of this process; a multiplication by an odd number loses nothing.
std::uint32_t lane_group(guint id) {
  static const std::uint32_t seed = g_random_int();
  const std::uint32_t group = seed ^ (id * 2654435761u);
  return group == 0 ? seed | 1u : group;  // 0 means "no group"
}

// Lanes of one producer's group get one group here, whichever source asks first.
guint local_group(std::uint32_t lane_group) {
  static std::mutex mutex;
  static std::map<std::uint32_t, guint> groups;
  const std::lock_guard lock(mutex);
  const auto found = groups.find(lane_group);
  if (found != groups.end()) return found->second;
  if (groups.size() >= 1024) groups.clear();  // restarts of producers over months; a lost entry only splits a group
  return groups[lane_group] = gst_util_group_id_next();
}

format::Event stream_start(GstEvent* event) {
  format::Event result = make_event(EventType::kStreamStart);
  const char* id = nullptr;
  GstStreamFlags flags = GST_STREAM_FLAG_NONE;
  guint group = 0;
  gst_event_parse_stream_start(event, &id);
  gst_event_parse_stream_flags(event, &flags);
  result.text = id;
  result.number = static_cast<std::uint32_t>(flags);
  if (gst_event_parse_group_id(event, &group)) result.group = lane_group(group);
  return result;
}

std::optional<format::Event> tag(GstEvent* event) {
  GstTagList* tags = nullptr;
  gst_event_parse_tag(event, &tags);
  auto text = text_of(tags);
  if (!text) return std::nullopt;
  return make_event(EventType::kTag, std::move(*text), static_cast<std::uint32_t>(gst_tag_list_get_scope(tags)));
}

format::Event toc(GstEvent* event) {
  GstToc* toc = nullptr;
  gboolean updated = FALSE;
  gst_event_parse_toc(event, &toc, &updated);
  const bool global = gst_toc_get_scope(toc) == GST_TOC_SCOPE_GLOBAL;
  format::Event result =
      make_event(EventType::kState, text_of(toc, updated != FALSE),
                 static_cast<std::uint32_t>(global ? StateKind::kTocGlobal : StateKind::kTocCurrent));
  gst_mini_object_unref(GST_MINI_OBJECT_CAST(toc));
  return result;
}

std::optional<format::Event> custom(GstEvent* event, CustomKind kind) {
  const GstStructure* structure = gst_event_get_structure(event);
  auto text = structure == nullptr ? std::nullopt : text_of(structure);
  if (!text) {
    GST_WARNING("%s doesn't cross the lane: it has no text form", GST_EVENT_TYPE_NAME(event));
    return std::nullopt;
  }
  return make_event(EventType::kCustom, std::move(*text), static_cast<std::uint32_t>(kind));
}

std::nullopt_t stays(GstEvent* event) {
  const std::string type = GST_EVENT_TYPE_NAME(event);
  if (is_first("event " + type)) GST_INFO("%s events don't cross the lane", type.c_str());
  return std::nullopt;
}

Result<EventPtr> tag_event(const format::Event& event) {
  GstTagList* tags = tags_of(event.text);
  if (tags == nullptr) return fail(Code::kProtocol, "the producer sent tags that can't be read");
  const bool global = event.number == GST_TAG_SCOPE_GLOBAL;
  gst_tag_list_set_scope(tags, global ? GST_TAG_SCOPE_GLOBAL : GST_TAG_SCOPE_STREAM);
  return EventPtr(gst_event_new_tag(tags));
}

GstEventType custom_type(CustomKind kind) {
  switch (kind) {
    case CustomKind::kDownstreamSticky:
      return GST_EVENT_CUSTOM_DOWNSTREAM_STICKY;
    case CustomKind::kBoth:
      return GST_EVENT_CUSTOM_BOTH;
    case CustomKind::kDownstreamOob:
      return GST_EVENT_CUSTOM_DOWNSTREAM_OOB;
    case CustomKind::kBothOob:
      return GST_EVENT_CUSTOM_BOTH_OOB;
    case CustomKind::kDownstream:
      break;
  }
  return GST_EVENT_CUSTOM_DOWNSTREAM;
}

Result<EventPtr> custom_event(const format::Event& event, CustomKind kind) {
  StructurePtr structure = structure_of(event.text);
  if (structure == nullptr) return fail(Code::kProtocol, "the producer sent an event that can't be read");
  return EventPtr(gst_event_new_custom(custom_type(kind), structure.release()));
}

Result<EventPtr> state_event(const format::Event& event) {
  const bool toc = event.number == static_cast<std::uint32_t>(StateKind::kTocGlobal) ||
                   event.number == static_cast<std::uint32_t>(StateKind::kTocCurrent);
  return toc ? toc_event(event.text) : custom_event(event, CustomKind::kDownstreamSticky);
}

EventPtr stream_start_event(const format::Event& event) {
  GstEvent* result = gst_event_new_stream_start(event.text.c_str());
  gst_event_set_stream_flags(result, static_cast<GstStreamFlags>(event.number));
  gst_event_set_group_id(result, event.group == 0 ? gst_util_group_id_next() : local_group(event.group));
  return EventPtr(result);
}

}  // namespace

format::Event make_event(format::EventType type, std::string text, std::uint32_t number) {
  format::Event event;
  event.type = type;
  event.text = std::move(text);
  event.number = number;
  return event;
}

std::optional<format::Event> to_lane(GstEvent* event) {
  switch (GST_EVENT_TYPE(event)) {
    case GST_EVENT_STREAM_START:
      return stream_start(event);
    case GST_EVENT_SEGMENT: {
      const GstSegment* segment = nullptr;
      gst_event_parse_segment(event, &segment);
      format::Event result = make_event(EventType::kSegment);
      result.segment = to_lane(*segment);
      return result;
    }
    case GST_EVENT_TAG:
      return tag(event);
    case GST_EVENT_GAP: {
      format::Event result = make_event(EventType::kGap);
      gst_event_parse_gap(event, &result.pts, &result.duration);
      return result;
    }
    case GST_EVENT_CUSTOM_DOWNSTREAM:
      return custom(event, CustomKind::kDownstream);
    case GST_EVENT_CUSTOM_DOWNSTREAM_STICKY:
      return custom(event, CustomKind::kDownstreamSticky);
    case GST_EVENT_CUSTOM_BOTH:
      return custom(event, CustomKind::kBoth);
    case GST_EVENT_CUSTOM_DOWNSTREAM_OOB:
      return custom(event, CustomKind::kDownstreamOob);
    case GST_EVENT_CUSTOM_BOTH_OOB:
      return custom(event, CustomKind::kBothOob);
    case GST_EVENT_TOC:
      return toc(event);
    case GST_EVENT_CAPS:
    case GST_EVENT_EOS:
      return std::nullopt;
    default:
      return stays(event);
  }
}

Result<EventPtr> to_gst(const format::Event& event) {
  switch (event.type) {
    case EventType::kStreamStart:
      return stream_start_event(event);
    case EventType::kTag:
      return tag_event(event);
    case EventType::kGap:
      if (event.pts == format::kNoTime) return fail(Code::kProtocol, "the producer sent a gap without a time");
      return EventPtr(gst_event_new_gap(event.pts, event.duration));
    case EventType::kCustom:
      return custom_event(event, static_cast<CustomKind>(event.number));
    case EventType::kState:
      return state_event(event);
    default:
      return fail(Code::kProtocol, "the producer sent an event of an unknown kind");
  }
}

format::Segment to_lane(const GstSegment& segment) {
  format::Segment result;
  // The lane's numbers for the formats are GStreamer's; "none" and "not set" are, too.
  result.format = segment.format <= GST_FORMAT_TIME ? static_cast<format::SegmentFormat>(segment.format)
                                                    : format::SegmentFormat::kUndefined;
  result.flags = static_cast<std::uint32_t>(segment.flags);
  result.rate = segment.rate;
  result.applied_rate = segment.applied_rate;
  result.base = segment.base;
  result.offset = segment.offset;
  result.start = segment.start;
  result.stop = segment.stop;
  result.time = segment.time;
  result.position = segment.position;
  result.duration = segment.duration;
  return result;
}

Result<GstSegment> to_gst(const format::Segment& segment_untrusted) {
  const format::Segment& s = segment_untrusted;
  // GStreamer asserts on these, so a peer must not get them through.
  const bool rates = std::isfinite(s.rate) && s.rate != 0.0 && std::isfinite(s.applied_rate) && s.applied_rate != 0.0;
  const bool backwards = s.stop != format::kNoTime && s.stop < s.start;
  if (!rates || backwards || s.start == format::kNoTime || s.format > format::SegmentFormat::kTime) {
    return fail(Code::kProtocol, "the producer sent a segment that can't be (rate, start or stop)");
  }
  GstSegment result;
  gst_segment_init(&result, static_cast<GstFormat>(s.format));
  result.flags = static_cast<GstSegmentFlags>(s.flags);
  result.rate = s.rate;
  result.applied_rate = s.applied_rate;
  result.base = s.base;
  result.offset = s.offset;
  result.start = s.start;
  result.stop = s.stop;
  result.time = s.time;
  result.position = s.position;
  result.duration = s.duration;
  return result;
}

format::Event to_lane(const Latency& latency) {
  const StructurePtr structure(gst_structure_new("framelane-latency", "live", G_TYPE_BOOLEAN, gboolean{latency.live},
                                                 "min", G_TYPE_UINT64, latency.min, "max", G_TYPE_UINT64, latency.max,
                                                 nullptr));
  const StringPtr text(gst_structure_to_string(structure.get()));
  return make_event(EventType::kState, text.get(), static_cast<std::uint32_t>(StateKind::kLatency));
}

Result<Latency> latency_of(const format::Event& event) {
  const StructurePtr structure = structure_of(event.text);
  gboolean live = FALSE;
  Latency latency;
  if (structure == nullptr || !gst_structure_get(structure.get(), "live", G_TYPE_BOOLEAN, &live, "min", G_TYPE_UINT64,
                                                 &latency.min, "max", G_TYPE_UINT64, &latency.max, nullptr)) {
    return fail(Code::kProtocol, "the producer sent a latency that can't be read");
  }
  latency.live = live != FALSE;
  if (!GST_CLOCK_TIME_IS_VALID(latency.min))
    return fail(Code::kProtocol, "the producer sent a latency without a minimum");
  return latency;
}

}  // namespace framelane::gst
