// SPDX-License-Identifier: MIT
// Caps and descriptors.
#include "c_lanes.hpp"

namespace framelane::capi_test {
namespace {

TEST_F(CTest, VideoCapsSayWhereThePlanesAre) {
  framelane_format* format = nullptr;
  ASSERT_EQ(framelane_format_parse("video/x-raw, format=NV12, width=63, height=47, framerate=30/1", &format),
            FRAMELANE_OK)
      << framelane_error_text();
  EXPECT_EQ(framelane_format_kind(format), FRAMELANE_FORMAT_VIDEO);
  EXPECT_DOUBLE_EQ(framelane_format_frame_rate(format), 30.0);
  framelane_video_format video{};
  video.size = sizeof video;
  ASSERT_EQ(framelane_format_get_video(format, &video), FRAMELANE_OK);
  EXPECT_STREQ(video.format, "NV12");
  EXPECT_EQ(video.width, 63);
  ASSERT_EQ(video.num_planes, 2u);
  EXPECT_EQ(video.planes[0].stride, 64u);
  EXPECT_EQ(video.planes[0].rows, 48u);
  EXPECT_EQ(video.planes[0].columns, 63u);
  EXPECT_EQ(video.planes[0].channels, 1u);
  EXPECT_EQ(video.planes[1].offset, 64u * 48u);
  EXPECT_EQ(video.planes[1].rows, 24u);
  EXPECT_EQ(video.planes[1].columns, 32u);
  EXPECT_EQ(video.planes[1].channels, 2u);
  EXPECT_EQ(video.planes[1].sample_size, 1u);
  EXPECT_EQ(video.frame_size, 64u * 72u);
  EXPECT_EQ(framelane_format_frame_size(format), video.frame_size);
  framelane_audio_format audio{};
  audio.size = sizeof audio;
  EXPECT_EQ(framelane_format_get_audio(format, &audio), FRAMELANE_INVALID_ARGUMENT);
  framelane_format_unref(format);
}

TEST_F(CTest, VideoFromValues) {
  framelane_video_format video{};
  video.size = sizeof video;
  video.width = 8;
  video.height = 2;
  video.fps_n = 25;
  video.fps_d = 1;
  std::strcpy(video.format, "RGB");
  framelane_format* format = nullptr;
  ASSERT_EQ(framelane_format_from_video(&video, &format), FRAMELANE_OK) << framelane_error_text();
  EXPECT_STREQ(framelane_format_caps(format),
               "video/x-raw, format=(string)RGB, width=(int)8, height=(int)2, framerate=(fraction)25/1");
  ASSERT_EQ(framelane_format_get_video(format, &video), FRAMELANE_OK);
  EXPECT_EQ(video.planes[0].channels, 3u);
  framelane_format_unref(format);
  video.width = 0;
  EXPECT_EQ(framelane_format_from_video(&video, &format), FRAMELANE_INVALID_ARGUMENT);
  EXPECT_EQ(format, nullptr);
}

TEST_F(CTest, AudioBothWays) {
  framelane_audio_format audio{};
  audio.size = sizeof audio;
  audio.rate = 48000;
  audio.channels = 2;
  audio.interleaved = 1;
  std::strcpy(audio.format, "F32LE");
  framelane_format* format = nullptr;
  ASSERT_EQ(framelane_format_from_audio(&audio, &format), FRAMELANE_OK) << framelane_error_text();
  EXPECT_EQ(framelane_format_frame_size(format), 8u);
  EXPECT_EQ(framelane_format_ref(format), format);
  framelane_format_unref(format);
  framelane_audio_format told{};
  told.size = sizeof told;
  ASSERT_EQ(framelane_format_get_audio(format, &told), FRAMELANE_OK);
  EXPECT_EQ(told.sample_size, 4u);
  EXPECT_EQ(told.channels, 2);
  EXPECT_EQ(told.has_channel_mask, 0);
  EXPECT_STREQ(told.format, "F32LE");
  framelane_format_unref(format);
}

TEST_F(CTest, TensorsHaveNamesAndShapes) {
  framelane_tensor tensors[2]{};
  tensors[0].size = tensors[1].size = sizeof tensors[0];
  tensors[0].type = FRAMELANE_TENSOR_FLOAT32;
  tensors[0].rank = 2;
  tensors[0].shape[0] = 80;
  tensors[0].shape[1] = 100;
  std::strcpy(tensors[0].name, "mel");
  tensors[1].type = FRAMELANE_TENSOR_UINT8;
  tensors[1].rank = 1;
  tensors[1].shape[0] = 5;
  framelane_format* format = nullptr;
  ASSERT_EQ(framelane_format_from_tensors(tensors, 2, 30, 1, &format), FRAMELANE_OK) << framelane_error_text();
  EXPECT_STREQ(framelane_format_caps(format),
               "other/tensors, format=(string)static, num_tensors=(int)2, types=(string)\"float32\\,uint8\", "
               "dimensions=(string)\"100:80\\,5\", names=(string)\"mel\\,\", framerate=(fraction)30/1");
  EXPECT_EQ(framelane_format_num_tensors(format), 2u);
  EXPECT_EQ(framelane_format_frame_size(format), 32005u);
  framelane_tensor told{};
  told.size = sizeof told;
  ASSERT_EQ(framelane_format_get_tensor(format, 0, &told), FRAMELANE_OK);
  EXPECT_STREQ(told.name, "mel");
  EXPECT_EQ(told.shape[0], 80u);
  EXPECT_EQ(told.bytes, 32000u);
  ASSERT_EQ(framelane_format_get_tensor(format, 1, &told), FRAMELANE_OK);
  EXPECT_STREQ(told.name, "");
  EXPECT_EQ(told.offset, 32000u);
  EXPECT_EQ(framelane_format_get_tensor(format, 2, &told), FRAMELANE_INVALID_ARGUMENT);
  framelane_format_unref(format);

  std::strcpy(tensors[0].name, "not a name");
  EXPECT_EQ(framelane_format_from_tensors(tensors, 2, 30, 1, &format), FRAMELANE_INVALID_ARGUMENT);
  tensors[0].rank = 17;
  EXPECT_EQ(framelane_format_from_tensors(tensors, 2, 30, 1, &format), FRAMELANE_INVALID_ARGUMENT);
  EXPECT_EQ(framelane_format_from_tensors(tensors, 0, 30, 1, &format), FRAMELANE_INVALID_ARGUMENT);
}

TEST_F(CTest, TensorTypesHaveNamesAndSizes) {
  EXPECT_STREQ(framelane_tensor_type_name(FRAMELANE_TENSOR_FLOAT16), "float16");
  EXPECT_STREQ(framelane_tensor_type_name(11), "unknown");
  EXPECT_EQ(framelane_tensor_type_size(FRAMELANE_TENSOR_INT64), 8u);
  EXPECT_EQ(framelane_tensor_type_size(-1), 0u);
  EXPECT_EQ(framelane_tensor_type_of("float32"), FRAMELANE_TENSOR_FLOAT32);
  EXPECT_EQ(framelane_tensor_type_of("float"), -1);
}

TEST_F(CTest, OtherCapsAreTextAndWrongOnesAreRefused) {
  framelane_format* format = nullptr;
  ASSERT_EQ(framelane_format_parse("video/x-h264, stream-format=byte-stream, framerate=25/1", &format), FRAMELANE_OK);
  EXPECT_EQ(framelane_format_kind(format), FRAMELANE_FORMAT_OTHER);
  EXPECT_DOUBLE_EQ(framelane_format_frame_rate(format), 25.0);
  EXPECT_EQ(framelane_format_frame_size(format), 0u);
  framelane_format_unref(format);
  EXPECT_EQ(framelane_format_parse("video/x-raw, format=NV12, width=0, height=2", &format), FRAMELANE_INVALID_ARGUMENT);
  EXPECT_EQ(framelane_format_parse("video/x-raw(memory:DMABuf), format=NV12, width=4, height=2", &format),
            FRAMELANE_UNSUPPORTED);
  EXPECT_EQ(framelane_format_parse("", &format), FRAMELANE_INVALID_ARGUMENT);
  EXPECT_EQ(format, nullptr);
}

TEST_F(CTest, DescriptorsParseAndPrint) {
  framelane_descriptor* descriptor = nullptr;
  ASSERT_EQ(framelane_descriptor_parse("lane.shm:///tmp/x/cam0,lane.tcp://[::1]:7411/cam0", FRAMELANE_SIDE_CONSUMER,
                                       &descriptor),
            FRAMELANE_OK)
      << framelane_error_text();
  EXPECT_STREQ(framelane_descriptor_text(descriptor), "lane.shm:///tmp/x/cam0,lane.tcp://[::1]:7411/cam0");
  EXPECT_STREQ(framelane_descriptor_name(descriptor), "cam0");
  ASSERT_EQ(framelane_descriptor_num_addresses(descriptor), 2u);
  framelane_address addresses[2]{};
  for (std::size_t i = 0; i < 2; ++i) {
    addresses[i].size = sizeof addresses[i];
    ASSERT_EQ(framelane_descriptor_get_address(descriptor, i, &addresses[i]), FRAMELANE_OK);
  }
  EXPECT_STREQ(addresses[0].directory, "/tmp/x");
  EXPECT_STREQ(addresses[1].host, "::1");
  EXPECT_EQ(addresses[1].port, 7411u);
  const char* path = nullptr;
  ASSERT_EQ(framelane_descriptor_socket_path(descriptor, &path), FRAMELANE_OK);
  EXPECT_STREQ(path, "/tmp/x/cam0");
  framelane_descriptor* same = nullptr;
  ASSERT_EQ(framelane_descriptor_from_addresses(addresses, 2, &same), FRAMELANE_OK) << framelane_error_text();
  EXPECT_STREQ(framelane_descriptor_text(same), framelane_descriptor_text(descriptor));
  EXPECT_EQ(framelane_descriptor_get_address(descriptor, 2, &addresses[0]), FRAMELANE_INVALID_ARGUMENT);
  addresses[1].port = 65536;
  framelane_descriptor* wrong = nullptr;
  EXPECT_EQ(framelane_descriptor_from_addresses(addresses, 2, &wrong), FRAMELANE_INVALID_ARGUMENT);
  EXPECT_EQ(framelane_descriptor_from_addresses(nullptr, 0, &wrong), FRAMELANE_INVALID_ARGUMENT);
  EXPECT_EQ(framelane_descriptor_parse("lane.tpc://h:1/x", FRAMELANE_SIDE_CONSUMER, &wrong),
            FRAMELANE_INVALID_ARGUMENT);
  EXPECT_EQ(wrong, nullptr);
  framelane_descriptor_free(same);
  framelane_descriptor_free(descriptor);
  char text[256];
  EXPECT_EQ(framelane_runtime_dir(text, sizeof text), directory_.size());
  EXPECT_EQ(text, directory_);
  EXPECT_EQ(framelane_runtime_dir(nullptr, 0), directory_.size());
}

}  // namespace
}  // namespace framelane::capi_test
