// SPDX-License-Identifier: MIT
// What happens when the ring is full: burst depth, policies, modes, counters.
#include <atomic>
#include <set>
#include <thread>

#include "lanes.hpp"

namespace framelane::lane_test {
namespace {

using Full = LaneTest;

ProducerSettings with(Leaky leaky, std::uint32_t burst = 8) {
  ProducerSettings settings;
  settings.leaky = leaky;
  settings.burst = burst;
  settings.full_timeout = 20ms;
  return settings;
}

ConsumerSettings latest() {
  ConsumerSettings settings;
  settings.mode = Mode::kLatest;
  return settings;
}

Published publish_one(Producer& producer, std::uint64_t frame, std::size_t size = 100) {
  const auto sent = publish(producer, frame, size);
  EXPECT_TRUE(ok(sent));
  return sent.value_or(Published::kDropped);
}

TEST_F(Full, TheBurstDepthIsAbsorbedWithoutAWait) {
  for (const Leaky leaky : {Leaky::kNo, Leaky::kUpstream, Leaky::kDownstream}) {
    for (const std::size_t size : {8u, 100u}) {
      Producer producer = produce(with(leaky, 5));
      Consumer consumer = join();
      publish_frames(producer, 0, 5, size);
      const ProducerStats stats = producer.stats();
      EXPECT_EQ(stats.published, 5u);
      EXPECT_EQ(stats.full_waits, 0u);
      EXPECT_EQ(stats.dropped_full, 0u);
      EXPECT_EQ(stats.passed_over, 0u);
      take_frames(consumer, 0, 5);
    }
  }
}

TEST_F(Full, LeakyNoWaitsAndThenDropsTheNewFrame) {
  if (is_stream()) GTEST_SKIP() << "a socket takes more than the burst: see streams_test";
  Producer producer = produce(with(Leaky::kNo));
  Consumer consumer = join();
  publish_frames(producer, 0, 8);
  EXPECT_EQ(publish_one(producer, 8), Published::kDropped);
  EXPECT_EQ(publish_one(producer, 8), Published::kDropped);
  ProducerStats stats = producer.stats();
  EXPECT_EQ(stats.full_waits, 2u);
  EXPECT_EQ(stats.dropped_full, 2u);
  EXPECT_EQ(stats.published, 8u);
  EXPECT_EQ(stats.loans, 0u) << "a dropped frame's loan is used up";
  take_frames(consumer, 0, 8);
  publish_frames(producer, 8, 1);
  take_frames(consumer, 8, 1);
  EXPECT_EQ(consumer.stats().skipped, 0u);
}

TEST_F(Full, LeakyNoGoesOnAsSoonAsTheConsumerTakes) {
  ProducerSettings settings = with(Leaky::kNo, 2);
  settings.full_timeout = kForever;
  settings.stall_timeout = kForever;
  Producer producer = produce(settings);
  Consumer consumer = join();
  std::thread taker([&] {
    for (std::uint64_t frame = 0; frame < 50; ++frame) {
      std::this_thread::sleep_for(1ms);
      take_frames(consumer, frame, 1);
    }
  });
  publish_frames(producer, 0, 50);
  taker.join();
  EXPECT_EQ(producer.stats().dropped_full, 0u);
  if (!is_stream()) {  // a socket takes all of them at once
    EXPECT_GT(producer.stats().full_waits, 0u);
  }
}

TEST_F(Full, LeakyUpstreamDropsTheNewFrame) {
  if (is_stream()) GTEST_SKIP() << "a socket takes more than the burst: see streams_test";
  Producer producer = produce(with(Leaky::kUpstream));
  Consumer consumer = join();
  publish_frames(producer, 0, 8);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(publish_one(producer, 99), Published::kDropped);
  EXPECT_EQ(producer.stats().full_waits, 0u);
  EXPECT_EQ(producer.stats().dropped_full, 3u);
  EXPECT_EQ(producer.stats().passed_over, 0u);
  take_frames(consumer, 0, 8);
  publish_frames(producer, 8, 1);
  take_frames(consumer, 8, 1);
}

TEST_F(Full, LeakyDownstreamPassesOverTheOldestFrames) {
  if (is_stream()) GTEST_SKIP() << "a socket takes more than the burst: see streams_test";
  Producer producer = produce(with(Leaky::kDownstream));
  Consumer consumer = join();
  publish_frames(producer, 0, 11);
  EXPECT_EQ(producer.stats().published, 11u);
  EXPECT_EQ(producer.stats().passed_over, 3u);
  EXPECT_EQ(producer.stats().dropped_full, 0u);
  EXPECT_EQ(producer.stats().full_waits, 0u);
  const auto first = consumer.take(kPatience);
  ASSERT_TRUE(ok(first));
  EXPECT_EQ(first->seq(), 3u);
  EXPECT_EQ(first->skipped(), 3u);
  EXPECT_EQ(first->info().flags & format::kDiscont, format::kDiscont);
  EXPECT_TRUE(is_frame(first->bytes(), 3));
  const auto second = consumer.take(kPatience);
  ASSERT_TRUE(ok(second));
  EXPECT_EQ(second->skipped(), 0u);
  EXPECT_EQ(second->info().flags & format::kDiscont, 0u);
  take_frames(consumer, 5, 6);
  EXPECT_EQ(consumer.stats().skipped, 3u);
  EXPECT_EQ(consumer.stats().taken, 8u);
}

TEST_F(Full, LeakyDownstreamSparesWhatAConsumerHolds) {
  Producer producer = produce(with(Leaky::kDownstream, 2));
  Consumer consumer = join();
  publish_frames(producer, 0, 1);
  const auto held = consumer.take(kPatience);
  ASSERT_TRUE(ok(held));
  publish_frames(producer, 1, 1000);
  EXPECT_TRUE(is_frame(held->bytes(), 0));
}

TEST_F(Full, NobodyIsWaitedForWhenNobodyGates) {
  Producer producer = produce(with(Leaky::kNo));
  publish_frames(producer, 0, 100);
  ConsumerSettings settings;
  settings.gating = false;
  Consumer consumer = join(settings);
  EXPECT_FALSE(consumer.stats().gating);
  publish_frames(producer, 100, 100);
  EXPECT_EQ(producer.stats().full_waits, 0u);
  EXPECT_EQ(producer.stats().dropped_full, 0u);
  EXPECT_EQ(producer.stats().passed_over, 0u) << "only gating consumers are passed over";
  std::uint64_t next = 100;
  std::uint64_t skipped = 0;
  while (next < 200) {
    const auto taken = consumer.take(kPatience);
    ASSERT_TRUE(ok(taken));
    EXPECT_EQ(taken->seq(), next + taken->skipped());
    EXPECT_TRUE(is_frame(taken->bytes(), taken->seq()));
    skipped += taken->skipped();
    next = taken->seq() + 1;
  }
  EXPECT_EQ(consumer.stats().skipped, skipped);
  EXPECT_EQ(consumer.stats().taken + skipped, 100u);
  EXPECT_GE(consumer.stats().taken, 8u) << "a paused consumer that doesn't gate has the burst, too";
}

TEST_F(Full, LatestTakesTheNewestFrameAndNeverGates) {
  if (is_stream()) GTEST_SKIP() << "the newest is still on its way: see streams_test";
  Producer producer = produce(with(Leaky::kNo));
  Consumer consumer = join(latest());
  EXPECT_FALSE(consumer.stats().gating);
  for (std::uint64_t frame = 0; frame < 1000; frame += 50) {
    publish_frames(producer, frame, 50);
    const auto taken = consumer.take(kPatience);
    ASSERT_TRUE(ok(taken));
    EXPECT_EQ(taken->seq(), frame + 49);
    EXPECT_EQ(taken->skipped(), 49u);
    EXPECT_TRUE(is_frame(taken->bytes(), frame + 49));
    const auto none = consumer.try_take();
    ASSERT_TRUE(ok(none));
    EXPECT_FALSE(none->has_value()) << "each frame once";
  }
  EXPECT_EQ(consumer.stats().skipped, 980u);
  EXPECT_EQ(producer.stats().dropped_full, 0u);
}

TEST_F(Full, AnEventFindsRoomWhateverThePolicy) {
  for (const Leaky leaky : {Leaky::kNo, Leaky::kUpstream, Leaky::kDownstream}) {
    Producer producer = produce(with(leaky));
    Consumer consumer = join();
    publish_frames(producer, 0, 8);
    for (int i = 0; i < 32; ++i) ASSERT_TRUE(ok(producer.send(event(format::EventType::kCustom, "e"))));
    take_frames(consumer, 0, 8);
    for (int i = 0; i < 32; ++i) ASSERT_TRUE(ok(consumer.take_item(kPatience)));
    EXPECT_TRUE(fails_with(consumer.take_item(1ms), Code::kTimeout));
    EXPECT_EQ(producer.stats().dropped_full, 0u);
  }
}

TEST_F(Full, BurstTimeCountsByTheRateOfTheCaps) {
  if (is_stream()) GTEST_SKIP() << "a socket takes more than the burst: see streams_test";
  ProducerSettings settings = with(Leaky::kUpstream, 8);
  settings.burst_time = 100ms;
  Producer producer = produce(settings);
  const auto depth = [&producer] {
    Consumer consumer = join();
    std::uint32_t sent = 0;
    while (publish_one(producer, sent, 1000) == Published::kSent) ++sent;
    return sent;
  };
  EXPECT_EQ(depth(), 8u) << "the rate isn't known yet";
  ASSERT_TRUE(ok(producer.set_caps("video/x-raw, format=(string)GRAY8, framerate=(fraction)30/1")));
  EXPECT_TRUE(eventually([&] { return producer.num_consumers() == 0; }));
  EXPECT_EQ(depth(), 3u);
  EXPECT_TRUE(eventually([&] { return producer.num_consumers() == 0; }));
  ASSERT_TRUE(ok(producer.set_caps("video/x-raw, format=(string)GRAY8, framerate=(fraction)250/1")));
  EXPECT_EQ(depth(), 25u);
}

TEST_F(Full, AStalledConsumerIsDemotedAndGatesAgainWhenItCaughtUp) {
  if (is_stream()) GTEST_SKIP() << "a socket takes more than the burst: see streams_test";
  ProducerSettings settings = with(Leaky::kNo);
  settings.full_timeout = kForever;
  settings.stall_timeout = 30ms;
  Producer producer = produce(settings);
  Consumer consumer = join();
  publish_frames(producer, 0, 8);
  publish_frames(producer, 8, 8);  // waits for stall_timeout, once
  EXPECT_EQ(producer.stats().demotions, 1u);
  EXPECT_EQ(producer.stats().dropped_full, 0u);
  EXPECT_TRUE(producer.stats().consumers.at(0).demoted);
  EXPECT_FALSE(producer.stats().consumers.at(0).gating);
  EXPECT_TRUE(eventually([&] { return consumer.stats().demoted; }));
  while (consumer.try_take().value().has_value()) {
  }
  std::uint64_t frame = 16;
  EXPECT_TRUE(eventually([&] {
    publish_frames(producer, frame++, 1);
    while (consumer.try_take().value().has_value()) {
    }
    return producer.stats().consumers.at(0).gating;
  }));
  EXPECT_TRUE(eventually([&] { return !consumer.stats().demoted; }));
  EXPECT_EQ(consumer.stats().taken + consumer.stats().skipped, frame);
}

TEST_F(Full, EverySlotComesBack) {
  ProducerSettings settings = with(Leaky::kNo);
  settings.history = 2;
  Producer producer = produce(settings);
  Consumer consumer = join();
  for (std::uint64_t frame = 0; frame < 100; ++frame) {
    publish_frames(producer, frame, 1);
    take_frames(consumer, frame, 1);
  }
  std::vector<std::uint16_t> none;
  for (int i = 0; i < 20; ++i) producer.reclaimed(none);
  const ProducerStats stats = producer.stats();
  EXPECT_EQ(stats.slots, 8u + 2 + 8 + 16 + 4 + 1) << "burst + history + 8 + max-loans + one consumer's reserve";
  EXPECT_EQ(stats.free_slots, stats.slots - 2) << "the history stays for joiners";
  EXPECT_TRUE(none.empty());
}

// Sends and takes 100 frames one by one; returns how many places they lay in.
std::size_t places_of_100(Producer& producer, Consumer& consumer, std::size_t size) {
  std::set<const std::byte*> places;
  for (int i = 0; i < 100; ++i) {
    auto loan = producer.loan(size);
    EXPECT_TRUE(loan.has_value());
    places.insert(loan->data());
    EXPECT_EQ(producer.publish(*loan, size).value(), Published::kSent);
    EXPECT_TRUE(consumer.take(kPatience).has_value());
  }
  return places.size();
}

TEST_F(Full, LargeFramesStayInTheCache) {
  Producer producer = produce(with(Leaky::kNo));
  Consumer consumer = join();
  EXPECT_LE(places_of_100(producer, consumer, 64 << 10), 2u);
}

TEST_F(Full, LargeFramesStayForWhoDoesNotGate) {
  Producer producer = produce(with(Leaky::kNo));
  ConsumerSettings settings;
  settings.gating = false;
  Consumer consumer = join(settings);
  EXPECT_GE(places_of_100(producer, consumer, 64 << 10), 8u) << "the burst";
}

TEST_F(Full, BothSidesCountTheSame) {
  if (is_stream()) GTEST_SKIP() << "a socket takes more than the burst: see streams_test";
  ProducerSettings settings = with(Leaky::kDownstream);
  settings.stamps = Stamps::kOn;
  Producer producer = produce(settings);
  ConsumerSettings few;
  few.max_held = 2;
  Consumer consumer = join(few);
  publish_frames(producer, 0, 10);
  std::vector<Frame> held;
  for (int i = 0; i < 5; ++i) held.push_back(consumer.take(kPatience).value());
  const ConsumerStats ours = consumer.stats();
  EXPECT_EQ(ours.taken, 5u);
  EXPECT_EQ(ours.skipped, 2u);
  EXPECT_EQ(ours.copied, 3u);
  EXPECT_EQ(ours.held, 2u);
  EXPECT_EQ(ours.connections, 1u);
  EXPECT_TRUE(ours.connected);
  EXPECT_TRUE(ours.gating);
  EXPECT_FALSE(ours.demoted);
  EXPECT_EQ(ours.transport, "shm");
  EXPECT_EQ(ours.latency.count, 5u);
  EXPECT_GT(ours.latency.min_ns, 0u);
  EXPECT_LE(ours.latency.min_ns, ours.latency.max_ns);
  const ProducerStats stats = producer.stats();
  EXPECT_EQ(stats.published, 10u);
  EXPECT_EQ(stats.passed_over, 2u);
  ASSERT_EQ(stats.consumers.size(), 1u);
  const ConsumerInfo& theirs = stats.consumers[0];
  EXPECT_EQ(theirs.id, 1u);
  EXPECT_EQ(theirs.pid, getpid());
  EXPECT_EQ(theirs.uid, geteuid());
  EXPECT_EQ(theirs.name, program_invocation_short_name);
  EXPECT_TRUE(theirs.gating);
  EXPECT_FALSE(theirs.latest);
  EXPECT_EQ(theirs.lag, 3u);
  EXPECT_EQ(theirs.held, 2u);
  EXPECT_EQ(theirs.taken, 5u);
  EXPECT_EQ(theirs.skipped, 2u);
  EXPECT_EQ(theirs.copied, 3u);
  EXPECT_EQ(theirs.latency.count, 5u);
}

}  // namespace
}  // namespace framelane::lane_test
