// SPDX-License-Identifier: MIT
// Consumers that join and leave: where they start, how many there may be, what they leave behind.
#include <functional>
#include <memory>
#include <numeric>
#include <thread>
#include <utility>

#include <gtest/gtest.h>

#include "harness.hpp"

namespace framelane::ring {
namespace {

using testing::intact;
using testing::Lane;
using testing::must;
using testing::TestConsumer;

std::vector<std::uint64_t> numbers(std::uint64_t first, std::uint64_t count) {
  std::vector<std::uint64_t> all(count);
  std::iota(all.begin(), all.end(), first);
  return all;
}

TEST(Join, AnEndWhoseMarkerIsGoneIsStillTold) {
  Lane lane({.sizes = {.burst = 4, .history = 2}});
  const auto join = [&] {
    Writer::Joined seen;
    EXPECT_TRUE(lane.writer->add_consumer({}, [&](const Writer::Joined& joined) { seen = joined; }));
    lane.writer->remove_consumer(seen.id);
    return seen;
  };
  ASSERT_TRUE(lane.send(2));
  EXPECT_FALSE(join().ended);
  lane.send_event(1, Writer::MarkerKind::kEnd);
  const Writer::Joined at_the_end = join();
  EXPECT_FALSE(at_the_end.ended) << "it takes the marker itself";
  for (std::uint32_t i = 0; i < 2 * lane.writer->entry_count(); ++i) lane.send_event(2);
  const Writer::Joined late = join();
  EXPECT_TRUE(late.ended);
  EXPECT_GT(late.start, at_the_end.start);
  lane.send_event(3, Writer::MarkerKind::kBarrier);
  EXPECT_FALSE(join().ended) << "another stream";
}

TEST(Join, WhoResumesBeginsWhereItStopped) {
  Lane lane({.sizes = {.burst = 8}});
  const auto join = [&](std::uint64_t resume) {
    Writer::Joined seen;
    EXPECT_TRUE(
        lane.writer->add_consumer({.resume_untrusted = resume}, [&](const Writer::Joined& told) { seen = told; }));
    lane.writer->remove_consumer(seen.id);
    return seen.start;
  };
  TestConsumer slow(lane);
  ASSERT_TRUE(lane.send(3));
  ASSERT_TRUE(slow.take() && slow.take());
  const std::uint64_t cursor = slow.reader().cursor();
  ASSERT_TRUE(lane.send(4));
  const std::uint64_t head = join(0);
  EXPECT_EQ(head, cursor + 5) << "others begin with the newest";
  EXPECT_EQ(join(cursor), cursor) << "it gates, so all of it is there";
  EXPECT_EQ(join(head), head);
  for (const std::uint64_t never : {head + 1, ~std::uint64_t{0}}) EXPECT_EQ(join(never), head);
  EXPECT_LE(join(1), cursor) << "as far back as there is something";
  lane.send_event(1, Writer::MarkerKind::kBarrier);
  EXPECT_EQ(join(cursor), head + 1) << "the stream's state is that of the barrier";
}

/// Lets somebody else do something in the middle of a publish.
class Amid final : public StandIn {
 public:
  explicit Amid(std::function<void()> then) : then_(std::move(then)) {}
  bool serve() noexcept override {
    if (then_) std::thread(std::exchange(then_, nullptr)).join();
    return true;
  }

 private:
  std::function<void()> then_;
};

TEST(Leave, APageOfOneWhoLeftDuringAPublishGoesSoon) {
  Lane lane({.sizes = {.burst = 4}});
  std::weak_ptr<ConsumerLink> gone;
  ConsumerId leaver = 0;
  ConsumerId sleeper = 0;
  const auto amid = std::make_shared<Amid>([&] {
    lane.writer->remove_consumer(leaver);
    EXPECT_FALSE(lane.writer->free_pages()) << "the publish may be looking at it";
  });
  ASSERT_TRUE(lane.writer->add_consumer({}, [&](const Writer::Joined& joined) { leaver = joined.id; }));
  ASSERT_TRUE(
      lane.writer->add_consumer({.stand_in = amid}, [&](const Writer::Joined& joined) { sleeper = joined.id; }));
  gone = lane.link(leaver);
  ASSERT_TRUE(lane.send(1));              // the slots are announced, under the mutex
  lane.link(sleeper)->ticket().store(1);  // it sleeps, so the publish wakes it
  ASSERT_TRUE(lane.send(1));
  EXPECT_FALSE(gone.expired());
  EXPECT_TRUE(lane.writer->free_pages());
  EXPECT_TRUE(gone.expired());
}

class History : public ::testing::TestWithParam<std::uint32_t> {};
INSTANTIATE_TEST_SUITE_P(Depths, History, ::testing::Values(0, 1, 5, 100));

TEST_P(History, IsWhatALateJoinerStillGets) {
  Lane lane({.sizes = {.burst = 4, .history = GetParam()}});
  ASSERT_TRUE(lane.send(1000));
  TestConsumer late(lane, {.gating = false});
  EXPECT_EQ(late.start_index(), 1000 - GetParam());
  EXPECT_EQ(late.take_all(), numbers(1000 - GetParam(), GetParam()));
  ASSERT_TRUE(lane.send(4));
  EXPECT_EQ(late.take_all(), numbers(1000, 4));
}

TEST_P(History, IsOnlyWhatThereWas) {
  Lane lane({.sizes = {.burst = 4, .history = GetParam()}});
  ASSERT_TRUE(lane.send(3));
  TestConsumer late(lane, {.gating = false});
  const std::uint64_t got = std::min(3u, GetParam());
  EXPECT_EQ(late.take_all(), numbers(3 - got, got));
}

TEST_P(History, CountsFramesAndNotMarkers) {
  Lane lane({.sizes = {.burst = 4, .history = GetParam()}});
  TestConsumer early(lane, {.gating = false});
  for (int i = 0; i < 400; ++i) {
    ASSERT_TRUE(lane.send_inline());
    lane.send_event(2 * i);
    lane.send_event(2 * i + 1);
    early.take_all();
  }
  TestConsumer late(lane, {.gating = false});
  const std::uint64_t most = std::min<std::uint64_t>(GetParam(), lane.writer->entry_count() / 3);
  const auto got = late.take_all();
  EXPECT_EQ(got, numbers(400 - got.size(), got.size()));
  EXPECT_LE(got.size(), GetParam());
  EXPECT_GE(got.size(), most == GetParam() ? GetParam() : most - 4);
  // The events behind its first frame, and those only.
  ASSERT_FALSE(late.events.empty());
  EXPECT_EQ(late.events.back(), 799);
  EXPECT_EQ(early.events.size(), 800u);
}

TEST(Join, StartsBehindABarrier) {
  Lane lane({.sizes = {.history = 10}});
  ASSERT_TRUE(lane.send(20));
  lane.send_event(1, Writer::MarkerKind::kBarrier);
  TestConsumer at_barrier(lane, {.gating = false});
  EXPECT_TRUE(at_barrier.take_all().empty());
  ASSERT_TRUE(lane.send(3));
  TestConsumer after(lane, {.gating = false});
  EXPECT_EQ(after.take_all(), numbers(20, 3));
  EXPECT_EQ(at_barrier.take_all(), numbers(20, 3));
  EXPECT_TRUE(after.events.empty()) << "what was said before is its WELCOME's";
}

TEST(Join, AfterTheEndOfTheStreamGetsTheEnd) {
  Lane lane({});
  ASSERT_TRUE(lane.send(3));
  lane.send_event(99, Writer::MarkerKind::kEnd);
  for (int i = 0; i < 3; ++i) lane.send_event(i);
  TestConsumer late(lane);
  EXPECT_TRUE(late.take_all().empty());
  EXPECT_EQ(late.events, (std::vector<int>{99, 0, 1, 2}));
  lane.send_event(1, Writer::MarkerKind::kBarrier);  // a new stream
  TestConsumer later(lane);
  EXPECT_TRUE(later.take_all().empty());
  EXPECT_TRUE(later.events.empty());
}

TEST(Join, AfterAnEndThatWasOverwrittenStartsWhereTheRingDoes) {
  Lane lane({});
  lane.send_event(99, Writer::MarkerKind::kEnd);
  for (int i = 0; i < 1000; ++i) lane.send_event(i);
  TestConsumer late(lane);
  EXPECT_GE(late.start(), lane.writer->oldest());
  EXPECT_TRUE(late.take_all().empty());
  EXPECT_EQ(late.events.back(), 999);
  EXPECT_TRUE(lane.send(8));
  EXPECT_EQ(late.take_all(), numbers(0, 8));
}

TEST(Join, KeepsCountOfFramesAcrossMarkers) {
  Lane lane({.sizes = {.history = 2}});
  for (int i = 0; i < 10; ++i) {
    ASSERT_TRUE(lane.send_inline());
    lane.send_event(i);
  }
  TestConsumer late(lane, {.gating = false});
  const auto first = late.take();
  ASSERT_TRUE(first);
  EXPECT_EQ(first->index, 8u);
  EXPECT_EQ(first->skipped, 0u);
  EXPECT_TRUE(intact(*first, 8));
}

TEST(Join, GatesFromItsFirstFrameOn) {
  Lane lane({.sizes = {.burst = 4}, .when_full = WhenFull::kDropNew});
  ASSERT_TRUE(lane.send(100)) << "nobody to wait for";
  TestConsumer consumer(lane);
  ASSERT_TRUE(lane.send(4));
  EXPECT_FALSE(lane.send_slot());
  EXPECT_EQ(consumer.take_all(), numbers(100, 4));
}

TEST(Join, IsRefusedBeyondMaxConsumers) {
  Lane lane({.sizes = {.max_consumers = 2}});
  TestConsumer one(lane);
  TestConsumer two(lane);
  const auto third = lane.writer->add_consumer({true, 4}, [](const Writer::Joined&) { FAIL() << "no welcome"; });
  ASSERT_FALSE(third);
  EXPECT_EQ(third.error().code, Code::kFull);
  EXPECT_NE(third.error().text.find("max-consumers"), std::string::npos);
  one.leave();
  TestConsumer again(lane);
  ASSERT_TRUE(lane.send(3));
  EXPECT_EQ(two.take_all(), numbers(0, 3));
  EXPECT_EQ(again.take_all(), numbers(0, 3));
}

TEST(Join, GivesEachOfThirtyTwoItsOwnColourAndEveryFrame) {
  Lane lane({});
  std::vector<std::unique_ptr<TestConsumer>> consumers;
  for (int i = 0; i < 32; ++i) {
    consumers.push_back(std::make_unique<TestConsumer>(lane, testing::JoinOptions{.gating = i % 2 == 0}));
  }
  std::uint32_t colours = 0;
  for (const auto& consumer : consumers) colours |= 1u << lane.link(consumer->id())->colour;
  EXPECT_EQ(colours, ~0u);
  for (std::uint64_t i = 0; i < 500; ++i) {
    ASSERT_TRUE(lane.send_slot());
    for (const auto& consumer : consumers) ASSERT_EQ(consumer->take_all(), numbers(i, 1));
  }
  EXPECT_EQ(lane.counters().published, 500u);
  EXPECT_EQ(lane.counters().passed_over, 0u);
  EXPECT_EQ(lane.counters().full_waits, 0u);
}

TEST(Join, MayBeGrantedFewerHoldsThanWished) {
  Lane lane({.sizes = {.max_held = 3}});
  TestConsumer modest(lane, {.max_held = 2});
  TestConsumer greedy(lane, {.max_held = 100});
  EXPECT_EQ(modest.reader().max_held(), 2u);
  EXPECT_EQ(greedy.reader().max_held(), 3u);
}

TEST(Join, AndLeaveAThousandTimesLosesNothing) {
  Lane lane({.sizes = {.max_consumers = 4}});
  TestConsumer staying(lane);
  std::vector<std::unique_ptr<TestConsumer>> others;
  for (std::uint64_t i = 0; i < 1000; ++i) {
    if (others.size() == 3) others.erase(others.begin() + static_cast<std::ptrdiff_t>(i % 3));
    others.push_back(std::make_unique<TestConsumer>(lane, testing::JoinOptions{.gating = i % 2 == 0}));
    ASSERT_EQ(others.back()->start_index(), i);
    ASSERT_TRUE(lane.send_slot());
    for (auto& other : others) {
      const auto taken = other->take();
      ASSERT_TRUE(!taken || intact(*taken, taken->index));  // held when it leaves
    }
    ASSERT_EQ(staying.take_all(), numbers(i, 1));
  }
  others.clear();
  for (int i = 0; i < 300; ++i) {
    ASSERT_TRUE(lane.send_inline());
    staying.take_all();
  }
  const auto [free, all] = lane.free_slots();
  EXPECT_EQ(free, all);
  EXPECT_TRUE(lane.control.broken().empty());
}

TEST(Join, UsesTheReserveOfOneThatLeft) {
  Lane lane({.sizes = {.burst = 8, .history = 0, .max_loans = 16, .max_held = 4, .max_consumers = 32}});
  must(lane.writer->reserve(64));
  EXPECT_EQ(lane.free_slots(), std::make_pair(32u, 32u)) << "8 + 0 + 8 + 16";
  for (int i = 0; i < 5; ++i) {
    TestConsumer one(lane);
    EXPECT_EQ(lane.free_slots().second, 37u) << "and max-held + 1";
  }
  TestConsumer one(lane);
  TestConsumer two(lane);
  EXPECT_EQ(lane.free_slots().second, 42u);
  must(lane.writer->reserve(128));
  EXPECT_EQ(lane.free_slots(), std::make_pair(42u, 42u)) << "a new segment has both reserves at once";
}

}  // namespace
}  // namespace framelane::ring
