// SPDX-License-Identifier: MIT
#include <limits>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "framelane/format/caps.hpp"

namespace framelane::format {
namespace {

VideoFormat parsed(const std::string& caps) {
  const auto video = VideoFormat::parse(caps);
  EXPECT_TRUE(video) << video.error().text;
  return video.value_or(VideoFormat{});
}

VideoFormat sized(const std::string& format, int width, int height) { return {format, width, height, 0, 1, {}}; }

TEST(VideoCaps, AreReadAsGStreamerPrintsThem) {
  const VideoFormat video = parsed(
      "video/x-raw, format=(string)I420, width=(int)1024, height=(int)768, interlace-mode=(string)progressive, "
      "multiview-mode=(string)mono, multiview-flags=(GstVideoMultiviewFlagsSet)0:ffffffff:/right-view-first, "
      "pixel-aspect-ratio=(fraction)1/1, chroma-site=(string)jpeg, colorimetry=(string)2:4:7:1, "
      "framerate=(fraction)30000/1001");
  EXPECT_EQ(video, (VideoFormat{"I420", 1024, 768, 30000, 1001, {}}));
}

TEST(VideoCaps, AreReadAsPeopleTypeThem) {
  const VideoFormat want{"NV12", 320, 240, 30, 1, {}};
  for (const char* caps : {
           "video/x-raw,format=NV12,width=320,height=240,framerate=30/1",
           "video/x-raw,framerate=30,height=240,width=320,format=NV12",
           " video/x-raw , format = ( string ) \"NV12\" , width = (i) 320 , height=(gint)240, framerate=(fraction) "
           "30/1 ; ",
           "video/x-raw(memory:SystemMemory),format=(s)NV12,width=320,height=0xf0,framerate=(GstFraction)60/2",
           "video/x-raw( memory:SystemMemory , meta:GstVideoOverlayComposition ),\n\tformat=NV12,width=320,height=240,"
           "framerate=30/1",
           "video/x-raw,format=(str)\"\\116V\\12\",width=320,height=240,framerate=30/1;",
           "video/x-raw,width=1,format=NV12,width=320,height=240,framerate=30/1",
       }) {
    EXPECT_EQ(parsed(caps), want) << caps;
  }
}

TEST(VideoCaps, NeedNoFrameRate) { EXPECT_EQ(parsed("video/x-raw,format=RGB,width=3,height=3"), sized("RGB", 3, 3)); }

TEST(VideoCaps, IgnoreValuesThatAreNotTheirOwn) {
  EXPECT_EQ(parsed("video/x-raw, list=(string){ a, \"}\", { b } }, range=[ 1, 2 ], array=(int)< 1, < 2, 3 > >, "
                   "data=(buffer)00ff, nested=(GstStructure)\"x\\,\\ y=(int)1\\;\", format=RGB, width=3, height=3"),
            sized("RGB", 3, 3));
}

TEST(VideoCaps, ArePrintedAsGStreamerPrintsThem) {
  EXPECT_EQ((VideoFormat{"I420", 640, 480, 30, 1, {}}).to_caps(),
            "video/x-raw, format=(string)I420, width=(int)640, height=(int)480, framerate=(fraction)30/1");
  EXPECT_EQ((VideoFormat{"I420", 640, 480, 0, 1, "interleaved"}).to_caps(),
            "video/x-raw, format=(string)I420, width=(int)640, height=(int)480, framerate=(fraction)0/1, "
            "interlace-mode=(string)interleaved");
}

TEST(VideoCaps, ComeBackAsTheyWere) {
  for (const VideoFormat& video : {VideoFormat{"I420", 1, 1, 0, 1, {}}, VideoFormat{"GRAY16_LE", 7, 9, 24000, 1001, {}},
                                   VideoFormat{"RGB", std::numeric_limits<int>::max(), 2, 1, 5, "mixed"},
                                   VideoFormat{"a, b=\"\\;\n\xc3\xa9", 3, 3, 0, 1, {}}}) {
    EXPECT_EQ(parsed(video.to_caps()), video) << video.to_caps();
  }
}

struct Sizes {
  const char* format;
  // bytes at 640x480, 322x241, 321x241, 3x3, 1x1 and 1920x1080, as GStreamer 1.22 has them
  std::uint64_t bytes[6];
};
constexpr int kSides[6][2] = {{640, 480}, {322, 241}, {321, 241}, {3, 3}, {1, 1}, {1920, 1080}};
constexpr Sizes kSizes[] = {
    {"I420", {460800, 118096, 118096, 32, 16, 3110400}},      {"YV12", {460800, 118096, 118096, 32, 16, 3110400}},
    {"NV12", {460800, 117612, 117612, 24, 12, 3110400}},      {"NV21", {460800, 117612, 117612, 24, 12, 3110400}},
    {"Y42B", {614400, 157132, 157132, 36, 12, 4147200}},      {"Y444", {921600, 234252, 234252, 36, 12, 6220800}},
    {"YUY2", {614400, 155204, 155204, 24, 4, 4147200}},       {"UYVY", {614400, 155204, 155204, 24, 4, 4147200}},
    {"RGB", {921600, 233288, 232324, 36, 4, 6220800}},        {"BGR", {921600, 233288, 232324, 36, 4, 6220800}},
    {"RGBA", {1228800, 310408, 309444, 36, 4, 8294400}},      {"BGRA", {1228800, 310408, 309444, 36, 4, 8294400}},
    {"BGRx", {1228800, 310408, 309444, 36, 4, 8294400}},      {"GRAY8", {307200, 78084, 78084, 12, 4, 2073600}},
    {"GRAY16_LE", {614400, 155204, 155204, 24, 4, 4147200}},  {"P010_10LE", {921600, 233772, 233772, 48, 12, 6220800}},
    {"I420_10LE", {921600, 234256, 234256, 48, 16, 6220800}}, {"I422_10LE", {1228800, 312664, 312664, 64, 24, 8294400}},
    {"NV16", {614400, 156168, 156168, 24, 8, 4147200}},       {"NV24", {921600, 233288, 233288, 36, 8, 6220800}},
    {"A420", {768000, 196504, 196504, 48, 24, 5184000}},      {"RGB16", {614400, 155204, 155204, 24, 4, 4147200}},
    {"ARGB64", {2457600, 620816, 618888, 72, 8, 16588800}},
};

TEST(VideoFrame, HasTheSizeThatGStreamerGivesIt) {
  for (const Sizes& row : kSizes) {
    for (std::size_t i = 0; i < std::size(kSides); ++i) {
      const VideoFormat video = sized(row.format, kSides[i][0], kSides[i][1]);
      EXPECT_EQ(video.frame_size().value_or(0), row.bytes[i]) << video.to_caps();
    }
  }
}

TEST(VideoFrame, HasThePlanesThatGStreamerGivesIt) {
  using Planes = std::vector<Plane>;
  EXPECT_EQ(sized("I420", 321, 243).planes().value_or(Planes{}),
            (Planes{{0, 324, 244}, {79056, 164, 122}, {99064, 164, 122}}));
  EXPECT_EQ(sized("NV12", 3, 3).planes().value_or(Planes{}), (Planes{{0, 4, 4}, {16, 4, 2}}));
  EXPECT_EQ(sized("Y444", 5, 2).planes().value_or(Planes{}), (Planes{{0, 8, 2}, {16, 8, 2}, {32, 8, 2}}));
  EXPECT_EQ(sized("P010_10LE", 3, 3).planes().value_or(Planes{}), (Planes{{0, 8, 4}, {32, 8, 2}}));
  EXPECT_EQ(sized("Y42B", 5, 3).planes().value_or(Planes{}), (Planes{{0, 8, 3}, {24, 4, 3}, {36, 4, 3}}));
  EXPECT_EQ(sized("RGB", 3, 3).planes().value_or(Planes{}), (Planes{{0, 12, 3}}));
}

TEST(VideoFrame, HasMoreChromaRowsWhenTwoFieldsShareThem) {
  EXPECT_EQ(sized("I420", 4, 2).frame_size().value_or(0), 16u);
  for (const char* mode : {"interleaved", "mixed"}) {
    EXPECT_EQ((VideoFormat{"I420", 4, 2, 0, 1, mode}).frame_size().value_or(0), 24u);
    EXPECT_EQ((VideoFormat{"RGB", 4, 2, 0, 1, mode}).frame_size().value_or(0), 24u);
  }
}

using Samples = std::vector<PlaneSamples>;

TEST(VideoFrame, KnowsHowSamplesLieInItsPlanes) {
  EXPECT_EQ(sized("I420", 5, 3).samples().value_or(Samples{}), (Samples{{5, 1, 1}, {3, 1, 1}, {3, 1, 1}}));
  EXPECT_EQ(sized("NV12", 3, 3).samples().value_or(Samples{}), (Samples{{3, 1, 1}, {2, 2, 1}}));
  EXPECT_EQ(sized("P010_10LE", 3, 3).samples().value_or(Samples{}), (Samples{{3, 1, 2}, {2, 2, 2}}));
  EXPECT_EQ(sized("BGR", 5, 1).samples().value_or(Samples{}), (Samples{{5, 3, 1}}));
  EXPECT_EQ(sized("ARGB64", 5, 1).samples().value_or(Samples{}), (Samples{{5, 4, 2}}));
  EXPECT_EQ(sized("GRAY16_LE", 5, 1).samples().value_or(Samples{}), (Samples{{5, 1, 2}}));
  EXPECT_EQ(sized("YUY2", 5, 1).samples().value_or(Samples{}), (Samples{{3, 4, 1}}));
  EXPECT_EQ(sized("RGB16", 5, 1).samples().value_or(Samples{}), (Samples{{5, 0, 2}})) << "they share bytes";
  EXPECT_FALSE(sized("ENCODED", 4, 4).samples());
}

Code size_error(const VideoFormat& video) {
  const auto size = video.frame_size();
  EXPECT_FALSE(size) << video.to_caps();
  return size ? Code::kSystem : size.error().code;
}

TEST(VideoFrame, HasNoSizeWhenThatIsNotKnown) {
  EXPECT_EQ(size_error(sized("", 4, 4)), Code::kUnsupported);
  EXPECT_EQ(size_error(sized("ENCODED", 4, 4)), Code::kUnsupported);
  EXPECT_EQ(size_error(sized("I420 YV12", 4, 4)), Code::kUnsupported);
  EXPECT_EQ(size_error(sized("i420", 4, 4)), Code::kUnsupported);
  EXPECT_EQ(size_error({"I420", 4, 4, 0, 1, "alternate"}), Code::kUnsupported);
}

TEST(VideoFrame, HasNoSizeWithSidesThatCanNotBe) {
  constexpr int kMost = std::numeric_limits<int>::max();
  EXPECT_EQ(size_error(sized("I420", 0, 4)), Code::kInvalidArgument);
  EXPECT_EQ(size_error(sized("I420", 4, -1)), Code::kInvalidArgument);
  EXPECT_EQ(size_error(sized("I420", kMost, 4)), Code::kTooLarge);
  EXPECT_EQ(size_error(sized("I420", 4, kMost)), Code::kTooLarge);
}

TEST(VideoFrame, HasASizeUpToTheLargestSides) {
  EXPECT_EQ(sized("ARGB64", 1 << 24, 1 << 24).frame_size().value_or(0), std::uint64_t{1} << 51);
}

}  // namespace
}  // namespace framelane::format
