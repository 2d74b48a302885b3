// SPDX-License-Identifier: MIT
#include <atomic>
#include <future>
#include <optional>

#include <gst/video/video.h>

#include "ends.hpp"

namespace framelane::gst::test {
namespace {

class LaneSinkTest : public LaneTest {};

// --- properties

TEST_F(LaneSinkTest, HasTheDefaultsOfTheDesign) {
  GstElement* const sink = gst_element_factory_make("lanesink", nullptr);
  guint burst = 0, history = 1, loans = 0, held = 0, consumers = 0, side_data = 0;
  guint64 burst_time = 1, full = 0, stall = 0, linger = 0, frame = 0;
  gint wait = 0, leaky = 1;
  gboolean sync = TRUE, async = TRUE, last = TRUE;
  g_object_get(sink, "burst", &burst, "burst-time", &burst_time, "history", &history, "max-loans", &loans, "max-held",
               &held, "max-consumers", &consumers, "full-timeout", &full, "stall-timeout", &stall, "linger", &linger,
               "max-frame-size", &frame, "max-side-data", &side_data, "wait-for-consumers", &wait, "leaky", &leaky,
               "sync", &sync, "async", &async, "enable-last-sample", &last, nullptr);
  EXPECT_EQ(burst, 8u);
  EXPECT_EQ(burst_time, 0u);
  EXPECT_EQ(history, 0u);
  EXPECT_EQ(loans, 16u);
  EXPECT_EQ(held, 4u);
  EXPECT_EQ(consumers, 32u);
  EXPECT_EQ(full, GST_SECOND);
  EXPECT_EQ(stall, 5 * GST_SECOND);
  EXPECT_EQ(linger, 2 * GST_SECOND);
  EXPECT_EQ(frame, 256u << 20);
  EXPECT_EQ(side_data, 960u);
  EXPECT_EQ(wait, -1);
  EXPECT_EQ(leaky, 0);
  EXPECT_FALSE(sync || last);
  EXPECT_TRUE(async) << "or an end of stream behind decodebin is never posted";
  gst_object_unref(sink);
}

// --- consumers

TEST_F(LaneSinkTest, TellsOfItsConsumers) {
  Sink sink;
  std::atomic<int> added{0};
  std::atomic<int> removed{0};
  std::atomic<int> notified{0};
  const auto count = +[](GstElement*, guint, GstStructure* info, gpointer number) {
    guint64 taken = 0;
    if (gst_structure_get_uint64(info, "taken", &taken)) ++*static_cast<std::atomic<int>*>(number);
  };
  const auto count_gone = +[](GstElement*, guint, GstStructure*, const char* reason, gpointer number) {
    if (reason != nullptr) ++*static_cast<std::atomic<int>*>(number);
  };
  const auto count_notify = +[](GObject*, GParamSpec*, gpointer number) { ++*static_cast<std::atomic<int>*>(number); };
  g_signal_connect(sink.element(), "consumer-added", G_CALLBACK(count), &added);
  g_signal_connect(sink.element(), "consumer-removed", G_CALLBACK(count_gone), &removed);
  g_signal_connect(sink.element(), "notify::num-consumers", G_CALLBACK(count_notify), &notified);
  {
    Consumer consumer = consumer_of("x");
    ASSERT_TRUE(consumer.connect(kHang));
    EXPECT_TRUE(comes([&] { return added == 1; }));
    guint consumers = 0;
    g_object_get(sink.element(), "num-consumers", &consumers, nullptr);
    EXPECT_EQ(consumers, 1u);
  }
  EXPECT_TRUE(comes([&] { return removed == 1 && notified == 2; }));
}

TEST_F(LaneSinkTest, TellsOfConsumersThatStayToTheEnd) {
  Pipeline pipeline(std::string("videotestsrc ! ") + kGray + " ! lanesink name=sink lane=x");
  std::atomic<int> removed{0};
  const auto count = +[](GstElement*, guint, GstStructure*, const char* reason, gpointer number) {
    if (g_strcmp0(reason, "the producer closed") == 0) ++*static_cast<std::atomic<int>*>(number);
  };
  g_signal_connect(pipeline.element("sink"), "consumer-removed", G_CALLBACK(count), &removed);
  pipeline.play();
  Consumer consumer = consumer_of("x");
  ASSERT_TRUE(consumer.connect(kHang));
  pipeline.set(GST_STATE_NULL);
  EXPECT_EQ(removed, 1);
}

TEST_F(LaneSinkTest, DropsOfAFullLaneAreCountedAndMarked) {
  if (over_a_stream()) GTEST_SKIP() << "a socket takes more than the burst";
  Sink sink("leaky=upstream burst=4");
  Consumer consumer = consumer_of("x");
  ASSERT_TRUE(consumer.connect(kHang));
  const auto push = [&] { ASSERT_EQ(sink.push(gst_buffer_new_allocate(nullptr, kGraySize, nullptr)), GST_FLOW_OK); };
  for (int i = 0; i < 10; ++i) push();
  EXPECT_EQ(stat(sink.element(), "dropped-full"), 6u);
  for (int i = 0; i < 4; ++i) ASSERT_TRUE(consumer.take(kHang));
  push();
  auto frame = consumer.take(kHang);
  ASSERT_TRUE(frame);
  EXPECT_NE(frame->info().flags & format::kDiscont, 0u);
}

TEST_F(LaneSinkTest, WarnsOnceWhenItDropsAlthoughItShouldWait) {
  Pipeline pipeline(filling(std::string("videotestsrc num-buffers=60 ! ") + kGray) +
                    " ! lanesink name=sink lane=x burst=4 full-timeout=1000000");
  pipeline.set(GST_STATE_PAUSED);
  Consumer consumer = consumer_of("x");
  ASSERT_TRUE(consumer.connect(kHang));  // and never takes
  ASSERT_TRUE(pipeline.play().ends());
  const guint64 dropped = stat(pipeline.element("sink"), "dropped-full");
  EXPECT_TRUE(over_a_stream() ? dropped > 0 : dropped == 56) << dropped;
  EXPECT_EQ(pipeline.warnings(), 1);
}

TEST_F(LaneSinkTest, AFullLaneOfALiveUpstreamLeaksDownstream) {
  Pipeline pipeline(filling(std::string("videotestsrc is-live=true num-buffers=60 ! ") + kGray) +
                    " ! lanesink name=sink lane=x burst=4");
  pipeline.set(GST_STATE_PAUSED);
  Consumer consumer = consumer_of("x");
  ASSERT_TRUE(consumer.connect(kHang));  // and never takes
  ASSERT_TRUE(pipeline.play().ends());
  EXPECT_EQ(stat(pipeline.element("sink"), "dropped-full"), 0u);
  const guint64 passed_over = stat(pipeline.element("sink"), "passed-over");
  EXPECT_TRUE(over_a_stream() ? passed_over > 0 : passed_over == 56) << passed_over;
}

// --- state changes while waiting

/// Changes the state in a thread of its own: a hang must fail the test, not the test program.
::testing::AssertionResult changes(Pipeline& pipeline, GstState state) {
  auto change = std::async(std::launch::async, [&] { return pipeline.set(state); });
  if (change.wait_for(kHang) != std::future_status::ready) {
    ADD_FAILURE() << "the state change hangs";
    std::_Exit(1);
  }
  if (change.get() == GST_STATE_CHANGE_FAILURE) return ::testing::AssertionFailure();
  return ::testing::AssertionSuccess();
}

class WaitingSink : public LaneSinkTest, public ::testing::WithParamInterface<const char*> {};

TEST_P(WaitingSink, StopsWhileTheLaneIsFull) {
  Pipeline pipeline(filling(GetParam()) +
                    " ! lanesink name=sink lane=x leaky=no full-timeout=18446744073709551615 "
                    "stall-timeout=18446744073709551615");
  ASSERT_TRUE(changes(pipeline, GST_STATE_PAUSED));
  Consumer consumer = consumer_of("x");
  ASSERT_TRUE(consumer.connect(kHang));
  ASSERT_TRUE(changes(pipeline, GST_STATE_PLAYING));
  ASSERT_TRUE(comes([&] { return stat(pipeline.element("sink"), "full-waits") > 0; }));
  EXPECT_TRUE(changes(pipeline, GST_STATE_NULL));
}

TEST_P(WaitingSink, GoesOnAfterAPauseAndLosesNothing) {
  Pipeline pipeline(filling(GetParam()) +
                    " ! lanesink name=sink lane=x leaky=no full-timeout=18446744073709551615 "
                    "stall-timeout=18446744073709551615");
  ASSERT_TRUE(changes(pipeline, GST_STATE_PAUSED));
  Consumer consumer = consumer_of("x");
  ASSERT_TRUE(consumer.connect(kHang));
  ASSERT_TRUE(changes(pipeline, GST_STATE_PLAYING));
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(comes([&] { return stat(pipeline.element("sink"), "full-waits") > static_cast<guint64>(i); }));
    ASSERT_TRUE(changes(pipeline, GST_STATE_PAUSED));
    ASSERT_TRUE(changes(pipeline, GST_STATE_PLAYING));
  }
  guint64 taken = 0;
  for (;; ++taken) {
    auto frame = consumer.take(kHang);
    if (!frame) {
      EXPECT_EQ(frame.error().code, Code::kEndOfStream) << frame.error().text;
      break;
    }
    EXPECT_EQ(frame->seq(), taken);
  }
  EXPECT_EQ(taken, 60u);
  EXPECT_TRUE(pipeline.ends());
}

INSTANTIATE_TEST_SUITE_P(
    Upstreams, WaitingSink,
    ::testing::Values(
        "videotestsrc num-buffers=60 ! video/x-raw,format=GRAY8,width=64,height=48",
        "videotestsrc num-buffers=60 ! video/x-raw,format=GRAY8,width=64,height=48 ! queue max-size-buffers=3",
        "videotestsrc num-buffers=60 ! video/x-raw,format=RGB,width=64,height=48 ! videoconvert ! "
        "video/x-raw,format=I420",
        "audiotestsrc num-buffers=60 ! audio/x-raw,format=S16LE",
        "videotestsrc num-buffers=60 ! video/x-raw,width=64,height=48 ! vp8enc deadline=1 ! vp8dec"),
    [](const auto& each) { return "Upstream" + std::to_string(each.index); });

TEST_F(LaneSinkTest, StopsWhileItWaitsForConsumers) {
  Pipeline pipeline(std::string("videotestsrc ! ") + kGray + " ! lanesink name=sink lane=x wait-for-consumers=2");
  pipeline.play();
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_TRUE(changes(pipeline, GST_STATE_PAUSED));
  EXPECT_TRUE(changes(pipeline, GST_STATE_PLAYING));
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_TRUE(changes(pipeline, GST_STATE_NULL));
}

TEST_F(LaneSinkTest, WaitsForConsumersBeforeAnEmptyStreamEnds) {
  Pipeline pipeline(std::string("videotestsrc num-buffers=0 ! ") + kGray + " ! lanesink name=sink lane=x");
  pipeline.play();
  Consumer consumer = consumer_of("x");
  auto frame = consumer.take(kHang);
  ASSERT_FALSE(frame);
  EXPECT_EQ(frame.error().code, Code::kEndOfStream);
  EXPECT_TRUE(pipeline.ends());
}

/// Appends a letter for the next item: the frame, the stream's start, caps, segment or end.
void take_letter(Consumer& consumer, std::string& order) {
  auto item = consumer.take_item(kHang);
  // The end again, until the stream behind it has come: over a socket it is on its way.
  comes([&] {
    if (item || item.error().code != Code::kEndOfStream) return true;
    item = consumer.take_item(kHang);
    return false;
  });
  if (!item) {
    ADD_FAILURE() << item.error().text;
    order += "!e!!!!!!!!";
    return;
  }
  if (std::holds_alternative<Frame>(*item)) {
    order += 'f';
    return;
  }
  switch (std::get<format::Event>(*item).type) {
    case format::EventType::kStreamStart:
      order += 's';
      break;
    case format::EventType::kCaps:
      order += 'c';
      break;
    case format::EventType::kSegment:
      order += 'g';
      break;
    case format::EventType::kEndOfStream:
      order += 'e';
      break;
    default:
      break;
  }
}

TEST_F(LaneSinkTest, AStreamAfterAnEndBeginsWithEverythingItNeeds) {
  Sink sink;
  Consumer consumer = consumer_of("x");
  ASSERT_TRUE(consumer.connect(kHang));
  const auto buffer = [] { return gst_buffer_new_allocate(nullptr, kGraySize, nullptr); };
  ASSERT_EQ(sink.push(buffer()), GST_FLOW_OK);
  ASSERT_TRUE(gst_harness_push_event(sink.harness(), gst_event_new_eos()));
  std::string order;
  // Before the flush, which would drop the frame and the end.
  while (order.find('e') == std::string::npos) take_letter(consumer, order);
  ASSERT_TRUE(gst_harness_push_event(sink.harness(), gst_event_new_flush_start()));
  ASSERT_TRUE(gst_harness_push_event(sink.harness(), gst_event_new_flush_stop(TRUE)));
  GstSegment segment;
  gst_segment_init(&segment, GST_FORMAT_TIME);
  ASSERT_TRUE(gst_harness_push_event(sink.harness(), gst_event_new_segment(&segment)));
  ASSERT_EQ(sink.push(buffer()), GST_FLOW_OK);
  while (order.size() < 10) take_letter(consumer, order);
  EXPECT_EQ(order, "scgfescggf");  // the old segment begins the stream, the new one follows
}

}  // namespace
}  // namespace framelane::gst::test
