// SPDX-License-Identifier: MIT
// Every wait: how it ends, by what comes, by time, by interrupt().
#include <atomic>
#include <functional>
#include <thread>

#include "lanes.hpp"

namespace framelane::lane_test {
namespace {

using Waits = LaneTest;

/// A call that waits on a thread of its own.
class Waiting {
 public:
  explicit Waiting(std::function<Code()> call)
      : thread_([this, call = std::move(call)] {
          code_ = call();
          done_ = true;
        }) {}
  ~Waiting() { thread_.join(); }
  [[nodiscard]] bool done() const { return done_; }
  [[nodiscard]] Code join() {
    EXPECT_TRUE(eventually([&] { return done_.load(); })) << "it doesn't end";
    return code_;
  }

 private:
  std::atomic<bool> done_{false};
  Code code_{};
  std::thread thread_;
};

constexpr Code kFine{};

template <class T>
Code code_of(const Result<T>& result) {
  return result ? kFine : result.error().code;
}

/// interrupt() ends the wait, and the next one, until resume().
template <class Side>
void expect_interruptible(Side& side, const std::function<Code()>& call) {
  for (int round = 0; round < 2; ++round) {
    {
      Waiting waiting(call);
      std::this_thread::sleep_for(round == 0 ? 20ms : 0ms);  // asleep, or just about to
      side.interrupt();
      EXPECT_EQ(waiting.join(), Code::kInterrupted);
    }
    EXPECT_EQ(call(), Code::kInterrupted) << "until resume()";
    EXPECT_EQ(call(), Code::kInterrupted);
    side.resume();
    {
      Waiting waiting(call);
      std::this_thread::sleep_for(20ms);
      EXPECT_FALSE(waiting.done()) << "it waits again after resume()";
      side.interrupt();
      EXPECT_EQ(waiting.join(), Code::kInterrupted);
    }
    side.resume();
  }
}

class WaitsBySpin : public LaneTest, public ::testing::WithParamInterface<Spin> {};

TEST_P(WaitsBySpin, TakeIsInterruptible) {
  Producer producer = produce();
  ConsumerSettings settings;
  settings.spin = GetParam();
  Consumer consumer = join(settings);
  expect_interruptible(consumer, [&] { return code_of(consumer.take(kForever)); });
  publish_frames(producer, 0, 1);
  take_frames(consumer, 0, 1);
}

TEST_P(WaitsBySpin, PublishIntoAFullRingIsInterruptible) {
  if (is_stream()) GTEST_SKIP() << "a socket takes more than the burst: see streams_test";
  ProducerSettings settings;
  settings.spin = GetParam();
  settings.full_timeout = kForever;
  settings.stall_timeout = kForever;
  Producer producer = produce(settings);
  Consumer consumer = join();
  publish_frames(producer, 0, 8);
  auto loan = producer.loan(100);
  ASSERT_TRUE(ok(loan));
  fill(loan->bytes().first(100), 8);
  expect_interruptible(producer, [&] { return code_of(producer.publish(*loan, 100)); });
  EXPECT_TRUE(static_cast<bool>(*loan)) << "kept when the call was interrupted";
  EXPECT_EQ(producer.stats().dropped_full, 0u);
  take_frames(consumer, 0, 8);
  ASSERT_TRUE(ok(producer.publish(*loan, 100)));
  take_frames(consumer, 8, 1);
}

TEST_P(WaitsBySpin, DrainIsInterruptible) {
  if (is_stream()) GTEST_SKIP() << "a socket takes more than the burst: see streams_test";
  ProducerSettings settings;
  settings.spin = GetParam();
  Producer producer = produce(settings);
  Consumer consumer = join();
  publish_frames(producer, 0, 3);
  expect_interruptible(producer, [&] { return code_of(producer.drain(kForever)); });
  take_frames(consumer, 0, 3);
  EXPECT_TRUE(ok(producer.drain(kForever)));
}

TEST_P(WaitsBySpin, AFrameEndsTheWait) {
  Producer producer = produce();
  ConsumerSettings settings;
  settings.spin = GetParam();
  Consumer consumer = join(settings);
  Waiting waiting([&] { return code_of(consumer.take(kForever)); });
  std::this_thread::sleep_for(20ms);
  publish_frames(producer, 0, 1);
  EXPECT_EQ(waiting.join(), kFine);
}

TEST_P(WaitsBySpin, ATakeMakesRoomForAWaitingPublish) {
  if (is_stream()) GTEST_SKIP() << "a socket takes more than the burst: see streams_test";
  ProducerSettings settings;
  settings.spin = GetParam();
  settings.full_timeout = kForever;
  settings.stall_timeout = kForever;
  Producer producer = produce(settings);
  Consumer consumer = join();
  publish_frames(producer, 0, 8);
  Waiting waiting([&] { return code_of(publish(producer, 8)); });
  std::this_thread::sleep_for(20ms);
  EXPECT_FALSE(waiting.done());
  take_frames(consumer, 0, 1);
  EXPECT_EQ(waiting.join(), kFine);
  take_frames(consumer, 1, 8);
}

INSTANTIATE_TEST_SUITE_P(Spins, WaitsBySpin, ::testing::Values(Spin::kAdaptive, Spin::kBusy, Spin::kOff));

TEST_F(Waits, TakeItemIsInterruptible) {
  Producer producer = produce();
  Consumer consumer = join();
  expect_interruptible(consumer, [&] { return code_of(consumer.take_item(kForever)); });
}

TEST_F(Waits, TryTakeIsInterrupted) {
  Producer producer = produce();
  Consumer consumer = join();
  publish_frames(producer, 0, 1);
  consumer.interrupt();
  EXPECT_TRUE(fails_with(consumer.try_take(), Code::kInterrupted));
  EXPECT_TRUE(fails_with(consumer.take(kForever), Code::kInterrupted)) << "although a frame is there";
  consumer.resume();
  take_frames(consumer, 0, 1);
}

TEST_F(Waits, ConnectIsInterruptible) {
  ConsumerSettings settings;
  settings.connect_timeout = kForever;
  Consumer consumer = consume(settings);
  expect_interruptible(consumer, [&] { return code_of(consumer.connect(kForever)); });
  expect_interruptible(consumer, [&] { return code_of(consumer.take(kForever)); });
  Producer producer = produce();
  EXPECT_TRUE(ok(consumer.connect(kPatience)));
}

TEST_F(Waits, ForTheLaneToComeBackIsInterruptible) {
  std::optional<Producer> producer(produce());
  Consumer consumer = join();
  producer.reset();
  expect_interruptible(consumer, [&] { return code_of(consumer.take(kForever)); });
}

TEST_F(Waits, WaitForConsumersIsInterruptible) {
  Producer producer = produce();
  expect_interruptible(producer, [&] { return code_of(producer.wait_for_consumers(1, kForever)); });
  Consumer consumer = join();
  EXPECT_TRUE(ok(producer.wait_for_consumers(1, kPatience)));
}

TEST_F(Waits, AnEventIntoAFullRingIsInterruptible) {
  ProducerSettings settings;
  settings.full_timeout = kForever;
  settings.stall_timeout = kForever;
  Producer producer = produce(settings);
  Consumer consumer = join();
  const format::Event custom = event(format::EventType::kCustom, "e");
  expect_interruptible(producer, [&] {
    for (;;) {
      if (auto sent = producer.send(custom); !sent) return sent.error().code;
    }
  });
}

TEST_F(Waits, EndInTime) {
  if (is_stream()) GTEST_SKIP() << "a socket takes more than the burst: see streams_test";
  ProducerSettings settings;
  settings.full_timeout = 5ms;
  Producer producer = produce(settings);
  EXPECT_TRUE(fails_with(producer.wait_for_consumers(1, 5ms), Code::kTimeout));
  EXPECT_TRUE(fails_with(producer.wait_for_consumers(1, 0ns), Code::kTimeout));
  Consumer consumer = join();
  EXPECT_TRUE(fails_with(consumer.take(5ms), Code::kTimeout));
  EXPECT_TRUE(fails_with(consumer.take(0ns), Code::kTimeout));
  EXPECT_TRUE(fails_with(consumer.take(-1s), Code::kTimeout));
  EXPECT_TRUE(fails_with(consumer.take_item(5ms), Code::kTimeout));
  publish_frames(producer, 0, 8);
  EXPECT_TRUE(fails_with(producer.drain(5ms), Code::kTimeout));
  EXPECT_EQ(publish(producer, 8).value(), Published::kDropped);
  take_frames(consumer, 0, 8);
  EXPECT_TRUE(ok(producer.drain(0ns)));
}

TEST_F(Waits, TryTakeNeverWaits) {
  ConsumerSettings settings;
  Consumer consumer = consume(settings);
  auto taken = consumer.try_take();
  ASSERT_TRUE(ok(taken)) << "no producer yet";
  EXPECT_FALSE(taken->has_value());
  Producer producer = produce();
  publish_frames(producer, 0, 1);
  EXPECT_TRUE(eventually([&] {  // connects by and by
    EXPECT_TRUE(consumer.try_take().has_value());
    return consumer.stats().connected;
  }));
  publish_frames(producer, 1, 1);
  taken = consumer.try_take();
  ASSERT_TRUE(ok(taken));
  if (is_stream()) {
    ASSERT_TRUE(eventually([&] { return taken->has_value() || (taken = consumer.try_take()).value().has_value(); }));
  }
  ASSERT_TRUE(taken->has_value());
  EXPECT_EQ((**taken).seq(), 1u);
}

TEST_F(Waits, DrainCountsGatingConsumersOnly) {
  Producer producer = produce();
  EXPECT_TRUE(ok(producer.drain(0ns))) << "nobody is there";
  ConsumerSettings settings;
  settings.gating = false;
  Consumer consumer = join(settings);
  publish_frames(producer, 0, 3);
  EXPECT_TRUE(ok(producer.drain(0ns)));
}

TEST_F(Waits, DrainEndsWhenTheConsumerLeaves) {
  if (is_stream()) GTEST_SKIP() << "a socket takes more than the burst: see streams_test";
  Producer producer = produce();
  Consumer consumer = join();
  publish_frames(producer, 0, 3);
  Waiting waiting([&] { return code_of(producer.drain(kForever)); });
  std::this_thread::sleep_for(20ms);
  EXPECT_FALSE(waiting.done());
  consumer.close();
  EXPECT_EQ(waiting.join(), kFine);
}

TEST_F(Waits, APublishGoesOnWhenTheConsumerLeavesAndStillHolds) {
  if (is_stream()) GTEST_SKIP() << "a socket takes more than the burst: see streams_test";
  ProducerSettings settings;
  settings.full_timeout = kForever;
  settings.stall_timeout = kForever;
  Producer producer = produce(settings);
  Consumer consumer = join();
  publish_frames(producer, 0, 8);
  const auto held = consumer.take(kPatience);
  ASSERT_TRUE(ok(held));
  publish_frames(producer, 8, 1);
  Waiting waiting([&] { return code_of(publish(producer, 9)); });
  std::this_thread::sleep_for(20ms);
  EXPECT_FALSE(waiting.done());
  consumer.close();
  EXPECT_EQ(waiting.join(), kFine);
  publish_frames(producer, 10, 100);
  EXPECT_TRUE(is_frame(held->bytes(), 0));
}

TEST_F(Waits, ALaterWakeWakesWhoSleeps) {
  Producer producer = produce();
  ConsumerSettings settings;
  settings.spin = Spin::kOff;
  Consumer consumer = join(settings);
  for (std::uint64_t frame = 0; frame < 5; ++frame) {
    const std::uint64_t sleeps = consumer.stats().sleeps;
    Waiting waiting([&] { return code_of(consumer.take(kForever)); });
    ASSERT_TRUE(eventually([&] { return consumer.stats().sleeps > sleeps; }));
    const std::uint64_t wakes = producer.stats().wakes;
    ASSERT_TRUE(ok(producer.publish_copy(payload(8, frame), {}, Wake::kLater)));
    EXPECT_EQ(producer.stats().wakes, wakes);
    std::thread([&] { producer.wake_consumers(); }).join();
    EXPECT_EQ(waiting.join(), kFine);
  }
}

TEST_F(Waits, OneSleepCostsOneWake) {
  if (is_stream()) GTEST_SKIP() << "its relay is woken, not the consumer";
  Producer producer = produce();
  ConsumerSettings settings;
  settings.spin = Spin::kOff;
  Consumer consumer = join(settings);
  publish_frames(producer, 0, 1);  // the first brings its segment
  take_frames(consumer, 0, 1);
  const std::uint64_t sleeps = consumer.stats().sleeps;
  {
    Waiting waiting([&] { return code_of(consumer.take(kForever)); });
    ASSERT_TRUE(eventually([&] { return consumer.stats().sleeps > sleeps; }));
    publish_frames(producer, 1, 1);
    EXPECT_EQ(waiting.join(), kFine);
  }
  const std::uint64_t wakes = producer.stats().wakes;
  EXPECT_LE(wakes, consumer.stats().sleeps);
  publish_frames(producer, 2, 7);
  EXPECT_EQ(producer.stats().wakes, wakes) << "nobody sleeps";
}

}  // namespace
}  // namespace framelane::lane_test
