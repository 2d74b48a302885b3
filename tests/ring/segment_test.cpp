// SPDX-License-Identifier: MIT
// Data segments: larger frames and deeper bursts add one, old ones go when nobody needs them.
#include <set>

#include <gtest/gtest.h>

#include "harness.hpp"

namespace framelane::ring {
namespace {

using testing::intact;
using testing::Lane;
using testing::Message;
using testing::must;
using testing::TestConsumer;

std::vector<SegmentSpec> segments(const Lane& lane) {
  std::vector<SegmentSpec> specs;
  lane.writer->inspect([&](const auto&, const SlotPool& pool, std::uint32_t) {
    for (const auto& segment : pool.segments()) specs.push_back(segment.spec);
  });
  return specs;
}

/// Kinds of the numbered messages so far.
std::vector<Message::Kind> messages(const Lane& lane) {
  std::vector<Message::Kind> kinds;
  for (std::uint64_t i = 1; lane.control.message(i) != nullptr; ++i) kinds.push_back(lane.control.message(i)->kind);
  return kinds;
}

TEST(Segment, HasWhatTheSizesSay) {
  Lane lane({.sizes = {.burst = 3, .history = 5, .max_loans = 7, .max_held = 2, .max_consumers = 4}});
  must(lane.writer->reserve(1000));
  ASSERT_EQ(segments(lane).size(), 1u);
  const SegmentSpec spec = segments(lane)[0];
  EXPECT_EQ(spec.slot_count, 3u + 5 + 8 + 7 + 4 * 3);
  EXPECT_EQ(spec.slot_size, 1000u);
  EXPECT_EQ(spec.slot_stride, 1024u) << "small slots are packed";
  EXPECT_EQ(spec.record_stride, kRecordStride);
  EXPECT_EQ(spec.slots_offset % 4096, 0u);
  must(lane.writer->reserve(5000));
  EXPECT_EQ(segments(lane).back().slot_stride, 8192u) << "large ones are page-aligned";
}

TEST(Segment, HasRoomForTheSideDataThatWasAskedFor) {
  for (const auto& [side_data, stride] : {std::pair{0u, 64u}, {1u, 128u}, {960u, 1024u}, {4096u, 4160u}}) {
    const PoolSizes sizes{.max_side_data = side_data};
    EXPECT_EQ(sizes.record_stride(), stride);
    EXPECT_TRUE(sizes.check());
  }
  const PoolSizes most{.max_side_data = kMaxSideData};
  EXPECT_EQ(most.record_stride(), kMaxRecordStride);
  EXPECT_TRUE(most.check());
  const auto checked = PoolSizes{.max_side_data = kMaxSideData + 1}.check();
  ASSERT_FALSE(checked);
  EXPECT_EQ(checked.error().code, Code::kInvalidArgument);
}

TEST(Segment, IsAddedForALargerFrameAndTheOldOneRetired) {
  Lane lane({});
  TestConsumer consumer(lane);
  ASSERT_TRUE(lane.send_slot(64));
  const auto old = consumer.take();
  ASSERT_TRUE(lane.send_slot(5000));
  const auto larger = consumer.take();
  EXPECT_TRUE(intact(*old, 0));
  EXPECT_TRUE(intact(*larger, 1));
  consumer.reader().release(larger->slot);
  for (int i = 0; i < 100; ++i) {
    ASSERT_TRUE(lane.send_slot(64)) << "a smaller frame fits the larger slots";
    consumer.take_all();
  }
  EXPECT_EQ(segments(lane).size(), 2u);
  EXPECT_TRUE(intact(*old, 0)) << "held, so the old segment stays";
  consumer.reader().release(old->slot);
  for (int i = 0; i < 100; ++i) {
    ASSERT_TRUE(lane.send_slot(64));
    consumer.take_all();
  }
  EXPECT_EQ(segments(lane).size(), 1u);
  EXPECT_EQ(messages(lane),
            (std::vector<Message::Kind>{Message::kAddSegment, Message::kAddSegment, Message::kRetireSegment}));
}

TEST(Segment, GrowsWithRoomForTheNextLargerFrame) {
  Lane lane({.max_frame_size = 300'000});
  TestConsumer consumer(lane);
  std::set<std::uint32_t> ids;
  for (std::size_t size = 1000; size < 300'000; size += 1000) {
    ASSERT_TRUE(lane.send_slot(size));
    const auto taken = consumer.take();
    ASSERT_TRUE(taken && intact(*taken, taken->index));
    consumer.reader().release(taken->slot);
    for (const SegmentSpec& spec : segments(lane)) ids.insert(spec.id);
  }
  EXPECT_LE(ids.size(), 10u) << "encoded frames that creep up cost a logarithm of segments";
}

TEST(Segment, RecyclesSlotIds) {
  Lane lane({.sizes = {.burst = 500, .max_consumers = 8}});
  TestConsumer consumer(lane);
  std::size_t size = 64;
  for (int round = 0; round < 12; ++round, size += 64) {
    must(lane.writer->reserve(size));
    for (int i = 0; i < 1200; ++i) {
      ASSERT_TRUE(i == 0 ? lane.send_slot(size) : lane.send_slot(64)) << round;
      const auto taken = consumer.take();
      ASSERT_TRUE(taken && intact(*taken, taken->index));
      ASSERT_LT(taken->slot, kMaxSlots);
      consumer.reader().release(taken->slot);
    }
  }
  EXPECT_EQ(segments(lane).back().id, 12u);
  for (const SegmentSpec& spec : segments(lane)) EXPECT_LE(spec.first_slot + spec.slot_count, kMaxSlots);
}

TEST(Segment, WaitsForTwoOldOnesToDrain) {
  Lane lane({});
  TestConsumer consumer(lane);
  std::vector<Taken> held;
  for (const std::size_t size : {1000u, 10'000u, 100'000u}) {
    ASSERT_TRUE(lane.send_slot(size));
    held.push_back(*consumer.take());
  }
  EXPECT_TRUE(lane.writer->draining());
  const auto fourth = lane.writer->loan(1'000'000);
  ASSERT_FALSE(fourth);
  EXPECT_EQ(fourth.error().code, Code::kFull);
  EXPECT_TRUE(lane.send_slot(100'000)) << "sizes that fit go on";
  consumer.take_all();
  consumer.reader().release(held[1].slot);
  for (int i = 0; i < 300; ++i) {
    ASSERT_TRUE(lane.send_inline());
    consumer.take_all();
  }
  EXPECT_FALSE(lane.writer->draining());
  ASSERT_TRUE(lane.send_slot(1'000'000));
  EXPECT_TRUE(intact(*consumer.take(), lane.sent() - 1));
  EXPECT_TRUE(intact(held[0], 0));
  EXPECT_TRUE(intact(held[2], 2));
}

TEST(Segment, ReplacedBeforeAnyFrameCostsNothing) {
  Lane lane({});
  TestConsumer consumer(lane);
  for (std::size_t size = 1000; size <= 20'000; size += 1000) must(lane.writer->reserve(size));
  ASSERT_TRUE(lane.send_slot(20'000));
  EXPECT_EQ(segments(lane).size(), 1u);
  EXPECT_EQ(messages(lane), (std::vector<Message::Kind>{Message::kAddSegment}));
  EXPECT_TRUE(intact(*consumer.take(), 0));
}

TEST(Segment, IsNotRetiredByAPublishThatMustNotCallTheSystem) {
  Lane lane({});
  TestConsumer consumer(lane);
  ASSERT_TRUE(lane.send_slot(64));
  consumer.take_all();
  ASSERT_TRUE(lane.send_slot(5000));
  consumer.take_all();
  for (int i = 0; i < 300; ++i) {
    ASSERT_TRUE(lane.send_inline(8, false));
    consumer.take_all();
  }
  EXPECT_EQ(messages(lane).size(), 2u);
  ASSERT_TRUE(lane.send_inline(8, true));
  EXPECT_EQ(messages(lane).size(), 3u);
}

TEST(Segment, ThatWaitsForAConsumerIsNotRetiredByAPublishThatMustNotCallTheSystem) {
  Lane lane({});
  TestConsumer consumer(lane);
  ASSERT_TRUE(lane.send_slot(64));
  ASSERT_TRUE(lane.send_inline());
  consumer.take_all();
  ASSERT_TRUE(lane.send_slot(40'000)) << "the loan reclaims the small slot, so its segment is drained";
  ASSERT_TRUE(lane.send_inline(8, true));
  EXPECT_EQ(messages(lane).size(), 2u) << "the consumer stands before the barrier of the second segment";
  consumer.take_all();
  for (int i = 0; i < 20; ++i) {
    ASSERT_TRUE(lane.send_inline(8, false));
    consumer.take_all();
  }
  EXPECT_EQ(messages(lane).size(), 2u);
  ASSERT_TRUE(lane.send_inline(8, true));
  EXPECT_EQ(messages(lane).size(), 3u);
}

TEST(Segment, IsMappedByALateJoiner) {
  Lane lane({});
  for (const std::size_t size : {64u, 5000u}) ASSERT_TRUE(lane.send_slot(size));
  const SlotRef loan = must(lane.writer->loan(5000));
  TestConsumer late(lane);
  static constexpr format::FrameInfo kNoInfo{};
  testing::fill(loan.data, 5000, 2);
  ASSERT_TRUE(must(lane.writer->publish({&loan, nullptr, 5000, &kNoInfo})));
  EXPECT_TRUE(intact(*late.take(), 2));
}

TEST(Segment, RefusesFramesBeyondMaxFrameSize) {
  Lane lane({.max_frame_size = 1000});
  const auto loan = lane.writer->loan(1001);
  ASSERT_FALSE(loan);
  EXPECT_EQ(loan.error().code, Code::kTooLarge);
  EXPECT_NE(loan.error().text.find("max-frame-size"), std::string::npos);
  EXPECT_TRUE(lane.writer->loan(1000));
}

// --- a burst that changes (burst-time and new caps)

TEST(SetBurst, DeepensTheRing) {
  Lane lane({.sizes = {.burst = 2}, .most_burst = 50, .when_full = WhenFull::kDropNew});
  TestConsumer paused(lane);
  ASSERT_TRUE(lane.send(2));
  EXPECT_FALSE(lane.send_slot());
  must(lane.writer->set_burst(50));
  ASSERT_TRUE(lane.send(48));
  EXPECT_FALSE(lane.send_slot());
  EXPECT_EQ(paused.take_all().size(), 50u);
  for (int i = 0; i < 10; ++i) {
    ASSERT_TRUE(lane.send(50));
    EXPECT_EQ(paused.take_all().size(), 50u);
  }
}

TEST(SetBurst, MadeSmallerTakesEffectWithoutAWait) {
  Lane lane({.sizes = {.burst = 100}, .full_timeout_ns = base::kForever, .stall_timeout_ns = base::kForever});
  TestConsumer consumer(lane);
  for (int i = 0; i < 300; ++i) {
    ASSERT_TRUE(lane.send(1));
    consumer.take_all();
  }
  must(lane.writer->set_burst(4));
  ASSERT_TRUE(lane.send(4));
  EXPECT_EQ(lane.counters().full_waits, 0u);
  EXPECT_EQ(consumer.take_all().size(), 4u);
}

TEST(SetBurst, RefusesWhatTheLaneWasNotMadeFor) {
  Lane lane({.sizes = {.burst = 8}});
  for (const std::uint32_t burst : {0u, 100'000u, 4'000'000'000u}) {
    const auto set = lane.writer->set_burst(burst);
    ASSERT_FALSE(set) << burst;
    EXPECT_EQ(set.error().code, Code::kInvalidArgument);
  }
  const auto too_deep = lane.writer->set_burst(200);
  ASSERT_FALSE(too_deep) << "it fits a segment, but not this entry ring";
  EXPECT_EQ(too_deep.error().code, Code::kInvalidArgument);
}

TEST(Writer, RefusesSizesThatCannotBe) {
  testing::FakeControl control;
  for (const PoolSizes sizes : {PoolSizes{.burst = 0}, PoolSizes{.burst = 5000}, PoolSizes{.history = 5000},
                                PoolSizes{.max_loans = 5000}, PoolSizes{.max_held = 500}}) {
    const auto writer = Writer::create({.sizes = sizes}, testing::kInstance, control);
    ASSERT_FALSE(writer);
    EXPECT_EQ(writer.error().code, Code::kInvalidArgument);
  }
}

}  // namespace
}  // namespace framelane::ring
