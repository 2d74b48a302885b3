// SPDX-License-Identifier: MIT
// What a consumer gets is what was published: bytes, metadata, order, numbers.
#include <cstring>
#include <numeric>

#include <gtest/gtest.h>

#include "harness.hpp"

namespace framelane::ring {
namespace {

using testing::fill;
using testing::Got;
using testing::intact;
using testing::Lane;
using testing::must;
using testing::TestConsumer;

std::vector<std::uint64_t> numbers(std::uint64_t first, std::uint64_t count) {
  std::vector<std::uint64_t> all(count);
  std::iota(all.begin(), all.end(), first);
  return all;
}

TEST(Take, FindsNothingInANewLane) {
  Lane lane({});
  TestConsumer consumer(lane);
  EXPECT_FALSE(consumer.reader().ready());
  EXPECT_FALSE(consumer.take_entry());
}

class InlineSize : public ::testing::TestWithParam<std::uint32_t> {};

TEST_P(InlineSize, ArrivesInTheEntry) {
  Lane lane({});
  TestConsumer consumer(lane);
  std::byte bytes[kInlineBytes];
  for (std::size_t i = 0; i < sizeof bytes; ++i) bytes[i] = static_cast<std::byte>(0xa0 + i);
  const format::FrameInfo info{.due_ns = -17};
  ASSERT_TRUE(must(lane.writer->publish({nullptr, bytes, GetParam(), &info})));

  const auto taken = consumer.take_entry();
  ASSERT_TRUE(taken);
  EXPECT_FALSE(taken->marker);
  EXPECT_TRUE(taken->is_inline);
  EXPECT_EQ(taken->size, GetParam());
  EXPECT_EQ(taken->index, 0u);
  EXPECT_EQ(taken->skipped, 0u);
  EXPECT_EQ(taken->due_ns, -17);
  EXPECT_EQ(std::memcmp(taken->inline_words, bytes, GetParam()), 0);
  EXPECT_EQ(consumer.reader().held(), 0u);
  EXPECT_FALSE(consumer.take_entry());
}
INSTANTIATE_TEST_SUITE_P(Sizes, InlineSize, ::testing::Values(1, 8, 17, 31, 32));

TEST(Take, GivesBytesAndMetadataOfAFrameInASlot) {
  Lane lane({});
  TestConsumer consumer(lane);
  const SlotRef slot = must(lane.writer->loan(5000));
  ASSERT_GE(slot.capacity, 5000u);
  fill(slot.data, 5000, 42);
  const format::FrameInfo info{.pts = 1,
                               .dts = 2,
                               .duration = 3,
                               .offset = 4,
                               .offset_end = 5,
                               .flags = format::kDiscont | format::kLive,
                               .type_id = 6,
                               .due_ns = 7,
                               .capture_ns = -8};
  ASSERT_TRUE(must(lane.writer->publish({&slot, nullptr, 5000, &info})));

  const auto taken = consumer.take();
  ASSERT_TRUE(taken);
  EXPECT_FALSE(taken->is_inline);
  EXPECT_EQ(taken->slot, slot.slot);
  EXPECT_EQ(taken->size, 5000u);
  EXPECT_EQ(taken->due_ns, 7);
  EXPECT_NE(taken->data, slot.data) << "the consumer reads through its own mapping";
  EXPECT_TRUE(intact(*taken, 42));
  const auto& record = *reinterpret_cast<const MetaRecord*>(taken->record);
  EXPECT_EQ(record.pts, 1u);
  EXPECT_EQ(record.dts, 2u);
  EXPECT_EQ(record.duration, 3u);
  EXPECT_EQ(record.offset, 4u);
  EXPECT_EQ(record.offset_end, 5u);
  EXPECT_EQ(record.flags, format::kDiscont | format::kLive);
  EXPECT_EQ(record.type_id, 6u);
  EXPECT_EQ(record.capture_ns, -8);
  EXPECT_EQ(record.extra_size, 0u);
  EXPECT_EQ(consumer.reader().held(), 1u);
  consumer.reader().release(taken->slot);
  EXPECT_EQ(consumer.reader().held(), 0u);
}

class SideDataSize : public ::testing::TestWithParam<std::uint32_t> {};
INSTANTIATE_TEST_SUITE_P(Sizes, SideDataSize, ::testing::Values(1, 64, 960, 961, 4096, 65472));

TEST_P(SideDataSize, ArrivesBesideThePayloadAndEndsWithItsFrame) {
  WriterSettings settings;
  settings.sizes = {.burst = 4, .max_loans = 2, .max_held = 1, .max_consumers = 1, .max_side_data = GetParam()};
  Lane lane(std::move(settings));
  TestConsumer consumer(lane);
  std::vector<std::byte> side(GetParam() / 8 * 8 + 8);
  fill(side.data(), side.size(), 7);
  side.resize(GetParam());
  const format::FrameInfo info{.pts = 5};
  // More frames than slots, with and without: what one carried must not show in the next.
  for (std::uint64_t i = 0; i < 50; ++i) {
    const SlotRef slot = must(lane.writer->loan(256));
    fill(slot.data, 256, i);
    Writer::Outgoing frame{.slot = &slot, .size = 256, .info = &info};
    if (i % 2 == 0) frame.side_data = side;
    ASSERT_TRUE(must(lane.writer->publish(frame)));
    const auto taken = consumer.take();
    ASSERT_TRUE(taken);
    EXPECT_TRUE(intact(*taken, i));
    ASSERT_EQ(taken->side_data, i % 2 == 0 ? side.size() : 0u);
    EXPECT_TRUE(std::equal(taken->record + sizeof(MetaRecord), taken->record + sizeof(MetaRecord) + taken->side_data,
                           side.begin()));
    consumer.reader().release(taken->slot);
  }
}

TEST(Take, PutsPayloadsAndRecordsOnTheirOwnCacheLines) {
  for (const std::size_t size : {1u, 64u, 100u, 4095u, 4096u, 4097u}) {
    Lane lane({});
    TestConsumer consumer(lane);
    must(lane.writer->reserve(size));
    for (int i = 0; i < 3; ++i) {
      ASSERT_TRUE(lane.send_slot(size));
      const auto taken = consumer.take();
      ASSERT_TRUE(taken);
      const std::uintptr_t to = size < 4096 ? 64 : 4096;
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(taken->data) % to, 0u) << size;
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(taken->record) % 64, 0u) << size;
      consumer.reader().release(taken->slot);
    }
  }
}

TEST(Take, SaysNothingOfAnEarlierFrameInAMarkerOrAnInlineFrame) {
  Lane lane({});
  TestConsumer consumer(lane);
  ASSERT_TRUE(lane.send_slot());
  lane.send_event(1);
  ASSERT_TRUE(lane.send_inline());
  Got taken;
  for (int i = 0; i < 2; ++i) ASSERT_EQ(must(consumer.reader().poll(taken, consumer)), Reader::Step::kTaken);
  ASSERT_NE(taken.data, nullptr);
  consumer.reader().release(taken.slot);
  for (int i = 0; i < 2; ++i) {
    ASSERT_EQ(must(consumer.reader().poll(taken, consumer)), Reader::Step::kTaken);
    EXPECT_EQ(taken.data, nullptr);
    EXPECT_EQ(taken.record, nullptr);
    EXPECT_EQ(taken.skipped, 0u);
  }
}

TEST(Take, KeepsTheOrderOfThousandsOfMixedFrames) {
  Lane lane({});
  TestConsumer consumer(lane);
  std::uint64_t next = 0;
  while (next < 5000) {
    for (int i = 0; i < 7; ++i) ASSERT_TRUE(i % 3 == 0 ? lane.send_inline(32) : lane.send_slot(8u + 8u * (next % 60)));
    if (next % 5 == 0) lane.send_event(static_cast<int>(next));
    while (const auto taken = consumer.take()) {
      ASSERT_EQ(taken->index, next);
      ASSERT_EQ(taken->skipped, 0u);
      ASSERT_TRUE(intact(*taken, next));
      if (!taken->is_inline) consumer.reader().release(taken->slot);
      ++next;
    }
  }
  EXPECT_EQ(next, lane.sent());
  EXPECT_EQ(lane.counters().published, lane.sent());
  EXPECT_EQ(lane.counters().dropped_full, 0u);
  EXPECT_EQ(lane.counters().full_waits, 0u);
}

TEST(Take, GivesMarkersTheirPlaceBetweenTheFrames) {
  Lane lane({});
  TestConsumer consumer(lane);
  ASSERT_TRUE(lane.send_inline());
  lane.send_event(71);
  lane.send_event(72);
  ASSERT_TRUE(lane.send_inline());
  EXPECT_EQ(consumer.take_entry()->index, 0u);
  EXPECT_TRUE(consumer.events.empty()) << "an event comes after the frame before it";
  EXPECT_TRUE(consumer.take_entry()->marker);
  EXPECT_EQ(consumer.events, (std::vector<int>{71}));
  EXPECT_TRUE(consumer.take_entry()->marker);
  EXPECT_EQ(consumer.events, (std::vector<int>{71, 72}));
  EXPECT_EQ(consumer.take_entry()->index, 1u);
  EXPECT_FALSE(consumer.take_entry());
}

TEST(Take, TellsEveryGatingAndOtherConsumerTheSame) {
  Lane lane({});
  TestConsumer gating(lane);
  TestConsumer other(lane, {.gating = false});
  for (int i = 0; i < 100; ++i) {
    ASSERT_TRUE(lane.send(5));
    for (TestConsumer* consumer : {&gating, &other}) {
      EXPECT_EQ(consumer->take_all(), numbers(lane.sent() - 5, 5));
    }
  }
}

// --- a consumer that is too slow

TEST(Skip, CountsExactlyWhatWasLost) {
  Lane lane({});
  TestConsumer slow(lane, {.gating = false});
  ASSERT_TRUE(lane.send(3));
  EXPECT_EQ(slow.take_all(), numbers(0, 3));
  ASSERT_TRUE(lane.send(1000));

  const auto first = slow.take();
  ASSERT_TRUE(first);
  EXPECT_EQ(first->skipped, first->index - 3);
  EXPECT_GT(first->skipped, 0u);
  EXPECT_TRUE(intact(*first, first->index));
  slow.reader().release(first->slot);
  // What is left is at least the burst, without a gap.
  const auto rest = slow.take_all();
  EXPECT_EQ(rest, numbers(first->index + 1, 1003 - first->index - 1));
  EXPECT_GE(rest.size() + 1, 8u);
}

TEST(Skip, CountsNoMarkersAndLosesNoEvent) {
  Lane lane({});
  TestConsumer slow(lane, {.gating = false});
  std::vector<int> sent;
  for (int i = 0; i < 700; ++i) {
    ASSERT_TRUE(lane.send_inline());
    if (i % 3 == 0) {
      sent.push_back(i);
      lane.send_event(i);
    }
  }
  std::uint64_t accounted = 0;
  while (const auto taken = slow.take()) {
    accounted += taken->skipped;
    EXPECT_EQ(taken->index, accounted);
    EXPECT_TRUE(intact(*taken, taken->index));
    ++accounted;
  }
  EXPECT_EQ(accounted, 700u);
  EXPECT_EQ(slow.events, sent);
}

TEST(Skip, KeepsTheBurstForAPausedConsumerThatDoesntGate) {
  for (const std::uint32_t burst : {1u, 2u, 8u, 60u}) {
    Lane lane({.sizes = {.burst = burst}});
    TestConsumer pausing(lane, {.gating = false});
    ASSERT_TRUE(lane.send(1000));
    pausing.take_all();
    for (int i = 0; i < 10; ++i) {
      ASSERT_TRUE(lane.send(burst));
      EXPECT_EQ(pausing.take_all(), numbers(lane.sent() - burst, burst)) << "burst " << burst;
    }
  }
}

// --- latest

TEST(Latest, TakesTheNewestAndCountsTheRest) {
  Lane lane({});
  TestConsumer latest(lane, {.gating = false, .latest = true});
  ASSERT_TRUE(lane.send(5));
  auto taken = latest.take();
  ASSERT_TRUE(taken);
  EXPECT_EQ(taken->index, 4u);
  EXPECT_EQ(taken->skipped, 4u);
  EXPECT_TRUE(intact(*taken, 4));
  latest.reader().release(taken->slot);
  EXPECT_FALSE(latest.take());
  ASSERT_TRUE(lane.send(1));
  taken = latest.take();
  ASSERT_TRUE(taken);
  EXPECT_EQ(taken->index, 5u);
  EXPECT_EQ(taken->skipped, 0u);
}

TEST(Latest, FindsTheNewestAfterManyRounds) {
  Lane lane({});
  TestConsumer latest(lane, {.gating = false, .latest = true});
  std::uint64_t taken_before = 0;
  for (const std::size_t pause : {300u, 255u, 256u, 257u, 1000u, 1u}) {
    ASSERT_TRUE(lane.send(pause));
    const auto taken = latest.take();
    ASSERT_TRUE(taken);
    EXPECT_EQ(taken->index, lane.sent() - 1);
    EXPECT_EQ(taken->skipped, pause - 1);
    EXPECT_TRUE(intact(*taken, taken->index));
    latest.reader().release(taken->slot);
    ++taken_before;
  }
  EXPECT_EQ(taken_before, 6u);
}

TEST(Latest, LosesNoEvent) {
  Lane lane({});
  TestConsumer latest(lane, {.gating = false, .latest = true});
  for (int i = 0; i < 10; ++i) {
    ASSERT_TRUE(lane.send_inline());
    lane.send_event(i);
  }
  const auto taken = latest.take();
  ASSERT_TRUE(taken);
  EXPECT_EQ(taken->index, 9u);
  EXPECT_EQ(latest.events, (std::vector<int>{0, 1, 2, 3, 4, 5, 6, 7, 8})) << "those before the frame";
  EXPECT_FALSE(latest.take());
  EXPECT_EQ(latest.events.size(), 10u) << "and the one behind it";
}

// --- stamps

TEST(Stamps, StandInEveryFrameWhenOn) {
  Lane lane({.stamps = StampKind::kOn});
  TestConsumer consumer(lane);
  std::int64_t last = 1;
  for (int i = 0; i < 50; ++i) {
    ASSERT_TRUE(lane.send_inline());
    const auto taken = consumer.take();
    ASSERT_GE(taken->publish_ns, last);
    last = taken->publish_ns;
  }
}

TEST(Stamps, AreLeftOutWhenOff) {
  Lane lane({.stamps = StampKind::kOff});
  TestConsumer consumer(lane);
  for (int i = 0; i < 50; ++i) {
    ASSERT_TRUE(lane.send_inline());
    EXPECT_EQ(consumer.take()->publish_ns, 0);
  }
}

TEST(Stamps, ArePresentInEverySlowFrameAndSomeFastOnesWhenAuto) {
  Lane lane({.stamps = StampKind::kAuto});
  TestConsumer consumer(lane, {.gating = false});
  for (int i = 0; i < 5; ++i) {
    const std::int64_t until = base::monotonic_ns() + 1'000'000;
    while (base::monotonic_ns() < until) {
    }
    ASSERT_TRUE(lane.send_inline());
    EXPECT_NE(consumer.take()->publish_ns, 0);
  }
  // As fast as it goes; a preempted machine may still have gaps, so only the shares are compared.
  int stamped = 0;
  for (int i = 0; i < 20'000; ++i) {
    ASSERT_TRUE(lane.send_inline());
    stamped += consumer.take()->publish_ns != 0 ? 1 : 0;
  }
  EXPECT_GE(stamped, 20'000 / 16 - 1);
  EXPECT_LT(stamped, 10'000);
}

// --- what observers are told

TEST(Counters, AreReadWhileTheMutexIsTaken) {
  Lane lane({});
  TestConsumer consumer(lane);
  ASSERT_TRUE(lane.send(3));
  consumer.take();
  lane.writer->inspect([&](const auto& links, const SlotPool&, std::uint32_t) {  // one that took it would stop here
    EXPECT_EQ(lane.writer->counters().published, 3u);
    EXPECT_GT(lane.writer->shape().burst, 0u);
    ASSERT_EQ(links.size(), 1u);
    EXPECT_EQ(lane.writer->lag(*links[0]), 2u);
  });
}

}  // namespace
}  // namespace framelane::ring
