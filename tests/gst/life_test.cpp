// SPDX-License-Identifier: MIT
// Starting and stopping: what is left behind, and what GStreamer's own elements for this got wrong.
#include <filesystem>
#include <fstream>
#include <future>
#include <set>

#include "pipeline.hpp"

namespace framelane::gst::test {
namespace {

constexpr const char* kGray = "video/x-raw,format=GRAY8,width=64,height=48,framerate=100/1";

std::string receiver(const std::string& options = "") {
  return "lanesrc name=in lane=x " + options + " ! fakesink name=out ";
}

class LifeTest : public LaneTest {};

// --- leaks

struct Resources {
  std::size_t fds = 0;
  std::size_t lane_mappings = 0;
  std::size_t threads = 0;

  // GLib keeps idle threads for a while, so there may be fewer than at first.
  bool at_most(const Resources& other) const {
    return fds <= other.fds && lane_mappings <= other.lane_mappings && threads <= other.threads;
  }
};

std::multiset<std::string> lane_mappings() {
  std::multiset<std::string> found;
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    if (line.find("memfd:") != std::string::npos) found.insert(line);
  }
  return found;
}

Resources resources() {
  const auto entries = [](const char* path) {
    std::size_t count = 0;
    for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(path)) ++count;
    return count;
  };
  return {entries("/proc/self/fd"), lane_mappings().size(), entries("/proc/self/task")};
}

// Two cycles of each element: to the end of a stream, and stopped at any moment.
void two_cycles() {
  Pipeline receiving(receiver());
  Pipeline sender("videotestsrc num-buffers=5 ! " + std::string(kGray) + " ! lanesink lane=x");
  receiving.play();
  ASSERT_TRUE(sender.play().ends());
  ASSERT_TRUE(receiving.ends());
  receiving.set(GST_STATE_NULL);
  sender.set(GST_STATE_NULL);
  receiving.play();
  sender.play();
}

TEST_F(LifeTest, TwoHundredCyclesLeakNothing) {
  for (int i = 0; i < 3; ++i) two_cycles();
  const Resources before = resources();
  for (int i = 0; i < 100; ++i) two_cycles();
  EXPECT_TRUE(comes([&] { return resources().at_most(before); }))
      << resources().fds << "/" << before.fds << " fds, " << resources().lane_mappings << "/" << before.lane_mappings
      << " mappings, " << resources().threads << "/" << before.threads << " threads";
}

// --- states

/// A state change in a thread of its own, so that one that hangs is seen.
void change(Pipeline& pipeline, GstState state) {
  auto result = std::async(std::launch::async, [&] { return pipeline.set(state); });
  if (result.wait_for(kHang) != std::future_status::ready) {
    ADD_FAILURE() << "the state change hangs";
    std::_Exit(1);
  }
  EXPECT_NE(result.get(), GST_STATE_CHANGE_FAILURE);
}

/// Everything but errors and warnings is silence.
void expect_no_complaint(const Pipeline& pipeline) {
  GstBus* const bus = gst_element_get_bus(pipeline.get());
  GstMessage* const message =
      gst_bus_pop_filtered(bus, static_cast<GstMessageType>(GST_MESSAGE_ERROR | GST_MESSAGE_WARNING));
  if (message != nullptr) {
    ADD_FAILURE() << gst_message_type_get_name(GST_MESSAGE_TYPE(message)) << " of " << GST_MESSAGE_SRC_NAME(message);
    gst_message_unref(message);
  }
  gst_object_unref(bus);
}

TEST_F(LifeTest, StopsWhileItWaits) {
  Pipeline receiving(receiver("connect-timeout=18446744073709551615"));
  for (const GstState state :
       {GST_STATE_PLAYING, GST_STATE_PAUSED, GST_STATE_PLAYING, GST_STATE_READY, GST_STATE_PLAYING, GST_STATE_NULL}) {
    change(receiving, state);
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
  }
  expect_no_complaint(receiving);
}

// shmsrc: "Failed waiting on fd activity".
TEST_F(LifeTest, StoppingIsNoError) {
  Pipeline sender("videotestsrc is-live=true ! " + std::string(kGray) + " ! lanesink name=sink lane=x");
  Pipeline receiving(receiver());
  Tap tap(receiving.element("out"), "sink");
  sender.play();
  receiving.play();
  ASSERT_TRUE(comes([&] { return tap.count() > 5; }));
  change(receiving, GST_STATE_NULL);
  change(sender, GST_STATE_NULL);
  expect_no_complaint(receiving);
  expect_no_complaint(sender);
}

// --- what others got wrong

// unixfdsink sent "NULL" as caps to a consumer that came before them.
TEST_F(LifeTest, AConsumerThatComesBeforeTheCapsWaitsForThem) {
  Pipeline sender("videotestsrc is-live=true ! " + std::string(kGray) + " ! lanesink name=sink lane=x");
  sender.set(GST_STATE_PAUSED);  // live: opened, and without data
  Pipeline receiving(receiver());
  Tap tap(receiving.element("out"), "sink");
  receiving.play();
  guint consumers = 0;
  ASSERT_TRUE(comes([&] {
    g_object_get(sender.element("sink"), "num-consumers", &consumers, nullptr);
    return consumers == 1;
  }));
  GstPad* const pad = gst_element_get_static_pad(receiving.element("in"), "src");
  EXPECT_FALSE(gst_pad_has_current_caps(pad));
  sender.play();
  ASSERT_TRUE(comes([&] { return tap.count() > 5; }));
  GstCaps* const caps = gst_pad_get_current_caps(pad);
  ASSERT_NE(caps, nullptr);
  EXPECT_TRUE(gst_structure_has_name(gst_caps_get_structure(caps, 0), "video/x-raw"));
  gst_caps_unref(caps);
  gst_object_unref(pad);
  expect_no_complaint(receiving);
}

// shmsrc and unixfdsrc map the memory of each frame anew: 2 ms of CPU for a large one.
TEST_F(LifeTest, FramesAreMappedOnce) {
  Pipeline sender("videotestsrc num-buffers=300 ! " + std::string(kGray) + " ! lanesink name=sink lane=x");
  Pipeline receiving(receiver());
  std::mutex mutex;
  std::set<const guint8*> places;
  std::multiset<std::string> mappings;
  std::size_t count = 0;
  bool changed = false;
  const auto look = [&](GstBuffer* buffer) {
    const std::lock_guard lock(mutex);
    GstMapInfo map;
    if (gst_buffer_map(buffer, &map, GST_MAP_READ)) {
      places.insert(map.data);
      gst_buffer_unmap(buffer, &map);
    }
    if (++count == 5) mappings = lane_mappings();
    if (count == 295) changed = mappings != lane_mappings();
  };
  GstPad* const pad = gst_element_get_static_pad(receiving.element("out"), "sink");
  const std::function<void(GstBuffer*)> on_buffer = look;
  gst_pad_add_probe(
      pad, GST_PAD_PROBE_TYPE_BUFFER,
      [](GstPad*, GstPadProbeInfo* info, gpointer user) {
        (*static_cast<const std::function<void(GstBuffer*)>*>(user))(GST_PAD_PROBE_INFO_BUFFER(info));
        return GST_PAD_PROBE_OK;
      },
      const_cast<gpointer>(static_cast<const void*>(&on_buffer)), nullptr);
  receiving.play();
  ASSERT_TRUE(sender.play().ends());
  ASSERT_TRUE(receiving.ends());
  gst_object_unref(pad);
  EXPECT_EQ(count, 300u);
  EXPECT_FALSE(mappings.empty());
  EXPECT_FALSE(changed) << "a mapping came or went while frames flowed";
  EXPECT_LE(places.size(), 8u + 8 + 17 + 5) << "more places than the lane has slots";
}

// An application that looks at the element from its sync handler got a deadlock: the error was posted under the object
// lock.
void expect_error_with_free_locks(const std::string& text, const char* name) {
  Pipeline pipeline(text);
  GstElement* const element = pipeline.element(name);
  std::atomic<int> errors{0};
  std::function<void(GstMessage*)> on_message = [&](GstMessage* message) {
    if (GST_MESSAGE_TYPE(message) != GST_MESSAGE_ERROR || GST_MESSAGE_SRC(message) != GST_OBJECT_CAST(element)) return;
    gchar* lane = nullptr;
    GstStructure* stats = nullptr;
    g_object_get(element, "lane", &lane, "stats", &stats, nullptr);
    g_free(lane);
    gst_structure_free(stats);
    GST_OBJECT_LOCK(element);
    GST_OBJECT_UNLOCK(element);
    ++errors;
  };
  GstBus* const bus = gst_element_get_bus(pipeline.get());
  gst_bus_set_sync_handler(
      bus,
      [](GstBus*, GstMessage* message, gpointer user) {
        (*static_cast<std::function<void(GstMessage*)>*>(user))(message);
        return GST_BUS_PASS;
      },
      &on_message, nullptr);
  pipeline.set(GST_STATE_PLAYING);
  EXPECT_TRUE(comes([&] { return errors == 1; })) << text;
  pipeline.set(GST_STATE_NULL);
  gst_bus_set_sync_handler(bus, nullptr, nullptr, nullptr);
  gst_object_unref(bus);
}

TEST_F(LifeTest, ErrorsArePostedUnderNoLock) {
  expect_error_with_free_locks("videotestsrc ! lanesink name=e lane=a/b", "e");
  expect_error_with_free_locks("videotestsrc ! lanesink name=e lane=x wait-for-consumers=0 max-frame-size=10", "e");
  expect_error_with_free_locks("lanesrc name=e lane=nobody connect-timeout=50000000 ! fakesink", "e");
  expect_error_with_free_locks("lanesrc name=e lane=.. ! fakesink", "e");
}

}  // namespace
}  // namespace framelane::gst::test
