// SPDX-License-Identifier: MIT
// Slots as GstMemory: a test for each rule of what the pool and the allocator of the sink promise.
#include <future>
#include <optional>

#include "ends.hpp"

namespace framelane::gst::test {
namespace {

class Slots : public LaneTest {};

GstBuffer* foreign() { return gst_buffer_new_allocate(nullptr, kGraySize, nullptr); }

// --- what is offered

TEST_F(Slots, APoolIsOfferedWithMin2Max0AndBothVideoOptions) {
  Sink sink;
  GstQuery* const query = sink.allocation();
  GstBufferPool* pool = nullptr;
  guint size = 0, min = 0, max = 1;
  gst_query_parse_nth_allocation_pool(query, 0, &pool, &size, &min, &max);
  EXPECT_EQ(size, kGraySize);
  EXPECT_EQ(min, 2u);
  EXPECT_EQ(max, 0u) << "avdec drops a pool with a maximum below 32";
  EXPECT_TRUE(gst_buffer_pool_has_option(pool, GST_BUFFER_POOL_OPTION_VIDEO_META));
  EXPECT_TRUE(gst_buffer_pool_has_option(pool, GST_BUFFER_POOL_OPTION_VIDEO_ALIGNMENT));
  EXPECT_TRUE(gst_query_find_allocation_meta(query, GST_VIDEO_META_API_TYPE, nullptr));
  EXPECT_FALSE(gst_query_find_allocation_meta(query, GST_VIDEO_CROP_META_API_TYPE, nullptr));
  gst_object_unref(pool);
  gst_query_unref(query);
}

TEST_F(Slots, AnyMinimumAndMaximumIsAccepted) {
  Sink sink("max-loans=8");
  for (const auto& [min, max] : {std::pair{0u, 0u}, {1u, 1u}, {2u, 0u}, {2u, 4u}, {64u, 64u}, {0u, 1000u}}) {
    GstBufferPool* const pool = sink.pool({.min = min, .max = max});
    std::vector<GstBuffer*> buffers;
    for (int i = 0; i < 20; ++i) buffers.push_back(acquire(pool));
    for (GstBuffer* buffer : buffers) gst_buffer_unref(buffer);
    finish(pool);
  }
}

TEST_F(Slots, TheAllocatorOfThePoolsConfigIsIgnored) {
  Sink sink;
  GstAllocator* const heap = gst_allocator_find(GST_ALLOCATOR_SYSMEM);
  GstBufferPool* const pool = sink.pool({.allocator = heap});
  for (int i = 0; i < 10; ++i) EXPECT_EQ(sink.push(acquire(pool)), GST_FLOW_OK);
  EXPECT_EQ(stat(sink.element(), "in-place"), 10u);
  finish(pool);
  gst_object_unref(heap);
}

class AllocatorFor : public Slots, public ::testing::WithParamInterface<const char*> {};
INSTANTIATE_TEST_SUITE_P(Media, AllocatorFor,
                         ::testing::Values("audio/x-raw,format=S16LE,rate=48000,channels=2,layout=interleaved",
                                           "audio/x-opus,channels=2,rate=48000", "video/x-h264,stream-format=avc",
                                           "video/x-raw,format=GRAY8,width=64,height=48", "application/octet-stream"));

TEST_P(AllocatorFor, IsOfferedAndGivesSlots) {
  Sink sink("", GetParam());
  GstAllocator* const allocator = sink.allocator();
  ASSERT_NE(allocator, nullptr);
  for (int i = 0; i < 10; ++i) EXPECT_EQ(sink.push(gst_buffer_new_allocate(allocator, 3072, nullptr)), GST_FLOW_OK);
  EXPECT_EQ(stat(sink.element(), "in-place"), 9u) << "the first one makes the slots";
  EXPECT_EQ(stat(sink.element(), "copied-pool-overflow"), 1u);
  gst_object_unref(allocator);
}

TEST_F(Slots, AnAllocatorGivesSlotsAsLargeAsUpstreamWantsThem) {
  Sink sink("", "application/octet-stream");
  GstAllocator* const allocator = sink.allocator();
  GstAllocationParams params;
  gst_allocation_params_init(&params);
  params.padding = 4000;  // behind what is sent
  for (int i = 0; i < 10; ++i) EXPECT_EQ(sink.push(gst_buffer_new_allocate(allocator, 200, &params)), GST_FLOW_OK);
  EXPECT_EQ(stat(sink.element(), "in-place"), 9u);
  gst_object_unref(allocator);
}

// --- how many, how large, when

TEST_F(Slots, DecodersThatKeep15BuffersFindSlots) {
  Sink sink;
  Consumer consumer = consumer_of("x", false);
  ASSERT_TRUE(consumer.connect(kHang));
  GstBufferPool* const pool = sink.pool({.min = 15});
  std::vector<GstBuffer*> kept;
  for (int i = 0; i < 15; ++i) kept.push_back(acquire(pool));
  for (std::size_t i = 0; i < 200; ++i) {
    GstBuffer* const next = acquire(pool);
    EXPECT_EQ(sink.push(std::exchange(kept[i % kept.size()], next)), GST_FLOW_OK);
  }
  for (GstBuffer* buffer : kept) gst_buffer_unref(buffer);
  EXPECT_EQ(stat(sink.element(), "in-place"), 200u);
  EXPECT_EQ(stat(sink.element(), "pool-overflow"), 0u);
  finish(pool);
}

TEST_F(Slots, ARealDecoderWritesIntoThem) {
  for (const char* coder :
       {"x264enc tune=zerolatency ! avdec_h264", "vp8enc deadline=1 ! vp8dec", "jpegenc ! jpegdec"}) {
    GError* error = nullptr;
    GstElement* const probe = gst_parse_launch(coder, &error);
    if (probe != nullptr) gst_object_unref(probe);
    if (error != nullptr) {  // not installed
      g_error_free(error);
      continue;
    }
    Pipeline pipeline(std::string("videotestsrc num-buffers=60 ! video/x-raw,format=I420,width=322,height=242 ! ") +
                      coder + " ! lanesink name=sink lane=x wait-for-consumers=0");
    ASSERT_TRUE(pipeline.play().ends()) << coder;
    GstElement* const sink = pipeline.element("sink");
    EXPECT_EQ(stat(sink, "published"), 60u) << coder;
    EXPECT_EQ(stat(sink, "in-place") + stat(sink, "copied-pool-overflow"), 60u) << coder;
    EXPECT_GE(stat(sink, "in-place"), 50u) << coder;
  }
}

TEST_F(Slots, MayBeLargerThanTheCapsSay) {
  Crossing lane(kGray);
  GstBufferPool* const pool = lane.end().pool({.more = kGraySize * 28 / 1000});
  for (int i = 0; i < 20; ++i) {
    GstBuffer* const came = lane.cross(acquire(pool));
    EXPECT_EQ(gst_buffer_get_size(came), kGraySize) << "the rest is the allocator's padding";
    gst_buffer_unref(came);
  }
  EXPECT_EQ(stat(lane.sink(), "in-place"), 20u);
  finish(pool);
}

guint slots(GstElement* sink) {
  GstStructure* stats = nullptr;
  guint slots = G_MAXUINT;
  g_object_get(sink, "stats", &stats, nullptr);
  EXPECT_TRUE(gst_structure_get_uint(stats, "slots", &slots));
  gst_structure_free(stats);
  return slots;
}

TEST_F(Slots, AreMadeWhenThePoolIsConfiguredAndNotByCapsAlone) {
  Sink sink;
  EXPECT_EQ(slots(sink.element()), 0u);
  GstBufferPool* const pool = sink.pool({.more = 5000});
  EXPECT_GT(slots(sink.element()), 0u);
  EXPECT_EQ(sink.push(acquire(pool)), GST_FLOW_OK);
  EXPECT_EQ(stat(sink.element(), "in-place"), 1u) << "one segment, of the pool's size";
  finish(pool);
}

TEST_F(Slots, AreMadeAtTheFirstForeignFrame) {
  Sink sink;
  EXPECT_EQ(slots(sink.element()), 0u);
  EXPECT_EQ(sink.push(foreign()), GST_FLOW_OK);
  EXPECT_GT(slots(sink.element()), 0u);
}

// --- acquire

TEST_F(Slots, AcquireTakesTheHeapAtOnceWhenMaxLoansAreOut) {
  Sink sink("max-loans=4 leaky=no full-timeout=18446744073709551615 stall-timeout=18446744073709551615");
  GstBufferPool* const pool = sink.pool({.min = 2, .max = 4});
  std::vector<GstBuffer*> buffers;
  for (int i = 0; i < 10; ++i) buffers.push_back(acquire(pool));
  EXPECT_EQ(stat(sink.element(), "pool-overflow"), 6u);
  for (GstBuffer* buffer : buffers) EXPECT_EQ(sink.push(buffer), GST_FLOW_OK);
  EXPECT_EQ(stat(sink.element(), "in-place"), 4u);
  EXPECT_EQ(stat(sink.element(), "copied-pool-overflow"), 6u);
  finish(pool);
}

TEST_F(Slots, AcquireFindsASlotAlsoWhileAConsumerReadsTheWholeBurst) {
  Sink sink("burst=4 leaky=no");
  Consumer consumer = consumer_of("x");
  ASSERT_TRUE(consumer.connect(kHang));  // and takes nothing
  GstBufferPool* const pool = sink.pool();
  for (int i = 0; i < 4; ++i) EXPECT_EQ(sink.push(acquire(pool)), GST_FLOW_OK);
  std::vector<GstBuffer*> more;
  for (int i = 0; i < 16; ++i) more.push_back(acquire(pool));  // max-loans
  EXPECT_EQ(stat(sink.element(), "pool-overflow"), 0u) << "what consumers read never comes out of the loans";
  for (GstBuffer* buffer : more) gst_buffer_unref(buffer);
  finish(pool);
}

TEST_F(Slots, AcquireIsFlushingOnlyWhenUpstreamSetThePoolFlushing) {
  std::optional<Sink> sink(std::in_place);
  GstBufferPool* const pool = sink->pool();
  GstElement* const element = sink->element();
  for (const GstState state : {GST_STATE_PAUSED, GST_STATE_PLAYING, GST_STATE_READY}) {
    gst_element_set_state(element, state);
    gst_buffer_unref(acquire(pool));
  }
  sink.reset();
  gst_buffer_unref(acquire(pool));
  GstBuffer* buffer = nullptr;
  gst_buffer_pool_set_flushing(pool, TRUE);
  EXPECT_EQ(gst_buffer_pool_acquire_buffer(pool, &buffer, nullptr), GST_FLOW_FLUSHING);
  gst_buffer_pool_set_flushing(pool, FALSE);
  gst_buffer_unref(acquire(pool));
  finish(pool);
}

TEST_F(Slots, OutliveTheElement) {
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

TEST_F(Slots, AFullLanesWaitEndsAtFlushStart) {
  Sink sink("burst=2 leaky=no full-timeout=18446744073709551615 stall-timeout=18446744073709551615");
  Consumer consumer = consumer_of("x");
  ASSERT_TRUE(consumer.connect(kHang));
  GstBufferPool* const pool = sink.pool();
  auto pushing = std::async(std::launch::async, [&] {
    for (;;) {
      if (const GstFlowReturn flow = sink.push(acquire(pool)); flow != GST_FLOW_OK) return flow;
    }
  });
  ASSERT_TRUE(comes([&] { return stat(sink.element(), "full-waits") > 0; }));
  gst_harness_push_event(sink.harness(), gst_event_new_flush_start());
  EXPECT_EQ(pushing.wait_for(kHang), std::future_status::ready);
  EXPECT_EQ(pushing.get(), GST_FLOW_FLUSHING);
  finish(pool);
}

}  // namespace
}  // namespace framelane::gst::test
