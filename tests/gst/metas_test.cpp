// SPDX-License-Identifier: MIT
// What a buffer carries beside its bytes.
#include <cstring>

#include "ends.hpp"

namespace framelane::gst::test {
namespace {

constexpr const char* kBytes = "application/octet-stream";

class MetasTest : public LaneTest {};

TEST_F(MetasTest, EachGstReferenceTimestampMetaCrosses) {
  Crossing lane(kBytes);
  GstBuffer* const sent = buffer_of("frame");
  GstCaps* const unix = gst_caps_from_string("timestamp/x-unix");
  GstCaps* const ntp = gst_caps_from_string("timestamp/x-ntp, host=(string)pool.ntp.org, port=(int)123");
  gst_buffer_add_reference_timestamp_meta(sent, unix, 1'700'000'000'000'000'000u, 40'000'000u);
  gst_buffer_add_reference_timestamp_meta(sent, ntp, 42, GST_CLOCK_TIME_NONE);
  GstBuffer* const came = lane.cross(sent);
  const auto* first = gst_buffer_get_reference_timestamp_meta(came, unix);
  const auto* second = gst_buffer_get_reference_timestamp_meta(came, ntp);
  ASSERT_NE(first, nullptr);
  ASSERT_NE(second, nullptr);
  EXPECT_EQ(first->timestamp, 1'700'000'000'000'000'000u);
  EXPECT_EQ(first->duration, 40'000'000u);
  EXPECT_EQ(second->timestamp, 42u);
  EXPECT_EQ(second->duration, GST_CLOCK_TIME_NONE);
  gst_buffer_unref(came);
  gst_caps_unref(unix);
  gst_caps_unref(ntp);
}

void register_once() {
  if (gst_meta_get_info("FramelaneTestMeta") != nullptr) return;
  const gchar* tags[] = {nullptr};
  gst_meta_register_custom("FramelaneTestMeta", tags, nullptr, nullptr, nullptr);
}

TEST_F(MetasTest, CustomMetasCrossWithTheirFields) {
  register_once();
  Crossing lane(kBytes);
  GstBuffer* const sent = buffer_of("frame");
  GstCustomMeta* const meta = gst_buffer_add_custom_meta(sent, "FramelaneTestMeta");
  gst_structure_set(gst_custom_meta_get_structure(meta), "gain", G_TYPE_DOUBLE, 1.5, "lens", G_TYPE_STRING,
                    "50 mm, \"fast\"", "count", G_TYPE_UINT64, G_GUINT64_CONSTANT(1) << 60, nullptr);
  GstBuffer* const came = lane.cross(sent);
  GstCustomMeta* const crossed = gst_buffer_get_custom_meta(came, "FramelaneTestMeta");
  ASSERT_NE(crossed, nullptr);
  const GstStructure* const fields = gst_custom_meta_get_structure(crossed);
  gdouble gain = 0;
  guint64 count = 0;
  EXPECT_TRUE(gst_structure_get(fields, "gain", G_TYPE_DOUBLE, &gain, "count", G_TYPE_UINT64, &count, nullptr));
  EXPECT_EQ(gain, 1.5);
  EXPECT_EQ(count, G_GUINT64_CONSTANT(1) << 60);
  EXPECT_STREQ(gst_structure_get_string(fields, "lens"), "50 mm, \"fast\"");
  EXPECT_EQ(stat(lane.sink(), "skipped-metas"), 0u);
  EXPECT_EQ(stat(lane.source(), "skipped-metas"), 0u);
  gst_buffer_unref(came);
}

TEST_F(MetasTest, WhatHasNoTextFormIsLeftOutAndCounted) {
  register_once();
  Crossing lane(kBytes);
  for (int i = 0; i < 3; ++i) {
    GstBuffer* const sent = buffer_of("frame");
    GstCustomMeta* const meta = gst_buffer_add_custom_meta(sent, "FramelaneTestMeta");
    gst_structure_set(gst_custom_meta_get_structure(meta), "handle", G_TYPE_POINTER, sent, nullptr);
    GstBuffer* const came = lane.cross(sent);
    EXPECT_EQ(gst_buffer_get_custom_meta(came, "FramelaneTestMeta"), nullptr);
    EXPECT_EQ(text_of(came), "frame");
    gst_buffer_unref(came);
  }
  EXPECT_EQ(stat(lane.sink(), "skipped-metas"), 3u);
}

TEST_F(MetasTest, MoreThanMaxSideDataIsLeftOutAndCounted) {
  register_once();
  Crossing lane(kBytes, {}, "max-side-data=200");
  GstBuffer* const sent = buffer_of("frame");
  GstCaps* const unix = gst_caps_from_string("timestamp/x-unix");
  GstCustomMeta* const large = gst_buffer_add_custom_meta(sent, "FramelaneTestMeta");
  gst_structure_set(gst_custom_meta_get_structure(large), "text", G_TYPE_STRING, std::string(300, 'a').c_str(),
                    nullptr);
  gst_buffer_add_reference_timestamp_meta(sent, unix, 42, 1);
  GstBuffer* const came = lane.cross(sent);
  EXPECT_EQ(gst_buffer_get_custom_meta(came, "FramelaneTestMeta"), nullptr);
  EXPECT_NE(gst_buffer_get_reference_timestamp_meta(came, unix), nullptr) << "what has room crosses";
  EXPECT_EQ(stat(lane.sink(), "skipped-metas"), 1u);
  gst_buffer_unref(came);
  gst_caps_unref(unix);
}

TEST_F(MetasTest, ParentBufferMetasStayAtHome) {
  Crossing lane(kBytes);
  GstBuffer* const parent = buffer_of("parent");
  GstBuffer* const sent = buffer_of("frame");
  gst_buffer_add_parent_buffer_meta(sent, parent);
  gst_buffer_unref(parent);
  gst_buffer_unref(lane.cross(sent));
  EXPECT_EQ(stat(lane.sink(), "skipped-metas"), 0u) << "they say nothing of the frame";
}

TEST_F(MetasTest, WhatDoesNotSerialiseIsLeftOutAndCounted) {
  Crossing lane(kGray);
  GstBuffer* const sent = gst_buffer_new_allocate(nullptr, kGraySize, nullptr);
  const guint8 words[] = {1, 2, 3};
  gst_buffer_add_video_caption_meta(sent, GST_VIDEO_CAPTION_TYPE_CEA708_RAW, words, sizeof words);
  GstBuffer* const came = lane.cross(sent);
  const bool crossed = gst_buffer_get_video_caption_meta(came) != nullptr;
  EXPECT_EQ(stat(lane.sink(), "skipped-metas"), crossed ? 0u : 1u);
  gst_buffer_unref(came);
}

#if GST_CHECK_VERSION(1, 24, 0)

/// A meta of an application, with a form of its own.
struct Gain {
  GstMeta meta;
  gdouble gain;
};

const GstMetaInfo* gain_info() {
  static const GstMetaInfo* info = [] {
    const gchar* tags[] = {nullptr};
    GstMetaInfo* const made =
        gst_meta_info_new(gst_meta_api_type_register("FramelaneGainAPI", tags), "FramelaneGain", sizeof(Gain));
    made->init_func = [](GstMeta*, gpointer, GstBuffer*) -> gboolean { return TRUE; };
    made->serialize_func = [](const GstMeta* meta, GstByteArrayInterface* data, guint8* version) -> gboolean {
      *version = 1;
      const auto* const gain = reinterpret_cast<const Gain*>(meta);
      return gst_byte_array_interface_append_data(data, reinterpret_cast<const guint8*>(&gain->gain), sizeof(gdouble));
    };
    made->deserialize_func = [](const GstMetaInfo* type, GstBuffer* buffer, const guint8* data, gsize size,
                                guint8 version) -> GstMeta* {
      if (version != 1 || size < sizeof(gdouble)) return nullptr;
      GstMeta* const meta = gst_buffer_add_meta(buffer, type, nullptr);
      std::memcpy(&reinterpret_cast<Gain*>(meta)->gain, data, sizeof(gdouble));
      return meta;
    };
    return gst_meta_info_register(made);
  }();
  return info;
}

TEST_F(MetasTest, WhateverSerialisesCrosses) {
  Crossing lane(kBytes);
  GstBuffer* const sent = buffer_of("frame");
  reinterpret_cast<Gain*>(gst_buffer_add_meta(sent, gain_info(), nullptr))->gain = 2.5;
  GstBuffer* const came = lane.cross(sent);
  const auto* const crossed = reinterpret_cast<Gain*>(gst_buffer_get_meta(came, gain_info()->api));
  ASSERT_NE(crossed, nullptr);
  EXPECT_EQ(crossed->gain, 2.5);
  EXPECT_EQ(stat(lane.sink(), "skipped-metas"), 0u);
  gst_buffer_unref(came);
}

#endif

// --- memories

TEST_F(MetasTest, MemoryBoundariesAreRebuilt) {
  Crossing lane(kBytes);
  GstBuffer* const sent = buffer_of("head");
  for (const std::string part : {"payload", "", "tail"}) {
    GstMemory* const more = gst_allocator_alloc(nullptr, part.size(), nullptr);
    gst_buffer_append_memory(sent, more);
    gst_buffer_fill(sent, gst_buffer_get_size(sent) - part.size(), part.data(), part.size());
  }
  GstBuffer* const came = lane.cross(sent);
  ASSERT_EQ(gst_buffer_n_memory(came), 4u);
  const gsize sizes[] = {4, 7, 0, 4};
  for (guint i = 0; i < 4; ++i) EXPECT_EQ(gst_buffer_peek_memory(came, i)->size, sizes[i]);
  EXPECT_EQ(text_of(came), "headpayloadtail");
  EXPECT_EQ(stat(lane.sink(), "copied-several-memories"), 1u);
  gst_buffer_unref(came);
}

TEST_F(MetasTest, PartsOfAFrameOutliveItsBufferAndTheElement) {
  GstMemory* part = nullptr;
  {
    Crossing lane(kBytes);
    GstBuffer* const sent = buffer_of("head");
    GstBuffer* const more = buffer_of("tail");
    GstBuffer* const came = lane.cross(gst_buffer_append(sent, more));
    ASSERT_EQ(gst_buffer_n_memory(came), 2u);
    part = gst_buffer_get_memory(came, 1);
    gst_buffer_unref(came);
  }
  GstMapInfo map;
  ASSERT_TRUE(gst_memory_map(part, &map, GST_MAP_READ));
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(map.data), map.size), "tail");
  gst_memory_unmap(part, &map);
  gst_memory_unref(part);
}

}  // namespace
}  // namespace framelane::gst::test
