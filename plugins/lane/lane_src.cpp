// SPDX-License-Identifier: MIT
#include "lane/lane_src.hpp"

#include <gst/base/gstpushsrc.h>

#define GST_CAT_DEFAULT lane_debug
#include "lane/debug.hpp"
#include "lane/errors.hpp"
#include "lane/opening.hpp"

namespace framelane::gst {
namespace {

GstBaseSrcClass* parent_class() { return GST_BASE_SRC_CLASS(g_type_class_peek(GST_TYPE_PUSH_SRC)); }

PropertyTable<LaneSrc> make_properties(Transport transport) {
  using E = LaneSrc;
  PropertyTable<E> rows;
  add_common(rows, transport);
  if (transport == Transport::kTcp)
    add_tcp_place(rows, 1, "Where the producer serves a lane that is given by its name");
  rows.push_back(choice_property<E>(
      {"mode", "Mode", "Which frames to take"}, mode_type(), [](auto& s) -> auto& { return s.api.mode; }));
  rows.push_back(switch_property<E>(
      {"gating", "Gating", "Ask the producer to wait for this consumer; it grants that to its own user"},
      [](auto& s) -> auto& { return s.api.gating; }));
  rows.push_back(switch_property<E>(
      {"reconnect", "Reconnect", "Wait for the lane to come back when the producer leaves without an end of stream"},
      [](auto& s) -> auto& { return s.api.reconnect; }));
  rows.push_back(time_property<E>(
      {"connect-timeout", "Connect timeout",
       "The first connection must come within this time (ns; 18446744073709551615 = for ever)"},
      [](auto& s) -> auto& { return s.api.connect_timeout; }));
  rows.push_back(switch_property<E>(
      {"is-live", "Live", "Act as a live source: no data in PAUSED, latency as the producer reports it"},
      [](auto& s) -> auto& { return s.is_live; }));
  rows.push_back(choice_property<E>(
      {"timestamp-mode", "Timestamp mode", "How the producer's time maps to this pipeline's"}, timestamp_mode_type(),
      [](auto& s) -> auto& { return s.timestamps; }));
  rows.push_back(state_property<E>(
      g_param_spec_boolean("connected", "Connected", "Whether a producer is connected now", FALSE, kReadable),
      [](E& source, GValue* value) { g_value_set_boolean(value, source.connected()); }));
  rows.push_back(state_text_property<E>(
      {"transport", "Transport", "How frames travel: shm, uds or tcp; null before the first connection"},
      [](E& source) { return source.transport(); }));
  rows.push_back(state_text_property<E>(
      {"transport-reason", "Transport reason",
       "Why they travel so: what else was tried and why it can't serve; null before the first connection"},
      [](E& source) { return source.transport_reason(); }));
  return rows;
}

GstPadProbeReturn on_pad_event(GstPad*, GstPadProbeInfo* info, gpointer element) {
  GstEvent* const event = GST_PAD_PROBE_INFO_EVENT(info);
  if (LaneSrc::of(element).let_through(event)) return GST_PAD_PROBE_OK;
  gst_event_unref(event);
  return GST_PAD_PROBE_HANDLED;  // DROP would have the pad try a sticky event again before each buffer
}

}  // namespace

LaneSrc::LaneSrc(GstBaseSrc* element, Transport transport) : element_(element), transport_(transport) {
  gst_base_src_set_format(element_, GST_FORMAT_TIME);
  gst_base_src_set_live(element_, settings_.is_live);
  gst_base_src_set_automatic_eos(element_, FALSE);  // a frame behind the segment's end is no end of the lane
  gst_pad_add_probe(GST_BASE_SRC_PAD(element_), GST_PAD_PROBE_TYPE_EVENT_DOWNSTREAM, on_pad_event, element_, nullptr);
}

const PropertyTable<LaneSrc>& LaneSrc::properties(Transport transport) {
  return table_of<LaneSrc, make_properties>(transport);
}

void LaneSrc::set_property(guint id, const GValue* value, GParamSpec*) {
  set_from(properties(transport_), *this, settings_, id, value);
}

void LaneSrc::get_property(guint id, GValue* value, GParamSpec*) {
  get_from(properties(transport_), *this, settings_, id, value);
}

std::string LaneSrc::lane() const {
  GST_OBJECT_LOCK(element_);
  std::string lane = settings_.api.lane;
  GST_OBJECT_UNLOCK(element_);
  return lane;
}

void LaneSrc::set_lane(std::string lane) {
  GST_OBJECT_LOCK(element_);
  settings_.api.lane = std::move(lane);
  GST_OBJECT_UNLOCK(element_);
}

// --- state

std::shared_ptr<SrcSession> LaneSrc::session() const {
  GST_OBJECT_LOCK(element_);
  std::shared_ptr<SrcSession> session = session_;
  GST_OBJECT_UNLOCK(element_);
  return session;
}

bool LaneSrc::open() {
  GST_OBJECT_LOCK(element_);
  Settings settings = settings_;
  GST_OBJECT_UNLOCK(element_);
  const std::string asked = settings.api.lane;
  auto lane = lane_at(asked, transport_, settings.tcp, descriptor::Side::kConsumer, "lanesrc");
  settings.api.lane = lane.value_or("");
  settings.api.transport = transport_;
  auto opened = lane ? SrcSession::open(element_, settings) : tl::unexpected(lane.error());
  if (!opened) {
    post_error(gst_element(), opened.error(), "lane " + asked);
    return false;
  }
  gst_base_src_set_live(element_, settings.is_live);
  std::shared_ptr<SrcSession> session = std::move(*opened);
  GST_OBJECT_LOCK(element_);
  session_ = std::move(session);
  GST_OBJECT_UNLOCK(element_);
  return true;
}

void LaneSrc::close() {
  std::shared_ptr<SrcSession> session;
  GST_OBJECT_LOCK(element_);
  session.swap(session_);
  GST_OBJECT_UNLOCK(element_);
  if (session != nullptr) session->consumer().close();
}

// Opening is not left to start(): the base class posts a second error for a start() that fails.
GstStateChangeReturn LaneSrc::change_state(GstStateChange transition) {
  GST_INFO_OBJECT(element_, "%s", gst_state_change_get_name(transition));
  if (transition == GST_STATE_CHANGE_READY_TO_PAUSED && !open()) return GST_STATE_CHANGE_FAILURE;
  if (transition == GST_STATE_CHANGE_PAUSED_TO_PLAYING) {
    if (const auto session = this->session()) session->timeline().restart();
  }
  const GstStateChangeReturn result = GST_ELEMENT_CLASS(parent_class())->change_state(gst_element(), transition);
  const bool failed = transition == GST_STATE_CHANGE_READY_TO_PAUSED && result == GST_STATE_CHANGE_FAILURE;
  if (transition == GST_STATE_CHANGE_PAUSED_TO_READY || failed) close();
  return result;
}

// The base class keeps what an application inserts until create() returns a buffer, which ours never does.
gboolean LaneSrc::send_event(GstEvent* event) {
  const GstEventType type = GST_EVENT_TYPE(event);
  if (type == GST_EVENT_FLUSH_STOP) {  // before it is pushed: the streaming thread begins anew with it
    if (const auto session = this->session()) session->forget_segment();
  }
  const bool inserted = type == GST_EVENT_TAG || type == GST_EVENT_CUSTOM_DOWNSTREAM || type == GST_EVENT_CUSTOM_BOTH ||
                        type == GST_EVENT_SINK_MESSAGE || type == GST_EVENT_PROTECTION;
  const auto session = inserted ? this->session() : nullptr;
  if (session == nullptr) return GST_ELEMENT_CLASS(parent_class())->send_event(gst_element(), event);
  session->inject(EventPtr(event));
  return TRUE;
}

gboolean LaneSrc::unlock() {
  if (const auto session = this->session()) session->interrupt();
  return TRUE;
}

gboolean LaneSrc::unlock_stop() {
  if (const auto session = this->session()) session->resume();
  return TRUE;
}

// --- stream

GstFlowReturn LaneSrc::create(guint64, guint, GstBuffer**) {
  session_->begin_call();
  for (;;) {
    SrcSession::Outcome outcome = session_->step();
    if (outcome.error) (outcome.warn_only ? post_warning : post_error)(gst_element(), *outcome.error, "lane " + lane());
    // After an error of ours the flow is EOS: for any other one the base class would post a second error. It sends the
    // same EOS downstream.
    if (outcome.flow == GST_FLOW_EOS) session_->end_flushes();
    if (outcome.flow != GST_FLOW_OK) return outcome.flow;
  }
}

// The base class begins a stream of its own before the lane's is known, and ends it. The lane's own events are the ones
// that count.
bool LaneSrc::let_through(GstEvent* event) {
  // Others may come from other threads (a flush-start), and session_ is the streaming thread's.
  if (GST_EVENT_TYPE(event) != GST_EVENT_STREAM_START && GST_EVENT_TYPE(event) != GST_EVENT_EOS) return true;
  SrcSession* const session = session_.get();
  if (session == nullptr || session->pushing()) return true;
  if (GST_EVENT_TYPE(event) == GST_EVENT_STREAM_START) return false;
  session->ensure_stream_start();
  return true;
}

gboolean LaneSrc::negotiate() { return session_->negotiate() ? TRUE : FALSE; }

gboolean LaneSrc::decide_allocation(GstQuery* query) {
  session_->decide_allocation(query);
  return TRUE;
}

GstCaps* LaneSrc::get_caps(GstCaps* filter) {
  // The lane decides: once its caps are known, no others can come.
  GstCaps* caps = gst_pad_get_current_caps(GST_BASE_SRC_PAD(element_));
  if (caps == nullptr) caps = gst_pad_get_pad_template_caps(GST_BASE_SRC_PAD(element_));
  if (filter == nullptr) return caps;
  GstCaps* const both = gst_caps_intersect_full(filter, caps, GST_CAPS_INTERSECT_FIRST);
  gst_caps_unref(caps);
  return both;
}

// Upstream's events: of these alone the producer hears. A seek or a navigation of one consumer is no business of the
// others.
gboolean LaneSrc::event(GstEvent* event) {
  switch (GST_EVENT_TYPE(event)) {
    case GST_EVENT_CUSTOM_UPSTREAM:
    case GST_EVENT_CUSTOM_BOTH:
    case GST_EVENT_CUSTOM_BOTH_OOB:
    case GST_EVENT_QOS:
      if (const auto session = this->session(); session != nullptr && session->ask(event)) return TRUE;
      break;
    default:
      break;
  }
  return parent_class()->event(element_, event);
}

void LaneSrc::on_flush() {
  if (const auto session = this->session()) session->flush_early();
}

gboolean LaneSrc::query(GstQuery* query) {
  if (GST_QUERY_TYPE(query) != GST_QUERY_LATENCY) return parent_class()->query(element_, query);
  const auto session = this->session();
  const auto latency = session != nullptr ? session->latency() : std::nullopt;
  const gboolean live = gst_base_src_is_live(element_);
  // The lane itself adds microseconds.
  const bool late = latency && latency->live && live != FALSE;
  gst_query_set_latency(query, live, late ? latency->min : 0, late ? latency->max : GST_CLOCK_TIME_NONE);
  return TRUE;
}

// --- states

std::string LaneSrc::transport() const {
  const auto session = this->session();
  return session == nullptr ? "" : session->consumer().transport();
}

std::string LaneSrc::transport_reason() const {
  const auto session = this->session();
  return session == nullptr ? "" : session->consumer().transport_reason();
}

bool LaneSrc::connected() const {
  const auto session = this->session();
  return session != nullptr && session->consumer().stats().connected;
}

GstStructure* LaneSrc::stats() const {
  GstStructure* const stats = gst_structure_new_empty("application/x-framelane-src-stats");
  if (const auto session = this->session()) session->add_stats(stats);
  return stats;
}

}  // namespace framelane::gst
