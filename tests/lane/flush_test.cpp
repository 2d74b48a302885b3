// SPDX-License-Identifier: MIT
// Flushes: what was sent and not taken is gone, for those who are there and for those who join.
#include <atomic>
#include <future>
#include <optional>
#include <thread>

#include "raw_peer.hpp"

namespace framelane::lane_test {
namespace {

using format::EventType;
using Flush = LaneTest;

ProducerSettings with_history(std::uint32_t history) {
  ProducerSettings settings;
  settings.history = history;
  return settings;
}

/// A flush is told by the control socket, and until then the consumer takes what is there.
bool knows_of_flush(const Consumer& consumer) {
  return eventually([&] { return consumer.flushing(); });
}

TEST_F(Flush, DropsWhatIsNotTaken) {
  Producer producer = produce();
  Consumer consumer = join();
  ASSERT_TRUE(ok(producer.set_caps("caps")));
  publish_frames(producer, 0, 5);
  EXPECT_EQ(next_items(consumer, 2), "C0");
  producer.flush_start();
  ASSERT_TRUE(knows_of_flush(consumer));
  EXPECT_EQ(next_items(consumer, 1), "<");
  EXPECT_TRUE(fails_with(consumer.take_item(1ms), Code::kTimeout)) << "nothing comes between the two";
  ASSERT_TRUE(ok(producer.flush_stop()));
  EXPECT_EQ(next_items(consumer, 1), ">");
  EXPECT_FALSE(consumer.flushing());
  publish_frames(producer, 5, 1);
  const auto taken = consumer.take(kPatience);
  ASSERT_TRUE(ok(taken));
  EXPECT_EQ(taken->seq(), 5u);
  EXPECT_TRUE(is_frame(taken->bytes(), 5));
  EXPECT_EQ(taken->skipped(), 0u) << "flushed frames are not lost: nobody wants them";
  EXPECT_EQ(consumer.stats().skipped, 0u);
}

TEST_F(Flush, KeepsTheStickyEventsThatWereNotTaken) {
  Producer producer = produce();
  Consumer consumer = join();
  ASSERT_TRUE(ok(producer.send(event(EventType::kStreamStart, "id"))));
  publish_frames(producer, 0, 1);
  ASSERT_TRUE(ok(producer.set_caps("caps")));
  ASSERT_TRUE(ok(producer.send(event(EventType::kCustom, "passing"))));
  publish_frames(producer, 1, 1);
  ASSERT_TRUE(ok(producer.flush_stop()));  // begins it, too
  ASSERT_TRUE(knows_of_flush(consumer));
  publish_frames(producer, 2, 1);
  EXPECT_EQ(next_items(consumer, 5), "<>sC2");
  EXPECT_EQ(consumer.caps(), "caps");
}

TEST_F(Flush, IsEndedAlsoWhenItsProducerGoesAtOnce) {
  for (int round = 0; round < 20; ++round) {
    std::optional<Producer> producer = produce();
    Consumer consumer = join();
    publish_frames(*producer, 0, 2);
    producer->flush_start();
    producer.reset();
    std::this_thread::sleep_for(std::chrono::milliseconds(round % 4));
    EXPECT_EQ(next_items(consumer, 2), "<>");
  }
}

TEST_F(Flush, TellsNobodyAfterTheClose) {
  std::atomic<int> told{0};
  Producer producer = produce();
  Consumer consumer = consume();
  consumer.on_flush([&] { ++told; });
  ASSERT_TRUE(ok(consumer.connect(kPatience)));
  publish_frames(producer, 0, 1);
  const auto held = consumer.take(kPatience);
  ASSERT_TRUE(ok(held));
  consumer.close();
  producer.flush_start();
  ASSERT_TRUE(ok(producer.flush_stop()));
  std::this_thread::sleep_for(20ms);
  EXPECT_EQ(told, 0);
}

TEST_F(Flush, EndsAWaitingTakeAtOnce) {
  Producer producer = produce();
  Consumer consumer = join();
  auto waiting = std::async(std::launch::async, [&] { return next_items(consumer, 1); });
  std::this_thread::sleep_for(30ms);
  producer.flush_start();
  EXPECT_EQ(waiting.get(), "<");
}

TEST_F(Flush, FramesPublishedWhileItLastsAreDropped) {
  Producer producer = produce();
  Consumer consumer = join();
  producer.flush_start();
  producer.flush_start();  // has no effect
  publish_frames(producer, 0, 3);
  ASSERT_TRUE(ok(producer.flush_stop()));
  ASSERT_TRUE(knows_of_flush(consumer));
  publish_frames(producer, 3, 1, 8);
  EXPECT_EQ(next_items(consumer, 3), "<>3");
}

TEST_F(Flush, TakeKnowsNothingOfItButTheDrop) {
  Producer producer = produce();
  Consumer consumer = join();
  publish_frames(producer, 0, 3);
  take_frames(consumer, 0, 1);
  producer.flush_start();
  ASSERT_TRUE(knows_of_flush(consumer));
  EXPECT_TRUE(fails_with(consumer.take(1ms), Code::kTimeout));
  auto none = consumer.try_take();
  ASSERT_TRUE(ok(none));
  EXPECT_FALSE(none->has_value());
  ASSERT_TRUE(ok(producer.flush_stop()));
  publish_frames(producer, 3, 2);
  take_frames(consumer, 3, 2);
}

TEST_F(Flush, SeveralAtOnceAreOne) {
  if (is_stream()) GTEST_SKIP() << "the news of a flush is on its way for a moment";
  Producer producer = produce();
  Consumer consumer = join();
  for (std::uint64_t round = 0; round < 20; ++round) {
    publish_frames(producer, 2 * round, 2);
    ASSERT_TRUE(ok(producer.flush_stop()));
  }
  publish_frames(producer, 40, 1);
  // However they come in, starts and stops alternate, and the frame stands behind the last stop.
  std::string got;
  while (got.find("40") == std::string::npos) got += next_items(consumer, 1);
  std::string expected;
  while (expected.size() + 2 < got.size()) expected += "<>";
  EXPECT_EQ(got, expected + "40");
}

TEST_F(Flush, InterruptsAFullPublishAndMakesRoom) {
  if (is_stream()) GTEST_SKIP() << "a socket takes more than the burst: see streams_test";
  ProducerSettings settings;
  settings.burst = 4;
  settings.full_timeout = kForever;
  settings.stall_timeout = kForever;
  Producer producer = produce(settings);
  Consumer consumer = join();  // gates, and never takes
  publish_frames(producer, 0, 4);
  auto full = std::async(std::launch::async, [&] { return publish(producer, 4); });
  ASSERT_TRUE(eventually([&] { return producer.stats().full_waits > 0; }));
  producer.flush_start();
  EXPECT_TRUE(fails_with(full.get(), Code::kInterrupted));
  EXPECT_TRUE(fails_with(producer.wait_for_consumers(2, kForever), Code::kInterrupted)) << "until it is over";
  ASSERT_TRUE(ok(producer.flush_stop())) << "without waiting for the consumer";
  ASSERT_TRUE(knows_of_flush(consumer));
  publish_frames(producer, 4, 4);
  EXPECT_EQ(next_items(consumer, 6), "<>4567");
  EXPECT_EQ(producer.stats().passed_over, 0u);
}

TEST_F(Flush, AnInterruptOutlastsIt) {
  Producer producer = produce();
  producer.interrupt();
  ASSERT_TRUE(ok(producer.flush_stop()));
  EXPECT_TRUE(fails_with(producer.wait_for_consumers(1, kForever), Code::kInterrupted));
  producer.flush_start();
  producer.resume();
  EXPECT_TRUE(fails_with(producer.wait_for_consumers(1, kForever), Code::kInterrupted));
  ASSERT_TRUE(ok(producer.flush_stop()));
  EXPECT_TRUE(fails_with(producer.wait_for_consumers(1, 1ms), Code::kTimeout));
}

TEST_F(Flush, HeldFramesStayReadable) {
  Producer producer = produce();
  Consumer consumer = join();
  publish_frames(producer, 0, 2, 1000);
  const auto held = consumer.take(kPatience);
  ASSERT_TRUE(ok(held));
  ASSERT_TRUE(ok(producer.flush_stop()));
  publish_frames(producer, 2, 8, 1000);
  EXPECT_TRUE(is_frame(held->bytes(), 0));
}

// --- who joins, and when

TEST_F(Flush, HistoryNeverReachesBackPastIt) {
  Producer producer = produce(with_history(8));
  ASSERT_TRUE(ok(producer.set_caps("caps")));
  publish_frames(producer, 0, 5);
  ASSERT_TRUE(ok(producer.flush_stop()));
  publish_frames(producer, 5, 2);
  Consumer consumer = join();
  EXPECT_EQ(next_items(consumer, 3), "C56");
}

class History : public LaneTest, public ::testing::WithParamInterface<EventType> {};

TEST_P(History, NeverReachesBackPastAChangeOfState) {
  Producer producer = produce(with_history(8));
  publish_frames(producer, 0, 5);
  ASSERT_TRUE(ok(producer.send(event(GetParam(), "new"))));
  publish_frames(producer, 5, 2);
  Consumer consumer = join();
  const std::string got = next_items(consumer, 3);
  EXPECT_EQ(got.substr(1), "56") << got;
}

INSTANTIATE_TEST_SUITE_P(States, History,
                         ::testing::Values(EventType::kStreamStart, EventType::kCaps, EventType::kSegment,
                                           EventType::kTag, EventType::kState),
                         [](const auto& each) { return "Type" + std::to_string(static_cast<int>(each.param)); });

TEST_F(Flush, WhoJoinsWhileItLastsGetsItsEnd) {
  Producer producer = produce(with_history(8));
  publish_frames(producer, 0, 3);
  producer.flush_start();
  Consumer consumer = join();
  ASSERT_TRUE(knows_of_flush(consumer));
  EXPECT_EQ(next_items(consumer, 1), "<");
  ASSERT_TRUE(ok(producer.flush_stop()));
  publish_frames(producer, 3, 1);
  EXPECT_EQ(next_items(consumer, 2), ">3");
}

TEST_F(Flush, EndsWithTheProducer) {
  std::optional<Producer> producer(produce());
  Consumer consumer = join();
  publish_frames(*producer, 0, 3);
  producer->flush_start();
  ASSERT_TRUE(knows_of_flush(consumer));
  EXPECT_EQ(next_items(consumer, 1), "<");
  producer.reset();
  EXPECT_EQ(next_items(consumer, 1), ">") << "or its caller would wait for ever";
  producer.emplace(produce());
  ASSERT_TRUE(ok(consumer.connect(kPatience)));
  publish_frames(*producer, 0, 1);
  EXPECT_EQ(next_items(consumer, 1), "0");
}

TEST_F(Flush, OfALostProducerEndsBeforeTheNextOnesStream) {
  std::optional<Producer> producer(produce());
  Consumer consumer = join();
  producer->flush_start();
  ASSERT_TRUE(knows_of_flush(consumer));
  EXPECT_EQ(next_items(consumer, 1), "<");
  producer.emplace(produce({.lane = "other"}));
  Producer next = produce();
  ASSERT_TRUE(ok(next.wait_for_consumers(0, kPatience)));
  publish_frames(next, 0, 1);
  ASSERT_TRUE(eventually([&] {
    const auto connected = consumer.connect(1ms);  // without a take, which would tell of the end by itself
    return connected.has_value();
  }));
  EXPECT_EQ(next_items(consumer, 1), ">");
}

TEST_F(Flush, DropsAnEndThatWasNotTaken) {
  Producer producer = produce();
  Consumer consumer = join();
  publish_frames(producer, 0, 1);
  ASSERT_TRUE(ok(producer.end_of_stream()));
  ASSERT_TRUE(ok(producer.flush_stop()));
  ASSERT_TRUE(knows_of_flush(consumer));
  ASSERT_TRUE(ok(producer.send(event(EventType::kStreamStart, "again"))));
  publish_frames(producer, 1, 1);
  EXPECT_EQ(next_items(consumer, 4), "<>s1");
}

TEST_F(Flush, AfterAnEndThereIsNothingToFlush) {
  Producer producer = produce();
  Consumer consumer = join();
  ASSERT_TRUE(ok(producer.end_of_stream()));
  EXPECT_EQ(next_items(consumer, 1), "E");
  ASSERT_TRUE(ok(producer.flush_stop()));
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(fails_with(consumer.take_item(1ms), Code::kEndOfStream));
  ASSERT_TRUE(ok(producer.send(event(EventType::kStreamStart, "again"))));
  publish_frames(producer, 0, 1);
  ASSERT_TRUE(ok(after_the_end(consumer)));  // the stream start
  EXPECT_EQ(next_items(consumer, 1), "0");
}

TEST_F(Flush, LatestGoesOnBehindIt) {
  Producer producer = produce();
  ConsumerSettings settings;
  settings.mode = Mode::kLatest;
  Consumer consumer = join(settings);
  publish_frames(producer, 0, 3);
  ASSERT_TRUE(ok(producer.flush_stop()));
  ASSERT_TRUE(knows_of_flush(consumer));
  EXPECT_EQ(next_items(consumer, 2), "<>");
  publish_frames(producer, 3, 2);
  EXPECT_EQ(next_items(consumer, 1), "4");
  EXPECT_EQ(consumer.stats().skipped, 1u);
}

TEST_F(Flush, TheCallbackTellsAThreadThatIsBusyElsewhere) {
  Producer producer = produce();
  Consumer consumer = consume();
  std::atomic<int> called{0};
  consumer.on_flush([&] { ++called; });
  ASSERT_TRUE(ok(consumer.connect(kPatience)));
  producer.flush_start();
  EXPECT_TRUE(eventually([&] { return called == 1; }));
  EXPECT_TRUE(consumer.flushing());
  ASSERT_TRUE(ok(producer.flush_stop()));
  EXPECT_TRUE(consumer.flushing()) << "until its stop is taken";
  EXPECT_EQ(next_items(consumer, 2), "<>");
  EXPECT_FALSE(consumer.flushing());
}

TEST_F(Flush, WhileFramesFlowLosesNoneThatFollow) {
  ProducerSettings settings;
  settings.leaky = Leaky::kDownstream;
  Producer producer = produce(settings);
  Consumer consumer = join();
  std::atomic<bool> done{false};
  std::thread sending([&] {
    for (std::uint64_t frame = 0; frame < 3000; ++frame) {
      const bool sent = publish(producer, frame, frame % 3 == 0 ? 8 : 200).has_value();
      EXPECT_TRUE(sent) << "leaky=downstream never waits, so nothing interrupts it";
      if (frame % 50 == 20) producer.flush_start();
      if (frame % 50 != 25) continue;
      EXPECT_TRUE(ok(producer.flush_stop()));
    }
    EXPECT_TRUE(ok(producer.end_of_stream()));
    done = true;
  });
  bool flushing = false;
  std::uint64_t next = 0;
  for (;;) {
    auto item = consumer.take_item(kPatience);
    ASSERT_TRUE(ok(item));
    if (const auto* const frame = std::get_if<Frame>(&*item)) {
      ASSERT_FALSE(flushing);
      ASSERT_GE(frame->seq(), next);
      ASSERT_TRUE(is_frame(frame->bytes(), frame->seq()));
      next = frame->seq() + 1;
      continue;
    }
    const EventType type = std::get<format::Event>(*item).type;
    if (type == EventType::kEndOfStream) break;
    ASSERT_EQ(type, flushing ? EventType::kFlushStop : EventType::kFlushStart);
    flushing = !flushing;
  }
  sending.join();
  EXPECT_FALSE(flushing);
}

}  // namespace
}  // namespace framelane::lane_test
