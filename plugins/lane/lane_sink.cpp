// SPDX-License-Identifier: MIT
#include "lane/lane_sink.hpp"

#define GST_CAT_DEFAULT lane_debug
#include "lane/debug.hpp"
#include "lane/errors.hpp"
#include "lane/opening.hpp"
#include "lane/signals.hpp"
#include "lane/stats.hpp"

namespace framelane::gst {
namespace {

// What gst_base_sink_wait_preroll() returns for a step; its name is the base class's secret.
constexpr GstFlowReturn kStepped = GST_FLOW_CUSTOM_ERROR;

GstBaseSinkClass* parent_class() { return GST_BASE_SINK_CLASS(g_type_class_peek(GST_TYPE_BASE_SINK)); }

void add_ring_properties(PropertyTable<LaneSink>& rows) {
  using E = LaneSink;
  rows.push_back(count_property<E>(
      {"burst", "Burst depth",
       "Frames that the lane absorbs while a consumer pauses, with no drop and no wait (frames)"},
      1, 4096, [](auto& s) -> auto& { return s.api.burst; }));
  rows.push_back(time_property<E>(
      {"burst-time", "Burst time", "The same as a time (ns); wins when not 0 and the caps have a frame rate"},
      [](auto& s) -> auto& { return s.api.burst_time; }));
  rows.push_back(choice_property<E>(
      {"leaky", "Leaky", "What happens to frames when the lane is full"}, leaky_type(),
      [](auto& s) -> auto& { return s.leaky; }));
  rows.push_back(time_property<E>(
      {"full-timeout", "Full timeout",
       "leaky=no waits this long for room, then drops the frame (ns; 18446744073709551615 = for ever)"},
      [](auto& s) -> auto& { return s.api.full_timeout; }));
  rows.push_back(time_property<E>(
      {"stall-timeout", "Stall timeout",
       "A consumer that doesn't move for this long is no longer waited for (ns; 18446744073709551615 = never)"},
      [](auto& s) -> auto& { return s.api.stall_timeout; }));
  rows.push_back(count_property<E>(
      {"history", "History", "Old frames that a late consumer still gets (frames)"}, 0, 4096,
      [](auto& s) -> auto& { return s.api.history; }));
  rows.push_back(count_property<E>(
      {"max-loans", "Most loans",
       "Slots that upstream may be writing into at any time; further buffers are copied (slots)"},
      1, 1023, [](auto& s) -> auto& { return s.api.max_loans; }));
  rows.push_back(count_property<E>(
      {"max-side-data", "Most side data",
       "Metas of a frame that cross the lane may have this size together; others are left out (bytes)"},
      0, 65472, [](auto& s) -> auto& { return s.api.max_side_data; }));
  rows.push_back(count_property<E>(
      {"max-consumers", "Most consumers", "Consumers at a time"}, 1, 32,
      [](auto& s) -> auto& { return s.api.max_consumers; }));
  rows.push_back(choice_property<E>(
      {"stamps", "Stamps", "Which frames carry the time of publishing, to measure latency"}, stamps_type(),
      [](auto& s) -> auto& { return s.api.stamps; }));
  rows.push_back(time_property<E>(
      {"linger", "Linger", "Stopping waits this long for consumers to be told of the end (ns)"},
      [](auto& s) -> auto& { return s.api.linger; }));
}

void add_socket_properties(PropertyTable<LaneSink>& rows, Transport transport) {
  using E = LaneSink;
  if (transport == Transport::kShm) return;
  rows.push_back(time_property<E>(
      {"handshake-timeout", "Handshake timeout",
       "A consumer that connects by UDS or TCP and isn't ready within this time is turned away (ns)"},
      [](auto& s) -> auto& { return s.api.handshake_timeout; }));
  if (transport == Transport::kUds) return;
  rows.push_back(switch_property<E>(
      {"insecure", "Insecure",
       "Serve TCP without psk-file on an address that isn't loopback: whoever reaches it can read the frames"},
      [](auto& s) -> auto& { return s.api.insecure; }));
}

PropertyTable<LaneSink> make_properties(Transport transport) {
  using E = LaneSink;
  PropertyTable<E> rows;
  add_common(rows, transport);
  add_ring_properties(rows);
  add_socket_properties(rows, transport);
  if (transport == Transport::kTcp) add_tcp_place(rows, 0, "Where to serve a lane that is given by its name");
  rows.push_back({g_param_spec_int("wait-for-consumers", "Wait for consumers",
                                   "Consumers to wait for before the first frame (-1 = one, unless upstream is live)",
                                   -1, 32, E::Settings{}.wait_for_consumers, kSettable),
                  [](auto& s, const GValue* value) { s.wait_for_consumers = g_value_get_int(value); },
                  [](const auto& s, GValue* value) { g_value_set_int(value, s.wait_for_consumers); },
                  {}});
  rows.push_back(state_property<E>(
      g_param_spec_uint("num-consumers", "Consumers", "Consumers that are connected now", 0, G_MAXUINT, 0, kReadable),
      [](E& sink, GValue* value) { g_value_set_uint(value, sink.num_consumers()); }));
  rows.push_back(state_text_property<E>(
      {"descriptor", "Descriptor",
       "Where the lane is served, with the port that the system chose for port 0: what consumers need; null while it "
       "isn't"},
      [](E& sink) { return sink.descriptor(); }));
  return rows;
}

}  // namespace

const PropertyTable<LaneSink>& LaneSink::properties(Transport transport) {
  return table_of<LaneSink, make_properties>(transport);
}

void LaneSink::set_property(guint id, const GValue* value, GParamSpec*) {
  set_from(properties(transport_), *this, settings_, id, value);
}

void LaneSink::get_property(guint id, GValue* value, GParamSpec*) {
  get_from(properties(transport_), *this, settings_, id, value);
}

std::string LaneSink::lane() const {
  GST_OBJECT_LOCK(element_);
  std::string lane = settings_.api.lane;
  GST_OBJECT_UNLOCK(element_);
  return lane;
}

void LaneSink::set_lane(std::string lane) {
  GST_OBJECT_LOCK(element_);
  settings_.api.lane = std::move(lane);
  GST_OBJECT_UNLOCK(element_);
}

// --- state

std::shared_ptr<SinkSession> LaneSink::session() const {
  GST_OBJECT_LOCK(element_);
  std::shared_ptr<SinkSession> session = session_;
  GST_OBJECT_UNLOCK(element_);
  return session;
}

bool LaneSink::open() {
  GST_OBJECT_LOCK(element_);
  Settings settings = settings_;
  GST_OBJECT_UNLOCK(element_);
  const std::string asked = settings.api.lane;
  auto lane = lane_at(asked, transport_, settings.tcp, descriptor::Side::kProducer, "lanesink");
  if (settings.wait_for_consumers > static_cast<gint>(settings.api.max_consumers)) {
    lane = fail(Code::kInvalidArgument, "wait-for-consumers is more than max-consumers (" +
                                            std::to_string(settings.api.max_consumers) + "), so they never come");
  }
  settings.api.lane = lane.value_or("");
  settings.api.transport = transport_;
  auto opened = lane ? SinkSession::open(gst_element(), settings) : tl::unexpected(lane.error());
  if (!opened) {
    post_error(gst_element(), opened.error(), "lane " + asked);
    return false;
  }
  std::shared_ptr<SinkSession> session = std::move(*opened);
  drop_warned_ = false;
  GST_INFO_OBJECT(element_, "opened %s", session->producer().descriptor().c_str());
  GST_OBJECT_LOCK(element_);
  session_ = session;
  GST_OBJECT_UNLOCK(element_);
  g_object_notify(G_OBJECT(element_), "descriptor");
  announce_consumers(gst_element(), session);
  return true;
}

void LaneSink::close() {
  std::shared_ptr<SinkSession> session;
  GST_OBJECT_LOCK(element_);
  session.swap(session_);
  GST_OBJECT_UNLOCK(element_);
  if (session == nullptr) return;
  session->close();
  g_object_notify(G_OBJECT(element_), "descriptor");
}

// Opening is not left to start(): the base class posts a second error for a start() that fails.
GstStateChangeReturn LaneSink::change_state(GstStateChange transition) {
  GST_INFO_OBJECT(element_, "%s", gst_state_change_get_name(transition));
  if (transition == GST_STATE_CHANGE_READY_TO_PAUSED && !open()) return GST_STATE_CHANGE_FAILURE;
  if (transition == GST_STATE_CHANGE_PAUSED_TO_PLAYING) {
    if (const auto session = this->session()) session->reset_clock();
  }
  const GstStateChangeReturn result = GST_ELEMENT_CLASS(parent_class())->change_state(gst_element(), transition);
  const bool failed = transition == GST_STATE_CHANGE_READY_TO_PAUSED && result == GST_STATE_CHANGE_FAILURE;
  if (transition == GST_STATE_CHANGE_PAUSED_TO_READY || failed) close();
  return result;
}

gboolean LaneSink::unlock() {
  if (const auto session = this->session()) session->interrupt();
  return TRUE;
}

gboolean LaneSink::unlock_stop() {
  if (const auto session = this->session()) session->resume();
  return TRUE;
}

// --- stream

/// Repeats what was interrupted by a pause when playing goes on. Called with the preroll lock held, as all below.
template <class Call>
GstFlowReturn LaneSink::until_done(Call call) {
  for (;;) {
    auto result = call();
    if (result) return GST_FLOW_OK;
    if (result.error().code != Code::kInterrupted) {
      post_error(gst_element(), result.error());
      return GST_FLOW_ERROR;
    }
    const GstFlowReturn flow = gst_base_sink_wait_preroll(element_);
    if (flow != GST_FLOW_OK && flow != kStepped) return flow;
  }
}

/// False: the stream stops here.
bool LaneSink::forward(format::Event event) {
  session_->queue(std::move(event));
  return until_done([&] { return session_->flush(); }) == GST_FLOW_OK;
}

gboolean LaneSink::event(GstEvent* event) {
  switch (GST_EVENT_TYPE(event)) {
    case GST_EVENT_FLUSH_START:
      // First of all: the streaming thread may be waiting for room, with the lock that the base class wants.
      if (const auto session = this->session()) session->flush_start();
      break;
    case GST_EVENT_FLUSH_STOP:
      flush_stop();
      break;
    case GST_EVENT_CUSTOM_DOWNSTREAM_OOB:
    case GST_EVENT_CUSTOM_BOTH_OOB:
      // From any thread, and the lane has one that sends: it takes the event along with what comes next.
      if (auto crosses = to_lane(event)) {
        if (const auto session = this->session()) session->queue_from_any_thread(std::move(*crosses));
      }
      break;
    case GST_EVENT_GAP:  // a piece of the stream: wait_event() sends it when it is its turn
      break;
    default:
      if (auto crosses = to_lane(event); crosses && !forward(std::move(*crosses))) {
        gst_event_unref(event);
        return FALSE;
      }
  }
  return parent_class()->event(element_, event);
}

void LaneSink::flush_stop() {
  const auto session = this->session();
  auto stopped = session == nullptr ? Result<void>{} : session->flush_stop();
  if (!stopped) GST_WARNING_OBJECT(element_, "a flush didn't cross: %s", stopped.error().text.c_str());
}

void LaneSink::on_requests() {
  if (const auto session = this->session()) session->push_requests(GST_BASE_SINK_PAD(element_));
}

gboolean LaneSink::set_caps(GstCaps* caps) {
  const std::string feature = foreign_feature(caps);
  if (!feature.empty()) {
    GST_ELEMENT_ERROR(
        element_, STREAM, FORMAT,
        ("Frames with %s can't cross a lane; put an element that brings them to system memory before it, for "
         "example vapostproc, gldownload or videoconvert.",
         feature.c_str()),
        ("caps %" GST_PTR_FORMAT, static_cast<void*>(caps)));
    return FALSE;
  }
  const StringPtr text(gst_caps_to_string(caps));
  return forward(make_event(format::EventType::kCaps, text.get())) ? TRUE : FALSE;
}

GstFlowReturn LaneSink::get_ready() {
  std::optional<GstClockTime> configured;
  if (gst_base_sink_get_sync(element_) != FALSE) configured = gst_base_sink_get_latency(element_);
  return until_done([&] { return session_->get_ready(GST_BASE_SINK_PAD(element_), configured); });
}

GstFlowReturn LaneSink::wait_event(GstEvent* event) {
  GstFlowReturn flow = parent_class()->wait_event(element_, event);
  if (flow == GST_FLOW_OK) flow = get_ready();
  if (flow != GST_FLOW_OK) return flow;
  if (GST_EVENT_TYPE(event) == GST_EVENT_EOS) return until_done([&] { return session_->end(); });
  if (auto gap = to_lane(event)) return forward(std::move(*gap)) ? GST_FLOW_OK : GST_FLOW_FLUSHING;
  return GST_FLOW_OK;
}

GstFlowReturn LaneSink::render(GstBuffer* buffer) {
  if (const GstFlowReturn flow = get_ready(); flow != GST_FLOW_OK) return flow;
  Published published = Published::kSent;
  const GstFlowReturn flow = until_done([&]() -> Result<void> {
    auto result = session_->publish(buffer, element_->segment);
    if (!result) return tl::unexpected(result.error());
    published = *result;
    return {};
  });
  if (flow == GST_FLOW_OK && published == Published::kDropped) on_drop();
  session_->push_key_unit_wish(GST_BASE_SINK_PAD(element_));
  return flow;
}

// Dropping is what leaky=upstream and downstream are for; with leaky=no somebody should hear of it, once.
void LaneSink::on_drop() {
  GST_DEBUG_OBJECT(element_, "the lane is full: dropped a frame");
  if (session_->waits_for_room() && !std::exchange(drop_warned_, true)) {
    post_warning(gst_element(), {Code::kFull,
                                 "a consumer took no frame for full-timeout, so frames are dropped; raise burst or "
                                 "full-timeout, or set leaky"});
  }
}

gboolean LaneSink::propose_allocation(GstQuery* query) {
  const auto session = this->session();
  if (session == nullptr) return FALSE;
  session->offer_allocation(query);
  return TRUE;
}

gboolean LaneSink::send_event(GstEvent* event) {
  const bool latency = GST_EVENT_TYPE(event) == GST_EVENT_LATENCY;
  const gboolean handled = GST_ELEMENT_CLASS(parent_class())->send_event(gst_element(), event);
  if (latency) {
    if (const auto session = this->session()) session->request_latency();
  }
  return handled;
}

// --- states

std::string LaneSink::descriptor() const {
  const auto session = this->session();
  return session == nullptr ? "" : session->producer().descriptor();
}

guint LaneSink::num_consumers() const {
  const auto session = this->session();
  return session == nullptr ? 0 : session->producer().num_consumers();
}

GstStructure* LaneSink::stats() const {
  GstStructure* const stats = gst_base_sink_get_stats(element_);
  gst_structure_set_name(stats, "application/x-framelane-sink-stats");
  if (const auto session = this->session()) session->add_stats(stats);
  return stats;
}

}  // namespace framelane::gst
