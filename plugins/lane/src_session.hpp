// SPDX-License-Identifier: MIT
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include <gst/base/gstbasesrc.h>

#include "framelane/lane/consumer.hpp"

#include "lane/enums.hpp"
#include "lane/events.hpp"
#include "lane/frame_buffers.hpp"
#include "lane/gst_ptr.hpp"
#include "lane/media.hpp"
#include "lane/metas.hpp"
#include "lane/opening.hpp"
#include "lane/timeline.hpp"

namespace framelane::gst {

/// What a source was asked for.
struct SrcSettings {
  ConsumerSettings api;
  TcpPlace tcp;
  bool is_live = true;
  TimestampMode timestamps = TimestampMode::kAuto;
  bool forward_qos = false;  ///< tell the producer of downstream's quality
};

/// What opening made of the settings: the consumer, and the stream that comes out of it.
///
/// Threads: the streaming thread; interrupt(), resume(), latency(), timeline().restart(), flush_early(),
///          forget_segment(), ask() and add_stats() any.
class SrcSession {
 public:
  /// Errors: those of Consumer::open().
  [[nodiscard]] static Result<std::unique_ptr<SrcSession>> open(GstBaseSrc* element, const SrcSettings& settings);
  SrcSession(GstBaseSrc* element, const SrcSettings& settings, Consumer consumer);

  /// Takes one item and sends it downstream. Flow other than OK ends the task; `error` is set when a person must know
  /// why.
  struct Outcome {
    GstFlowReturn flow = GST_FLOW_OK;
    std::optional<Error> error;
    bool warn_only = false;
  };
  [[nodiscard]] Outcome step();
  /// The base class has counted one buffer of num-buffers: the next one.
  void begin_call() noexcept { counted_ = true; }

  /// Sets the lane's caps, if they are known, on the pad. False: downstream can't take them.
  [[nodiscard]] bool negotiate();
  void decide_allocation(GstQuery* query);
  /// Downstream has seen no stream yet and would complain about what comes next.
  void ensure_stream_start();
  /// True while step() itself pushes an event: the base class's own are told apart by this.
  [[nodiscard]] bool pushing() const noexcept { return pushing_.load(std::memory_order_relaxed); }
  /// An event of the application, to go out before the next frame. Any thread.
  void inject(EventPtr event);

  /// Begins a flush that the streaming thread can't, since it is busy downstream. On a thread that may push events.
  void flush_early();
  /// The stream is over: ends a flush that nobody would end any more, and begins no other.
  void end_flushes();
  /// The application flushes this pipeline: pads forget the segment, so it is said again.
  void forget_segment() noexcept { segment_forgotten_.store(true, std::memory_order_release); }
  /// Sends an event of downstream's to the producer. False: this one doesn't cross.
  [[nodiscard]] bool ask(GstEvent* event);

  void interrupt() noexcept;
  void resume() noexcept;
  [[nodiscard]] bool interrupted() const noexcept { return interrupted_.load(std::memory_order_acquire); }
  [[nodiscard]] std::optional<Latency> latency() const;
  [[nodiscard]] Timeline& timeline() noexcept { return timeline_; }
  [[nodiscard]] Consumer& consumer() noexcept { return consumer_; }
  void add_stats(GstStructure* stats) const;

 private:
  [[nodiscard]] Outcome failed(const Error& error) const;
  [[nodiscard]] Outcome refused() const;
  [[nodiscard]] Outcome on_event(const format::Event& event);
  [[nodiscard]] Outcome on_frame(Frame frame);
  [[nodiscard]] Outcome on_caps(const format::Event& event);
  [[nodiscard]] Outcome on_state(const format::Event& event);
  [[nodiscard]] Outcome on_gap(const format::Event& event);
  void on_connection(bool connected);
  void post(GstStructure* details) const;
  void begin_flush();  // under flush_mutex_
  [[nodiscard]] Outcome on_flush_stop();
  void say_segment_again();
  void ask_key_unit();

  [[nodiscard]] GstFlowReturn wait_until_playing();
  void count();
  [[nodiscard]] bool follows(const Frame& frame, const format::FrameInfo& info);
  [[nodiscard]] std::optional<Error> check_size(const Frame& frame) const;
  [[nodiscard]] Result<BufferPtr> make_buffer(Frame&& frame);
  void set_buffer_layout();
  [[nodiscard]] BufferPtr add_video_meta(BufferPtr buffer);
  [[nodiscard]] BufferPtr add_audio_meta(BufferPtr buffer);
  [[nodiscard]] BufferPtr repack(BufferPtr padded);
  [[nodiscard]] GstFlowReturn push(BufferPtr buffer);
  void push_event(EventPtr event);
  void push_in_order(EventPtr event);
  void push_segment(const GstSegment& segment);
  void flush_pending();
  void push_injected();

  GstBaseSrc* const element_;
  GstPad* const pad_;
  const bool forward_qos_;
  Consumer consumer_;
  Timeline timeline_;
  FrameBuffers buffers_;
  MetaReceiver metas_;

  CapsPtr caps_;
  Media media_;
  VideoLayout layout_;          // as the lane says; no planes: as the caps imply
  gsize needed_ = 0;            // bytes of a raw video frame
  bool video_meta_ok_ = false;  // downstream looks at it
  bool audio_meta_ok_ = false;
  bool says_layout_ = false;  // buffers have a GstVideoMeta for layout_

  bool segment_waits_ = false;      // for the first frame
  std::vector<EventPtr> deferred_;  // behind that segment
  bool stream_started_ = false;
  std::atomic<bool> pushing_{false};
  bool counted_ = false;
  std::uint64_t next_seq_ = 0;   // of the frame that follows the last one
  bool lost_ = false;            // the next frame doesn't follow the last one downstream
  bool needs_key_unit_ = false;  // what comes can't be decoded until one that stands alone
  std::int64_t key_unit_asked_ns_ = 0;
  std::uint64_t connections_ = 0;
  std::atomic<bool> interrupted_{false};

  // Two threads may say that a flush begins, one says that it ends; whoever has the lock has pushed it when it goes.
  std::mutex flush_mutex_;
  std::atomic<bool> flushing_{false};  // changed under flush_mutex_
  bool over_ = false;                  // flush_mutex_; the streaming thread takes nothing more
  std::atomic<bool> segment_forgotten_{false};
  std::vector<EventPtr> flushed_;  // the streaming thread's: sticky events that met a flushing pad

  mutable std::mutex mutex_;
  std::optional<Latency> latency_;  // mutex_
  std::vector<EventPtr> injected_;  // mutex_
  std::atomic<bool> has_injected_{false};
  std::atomic<std::uint64_t> repacked_{0};
  std::atomic<std::uint64_t> early_{0};
  std::atomic<std::uint64_t> undecodable_{0};
};

}  // namespace framelane::gst
