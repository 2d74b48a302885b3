// SPDX-License-Identifier: MIT
#include <atomic>

#include <gst/video/video.h>

#include "framelane/lane/producer.hpp"

#include "pipeline.hpp"

namespace framelane::gst::test {
namespace {

constexpr const char* kGray = "video/x-raw,format=GRAY8,width=64,height=48,framerate=100/1";
constexpr gsize kGraySize = 64 * 48;

std::string live(const std::string& lane, const std::string& options = "") {
  return "videotestsrc is-live=true ! " + std::string(kGray) + " ! lanesink name=sink_" + lane + " lane=" + lane + " " +
         options + " ";
}

std::string receiver(const std::string& lane, const std::string& options = "") {
  return "lanesrc name=src_" + lane + " lane=" + lane + " " + options + " ! fakesink name=out_" + lane + " ";
}

GstClockTimeDiff base_of(const Pipeline& pipeline) {
  return static_cast<GstClockTimeDiff>(gst_element_get_base_time(pipeline.get()));
}

class LaneSrcTest : public LaneTest {};

TEST_F(LaneSrcTest, HasTheDefaultsOfTheDesign) {
  GstElement* const source = gst_element_factory_make("lanesrc", nullptr);
  guint held = 0;
  guint64 timeout = 0, frame = 0;
  gint mode = 1, timestamps = 1;
  gboolean gating = FALSE, reconnect = FALSE, is_live = FALSE;
  gdouble budget = 0;
  g_object_get(source, "max-held", &held, "connect-timeout", &timeout, "max-frame-size", &frame, "mode", &mode,
               "timestamp-mode", &timestamps, "gating", &gating, "reconnect", &reconnect, "is-live", &is_live,
               "spin-budget", &budget, nullptr);
  EXPECT_EQ(held, 4u);
  EXPECT_EQ(timeout, 10 * GST_SECOND);
  EXPECT_EQ(frame, 256u << 20);
  EXPECT_EQ(mode, 0);
  EXPECT_EQ(timestamps, 0);
  EXPECT_TRUE(gating && reconnect && is_live);
  EXPECT_EQ(budget, 0.02);
  gst_object_unref(source);
}

// --- frames

TEST_F(LaneSrcTest, FramesAreReadOnlySlotsThatOutliveTheElement) {
  std::vector<std::string> bytes;
  std::vector<GstBuffer*> kept;
  {
    Pipeline sender("videotestsrc pattern=ball num-buffers=3 ! " + std::string(kGray) + " ! lanesink lane=x");
    Pipeline receiving(receiver("x"));
    Tap tap(receiving.element("out_x"), "sink");
    tap.keep_only(3);
    receiving.play();
    ASSERT_TRUE(sender.play().ends());
    ASSERT_TRUE(receiving.ends());
    for (const auto& seen : tap.seen()) kept.push_back(gst_buffer_ref(seen.buffer));
  }
  ASSERT_EQ(kept.size(), 3u);
  for (GstBuffer* buffer : kept) {
    ASSERT_EQ(gst_buffer_n_memory(buffer), 1u);
    EXPECT_TRUE(GST_MEMORY_IS_READONLY(gst_buffer_peek_memory(buffer, 0)));
    std::string content(kGraySize, '\0');
    EXPECT_EQ(gst_buffer_extract(buffer, 0, content.data(), kGraySize), kGraySize);
    bytes.push_back(content);
    gst_buffer_unref(buffer);
  }
  EXPECT_NE(bytes[0], bytes[1]);  // a ball that moves: the slots are still the frames' own
  EXPECT_NE(bytes[1], bytes[2]);
}

TEST_F(LaneSrcTest, InPlaceElementsWorkOnACopy) {
  Pipeline sender("videotestsrc num-buffers=10 ! video/x-raw,format=AYUV,width=64,height=48 ! lanesink lane=x");
  Pipeline receiving("lanesrc lane=x ! videobalance brightness=0.5 ! fakesink name=out");
  Tap tap(receiving.element("out"), "sink");
  receiving.play();
  EXPECT_TRUE(sender.play().ends());
  EXPECT_TRUE(receiving.ends());
  EXPECT_EQ(tap.count(), 10u);
}

TEST_F(LaneSrcTest, NumBuffersCountsFrames) {
  Pipeline sender(live("x"));
  Pipeline receiving(receiver("x", "num-buffers=7"));
  Tap tap(receiving.element("out_x"), "sink");
  sender.play();
  ASSERT_TRUE(receiving.play().ends());
  EXPECT_EQ(tap.count(), 7u);
}

TEST_F(LaneSrcTest, WhoJoinsInTheMiddleBeginsWithADiscontinuity) {
  Pipeline sender(live("x"));
  sender.play();
  ASSERT_TRUE(comes([&] { return stat(sender.element("sink_x"), "published") >= 5; }));
  Pipeline receiving(receiver("x", "num-buffers=3"));
  Tap tap(receiving.element("out_x"), "sink");
  ASSERT_TRUE(receiving.play().ends());
  EXPECT_TRUE(GST_BUFFER_IS_DISCONT(tap.seen().at(0).buffer));
  EXPECT_FALSE(GST_BUFFER_IS_DISCONT(tap.seen().at(1).buffer));
}

TEST_F(LaneSrcTest, EventsOfTheApplicationGoIntoTheStream) {
  Pipeline sender(live("x"));
  sender.play();
  Pipeline receiving(receiver("x"));
  std::atomic<int> seen{0};
  GstPad* const pad = gst_element_get_static_pad(receiving.element("out_x"), "sink");
  const auto probe = +[](GstPad*, GstPadProbeInfo* info, gpointer count) {
    if (GST_EVENT_TYPE(info->data) == GST_EVENT_CUSTOM_DOWNSTREAM) ++*static_cast<std::atomic<int>*>(count);
    return GST_PAD_PROBE_OK;
  };
  gst_pad_add_probe(pad, GST_PAD_PROBE_TYPE_EVENT_DOWNSTREAM, probe, &seen, nullptr);
  gst_object_unref(pad);
  receiving.play();
  GstEvent* const event = gst_event_new_custom(GST_EVENT_CUSTOM_DOWNSTREAM, gst_structure_new_empty("mark"));
  EXPECT_TRUE(gst_element_send_event(receiving.element("src_x"), event));
  EXPECT_TRUE(comes([&] { return seen == 1; }));
  receiving.set(GST_STATE_NULL);
}

TEST_F(LaneSrcTest, WhoJoinsInTheMiddleBeginsWithAKeyUnit) {
  Pipeline sender(
      "videotestsrc is-live=true ! video/x-raw,width=64,height=48,framerate=100/1 ! "
      "vp8enc deadline=1 keyframe-max-dist=100000 ! lanesink name=sink_x lane=x leaky=no");
  sender.play();
  ASSERT_TRUE(comes([&] { return stat(sender.element("sink_x"), "published") >= 20; }));
  Pipeline receiving(receiver("x", "num-buffers=30 timestamp-mode=producer"));
  Tap tap(receiving.element("out_x"), "sink");
  ASSERT_TRUE(receiving.play().ends());
  // The encoder alone would make the next one in 1000 s: the sink has asked for it.
  EXPECT_FALSE(GST_BUFFER_FLAG_IS_SET(tap.seen().at(0).buffer, GST_BUFFER_FLAG_DELTA_UNIT));
}

TEST_F(LaneSrcTest, WhoWasPassedOverGoesOnWithAKeyUnit) {
  // Sockets take many small frames beyond the burst.
  const std::string size = over_a_stream() ? "width=320,height=240" : "width=64,height=48";
  Pipeline sender(
      "videotestsrc is-live=true pattern=snow ! video/x-raw," + size +
      ",framerate=100/1 ! "
      "vp8enc deadline=1 keyframe-max-dist=100000 ! lanesink name=sink_x lane=x burst=4 wait-for-consumers=1");
  Pipeline receiving(receiver("x", "timestamp-mode=producer"));
  Tap tap(receiving.element("out_x"), "sink");
  receiving.play();
  sender.play();
  ASSERT_TRUE(comes([&] { return tap.count() >= 5; }));
  receiving.set(GST_STATE_PAUSED);
  ASSERT_TRUE(comes([&] { return stat(sender.element("sink_x"), "passed-over") > 0; }));
  const std::size_t before = tap.count();
  receiving.play();
  ASSERT_TRUE(comes([&] { return tap.count() >= before + 10; }));
  bool gap_seen = false;
  for (const auto& seen : tap.seen()) {
    const bool gap = GST_BUFFER_IS_DISCONT(seen.buffer);
    EXPECT_FALSE(gap && GST_BUFFER_FLAG_IS_SET(seen.buffer, GST_BUFFER_FLAG_DELTA_UNIT));
    gap_seen = gap_seen || gap;
  }
  EXPECT_TRUE(gap_seen);
}

TEST_F(LaneSrcTest, SaysWhenItIsConnected) {
  Pipeline receiving(receiver("x"));
  GstElement* const source = receiving.element("src_x");
  gboolean connected = TRUE;
  g_object_get(source, "connected", &connected, nullptr);
  EXPECT_FALSE(connected);
  receiving.play();
  Pipeline sender(live("x"));
  sender.play();
  EXPECT_TRUE(comes([&] {
    char* transport = nullptr;
    g_object_get(source, "connected", &connected, "transport", &transport, nullptr);
    const bool known = g_strcmp0(transport, transport_name().c_str()) == 0;
    g_free(transport);
    return connected != FALSE && known;
  }));
}

TEST_F(LaneSrcTest, NotifiesOfAProducerThatBeginsWithFramesAndOfItsGoing) {
  Pipeline receiving(receiver("x"));
  GstElement* const source = receiving.element("src_x");
  std::atomic<int> notified{0};
  const auto count = +[](GObject*, GParamSpec*, gpointer number) { ++*static_cast<std::atomic<int>*>(number); };
  g_signal_connect(source, "notify::connected", G_CALLBACK(count), &notified);
  const auto connected = [&] {
    gboolean is = FALSE;
    g_object_get(source, "connected", &is, nullptr);
    return is != FALSE;
  };
  receiving.play();
  for (int round = 0; round < 3; ++round) {
    auto settings = settings_of<ProducerSettings>("x");
    auto producer = Producer::open(settings);
    ASSERT_TRUE(producer);
    ASSERT_TRUE(producer->wait_for_consumers(1, kHang));
    ASSERT_TRUE(producer->publish_copy(std::as_bytes(std::span("frame"))));
    ASSERT_TRUE(comes([&] { return notified == 2 * round + 1; }));
    EXPECT_TRUE(connected());
    producer->close();
    ASSERT_TRUE(comes([&] { return notified == 2 * round + 2; }));
    EXPECT_FALSE(connected());
  }
}

// --- a producer that knows nothing of GStreamer

Producer producer_of(const char* lane) {
  auto settings = settings_of<ProducerSettings>(lane);
  auto producer = Producer::open(settings);
  EXPECT_TRUE(producer) << producer.error().text;
  return std::move(*producer);
}

TEST_F(LaneSrcTest, TakesFramesOfAPlainProducer) {
  Producer producer = producer_of("x");
  Pipeline receiving(receiver("x"));
  Tap tap(receiving.element("out_x"), "sink");
  receiving.play();
  ASSERT_TRUE(producer.wait_for_consumers(1, kHang));
  ASSERT_TRUE(producer.set_caps(kGray));
  const std::vector<std::byte> frame(kGraySize);
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(producer.publish_copy(frame));
  ASSERT_TRUE(producer.end_of_stream());
  EXPECT_TRUE(receiving.ends());
  EXPECT_EQ(tap.count(), 5u);
  for (const auto& seen : tap.seen()) EXPECT_FALSE(GST_BUFFER_PTS_IS_VALID(seen.buffer));
}

TEST_F(LaneSrcTest, TakesFramesWithoutCaps) {
  Producer producer = producer_of("x");
  Pipeline receiving(receiver("x"));
  Tap tap(receiving.element("out_x"), "sink");
  receiving.play();
  ASSERT_TRUE(producer.wait_for_consumers(1, kHang));
  ASSERT_TRUE(producer.publish_copy(std::as_bytes(std::span("small"))));
  ASSERT_TRUE(producer.end_of_stream());
  EXPECT_TRUE(receiving.ends());
  EXPECT_EQ(tap.count(), 1u);
}

class BrokenProducer : public LaneSrcTest {
 protected:
  void SetUp() override {
    LaneSrcTest::SetUp();
    producer_.emplace(producer_of("x"));
    receiving_.emplace(receiver("x"));
    receiving_->play();
    ASSERT_TRUE(producer_->wait_for_consumers(1, kHang));
  }
  void TearDown() override {
    receiving_.reset();
    producer_.reset();
    LaneSrcTest::TearDown();
  }
  format::Event event(format::EventType type, const std::string& text) {
    format::Event event;
    event.type = type;
    event.text = text;
    return event;
  }

  std::optional<Producer> producer_;
  std::optional<Pipeline> receiving_;
};

TEST_F(BrokenProducer, FramesSmallerThanTheirCapsAreRefused) {
  ASSERT_TRUE(producer_->set_caps(kGray));
  ASSERT_TRUE(producer_->publish_copy(std::as_bytes(std::span("small"))));
  EXPECT_TRUE(ends_with_error(*receiving_, "bytes"));
}

TEST_F(BrokenProducer, CapsThatAreNoneAreRefused) {
  ASSERT_TRUE(producer_->set_caps("no caps at all!"));
  EXPECT_TRUE(ends_with_error(*receiving_, "caps"));
}

TEST_F(BrokenProducer, LayoutsThatDoNotFitAreRefused) {
  ASSERT_TRUE(producer_->set_caps(kGray));
  ASSERT_TRUE(producer_->send(
      event(format::EventType::kState, "framelane-layout, offset=(guint64)< 0, 4 >, stride=(int)< 64, 64 >;")));
  EXPECT_TRUE(ends_with_error(*receiving_, "layout"));
}

TEST_F(BrokenProducer, LayoutsBeyondTheFrameAreRefused) {
  ASSERT_TRUE(producer_->set_caps(kGray));
  ASSERT_TRUE(producer_->send(
      event(format::EventType::kState, "framelane-layout, offset=(guint64)< 64 >, stride=(int)< 64 >;")));
  ASSERT_TRUE(producer_->publish_copy(std::vector<std::byte>(kGraySize)));
  EXPECT_TRUE(ends_with_error(*receiving_, "bytes"));
}

TEST_F(BrokenProducer, TagsThatAreNoneAreRefused) {
  ASSERT_TRUE(producer_->send(event(format::EventType::kTag, "%%%")));
  EXPECT_TRUE(ends_with_error(*receiving_, "tags"));
}

// --- time

TEST_F(LaneSrcTest, ClockModeKeepsTheMomentOfEachFrame) {
  Pipeline sender(live("x"));
  Tap sent(sender.element("sink_x"), "sink");
  sender.play();
  std::this_thread::sleep_for(std::chrono::milliseconds(100));  // base times that differ
  Pipeline receiving(receiver("x", "num-buffers=20"));
  Tap received(receiving.element("out_x"), "sink");
  ASSERT_TRUE(receiving.play().ends());
  const GstClockTimeDiff offset = base_of(sender) - base_of(receiving);
  ASSERT_EQ(received.count(), 20u);
  for (const auto& seen : received.seen()) {
    // videotestsrc's running time is its PTS; the buffer has it still, and the segment has moved by the base times.
    EXPECT_EQ(static_cast<GstClockTimeDiff>(seen.running()),
              static_cast<GstClockTimeDiff>(GST_BUFFER_PTS(seen.buffer)) + offset);
  }
}

TEST_F(LaneSrcTest, FramesFromBeforeThePipelineAreDroppedInClockMode) {
  Pipeline sender(live("x", "history=20"));
  sender.play();
  ASSERT_TRUE(comes([&] { return stat(sender.element("sink_x"), "published") >= 30; }));
  Pipeline receiving(receiver("x", "num-buffers=40"));
  Tap received(receiving.element("out_x"), "sink");
  ASSERT_TRUE(receiving.play().ends());
  EXPECT_GT(stat(receiving.element("src_x"), "dropped-early"), 0u);
  EXPECT_TRUE(GST_BUFFER_IS_DISCONT(received.seen().front().buffer));
  for (const auto& seen : received.seen()) EXPECT_TRUE(GST_CLOCK_TIME_IS_VALID(seen.running()));
}

TEST_F(LaneSrcTest, AFileBeginsNow) {
  Pipeline receiving(receiver("x"));
  Tap received(receiving.element("out_x"), "sink");
  receiving.play();
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  Pipeline sender("videotestsrc num-buffers=5 timestamp-offset=3600000000000 ! " + std::string(kGray) +
                  " ! lanesink lane=x");
  ASSERT_TRUE(sender.play().ends());
  ASSERT_TRUE(receiving.ends());
  ASSERT_EQ(received.count(), 5u);
  const auto first = received.seen().front();
  EXPECT_EQ(GST_BUFFER_PTS(first.buffer), 3600 * GST_SECOND);
  EXPECT_GE(first.running(), 200 * GST_MSECOND);
  EXPECT_LT(first.running(), 3600 * GST_SECOND);
}

TEST_F(LaneSrcTest, TwoLanesOfOneFileStayInStep) {
  Pipeline receiving(receiver("a") + receiver("b"));
  Tap a(receiving.element("out_a"), "sink");
  Tap b(receiving.element("out_b"), "sink");
  receiving.play();
  const std::string caps = std::string(" ! ") + kGray + " ! ";
  // b's first frame is 300 ms later than a's, and comes when a's whole stream has gone by.
  Pipeline sender("videotestsrc num-buffers=50" + caps +
                  "lanesink lane=a  videotestsrc num-buffers=50 timestamp-offset=300000000" + caps +
                  "lanesink lane=b sync=true");
  ASSERT_TRUE(sender.play().ends());
  ASSERT_TRUE(receiving.ends());
  const auto offset = [](const Tap& tap) {
    const auto first = tap.seen().front();
    return static_cast<GstClockTimeDiff>(first.running()) - static_cast<GstClockTimeDiff>(GST_BUFFER_PTS(first.buffer));
  };
  EXPECT_EQ(offset(a), offset(b));
}

TEST_F(LaneSrcTest, ProducerModeLeavesTheSegmentAlone) {
  Pipeline receiving(receiver("x", "timestamp-mode=producer num-buffers=5"));
  Tap received(receiving.element("out_x"), "sink");
  Pipeline sender(live("x"));
  sender.play();
  ASSERT_TRUE(receiving.play().ends());
  for (const auto& seen : received.seen()) EXPECT_EQ(seen.running(), GST_BUFFER_PTS(seen.buffer));
}

TEST_F(LaneSrcTest, ArrivalModeStampsAnew) {
  Pipeline receiving(receiver("x", "timestamp-mode=arrival"));
  Tap received(receiving.element("out_x"), "sink");
  receiving.play();
  Pipeline sender("videotestsrc num-buffers=5 timestamp-offset=3600000000000 ! " + std::string(kGray) +
                  " ! lanesink lane=x");
  ASSERT_TRUE(sender.play().ends());
  ASSERT_TRUE(receiving.ends());
  for (const auto& seen : received.seen()) EXPECT_LT(GST_BUFFER_PTS(seen.buffer), 3600 * GST_SECOND);
}

TEST_F(LaneSrcTest, APauseMovesTheSegmentOfALiveLane) {
  Pipeline sender(live("x"));
  sender.play();
  Pipeline receiving(receiver("x"));
  Tap received(receiving.element("out_x"), "sink");
  receiving.play();
  ASSERT_TRUE(comes([&] { return received.count() >= 5; }));
  receiving.set(GST_STATE_PAUSED);
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  const std::size_t before = received.count();
  receiving.play();
  ASSERT_TRUE(comes([&] { return received.count() >= before + 10; }));
  const auto last = received.seen().back();
  EXPECT_EQ(static_cast<GstClockTimeDiff>(last.running()),
            static_cast<GstClockTimeDiff>(GST_BUFFER_PTS(last.buffer)) + base_of(sender) - base_of(receiving));
}

TEST_F(LaneSrcTest, TheProducersLatencyCrosses) {
  Pipeline sender("videotestsrc is-live=true ! " + std::string(kGray) +
                  " ! queue min-threshold-time=40000000 ! identity name=i ! lanesink lane=x");
  sender.play();
  Pipeline receiving(receiver("x"));
  receiving.play();
  EXPECT_TRUE(comes([&] {
    GstQuery* const query = gst_query_new_latency();
    gboolean is_live = FALSE;
    GstClockTime min = 0;
    GstClockTime max = 0;
    if (gst_element_query(receiving.element("src_x"), query)) gst_query_parse_latency(query, &is_live, &min, &max);
    gst_query_unref(query);
    return is_live != FALSE && min >= 40 * GST_MSECOND && max == min + 8 * 10 * GST_MSECOND;  // the burst
  }));
}

// --- any stream

TEST_F(LaneSrcTest, ReadsAnyStreamThroughDecodebin) {
  Pipeline sender(
      "videotestsrc num-buffers=10 ! video/x-raw,width=64,height=48 ! vp8enc deadline=1 ! webmmux ! lanesink lane=x");
  Pipeline receiving("lanesrc lane=x ! decodebin ! fakesink name=out");
  Tap tap(receiving.element("out"), "sink");
  receiving.play();
  EXPECT_TRUE(sender.play().ends());
  EXPECT_TRUE(receiving.ends());
  EXPECT_EQ(tap.count(), 10u);
}

}  // namespace
}  // namespace framelane::gst::test
