// SPDX-License-Identifier: MIT
#include "framelane/format/plane_layout.hpp"

#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace framelane::format {
namespace {

PlaneLayout parsed(const std::string& text) {
  const auto layout = PlaneLayout::parse(text);
  EXPECT_TRUE(layout) << layout.error().text;
  return layout.value_or(PlaneLayout{});
}

TEST(PlaneLayout, IsReadAsGStreamerPrintsIt) {
  PlaneLayout want;
  want.places = {{0, 64}, {4096, 32}};
  EXPECT_EQ(parsed("framelane-layout, offset=(guint64)< 0, 4096 >, stride=(int)< 64, 32 >;"), want);
  EXPECT_EQ(parsed("framelane-layout, offset=< (guint64)0, (guint64)4096 >, stride=< (int)64, (int)32 >"), want);
  EXPECT_EQ(parsed("framelane-layout,stride=<64,32>,offset=<0,4096>"), want);
  want.top = 1;
  want.bottom = 2;
  want.left = 3;
  want.right = 16383;
  want.stride_align = {15, 31, 0, 0};
  EXPECT_EQ(parsed("framelane-layout, offset=(guint64)< 0, 4096 >, stride=(int)< 64, 32 >, top=(uint)1, "
                   "bottom=(uint)2, left=(uint)3, right=(uint)16383, align0=(uint)15, align1=(uint)31;"),
            want);
}

TEST(PlaneLayout, WithoutPlanesIsTheCapsOwn) {
  EXPECT_EQ(parsed("framelane-layout, offset=(guint64)<  >, stride=(int)<  >, top=(uint)0;"), PlaneLayout{});
}

TEST(PlaneLayout, AnythingElseIsRefused) {
  for (const char* text : {"",
                           "framelane-layout",
                           "another-layout, offset=(guint64)< 0 >, stride=(int)< 64 >",
                           "framelane-layout, offset=(guint64)< 0 >",
                           "framelane-layout, stride=(int)< 64 >",
                           "framelane-layout, offset=(guint64)< 0, 1 >, stride=(int)< 64 >",
                           "framelane-layout, offset=(guint64)< 0, >, stride=(int)< 64 >",
                           "framelane-layout, offset=(guint64)< , >, stride=(int)< , >",
                           "framelane-layout, offset=(guint64)< 0 1 >, stride=(int)< 64 >",
                           "framelane-layout, offset=(guint64)< 0x >, stride=(int)< 64 >",
                           "framelane-layout, offset=(guint64)< zero >, stride=(int)< 64 >",
                           "framelane-layout, offset=(guint64)< -1 >, stride=(int)< 64 >",
                           "framelane-layout, offset=(guint64)< 4294967296 >, stride=(int)< 64 >",
                           "framelane-layout, offset=(guint64)< 99999999999999999999 >, stride=(int)< 64 >",
                           "framelane-layout, offset=(guint64)< 0 >, stride=(int)< 0 >",
                           "framelane-layout, offset=(guint64)< 0 >, stride=(int)< -64 >",
                           "framelane-layout, offset=(guint64)< 0 >, stride=(int)< 16777217 >",
                           "framelane-layout, offset=(guint64)0, stride=(int)64",
                           "framelane-layout, offset=(guint64){ 0 }, stride=(int){ 64 }",
                           "framelane-layout, offset=(string)< 0 >, stride=(int)< 64 >",
                           "framelane-layout, offset=< (string)0 >, stride=(int)< 64 >",
                           "framelane-layout, offset=(guint64)< 0, 0, 0, 0, 0 >, stride=(int)< 1, 1, 1, 1, 1 >",
                           "framelane-layout, offset=(guint64)< 0 >, stride=(int)< 64",
                           "framelane-layout, offset=(guint64)< 0 >, stride=(int)< 64 >, top=(uint)16384",
                           "framelane-layout, offset=(guint64)< 0 >, stride=(int)< 64 >, left=(uint)-1",
                           "framelane-layout, offset=(guint64)< 0 >, stride=(int)< 64 >, align0=(uint)14"}) {
    const auto layout = PlaneLayout::parse(text);
    EXPECT_FALSE(layout) << text;
    if (!layout) {
      EXPECT_EQ(layout.error().code, Code::kProtocol) << text;
    }
  }
}

TEST(PlaneLayout, PlacesThePlanesOfItsCaps) {
  const VideoFormat video{"NV12", 63, 47, 0, 1, {}};
  PlaneLayout layout;
  layout.places = {{64, 96}, {8192, 128}};
  const auto placed = planes(video, layout);
  ASSERT_TRUE(placed) << placed.error().text;
  EXPECT_EQ(*placed, (std::vector<Plane>{{64, 96, 47}, {8192, 128, 24}}));
  EXPECT_EQ(frame_size(video, layout).value_or(0), 8192u + 23u * 128u + 64u);
  layout.places[0].offset = 20000;  // behind the other
  EXPECT_EQ(frame_size(video, layout).value_or(0), 20000u + 46u * 96u + 63u);
}

TEST(PlaneLayout, WithoutPlacesPlanesAreWhereTheCapsPutThem) {
  const VideoFormat video{"I420", 5, 3, 0, 1, {}};
  EXPECT_EQ(planes(video, {}).value_or(std::vector<Plane>{}), video.planes().value_or(std::vector<Plane>{{1, 1, 1}}));
  EXPECT_EQ(frame_size(video, {}).value_or(0), video.frame_size().value_or(1));
}

TEST(PlaneLayout, OfAnotherNumberOfPlanesIsRefused) {
  PlaneLayout layout;
  layout.places = {{0, 64}};
  const auto placed = planes(VideoFormat{"NV12", 64, 48, 0, 1, {}}, layout);
  ASSERT_FALSE(placed);
  EXPECT_EQ(placed.error().code, Code::kProtocol);
  const auto unknown = planes(VideoFormat{"v210", 64, 48, 0, 1, {}}, layout);
  ASSERT_FALSE(unknown);
  EXPECT_EQ(unknown.error().code, Code::kUnsupported);
}

}  // namespace
}  // namespace framelane::format
