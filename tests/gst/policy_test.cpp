// SPDX-License-Identifier: MIT
// burst-time, history, max-held, mode and gating as an element's properties.
#include <numeric>
#include <thread>
#include <utility>

#include "ends.hpp"

namespace framelane::gst::test {
namespace {

class Policy : public LaneTest {};

/// Frame `number`, which says so in its bytes and its offset.
GstBuffer* frame(guint number) {
  GstBuffer* const buffer = gst_buffer_new_allocate(nullptr, kGraySize, nullptr);
  gst_buffer_memset(buffer, 0, static_cast<guint8>(number), kGraySize);
  GST_BUFFER_OFFSET(buffer) = number;
  return buffer;
}

void push(const Sink& sink, guint first, guint count) {
  for (guint i = first; i < first + count; ++i) ASSERT_EQ(sink.push(frame(i)), GST_FLOW_OK);
}

TEST_F(Policy, BurstTimeBecomesFramesByTheRateOfTheCaps) {
  if (over_a_stream()) GTEST_SKIP() << "a socket takes more than the burst";
  Sink sink("burst=2 burst-time=200000000 leaky=upstream");  // at 100 frames a second
  Consumer consumer = consumer_of("x");
  ASSERT_TRUE(consumer.connect(kHang));  // and takes nothing
  push(sink, 0, 30);
  EXPECT_EQ(stat(sink.element(), "dropped-full"), 10u);
}

TEST_F(Policy, HistoryIsWhatALateSourceStillGets) {
  Sink sink("history=5");
  push(sink, 0, 20);
  GstHarness* const receiver = gst_harness_new_parse(over("lanesrc lane=x").c_str());
  gst_harness_play(receiver);
  for (guint number = 15; number < 20; ++number) {
    GstBuffer* const came = gst_harness_pull(receiver);
    ASSERT_NE(came, nullptr);
    EXPECT_EQ(GST_BUFFER_OFFSET(came), number);
    EXPECT_EQ(text_of(came), std::string(kGraySize, static_cast<char>(number)));
    EXPECT_EQ(GST_BUFFER_FLAG_IS_SET(came, GST_BUFFER_FLAG_DISCONT), number == 15);
    gst_buffer_unref(came);
  }
  gst_harness_teardown(receiver);
}

guint64 copies_of_five_held(const std::string& sink, const std::string& source) {
  Crossing lane(kGray, {}, sink, source);
  std::vector<GstBuffer*> held;
  for (guint number = 0; number < 5; ++number) held.push_back(lane.cross(frame(number)));
  for (guint number = 0; number < 5; ++number) {
    EXPECT_EQ(text_of(held[number]), std::string(kGraySize, static_cast<char>(number)));
    EXPECT_TRUE(GST_MEMORY_IS_READONLY(gst_buffer_peek_memory(held[number], 0)));
    gst_buffer_unref(held[number]);
  }
  return stat(lane.source(), "copied");
}

TEST_F(Policy, BeyondMaxHeldASourceGetsCopies) { EXPECT_EQ(copies_of_five_held("", "max-held=2"), 3u); }
TEST_F(Policy, TheSinksMaxHeldCapsTheSources) { EXPECT_EQ(copies_of_five_held("max-held=1", "max-held=4"), 4u); }
TEST_F(Policy, TheDefaultOfMaxHeldIs4) { EXPECT_EQ(copies_of_five_held("", ""), 1u); }

/// A receiving pipeline that stands still at its sink until it is let go.
class Stalled {
 public:
  explicit Stalled(const std::string& properties)
      : pipeline_("lanesrc name=src lane=x " + properties +
                  " ! identity name=gate ! fakesink name=out async=false sync=false"),
        tap_(pipeline_.element("out"), "sink"),
        pad_(gst_element_get_static_pad(pipeline_.element("gate"), "sink")) {
    probe_ = gst_pad_add_probe(
        pad_, static_cast<GstPadProbeType>(GST_PAD_PROBE_TYPE_BLOCK | GST_PAD_PROBE_TYPE_BUFFER),
        [](GstPad*, GstPadProbeInfo*, gpointer) { return GST_PAD_PROBE_OK; }, nullptr, nullptr);
    pipeline_.play();
  }
  ~Stalled() {
    go();
    pipeline_.set(GST_STATE_NULL);
    gst_object_unref(pad_);
  }
  Stalled(const Stalled&) = delete;
  Stalled& operator=(const Stalled&) = delete;

  void go() {
    if (probe_ != 0) gst_pad_remove_probe(pad_, std::exchange(probe_, 0));
  }
  bool is_stalled() const { return gst_pad_is_blocking(pad_) != FALSE; }
  GstElement* source() const { return pipeline_.element("src"); }
  Pipeline& pipeline() { return pipeline_; }
  /// The offsets of what came.
  std::vector<guint64> numbers() const {
    std::vector<guint64> numbers;
    for (const auto& seen : tap_.seen()) numbers.push_back(GST_BUFFER_OFFSET(seen.buffer));
    return numbers;
  }

 private:
  Pipeline pipeline_;
  Tap tap_;
  GstPad* pad_;
  gulong probe_ = 0;
};

TEST_F(Policy, ModeLatestTakesTheNewestFrame) {
  Sink sink("leaky=no full-timeout=18446744073709551615");
  Stalled receiver("mode=latest");
  ASSERT_TRUE(comes([&] { return sink.consumers() == 1; }));
  push(sink, 0, 1);
  ASSERT_TRUE(comes([&] { return receiver.is_stalled(); }));
  push(sink, 1, 50);
  EXPECT_EQ(stat(sink.element(), "full-waits"), 0u) << "it never gates";
  receiver.go();
  gst_harness_push_event(sink.harness(), gst_event_new_eos());
  ASSERT_TRUE(receiver.pipeline().ends());
  EXPECT_EQ(receiver.numbers(), (std::vector<guint64>{0, 50}));
  EXPECT_EQ(stat(receiver.source(), "skipped"), 49u);
}

TEST_F(Policy, WhoDoesNotGateIsNotWaitedFor) {
  Sink sink("burst=4 leaky=no full-timeout=18446744073709551615");
  Stalled receiver("gating=false");
  ASSERT_TRUE(comes([&] { return sink.consumers() == 1; }));
  push(sink, 0, 1);
  ASSERT_TRUE(comes([&] { return receiver.is_stalled(); }));
  push(sink, 1, 50);
  EXPECT_EQ(stat(sink.element(), "full-waits"), 0u);
  receiver.go();
  gst_harness_push_event(sink.harness(), gst_event_new_eos());
  ASSERT_TRUE(receiver.pipeline().ends());
  const auto numbers = receiver.numbers();
  EXPECT_EQ(numbers.back(), 50u);
  EXPECT_GE(numbers.size(), 5u) << "a pause of a burst costs nothing";
  EXPECT_EQ(numbers.size() + stat(receiver.source(), "skipped"), 51u);
}

TEST_F(Policy, WhoGatesIsWaitedForAndMissesNothing) {
  Sink sink("burst=4 leaky=no full-timeout=18446744073709551615 stall-timeout=18446744073709551615");
  Stalled receiver("gating=true");
  ASSERT_TRUE(comes([&] { return sink.consumers() == 1; }));
  std::thread pushing([&] {
    push(sink, 0, 50);
    gst_harness_push_event(sink.harness(), gst_event_new_eos());
  });
  EXPECT_TRUE(comes([&] { return stat(sink.element(), "full-waits") > 0; }));
  receiver.go();
  EXPECT_TRUE(receiver.pipeline().ends());
  pushing.join();
  std::vector<guint64> expected(50);
  std::iota(expected.begin(), expected.end(), 0);
  EXPECT_EQ(receiver.numbers(), expected);
}

}  // namespace
}  // namespace framelane::gst::test
