// SPDX-License-Identifier: MIT
// Slots as GstMemory: what is sent where it lies, what is copied and why, and what comes out of the source.
#include <atomic>
#include <mutex>
#include <thread>

#include <gst/allocators/gstdmabuf.h>
#include <sys/mman.h>
#include <unistd.h>

#include "ends.hpp"

namespace framelane::gst::test {
namespace {

class InPlace : public LaneTest {};
class Received : public LaneTest {};

GstBuffer* foreign() { return gst_buffer_new_allocate(nullptr, kGraySize, nullptr); }

// --- what is sent where it lies

TEST_F(InPlace, AreWhatUpstreamWritesInto) {
  Pipeline pipeline(std::string("videotestsrc num-buffers=50 ! ") + kGray +
                    " ! lanesink name=sink lane=x wait-for-consumers=0");
  ASSERT_TRUE(pipeline.play().ends());
  EXPECT_EQ(stat(pipeline.element("sink"), "in-place"), 50u);
  EXPECT_EQ(stat(pipeline.element("sink"), "copied"), 0u);
  EXPECT_EQ(stat(pipeline.element("sink"), "published"), 50u);
  EXPECT_EQ(stat(pipeline.element("sink"), "rendered"), 50u);
}

TEST_F(InPlace, ForeignBuffersAreCopiedOnce) {
  Sink sink;
  for (int i = 0; i < 3; ++i) EXPECT_EQ(sink.push(foreign()), GST_FLOW_OK);
  EXPECT_EQ(stat(sink.element(), "copied-foreign"), 3u);
  EXPECT_EQ(stat(sink.element(), "in-place"), 0u);
}

TEST_F(InPlace, BuffersOfSeveralMemoriesAreCopied) {
  Sink sink;
  GstBuffer* const buffer = gst_buffer_new_allocate(nullptr, kGraySize / 2, nullptr);
  gst_buffer_append_memory(buffer, gst_allocator_alloc(nullptr, kGraySize / 2, nullptr));
  EXPECT_EQ(sink.push(buffer), GST_FLOW_OK);
  EXPECT_EQ(stat(sink.element(), "copied-several-memories"), 1u);
}

TEST_F(InPlace, SubBuffersAreCopied) {
  Sink sink;
  GstBufferPool* const pool = sink.pool();
  GstBuffer* const whole = acquire(pool);
  GstBuffer* const part = gst_buffer_copy_region(whole, GST_BUFFER_COPY_MEMORY, 64, kGraySize - 64);
  EXPECT_EQ(sink.push(part), GST_FLOW_OK);
  EXPECT_EQ(stat(sink.element(), "copied-part"), 1u);
  gst_buffer_unref(whole);
  finish(pool);
}

TEST_F(InPlace, MemoryThatBeginsBehindItsSlotIsCopied) {
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

TEST_F(InPlace, SlotsOfAnOlderSizeAreSentWhereTheyLie) {
  Crossing lane("application/octet-stream");
  GstAllocator* const allocator = lane.end().allocator();
  gst_buffer_unref(lane.cross(gst_buffer_new_allocate(allocator, 1000, nullptr)));
  GstBuffer* const older = gst_buffer_new_allocate(allocator, 1000, nullptr);
  gst_buffer_fill(older, 0, "older", 5);
  gst_buffer_unref(lane.cross(gst_buffer_new_allocate(nullptr, 100'000, nullptr)));  // makes larger slots
  GstBuffer* const came = lane.cross(older);
  EXPECT_EQ(text_of(came, 0, 5), "older");
  EXPECT_EQ(stat(lane.sink(), "in-place"), 1u);
  gst_buffer_unref(came);
  gst_object_unref(allocator);
}

TEST_F(InPlace, OfAnotherLaneAreForeign) {
  Sink sink;
  GstHarness* const other = gst_harness_new_parse(over("lanesink lane=y wait-for-consumers=0").c_str());
  gst_harness_set_src_caps_str(other, kGray);
  GstBufferPool* const pool = sink.pool();
  EXPECT_EQ(gst_harness_push(other, acquire(pool)), GST_FLOW_OK);
  gst_harness_teardown(other);
  EXPECT_EQ(sink.push(acquire(pool)), GST_FLOW_OK);
  EXPECT_EQ(stat(sink.element(), "in-place"), 1u);
  finish(pool);
}

class Repeating : public InPlace, public ::testing::WithParamInterface<const char*> {};
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

TEST_F(InPlace, NobodyWritesIntoAPublishedOne) {
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

TEST_F(InPlace, BehindATeeAreCopied) {
  Pipeline pipeline(std::string("videotestsrc num-buffers=20 ! ") + kGray +
                    " ! tee ! lanesink name=sink lane=x wait-for-consumers=0");
  ASSERT_TRUE(pipeline.play().ends());
  EXPECT_EQ(stat(pipeline.element("sink"), "copied-foreign"), 20u) << "tee strips pools, even with one branch";
}

TEST_F(InPlace, ADmabufIsCopiedAndCounted) {
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

class Feature : public InPlace, public ::testing::WithParamInterface<std::pair<const char*, GstFlowReturn>> {};
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

TEST_F(InPlace, TheLastSampleIsNotKeptUnlessAskedFor) {
  Sink sink;
  EXPECT_EQ(sink.push(foreign()), GST_FLOW_OK);
  GstSample* sample = nullptr;
  gboolean enabled = TRUE;
  g_object_get(sink.element(), "enable-last-sample", &enabled, "last-sample", &sample, nullptr);
  EXPECT_FALSE(enabled) << "it pins a slot";
  EXPECT_EQ(sample, nullptr);
}

// --- what comes out

TEST_F(Received, ComeOutReadOnlyInRecycledBuffers) {
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

TEST_F(Received, AreNotRecycledWhileSomebodyHasTheirMemory) {
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

TEST_F(Received, AreNotRecycledIntoBuffersThatSomebodyChanged) {
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

TEST_F(Received, GoBackWhenTheirBufferDoesAndAreNotPinnedByARecycledOne) {
  Crossing lane(kGray, {}, "burst=2 leaky=no full-timeout=18446744073709551615", "max-held=1");
  for (int i = 0; i < 200; ++i) gst_buffer_unref(lane.cross(foreign()));
  EXPECT_EQ(stat(lane.source(), "copied"), 0u) << "one at a time is within max-held";
}

TEST_F(Received, ComeBackOnAnyThread) {
  Crossing lane(kGray, {}, "burst=32 leaky=no full-timeout=18446744073709551615", "max-held=8");
  std::mutex mutex;
  std::vector<GstBuffer*> out;
  std::atomic<bool> done{false};
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i) {
    threads.emplace_back([&] {
      while (!done) {
        GstBuffer* buffer = nullptr;
        {
          const std::lock_guard lock(mutex);
          if (!out.empty()) {
            buffer = out.back();
            out.pop_back();
          }
        }
        if (buffer != nullptr) gst_buffer_unref(buffer);
      }
    });
  }
  for (int i = 0; i < 2000; ++i) {
    GstBuffer* const sent = foreign();
    gst_buffer_memset(sent, 0, static_cast<guint8>(i), kGraySize);
    GstBuffer* const came = lane.cross(sent);
    ASSERT_EQ(text_of(came, kGraySize - 1, 1)[0], static_cast<char>(i));
    const std::lock_guard lock(mutex);
    out.push_back(came);
  }
  done = true;
  for (std::thread& thread : threads) thread.join();
  for (GstBuffer* buffer : out) gst_buffer_unref(buffer);
}

}  // namespace
}  // namespace framelane::gst::test
