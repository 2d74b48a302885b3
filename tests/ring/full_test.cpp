// SPDX-License-Identifier: MIT
// A full ring: the burst, the policies, demotion, waits.
#include <chrono>
#include <numeric>
#include <thread>

#include <gtest/gtest.h>

#include "harness.hpp"

namespace framelane::ring {
namespace {

using testing::intact;
using testing::Lane;
using testing::must;
using testing::TestConsumer;

constexpr std::int64_t kMs = 1'000'000;
using Demotions = std::vector<std::pair<ConsumerId, bool>>;

std::vector<std::uint64_t> numbers(std::uint64_t first, std::uint64_t count) {
  std::vector<std::uint64_t> all(count);
  std::iota(all.begin(), all.end(), first);
  return all;
}

/// For each burst: everything starts with a consumer that has taken some frames and then pauses.
class Burst : public ::testing::TestWithParam<std::uint32_t> {
 protected:
  WriterSettings settings(WhenFull when_full) const {
    return {.sizes = {.burst = GetParam()},
            .when_full = when_full,
            .full_timeout_ns = 2 * kMs,
            .stall_timeout_ns = base::kForever,
            .spin = SpinKind::kOff};
  }
  static void warm_up(Lane& lane, TestConsumer& consumer) {
    for (int i = 0; i < 300; ++i) {
      ASSERT_TRUE(lane.send(1));
      ASSERT_EQ(consumer.take_all().size(), 1u);
    }
  }
  void absorb(Lane& lane) const {
    ASSERT_TRUE(lane.send(GetParam()));
    EXPECT_EQ(lane.counters().dropped_full, 0u);
    EXPECT_EQ(lane.counters().passed_over, 0u);
    EXPECT_EQ(lane.counters().full_waits, 0u);
  }
};
INSTANTIATE_TEST_SUITE_P(Depths, Burst, ::testing::Values(1, 2, 7, 8, 64, 500));

TEST_P(Burst, IsAbsorbedAndThenTheNewFrameIsDropped) {
  Lane lane(settings(WhenFull::kDropNew));
  TestConsumer paused(lane);
  warm_up(lane, paused);
  absorb(lane);
  EXPECT_FALSE(lane.send_slot());
  EXPECT_FALSE(lane.send_inline());
  EXPECT_EQ(lane.counters().dropped_full, 2u);
  EXPECT_EQ(lane.counters().published, 300u + GetParam());
  EXPECT_EQ(lane.counters().full_waits, 0u);
  EXPECT_EQ(paused.take_all(), numbers(300, GetParam()));
  EXPECT_TRUE(lane.send(GetParam()));
  EXPECT_FALSE(lane.send_slot());
}

TEST_P(Burst, IsAbsorbedAndThenOneUnreadFrameIsPassedOverPerFrame) {
  Lane lane(settings(WhenFull::kPassOver));
  TestConsumer paused(lane);
  TestConsumer other(lane, {.gating = false});
  warm_up(lane, paused);
  other.take_all();
  absorb(lane);
  EXPECT_EQ(other.take_all(), numbers(300, GetParam()));
  for (std::uint64_t i = 1; i <= 3; ++i) {
    ASSERT_TRUE(lane.send_slot());
    EXPECT_EQ(lane.counters().passed_over, i);
    EXPECT_EQ(other.take_all(), numbers(300 + GetParam() + i - 1, 1)) << "no other consumer notices";
  }
  EXPECT_EQ(lane.counters().dropped_full, 0u);
  EXPECT_EQ(lane.counters().full_waits, 0u);
  const auto first = paused.take();
  ASSERT_TRUE(first);
  EXPECT_EQ(first->index, 303u);
  EXPECT_EQ(first->skipped, 3u);
  EXPECT_TRUE(intact(*first, 303));
  paused.reader().release(first->slot);
  EXPECT_EQ(paused.take_all(), numbers(304, GetParam() - 1));
  EXPECT_TRUE(lane.send(GetParam()));
  EXPECT_EQ(lane.counters().passed_over, 3u) << "it keeps up again, so nothing is passed over";
}

TEST_P(Burst, IsAbsorbedAndThenTheProducerWaitsAndDrops) {
  Lane lane(settings(WhenFull::kWait));
  TestConsumer paused(lane);
  warm_up(lane, paused);
  absorb(lane);
  const std::int64_t before = base::monotonic_ns();
  EXPECT_FALSE(lane.send_slot());
  EXPECT_GE(base::monotonic_ns() - before, 2 * kMs) << "it waited for the whole full-timeout";
  EXPECT_EQ(lane.counters().full_waits, 1u);
  EXPECT_EQ(lane.counters().dropped_full, 1u);
  EXPECT_EQ(lane.counters().demotions, 0u);
  EXPECT_EQ(paused.take_all(), numbers(300, GetParam())) << "nothing in the ring is lost";
}

// --- waiting

TEST(FullWait, EndsWhenTheConsumerTakes) {
  Lane lane({.sizes = {.burst = 4}, .full_timeout_ns = base::kForever, .spin = SpinKind::kOff});
  TestConsumer consumer(lane);
  ASSERT_TRUE(lane.send(4));
  std::thread later([&] {
    while (consumer.page().producer_waiting.load() == 0) std::this_thread::yield();
    consumer.take_all();
  });
  EXPECT_TRUE(lane.send_slot());
  later.join();
  EXPECT_EQ(lane.counters().full_waits, 1u);
  EXPECT_EQ(lane.counters().dropped_full, 0u);
  EXPECT_EQ(consumer.page().producer_waiting.load(), 0u);
}

TEST(FullWait, EndsWhenTheConsumerIsRemoved) {
  Lane lane({.sizes = {.burst = 4}, .full_timeout_ns = base::kForever, .stall_timeout_ns = base::kForever});
  TestConsumer consumer(lane);
  ASSERT_TRUE(lane.send(4));
  std::thread monitor([&] {
    while (consumer.page().producer_waiting.load() == 0) std::this_thread::yield();
    consumer.leave();
  });
  EXPECT_TRUE(lane.send_slot());
  monitor.join();
}

TEST(FullWait, EndsWhenTheConsumerLeavesAndStillHoldsFrames) {
  Lane lane({.sizes = {.burst = 4}, .full_timeout_ns = base::kForever, .stall_timeout_ns = base::kForever});
  TestConsumer consumer(lane);
  ASSERT_TRUE(lane.send(4));
  const auto held = consumer.take();
  std::thread monitor([&] {
    while (consumer.page().producer_waiting.load() == 0) std::this_thread::yield();
    lane.writer->stop_gating(consumer.id());
  });
  EXPECT_TRUE(lane.send(300));
  monitor.join();
  EXPECT_TRUE(intact(*held, 0)) << "a hold of a consumer that left is respected";
}

TEST(FullWait, EndsWithInterruptAndGoesOnAfterResume) {
  Lane lane({.sizes = {.burst = 4}, .full_timeout_ns = base::kForever, .stall_timeout_ns = base::kForever});
  TestConsumer consumer(lane);
  ASSERT_TRUE(lane.send(4));
  std::thread other([&] {
    while (consumer.page().producer_waiting.load() == 0) std::this_thread::yield();
    lane.writer->interrupt();
  });
  static constexpr format::FrameInfo kNoInfo{};
  const std::byte bytes[kInlineBytes] = {};
  const auto frame = Writer::Outgoing{nullptr, bytes, 1, &kNoInfo};
  auto result = lane.writer->publish(frame);
  other.join();
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, Code::kInterrupted);
  result = lane.writer->publish(frame);
  ASSERT_FALSE(result) << "it holds until resume()";
  EXPECT_EQ(result.error().code, Code::kInterrupted);
  consumer.take_all();
  EXPECT_TRUE(must(lane.writer->publish(frame))) << "with room there is no wait to interrupt";
  lane.writer->resume();
  EXPECT_TRUE(must(lane.writer->publish(frame)));
}

TEST(FullWait, IsForTheSlowestOfSeveral) {
  Lane lane({.sizes = {.burst = 4}, .full_timeout_ns = 2 * kMs});
  TestConsumer fast(lane);
  TestConsumer slow(lane);
  ASSERT_TRUE(lane.send(4));
  fast.take_all();
  EXPECT_FALSE(lane.send_slot());
  EXPECT_EQ(slow.take()->index, 0u);
  EXPECT_TRUE(lane.send_slot());
  EXPECT_FALSE(lane.send_slot());
}

// --- demotion

TEST(Demotion, ComesAfterTheStallTimeoutAndEndsWhenCaughtUp) {
  Lane lane({.sizes = {.burst = 8}, .full_timeout_ns = base::kForever, .stall_timeout_ns = 3 * kMs});
  TestConsumer stalled(lane);
  ASSERT_TRUE(lane.send(8));
  ASSERT_TRUE(lane.send_slot()) << "the frame goes in once the consumer is not waited for";
  EXPECT_EQ(lane.counters().demotions, 1u);
  EXPECT_EQ(lane.counters().full_waits, 1u);
  EXPECT_EQ(lane.control.demotions(), (Demotions{{stalled.id(), true}}));
  ASSERT_TRUE(lane.send(500)) << "and nobody waits for it any more";
  EXPECT_EQ(lane.counters().full_waits, 1u);
  EXPECT_EQ(lane.counters().dropped_full, 0u);

  // It lags by more than half of the burst until it has taken some.
  ASSERT_TRUE(stalled.take());
  lane.reclaim();
  EXPECT_EQ(lane.control.demotions().size(), 1u);
  stalled.take_all();
  lane.reclaim();
  EXPECT_EQ(lane.control.demotions(), (Demotions{{stalled.id(), true}, {stalled.id(), false}}));
  ASSERT_TRUE(lane.send(8));
  EXPECT_EQ(stalled.take_all(), numbers(lane.sent() - 8, 8)) << "it gates again: the burst is there";
}

TEST(Demotion, ComesAlsoWhenNewFramesAreDropped) {
  Lane lane({.sizes = {.burst = 8}, .when_full = WhenFull::kDropNew, .stall_timeout_ns = 3 * kMs});
  TestConsumer stalled(lane);
  TestConsumer other(lane);
  ASSERT_TRUE(lane.send(8));
  other.take_all();
  EXPECT_FALSE(lane.send_slot()) << "the first drop starts its time";
  EXPECT_EQ(lane.counters().demotions, 0u);
  std::this_thread::sleep_for(std::chrono::nanoseconds(4 * kMs));
  EXPECT_TRUE(lane.send_slot()) << "one that stands still must not starve the others for ever";
  EXPECT_EQ(lane.control.demotions(), (Demotions{{stalled.id(), true}}));
  EXPECT_EQ(other.take_all(), numbers(8, 1));
  EXPECT_EQ(lane.counters().dropped_full, 1u);
}

TEST(Demotion, EndsAtHalfABurstBehind) {
  Lane lane({.sizes = {.burst = 8}, .full_timeout_ns = base::kForever, .stall_timeout_ns = 1 * kMs});
  TestConsumer stalled(lane, {.max_held = 16});
  ASSERT_TRUE(lane.send(9));
  ASSERT_EQ(lane.control.demotions().size(), 1u);
  for (int i = 0; i < 4; ++i) stalled.reader().release(stalled.take()->slot);
  lane.reclaim();
  EXPECT_EQ(lane.control.demotions().size(), 1u) << "five behind";
  stalled.reader().release(stalled.take()->slot);
  lane.reclaim();
  EXPECT_EQ(lane.control.demotions().size(), 2u) << "four behind";
}

TEST(Demotion, CountsTheStallAcrossSeveralWaits) {
  Lane lane({.sizes = {.burst = 4}, .full_timeout_ns = 1 * kMs, .stall_timeout_ns = 20 * kMs});
  TestConsumer stalled(lane);
  ASSERT_TRUE(lane.send(4));
  int dropped = 0;
  while (!lane.send_slot()) ++dropped;
  EXPECT_GE(dropped, 1) << "each wait was shorter than the stall";
  EXPECT_EQ(lane.counters().dropped_full, static_cast<std::uint64_t>(dropped));
  EXPECT_EQ(lane.counters().demotions, 1u);
}

TEST(Demotion, NeverHitsAConsumerThatMoves) {
  Lane lane({.sizes = {.burst = 4}, .full_timeout_ns = base::kForever, .stall_timeout_ns = 200 * kMs});
  TestConsumer slow(lane);
  ASSERT_TRUE(lane.send(4));
  std::thread reader([&] {
    for (int i = 0; i < 20; ++i) {
      while (slow.page().producer_waiting.load() == 0) std::this_thread::yield();
      std::this_thread::sleep_for(std::chrono::milliseconds(15));  // 20 times this is more than the stall-timeout
      slow.reader().release(slow.take()->slot);
    }
  });
  EXPECT_TRUE(lane.send(20));
  reader.join();
  EXPECT_EQ(lane.counters().demotions, 0u);
}

// --- markers

TEST(Markers, GoInWithoutAFrameForHundredsInARow) {
  Lane lane({});
  TestConsumer consumer(lane);
  std::vector<int> sent;
  for (int i = 0; i < 900; ++i) {
    lane.send_event(i);
    sent.push_back(i);
    if (i % 50 == 49) consumer.take_all();
  }
  EXPECT_EQ(consumer.events, sent);
  EXPECT_EQ(lane.counters().demotions, 0u);
}

class MarkersOfPolicy : public ::testing::TestWithParam<WhenFull> {};
INSTANTIATE_TEST_SUITE_P(Policies, MarkersOfPolicy,
                         ::testing::Values(WhenFull::kWait, WhenFull::kDropNew, WhenFull::kPassOver));

TEST_P(MarkersOfPolicy, DemoteAConsumerThatStoppedAndAreNeverDropped) {
  Lane lane({.when_full = GetParam(), .full_timeout_ns = 2 * kMs, .stall_timeout_ns = base::kForever});
  TestConsumer stopped(lane);
  std::vector<int> sent;
  for (int i = 0; i < 1000; ++i) {
    lane.send_event(i);
    sent.push_back(i);
  }
  EXPECT_EQ(lane.counters().demotions, 1u);
  EXPECT_EQ(lane.control.demotions(), (Demotions{{stopped.id(), true}}));
  ASSERT_TRUE(lane.send_inline());
  const auto taken = stopped.take();
  ASSERT_TRUE(taken);
  EXPECT_EQ(taken->index, 0u);
  EXPECT_EQ(taken->skipped, 0u) << "markers are not frames";
  EXPECT_EQ(stopped.events, sent);
}

TEST_P(MarkersOfPolicy, FitBesideAFullBurst) {
  Lane lane({.when_full = GetParam(), .full_timeout_ns = 2 * kMs, .stall_timeout_ns = base::kForever});
  TestConsumer paused(lane);
  ASSERT_TRUE(lane.send(8));
  for (int i = 0; i < 64; ++i) lane.send_event(i);
  EXPECT_EQ(lane.counters().demotions, 0u);
  EXPECT_EQ(paused.take_all(), numbers(0, 8));
  EXPECT_EQ(paused.events.size(), 64u);
}

TEST_P(MarkersOfPolicy, DontCostAFrameItsPlace) {
  Lane lane({.sizes = {.burst = 1}, .when_full = GetParam(), .full_timeout_ns = 2 * kMs});
  TestConsumer consumer(lane);
  for (std::uint64_t i = 0; i < 400; ++i) {
    lane.send_event(static_cast<int>(i));
    ASSERT_TRUE(lane.send_slot());
    lane.send_event(static_cast<int>(i));
    EXPECT_EQ(consumer.take_all(), numbers(i, 1));
  }
  EXPECT_EQ(lane.counters().full_waits, 0u);
}

TEST(Markers, EndWithInterruptWhileTheyWait) {
  Lane lane({.full_timeout_ns = base::kForever, .stall_timeout_ns = base::kForever});
  TestConsumer stopped(lane);
  std::thread other([&] {
    while (stopped.page().producer_waiting.load() == 0) std::this_thread::yield();
    lane.writer->interrupt();
  });
  Result<void> sent;
  for (int i = 0; i < 1000 && sent; ++i) {
    sent = lane.writer->publish_marker(
        [&](std::uint64_t number, std::uint64_t seq) { lane.control.event(number, seq, i); },
        Writer::MarkerKind::kPlain);
  }
  other.join();
  ASSERT_FALSE(sent);
  EXPECT_EQ(sent.error().code, Code::kInterrupted);
}

// --- drain

TEST(Drain, WaitsUntilGatingConsumersTookEverything) {
  Lane lane({});
  TestConsumer gating(lane);
  TestConsumer other(lane, {.gating = false});
  must(lane.writer->drain(0));
  ASSERT_TRUE(lane.send(5));
  const auto early = lane.writer->drain(base::monotonic_ns() + kMs);
  ASSERT_FALSE(early);
  EXPECT_EQ(early.error().code, Code::kTimeout);
  std::thread reader([&] { gating.take_all(); });
  must(lane.writer->drain(base::kForever));
  reader.join();
  EXPECT_EQ(other.take_all(), numbers(0, 5));
}

TEST(Drain, EndsWithInterrupt) {
  Lane lane({});
  TestConsumer gating(lane);
  ASSERT_TRUE(lane.send(1));
  std::thread other([&] {
    while (gating.page().producer_waiting.load() == 0) std::this_thread::yield();
    lane.writer->interrupt();
  });
  const auto drained = lane.writer->drain(base::kForever);
  other.join();
  ASSERT_FALSE(drained);
  EXPECT_EQ(drained.error().code, Code::kInterrupted);
}

}  // namespace
}  // namespace framelane::ring
