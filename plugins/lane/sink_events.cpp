// SPDX-License-Identifier: MIT
// Events of a SinkSession: how they get into the lane in order, and what comes back from consumers.
#include <algorithm>

#include "lane/sink_session.hpp"

#define GST_CAT_DEFAULT lane_debug
#include "lane/debug.hpp"

namespace framelane::gst {
namespace {

constexpr std::size_t kMostInbox = 64;

}  // namespace

void SinkSession::queue(format::Event event) {
  number_sticky(event);
  queued_.push_back(std::move(event));
}

void SinkSession::queue_from_any_thread(format::Event event) {
  const std::lock_guard lock(inbox_mutex_);
  if (inbox_.size() == kMostInbox) {
    GST_WARNING_OBJECT(element_, "more than %zu events between two frames: one doesn't cross the lane", kMostInbox);
    return;
  }
  inbox_.push_back(std::move(event));
  has_inbox_.store(true, std::memory_order_release);
}

void SinkSession::take_inbox() {
  if (!has_inbox_.load(std::memory_order_acquire)) return;
  const std::lock_guard lock(inbox_mutex_);
  for (format::Event& event : inbox_) queued_.push_back(std::move(event));
  inbox_.clear();
  has_inbox_.store(false, std::memory_order_relaxed);
}

// A late joiner gets the last one of each name, so each name has a kind of state, as long as there are some.
void SinkSession::number_sticky(format::Event& event) {
  if (!is_sticky_custom(event)) return;
  const std::string name = event.text.substr(0, event.text.find_first_of(",; "));
  auto known = std::find(sticky_names_.begin(), sticky_names_.end(), name);
  if (known == sticky_names_.end()) {
    if (sticky_names_.size() == kMostStickyCustom) return;
    known = sticky_names_.insert(known, name);
  }
  event.type = format::EventType::kState;
  event.number =
      static_cast<std::uint32_t>(StateKind::kFirstCustom) + static_cast<std::uint32_t>(known - sticky_names_.begin());
}

Result<void> SinkSession::flush_stop() {
  std::erase_if(queued_, [](const format::Event& event) { return !format::is_sticky(event.type); });
  lost_ = true;
  return slots_->producer().flush_stop();
}

Result<void> SinkSession::flush() {
  take_inbox();
  while (ready_ && !queued_.empty()) {
    const format::Event& event = queued_.front();
    if (event.type == format::EventType::kCaps) {
      if (auto cleared = clear_layout(); !cleared) return cleared;
    }
    auto sent = send(event);
    if (!sent && sent.error().code == Code::kTooLarge && event.type != format::EventType::kCaps) {
      GST_WARNING_OBJECT(element_, "an event doesn't cross the lane: %s", sent.error().text.c_str());
    } else if (!sent) {
      return sent;
    }
    queued_.pop_front();
  }
  return {};
}

Result<void> SinkSession::send(const format::Event& event) {
  if (auto begun = begin_again(); !begun) return begun;
  if (auto sent = slots_->producer().send(event); !sent) return sent;
  remember(event);
  if (event.type == format::EventType::kCaps) {
    media_ = Media(CapsPtr(gst_caps_from_string(event.text.c_str())).get());
    request_latency();  // what the lane absorbs depends on the frame rate
  }
  return {};
}

// The old caps' layout must not meet the new caps, not even at a consumer that joins in between.
Result<void> SinkSession::clear_layout() {
  if (layout_.planes == 0) return {};
  if (auto sent = send(to_lane(VideoLayout{})); !sent) return sent;
  layout_ = {};
  return {};
}

// An end of stream ends the lane's stream for all; what upstream sends after a flush begins another one.
Result<void> SinkSession::begin_again() {
  while (ended_ && resent_ < sticky_.size()) {
    if (auto sent = slots_->producer().send(sticky_[resent_]); !sent) return sent;
    ++resent_;
  }
  ended_ = false;
  return {};
}

void SinkSession::remember(const format::Event& event) {
  if (!format::is_sticky(event.type)) return;
  using format::EventType;
  if (event.type == EventType::kStreamStart) {
    std::erase_if(sticky_, [](const auto& old) {
      return old.type == EventType::kTag || old.type == EventType::kStreamStart ||
             (old.type == EventType::kState && old.number >= format::kFirstStreamState);
    });
    sticky_.insert(sticky_.begin(), event);
    return;
  }
  const auto same = std::find_if(sticky_.begin(), sticky_.end(), [&](const auto& old) {
    const bool by_number = event.type == EventType::kTag || event.type == EventType::kState;
    return old.type == event.type && (!by_number || old.number == event.number);
  });
  if (same == sticky_.end()) {
    sticky_.push_back(event);
  } else {
    *same = event;
  }
}

Result<void> SinkSession::send_layout(const VideoLayout& layout) {
  // Nothing said means "as the caps imply".
  const VideoLayout said = layout == media_.default_layout() ? VideoLayout{} : layout;
  if (layout_ == said) return {};
  if (auto sent = send(to_lane(said)); !sent) return sent;
  GST_DEBUG_OBJECT(element_, "frames have the %s layout from here on", said.planes == 0 ? "default" : "writer's");
  layout_ = said;
  return {};
}

Result<void> SinkSession::end() {
  if (ended_) return {};
  auto ended = slots_->producer().end_of_stream();
  if (!ended) return ended;
  ended_ = true;
  resent_ = 0;
  return {};
}

// --- what consumers ask for

void SinkSession::push_key_unit_wish(GstPad* pad) {
  const auto wish = key_unit_.take();
  if (!wish) return;
  if (auto event = to_gst(*wish)) gst_pad_push_event(pad, event->release());
}

void SinkSession::push_requests(GstPad* pad) {
  const std::lock_guard one_at_a_time(requests_mutex_);  // several threads may be here, and the order counts
  for (const ConsumerRequest& asked : slots_->producer().take_requests()) {
    if (asked.request.type == format::RequestType::kKeyUnit) {
      key_unit_.ask(asked.request);
      continue;
    }
    // Several consumers that keep up differently have no common quality.
    const bool quality = asked.request.type == format::RequestType::kQos;
    if (quality && (!settings_.forward_qos || slots_->producer().num_consumers() != 1)) continue;
    auto event = to_gst(asked.request);
    if (event) {
      gst_pad_push_event(pad, event->release());
    } else {
      GST_WARNING_OBJECT(element_, "consumer %u: %s", asked.consumer, event.error().text.c_str());
    }
  }
  push_key_unit_wish(pad);
}

}  // namespace framelane::gst
