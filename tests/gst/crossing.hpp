// SPDX-License-Identifier: MIT
// A sink into which a test pushes, a pipeline that receives, and everything that arrives there.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include <gst/check/gstharness.h>

#include "pipeline.hpp"

namespace framelane::gst::test {

inline constexpr const char* kGray = "video/x-raw,format=GRAY8,width=64,height=48,framerate=100/1";
inline constexpr gsize kGraySize = 64 * 48;

/// A lane directory as a member, for fixtures whose other members open lanes.
class OwnLanes {
 public:
  OwnLanes() {
    char name[] = "/tmp/framelane-test-XXXXXX";
    if (mkdtemp(name) == nullptr) std::abort();
    directory_ = name;
    setenv("FRAMELANE_DIR", (directory_ + "/lanes").c_str(), 1);
  }
  ~OwnLanes() { std::filesystem::remove_all(directory_); }
  OwnLanes(const OwnLanes&) = delete;
  OwnLanes& operator=(const OwnLanes&) = delete;

 private:
  std::string directory_;
};

/// What arrives at a pad, in order, as one word each: "buffer", or the event's type.
class Arrivals {
 public:
  Arrivals(GstElement* element, const char* pad_name) : pad_(gst_element_get_static_pad(element, pad_name)) {
    const auto types = static_cast<GstPadProbeType>(GST_PAD_PROBE_TYPE_BUFFER | GST_PAD_PROBE_TYPE_EVENT_DOWNSTREAM |
                                                    GST_PAD_PROBE_TYPE_EVENT_FLUSH);
    probe_ = gst_pad_add_probe(pad_, types, &Arrivals::on_data, this, nullptr);
  }
  ~Arrivals() {
    gst_pad_remove_probe(pad_, probe_);
    gst_object_unref(pad_);
    for (GstMiniObject* item : items_) gst_mini_object_unref(item);
  }
  Arrivals(const Arrivals&) = delete;
  Arrivals& operator=(const Arrivals&) = delete;

  std::string words() const {
    const std::lock_guard lock(mutex_);
    std::string all;
    for (GstMiniObject* item : items_) all += (all.empty() ? "" : " ") + word(item);
    return all;
  }
  std::size_t count(const std::string& what) const {
    const std::lock_guard lock(mutex_);
    std::size_t found = 0;
    for (GstMiniObject* item : items_) found += word(item) == what;
    return found;
  }
  /// The last event of this type, or null. It stays ours.
  GstEvent* event(GstEventType type) const {
    const std::lock_guard lock(mutex_);
    for (auto it = items_.rbegin(); it != items_.rend(); ++it) {
      if (GST_IS_EVENT(*it) && GST_EVENT_TYPE(*it) == type) return GST_EVENT_CAST(*it);
    }
    return nullptr;
  }
  bool has(GstEventType type) const {
    return comes([&] { return event(type) != nullptr; });
  }
  void forget() {
    const std::lock_guard lock(mutex_);
    for (GstMiniObject* item : items_) gst_mini_object_unref(item);
    items_.clear();
  }
  GstPad* pad() const { return pad_; }

 private:
  static std::string word(GstMiniObject* item) {
    return GST_IS_BUFFER(item) ? "buffer" : GST_EVENT_TYPE_NAME(GST_EVENT_CAST(item));
  }
  static GstPadProbeReturn on_data(GstPad*, GstPadProbeInfo* info, gpointer user) {
    Arrivals& self = *static_cast<Arrivals*>(user);
    const std::lock_guard lock(self.mutex_);
    GstMiniObject* const item = GST_MINI_OBJECT_CAST(info->data);
    // A buffer would hold its slot.
    self.items_.push_back(GST_IS_BUFFER(item) ? GST_MINI_OBJECT_CAST(gst_buffer_new()) : gst_mini_object_ref(item));
    return GST_PAD_PROBE_OK;
  }

  mutable std::mutex mutex_;
  GstPad* pad_;
  gulong probe_ = 0;
  std::vector<GstMiniObject*> items_;
};

struct UnrefEvent {
  void operator()(GstEvent* event) const { gst_event_unref(event); }
};
using EventPtr = std::unique_ptr<GstEvent, UnrefEvent>;

/// A lanesink into which the test pushes.
class Sender {
 public:
  explicit Sender(const std::string& options = "", const char* caps = kGray) {
    harness_ = gst_harness_new_parse(over("lanesink name=sink lane=x wait-for-consumers=0 " + options).c_str());
    if (caps != nullptr) gst_harness_set_src_caps_str(harness_, caps);
  }
  ~Sender() { gst_harness_teardown(harness_); }
  Sender(const Sender&) = delete;
  Sender& operator=(const Sender&) = delete;

  GstHarness* harness() const { return harness_; }
  GstElement* element() const {
    GstElement* const element = gst_bin_get_by_name(GST_BIN(harness_->element), "sink");
    gst_object_unref(element);
    return element;
  }
  bool has_consumers(guint wanted) const {
    return comes([&] {
      guint there = 0;
      g_object_get(element(), "num-consumers", &there, nullptr);
      return there == wanted;
    });
  }
  GstFlowReturn push(GstClockTime pts = GST_CLOCK_TIME_NONE, guint flags = 0) const {
    GstBuffer* const buffer = gst_buffer_new_allocate(nullptr, kGraySize, nullptr);
    GST_BUFFER_PTS(buffer) = pts;
    GST_BUFFER_FLAG_SET(buffer, flags);
    return gst_harness_push(harness_, buffer);
  }
  bool send(GstEvent* event) const { return gst_harness_push_event(harness_, event) != FALSE; }
  /// A segment that begins at 0.
  bool send_segment() const {
    GstSegment segment;
    gst_segment_init(&segment, GST_FORMAT_TIME);
    return send(gst_event_new_segment(&segment));
  }
  /// The next upstream event of this type that reaches the sender's upstream; transfer full.
  EventPtr upstream(GstEventType type) const {
    EventPtr found;
    EXPECT_TRUE(comes([&] {
      while (GstEvent* const event = gst_harness_try_pull_upstream_event(harness_)) {
        if (GST_EVENT_TYPE(event) == type && found == nullptr) {
          found.reset(event);
        } else {
          gst_event_unref(event);
        }
      }
      return found != nullptr;
    })) << gst_event_type_get_name(type);
    return found;
  }
  /// Whether an upstream event of this type has come.
  bool got_upstream(GstEventType type) const {
    bool found = false;
    while (GstEvent* const event = gst_harness_try_pull_upstream_event(harness_)) {
      found = found || GST_EVENT_TYPE(event) == type;
      gst_event_unref(event);
    }
    return found;
  }

 private:
  GstHarness* harness_ = nullptr;
};

/// A playing `lanesrc ! fakesink` that takes running times as they come.
class Receiver {
 public:
  explicit Receiver(const std::string& options = "timestamp-mode=producer",
                    const std::string& out = "fakesink name=out")
      : pipeline("lanesrc name=src lane=x " + options + " ! " + out), arrivals(pipeline.element("out"), "sink") {
    pipeline.play();
  }
  /// Sends an event upstream from the last element.
  bool send_upstream(GstEvent* event) const { return gst_pad_push_event(arrivals.pad(), event) != FALSE; }
  bool got_buffers(std::size_t count) const {
    return comes([&] { return arrivals.count("buffer") >= count; });
  }

  Pipeline pipeline;
  Arrivals arrivals;
};

}  // namespace framelane::gst::test
