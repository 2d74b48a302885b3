// SPDX-License-Identifier: MIT
// The elements in harnesses: a test pushes into a lanesink, or into one lane's sink and pulls from its source.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <gst/check/gstharness.h>
#include <gst/video/video.h>

#include "framelane/lane/consumer.hpp"

#include "pipeline.hpp"

namespace framelane::gst::test {

inline constexpr const char* kGray = "video/x-raw,format=GRAY8,width=64,height=48,framerate=100/1";
inline constexpr gsize kGraySize = 64 * 48;

inline Consumer consumer_of(const char* lane, bool gating = true) {
  auto settings = settings_of<ConsumerSettings>(lane);
  settings.gating = gating;
  auto consumer = Consumer::open(settings);
  EXPECT_TRUE(consumer) << consumer.error().text;
  return std::move(*consumer);
}

/// The element of a harness that is named `end`. Transfer none.
inline GstElement* end_of(GstHarness* harness) {
  GstElement* const element = gst_bin_get_by_name(GST_BIN(harness->element), "end");
  gst_object_unref(element);
  return element;
}

/// A lanesink of lane x into which the test pushes by itself.
class Sink {
 public:
  explicit Sink(const std::string& properties = "", const std::string& caps = kGray) : caps_(caps) {
    harness_ = gst_harness_new_parse(over("lanesink name=end lane=x wait-for-consumers=0 " + properties).c_str());
    gst_harness_set_src_caps_str(harness_, caps.c_str());
  }
  ~Sink() { gst_harness_teardown(harness_); }
  Sink(const Sink&) = delete;
  Sink& operator=(const Sink&) = delete;

  GstHarness* harness() const { return harness_; }
  GstElement* element() const { return end_of(harness_); }
  GstFlowReturn push(GstBuffer* buffer) const { return gst_harness_push(harness_, buffer); }
  guint consumers() const {
    guint consumers = 0;
    g_object_get(element(), "num-consumers", &consumers, nullptr);
    return consumers;
  }

  /// What the sink answers to an ALLOCATION query. Transfer full.
  GstQuery* allocation() const {
    GstCaps* const caps = gst_caps_from_string(caps_.c_str());
    GstQuery* const query = gst_query_new_allocation(caps, TRUE);
    EXPECT_TRUE(gst_pad_peer_query(harness_->srcpad, query));
    gst_caps_unref(caps);
    return query;
  }
  /// The sink's allocator. Transfer full.
  GstAllocator* allocator() const {
    GstQuery* const query = allocation();
    GstAllocator* allocator = nullptr;
    gst_query_parse_nth_allocation_param(query, 0, &allocator, nullptr);
    gst_query_unref(query);
    return allocator;
  }

  struct PoolWish {
    guint min = 0;
    guint max = 0;
    guint more = 0;  ///< bytes beyond what was offered
    GstAllocator* allocator = nullptr;
    std::optional<GstVideoAlignment> alignment = {};
  };
  /// The pool that the sink offers, configured and active. Transfer full.
  GstBufferPool* pool(const PoolWish& wish) const {
    GstQuery* const query = allocation();
    GstBufferPool* pool = nullptr;
    guint size = 0;
    gst_query_parse_nth_allocation_pool(query, 0, &pool, &size, nullptr, nullptr);
    gst_query_unref(query);
    GstStructure* const config = gst_buffer_pool_get_config(pool);
    GstCaps* const caps = gst_caps_from_string(caps_.c_str());
    gst_buffer_pool_config_set_params(config, caps, size + wish.more, wish.min, wish.max);
    gst_caps_unref(caps);
    gst_buffer_pool_config_add_option(config, GST_BUFFER_POOL_OPTION_VIDEO_META);
    if (wish.allocator != nullptr) gst_buffer_pool_config_set_allocator(config, wish.allocator, nullptr);
    if (wish.alignment) {
      GstVideoAlignment align = *wish.alignment;
      gst_buffer_pool_config_add_option(config, GST_BUFFER_POOL_OPTION_VIDEO_ALIGNMENT);
      gst_buffer_pool_config_set_video_alignment(config, &align);
    }
    EXPECT_TRUE(gst_buffer_pool_set_config(pool, config));
    EXPECT_TRUE(gst_buffer_pool_set_active(pool, TRUE));
    return pool;
  }
  GstBufferPool* pool() const { return pool(PoolWish{}); }

 private:
  const std::string caps_;
  GstHarness* harness_ = nullptr;
};

/// A lane with an element at each end.
class Crossing {
 public:
  /// `listed`: metas that downstream of the source names in its ALLOCATION answer.
  explicit Crossing(const std::string& caps, const std::vector<GType>& listed = {}, const std::string& sink = "",
                    const std::string& source = "")
      : sink_(sink, caps) {
    receiver_ = gst_harness_new_parse(over("lanesrc name=end lane=x " + source).c_str());
    for (const GType api : listed) gst_harness_add_propose_allocation_meta(receiver_, api, nullptr);
    gst_harness_play(receiver_);
    EXPECT_TRUE(comes([&] { return sink_.consumers() == 1; }));
  }
  ~Crossing() { gst_harness_teardown(receiver_); }
  Crossing(const Crossing&) = delete;
  Crossing& operator=(const Crossing&) = delete;

  const Sink& end() const { return sink_; }
  GstElement* sink() const { return sink_.element(); }
  GstElement* source() const { return end_of(receiver_); }

  GstFlowReturn push(GstBuffer* buffer) const { return sink_.push(buffer); }
  /// What comes out; null when nothing does. Transfer full.
  GstBuffer* pull() const { return gst_harness_pull(receiver_); }
  GstBuffer* cross(GstBuffer* buffer) const {
    EXPECT_EQ(push(buffer), GST_FLOW_OK);
    GstBuffer* const came = pull();
    EXPECT_NE(came, nullptr);
    return came != nullptr ? came : gst_buffer_new();
  }

 private:
  Sink sink_;
  GstHarness* receiver_ = nullptr;
};

inline GstBuffer* acquire(GstBufferPool* pool) {
  GstBuffer* buffer = nullptr;
  EXPECT_EQ(gst_buffer_pool_acquire_buffer(pool, &buffer, nullptr), GST_FLOW_OK);
  return buffer;
}

inline void finish(GstBufferPool* pool) {
  gst_buffer_pool_set_active(pool, FALSE);
  gst_object_unref(pool);
}

/// Bytes from `offset` on, as text.
inline std::string text_of(GstBuffer* buffer, gsize offset = 0, gssize size = -1) {
  std::string text(size >= 0 ? static_cast<gsize>(size) : gst_buffer_get_size(buffer) - offset, '\0');
  text.resize(gst_buffer_extract(buffer, offset, text.data(), text.size()));
  return text;
}

inline GstBuffer* buffer_of(const std::string& text) {
  GstBuffer* const buffer = gst_buffer_new_allocate(nullptr, text.size(), nullptr);
  gst_buffer_fill(buffer, 0, text.data(), text.size());
  return buffer;
}

}  // namespace framelane::gst::test
