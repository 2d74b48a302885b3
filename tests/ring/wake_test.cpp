// SPDX-License-Identifier: MIT
// Sleeping and waking: once per sleep, never lost, never when nobody asked.
#include <chrono>
#include <thread>

#include <gtest/gtest.h>

#include "harness.hpp"

namespace framelane::ring {
namespace {

using testing::Lane;
using testing::TestConsumer;

/// Waits until `what` is true, for as long as the test runner lets us.
template <class What>
void await(What&& what) {
  while (!what()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

std::atomic<std::uint32_t>& ticket_of(Lane& lane, TestConsumer& consumer) {
  return consumer.page().waiting[lane.link(consumer.id())->colour].ticket;
}

/// Waits on another thread until a frame is there, `sleeps` times at most.
class Sleeper {
 public:
  Sleeper(Lane& lane, TestConsumer& consumer)
      : thread_([&consumer, this] {
          while (!consumer.reader().ready()) {
            consumer.reader().wait([] { return false; }, base::kForever);
            ++waits_;
          }
        }),
        ticket_(ticket_of(lane, consumer)) {
    await([&] { return ticket_.load() != 0; });
  }
  ~Sleeper() { thread_.join(); }
  [[nodiscard]] int waits() const { return waits_; }

 private:
  std::atomic<int> waits_{0};
  std::thread thread_;
  std::atomic<std::uint32_t>& ticket_;
};

TEST(Wake, ComesOnceForABurst) {
  Lane lane({.sizes = {.burst = 64}});
  TestConsumer consumer(lane);
  // A sleeper that doesn't get to run while the burst comes: its ticket stays, and is worth one wake.
  ticket_of(lane, consumer).store(1);
  for (int i = 0; i < 64; ++i) ASSERT_TRUE(lane.send_inline());
  EXPECT_EQ(lane.counters().wakes, 1u);
  EXPECT_EQ(consumer.page().wake_word.load(), 1u);
  ticket_of(lane, consumer).store(2);
  lane.send_event(1);
  lane.send_event(2);
  EXPECT_EQ(lane.counters().wakes, 2u) << "another sleep, another wake";
  EXPECT_EQ(consumer.page().wake_word.load(), 2u);
}

TEST(Wake, IsNotDoneForConsumersThatAreAwake) {
  Lane lane({});
  TestConsumer consumer(lane);
  for (int i = 0; i < 500; ++i) {
    ASSERT_TRUE(lane.send_slot());
    consumer.take_all();
  }
  EXPECT_EQ(lane.counters().wakes, 0u);
  EXPECT_EQ(consumer.page().wake_word.load(), 0u);
  EXPECT_EQ(consumer.page().sleeps.load(), 0u);
}

TEST(Wake, EndsASleep) {
  Lane lane({});
  TestConsumer consumer(lane);
  for (std::uint64_t i = 0; i < 50; ++i) {
    {
      const Sleeper sleeper(lane, consumer);
      ASSERT_TRUE(lane.send_inline());
    }
    EXPECT_EQ(ticket_of(lane, consumer).load(), 0u);
    ASSERT_EQ(consumer.take_all().size(), 1u);
  }
  EXPECT_GE(lane.counters().wakes, 50u - 5) << "a watchdog may have been faster, now and then";
}

TEST(Wake, IsForEverySleeper) {
  Lane lane({});
  std::vector<std::unique_ptr<TestConsumer>> consumers;
  for (int i = 0; i < 8; ++i) consumers.push_back(std::make_unique<TestConsumer>(lane));
  for (auto& consumer : consumers) ticket_of(lane, *consumer).store(7);
  ASSERT_TRUE(lane.send_inline());
  EXPECT_EQ(lane.counters().wakes, 8u);
  for (auto& consumer : consumers) EXPECT_EQ(consumer->page().wake_word.load(), 1u);
}

TEST(Wake, CanBeLeftForLater) {
  Lane lane({});
  TestConsumer consumer(lane);
  ticket_of(lane, consumer).store(1);
  for (int i = 0; i < 8; ++i) ASSERT_TRUE(lane.send_inline(16, false));
  EXPECT_EQ(lane.counters().wakes, 0u);
  EXPECT_EQ(consumer.page().wake_word.load(), 0u);
  lane.writer->wake_consumers();
  EXPECT_EQ(lane.counters().wakes, 1u);
  EXPECT_EQ(consumer.page().wake_word.load(), 1u);
  lane.writer->wake_consumers();
  EXPECT_EQ(lane.counters().wakes, 1u) << "once per ticket, whoever wakes";
}

TEST(Wait, SeesAFrameThatCameBeforeIt) {
  Lane lane({});
  TestConsumer consumer(lane);
  ASSERT_TRUE(lane.send_inline(16, false));
  consumer.reader().wait([] { return false; }, base::kForever);
  EXPECT_EQ(consumer.page().sleeps.load(), 0u);
  EXPECT_EQ(ticket_of(lane, consumer).load(), 0u);
}

TEST(Wait, EndsWithReaderWake) {
  Lane lane({});
  TestConsumer consumer(lane);
  std::atomic<bool> stop{false};
  std::thread sleeper([&] {
    while (!stop) consumer.reader().wait([&] { return stop.load(); }, base::kForever);
  });
  await([&] { return ticket_of(lane, consumer).load() != 0; });
  stop = true;
  consumer.reader().wake();
  sleeper.join();
  EXPECT_FALSE(consumer.reader().ready());
}

TEST(Wait, DoesntSleepWhenStoppedBefore) {
  Lane lane({});
  TestConsumer consumer(lane);
  consumer.reader().wait([] { return true; }, base::kForever);
  EXPECT_EQ(consumer.page().sleeps.load(), 0u);
}

TEST(Wait, EndsAtItsDeadline) {
  for (const SpinKind spin : {SpinKind::kOff, SpinKind::kAdaptive, SpinKind::kBusy}) {
    Lane lane({});
    TestConsumer consumer(lane, {.spin = spin});
    const std::int64_t deadline = base::monotonic_ns() + 3'000'000;
    while (base::monotonic_ns() < deadline) consumer.reader().wait([] { return false; }, deadline);
    EXPECT_FALSE(consumer.reader().ready());
    EXPECT_EQ(ticket_of(lane, consumer).load(), 0u);
  }
}

TEST(Wait, EndsWithoutAWakeAfterTheWatchdog) {
  Lane lane({});
  TestConsumer consumer(lane);
  const std::int64_t before = base::monotonic_ns();
  consumer.reader().wait([] { return false; }, base::kForever);
  EXPECT_GE(base::monotonic_ns() - before, 190'000'000);
  EXPECT_EQ(consumer.page().sleeps.load(), 1u);
}

TEST(Wait, SpinsFirstUnlessTold) {
  if (base::online_cpus() < 2) GTEST_SKIP() << "nobody spins on one CPU";
  Lane lane({});
  TestConsumer consumer(lane, {.spin = SpinKind::kBusy});
  std::thread later([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    ASSERT_TRUE(lane.send_inline());
  });
  consumer.reader().wait([] { return false; }, base::kForever);
  later.join();
  EXPECT_TRUE(consumer.reader().ready());
  EXPECT_EQ(consumer.page().sleeps.load(), 0u);
  EXPECT_EQ(consumer.reader().page().spins.load(), 1u);
  EXPECT_EQ(lane.counters().wakes, 0u);
}

}  // namespace
}  // namespace framelane::ring
