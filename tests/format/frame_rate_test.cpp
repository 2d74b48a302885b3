// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include "framelane/format/caps.hpp"

namespace framelane::format {
namespace {

TEST(FrameRate, IsTheOneThatVideoAndTensorsState) {
  EXPECT_EQ(frame_rate("video/x-raw, format=(string)I420, width=(int)3, height=(int)3, framerate=(fraction)30/1"),
            30.0);
  EXPECT_EQ(frame_rate("video/x-vp8,framerate=30000/1001"), 30000.0 / 1001);
  EXPECT_EQ(frame_rate("image/jpeg, framerate=(fraction)15/2"), 7.5);
  EXPECT_EQ(frame_rate("video/x-raw(memory:DMABuf), framerate=(fraction)25/1"), 25.0);
  EXPECT_EQ(frame_rate("other/tensors, format=(string)flexible, framerate=(fraction)100/1"), 100.0);
}

TEST(FrameRate, IsNoneWhereNoneIsStated) {
  for (const char* caps : {"video/x-raw, framerate=(fraction)0/1", "video/x-raw, width=(int)3",
                           "video/x-raw, framerate=(fraction)[ 0/1, 30/1 ]",
                           "video/x-raw, framerate=(fraction){ 15/1, 30/1 }", "video/x-raw, framerate=(fraction)-30/1",
                           "video/x-raw, framerate=(fraction)30/0", "video/x-raw, framerate=fast"}) {
    EXPECT_EQ(frame_rate(caps), std::nullopt) << caps;
  }
}

TEST(FrameRate, IsNoneForEverythingElse) {
  for (const char* caps :
       {"audio/x-raw, format=(string)S16LE, rate=(int)48000, channels=(int)2", "audio/x-raw, framerate=(fraction)30/1",
        "application/x-rtp, framerate=(fraction)30/1", "ANY", "EMPTY", "", "video/",
        "video/x-raw, framerate=", "video/x-raw, framerate=30/1 garbage", "\xff\xfe"}) {
    EXPECT_EQ(frame_rate(caps), std::nullopt) << caps;
  }
}

}  // namespace
}  // namespace framelane::format
