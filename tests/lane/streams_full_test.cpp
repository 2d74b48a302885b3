// SPDX-License-Identifier: MIT
// What happens when ring and socket are full: frames that are as large as the socket's buffers first fill those, until
// the producer's thread for this consumer stands in the middle of one. From then on the ring decides, as it does for
// shared memory.
#include <atomic>
#include <future>
#include <optional>

#include "streams.hpp"

namespace framelane::lane_test {
namespace {

constexpr std::size_t kLarge = std::size_t{4} << 20;  // bytes: a socket takes a few of them

class StreamFull : public StreamsTest {
 protected:
  static ProducerSettings with(Leaky leaky) {
    ProducerSettings settings;
    settings.leaky = leaky;
    settings.burst = 4;
    settings.full_timeout = 20ms;
    settings.stall_timeout = kForever;
    return settings;
  }
  static ProducerSettings waiting() {
    ProducerSettings settings = with(Leaky::kNo);
    settings.full_timeout = kForever;
    return settings;
  }

  [[nodiscard]] static std::uint64_t lag(const Producer& producer) { return producer.stats().consumers.at(0).lag; }

  /// Publishes large frames until none is taken any more: then exactly one is on its way, and the ring is empty or
  /// holds one more that is being waited with. Returns how many were published.
  static std::uint64_t stuff(Producer& producer) {
    std::uint64_t frame = 0;
    for (;;) {
      publish_frames(producer, frame++, 1, kLarge);
      // The relay takes a frame as soon as the one before is sent; what isn't taken for long stands.
      const auto until = std::chrono::steady_clock::now() + 300ms;
      while (lag(producer) != 0 && std::chrono::steady_clock::now() < until) std::this_thread::sleep_for(1ms);
      if (lag(producer) == 1) return frame;
      if (frame == 200) throw std::runtime_error("the socket takes everything");
    }
  }
  /// How many small frames find room behind the stuffed ones: one is there already.
  static constexpr std::uint64_t kRoom = 3;

  /// A publish on another thread, which is waiting now.
  template <class Call>
  static std::future<std::invoke_result_t<Call>> begin_waiting(const Producer& producer, Call call) {
    const std::uint64_t waits = producer.stats().full_waits;
    auto future = std::async(std::launch::async, std::move(call));
    EXPECT_TRUE(eventually([&] { return producer.stats().full_waits > waits; }));
    EXPECT_EQ(future.wait_for(20ms), std::future_status::timeout);
    return future;
  }

  /// Takes from `next` on until `last` was taken, and checks that each frame is whole and no loss untold.
  struct Count {
    std::uint64_t taken = 0;
    std::uint64_t skipped = 0;
  };
  static Count take_until(Consumer& consumer, std::uint64_t last, std::uint64_t next = 0) {
    Count count;
    while (next <= last) {
      const auto frame = consumer.take(kPatience);
      EXPECT_TRUE(ok(frame));
      if (!frame) return count;
      EXPECT_EQ(frame->seq(), next + frame->skipped());
      EXPECT_TRUE(is_frame(frame->bytes(), frame->seq()));
      next = frame->seq() + 1;
      ++count.taken;
      count.skipped += frame->skipped();
    }
    return count;
  }
};

TEST_P(StreamFull, TheBurstIsAbsorbedWithoutAWait) {
  for (const Leaky leaky : {Leaky::kNo, Leaky::kUpstream, Leaky::kDownstream}) {
    Producer producer = open_producer(with(leaky));
    Consumer consumer = join(producer.descriptor());
    const std::uint64_t stuffed = stuff(producer);
    publish_frames(producer, stuffed, kRoom);
    const ProducerStats stats = producer.stats();
    EXPECT_EQ(stats.full_waits, 0u);
    EXPECT_EQ(stats.dropped_full, 0u);
    EXPECT_EQ(stats.passed_over, 0u);
    take_frames(consumer, 0, stuffed + kRoom);
    EXPECT_EQ(consumer.stats().skipped, 0u);
  }
}

TEST_P(StreamFull, LeakyNoWaitsAndThenDropsTheNewFrame) {
  Producer producer = open_producer(with(Leaky::kNo));
  Consumer consumer = join(producer.descriptor());
  const std::uint64_t stuffed = stuff(producer);
  publish_frames(producer, stuffed, kRoom);
  EXPECT_EQ(publish(producer, 99).value(), Published::kDropped);
  EXPECT_EQ(publish(producer, 99).value(), Published::kDropped);
  const ProducerStats stats = producer.stats();
  EXPECT_EQ(stats.full_waits, 2u);
  EXPECT_EQ(stats.dropped_full, 2u);
  EXPECT_EQ(stats.published, stuffed + kRoom);
  EXPECT_EQ(stats.loans, 0u);
  take_frames(consumer, 0, stuffed + kRoom);
  publish_frames(producer, stuffed + kRoom, 1);
  take_frames(consumer, stuffed + kRoom, 1);
  EXPECT_EQ(consumer.stats().skipped, 0u);
}

TEST_P(StreamFull, LeakyUpstreamDropsTheNewFrame) {
  Producer producer = open_producer(with(Leaky::kUpstream));
  Consumer consumer = join(producer.descriptor());
  const std::uint64_t stuffed = stuff(producer);
  publish_frames(producer, stuffed, kRoom);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(publish(producer, 99).value(), Published::kDropped);
  EXPECT_EQ(producer.stats().full_waits, 0u);
  EXPECT_EQ(producer.stats().dropped_full, 3u);
  EXPECT_EQ(producer.stats().passed_over, 0u);
  take_frames(consumer, 0, stuffed + kRoom);
  publish_frames(producer, stuffed + kRoom, 1);
  take_frames(consumer, stuffed + kRoom, 1);
}

TEST_P(StreamFull, LeakyDownstreamPassesOverTheOldestFrames) {
  Producer producer = open_producer(with(Leaky::kDownstream));
  Consumer consumer = join(producer.descriptor());
  const std::uint64_t stuffed = stuff(producer);
  publish_frames(producer, stuffed, kRoom + 5);
  const ProducerStats stats = producer.stats();
  EXPECT_EQ(stats.published, stuffed + kRoom + 5);
  EXPECT_EQ(stats.passed_over, 5u);
  EXPECT_EQ(stats.dropped_full, 0u);
  EXPECT_EQ(stats.full_waits, 0u);
  // The last of the stuffed ones waited in the ring, and went with the oldest.
  take_frames(consumer, 0, stuffed - 1);
  const auto next = consumer.take(kPatience);
  ASSERT_TRUE(ok(next));
  EXPECT_EQ(next->seq(), stuffed + 4);
  EXPECT_EQ(next->skipped(), 5u);
  EXPECT_EQ(next->info().flags & format::kDiscont, format::kDiscont);
  EXPECT_TRUE(is_frame(next->bytes(), stuffed + 4));
  take_frames(consumer, stuffed + 5, 3);
  EXPECT_EQ(consumer.stats().skipped, 5u);
  EXPECT_EQ(consumer.stats().taken + consumer.stats().skipped, stats.published);
}

TEST_P(StreamFull, AWaitingPublishIsInterruptible) {
  Producer producer = open_producer(waiting());
  Consumer consumer = join(producer.descriptor());
  const std::uint64_t stuffed = stuff(producer);
  publish_frames(producer, stuffed, kRoom);
  auto loan = producer.loan(100);
  ASSERT_TRUE(ok(loan));
  fill(loan->bytes().first(100), stuffed + kRoom);
  auto publishing = begin_waiting(producer, [&] { return producer.publish(*loan, 100); });
  producer.interrupt();
  EXPECT_TRUE(fails_with(publishing.get(), Code::kInterrupted));
  producer.resume();
  EXPECT_TRUE(static_cast<bool>(*loan)) << "kept when the call was interrupted";
  EXPECT_EQ(producer.stats().dropped_full, 0u);
  take_frames(consumer, 0, stuffed + kRoom);
  ASSERT_TRUE(ok(producer.publish(*loan, 100)));
  take_frames(consumer, stuffed + kRoom, 1);
}

TEST_P(StreamFull, ATakeMakesRoomForAWaitingPublish) {
  Producer producer = open_producer(waiting());
  Consumer consumer = join(producer.descriptor());
  const std::uint64_t stuffed = stuff(producer);
  publish_frames(producer, stuffed, kRoom);
  auto publishing = begin_waiting(producer, [&] { return publish(producer, stuffed + kRoom); });
  take_frames(consumer, 0, stuffed);
  EXPECT_EQ(publishing.get().value(), Published::kSent);
  take_frames(consumer, stuffed, kRoom + 1);
}

TEST_P(StreamFull, AWaitingPublishGoesOnWhenTheConsumerLeaves) {
  Producer producer = open_producer(waiting());
  Consumer consumer = join(producer.descriptor());
  publish_frames(producer, 0, 1);
  const auto held = consumer.take(kPatience);
  ASSERT_TRUE(ok(held));
  // Not stuff(): its frames count from 0.
  std::uint64_t frame = 1;
  do {
    publish_frames(producer, frame++, 1, kLarge);
    std::this_thread::sleep_for(100ms);
  } while (lag(producer) == 0);
  publish_frames(producer, frame, kRoom);
  auto publishing = begin_waiting(producer, [&] { return publish(producer, frame + kRoom); });
  consumer.close();
  EXPECT_EQ(publishing.get().value(), Published::kSent);
  publish_frames(producer, frame + kRoom + 1, 100);
  EXPECT_TRUE(is_frame(held->bytes(), 0));
  EXPECT_TRUE(eventually([&] { return producer.num_consumers() == 0; }));
}

TEST_P(StreamFull, DrainIsInterruptibleAndEndsInTimeAndWithTheConsumer) {
  Producer producer = open_producer(waiting());
  Consumer consumer = join(producer.descriptor());
  const std::uint64_t stuffed = stuff(producer);
  EXPECT_TRUE(fails_with(producer.drain(5ms), Code::kTimeout));
  auto draining = std::async(std::launch::async, [&] { return producer.drain(kForever); });
  EXPECT_EQ(draining.wait_for(20ms), std::future_status::timeout);
  producer.interrupt();
  EXPECT_TRUE(fails_with(draining.get(), Code::kInterrupted));
  producer.resume();
  draining = std::async(std::launch::async, [&] { return producer.drain(kForever); });
  EXPECT_EQ(draining.wait_for(20ms), std::future_status::timeout);
  take_frames(consumer, 0, stuffed);
  EXPECT_TRUE(ok(draining.get()));
  std::uint64_t frame = stuffed;
  do {
    publish_frames(producer, frame++, 1, kLarge);
    std::this_thread::sleep_for(100ms);
  } while (lag(producer) == 0);
  draining = std::async(std::launch::async, [&] { return producer.drain(kForever); });
  EXPECT_EQ(draining.wait_for(20ms), std::future_status::timeout);
  consumer.close();
  EXPECT_TRUE(ok(draining.get()));
}

TEST_P(StreamFull, AFlushInterruptsAPublishAndMakesRoom) {
  Producer producer = open_producer(waiting());
  Consumer consumer = join(producer.descriptor());
  const std::uint64_t stuffed = stuff(producer);
  publish_frames(producer, stuffed, kRoom);
  auto publishing = begin_waiting(producer, [&] { return publish(producer, stuffed + kRoom); });
  producer.flush_start();
  EXPECT_TRUE(fails_with(publishing.get(), Code::kInterrupted));
  ASSERT_TRUE(ok(producer.flush_stop())) << "without waiting for the consumer";
  ASSERT_TRUE(eventually([&] { return consumer.flushing(); })) << "it overtakes what stuffs the socket";
  publish_frames(producer, stuffed + kRoom, 4);
  EXPECT_EQ(next_items(consumer, 2), "<>");
  take_frames(consumer, stuffed + kRoom, 4);
  EXPECT_EQ(producer.stats().passed_over, 0u);
  EXPECT_EQ(consumer.stats().taken, 4u);
  EXPECT_EQ(consumer.stats().skipped, 0u) << "what a flush drops isn't lost";
}

TEST_P(StreamFull, AStalledConsumerIsDemotedAndGatesAgain) {
  ProducerSettings settings = waiting();
  settings.stall_timeout = 50ms;
  Producer producer = open_producer(settings);
  Consumer consumer = join(producer.descriptor());
  EXPECT_TRUE(consumer.stats().gating);
  const std::uint64_t stuffed = stuff(producer);
  publish_frames(producer, stuffed, kRoom + 8);  // waits for stall_timeout, once
  EXPECT_EQ(producer.stats().demotions, 1u);
  EXPECT_EQ(producer.stats().dropped_full, 0u);
  EXPECT_TRUE(producer.stats().consumers.at(0).demoted);
  EXPECT_FALSE(producer.stats().consumers.at(0).gating);
  EXPECT_TRUE(eventually([&] { return consumer.stats().demoted; })) << "told at once, past all that fills its socket";
  take_frames(consumer, 0, stuffed - 1);
  const auto next = consumer.take(kPatience);
  ASSERT_TRUE(ok(next));
  EXPECT_GT(next->skipped(), 0u);
  std::uint64_t frame = stuffed + kRoom + 8;
  std::uint64_t seen = next->seq() + 1;
  const auto take_all = [&] {
    while (seen < frame) {
      const auto taken = consumer.take(kPatience);
      ASSERT_TRUE(ok(taken));
      seen = taken->seq() + 1;
    }
  };
  take_all();
  EXPECT_TRUE(eventually([&] {
    publish_frames(producer, frame++, 1);
    take_all();
    return producer.stats().consumers.at(0).gating;
  }));
  EXPECT_TRUE(eventually([&] { return !consumer.stats().demoted; })) << "told without another frame";
  EXPECT_EQ(consumer.stats().taken + consumer.stats().skipped, frame);
}

/// Frames that the publishing thread sends itself, until the socket takes one in part (TCP does) or not at all: the
/// relay sends the rest.
class StreamBrim : public StreamFull {
 protected:
  static constexpr std::size_t kSmall = 10'007;  // no divisor of a socket's room

  /// Publishes frames, numbered from `first` on, until the ring is full. Returns the number of the one that it dropped.
  static std::uint64_t brim(Producer& producer, std::uint64_t first = 0, std::size_t size = kSmall) {
    for (std::uint64_t frame = first; frame < first + 100'000; ++frame) {
      const auto sent = publish(producer, frame, size);
      if (!sent) throw std::runtime_error(sent.error().text);
      if (*sent == Published::kDropped) return frame;
    }
    throw std::runtime_error("the socket takes everything");
  }
};

TEST_P(StreamBrim, EveryFrameArrivesWhole) {
  Producer producer = open_producer(with(Leaky::kNo));
  Consumer consumer = join(producer.descriptor());
  std::uint64_t next = 0;
  for (int round = 0; round < 5; ++round) {
    const std::uint64_t sent = brim(producer, next, kSmall + static_cast<std::size_t>(round));
    take_frames(consumer, next, sent - next);
    next = sent;
  }
  EXPECT_EQ(consumer.stats().skipped, 0u);
}

TEST_P(StreamBrim, WhatIsOnItsWayStillComesWhenTheProducerCloses) {
  std::optional<Producer> producer(open_producer(with(Leaky::kNo)));
  ConsumerSettings settings;
  settings.reconnect = false;
  Consumer consumer = join(producer->descriptor(), settings);
  const std::uint64_t sent = brim(*producer);
  std::thread closing([&] { producer.reset(); });  // waits for its linger
  take_frames(consumer, 0, sent);
  EXPECT_TRUE(fails_with(consumer.take(kPatience), Code::kPeerLost));
  closing.join();
}

TEST_P(StreamBrim, AConsumerThatGoesAmidAFrameLeavesNothingBehind) {
  Producer producer = open_producer(with(Leaky::kNo));
  Consumer other = join(producer.descriptor());
  publish_frames(producer, 0, 1, kSmall);  // now there are slots
  take_frames(other, 0, 1);
  const Resources before = resources();
  {
    const Consumer going = join(producer.descriptor());
    brim(producer);
  }
  EXPECT_TRUE(eventually([&] { return producer.num_consumers() == 1; }));
  EXPECT_TRUE(nothing_is_left(before));
  const auto next = other.take(kPatience);
  ASSERT_TRUE(ok(next));
  EXPECT_EQ(next->seq(), 1u);
  EXPECT_TRUE(is_frame(next->bytes(), 0));
}

INSTANTIATE_TEST_SUITE_P(Transports, StreamBrim, ::testing::Values(Transport::kUds, Transport::kTcp), transport_name);

TEST_P(StreamFull, FramesLostAtTheVeryEndAreCounted) {
  Producer producer = open_producer(with(Leaky::kDownstream));
  Consumer consumer = join(producer.descriptor());
  const std::uint64_t stuffed = stuff(producer);
  publish_frames(producer, stuffed, 3);
  // Nothing but an end follows, after markers that have pushed the frames out.
  for (int i = 0; i < 400; ++i) ASSERT_TRUE(ok(producer.send(event(format::EventType::kCustom))));
  ASSERT_TRUE(ok(producer.end_of_stream()));
  std::uint64_t taken = 0;
  for (;;) {
    const auto frame = consumer.take(kPatience);
    if (!frame) {
      EXPECT_TRUE(fails_with(frame, Code::kEndOfStream));
      break;
    }
    ++taken;
  }
  EXPECT_LT(taken, stuffed + 3);
  EXPECT_EQ(consumer.stats().taken, taken);
  EXPECT_EQ(consumer.stats().taken + consumer.stats().skipped, stuffed + 3);
  ASSERT_TRUE(ok(producer.send(event(format::EventType::kStreamStart))));
  publish_frames(producer, stuffed + 3, 1);
  Result<Frame> next = fail(Code::kEndOfStream);
  ASSERT_TRUE(eventually([&] {
    next = consumer.take(kPatience);
    return next || next.error().code != Code::kEndOfStream;
  }));
  ASSERT_TRUE(ok(next));
  EXPECT_EQ(next->skipped(), 0u) << "those were counted with the end";
}

TEST_P(StreamFull, LatestPassesOverWhatItWasTooSlowFor) {
  Producer producer = open_producer(with(Leaky::kNo));
  ConsumerSettings settings;
  settings.mode = Mode::kLatest;
  Consumer consumer = join(producer.descriptor(), settings);
  EXPECT_FALSE(consumer.stats().gating);
  constexpr std::uint64_t kFrames = 500;
  publish_frames(producer, 0, 60, kLarge / 4);
  publish_frames(producer, 60, kFrames - 60);
  // Whatever the socket held of the first ones, the newest comes in the end, and what it passed over is counted.
  const Count count = take_until(consumer, kFrames - 1);
  EXPECT_EQ(count.taken + count.skipped, kFrames);
  EXPECT_LT(count.taken, kFrames / 2);
  EXPECT_EQ(consumer.stats().taken, count.taken);
  EXPECT_EQ(consumer.stats().skipped, count.skipped);
  EXPECT_EQ(producer.stats().full_waits, 0u);
  EXPECT_EQ(producer.stats().dropped_full, 0u);
  const auto none = consumer.try_take();
  ASSERT_TRUE(ok(none));
  EXPECT_FALSE(none->has_value()) << "each frame once";
}

TEST_P(StreamFull, LatestOfWhatIsThereIsTheNewest) {
  Producer producer = open_producer(with(Leaky::kNo));
  ConsumerSettings settings;
  settings.mode = Mode::kLatest;
  Consumer consumer = join(producer.descriptor(), settings);
  for (std::uint64_t frame = 0; frame < 100; frame += 10) {
    for (std::uint64_t i = 0; i < 10; ++i) {
      publish_frames(producer, frame + i, 1);
      ASSERT_TRUE(eventually([&] { return lag(producer) == 0; }));  // each one is sent
    }
    std::this_thread::sleep_for(5ms);
    const Count count = take_until(consumer, frame + 9, frame);
    EXPECT_EQ(count.taken + count.skipped, 10u);
  }
  EXPECT_LT(consumer.stats().taken, 100u);
  EXPECT_EQ(consumer.stats().taken + consumer.stats().skipped, 100u);
}

TEST_P(StreamFull, LatestTakesAFrameHoweverFastTheyCome) {
  ProducerSettings fast = with(Leaky::kNo);
  fast.max_consumers = 2;
  Producer producer = open_producer(fast);
  ConsumerSettings settings;
  settings.mode = Mode::kLatest;
  Consumer consumer = join(producer.descriptor(), settings);
  std::atomic<bool> stopped{false};
  std::thread publishing([&] {
    for (std::uint64_t frame = 0; !stopped; ++frame) {
      if (!publish(producer, frame, 64)) return;
    }
  });
  for (int i = 0; i < 50; ++i) {
    const auto frame = consumer.take(kPatience);
    EXPECT_TRUE(ok(frame));
  }
  stopped = true;
  publishing.join();
}

TEST_P(StreamFull, BothSidesCountTheSame) {
  ProducerSettings settings = with(Leaky::kDownstream);
  settings.stamps = Stamps::kOn;
  Producer producer = open_producer(settings);
  ConsumerSettings few;
  few.max_held = 2;
  Consumer consumer = join(producer.descriptor(), few);
  publish_frames(producer, 0, 4);
  std::vector<Frame> held;
  for (int i = 0; i < 4; ++i) held.push_back(consumer.take(kPatience).value());
  const ConsumerStats ours = consumer.stats();
  EXPECT_EQ(ours.taken, 4u);
  EXPECT_EQ(ours.copied, 2u);
  EXPECT_EQ(ours.held, 2u);
  EXPECT_EQ(ours.connections, 1u);
  EXPECT_TRUE(ours.connected);
  EXPECT_TRUE(ours.gating);
  EXPECT_EQ(ours.transport, to_string(GetParam()));
  EXPECT_EQ(ours.latency.count, 4u) << "one host has one clock";
  ASSERT_TRUE(eventually([&] { return lag(producer) == 0; }));
  const ConsumerInfo theirs = producer.stats().consumers.at(0);
  EXPECT_EQ(theirs.transport, GetParam());
  EXPECT_EQ(theirs.name, program_invocation_short_name);
  EXPECT_EQ(theirs.pid, GetParam() == Transport::kUds ? getpid() : 0);
  EXPECT_EQ(theirs.uid, GetParam() == Transport::kUds ? geteuid() : 65534u);
  EXPECT_EQ(theirs.address.empty(), GetParam() == Transport::kUds);
  EXPECT_TRUE(theirs.gating);
  EXPECT_EQ(theirs.taken, 4u);
  EXPECT_EQ(theirs.skipped, 0u);
}

INSTANTIATE_TEST_SUITE_P(Transports, StreamFull, ::testing::Values(Transport::kUds, Transport::kTcp), transport_name);

}  // namespace
}  // namespace framelane::lane_test
