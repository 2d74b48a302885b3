// SPDX-License-Identifier: MIT
// Where frames lie in the consumer's running time: each timestamp mode, with segments, clocks and states of all kinds.
#include <gst/audio/audio.h>

#include "framelane/lane/producer.hpp"

#include "crossing.hpp"

namespace framelane::gst::test {
namespace {

GstClockTimeDiff monotonic() {
  GstClock* const clock = gst_system_clock_obtain();  // CLOCK_MONOTONIC by default
  const GstClockTime now = gst_clock_get_time(clock);
  gst_object_unref(clock);
  return static_cast<GstClockTimeDiff>(now);
}

GstClockTimeDiff base_of(const Pipeline& pipeline) {
  return static_cast<GstClockTimeDiff>(gst_element_get_base_time(pipeline.get()));
}

class Time : public ::testing::Test {
 protected:
  // A harness gives its element no clock: as if its pipeline had begun to play now, by the system's.
  Time() {
    GstClock* const clock = gst_system_clock_obtain();
    gst_element_set_clock(sender.element(), clock);
    gst_element_set_base_time(sender.element(), static_cast<GstClockTime>(monotonic()));
    gst_object_unref(clock);
  }
  /// A receiver whose frames are seen with their segments; connected.
  void receive(const std::string& options) {
    receiving.emplace("lanesrc name=src lane=x " + options + " ! fakesink name=out");
    tap.emplace(receiving->element("out"), "sink");
    receiving->play();
    ASSERT_TRUE(sender.has_consumers(1));
  }
  /// A segment from 5 s on that plays at double speed; its running time begins at `base`. And frames of 5 s and 7 s.
  void send_double_speed(GstClockTime base) {
    GstSegment segment;
    gst_segment_init(&segment, GST_FORMAT_TIME);
    segment.rate = 2.0;
    segment.start = segment.time = segment.position = 5 * GST_SECOND;
    segment.base = base;
    ASSERT_TRUE(sender.send(gst_event_new_segment(&segment)));
    ASSERT_EQ(sender.push(5 * GST_SECOND), GST_FLOW_OK);
    ASSERT_EQ(sender.push(7 * GST_SECOND), GST_FLOW_OK);
  }
  /// D of mode clock: what is added to the sender's running times.
  GstClockTimeDiff base_difference() const {
    return static_cast<GstClockTimeDiff>(gst_element_get_base_time(sender.element())) - base_of(*receiving);
  }
  Tap::Seen frame(std::size_t index) {
    EXPECT_TRUE(comes([&] { return tap->count() > index; }));
    return tap->seen().at(index);
  }
  GstClockTimeDiff running(std::size_t index) { return static_cast<GstClockTimeDiff>(frame(index).running()); }
  GstClockTime pts(std::size_t index) { return GST_BUFFER_PTS(frame(index).buffer); }

  OwnLanes lanes_;
  Sender sender;
  std::optional<Pipeline> receiving;
  std::optional<Tap> tap;
};

// --- segments, in each mode

TEST_F(Time, ClockModeKeepsTheMomentsOfASegmentWithStartAndRate) {
  receive("timestamp-mode=clock");
  send_double_speed(10 * GST_SECOND);
  EXPECT_EQ(running(0), base_difference() + 10 * GST_SECOND);
  EXPECT_EQ(running(1), base_difference() + 10 * GST_SECOND + GST_SECOND) << "2 s at double speed";
  EXPECT_EQ(pts(0), 5 * GST_SECOND);
  EXPECT_EQ(pts(1), 7 * GST_SECOND);
}

TEST_F(Time, FirstModePutsTheFirstFrameAtNowAndKeepsTheDistances) {
  receive("timestamp-mode=first");
  send_double_speed(3600 * GST_SECOND);
  EXPECT_GE(running(0), 0);
  EXPECT_LT(running(0), 3600 * GST_SECOND);
  EXPECT_EQ(running(1) - running(0), GST_SECOND);
  EXPECT_EQ(pts(1), 7 * GST_SECOND);
}

TEST_F(Time, ProducerModeTakesRunningTimesAsTheyAre) {
  receive("timestamp-mode=producer");
  send_double_speed(3600 * GST_SECOND);
  EXPECT_EQ(running(0), 3600 * GST_SECOND);
  EXPECT_EQ(running(1), 3601 * GST_SECOND);
}

TEST_F(Time, ArrivalModeStampsAnewWhateverTheSegment) {
  receive("timestamp-mode=arrival");
  send_double_speed(3600 * GST_SECOND);
  EXPECT_EQ(running(0), static_cast<GstClockTimeDiff>(pts(0)));
  EXPECT_LT(pts(0), 3600 * GST_SECOND);
  EXPECT_LE(pts(0), pts(1));
}

TEST_F(Time, AutoModeOfALiveUpstreamIsClock) {
  receive("timestamp-mode=auto");
  send_double_speed(10 * GST_SECOND);  // a harness says that it is live
  EXPECT_EQ(running(0), base_difference() + 10 * GST_SECOND);
}

TEST_F(Time, AutoModeOfAFileIsFirst) {
  gst_harness_set_live(sender.harness(), FALSE);
  receive("timestamp-mode=auto");
  send_double_speed(3600 * GST_SECOND);
  EXPECT_LT(running(0), 3600 * GST_SECOND);
  EXPECT_EQ(running(1) - running(0), GST_SECOND);
}

TEST_F(Time, SegmentsOfBytesStayWhatTheyAre) {
  receive("timestamp-mode=auto");
  GstSegment segment;
  gst_segment_init(&segment, GST_FORMAT_BYTES);
  segment.start = 100;
  ASSERT_TRUE(sender.send(gst_event_new_segment(&segment)));
  ASSERT_EQ(sender.push(GST_CLOCK_TIME_NONE), GST_FLOW_OK);
  EXPECT_EQ(frame(0).segment.format, GST_FORMAT_BYTES);
  EXPECT_EQ(frame(0).segment.start, 100u);
  EXPECT_EQ(frame(0).segment.base, 0u);
}

TEST_F(Time, ADtsBeforeTheSegmentTravelsAsItIs) {
  // As x264enc does it: times move by 1000 hours, and the first DTS lies before the segment.
  receive("timestamp-mode=first");
  const GstClockTime start = 1000 * 3600 * GST_SECOND;
  GstSegment segment;
  gst_segment_init(&segment, GST_FORMAT_TIME);
  segment.start = segment.time = segment.position = start;
  ASSERT_TRUE(sender.send(gst_event_new_segment(&segment)));
  for (guint64 i = 0; i < 3; ++i) {
    GstBuffer* const buffer = gst_buffer_new_allocate(nullptr, kGraySize, nullptr);
    GST_BUFFER_PTS(buffer) = start + i * 40 * GST_MSECOND;
    GST_BUFFER_DTS(buffer) = start + i * 40 * GST_MSECOND - 80 * GST_MSECOND;
    ASSERT_EQ(gst_harness_push(sender.harness(), buffer), GST_FLOW_OK);
  }
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(pts(i), start + i * 40 * GST_MSECOND);
    EXPECT_EQ(GST_BUFFER_DTS(frame(i).buffer), start + i * 40 * GST_MSECOND - 80 * GST_MSECOND);
    EXPECT_EQ(running(i) - running(0), static_cast<GstClockTimeDiff>(i) * 40 * GST_MSECOND);
  }
}

// --- when D is found anew

TEST_F(Time, FirstModeBeginsAnewAfterAFlush) {
  Pipeline sending(std::string("videotestsrc num-buffers=100000 ! ") + kGray + " ! lanesink lane=y sync=true");
  Pipeline taking("lanesrc lane=y timestamp-mode=first ! fakesink name=out");
  Tap seen(taking.element("out"), "sink");
  taking.play();
  sending.play();
  ASSERT_TRUE(comes([&] { return seen.count() >= 30; }));
  // The producer's running time begins at 0 again; the consumer's goes on.
  ASSERT_TRUE(gst_element_seek_simple(sending.get(), GST_FORMAT_TIME, GST_SEEK_FLAG_FLUSH, 600 * GST_SECOND));
  const auto after = [&]() -> std::optional<Tap::Seen> {
    for (const auto& one : seen.seen()) {
      if (GST_BUFFER_PTS(one.buffer) >= 600 * GST_SECOND) return one;
    }
    return std::nullopt;
  };
  ASSERT_TRUE(comes([&] { return after().has_value(); }));
  EXPECT_GE(after()->running(), 290 * GST_MSECOND) << "30 frames of 10 ms had gone by";
  EXPECT_LT(after()->running(), 600 * GST_SECOND);
}

TEST_F(Time, FirstModeBeginsAnewWithAnotherProducer) {
  const auto publish = [](std::uint64_t pts) {
    auto settings = settings_of<ProducerSettings>("y");
    auto producer = Producer::open(settings);
    ASSERT_TRUE(producer && producer->wait_for_consumers(1, kHang));
    format::FrameInfo info;
    info.pts = pts;
    ASSERT_TRUE(producer->publish_copy(std::as_bytes(std::span("a frame, and no event at all")), info));
  };
  Pipeline plain("lanesrc lane=y timestamp-mode=first ! fakesink name=out");
  Tap seen(plain.element("out"), "sink");
  plain.play();
  publish(0);
  ASSERT_TRUE(comes([&] { return seen.count() == 1; }));
  publish(3600 * GST_SECOND);
  ASSERT_TRUE(comes([&] { return seen.count() == 2; }));
  EXPECT_LT(seen.seen().at(1).running(), 3600 * GST_SECOND);
  EXPECT_GE(seen.seen().at(1).running(), seen.seen().at(0).running());
}

TEST_F(Time, PausedBeforePlayingALiveSourceKeepsTheMoments) {
  receiving.emplace("lanesrc lane=x timestamp-mode=clock ! fakesink name=out");
  tap.emplace(receiving->element("out"), "sink");
  receiving->set(GST_STATE_PAUSED);
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  receiving->play();
  ASSERT_TRUE(sender.has_consumers(1));
  send_double_speed(10 * GST_SECOND);
  EXPECT_EQ(running(0), base_difference() + 10 * GST_SECOND);
}

TEST_F(Time, PausedBeforePlayingASourceThatIsNotLivePrerolls) {
  receiving.emplace("lanesrc lane=x is-live=false timestamp-mode=clock ! fakesink name=out");
  tap.emplace(receiving->element("out"), "sink");
  receiving->set(GST_STATE_PAUSED);
  ASSERT_TRUE(sender.has_consumers(1));
  send_double_speed(10 * GST_SECOND);
  EXPECT_GE(running(0), 0) << "no base time yet: the first frame is at the beginning";
  receiving->play();
  ASSERT_EQ(sender.push(9 * GST_SECOND), GST_FLOW_OK);
  EXPECT_EQ(running(2), base_difference() + 10 * GST_SECOND + 2 * GST_SECOND) << "and then where it belongs";
}

// --- clocks

/// A clock as audio sinks provide: it runs with CLOCK_MONOTONIC, but an hour ahead of it.
GstClock* audio_clock() {
  const auto now = +[](GstClock*, gpointer) { return static_cast<GstClockTime>(monotonic()) + 3600 * GST_SECOND; };
  return gst_audio_clock_new("audio", reinterpret_cast<GstAudioClockGetTimeFunc>(now), nullptr, nullptr);
}

constexpr GstClockTimeDiff kSampling = 500 * GST_MSECOND;  // a clock that isn't ours is read while others may run

TEST_F(Time, AnAudioClockAtTheConsumerKeepsTheMoments) {
  receiving.emplace("lanesrc lane=x timestamp-mode=clock ! fakesink name=out");
  tap.emplace(receiving->element("out"), "sink");
  GstClock* const clock = audio_clock();
  gst_pipeline_use_clock(GST_PIPELINE(receiving->get()), clock);
  receiving->play();
  ASSERT_TRUE(sender.has_consumers(1));
  send_double_speed(10 * GST_SECOND);
  const GstClockTimeDiff expected = base_difference() + 3610 * GST_SECOND;
  EXPECT_NEAR(static_cast<double>(running(0)), static_cast<double>(expected), static_cast<double>(kSampling));
  EXPECT_EQ(running(1) - running(0), GST_SECOND);
  receiving.reset();
  tap.reset();
  gst_object_unref(clock);
}

TEST_F(Time, AnAudioClockAtTheProducerKeepsTheMoments) {
  Pipeline sending(std::string("videotestsrc is-live=true ! ") + kGray + " ! lanesink name=sink lane=y");
  Tap sent(sending.element("sink"), "sink");
  GstClock* const clock = audio_clock();
  gst_pipeline_use_clock(GST_PIPELINE(sending.get()), clock);
  sending.play();
  Pipeline taking("lanesrc lane=y num-buffers=5 ! fakesink name=out");
  Tap seen(taking.element("out"), "sink");
  ASSERT_TRUE(taking.play().ends());
  const GstClockTimeDiff offset = base_of(sending) - 3600 * GST_SECOND - base_of(taking);
  for (const auto& one : seen.seen()) {
    EXPECT_NEAR(static_cast<double>(one.running()),
                static_cast<double>(GST_BUFFER_PTS(one.buffer)) + static_cast<double>(offset),
                static_cast<double>(kSampling));
  }
  sending.set(GST_STATE_NULL);
  gst_object_unref(clock);
}

}  // namespace
}  // namespace framelane::gst::test
