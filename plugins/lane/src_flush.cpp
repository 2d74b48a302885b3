// SPDX-License-Identifier: MIT
// Flushes of the producer's pipeline, and what downstream asks of it.
#include "lane/lane_src.hpp"
#include "lane/requests.hpp"
#include "lane/src_session.hpp"

#define GST_CAT_DEFAULT lane_debug
#include "lane/debug.hpp"

namespace framelane::gst {
namespace {

constexpr std::int64_t kBetweenKeyUnitsNs = 500'000'000;

}  // namespace

// --- flushes

void SrcSession::begin_flush() {
  if (flushing_.load(std::memory_order_relaxed)) return;
  flushing_.store(true, std::memory_order_release);  // before: what the streaming thread then meets is our doing
  GST_DEBUG_OBJECT(element_, "pushing flush-start");
  gst_pad_push_event(pad_, gst_event_new_flush_start());
  g_mutex_lock(&element_->live_lock);
  g_cond_broadcast(&element_->live_cond);  // wait_until_playing() may have a frame in hand
  g_mutex_unlock(&element_->live_lock);
}

void SrcSession::flush_early() {
  const std::lock_guard lock(flush_mutex_);
  // The streaming thread may have been through the whole flush already.
  if (!over_ && consumer_.flushing()) begin_flush();
}

void SrcSession::end_flushes() {
  const std::lock_guard lock(flush_mutex_);
  over_ = true;
  if (flushing_.exchange(false, std::memory_order_release)) gst_pad_push_event(pad_, gst_event_new_flush_stop(FALSE));
}

SrcSession::Outcome SrcSession::on_flush_stop() {
  {
    const std::lock_guard lock(flush_mutex_);
    GST_DEBUG_OBJECT(element_, "pushing flush-stop");
    // Running time goes on: it is this pipeline's, and the producer's flush is no reason to begin it anew.
    gst_pad_push_event(pad_, gst_event_new_flush_stop(FALSE));
    flushing_.store(false, std::memory_order_release);
  }
  std::erase_if(deferred_, [](const EventPtr& event) { return !is_sticky(event.get()); });
  std::vector<EventPtr> again;
  again.swap(flushed_);
  for (EventPtr& event : again) push_event(std::move(event));
  gst_pad_mark_reconfigure(pad_);  // caps may have met the flushing pad, too
  say_segment_again();
  return {};
}

// A flush makes pads forget theirs.
void SrcSession::say_segment_again() {
  timeline_.flush();
  segment_waits_ = true;
  lost_ = true;
}

// --- requests

bool SrcSession::ask(GstEvent* event) {
  if (GST_EVENT_TYPE(event) == GST_EVENT_QOS && !forward_qos_) return false;
  const auto request = to_request(event, timeline_.offset());
  if (!request) return false;
  const auto sent = consumer_.send_upstream(*request);
  if (!sent) GST_INFO_OBJECT(element_, "%s not sent: %s", GST_EVENT_TYPE_NAME(event), sent.error().text.c_str());
  return sent.has_value();
}

void SrcSession::ask_key_unit() {
  const std::int64_t now = monotonic_now();
  if (key_unit_asked_ns_ != 0 && now - key_unit_asked_ns_ < kBetweenKeyUnitsNs) return;
  key_unit_asked_ns_ = now;
  format::Request request;
  request.headers = true;
  if (auto sent = consumer_.send_upstream(request); !sent)
    GST_INFO_OBJECT(element_, "no key unit asked for: %s", sent.error().text.c_str());
}

}  // namespace framelane::gst
