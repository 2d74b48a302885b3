// SPDX-License-Identifier: MIT
// Flushes of the producer's pipeline, wherever the two ends are.
#include <atomic>
#include <future>

#include "framelane/lane/consumer.hpp"

#include "crossing.hpp"

namespace framelane::gst::test {
namespace {

class FlushCrossing : public ::testing::Test {
 protected:
  void open(const std::string& sink = "", const std::string& source = "timestamp-mode=producer",
            const std::string& out = "fakesink name=out") {
    sender.emplace(sink);
    receiver.emplace(source, out);
    ASSERT_TRUE(sender->has_consumers(1));
    ASSERT_EQ(sender->push(GstClockTime{0}), GST_FLOW_OK);
  }
  void flush() const {
    ASSERT_TRUE(sender->send(gst_event_new_flush_start()));
    ASSERT_TRUE(sender->send(gst_event_new_flush_stop(TRUE)));
  }
  void flush_and_go_on(GstClockTime pts = GST_SECOND) const {
    flush();
    ASSERT_TRUE(sender->send_segment());
    ASSERT_EQ(sender->push(pts), GST_FLOW_OK);
  }
  bool arrives(const std::string& what, std::size_t count = 1) const {
    return comes([&] { return receiver->arrivals.count(what) >= count; });
  }

  OwnLanes lanes_;
  std::optional<Sender> sender;
  std::optional<Receiver> receiver;
};

TEST_F(FlushCrossing, StartStopSegmentAndFrameComeInOrderAndTimeGoesOn) {
  open();
  ASSERT_TRUE(arrives("buffer"));
  receiver->arrivals.forget();
  flush_and_go_on();
  ASSERT_TRUE(arrives("buffer"));
  EXPECT_EQ(receiver->arrivals.words(), "flush-start flush-stop segment buffer");
  gboolean reset = TRUE;
  gst_event_parse_flush_stop(receiver->arrivals.event(GST_EVENT_FLUSH_STOP), &reset);
  EXPECT_FALSE(reset) << "the running time is the consumer's own";
}

TEST_F(FlushCrossing, AFlushOfTheConsumersOwnIsFollowedByTheSegment) {
  open();
  ASSERT_TRUE(arrives("buffer"));
  GstElement* const source = receiver->pipeline.element("src");
  for (const bool reset : {false, true}) {
    receiver->arrivals.forget();
    ASSERT_TRUE(gst_element_send_event(source, gst_event_new_flush_start()));
    ASSERT_TRUE(gst_element_send_event(source, gst_event_new_flush_stop(reset ? TRUE : FALSE)));
    ASSERT_EQ(sender->push(GST_SECOND), GST_FLOW_OK);
    ASSERT_TRUE(arrives("buffer"));
    EXPECT_EQ(receiver->arrivals.words(), "flush-start flush-stop segment buffer");
  }
}

TEST_F(FlushCrossing, ManyInARow) {
  open();
  for (guint64 i = 1; i <= 50; ++i) {
    flush_and_go_on(i * GST_MSECOND);
  }
  flush_and_go_on();
  ASSERT_TRUE(comes([&] {
    const std::string words = receiver->arrivals.words();
    return words.ends_with("segment buffer");
  })) << receiver->arrivals.words();
  EXPECT_EQ(receiver->arrivals.count("flush-start"), receiver->arrivals.count("flush-stop"));
}

TEST_F(FlushCrossing, TheNewSegmentIsTheOneThatCounts) {
  open();
  ASSERT_TRUE(arrives("buffer"));
  receiver->arrivals.forget();
  flush();
  GstSegment segment;
  gst_segment_init(&segment, GST_FORMAT_TIME);
  segment.start = 5;
  ASSERT_TRUE(sender->send(gst_event_new_segment(&segment)));
  ASSERT_EQ(sender->push(GST_SECOND), GST_FLOW_OK);
  ASSERT_TRUE(arrives("buffer"));
  const GstSegment* got = nullptr;
  gst_event_parse_segment(receiver->arrivals.event(GST_EVENT_SEGMENT), &got);
  EXPECT_EQ(got->start, 5u);
}

TEST_F(FlushCrossing, ReachesASourceThatIsBlockedDownstream) {
  // A sink that syncs to a moment far away: the streaming thread is in there.
  open("", "timestamp-mode=producer", "fakesink name=out sync=true");
  ASSERT_EQ(sender->push(3600 * GST_SECOND), GST_FLOW_OK);
  ASSERT_TRUE(arrives("buffer", 2));
  receiver->arrivals.forget();
  flush_and_go_on(GST_MSECOND);
  ASSERT_TRUE(arrives("buffer"));
  EXPECT_EQ(receiver->arrivals.words(), "flush-start flush-stop segment buffer");
}

TEST_F(FlushCrossing, ReachesASourceBehindAFullQueue) {
  open("", "timestamp-mode=producer", "queue max-size-buffers=2 ! fakesink name=out sync=true");
  for (guint64 i = 0; i < 6; ++i) ASSERT_EQ(sender->push((3600 + i) * GST_SECOND), GST_FLOW_OK);
  ASSERT_TRUE(arrives("buffer", 2));
  receiver->arrivals.forget();
  flush_and_go_on(GST_MSECOND);
  ASSERT_TRUE(arrives("buffer"));
  EXPECT_EQ(receiver->arrivals.words(), "flush-start flush-stop segment buffer");
}

TEST_F(FlushCrossing, WhilePausedDropsTheFrameInHand) {
  open();
  ASSERT_TRUE(arrives("buffer"));
  receiver->pipeline.set(GST_STATE_PAUSED);
  ASSERT_EQ(sender->push(GST_MSECOND), GST_FLOW_OK);
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  receiver->arrivals.forget();
  flush();
  ASSERT_TRUE(arrives("flush-stop"));
  receiver->pipeline.play();
  ASSERT_TRUE(sender->send_segment());
  ASSERT_EQ(sender->push(GST_SECOND), GST_FLOW_OK);
  ASSERT_TRUE(arrives("buffer"));
  EXPECT_EQ(receiver->arrivals.words(), "flush-start flush-stop segment buffer");
}

TEST_F(FlushCrossing, KeepsTheCapsThatWereSentInIt) {
  open();
  ASSERT_TRUE(arrives("buffer"));
  receiver->arrivals.forget();
  ASSERT_TRUE(sender->send(gst_event_new_flush_start()));
  ASSERT_TRUE(sender->send(gst_event_new_flush_stop(FALSE)));
  GstCaps* const caps = gst_caps_from_string("video/x-raw,format=GRAY8,width=48,height=64,framerate=100/1");
  ASSERT_TRUE(sender->send(gst_event_new_caps(caps)));
  gst_caps_unref(caps);
  ASSERT_TRUE(sender->send_segment());
  ASSERT_EQ(sender->push(GST_SECOND), GST_FLOW_OK);
  ASSERT_TRUE(arrives("buffer"));
  EXPECT_EQ(receiver->arrivals.words(), "flush-start flush-stop caps segment buffer");
}

TEST_F(FlushCrossing, EndsTheWaitForRoomOfTheSink) {
  sender.emplace("leaky=no burst=2 full-timeout=18446744073709551615 stall-timeout=18446744073709551615");
  auto settings = settings_of<ConsumerSettings>("x");
  auto consumer = Consumer::open(settings);
  ASSERT_TRUE(consumer && consumer->connect(kHang));
  // A socket takes more than the burst.
  auto full = std::async(std::launch::async, [&] {
    GstFlowReturn flow = GST_FLOW_OK;
    for (GstClockTime pts = 0; flow == GST_FLOW_OK; pts += GST_MSECOND) flow = sender->push(pts);
    return flow;
  });
  ASSERT_TRUE(comes([&] { return stat(sender->element(), "full-waits") > 0; }));
  ASSERT_TRUE(sender->send(gst_event_new_flush_start()));
  if (full.wait_for(kHang) != std::future_status::ready) {
    ADD_FAILURE() << "render hangs";
    std::_Exit(1);
  }
  EXPECT_EQ(full.get(), GST_FLOW_FLUSHING);
  ASSERT_TRUE(sender->send(gst_event_new_flush_stop(TRUE)));
  ASSERT_TRUE(sender->send_segment());
  ASSERT_EQ(sender->push(GST_SECOND), GST_FLOW_OK) << "what nobody took is gone, so there is room";
}

TEST_F(FlushCrossing, AfterAnEndBeginsAnotherStreamForWhoHasntSeenTheEnd) {
  open();
  ASSERT_TRUE(arrives("buffer"));
  ASSERT_TRUE(sender->send(gst_event_new_eos()));
  ASSERT_TRUE(receiver->pipeline.ends()) << "a published end always ends the stream";
  flush_and_go_on();
  Receiver late;
  ASSERT_TRUE(sender->has_consumers(2));
  ASSERT_EQ(sender->push(GST_SECOND), GST_FLOW_OK);
  ASSERT_TRUE(late.got_buffers(1));
}

TEST_F(FlushCrossing, ASeekInTheProducersPipelineReachesTheConsumer) {
  Pipeline sending(std::string("videotestsrc num-buffers=100000 ! ") + kGray +
                   " ! lanesink name=sink lane=x sync=true");
  receiver.emplace("timestamp-mode=producer");
  sending.play();
  ASSERT_TRUE(arrives("buffer", 3));
  receiver->arrivals.forget();
  ASSERT_TRUE(gst_element_seek_simple(sending.get(), GST_FORMAT_TIME, GST_SEEK_FLAG_FLUSH, 600 * GST_SECOND));
  ASSERT_TRUE(arrives("flush-stop"));
  ASSERT_TRUE(comes([&] {
    const GstSegment* segment = nullptr;
    GstEvent* const event = receiver->arrivals.event(GST_EVENT_SEGMENT);
    if (event == nullptr) return false;
    gst_event_parse_segment(event, &segment);
    return segment->start == 600 * GST_SECOND;
  }));
  const std::size_t before = receiver->arrivals.count("buffer");
  EXPECT_TRUE(arrives("buffer", before + 3));
}

TEST_F(FlushCrossing, StopsInTheMiddleOfOne) {
  open("", "timestamp-mode=producer", "fakesink name=out sync=true");
  for (int i = 0; i < 20; ++i) {
    ASSERT_TRUE(sender->send(gst_event_new_flush_start()));
    auto stop = std::async(std::launch::async, [&] {
      receiver->pipeline.set(GST_STATE_NULL);
      receiver->pipeline.set(GST_STATE_PLAYING);
    });
    if (stop.wait_for(kHang) != std::future_status::ready) {
      ADD_FAILURE() << "the state change hangs";
      std::_Exit(1);
    }
    ASSERT_TRUE(sender->send(gst_event_new_flush_stop(TRUE)));
    ASSERT_TRUE(sender->send_segment());
    ASSERT_EQ(sender->push(static_cast<guint64>(i) * GST_MSECOND), GST_FLOW_OK);
  }
  receiver->arrivals.forget();
  EXPECT_TRUE(comes([&] {  // it may have to connect first
    EXPECT_EQ(sender->push(GST_MSECOND), GST_FLOW_OK);
    return receiver->arrivals.count("buffer") > 0;
  }));
}

}  // namespace
}  // namespace framelane::gst::test
