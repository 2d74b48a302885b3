// SPDX-License-Identifier: MIT
// A lane with an element at each end, into which a test pushes and from which it pulls by itself.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <gst/check/gstharness.h>

#include "pipeline.hpp"

namespace framelane::gst::test {

class Crossing {
 public:
  /// `listed`: metas that downstream of the source names in its ALLOCATION answer.
  explicit Crossing(const std::string& caps, const std::vector<GType>& listed = {}, const std::string& sink = "",
                    const std::string& source = "")
      : caps_(caps) {
    sender_ = gst_harness_new_parse(("lanesink name=end lane=x wait-for-consumers=0 " + sink).c_str());
    gst_harness_set_src_caps_str(sender_, caps.c_str());
    receiver_ = gst_harness_new_parse(("lanesrc name=end lane=x " + source).c_str());
    for (const GType api : listed) gst_harness_add_propose_allocation_meta(receiver_, api, nullptr);
    gst_harness_play(receiver_);
    EXPECT_TRUE(comes([&] { return consumers() == 1; }));
  }
  ~Crossing() {
    gst_harness_teardown(receiver_);
    gst_harness_teardown(sender_);
  }
  Crossing(const Crossing&) = delete;
  Crossing& operator=(const Crossing&) = delete;

  GstElement* sink() const { return end_of(sender_); }
  GstElement* source() const { return end_of(receiver_); }
  GstHarness* sender() const { return sender_; }

  GstFlowReturn push(GstBuffer* buffer) const { return gst_harness_push(sender_, buffer); }
  /// What comes out; null when nothing does. Transfer full.
  GstBuffer* pull() const { return gst_harness_pull(receiver_); }
  GstBuffer* cross(GstBuffer* buffer) const {
    EXPECT_EQ(push(buffer), GST_FLOW_OK);
    GstBuffer* const came = pull();
    EXPECT_NE(came, nullptr);
    return came != nullptr ? came : gst_buffer_new();
  }

  guint consumers() const {
    guint consumers = 0;
    g_object_get(sink(), "num-consumers", &consumers, nullptr);
    return consumers;
  }

  /// What the sink answers to an ALLOCATION query. Transfer full.
  GstQuery* allocation() const {
    GstCaps* const caps = gst_caps_from_string(caps_.c_str());
    GstQuery* const query = gst_query_new_allocation(caps, TRUE);
    EXPECT_TRUE(gst_pad_peer_query(sender_->srcpad, query));
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
  /// The sink's pool, configured, with this alignment, and active. Transfer full.
  GstBufferPool* pool(const std::optional<GstVideoAlignment>& alignment = {}, guint min = 0, guint max = 0,
                      guint more = 0) const {
    GstQuery* const query = allocation();
    GstBufferPool* pool = nullptr;
    guint size = 0;
    gst_query_parse_nth_allocation_pool(query, 0, &pool, &size, nullptr, nullptr);
    gst_query_unref(query);
    GstStructure* const config = gst_buffer_pool_get_config(pool);
    GstCaps* const caps = gst_caps_from_string(caps_.c_str());
    gst_buffer_pool_config_set_params(config, caps, size + more, min, max);
    gst_caps_unref(caps);
    gst_buffer_pool_config_add_option(config, GST_BUFFER_POOL_OPTION_VIDEO_META);
    if (alignment) {
      GstVideoAlignment align = *alignment;
      gst_buffer_pool_config_add_option(config, GST_BUFFER_POOL_OPTION_VIDEO_ALIGNMENT);
      gst_buffer_pool_config_set_video_alignment(config, &align);
    }
    EXPECT_TRUE(gst_buffer_pool_set_config(pool, config));
    EXPECT_TRUE(gst_buffer_pool_set_active(pool, TRUE));
    return pool;
  }

 private:
  static GstElement* end_of(GstHarness* harness) {
    GstElement* const element = gst_bin_get_by_name(GST_BIN(harness->element), "end");
    gst_object_unref(element);
    return element;
  }

  const std::string caps_;
  GstHarness* sender_ = nullptr;
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
