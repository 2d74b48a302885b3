// SPDX-License-Identifier: MIT
#include "lane/src_session.hpp"

#include <string>

#define GST_CAT_DEFAULT lane_debug
#include "lane/debug.hpp"
#include "lane/frame_info.hpp"
#include "lane/lane_memory.hpp"
#include "lane/repack.hpp"
#include "lane/signals.hpp"
#include "lane/stats.hpp"
#include "lane/texts.hpp"

namespace framelane::gst {

using format::EventType;
using Outcome = SrcSession::Outcome;

Result<std::unique_ptr<SrcSession>> SrcSession::open(GstBaseSrc* element, const SrcSettings& settings) {
  auto consumer = Consumer::open(settings.api);
  if (!consumer) return tl::unexpected(consumer.error());
  return std::make_unique<SrcSession>(element, settings, std::move(*consumer));
}

SrcSession::SrcSession(GstBaseSrc* element, const SrcSettings& settings, Consumer consumer)
    : element_(element),
      pad_(GST_BASE_SRC_PAD(element)),
      forward_qos_(settings.forward_qos),
      consumer_(std::move(consumer)),
      timeline_(GST_ELEMENT_CAST(element), settings.timestamps),
      metas_(GST_ELEMENT_CAST(element)) {
  consumer_.on_connection([this](bool connected) { on_connection(connected); });
  watch_flushes(GST_ELEMENT_CAST(element), consumer_);
}

void SrcSession::interrupt() noexcept {
  interrupted_.store(true, std::memory_order_release);
  consumer_.interrupt();
}

void SrcSession::resume() noexcept {
  consumer_.resume();
  interrupted_.store(false, std::memory_order_release);
}

Outcome SrcSession::step() {
  if (segment_forgotten_.exchange(false, std::memory_order_acquire)) say_segment_again();
  auto item = consumer_.take_item();
  if (!item) return failed(item.error());
  if (auto* const frame = std::get_if<Frame>(&*item)) return on_frame(std::move(*frame));
  return on_event(std::get<format::Event>(*item));
}

Outcome SrcSession::failed(const Error& error) const {
  if (error.code == Code::kInterrupted) return {GST_FLOW_FLUSHING, {}, false};
  if (error.code == Code::kEndOfStream) return {GST_FLOW_EOS, {}, false};
  // A producer that leaves without an end has ended the stream all the same; only a person may want to know.
  if (error.code == Code::kPeerLost) return {GST_FLOW_EOS, error, true};
  return {GST_FLOW_EOS, error, false};
}

// --- events

Outcome SrcSession::on_event(const format::Event& event) {
  switch (event.type) {
    case EventType::kCaps:
      return on_caps(event);
    case EventType::kState:
      return on_state(event);
    case EventType::kGap:
      return on_gap(event);
    case EventType::kSegment: {
      const auto segment = to_gst(event.segment);
      if (!segment) return failed(segment.error());
      timeline_.set_segment(*segment);
      segment_waits_ = true;
      return {};
    }
    case EventType::kEndOfStream:
      flush_pending();
      return {GST_FLOW_EOS, {}, false};
    case EventType::kFlushStart: {
      const std::lock_guard lock(flush_mutex_);
      begin_flush();
      return {};
    }
    case EventType::kFlushStop:
      return on_flush_stop();
    default:
      break;
  }
  auto made = to_gst(event);
  if (!made) return failed(made.error());
  if (event.type == EventType::kStreamStart) {
    deferred_.clear();  // of a stream that never had a frame
    stream_started_ = true;
    push_event(std::move(*made));
  } else {
    push_in_order(std::move(*made));
  }
  return {};
}

void SrcSession::on_connection(bool connected) {
  g_object_notify(G_OBJECT(element_), "connected");
  if (!connected) return;
  for (const char* const name : {"transport", "transport-reason"}) g_object_notify(G_OBJECT(element_), name);
  if (connections_++ != 0) {
    // Another producer: nothing of the last one's holds.
    lost_ = needs_key_unit_ = true;
    caps_.reset();
    media_ = {};
    layout_ = {};
    needed_ = 0;
    set_buffer_layout();
    timeline_.restart();
  }
  const std::string transport = consumer_.transport();
  const std::string reason = consumer_.transport_reason();
  const char* const lane = consumer_.descriptor().c_str();
  GST_INFO_OBJECT(element_, "connected to %s over %s: %s", lane, transport.c_str(), reason.c_str());
  post(gst_structure_new("framelane-transport", "lane", G_TYPE_STRING, lane, "transport", G_TYPE_STRING,
                         transport.c_str(), "reason", G_TYPE_STRING, reason.c_str(), nullptr));
  post(gst_structure_new("framelane-connected", "lane", G_TYPE_STRING, lane, "transport", G_TYPE_STRING,
                         transport.c_str(), "connections", G_TYPE_UINT64, connections_, nullptr));
}

void SrcSession::post(GstStructure* details) const {
  gst_element_post_message(GST_ELEMENT_CAST(element_), gst_message_new_element(GST_OBJECT_CAST(element_), details));
}

Outcome SrcSession::on_caps(const format::Event& event) {
  CapsPtr caps = caps_of(event.text);
  if (caps == nullptr || gst_caps_get_size(caps.get()) != 1 || !gst_caps_is_fixed(caps.get())) {
    return failed({Code::kProtocol, "the lane's caps can't be used: \"" + event.text + "\""});
  }
  if (!foreign_feature(caps.get()).empty()) {
    return failed({Code::kProtocol, "the lane's caps name memory that no lane has: \"" + event.text + "\""});
  }
  ensure_stream_start();
  caps_ = std::move(caps);
  media_ = Media(caps_.get());
  layout_ = {};  // a producer says it again where it differs
  needed_ = media_.is_video() ? media_.needed(media_.default_layout()) : 0;
  set_buffer_layout();
  if (gst_base_src_negotiate(element_) || GST_PAD_IS_FLUSHING(pad_)) return {};
  return refused();
}

Outcome SrcSession::refused() const {
  const StringPtr text(caps_ == nullptr ? nullptr : gst_caps_to_string(caps_.get()));
  return failed({Code::kInvalidArgument, "downstream doesn't take the lane's caps \"" +
                                             std::string(text == nullptr ? "none" : text.get()) +
                                             "\"; put a converter behind this element, for example videoconvert, "
                                             "audioconvert or decodebin"});
}

Outcome SrcSession::on_state(const format::Event& event) {
  if (event.number == static_cast<std::uint32_t>(StateKind::kLayout)) {
    const auto layout = layout_of(event);
    if (!layout) return failed(layout.error());
    const bool fits = layout->planes == 0 || (media_.is_video() && media_.can_send(*layout));
    if (!fits) return failed({Code::kProtocol, "the producer sent a video layout that doesn't fit the caps"});
    layout_ = *layout;
    if (media_.is_video()) needed_ = media_.needed(layout_.planes == 0 ? media_.default_layout() : layout_);
    set_buffer_layout();
    return {};
  }
  if (event.number != static_cast<std::uint32_t>(StateKind::kLatency)) {
    auto made = to_gst(event);
    if (!made) return failed(made.error());
    push_in_order(std::move(*made));
    return {};
  }
  const auto latency = latency_of(event);
  if (!latency) return failed(latency.error());
  {
    const std::lock_guard lock(mutex_);
    if (latency_ == *latency) return {};
    latency_ = *latency;
  }
  gst_element_post_message(GST_ELEMENT_CAST(element_), gst_message_new_latency(GST_OBJECT_CAST(element_)));
  return {};
}

Outcome SrcSession::on_gap(const format::Event& event) {
  auto gap = to_gst(event);
  if (!gap) return failed(gap.error());
  // Without a frame nobody knows when the gap is; a sink that syncs would wait for a moment hours away.
  if (!timeline_.placed()) return {};
  flush_pending();
  push_event(std::move(*gap));
  return {};
}

// A producer of the C++ API may begin with a frame: then this pad begins a stream of its own.
void SrcSession::ensure_stream_start() {
  if (stream_started_) return;
  stream_started_ = true;
  const StringPtr id(gst_pad_create_stream_id(pad_, GST_ELEMENT_CAST(element_), nullptr));
  GstEvent* const event = gst_event_new_stream_start(id.get());
  gst_event_set_group_id(event, gst_util_group_id_next());
  push_event(EventPtr(event));
}

void SrcSession::push_event(EventPtr event) {
  GST_DEBUG_OBJECT(element_, "pushing %" GST_PTR_FORMAT, static_cast<void*>(event.get()));
  pushing_.store(true, std::memory_order_relaxed);
  gst_pad_push_event(pad_, gst_event_ref(event.get()));
  pushing_.store(false, std::memory_order_relaxed);
  // A flushing pad doesn't keep it, and this one has to arrive.
  if (flushing_.load(std::memory_order_acquire) && is_sticky(event.get()) &&
      GST_EVENT_TYPE(event.get()) != GST_EVENT_SEGMENT)
    flushed_.push_back(std::move(event));
}

void SrcSession::push_in_order(EventPtr event) {
  // The segment waits for the first frame, which says where it lies in time; what follows it waits, too.
  if (segment_waits_) {
    deferred_.push_back(std::move(event));
  } else {
    push_event(std::move(event));
  }
}

void SrcSession::push_segment(const GstSegment& segment) {
  ensure_stream_start();
  GST_OBJECT_LOCK(element_);
  element_->segment = segment;  // also of another format, which gst_base_src_new_segment() refuses
  GST_OBJECT_UNLOCK(element_);
  push_event(EventPtr(gst_event_new_segment(&segment)));
  for (EventPtr& event : deferred_) push_event(std::move(event));
  deferred_.clear();
  segment_waits_ = false;
}

void SrcSession::flush_pending() {
  if (timeline_.pending()) push_segment(timeline_.take_segment());
}

void SrcSession::inject(EventPtr event) {
  const std::lock_guard lock(mutex_);
  injected_.push_back(std::move(event));
  has_injected_.store(true, std::memory_order_release);
}

void SrcSession::push_injected() {
  std::vector<EventPtr> events;
  {
    const std::lock_guard lock(mutex_);
    events.swap(injected_);
    has_injected_.store(false, std::memory_order_relaxed);
  }
  for (EventPtr& event : events) push_event(std::move(event));
}

// --- negotiation

bool SrcSession::negotiate() {
  if (caps_ == nullptr) return true;
  // A pad keeps caps that its peer refused and says so only with the next buffer.
  if (gst_pad_is_linked(pad_) && !gst_pad_peer_query_accept_caps(pad_, caps_.get())) return false;
  return gst_base_src_set_caps(element_, caps_.get()) != FALSE;
}

void SrcSession::decide_allocation(GstQuery* query) {
  video_meta_ok_ = gst_query_find_allocation_meta(query, GST_VIDEO_META_API_TYPE, nullptr) != FALSE;
  audio_meta_ok_ = gst_query_find_allocation_meta(query, GST_AUDIO_META_API_TYPE, nullptr) != FALSE;
  set_buffer_layout();
  // Frames come in the lane's memory: a pool of downstream's would be made and never used.
  while (gst_query_get_n_allocation_pools(query) > 0) gst_query_remove_nth_allocation_pool(query, 0);
  while (gst_query_get_n_allocation_params(query) > 0) gst_query_remove_nth_allocation_param(query, 0);
}

// --- frames

Outcome SrcSession::on_frame(Frame frame) {
  const GstFlowReturn ready = wait_until_playing();
  if (ready != GST_FLOW_OK || flushing_.load(std::memory_order_acquire)) {
    lost_ = true;
    return {ready, {}, false};
  }
  format::FrameInfo info = frame.info();
  if (auto wrong = check_size(frame)) return failed(*wrong);
  if (!follows(frame, info)) return {};
  const Timeline::Verdict verdict = timeline_.place(info, frame.due());
  if (verdict == Timeline::Verdict::kDrop) {
    early_.fetch_add(1, std::memory_order_relaxed);
    lost_ = needs_key_unit_ = true;
    return {};
  }
  if (verdict == Timeline::Verdict::kSegmentFirst) push_segment(timeline_.segment());
  if (gst_pad_needs_reconfigure(pad_) && !gst_base_src_negotiate(element_) && !GST_PAD_IS_FLUSHING(pad_)) {
    return refused();
  }
  if (has_injected_.load(std::memory_order_acquire)) push_injected();
  if (lost_) info.flags |= format::kDiscont;
  lost_ = false;
  auto buffer = make_buffer(std::move(frame));
  if (!buffer) return failed(buffer.error());
  apply_info(buffer->get(), info);
  count();
  const GstFlowReturn flow = push(std::move(*buffer));
  if (flow == GST_FLOW_NOT_NEGOTIATED) return refused();
  const bool last = flow == GST_FLOW_OK && element_->num_buffers_left == 0;
  return {last ? GST_FLOW_EOS : flow, {}, false};
}

// False: a decoder could make nothing of the frame.
bool SrcSession::follows(const Frame& frame, const format::FrameInfo& info) {
  // Lost frames, a stream that is joined in its middle, another producer.
  if (frame.seq() != next_seq_) lost_ = needs_key_unit_ = true;
  next_seq_ = frame.seq() + 1;
  if ((info.flags & format::kDeltaUnit) == 0) needs_key_unit_ = false;
  if (!needs_key_unit_) return true;
  undecodable_.fetch_add(1, std::memory_order_relaxed);
  ask_key_unit();
  return false;
}

GstFlowReturn SrcSession::wait_until_playing() {
  if (!element_->is_live) return GST_FLOW_OK;
  g_mutex_lock(&element_->live_lock);
  // Not gst_base_src_wait_playing(): that waits for a change even if it has already come.
  while (!element_->live_running && !interrupted() && !flushing_.load(std::memory_order_acquire))
    g_cond_wait(&element_->live_cond, &element_->live_lock);
  g_mutex_unlock(&element_->live_lock);
  return interrupted() ? GST_FLOW_FLUSHING : GST_FLOW_OK;
}

// The base class counts calls of create(), and one call pushes many frames.
void SrcSession::count() {
  if (!std::exchange(counted_, false) && element_->num_buffers_left > 0) --element_->num_buffers_left;
}

std::optional<Error> SrcSession::check_size(const Frame& frame) const {
  if (frame.size() >= needed_) return std::nullopt;
  return Error{Code::kProtocol, "a frame of the lane has " + std::to_string(frame.size()) +
                                    " bytes, and its caps need " + std::to_string(needed_)};
}

// Errors: kProtocol (side data).
Result<BufferPtr> SrcSession::make_buffer(Frame&& frame) {
  const gsize size = media_.is_video() && layout_.planes == 0 ? needed_ : frame.size();
  const bool has_side_data = !frame.side_data().empty();
  if (auto read = metas_.read(frame.side_data(), media_, size); !read) return tl::unexpected(read.error());
  const auto& memories = metas_.memories();
  BufferPtr buffer =
      memories.empty() ? buffers_.wrap(std::move(frame), size) : buffers_.wrap(std::move(frame), memories);
  if (media_.is_video()) buffer = add_video_meta(std::move(buffer));
  if (media_.is_planar_audio()) buffer = add_audio_meta(std::move(buffer));
  if (!has_side_data) return buffer;
  if (auto added = metas_.add_others(buffer.get()); !added) return tl::unexpected(added.error());
  return buffer;
}

// Recycled buffers have their GstVideoMeta already.
void SrcSession::set_buffer_layout() {
  says_layout_ = media_.is_video() && layout_.planes != 0 && (video_meta_ok_ || !media_.is_default(layout_));
  buffers_.set_layout(media_, says_layout_ ? std::optional(layout_) : std::nullopt);
}

BufferPtr SrcSession::add_video_meta(BufferPtr buffer) {
  const VideoLayout& layout = layout_.planes == 0 ? media_.default_layout() : layout_;
  if (!says_layout_ && !(metas_.video() && video_meta_ok_)) return buffer;
  GstVideoMeta* meta = gst_buffer_get_video_meta(buffer.get());
  if (meta == nullptr) meta = media_.add_meta(buffer.get(), layout);
  if (!video_meta_ok_) return repack(std::move(buffer));
  meta->flags = metas_.video() ? metas_.video()->flags : GST_VIDEO_FRAME_FLAG_NONE;
  meta->id = metas_.video() ? metas_.video()->id : 0;
  return buffer;
}

// GStreamer wants one on each buffer of planar audio.
BufferPtr SrcSession::add_audio_meta(BufferPtr buffer) {
  const GstAudioInfo& info = media_.planar_audio();
  const gsize all = gst_buffer_get_size(buffer.get()) / static_cast<gsize>(GST_AUDIO_INFO_BPF(&info));
  if (!metas_.audio()) {
    gst_buffer_add_audio_meta(buffer.get(), &info, all, nullptr);
    return buffer;
  }
  AudioLayout layout = *metas_.audio();
  gst_buffer_add_audio_meta(buffer.get(), &info, layout.samples, layout.offsets.data());
  if (audio_meta_ok_) return buffer;
  buffer = repack(std::move(buffer));
  gst_buffer_add_audio_meta(buffer.get(), &info, layout.samples, nullptr);
  return buffer;
}

// Downstream doesn't look at the meta, so it must get what the caps alone imply.
BufferPtr SrcSession::repack(BufferPtr padded) {
  repacked_.fetch_add(1, std::memory_order_relaxed);
  return packed_copy(media_, padded.get());
}

// Pushed here and not handed to the base class, which would invent timestamps where there are none and mark the first
// buffer of each run: both must travel unchanged.
GstFlowReturn SrcSession::push(BufferPtr buffer) {
  const GstClockTime pts = GST_BUFFER_PTS(buffer.get());
  if (GST_CLOCK_TIME_IS_VALID(pts)) {
    GST_OBJECT_LOCK(element_);
    if (element_->segment.format == GST_FORMAT_TIME) element_->segment.position = pts;
    GST_OBJECT_UNLOCK(element_);
  }
  const GstFlowReturn flow = gst_pad_push(pad_, buffer.release());
  // Downstream was relinked or changed its mind: the next frame negotiates.
  if (flow == GST_FLOW_NOT_NEGOTIATED && gst_pad_needs_reconfigure(pad_)) return GST_FLOW_OK;
  // A flush of the lane's own stops no task; its end comes by the lane.
  if (flow == GST_FLOW_FLUSHING && flushing_.load(std::memory_order_acquire)) return GST_FLOW_OK;
  return flow == GST_FLOW_OK && interrupted() ? GST_FLOW_FLUSHING : flow;
}

// --- any thread

std::optional<Latency> SrcSession::latency() const {
  const std::lock_guard lock(mutex_);
  return latency_;
}

void SrcSession::add_stats(GstStructure* stats) const {
  add_consumer_stats(stats, consumer_.stats());
  gst_structure_set(stats, "repacked", G_TYPE_UINT64, repacked_.load(std::memory_order_relaxed), "dropped-early",
                    G_TYPE_UINT64, early_.load(std::memory_order_relaxed), "dropped-undecodable", G_TYPE_UINT64,
                    undecodable_.load(std::memory_order_relaxed), "skipped-metas", G_TYPE_UINT64, metas_.skipped(),
                    nullptr);
}

}  // namespace framelane::gst
