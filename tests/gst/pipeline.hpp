// SPDX-License-Identifier: MIT
// What the in-process tests of the elements share.
#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include <gst/gst.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include "over.hpp"

namespace framelane::gst::test {

constexpr auto kHang = std::chrono::seconds(60);  // a hang, not a slow machine

/// A test with a lane directory of its own.
class LaneTest : public ::testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/framelane-test-XXXXXX";
    ASSERT_NE(mkdtemp(name), nullptr);
    directory_ = name;
    setenv("FRAMELANE_DIR", (directory_ + "/lanes").c_str(), 1);
  }
  void TearDown() override { std::filesystem::remove_all(directory_); }

  std::string directory_;
};

/// Waits for a condition; only a hang makes it fail.
inline bool comes(const std::function<bool()>& condition) {
  const auto end = std::chrono::steady_clock::now() + kHang;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return true;
}

/// A pipeline made from text; ends in NULL.
class Pipeline {
 public:
  explicit Pipeline(const std::string& text) {
    GError* error = nullptr;
    pipeline_ = gst_parse_launch(over(text).c_str(), &error);
    EXPECT_EQ(error, nullptr) << error->message;
    if (!GST_IS_PIPELINE(pipeline_)) {
      GstElement* const bin = gst_pipeline_new(nullptr);
      gst_bin_add(GST_BIN(bin), pipeline_);
      pipeline_ = bin;
    }
  }
  ~Pipeline() {
    set(GST_STATE_NULL);
    gst_object_unref(pipeline_);
  }
  Pipeline(const Pipeline&) = delete;
  Pipeline& operator=(const Pipeline&) = delete;

  GstElement* get() const { return pipeline_; }
  GstStateChangeReturn set(GstState state) { return gst_element_set_state(pipeline_, state); }
  Pipeline& play() {
    EXPECT_NE(set(GST_STATE_PLAYING), GST_STATE_CHANGE_FAILURE);
    return *this;
  }
  /// The end of the stream, within kHang; an error fails the test.
  bool ends() {
    GstBus* const bus = gst_element_get_bus(pipeline_);
    GstMessage* message = nullptr;
    for (;;) {
      message = gst_bus_timed_pop_filtered(
          bus, static_cast<GstClockTime>(std::chrono::nanoseconds(kHang).count()),
          static_cast<GstMessageType>(GST_MESSAGE_EOS | GST_MESSAGE_ERROR | GST_MESSAGE_WARNING));
      if (message == nullptr || GST_MESSAGE_TYPE(message) != GST_MESSAGE_WARNING) break;
      ++warnings_;
      gst_message_unref(message);
    }
    gst_object_unref(bus);
    if (message == nullptr) return false;
    const bool eos = GST_MESSAGE_TYPE(message) == GST_MESSAGE_EOS;
    if (!eos) {
      GError* error = nullptr;
      gst_message_parse_error(message, &error, nullptr);
      ADD_FAILURE() << error->message;
      g_error_free(error);
    }
    gst_message_unref(message);
    return eos;
  }
  /// Warnings that ends() saw.
  int warnings() const { return warnings_; }

  GstElement* element(const char* name) const {
    GstElement* const element = gst_bin_get_by_name(GST_BIN(pipeline_), name);
    EXPECT_NE(element, nullptr) << name;
    gst_object_unref(element);  // the pipeline keeps it
    return element;
  }

 private:
  GstElement* pipeline_ = nullptr;
  int warnings_ = 0;
};

/// One error, and only one, whose text has these words.
inline ::testing::AssertionResult ends_with_error(Pipeline& pipeline, const char* words) {
  GstBus* const bus = gst_element_get_bus(pipeline.get());
  GstMessage* message = gst_bus_timed_pop_filtered(bus, 60 * GST_SECOND, GST_MESSAGE_ERROR);
  if (message == nullptr) return ::testing::AssertionFailure() << "no error";
  GError* error = nullptr;
  gst_message_parse_error(message, &error, nullptr);
  const std::string text = error->message;
  g_error_free(error);
  gst_message_unref(message);
  pipeline.set(GST_STATE_NULL);
  message = gst_bus_pop_filtered(bus, GST_MESSAGE_ERROR);
  gst_object_unref(bus);
  if (message != nullptr) return ::testing::AssertionFailure() << "a second error";
  if (text.find(words) == std::string::npos) return ::testing::AssertionFailure() << text;
  return ::testing::AssertionSuccess();
}

/// A counter of an element's `stats`.
inline guint64 stat(GstElement* element, const char* field) {
  GstStructure* stats = nullptr;
  g_object_get(element, "stats", &stats, nullptr);
  guint64 value = G_MAXUINT64;
  EXPECT_TRUE(gst_structure_get_uint64(stats, field, &value)) << field;
  gst_structure_free(stats);
  return value;
}

/// What passes a pad: its buffers and the segment that each one came with.
class Tap {
 public:
  struct Seen {
    GstBuffer* buffer;
    GstSegment segment;
    GstClockTime running() const {
      return gst_segment_to_running_time(&segment, GST_FORMAT_TIME, GST_BUFFER_PTS(buffer));
    }
  };

  Tap(GstElement* element, const char* pad_name) {
    gst_segment_init(&segment_, GST_FORMAT_TIME);
    pad_ = gst_element_get_static_pad(element, pad_name);
    probe_ = gst_pad_add_probe(
        pad_, static_cast<GstPadProbeType>(GST_PAD_PROBE_TYPE_BUFFER | GST_PAD_PROBE_TYPE_EVENT_DOWNSTREAM),
        &Tap::on_data, this, nullptr);
  }
  ~Tap() {
    gst_pad_remove_probe(pad_, probe_);
    gst_object_unref(pad_);
    for (const Seen& seen : seen_) gst_buffer_unref(seen.buffer);
  }
  Tap(const Tap&) = delete;
  Tap& operator=(const Tap&) = delete;

  std::size_t count() const {
    const std::lock_guard lock(mutex_);
    return seen_.size();
  }
  std::vector<Seen> seen() const {
    const std::lock_guard lock(mutex_);
    return seen_;
  }
  /// Whether buffers are kept, or only counted and their times kept.
  void keep_only(std::size_t most) { most_ = most; }

 private:
  static GstPadProbeReturn on_data(GstPad*, GstPadProbeInfo* info, gpointer user) {
    Tap& self = *static_cast<Tap*>(user);
    const std::lock_guard lock(self.mutex_);
    if (GST_IS_BUFFER(info->data)) {
      GstBuffer* const buffer = GST_BUFFER_CAST(info->data);
      const bool whole = self.seen_.size() < self.most_;
      GstBuffer* const kept = whole ? gst_buffer_ref(buffer) : gst_buffer_new();
      if (!whole) gst_buffer_copy_into(kept, buffer, GST_BUFFER_COPY_METADATA, 0, static_cast<gsize>(-1));
      self.seen_.push_back({kept, self.segment_});
    } else if (GST_EVENT_TYPE(info->data) == GST_EVENT_SEGMENT) {
      gst_event_copy_segment(GST_EVENT_CAST(info->data), &self.segment_);
    }
    return GST_PAD_PROBE_OK;
  }

  mutable std::mutex mutex_;
  GstPad* pad_ = nullptr;
  gulong probe_ = 0;
  GstSegment segment_;
  std::size_t most_ = 0;
  std::vector<Seen> seen_;
};

}  // namespace framelane::gst::test
