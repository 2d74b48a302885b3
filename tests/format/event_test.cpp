// SPDX-License-Identifier: MIT
#include "framelane/format/event.hpp"

#include <gtest/gtest.h>

namespace framelane::format {
namespace {

TEST(Event, IsStickyWhenALateJoinerNeedsIt) {
  for (const EventType type : {EventType::kStreamStart, EventType::kCaps, EventType::kSegment, EventType::kTag}) {
    EXPECT_TRUE(is_sticky(type)) << static_cast<int>(type);
  }
  for (const EventType type : {EventType::kGap, EventType::kCustom, EventType::kEndOfStream}) {
    EXPECT_FALSE(is_sticky(type)) << static_cast<int>(type);
  }
}

TEST(Segment, IsTheWholeStreamInTimeByDefault) {
  const Segment segment;
  EXPECT_EQ(segment.format, SegmentFormat::kTime);
  EXPECT_EQ(segment.rate, 1.0);
  EXPECT_EQ(segment.start, 0u);
  EXPECT_EQ(segment.stop, kNoTime);
}

}  // namespace
}  // namespace framelane::format
