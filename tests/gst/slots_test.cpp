// SPDX-License-Identifier: MIT
// Slots as GstMemory: a test for each rule of what the pool and allocator of the sink promise, of what is sent where it
// lies, and of what comes out of the source.
#include <future>
#include <optional>

#include <gst/allocators/gstdmabuf.h>
#include <sys/mman.h>
#include <unistd.h>

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

// --- what is sent where it lies

TEST_F(Slots, AreWhatUpstreamWritesInto) {
  Pipeline pipeline(std::string("videotestsrc num-buffers=50 ! ") + kGray +
                    " ! lanesink name=sink lane=x wait-for-consumers=0");
  ASSERT_TRUE(pipeline.play().ends());
  EXPECT_EQ(stat(pipeline.element("sink"), "in-place"), 50u);
  EXPECT_EQ(stat(pipeline.element("sink"), "copied"), 0u);
  EXPECT_EQ(stat(pipeline.element("sink"), "published"), 50u);
  EXPECT_EQ(stat(pipeline.element("sink"), "rendered"), 50u);
}

TEST_F(Slots, ForeignBuffersAreCopiedOnce) {
  Sink sink;
  for (int i = 0; i < 3; ++i) EXPECT_EQ(sink.push(foreign()), GST_FLOW_OK);
  EXPECT_EQ(stat(sink.element(), "copied-foreign"), 3u);
  EXPECT_EQ(stat(sink.element(), "in-place"), 0u);
}

TEST_F(Slots, BuffersOfSeveralMemoriesAreCopied) {
  Sink sink;
  GstBuffer* const buffer = gst_buffer_new_allocate(nullptr, kGraySize / 2, nullptr);
  gst_buffer_append_memory(buffer, gst_allocator_alloc(nullptr, kGraySize / 2, nullptr));
  EXPECT_EQ(sink.push(buffer), GST_FLOW_OK);
  EXPECT_EQ(stat(sink.element(), "copied-several-memories"), 1u);
}

TEST_F(Slots, SubBuffersAreCopied) {
  Sink sink;
  GstBufferPool* const pool = sink.pool();
  GstBuffer* const whole = acquire(pool);
  GstBuffer* const part = gst_buffer_copy_region(whole, GST_BUFFER_COPY_MEMORY, 64, kGraySize - 64);
  EXPECT_EQ(sink.push(part), GST_FLOW_OK);
  EXPECT_EQ(stat(sink.element(), "copied-part"), 1u);
  gst_buffer_unref(whole);
  finish(pool);
}

TEST_F(Slots, MemoryThatBeginsBehindItsSlotIsCopied) {
  Crossing lane("application/octet-stream");
  GstAllocator* const allocator = lane.end().allocator();
  gst_buffer_unref(lane.cross(gst_buffer_new_allocate(allocator, 1000, nullptr)));
  GstBuffer* const sent = gst_buffer_new_allocate(allocator, 1000, nullptr);
  gst_buffer_fill(sent, 0, "head and payload", 16);
  gst_buffer_resize(sent, 9, 7);
  GstBuffer* const came = lane.cross(sent);
  EXPECT_EQ(text_of(came), "payload");
  EXPECT_EQ(stat(lane.sink(), "copied-part"), 1u);
  gst_buffer_unref(came);
  gst_object_unref(allocator);
}

TEST_F(Slots, OfAnotherLaneAreForeign) {
  Sink sink;
  GstHarness* const other = gst_harness_new_parse("lanesink lane=y wait-for-consumers=0");
  gst_harness_set_src_caps_str(other, kGray);
  GstBufferPool* const pool = sink.pool();
  EXPECT_EQ(gst_harness_push(other, acquire(pool)), GST_FLOW_OK);
  gst_harness_teardown(other);
  EXPECT_EQ(sink.push(acquire(pool)), GST_FLOW_OK);
  EXPECT_EQ(stat(sink.element(), "in-place"), 1u);
  finish(pool);
}

class Repeating : public Slots, public ::testing::WithParamInterface<const char*> {};
INSTANTIATE_TEST_SUITE_P(Elements, Repeating,
                         ::testing::Values("num-buffers=1 ! video/x-raw,format=GRAY8,width=64,height=48 ! "
                                           "imagefreeze num-buffers=20",
                                           "num-buffers=20 ! "
                                           "video/x-raw,format=GRAY8,width=64,height=48,framerate=10/1 ! "
                                           "videorate ! video/x-raw,framerate=60/1"));

TEST_P(Repeating, OfFramesThatAreStillReadCopies) {
  Pipeline pipeline(std::string("videotestsrc pattern=snow ") + GetParam() +
                    " ! lanesink name=sink lane=x wait-for-consumers=0");
  ASSERT_TRUE(pipeline.play().ends());
  GstElement* const sink = pipeline.element("sink");
  EXPECT_GE(stat(sink, "published"), 20u);
  // A picture can be sent in place again only when nobody reads it any more.
  EXPECT_GE(stat(sink, "copied-repeated"), 1u);
  EXPECT_EQ(stat(sink, "copied-repeated") + stat(sink, "in-place") + stat(sink, "copied-pool-overflow"),
            stat(sink, "published"));
}

TEST_F(Slots, NobodyWritesIntoAPublishedOne) {
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

TEST_F(Slots, BehindATeeAreCopied) {
  Pipeline pipeline(std::string("videotestsrc num-buffers=20 ! ") + kGray +
                    " ! tee ! lanesink name=sink lane=x wait-for-consumers=0");
  ASSERT_TRUE(pipeline.play().ends());
  EXPECT_EQ(stat(pipeline.element("sink"), "copied-foreign"), 20u) << "tee strips pools, even with one branch";
}

TEST_F(Slots, ADmabufIsCopiedAndCounted) {
  Crossing lane(kGray);
  GstAllocator* const allocator = gst_dmabuf_allocator_new();
  const int fd = memfd_create("frame", MFD_CLOEXEC);  // as good as one of a device: it can be mapped
  ASSERT_EQ(ftruncate(fd, kGraySize), 0);
  ASSERT_EQ(pwrite(fd, "pixels", 6, 0), 6);
  GstBuffer* const sent = gst_buffer_new();
  gst_buffer_append_memory(sent, gst_dmabuf_allocator_alloc(allocator, fd, kGraySize));
  GstBuffer* const came = lane.cross(sent);
  EXPECT_EQ(text_of(came, 0, 6), "pixels");
  EXPECT_EQ(stat(lane.sink(), "copied-dmabuf"), 1u);
  gst_buffer_unref(came);
  gst_object_unref(allocator);
}

class Feature : public Slots, public ::testing::WithParamInterface<std::pair<const char*, GstFlowReturn>> {};
INSTANTIATE_TEST_SUITE_P(Caps, Feature,
                         ::testing::Values(std::pair{"memory:GLMemory", GST_FLOW_NOT_NEGOTIATED},
                                           std::pair{"memory:DMABuf", GST_FLOW_NOT_NEGOTIATED},
                                           std::pair{"memory:CUDAMemory", GST_FLOW_NOT_NEGOTIATED},
                                           std::pair{"memory:SystemMemory", GST_FLOW_OK}));

TEST_P(Feature, BeyondSystemMemoryIsRefused) {
  const std::string caps = std::string("video/x-raw(") + GetParam().first + "),format=GRAY8,width=64,height=48";
  Sink sink("", caps);
  EXPECT_EQ(sink.push(foreign()), GetParam().second);
}

TEST_F(Slots, TheLastSampleIsNotKeptUnlessAskedFor) {
  Sink sink;
  EXPECT_EQ(sink.push(foreign()), GST_FLOW_OK);
  GstSample* sample = nullptr;
  gboolean enabled = TRUE;
  g_object_get(sink.element(), "enable-last-sample", &enabled, "last-sample", &sample, nullptr);
  EXPECT_FALSE(enabled) << "it pins a slot";
  EXPECT_EQ(sample, nullptr);
}

// --- what comes out

TEST_F(Slots, ComeOutReadOnlyInRecycledBuffers) {
  Crossing lane(kGray);
  GstBuffer* const first = lane.cross(foreign());
  GstMemory* const memory = gst_buffer_peek_memory(first, 0);
  EXPECT_TRUE(GST_MEMORY_IS_READONLY(memory));
  GstMapInfo map;
  EXPECT_FALSE(gst_memory_map(memory, &map, GST_MAP_WRITE));
  GST_BUFFER_FLAG_SET(first, GST_BUFFER_FLAG_CORRUPTED);  // whatever downstream leaves on it
  gst_buffer_add_video_crop_meta(first);
  GST_BUFFER_OFFSET(first) = 42;
  gst_buffer_unref(first);
  GstBuffer* const sent = foreign();
  gst_buffer_memset(sent, 0, 'b', kGraySize);
  GstBuffer* const second = lane.cross(sent);
  EXPECT_EQ(second, first);
  EXPECT_EQ(gst_buffer_peek_memory(second, 0), memory);
  EXPECT_EQ(text_of(second), std::string(kGraySize, 'b'));
  EXPECT_FALSE(GST_BUFFER_FLAG_IS_SET(second, GST_BUFFER_FLAG_CORRUPTED));
  EXPECT_EQ(gst_buffer_get_video_crop_meta(second), nullptr);
  EXPECT_EQ(GST_BUFFER_OFFSET(second), GST_BUFFER_OFFSET_NONE);
  gst_buffer_unref(second);
}

TEST_F(Slots, AreNotRecycledWhileSomebodyHasTheirMemory) {
  Crossing lane(kGray);
  const auto cross = [&](char byte) {
    GstBuffer* const sent = foreign();
    gst_buffer_memset(sent, 0, static_cast<guint8>(byte), kGraySize);
    return lane.cross(sent);
  };
  GstBuffer* const first = cross('a');
  GstMemory* const memory = gst_buffer_get_memory(first, 0);
  GstBuffer* const part = gst_buffer_copy_region(first, GST_BUFFER_COPY_MEMORY, 100, 10);
  gst_buffer_unref(first);
  for (char byte = 'b'; byte < 'z'; ++byte) {
    GstBuffer* const next = cross(byte);
    EXPECT_EQ(text_of(next, 0, 3), std::string(3, byte));
    gst_buffer_unref(next);
  }
  EXPECT_EQ(text_of(part), std::string(10, 'a'));
  GstMapInfo map;
  ASSERT_TRUE(gst_memory_map(memory, &map, GST_MAP_READ));
  EXPECT_EQ(map.data[0], 'a');
  gst_memory_unmap(memory, &map);
  gst_memory_unref(memory);
  gst_buffer_unref(part);
}

TEST_F(Slots, AreNotRecycledIntoBuffersThatSomebodyChanged) {
  Crossing lane(kGray);
  for (int i = 0; i < 20; ++i) {
    GstBuffer* const came = lane.cross(foreign());
    ASSERT_EQ(gst_buffer_n_memory(came), 1u);
    ASSERT_EQ(gst_buffer_get_size(came), kGraySize);
    if (i % 4 == 0) gst_buffer_append_memory(came, gst_allocator_alloc(nullptr, 10, nullptr));
    if (i % 4 == 1) gst_buffer_remove_all_memory(came);
    if (i % 4 == 2) gst_buffer_resize(came, 10, 20);
    if (i % 4 == 3) gst_buffer_replace_all_memory(came, gst_allocator_alloc(nullptr, 10, nullptr));
    gst_buffer_unref(came);
  }
}

TEST_F(Slots, GoBackWhenTheirBufferDoesAndAreNotPinnedByARecycledOne) {
  Crossing lane(kGray, {}, "burst=2 leaky=no full-timeout=18446744073709551615", "max-held=1");
  for (int i = 0; i < 200; ++i) gst_buffer_unref(lane.cross(foreign()));
  EXPECT_EQ(stat(lane.source(), "copied"), 0u) << "one at a time is within max-held";
}

}  // namespace
}  // namespace framelane::gst::test

int main(int argc, char** argv) {
  gst_init(&argc, &argv);
  ::testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
