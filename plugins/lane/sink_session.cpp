// SPDX-License-Identifier: MIT
#include "lane/sink_session.hpp"

#include <algorithm>

#define GST_CAT_DEFAULT lane_debug
#include "lane/debug.hpp"
#include "lane/frame_info.hpp"
#include "lane/repack.hpp"
#include "lane/slot_pool.hpp"
#include "lane/stats.hpp"

namespace framelane::gst {
namespace {

constexpr const char* kReasonFields[] = {"",
                                         "copied-foreign",
                                         "copied-dmabuf",
                                         "copied-pool-overflow",
                                         "copied-several-memories",
                                         "copied-part",
                                         "copied-repeated",
                                         "copied-mapped",
                                         "copied-layout"};
static_assert(std::size(kReasonFields) == static_cast<std::size_t>(Slots::Reason::kCount));

}  // namespace

Result<std::unique_ptr<SinkSession>> SinkSession::open(GstElement* element, const SinkSettings& settings) {
  SinkSettings own = settings;
  // `auto` starts as "no", which loses nothing, until upstream has said whether it is live.
  own.api.leaky = Leaky::kNo;
  if (settings.leaky == LeakyChoice::kUpstream) own.api.leaky = Leaky::kUpstream;
  if (settings.leaky == LeakyChoice::kDownstream) own.api.leaky = Leaky::kDownstream;
  auto slots = Slots::open(own.api);
  if (!slots) return tl::unexpected(slots.error());
  return std::make_unique<SinkSession>(element, own, std::move(*slots));
}

SinkSession::SinkSession(GstElement* element, const SinkSettings& settings, std::shared_ptr<Slots> slots)
    : element_(element),
      settings_(settings),
      slots_(std::move(slots)),
      allocator_(new_lane_allocator(slots_)),
      metas_(element, settings.api.max_side_data) {}

SinkSession::~SinkSession() { close(); }

void SinkSession::close() noexcept { slots_->close(); }

void SinkSession::reset_clock() {
  base_time_.reset();
  request_latency();
}

// --- before the first frame

Result<void> SinkSession::get_ready(GstPad* sinkpad, std::optional<GstClockTime> configured_latency) {
  if (!latency_stale_.load(std::memory_order_acquire))
    return has_inbox_.load(std::memory_order_acquire) ? flush() : Result<void>{};
  if (!ready_) {
    const Latency latency = ask_upstream(sinkpad, configured_latency);
    decide_leaky(latency.live);
    const gint wanted = settings_.wait_for_consumers;
    const auto count = static_cast<std::uint32_t>(wanted >= 0 ? wanted : (latency.live ? 0 : 1));
    if (count > slots_->producer().num_consumers()) {
      GST_INFO_OBJECT(element_, "waiting for %u consumers", count);
      if (auto there = slots_->producer().wait_for_consumers(count, kForever); !there) return there;
    }
    note_first_consumers();
    ready_ = true;
  }
  if (auto flushed = flush(); !flushed) return flushed;
  latency_stale_.store(false, std::memory_order_release);
  const Latency latency = ask_upstream(sinkpad, configured_latency);  // again: by now the caps are known
  if (latency_ == latency) return {};
  if (auto sent = send(to_lane(latency)); !sent) {
    request_latency();
    return sent;
  }
  latency_ = latency;
  return {};
}

// Who is here by now gets the stream's first frame and needs no other one to begin with. That they joined may be told
// later.
void SinkSession::note_first_consumers() {
  std::uint32_t last = 0;
  for (const ConsumerInfo& info : slots_->producer().stats().consumers) last = std::max(last, info.id);
  last_first_consumer_.store(last, std::memory_order_release);
  key_unit_.key_unit_sent();
}

void SinkSession::on_joined(std::uint32_t id) noexcept {
  if (id > last_first_consumer_.load(std::memory_order_acquire)) need_key_unit();
}

Latency SinkSession::ask_upstream(GstPad* sinkpad, std::optional<GstClockTime> configured_latency) const {
  const QueryPtr query(gst_query_new_latency());
  Latency latency;
  gboolean live = FALSE;
  if (gst_pad_peer_query(sinkpad, query.get())) {
    gst_query_parse_latency(query.get(), &live, &latency.min, &latency.max);
    latency.live = live != FALSE;
  }
  // With sync=true a frame leaves when the pipeline's configured latency has passed.
  if (configured_latency && latency.live) latency.min = std::max(latency.min, *configured_latency);
  const GstClockTime kept = absorbs();
  latency.max =
      latency.live && !waits_for_room_ && GST_CLOCK_TIME_IS_VALID(kept) ? latency.min + kept : GST_CLOCK_TIME_NONE;
  return latency;
}

GstClockTime SinkSession::absorbs() const {
  const bool rate = media_.is_video() && GST_VIDEO_INFO_FPS_N(&media_.video()) > 0;
  if (!rate) return GST_CLOCK_TIME_NONE;
  if (settings_.api.burst_time.count() != 0) return static_cast<GstClockTime>(settings_.api.burst_time.count());
  return gst_util_uint64_scale_int(settings_.api.burst * GST_SECOND, GST_VIDEO_INFO_FPS_D(&media_.video()),
                                   GST_VIDEO_INFO_FPS_N(&media_.video()));
}

void SinkSession::decide_leaky(bool live) {
  waits_for_room_ = settings_.leaky == LeakyChoice::kNo || (settings_.leaky == LeakyChoice::kAuto && !live);
  if (settings_.leaky != LeakyChoice::kAuto) return;
  GST_INFO_OBJECT(element_, "leaky is %s", live ? "downstream: upstream is live" : "no: upstream is not live");
  slots_->producer().set_leaky(live ? Leaky::kDownstream : Leaky::kNo);
}

void SinkSession::offer_allocation(GstQuery* query) {
  GstCaps* caps = nullptr;
  gboolean need_pool = FALSE;
  gst_query_parse_allocation(query, &caps, &need_pool);
  GstVideoInfo info;
  if (caps != nullptr && gst_structure_has_name(gst_caps_get_structure(caps, 0), "video/x-raw") &&
      gst_video_info_from_caps(&info, caps)) {
    GstBufferPool* const pool = need_pool != FALSE ? new_slot_pool(slots_, allocator_.get()) : nullptr;
    // No maximum: avdec drops pools with one below 32, and this one never runs dry.
    gst_query_add_allocation_pool(query, pool, static_cast<guint>(info.size), 2, 0);
    if (pool != nullptr) gst_object_unref(pool);
    gst_query_add_allocation_meta(query, GST_VIDEO_META_API_TYPE, nullptr);
  }
  gst_query_add_allocation_meta(query, GST_AUDIO_META_API_TYPE, nullptr);
  GstAllocationParams params;
  gst_allocation_params_init(&params);
  gst_query_add_allocation_param(query, allocator_.get(), &params);
}

// --- frames

format::FrameInfo SinkSession::describe(GstBuffer* buffer, const GstSegment& segment) {
  format::FrameInfo info = info_of(buffer);
  if (lost_) info.flags |= format::kDiscont;
  if (latency_ && latency_->live) info.flags |= kUpstreamLive;
  const std::uint64_t time = info.pts != format::kNoTime ? info.pts : info.dts;
  if (time == format::kNoTime || segment.format != GST_FORMAT_TIME) return info;
  if (segment.rate < 0 && segment.stop == GST_CLOCK_TIME_NONE) return info;
  const auto base = base_time_.get(element_);
  guint64 running = 0;
  const gint sign = base ? gst_segment_to_running_time_full(&segment, GST_FORMAT_TIME, time, &running) : 0;
  if (sign != 0) info.due_ns = *base + sign * static_cast<std::int64_t>(running);
  return info;
}

// Bytes behind the last plane are padding of the allocator; without a layout of its own a frame has the size of its
// caps. The same goes for samples behind those that a GstAudioMeta counts.
gsize SinkSession::payload_size(GstBuffer* buffer, const VideoLayout& layout) const {
  const gsize size = gst_buffer_get_size(buffer);
  if (media_.is_video() && media_.is_default(layout))
    return std::min(size, static_cast<gsize>(GST_VIDEO_INFO_SIZE(&media_.video())));
  const GstAudioMeta* const audio = gst_buffer_get_audio_meta(buffer);
  return audio != nullptr && is_packed(*audio) ? std::min(size, packed_size(media_, buffer)) : size;
}

// Whether the frame has to be brought to the layout of its caps, and which layout it then has.
bool SinkSession::must_pack(GstBuffer* buffer, Reason& reason, VideoLayout& layout) const {
  if (media_.is_planar_audio()) {
    const GstAudioMeta* const audio = gst_buffer_get_audio_meta(buffer);
    return reason != Reason::kNone && audio != nullptr && !is_packed(*audio);
  }
  if (!media_.is_video()) return false;
  const VideoLayout own = media_.layout_of(buffer);
  if (!media_.can_send(own) || media_.has_other_size(buffer)) reason = Reason::kLayout;
  // A foreign writer's strides are its own affair: consumers get the default layout, unless it is the lane's already.
  const bool known = own == (layout_.planes == 0 ? media_.default_layout() : layout_);
  layout = reason != Reason::kNone && (!known || reason == Reason::kLayout) ? media_.default_layout() : own;
  return reason == Reason::kLayout || !layout.same_places(own);
}

Result<Published> SinkSession::publish(GstBuffer* buffer, const GstSegment& segment) {
  if (auto begun = begin_again(); !begun) return tl::unexpected(begun.error());
  Reason reason = slots_->why_not_in_place(buffer, allocator_.get());
  VideoLayout layout;
  const bool packs = must_pack(buffer, reason, layout);
  if (media_.is_video()) {
    if (auto sent = send_layout(layout); !sent) return tl::unexpected(sent.error());
  }
  const format::FrameInfo info = describe(buffer, segment);
  if ((info.flags & format::kDeltaUnit) == 0) {
    key_unit_.key_unit_sent();
  } else if (!std::exchange(has_delta_units_, true)) {
    key_unit_.delta_seen();
  }
  const gsize size = packs ? packed_size(media_, buffer) : payload_size(buffer, layout);
  const auto side_data = metas_.write(buffer, {media_, size, !packs});
  Result<Published> result = Published::kDropped;
  if (reason == Reason::kNone) {
    LaneMemory* const memory = lane_memory(gst_buffer_peek_memory(buffer, 0), allocator_.get());
    auto placed = slots_->publish_in_place(*memory, size, info, side_data);
    if (placed) {
      result = std::move(*placed);
    } else {
      reason = Reason::kMapped;
    }
  }
  if (reason != Reason::kNone) result = publish_copy(buffer, packs, size, info, side_data);
  if (!result) return result;
  if (*result == Published::kSent) {
    (reason == Reason::kNone ? in_place_ : copied_[static_cast<std::size_t>(reason)])++;
  }
  lost_ = *result == Published::kDropped;
  if (lost_) need_key_unit();
  return result;
}

Result<Published> SinkSession::publish_copy(GstBuffer* buffer, bool packs, gsize size, const format::FrameInfo& info,
                                            std::span<const std::byte> side_data) {
  // Slots as large as upstream wants them, or it never gets one.
  const gsize wanted = gst_buffer_n_memory(buffer) == 1 ? overflow_size(gst_buffer_peek_memory(buffer, 0)) : 0;
  auto loan = slots_->lend_to_sink(std::max(size, wanted));
  if (!loan && loan.error().code == Code::kFull) {  // frames of older sizes are still being read: like a full ring
    dropped_no_slot_.fetch_add(1, std::memory_order_relaxed);
    return Published::kDropped;
  }
  if (!loan) return tl::unexpected(loan.error());
  if (!packs) {
    gst_buffer_extract(buffer, 0, loan->data(), size);
  } else if (!pack(media_, buffer, loan->data())) {
    return fail(Code::kInvalidArgument, "a buffer's GstVideoMeta or GstAudioMeta doesn't fit the buffer or its caps");
  }
  return slots_->producer().publish(*loan, size, info, Wake::kNow, side_data);
}

void SinkSession::add_stats(GstStructure* stats) const {
  add_producer_stats(stats, slots_->producer().stats());
  std::uint64_t copied = 0;
  for (std::size_t i = 1; i < kReasons; ++i) {
    const std::uint64_t count = copied_[i].load(std::memory_order_relaxed);
    copied += count;
    gst_structure_set(stats, kReasonFields[i], G_TYPE_UINT64, count, nullptr);
  }
  gst_structure_set(stats, "in-place", G_TYPE_UINT64, in_place_.load(std::memory_order_relaxed), "copied",
                    G_TYPE_UINT64, copied, "dropped-no-slot", G_TYPE_UINT64,
                    dropped_no_slot_.load(std::memory_order_relaxed), "pool-overflow", G_TYPE_UINT64,
                    slots_->overflows(), "skipped-metas", G_TYPE_UINT64, metas_.skipped(), nullptr);
}

}  // namespace framelane::gst
