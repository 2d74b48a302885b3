// SPDX-License-Identifier: MIT
#include <atomic>
#include <future>
#include <optional>

#include <gst/check/gstharness.h>
#include <gst/video/video.h>

#include "framelane/lane/consumer.hpp"

#include "pipeline.hpp"

namespace framelane::gst::test {
namespace {

constexpr const char* kGray = "video/x-raw,format=GRAY8,width=64,height=48,framerate=100/1";
constexpr gsize kGraySize = 64 * 48;

Consumer consumer_of(const char* lane, bool gating = true) {
  ConsumerSettings settings;
  settings.lane = lane;
  settings.gating = gating;
  auto consumer = Consumer::open(settings);
  EXPECT_TRUE(consumer) << consumer.error().text;
  return std::move(*consumer);
}

/// A lanesink into which the test pushes by itself.
class Sink {
 public:
  explicit Sink(const std::string& properties = "") {
    harness_ = gst_harness_new_parse(("lanesink name=sink lane=x wait-for-consumers=0 " + properties).c_str());
    gst_harness_set_src_caps_str(harness_, kGray);
  }
  ~Sink() { gst_harness_teardown(harness_); }
  Sink(const Sink&) = delete;
  Sink& operator=(const Sink&) = delete;

  GstHarness* harness() const { return harness_; }
  GstElement* element() const {
    GstElement* const element = gst_bin_get_by_name(GST_BIN(harness_->element), "sink");
    gst_object_unref(element);
    return element;
  }
  GstFlowReturn push(GstBuffer* buffer) const { return gst_harness_push(harness_, buffer); }

  /// The pool that the sink offers, configured and active.
  GstBufferPool* pool(guint min = 0, guint max = 0) const {
    GstCaps* const caps = gst_caps_from_string(kGray);
    GstQuery* const query = gst_query_new_allocation(caps, TRUE);
    EXPECT_TRUE(gst_pad_peer_query(harness_->srcpad, query));
    GstBufferPool* pool = nullptr;
    guint size = 0;
    gst_query_parse_nth_allocation_pool(query, 0, &pool, &size, nullptr, nullptr);
    gst_query_unref(query);
    GstStructure* const config = gst_buffer_pool_get_config(pool);
    gst_buffer_pool_config_set_params(config, caps, size, min, max);
    EXPECT_TRUE(gst_buffer_pool_set_config(pool, config));
    EXPECT_TRUE(gst_buffer_pool_set_active(pool, TRUE));
    gst_caps_unref(caps);
    return pool;
  }

 private:
  GstHarness* harness_ = nullptr;
};

GstBuffer* acquire(GstBufferPool* pool) {
  GstBuffer* buffer = nullptr;
  EXPECT_EQ(gst_buffer_pool_acquire_buffer(pool, &buffer, nullptr), GST_FLOW_OK);
  return buffer;
}

void finish(GstBufferPool* pool) {
  gst_buffer_pool_set_active(pool, FALSE);
  gst_object_unref(pool);
}

class LaneSinkTest : public LaneTest {};

// --- properties

TEST_F(LaneSinkTest, HasTheDefaultsOfTheDesign) {
  GstElement* const sink = gst_element_factory_make("lanesink", nullptr);
  guint burst = 0, history = 1, loans = 0, held = 0, consumers = 0;
  guint64 burst_time = 1, full = 0, stall = 0, linger = 0, frame = 0;
  gint wait = 0, leaky = 1;
  gboolean sync = TRUE, async = TRUE, last = TRUE;
  g_object_get(sink, "burst", &burst, "burst-time", &burst_time, "history", &history, "max-loans", &loans, "max-held",
               &held, "max-consumers", &consumers, "full-timeout", &full, "stall-timeout", &stall, "linger", &linger,
               "max-frame-size", &frame, "wait-for-consumers", &wait, "leaky", &leaky, "sync", &sync, "async", &async,
               "enable-last-sample", &last, nullptr);
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
  EXPECT_EQ(wait, -1);
  EXPECT_EQ(leaky, 0);
  EXPECT_FALSE(sync || last);
  EXPECT_TRUE(async) << "or an end of stream behind decodebin is never posted";
  gst_object_unref(sink);
}

TEST_F(LaneSinkTest, OnlyTheLaneElementsTakeUris) {
  GError* error = nullptr;
  GstElement* const sink = gst_element_make_from_uri(GST_URI_SINK, "lane:cam0", nullptr, &error);
  ASSERT_NE(sink, nullptr) << error->message;
  EXPECT_STREQ(GST_OBJECT_NAME(gst_element_get_factory(sink)), "lanesink");
  char* uri = gst_uri_handler_get_uri(GST_URI_HANDLER(sink));
  EXPECT_STREQ(uri, "lane:cam0");
  g_free(uri);
  gst_object_unref(sink);
  GstElement* const ring = gst_element_factory_make("shmringsink", nullptr);
  EXPECT_FALSE(GST_IS_URI_HANDLER(ring));
  gst_object_unref(ring);
}

// --- slots

TEST_F(LaneSinkTest, UpstreamWritesIntoSlots) {
  Pipeline pipeline(std::string("videotestsrc num-buffers=50 ! ") + kGray +
                    " ! lanesink name=sink lane=x wait-for-consumers=0");
  ASSERT_TRUE(pipeline.play().ends());
  EXPECT_EQ(stat(pipeline.element("sink"), "in-place"), 50u);
  EXPECT_EQ(stat(pipeline.element("sink"), "copied"), 0u);
  EXPECT_EQ(stat(pipeline.element("sink"), "published"), 50u);
  EXPECT_EQ(stat(pipeline.element("sink"), "rendered"), 50u);
}

TEST_F(LaneSinkTest, CopiesForeignBuffersOnceAndSaysWhy) {
  Sink sink;
  for (int i = 0; i < 3; ++i) EXPECT_EQ(sink.push(gst_buffer_new_allocate(nullptr, kGraySize, nullptr)), GST_FLOW_OK);
  EXPECT_EQ(stat(sink.element(), "copied-foreign"), 3u);
  EXPECT_EQ(stat(sink.element(), "in-place"), 0u);
}

TEST_F(LaneSinkTest, CopiesBuffersOfSeveralMemories) {
  Sink sink;
  GstBuffer* const buffer = gst_buffer_new_allocate(nullptr, kGraySize / 2, nullptr);
  gst_buffer_append_memory(buffer, gst_allocator_alloc(nullptr, kGraySize / 2, nullptr));
  EXPECT_EQ(sink.push(buffer), GST_FLOW_OK);
  EXPECT_EQ(stat(sink.element(), "copied-several-memories"), 1u);
}

TEST_F(LaneSinkTest, CopiesPartsOfASlot) {
  Sink sink;
  GstBufferPool* const pool = sink.pool();
  GstBuffer* const whole = acquire(pool);
  GstBuffer* const part = gst_buffer_copy_region(whole, GST_BUFFER_COPY_MEMORY, 64, kGraySize - 64);
  EXPECT_EQ(sink.push(part), GST_FLOW_OK);
  EXPECT_EQ(stat(sink.element(), "copied-part"), 1u);
  gst_buffer_unref(whole);
  finish(pool);
}

TEST_F(LaneSinkTest, CopiesFramesThatComeAgain) {
  Pipeline pipeline(std::string("videotestsrc num-buffers=1 ! ") + kGray +
                    " ! imagefreeze num-buffers=20 ! lanesink name=sink lane=x wait-for-consumers=0");
  ASSERT_TRUE(pipeline.play().ends());
  EXPECT_EQ(stat(pipeline.element("sink"), "published"), 20u);
  // imagefreeze keeps its picture: it can be sent in place again only when nobody reads it any more.
  EXPECT_GE(stat(pipeline.element("sink"), "copied-repeated"), 1u);
  EXPECT_EQ(stat(pipeline.element("sink"), "copied-repeated") + stat(pipeline.element("sink"), "in-place"), 20u);
}

TEST_F(LaneSinkTest, NobodyWritesIntoAPublishedFrame) {
  Sink sink("burst=4");
  Consumer consumer = consumer_of("x");
  ASSERT_TRUE(consumer.connect(kHang));
  GstBufferPool* const pool = sink.pool();
  GstBuffer* const buffer = acquire(pool);
  gst_buffer_memset(buffer, 0, 'a', kGraySize);
  // Another branch keeps the memory in a buffer of its own, writable as far as that buffer is concerned.
  GstBuffer* other = gst_buffer_copy(buffer);
  ASSERT_EQ(sink.push(buffer), GST_FLOW_OK);
  ASSERT_EQ(stat(sink.element(), "in-place"), 1u);
  auto frame = consumer.take(kHang);
  ASSERT_TRUE(frame) << frame.error().text;
  other = gst_buffer_make_writable(other);
  gst_buffer_memset(other, 0, 'b', kGraySize);
  EXPECT_EQ(static_cast<char>(frame->data()[0]), 'a');
  gst_buffer_unref(other);
  finish(pool);
}

TEST_F(LaneSinkTest, ThePoolNeverRunsDry) {
  Sink sink("max-loans=16");
  GstBufferPool* const pool = sink.pool(2, 4);  // whatever maximum upstream asks for
  std::vector<GstBuffer*> buffers;
  for (int i = 0; i < 40; ++i) buffers.push_back(acquire(pool));
  for (GstBuffer* buffer : buffers) EXPECT_EQ(sink.push(buffer), GST_FLOW_OK);
  EXPECT_EQ(stat(sink.element(), "in-place"), 16u);
  EXPECT_EQ(stat(sink.element(), "copied-pool-overflow"), 24u);
  finish(pool);
}

TEST_F(LaneSinkTest, AFlushingPoolSaysSo) {
  Sink sink;
  GstBufferPool* const pool = sink.pool();
  gst_buffer_pool_set_flushing(pool, TRUE);
  GstBuffer* buffer = nullptr;
  EXPECT_EQ(gst_buffer_pool_acquire_buffer(pool, &buffer, nullptr), GST_FLOW_FLUSHING);
  gst_buffer_pool_set_flushing(pool, FALSE);
  finish(pool);
}

TEST_F(LaneSinkTest, BuffersOfThePoolOutliveTheElement) {
  std::optional<Sink> sink(std::in_place);
  GstBufferPool* const pool = sink->pool();
  GstBuffer* const buffer = acquire(pool);
  sink.reset();
  gst_buffer_memset(buffer, 0, 'x', kGraySize);
  GstBuffer* const late = acquire(pool);  // from the heap: the lane is closed
  gst_buffer_memset(late, 0, 'x', kGraySize);
  gst_buffer_unref(late);
  gst_buffer_unref(buffer);
  finish(pool);
}

TEST_F(LaneSinkTest, OffersAnAllocatorForAudioAndEncodedMedia) {
  Pipeline pipeline(
      "audiotestsrc num-buffers=50 ! audio/x-raw,format=S16LE,channels=2 ! lanesink name=sink lane=x "
      "wait-for-consumers=0");
  ASSERT_TRUE(pipeline.play().ends());
  // The first one makes the slots.
  EXPECT_GE(stat(pipeline.element("sink"), "in-place"), 48u);
}

TEST_F(LaneSinkTest, RefusesForeignMemoryWithAReason) {
  GstHarness* const harness = gst_harness_new_parse("lanesink lane=x wait-for-consumers=0");
  gst_harness_set_src_caps_str(harness, "video/x-raw(memory:GLMemory),format=RGBA,width=64,height=48");
  EXPECT_EQ(gst_harness_push(harness, gst_buffer_new_allocate(nullptr, 64 * 48 * 4, nullptr)), GST_FLOW_NOT_NEGOTIATED);
  gst_harness_teardown(harness);
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

TEST_F(LaneSinkTest, DropsOfAFullLaneAreCountedAndMarked) {
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
  Pipeline pipeline(std::string("videotestsrc num-buffers=20 ! ") + kGray +
                    " ! lanesink name=sink lane=x burst=4 full-timeout=1000000");
  pipeline.set(GST_STATE_PAUSED);
  Consumer consumer = consumer_of("x");
  ASSERT_TRUE(consumer.connect(kHang));  // and never takes
  ASSERT_TRUE(pipeline.play().ends());
  EXPECT_EQ(stat(pipeline.element("sink"), "dropped-full"), 16u);
  EXPECT_EQ(pipeline.warnings(), 1);
}

TEST_F(LaneSinkTest, AFullLaneOfALiveUpstreamLeaksDownstream) {
  Pipeline pipeline(std::string("videotestsrc is-live=true num-buffers=60 ! ") + kGray +
                    " ! lanesink name=sink lane=x burst=4");
  pipeline.set(GST_STATE_PAUSED);
  Consumer consumer = consumer_of("x");
  ASSERT_TRUE(consumer.connect(kHang));  // and never takes
  ASSERT_TRUE(pipeline.play().ends());
  EXPECT_EQ(stat(pipeline.element("sink"), "dropped-full"), 0u);
  EXPECT_EQ(stat(pipeline.element("sink"), "passed-over"), 56u);
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
  Pipeline pipeline(std::string(GetParam()) +
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
  Pipeline pipeline(std::string(GetParam()) +
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

TEST_F(LaneSinkTest, AStreamAfterAnEndBeginsWithEverythingItNeeds) {
  Sink sink;
  Consumer consumer = consumer_of("x");
  ASSERT_TRUE(consumer.connect(kHang));
  const auto buffer = [] { return gst_buffer_new_allocate(nullptr, kGraySize, nullptr); };
  ASSERT_EQ(sink.push(buffer()), GST_FLOW_OK);
  ASSERT_TRUE(gst_harness_push_event(sink.harness(), gst_event_new_eos()));
  ASSERT_TRUE(gst_harness_push_event(sink.harness(), gst_event_new_flush_start()));
  ASSERT_TRUE(gst_harness_push_event(sink.harness(), gst_event_new_flush_stop(TRUE)));
  GstSegment segment;
  gst_segment_init(&segment, GST_FORMAT_TIME);
  ASSERT_TRUE(gst_harness_push_event(sink.harness(), gst_event_new_segment(&segment)));
  ASSERT_EQ(sink.push(buffer()), GST_FLOW_OK);
  std::string order;
  for (int frames = 0; frames < 2;) {
    auto item = consumer.take_item(kHang);
    ASSERT_TRUE(item) << item.error().text;
    if (std::holds_alternative<Frame>(*item)) {
      order += 'f';
      ++frames;
    } else {
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
  }
  EXPECT_EQ(order, "scgfescggf");  // the old segment begins the stream, the new one follows
}

}  // namespace
}  // namespace framelane::gst::test

int main(int argc, char** argv) {
  gst_init(&argc, &argv);
  ::testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
