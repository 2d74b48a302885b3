// SPDX-License-Identifier: MIT
#pragma once

#include <array>
#include <atomic>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include <gst/gst.h>

#include "lane/clock.hpp"
#include "lane/enums.hpp"
#include "lane/events.hpp"
#include "lane/gst_ptr.hpp"
#include "lane/media.hpp"
#include "lane/metas.hpp"
#include "lane/opening.hpp"
#include "lane/requests.hpp"
#include "lane/slots.hpp"

namespace framelane::gst {

/// What a sink was asked for.
struct SinkSettings {
  ProducerSettings api;
  TcpPlace tcp;
  LeakyChoice leaky = LeakyChoice::kAuto;
  gint wait_for_consumers = -1;  ///< -1: one, unless upstream is live
  bool forward_qos = false;      ///< hand on what the only consumer says of its quality
};

/// What opening made of the settings: the lane, and the state of the stream that flows into it.
///
/// Threads: the streaming thread; stats(), interrupt(), resume(), close(), flush_start(), queue_from_any_thread(),
///          request_latency() and what concerns consumers' requests any.
/// Errors:  kInterrupted from every call that returns a Result: nothing was done, call again.
class SinkSession {
 public:
  /// Errors: those of Producer::open().
  [[nodiscard]] static Result<std::unique_ptr<SinkSession>> open(GstElement* element, const SinkSettings& settings);
  SinkSession(GstElement* element, const SinkSettings& settings, std::shared_ptr<Slots> slots);
  ~SinkSession();

  /// The pipeline starts to play: it may have another clock and another latency. No frame flows meanwhile.
  void reset_clock();

  /// Events go out in order, but not before the consumers are there that get_ready() waits for: they miss nothing.
  void queue(format::Event event);
  /// The same for events that aren't in order with the stream.
  void queue_from_any_thread(format::Event event);
  /// Sends what is queued, once get_ready() has succeeded.
  [[nodiscard]] Result<void> flush();
  [[nodiscard]] Result<Published> publish(GstBuffer* buffer, const GstSegment& segment);
  [[nodiscard]] Result<void> end();
  /// What isn't taken yet is dropped, and every wait ends.
  void flush_start() noexcept { slots_->producer().flush_start(); }
  /// Frames count again. Errors: those of Producer::flush_stop().
  [[nodiscard]] Result<void> flush_stop();

  /// Once per stream, before the first frame or the end: asks upstream whether it is live, and waits for consumers.
  [[nodiscard]] Result<void> get_ready(GstPad* sinkpad, std::optional<GstClockTime> configured_latency);
  /// The latency may have changed; the next get_ready() asks again.
  void request_latency() noexcept { latency_stale_.store(true, std::memory_order_release); }

  /// leaky=no, or what `auto` made of it.
  [[nodiscard]] bool waits_for_room() const noexcept { return waits_for_room_; }

  /// A consumer joined; ids grow. Any thread.
  void on_joined(std::uint32_t id) noexcept;
  /// Tells upstream through `pad` of a wish for a key unit, if there is one and it is time. Any thread.
  void push_key_unit_wish(GstPad* pad);
  /// Somebody joined or lost a frame, and can't go on before the next one that stands alone. Any thread.
  void need_key_unit() noexcept { key_unit_.need(); }
  /// Tells upstream through `pad` what consumers ask for. Any thread that may push.
  void push_requests(GstPad* pad);

  void offer_allocation(GstQuery* query);

  void interrupt() noexcept { slots_->producer().interrupt(); }
  void resume() noexcept { slots_->producer().resume(); }
  void close() noexcept;
  [[nodiscard]] Producer& producer() noexcept { return slots_->producer(); }
  void add_stats(GstStructure* stats) const;

 private:
  using Reason = Slots::Reason;
  static constexpr auto kReasons = static_cast<std::size_t>(Reason::kCount);

  [[nodiscard]] Result<void> send(const format::Event& event);
  [[nodiscard]] Result<void> clear_layout();
  [[nodiscard]] Result<void> begin_again();
  void take_inbox();
  void number_sticky(format::Event& event);
  void remember(const format::Event& event);
  [[nodiscard]] Result<void> send_layout(const VideoLayout& layout);
  [[nodiscard]] Latency ask_upstream(GstPad* sinkpad, std::optional<GstClockTime> configured_latency) const;
  [[nodiscard]] GstClockTime absorbs() const;
  void decide_leaky(bool live);
  void note_first_consumers();
  [[nodiscard]] format::FrameInfo describe(GstBuffer* buffer, const GstSegment& segment);
  [[nodiscard]] bool must_pack(GstBuffer* buffer, Reason& reason, VideoLayout& layout) const;
  [[nodiscard]] Result<Published> publish_copy(GstBuffer* buffer, bool packs, gsize size, const format::FrameInfo& info,
                                               std::span<const std::byte> side_data);
  [[nodiscard]] gsize payload_size(GstBuffer* buffer, const VideoLayout& layout) const;

  GstElement* const element_;
  const SinkSettings settings_;
  const std::shared_ptr<Slots> slots_;
  const AllocatorPtr allocator_;

  Media media_;
  VideoLayout layout_;  // as the lane knows it
  MetaSender metas_;
  BaseTime base_time_;
  std::deque<format::Event> queued_;
  std::vector<format::Event> sticky_;  // to begin again after an end of stream
  std::size_t resent_ = 0;
  bool ended_ = false;
  bool ready_ = false;
  bool waits_for_room_ = true;
  bool has_delta_units_ = false;
  KeyUnitWish key_unit_;
  std::atomic<std::uint32_t> last_first_consumer_{0};  // consumers up to this id were there before the first frame
  std::vector<std::string> sticky_names_;              // of custom events; the index says the kind of state
  std::mutex requests_mutex_;                          // while requests are taken and pushed
  std::mutex inbox_mutex_;
  std::vector<format::Event> inbox_;  // inbox_mutex_; from other threads
  std::atomic<bool> has_inbox_{false};
  bool lost_ = false;               // the next frame doesn't follow its predecessor
  std::optional<Latency> latency_;  // as the lane knows it
  std::atomic<bool> latency_stale_{true};

  std::atomic<std::uint64_t> in_place_{0};
  std::atomic<std::uint64_t> dropped_no_slot_{0};
  std::array<std::atomic<std::uint64_t>, kReasons> copied_{};
};

}  // namespace framelane::gst
