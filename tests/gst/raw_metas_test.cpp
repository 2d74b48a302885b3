// SPDX-License-Identifier: MIT
// What the metas of raw video and audio say of the places in a frame.
#include <cstring>

#include <gst/audio/audio.h>
#include <gst/video/video.h>

#include "ends.hpp"

namespace framelane::gst::test {
namespace {

constexpr const char* kI420 = "video/x-raw,format=I420,width=64,height=48,framerate=30/1";
constexpr gsize kI420Size = 64 * 48 * 3 / 2;
constexpr const char* kPlanar =
    "audio/x-raw,format=S16LE,rate=48000,channels=2,layout=non-interleaved,channel-mask=(bitmask)0x3";

std::vector<GType> listed() { return {GST_VIDEO_META_API_TYPE, GST_AUDIO_META_API_TYPE}; }

class RawMetasTest : public LaneTest {};

// --- GstVideoMeta

GstVideoAlignment padding() {
  GstVideoAlignment align;
  gst_video_alignment_reset(&align);
  align.padding_top = 4;
  align.padding_left = 8;
  align.padding_right = 24;
  align.padding_bottom = 2;
  return align;
}

/// Each plane's pixels say plane and row; what is around them is 'x'.
void draw(GstBuffer* buffer) {
  GstVideoInfo info;
  GstVideoFrame frame;
  gst_video_info_set_format(&info, GST_VIDEO_FORMAT_I420, 64, 48);
  gst_buffer_memset(buffer, 0, 'x', gst_buffer_get_size(buffer));
  ASSERT_TRUE(gst_video_frame_map(&frame, &info, buffer, GST_MAP_WRITE));
  for (gint plane = 0; plane < 3; ++plane) {
    for (gint row = 0; row < GST_VIDEO_FRAME_COMP_HEIGHT(&frame, plane); ++row) {
      std::memset(static_cast<char*>(frame.data[plane]) + row * frame.info.stride[plane], plane * 64 + row,
                  static_cast<std::size_t>(GST_VIDEO_FRAME_COMP_WIDTH(&frame, plane)));
    }
  }
  gst_video_frame_unmap(&frame);
}

std::string pixels(GstBuffer* buffer) {
  GstVideoInfo info;
  GstVideoFrame frame;
  gst_video_info_set_format(&info, GST_VIDEO_FORMAT_I420, 64, 48);
  std::string text;
  EXPECT_TRUE(gst_video_frame_map(&frame, &info, buffer, GST_MAP_READ));
  for (gint plane = 0; plane < 3; ++plane) {
    for (gint row = 0; row < GST_VIDEO_FRAME_COMP_HEIGHT(&frame, plane); ++row) {
      text.append(static_cast<const char*>(frame.data[plane]) + row * frame.info.stride[plane],
                  static_cast<std::size_t>(GST_VIDEO_FRAME_COMP_WIDTH(&frame, plane)));
    }
  }
  gst_video_frame_unmap(&frame);
  return text;
}

std::string drawn() {
  std::string text;
  for (int plane = 0; plane < 3; ++plane) {
    for (int row = 0; row < (plane == 0 ? 48 : 24); ++row) {
      text.append(plane == 0 ? 64 : 32, static_cast<char>(plane * 64 + row));
    }
  }
  return text;
}

TEST_F(RawMetasTest, PaddedPlanesCrossWithStridesOffsetsAndAlignment) {
  Crossing lane(kI420, listed());
  GstBufferPool* const pool = lane.end().pool({.alignment = padding()});
  for (int i = 0; i < 30; ++i) {  // recycled buffers at both ends, too
    GstBuffer* const sent = acquire(pool);
    draw(sent);
    const GstVideoMeta said = *gst_buffer_get_video_meta(sent);
    EXPECT_EQ(said.alignment.padding_left, 8u);
    GstBuffer* const came = lane.cross(sent);
    const GstVideoMeta* const meta = gst_buffer_get_video_meta(came);
    ASSERT_NE(meta, nullptr);
    for (guint plane = 0; plane < 3; ++plane) {
      EXPECT_EQ(meta->offset[plane], said.offset[plane]);
      EXPECT_EQ(meta->stride[plane], said.stride[plane]);
    }
    EXPECT_EQ(meta->alignment.padding_top, said.alignment.padding_top);
    EXPECT_EQ(meta->alignment.padding_left, said.alignment.padding_left);
    EXPECT_EQ(meta->alignment.padding_right, said.alignment.padding_right);
    EXPECT_EQ(meta->alignment.padding_bottom, said.alignment.padding_bottom);
    EXPECT_EQ(pixels(came), drawn());
    gst_buffer_unref(came);
  }
  EXPECT_EQ(stat(lane.sink(), "in-place"), 30u);
  EXPECT_EQ(stat(lane.source(), "repacked"), 0u);
  finish(pool);
}

TEST_F(RawMetasTest, PaddedPlanesAreRepackedForWhoDoesNotListGstVideoMeta) {
  Crossing lane(kI420);
  GstBufferPool* const pool = lane.end().pool({.alignment = padding()});
  GstBuffer* const sent = acquire(pool);
  draw(sent);
  GstBuffer* const came = lane.cross(sent);
  EXPECT_EQ(gst_buffer_get_video_meta(came), nullptr);
  EXPECT_EQ(text_of(came), drawn());
  EXPECT_EQ(stat(lane.source(), "repacked"), 1u);
  gst_buffer_unref(came);
  finish(pool);
}

TEST_F(RawMetasTest, FlagsAndIdOfGstVideoMetaCrossWithTheirFrameOnly) {
  Crossing lane(kI420, listed());
  for (int i = 0; i < 6; ++i) {
    GstBuffer* const sent = gst_buffer_new_allocate(nullptr, kI420Size, nullptr);
    GstVideoMeta* const meta =
        gst_buffer_add_video_meta(sent, GST_VIDEO_FRAME_FLAG_NONE, GST_VIDEO_FORMAT_I420, 64, 48);
    if (i % 2 == 0) {
      meta->flags = static_cast<GstVideoFrameFlags>(GST_VIDEO_FRAME_FLAG_INTERLACED | GST_VIDEO_FRAME_FLAG_TFF);
      meta->id = 3;
    }
    GstBuffer* const came = lane.cross(sent);
    const GstVideoMeta* const crossed = gst_buffer_get_video_meta(came);
    if (i % 2 == 0) {
      ASSERT_NE(crossed, nullptr);
      EXPECT_EQ(crossed->flags, GST_VIDEO_FRAME_FLAG_INTERLACED | GST_VIDEO_FRAME_FLAG_TFF);
      EXPECT_EQ(crossed->id, 3);
    } else {
      EXPECT_EQ(crossed, nullptr) << "it would say what the caps say";
    }
    gst_buffer_unref(came);
  }
}

// --- GstVideoCropMeta

TEST_F(RawMetasTest, GstVideoCropMetaCrosses) {
  Crossing lane(kI420, listed());
  GstBuffer* const sent = gst_buffer_new_allocate(nullptr, kI420Size, nullptr);
  GstVideoCropMeta* const crop = gst_buffer_add_video_crop_meta(sent);
  crop->x = 2;
  crop->y = 4;
  crop->width = 32;
  crop->height = 16;
  GstBuffer* const came = lane.cross(sent);
  const GstVideoCropMeta* const crossed = gst_buffer_get_video_crop_meta(came);
  ASSERT_NE(crossed, nullptr);
  EXPECT_EQ(crossed->x, 2u);
  EXPECT_EQ(crossed->y, 4u);
  EXPECT_EQ(crossed->width, 32u);
  EXPECT_EQ(crossed->height, 16u);
  gst_buffer_unref(came);
}

TEST_F(RawMetasTest, APictureLargerThanItsCapsIsCroppedByItsMetas) {
  Crossing lane("video/x-raw,format=GRAY8,width=8,height=4,framerate=30/1", listed());
  GstBuffer* const sent = gst_buffer_new_allocate(nullptr, 32 * 16, nullptr);
  for (gsize row = 0; row < 16; ++row) {
    for (gsize column = 0; column < 32; ++column) {
      gst_buffer_memset(sent, row * 32 + column, static_cast<guint8>(row * 16 + column), 1);
    }
  }
  gst_buffer_add_video_meta(sent, GST_VIDEO_FRAME_FLAG_NONE, GST_VIDEO_FORMAT_GRAY8, 32, 16);
  GstVideoCropMeta* const crop = gst_buffer_add_video_crop_meta(sent);
  crop->x = 5;
  crop->y = 3;
  crop->width = 8;
  crop->height = 4;
  GstBuffer* const came = lane.cross(sent);
  EXPECT_EQ(gst_buffer_get_video_crop_meta(came), nullptr) << "it is done";
  std::string expected;
  for (int row = 3; row < 7; ++row) {
    for (int column = 5; column < 13; ++column) expected += static_cast<char>(row * 16 + column);
  }
  EXPECT_EQ(text_of(came), expected);
  EXPECT_EQ(stat(lane.sink(), "copied-layout"), 1u);
  gst_buffer_unref(came);
}

TEST_F(RawMetasTest, AGstVideoMetaSmallerThanTheCapsIsOneClearError) {
  Crossing lane(kI420);
  GstBuffer* const sent = gst_buffer_new_allocate(nullptr, kI420Size, nullptr);
  gst_buffer_add_video_meta(sent, GST_VIDEO_FRAME_FLAG_NONE, GST_VIDEO_FORMAT_I420, 32, 24);
  EXPECT_EQ(lane.push(sent), GST_FLOW_ERROR);
}

// --- GstAudioMeta

/// Two planes of 100 samples, the second one behind a gap.
GstBuffer* padded_audio(GstAllocator* allocator) {
  GstAudioInfo info;
  GstCaps* const caps = gst_caps_from_string(kPlanar);
  EXPECT_TRUE(gst_audio_info_from_caps(&info, caps));
  gst_caps_unref(caps);
  GstBuffer* const buffer = gst_buffer_new_allocate(allocator, 600, nullptr);
  gst_buffer_memset(buffer, 0, 'x', 600);
  gst_buffer_memset(buffer, 16, 'l', 200);
  gst_buffer_memset(buffer, 320, 'r', 200);
  gsize offsets[] = {16, 320};
  gst_buffer_add_audio_meta(buffer, &info, 100, offsets);
  return buffer;
}

TEST_F(RawMetasTest, PaddedPlanesOfAudioCrossInPlace) {
  Crossing lane(kPlanar, listed());
  GstAllocator* const allocator = lane.end().allocator();
  gst_buffer_unref(lane.cross(padded_audio(allocator)));  // makes the slots
  GstBuffer* const came = lane.cross(padded_audio(allocator));
  const GstAudioMeta* const meta = gst_buffer_get_audio_meta(came);
  ASSERT_NE(meta, nullptr);
  EXPECT_EQ(meta->samples, 100u);
  EXPECT_EQ(meta->offsets[0], 16u);
  EXPECT_EQ(meta->offsets[1], 320u);
  EXPECT_EQ(text_of(came, 16, 200), std::string(200, 'l'));
  EXPECT_EQ(text_of(came, 320, 200), std::string(200, 'r'));
  EXPECT_EQ(stat(lane.sink(), "in-place"), 1u);
  EXPECT_EQ(stat(lane.source(), "repacked"), 0u);
  gst_buffer_unref(came);
  gst_object_unref(allocator);
}

TEST_F(RawMetasTest, PaddedPlanesOfAudioAreRepackedForWhoDoesNotListGstAudioMeta) {
  Crossing lane(kPlanar);
  GstAllocator* const allocator = lane.end().allocator();
  gst_buffer_unref(lane.cross(padded_audio(allocator)));
  GstBuffer* const came = lane.cross(padded_audio(allocator));
  EXPECT_EQ(text_of(came), std::string(200, 'l') + std::string(200, 'r'));
  const GstAudioMeta* const meta = gst_buffer_get_audio_meta(came);
  ASSERT_NE(meta, nullptr) << "planar audio has one always";
  EXPECT_EQ(meta->samples, 100u);
  EXPECT_EQ(meta->offsets[1], 200u);
  EXPECT_EQ(stat(lane.source(), "repacked"), 1u);
  gst_buffer_unref(came);
  gst_object_unref(allocator);
}

TEST_F(RawMetasTest, PaddedPlanesOfForeignAudioArePackedOnce) {
  Crossing lane(kPlanar, listed());
  GstBuffer* const came = lane.cross(padded_audio(nullptr));
  EXPECT_EQ(text_of(came), std::string(200, 'l') + std::string(200, 'r'));
  EXPECT_EQ(gst_buffer_get_audio_meta(came)->samples, 100u);
  gst_buffer_unref(came);
}

TEST_F(RawMetasTest, SamplesBehindThoseThatGstAudioMetaCountsStayBehind) {
  const std::string caps = "audio/x-raw,format=S16LE,rate=48000,channels=2,layout=interleaved";
  Crossing lane(caps, listed());
  GstAudioInfo info;
  GstCaps* const parsed = gst_caps_from_string(caps.c_str());
  ASSERT_TRUE(gst_audio_info_from_caps(&info, parsed));
  gst_caps_unref(parsed);
  GstBuffer* const sent = buffer_of(std::string(400, 's') + std::string(100, 'x'));
  gst_buffer_add_audio_meta(sent, &info, 100, nullptr);
  GstBuffer* const came = lane.cross(sent);
  EXPECT_EQ(text_of(came), std::string(400, 's'));
  gst_buffer_unref(came);
}

}  // namespace
}  // namespace framelane::gst::test
