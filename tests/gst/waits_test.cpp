// SPDX-License-Identifier: MIT
// State changes while an element waits, with every kind of upstream: each ends at once.
#include <atomic>
#include <future>
#include <optional>

#include "framelane/lane/consumer.hpp"
#include "framelane/lane/producer.hpp"

#include "crossing.hpp"

namespace framelane::gst::test {
namespace {

/// Changes the state in a thread of its own: a hang must fail the test, not the test program.
::testing::AssertionResult changes(const Pipeline& pipeline, GstState state) {
  auto change = std::async(std::launch::async, [&] { return gst_element_set_state(pipeline.get(), state); });
  if (change.wait_for(kHang) != std::future_status::ready) {
    ADD_FAILURE() << "the change to " << gst_element_state_get_name(state) << " hangs";
    std::_Exit(1);
  }
  if (change.get() == GST_STATE_CHANGE_FAILURE) return ::testing::AssertionFailure();
  return ::testing::AssertionSuccess();
}

struct Source {
  const char* name;
  const char* pipeline;  // without an end, and faster than anybody takes
};

constexpr Source kSources[] = {
    {"Direct", "videotestsrc ! video/x-raw,format=GRAY8,width=64,height=48"},
    {"Transform", "videotestsrc ! video/x-raw,format=RGB,width=64,height=48 ! videoconvert ! video/x-raw,format=I420"},
    {"Queue", "videotestsrc ! video/x-raw,format=GRAY8,width=64,height=48 ! queue max-size-buffers=3"},
    {"Decoder", "videotestsrc ! video/x-raw,width=64,height=48 ! vp8enc deadline=1 ! vp8dec"},
    {"AppSource",
     "appsrc name=in block=true max-buffers=2 caps=video/x-raw,format=GRAY8,width=64,height=48,"
     "framerate=100/1 format=time"},
    {"Live", "videotestsrc is-live=true ! video/x-raw,format=GRAY8,width=64,height=48,framerate=1000/1"},
};

class WaitingFor : public LaneTest, public ::testing::WithParamInterface<Source> {
 protected:
  void TearDown() override {
    if (pushing_.joinable()) pushing_.join();
    sending_.reset();
    LaneTest::TearDown();
  }
  void send(const std::string& options) {
    sending_.emplace(std::string(GetParam().pipeline) + " ! lanesink name=sink lane=x " + options);
  }
  void set(GstState state) {
    ASSERT_TRUE(changes(*sending_, state));
    if (state == GST_STATE_NULL) {
      if (pushing_.joinable()) pushing_.join();
    } else if (GetParam().name == std::string("AppSource") && !pushing_.joinable()) {
      push_in_a_thread();
    }
  }
  GstElement* sink() const { return sending_->element("sink"); }

  std::optional<Pipeline> sending_;

 private:
  // As an application does it: in a thread of its own, which blocks while nobody takes.
  void push_in_a_thread() {
    pushing_ = std::thread([source = sending_->element("in")] {
      GstFlowReturn flow = GST_FLOW_OK;
      for (guint64 i = 0; flow == GST_FLOW_OK; ++i) {
        GstBuffer* buffer = gst_buffer_new_allocate(nullptr, kGraySize, nullptr);
        GST_BUFFER_PTS(buffer) = i * 10 * GST_MSECOND;
        g_signal_emit_by_name(source, "push-buffer", buffer, &flow);
        gst_buffer_unref(buffer);
      }
    });
  }
  std::thread pushing_;
};

constexpr const char* kForEver = "leaky=no full-timeout=18446744073709551615 stall-timeout=18446744073709551615 ";

TEST_P(WaitingFor, RoomInAFullLane) {
  send(kForEver);
  set(GST_STATE_PAUSED);
  auto settings = settings_of<ConsumerSettings>("x");
  auto consumer = Consumer::open(settings);
  ASSERT_TRUE(consumer && consumer->connect(kHang));
  for (int i = 0; i < 2; ++i) {
    set(GST_STATE_PLAYING);
    ASSERT_TRUE(comes([&] { return stat(sink(), "full-waits") > static_cast<guint64>(i); }));
    set(GST_STATE_PAUSED);
  }
  set(GST_STATE_PLAYING);
  set(GST_STATE_NULL);
}

TEST_P(WaitingFor, Preroll) {
  send(std::string(kForEver) + "wait-for-consumers=0");
  set(GST_STATE_PAUSED);
  ASSERT_TRUE(comes([&] {
    const bool live = GetParam().name == std::string("Live");  // which gives nothing in PAUSED
    GstState state = GST_STATE_NULL;
    gst_element_get_state(sink(), &state, nullptr, 0);
    return live || state == GST_STATE_PAUSED;
  }));
  set(GST_STATE_NULL);
}

TEST_P(WaitingFor, Consumers) {
  send("wait-for-consumers=2");
  set(GST_STATE_PLAYING);
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  set(GST_STATE_PAUSED);
  set(GST_STATE_PLAYING);
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  set(GST_STATE_NULL);
}

TEST_P(WaitingFor, SlotsThatConsumersHold) {
  send(std::string(kForEver) + "max-loans=1 burst=1 wait-for-consumers=1");
  set(GST_STATE_PLAYING);
  auto settings = settings_of<ConsumerSettings>("x");
  settings.max_held = 4;
  auto consumer = Consumer::open(settings);
  ASSERT_TRUE(consumer);
  std::vector<Frame> held;
  for (int i = 0; i < 4; ++i) {
    auto frame = consumer->take(kHang);
    ASSERT_TRUE(frame) << frame.error().text;
    held.push_back(std::move(*frame));
  }
  ASSERT_TRUE(comes([&] { return stat(sink(), "full-waits") > 0; }));
  set(GST_STATE_PAUSED);
  set(GST_STATE_PLAYING);
  set(GST_STATE_NULL);
}

TEST_P(WaitingFor, RoomInAFullLaneWhenAFlushComes) {
  send(std::string(kForEver) + "wait-for-consumers=1");
  set(GST_STATE_PLAYING);
  auto settings = settings_of<ConsumerSettings>("x");
  auto consumer = Consumer::open(settings);
  ASSERT_TRUE(consumer && consumer->connect(kHang));
  ASSERT_TRUE(comes([&] { return stat(sink(), "full-waits") > 0; }));
  GstPad* const pad = gst_element_get_static_pad(sink(), "sink");
  auto flush = std::async(std::launch::async, [&] { return gst_pad_send_event(pad, gst_event_new_flush_start()); });
  if (flush.wait_for(kHang) != std::future_status::ready) {
    ADD_FAILURE() << "the flush hangs";
    std::_Exit(1);
  }
  EXPECT_TRUE(flush.get());
  gst_object_unref(pad);
  set(GST_STATE_NULL);
}

INSTANTIATE_TEST_SUITE_P(With, WaitingFor, ::testing::ValuesIn(kSources),
                         [](const auto& each) { return std::string(each.param.name); });

// --- the source

class WaitingSource : public LaneTest {
 protected:
  /// Through all states again and again, with a moment in each.
  static void walk(const Pipeline& pipeline) {
    for (const GstState state :
         {GST_STATE_PLAYING, GST_STATE_PAUSED, GST_STATE_PLAYING, GST_STATE_READY, GST_STATE_PLAYING, GST_STATE_NULL}) {
      ASSERT_TRUE(changes(pipeline, state));
      std::this_thread::sleep_for(std::chrono::milliseconds(30));
    }
  }
};

TEST_F(WaitingSource, ForAProducer) {
  walk(Pipeline("lanesrc lane=x connect-timeout=18446744073709551615 ! fakesink"));
  walk(Pipeline("lanesrc lane=x is-live=false connect-timeout=18446744073709551615 ! fakesink async=false"));
}

TEST_F(WaitingSource, ForFrames) {
  auto settings = settings_of<ProducerSettings>("x");
  auto producer = Producer::open(settings);
  ASSERT_TRUE(producer);
  ASSERT_TRUE(producer->set_caps(kGray));
  walk(Pipeline("lanesrc lane=x ! fakesink"));
}

TEST_F(WaitingSource, ForAProducerThatIsGone) {
  auto settings = settings_of<ProducerSettings>("x");
  auto producer = Producer::open(settings);
  ASSERT_TRUE(producer);
  Pipeline receiving("lanesrc lane=x ! fakesink");
  receiving.play();
  ASSERT_TRUE(producer->wait_for_consumers(1, kHang));
  producer->close();
  walk(receiving);
}

TEST_F(WaitingSource, ForItsOwnSink) {
  Pipeline sending(std::string("videotestsrc is-live=true ! ") + kGray + " ! lanesink lane=x");
  sending.play();
  Pipeline receiving("lanesrc lane=x ! fakesink sync=true ts-offset=3600000000000");
  walk(receiving);
}

}  // namespace
}  // namespace framelane::gst::test
