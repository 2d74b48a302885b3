// SPDX-License-Identifier: MIT
#include "lane/requests.hpp"

#include <cmath>

#include <gst/video/video.h>

#include "lane/clock.hpp"
#include "lane/texts.hpp"

namespace framelane::gst {
namespace {

using format::Request;
using format::RequestType;

constexpr std::int64_t kBetweenKeyUnitsNs = 100'000'000;

/// A running time as the producer counts it. A moment that is none there is "at once".
std::uint64_t producer_time(GstClockTime running, std::optional<std::int64_t> offset) {
  if (!GST_CLOCK_TIME_IS_VALID(running) || !offset) return format::kNoTime;
  const auto there = static_cast<std::int64_t>(running) - *offset;
  return there < 0 ? format::kNoTime : static_cast<std::uint64_t>(there);
}

std::optional<Request> custom(GstEvent* event, CustomRequest kind) {
  const GstStructure* const structure = gst_event_get_structure(event);
  auto text = structure == nullptr ? std::nullopt : text_of(structure);
  if (!text || text->size() > format::kMaxRequestText) return std::nullopt;
  Request request;
  request.type = RequestType::kCustom;
  request.number = static_cast<std::uint32_t>(kind);
  request.text = std::move(*text);
  return request;
}

std::optional<Request> key_unit(GstEvent* event, std::optional<std::int64_t> offset) {
  GstClockTime running = GST_CLOCK_TIME_NONE;
  gboolean headers = FALSE;
  guint count = 0;
  if (!gst_video_event_parse_upstream_force_key_unit(event, &running, &headers, &count)) return std::nullopt;
  Request request;
  request.time = producer_time(running, offset);
  request.headers = headers != FALSE;
  request.number = count;
  return request;
}

std::optional<Request> quality(GstEvent* event, std::optional<std::int64_t> offset) {
  GstQOSType type = GST_QOS_TYPE_UNDERFLOW;
  GstClockTime running = GST_CLOCK_TIME_NONE;
  Request request;
  request.type = RequestType::kQos;
  gst_event_parse_qos(event, &type, &request.proportion, &request.jitter_ns, &running);
  request.number = static_cast<std::uint32_t>(type);
  request.time = producer_time(running, offset);
  const bool sound = request.time != format::kNoTime && std::isfinite(request.proportion) && request.proportion >= 0;
  return sound ? std::optional(request) : std::nullopt;  // about a moment that the producer never had
}

Result<EventPtr> custom_event(const Request& request) {
  StructurePtr structure = structure_of(request.text);
  if (structure == nullptr) return fail(Code::kProtocol, "a consumer sent an event that can't be read");
  switch (static_cast<CustomRequest>(request.number)) {
    case CustomRequest::kUpstream:
      return EventPtr(gst_event_new_custom(GST_EVENT_CUSTOM_UPSTREAM, structure.release()));
    case CustomRequest::kBoth:
      return EventPtr(gst_event_new_custom(GST_EVENT_CUSTOM_BOTH, structure.release()));
    case CustomRequest::kBothOob:
      return EventPtr(gst_event_new_custom(GST_EVENT_CUSTOM_BOTH_OOB, structure.release()));
  }
  return fail(Code::kProtocol, "a consumer sent an event of an unknown kind");
}

}  // namespace

std::optional<Request> to_request(GstEvent* event, std::optional<std::int64_t> offset) {
  switch (GST_EVENT_TYPE(event)) {
    case GST_EVENT_CUSTOM_UPSTREAM:
      return gst_video_event_is_force_key_unit(event) ? key_unit(event, offset)
                                                      : custom(event, CustomRequest::kUpstream);
    case GST_EVENT_CUSTOM_BOTH:
      return custom(event, CustomRequest::kBoth);
    case GST_EVENT_CUSTOM_BOTH_OOB:
      return custom(event, CustomRequest::kBothOob);
    case GST_EVENT_QOS:
      return quality(event, offset);
    default:
      return std::nullopt;
  }
}

Result<EventPtr> to_gst(const Request& request_untrusted) {
  const Request& request = request_untrusted;
  switch (request.type) {
    case RequestType::kKeyUnit:
      return EventPtr(
          gst_video_event_new_upstream_force_key_unit(request.time, request.headers ? TRUE : FALSE, request.number));
    case RequestType::kQos: {
      // GStreamer asserts that no frame was due before 0.
      const bool late = request.jitter_ns >= 0 || request.time >= 0 - static_cast<std::uint64_t>(request.jitter_ns);
      const bool sound = request.number <= GST_QOS_TYPE_THROTTLE && request.time != format::kNoTime && late;
      if (!sound) return fail(Code::kProtocol, "a consumer sent a report of quality that can't be");
      return EventPtr(gst_event_new_qos(static_cast<GstQOSType>(request.number), request.proportion, request.jitter_ns,
                                        request.time));
    }
    case RequestType::kCustom:
      return custom_event(request);
  }
  return fail(Code::kProtocol, "a consumer sent an event of an unknown kind");
}

void KeyUnitWish::need() noexcept {
  const std::lock_guard lock(mutex_);
  needed_ = true;
  pending_.store(true, std::memory_order_release);
}

void KeyUnitWish::ask(const Request& request) noexcept {
  const std::lock_guard lock(mutex_);
  if (asked_) {
    format::merge_key_unit(*asked_, request);
  } else {
    asked_ = request;
  }
  pending_.store(true, std::memory_order_release);
}

void KeyUnitWish::delta_seen() noexcept {
  const std::lock_guard lock(mutex_);
  has_deltas_ = true;
  pending_.store(true, std::memory_order_release);
}

void KeyUnitWish::key_unit_sent() noexcept {
  if (!pending_.load(std::memory_order_acquire)) return;
  const std::lock_guard lock(mutex_);
  needed_ = false;
  if (asked_ && asked_->time == format::kNoTime) asked_.reset();
}

std::optional<Request> KeyUnitWish::take() noexcept {
  if (!pending_.load(std::memory_order_acquire)) return std::nullopt;
  const std::lock_guard lock(mutex_);
  const bool needed = needed_ && has_deltas_;
  if (!needed && !asked_) {
    pending_.store(false, std::memory_order_relaxed);
    return std::nullopt;
  }
  const std::int64_t now_ns = monotonic_now();
  // An encoder would make nothing else for a consumer that never stops asking.
  if (told_ns_ != 0 && now_ns - told_ns_ < kBetweenKeyUnitsNs) return std::nullopt;
  told_ns_ = now_ns;
  Request wish = asked_.value_or(Request{});
  if (needed) {
    wish.time = format::kNoTime;
    wish.headers = true;
  }
  asked_.reset();
  needed_ = false;
  return wish;
}

}  // namespace framelane::gst
