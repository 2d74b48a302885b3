// SPDX-License-Identifier: MIT
// What crosses a lane upstream, and what never does.
#include <chrono>

#include <gst/video/video.h>

#include "framelane/lane/consumer.hpp"

#include "crossing.hpp"

namespace framelane::gst::test {
namespace {

GstEvent* custom(GstEventType type) {
  return gst_event_new_custom(type, gst_structure_new("wish", "n", G_TYPE_INT, 7, nullptr));
}

int number_of(GstEvent* event) {
  int number = -1;
  gst_structure_get_int(gst_event_get_structure(event), "n", &number);
  return number;
}

GstClockTime time_of_key_unit(GstEvent* event) {
  GstClockTime time = 1;
  EXPECT_TRUE(gst_video_event_parse_upstream_force_key_unit(event, &time, nullptr, nullptr));
  return time;
}

class Upstream : public ::testing::Test {
 protected:
  void open(const std::string& sink = "", const std::string& source = "timestamp-mode=producer") {
    sender.emplace(sink);
    receiver.emplace(source);
    ASSERT_TRUE(sender->has_consumers(1));
    ASSERT_EQ(sender->push(GstClockTime{0}), GST_FLOW_OK);
    ASSERT_TRUE(receiver->got_buffers(1));
    sender->got_upstream(GST_EVENT_UNKNOWN);  // what the elements themselves have said
  }
  /// What was sent before this has arrived: its answer comes behind it.
  void wait_for_what_was_sent() {
    ASSERT_TRUE(receiver->send_upstream(custom(GST_EVENT_CUSTOM_UPSTREAM)));
    ASSERT_EQ(number_of(sender->upstream(GST_EVENT_CUSTOM_UPSTREAM).get()), 7);
  }

  OwnLanes lanes_;
  std::optional<Sender> sender;
  std::optional<Receiver> receiver;
};

// --- rows

TEST_F(Upstream, CustomUpstreamGoesBack) {
  open();
  ASSERT_TRUE(receiver->send_upstream(custom(GST_EVENT_CUSTOM_UPSTREAM)));
  const EventPtr got = sender->upstream(GST_EVENT_CUSTOM_UPSTREAM);
  EXPECT_EQ(number_of(got.get()), 7);
  EXPECT_STREQ(gst_structure_get_name(gst_event_get_structure(got.get())), "wish");
}

TEST_F(Upstream, CustomBothGoesBack) {
  open();
  ASSERT_TRUE(receiver->send_upstream(custom(GST_EVENT_CUSTOM_BOTH)));
  EXPECT_EQ(number_of(sender->upstream(GST_EVENT_CUSTOM_BOTH).get()), 7);
}

// GStreamer's parser would look at each open bracket in every way that it knows, for hours.
TEST_F(Upstream, BracketsWithoutAnEndAreNoEvent) {
  open();
  auto settings = settings_of<ConsumerSettings>("x");
  auto hostile = Consumer::open(settings);
  ASSERT_TRUE(hostile && hostile->connect(std::chrono::seconds(20)));
  format::Request request;
  request.type = format::RequestType::kCustom;
  request.number = 1;
  request.text = "wish";
  for (int i = 0; i < 60; ++i) request.text += ", a=[a,b=";
  ASSERT_TRUE(hostile->send_upstream(request));
  wait_for_what_was_sent();
}

TEST_F(Upstream, ForceKeyUnitGoesBackWithEverythingItSays) {
  open();
  ASSERT_TRUE(receiver->send_upstream(gst_video_event_new_upstream_force_key_unit(3 * GST_SECOND, TRUE, 5)));
  const EventPtr got = sender->upstream(GST_EVENT_CUSTOM_UPSTREAM);
  GstClockTime time = 0;
  gboolean headers = FALSE;
  guint count = 0;
  ASSERT_TRUE(gst_video_event_parse_upstream_force_key_unit(got.get(), &time, &headers, &count));
  EXPECT_EQ(time, 3 * GST_SECOND);
  EXPECT_TRUE(headers);
  EXPECT_EQ(count, 5u);
}

TEST_F(Upstream, ForceKeyUnitOfARunningTimeIsTheProducers) {
  sender.emplace();
  Pipeline receiving("lanesrc lane=x timestamp-mode=first ! fakesink name=out");
  Tap tap(receiving.element("out"), "sink");
  receiving.play();
  ASSERT_TRUE(sender->has_consumers(1));
  ASSERT_EQ(sender->push(10 * GST_SECOND), GST_FLOW_OK);
  ASSERT_TRUE(comes([&] { return tap.count() == 1; }));
  const GstClockTime there = tap.seen().front().running();
  ASSERT_LT(there, 10 * GST_SECOND);
  sender->got_upstream(GST_EVENT_UNKNOWN);
  GstPad* const pad = gst_element_get_static_pad(receiving.element("out"), "sink");
  const auto ask = [&](GstClockTime time) {
    ASSERT_TRUE(gst_pad_push_event(pad, gst_video_event_new_upstream_force_key_unit(time, FALSE, 0)));
  };
  ask(there + 2 * GST_SECOND);
  EXPECT_EQ(time_of_key_unit(sender->upstream(GST_EVENT_CUSTOM_UPSTREAM).get()), 12 * GST_SECOND);
  gst_object_unref(pad);
}

TEST_F(Upstream, ForceKeyUnitsAreOneAndNotTooOften) {
  open();
  for (int i = 0; i < 50; ++i)
    static_cast<void>(
        receiver->send_upstream(gst_video_event_new_upstream_force_key_unit(GST_CLOCK_TIME_NONE, TRUE, 0)));
  int pushes = 0;
  int seen = 0;
  const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(300);
  while (std::chrono::steady_clock::now() < end) {
    ASSERT_EQ(sender->push(GST_CLOCK_TIME_NONE), GST_FLOW_OK);
    ++pushes;
    seen += sender->got_upstream(GST_EVENT_CUSTOM_UPSTREAM);
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  EXPECT_GE(seen, 1);
  EXPECT_LE(seen, 5) << "of 50, in " << pushes << " frames";
}

GstEvent* quality() { return gst_event_new_qos(GST_QOS_TYPE_UNDERFLOW, 1.5, 20 * GST_MSECOND, GST_SECOND); }

TEST_F(Upstream, QosStaysUnlessItIsAskedFor) {
  open("", "timestamp-mode=producer forward-qos=true");
  receiver->send_upstream(quality());
  wait_for_what_was_sent();
  EXPECT_FALSE(sender->got_upstream(GST_EVENT_QOS)) << "the sink doesn't say so";
  receiver.reset();
  ASSERT_TRUE(sender->has_consumers(0));
  sender.reset();
  open("forward-qos=true");
  receiver->send_upstream(quality());
  wait_for_what_was_sent();
  EXPECT_FALSE(sender->got_upstream(GST_EVENT_QOS)) << "the source doesn't say so";
}

TEST_F(Upstream, QosOfTheOnlyConsumerGoesBackWhenBothSidesForwardIt) {
  open("forward-qos=true", "timestamp-mode=producer forward-qos=true");
  ASSERT_TRUE(receiver->send_upstream(quality()));
  const EventPtr got = sender->upstream(GST_EVENT_QOS);
  GstQOSType type = GST_QOS_TYPE_OVERFLOW;
  gdouble proportion = 0;
  GstClockTimeDiff jitter = 0;
  GstClockTime time = 0;
  gst_event_parse_qos(got.get(), &type, &proportion, &jitter, &time);
  EXPECT_EQ(type, GST_QOS_TYPE_UNDERFLOW);
  EXPECT_EQ(proportion, 1.5);
  EXPECT_EQ(jitter, 20 * GST_MSECOND);
  EXPECT_EQ(time, GST_SECOND);
}

TEST_F(Upstream, QosOfSeveralConsumersStays) {
  open("forward-qos=true", "timestamp-mode=producer forward-qos=true");
  Receiver second("timestamp-mode=producer");
  ASSERT_TRUE(sender->has_consumers(2));
  receiver->send_upstream(quality());
  wait_for_what_was_sent();
  EXPECT_FALSE(sender->got_upstream(GST_EVENT_QOS));
}

TEST_F(Upstream, SeekStepNavigationReconfigureAndLatencyNeverCross) {
  open();
  receiver->send_upstream(
      gst_event_new_seek(1.0, GST_FORMAT_TIME, GST_SEEK_FLAG_FLUSH, GST_SEEK_TYPE_SET, 0, GST_SEEK_TYPE_NONE, 0));
  receiver->send_upstream(gst_event_new_step(GST_FORMAT_BUFFERS, 1, 1.0, TRUE, FALSE));
  receiver->send_upstream(gst_event_new_navigation(gst_structure_new_empty("application/x-gst-navigation")));
  receiver->send_upstream(gst_event_new_reconfigure());
  receiver->send_upstream(gst_event_new_latency(5 * GST_MSECOND));
  wait_for_what_was_sent();
  while (GstEvent* const event = gst_harness_try_pull_upstream_event(sender->harness())) {
    ADD_FAILURE() << GST_EVENT_TYPE_NAME(event);
    gst_event_unref(event);
  }
  receiver->arrivals.forget();
  ASSERT_EQ(sender->push(20 * GST_MSECOND), GST_FLOW_OK);
  EXPECT_TRUE(receiver->got_buffers(1)) << "and the stream goes on";
}

TEST_F(Upstream, CapsQueriesNeverCross) {
  open();
  receiver.reset();
  Pipeline picky("lanesrc lane=x ! capsfilter caps=video/x-raw,format=GRAY8 ! fakesink");
  picky.play();
  ASSERT_TRUE(sender->has_consumers(1));
  GstCaps* const caps = gst_pad_peer_query_caps(sender->harness()->srcpad, nullptr);
  EXPECT_TRUE(gst_caps_is_any(caps)) << "what one consumer takes is no limit for the producer";
  gst_caps_unref(caps);
}

// --- rules

TEST_F(Upstream, WhoJoinsAStreamOfDeltaUnitsAsksForAKeyUnitAndBeginsWithIt) {
  open();
  ASSERT_EQ(sender->push(GST_MSECOND, GST_BUFFER_FLAG_DELTA_UNIT), GST_FLOW_OK);
  sender->got_upstream(GST_EVENT_UNKNOWN);
  Receiver late("timestamp-mode=producer");
  ASSERT_TRUE(sender->has_consumers(2));
  ASSERT_TRUE(comes([&] {  // wishes that come close together are one, told with a later frame
    EXPECT_EQ(sender->push(2 * GST_MSECOND, GST_BUFFER_FLAG_DELTA_UNIT), GST_FLOW_OK);
    return sender->got_upstream(GST_EVENT_CUSTOM_UPSTREAM);
  }));
  ASSERT_EQ(sender->push(3 * GST_MSECOND), GST_FLOW_OK);
  ASSERT_EQ(sender->push(4 * GST_MSECOND, GST_BUFFER_FLAG_DELTA_UNIT), GST_FLOW_OK);
  ASSERT_TRUE(late.got_buffers(2));
  EXPECT_EQ(stat(late.pipeline.element("src"), "dropped-undecodable"), stat(late.pipeline.element("src"), "taken") - 2);
}

TEST_F(Upstream, WhoSkipsInAStreamOfDeltaUnitsAsksForAKeyUnit) {
  open("", "mode=latest timestamp-mode=producer");
  receiver->pipeline.set(GST_STATE_PAUSED);  // a live source delivers nothing
  for (guint64 i = 1; i < 6; ++i) {
    ASSERT_EQ(sender->push(i * GST_MSECOND, GST_BUFFER_FLAG_DELTA_UNIT), GST_FLOW_OK);
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
  }
  sender->got_upstream(GST_EVENT_UNKNOWN);
  receiver->pipeline.play();
  EXPECT_TRUE(comes([&] {
    EXPECT_EQ(sender->push(6 * GST_MSECOND, GST_BUFFER_FLAG_DELTA_UNIT), GST_FLOW_OK);
    return sender->got_upstream(GST_EVENT_CUSTOM_UPSTREAM);
  }));
}

}  // namespace
}  // namespace framelane::gst::test
