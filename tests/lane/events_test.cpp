// SPDX-License-Identifier: MIT
// Events: their order, what a late joiner is told, the end of a stream.
#include <optional>
#include <set>
#include <thread>

#include "framelane/format/plane_layout.hpp"
#include "framelane/measure/latency.hpp"

#include "lanes.hpp"

namespace framelane::lane_test {
namespace {

using format::EventType;
using Events = LaneTest;

format::Event segment_event(double rate) {
  format::Event made = event(EventType::kSegment);
  made.segment.rate = rate;
  made.segment.start = 5;
  return made;
}

void send_stream_head(Producer& producer, const std::string& caps) {
  ASSERT_TRUE(ok(producer.send(event(EventType::kStreamStart, "stream-1", 3))));
  ASSERT_TRUE(ok(producer.set_caps(caps)));
  ASSERT_TRUE(ok(producer.send(segment_event(1.0))));
}

TEST_F(Events, ComeInOrderWithTheFrames) {
  Producer producer = produce();
  Consumer consumer = join();
  send_stream_head(producer, "audio/x-raw, rate=8000");
  publish_frames(producer, 0, 2);
  ASSERT_TRUE(ok(producer.send(event(EventType::kTag, "taglist"))));
  publish_frames(producer, 2, 1, 8);
  format::Event gap = event(EventType::kGap);
  gap.pts = 17;
  gap.duration = 4;
  ASSERT_TRUE(ok(producer.send(gap)));
  ASSERT_TRUE(ok(producer.send(event(EventType::kCustom, "mine", 42))));
  ASSERT_TRUE(ok(producer.send(event(EventType::kState, "state", 1))));
  publish_frames(producer, 3, 1);
  ASSERT_TRUE(ok(producer.end_of_stream()));
  EXPECT_EQ(next_items(consumer, 12), "sCg01t2GcS3E");
  EXPECT_TRUE(fails_with(consumer.take_item(0ns), Code::kEndOfStream));
}

TEST_F(Events, BringEveryMember) {
  Producer producer = produce();
  Consumer consumer = join();
  format::Event sent = segment_event(-2.5);
  sent.segment.stop = 1000;
  sent.segment.base = 3;
  ASSERT_TRUE(ok(producer.send(sent)));
  format::Event start = event(EventType::kStreamStart, "an id", 5);
  start.group = 77;
  ASSERT_TRUE(ok(producer.send(start)));
  auto item = consumer.take_item(kPatience);
  ASSERT_TRUE(ok(item));
  EXPECT_EQ(std::get<format::Event>(*item), sent);
  item = consumer.take_item(kPatience);
  ASSERT_TRUE(ok(item));
  EXPECT_EQ(std::get<format::Event>(*item), start);
}

TEST_F(Events, OfAMegabyteArriveWhole) {
  Producer producer = produce();
  Consumer consumer = join();
  const std::string cover(std::size_t{1} << 20, 'c');
  ASSERT_TRUE(ok(producer.send(event(EventType::kTag, cover))));
  auto item = consumer.take_item(kPatience);
  ASSERT_TRUE(ok(item));
  EXPECT_EQ(std::get<format::Event>(*item).text, cover);
}

TEST_F(Events, ThatCannotTravelAreRefused) {
  Producer producer = produce();
  Consumer consumer = join();
  EXPECT_TRUE(
      fails_with(producer.send(event(EventType::kTag, std::string((8u << 20) + 1, 'c'))), Code::kTooLarge, "bytes"));
  EXPECT_TRUE(fails_with(producer.send(event(static_cast<EventType>(99))), Code::kInvalidArgument, "type"));
  EXPECT_TRUE(fails_with(producer.send(event(EventType::kState, "", 16)), Code::kInvalidArgument, "below 16"));
  publish_frames(producer, 0, 1);
  take_frames(consumer, 0, 1);
}

TEST_F(Events, AreSkippedByTakeWhichKnowsTheCaps) {
  Producer producer = produce();
  Consumer consumer = join();
  EXPECT_EQ(consumer.caps(), "");
  send_stream_head(producer, "caps-1");
  publish_frames(producer, 0, 1);
  ASSERT_TRUE(ok(producer.set_caps("caps-2")));
  publish_frames(producer, 1, 1);
  take_frames(consumer, 0, 1);
  EXPECT_EQ(consumer.caps(), "caps-1");
  take_frames(consumer, 1, 1);
  EXPECT_EQ(consumer.caps(), "caps-2");
}

TEST_F(Events, TheLayoutOfPlanesHoldsUntilTheNextOneOrNewCaps) {
  Producer producer = produce();
  Consumer consumer = join();
  const auto layout_at = [&](std::uint64_t frame) {
    publish_frames(producer, frame, 1);
    take_frames(consumer, frame, 1);
    return consumer.plane_layout();
  };
  ASSERT_TRUE(ok(producer.set_caps("caps-1")));
  EXPECT_EQ(layout_at(0), "");
  ASSERT_TRUE(ok(producer.send(event(EventType::kState, "one", format::kLayoutState))));
  ASSERT_TRUE(ok(producer.send(event(EventType::kState, "of something else", format::kLayoutState + 1))));
  EXPECT_EQ(layout_at(1), "one");
  EXPECT_EQ(layout_at(2), "one");
  ASSERT_TRUE(ok(producer.send(event(EventType::kState, "two", format::kLayoutState))));
  EXPECT_EQ(layout_at(3), "two");
  ASSERT_TRUE(ok(producer.set_caps("caps-2")));
  EXPECT_EQ(layout_at(4), "");
}

TEST_F(Events, WithoutAFrameBehindThemTryTakeIsEmpty) {
  Producer producer = produce();
  Consumer consumer = join();
  send_stream_head(producer, "caps-1");
  EXPECT_TRUE(eventually([&] {  // the events' texts come by the control socket, and try_take() doesn't wait for them
    const auto taken = consumer.try_take();
    EXPECT_TRUE(ok(taken));
    EXPECT_FALSE(taken && taken->has_value());
    return consumer.caps() == "caps-1";
  }));
  EXPECT_TRUE(fails_with(consumer.take(1ms), Code::kTimeout));
}

// --- late joiners

TEST_F(Events, ALateJoinerIsToldTheStateAsOfItsFirstFrame) {
  Producer producer = produce();
  send_stream_head(producer, "old caps");
  publish_frames(producer, 0, 3);
  ASSERT_TRUE(ok(producer.set_caps("new caps")));
  ASSERT_TRUE(ok(producer.send(event(EventType::kTag, "scope 0", 0))));
  ASSERT_TRUE(ok(producer.send(event(EventType::kTag, "scope 1", 1))));
  ASSERT_TRUE(ok(producer.send(event(EventType::kState, "state 0", 0))));
  ASSERT_TRUE(ok(producer.send(event(EventType::kState, "state 1", 1))));
  ASSERT_TRUE(ok(producer.send(event(EventType::kCustom, "not for you"))));
  publish_frames(producer, 3, 1);
  Consumer consumer = join();
  publish_frames(producer, 4, 1);
  std::multiset<std::string> texts;
  for (int i = 0; i < 7; ++i) {
    auto item = consumer.take_item(kPatience);
    ASSERT_TRUE(ok(item));
    const auto* const told = std::get_if<format::Event>(&*item);
    ASSERT_NE(told, nullptr) << "a frame before all of the state";
    texts.insert(told->type == EventType::kSegment ? "segment" : told->text);
    EXPECT_EQ(told->type == EventType::kStreamStart, i == 0);
  }
  const std::multiset<std::string> expected{"stream-1", "new caps", "segment", "scope 0",
                                            "scope 1",  "state 0",  "state 1"};
  EXPECT_EQ(texts, expected);
  take_frames(consumer, 4, 1);
}

TEST_F(Events, ANewStreamForgetsTheTagsOfTheOld) {
  Producer producer = produce();
  send_stream_head(producer, "caps");
  ASSERT_TRUE(ok(producer.send(event(EventType::kTag, "old"))));
  ASSERT_TRUE(ok(producer.send(event(EventType::kStreamStart, "stream-2"))));
  Consumer consumer = join();
  publish_frames(producer, 0, 1);
  EXPECT_EQ(next_items(consumer, 4), "sCg0");
}

TEST_F(Events, HistoryIsWhatALateJoinerStillGets) {
  ProducerSettings settings;
  settings.history = 3;
  Producer producer = produce(settings);
  send_stream_head(producer, "caps");
  publish_frames(producer, 0, 10);
  Consumer consumer = join();
  publish_frames(producer, 10, 1);
  EXPECT_EQ(next_items(consumer, 7), "sCg78910");
  EXPECT_EQ(consumer.stats().skipped, 0u) << "what came before is not lost but not for it";
}

TEST_F(Events, HistoryBringsThePassingEventsAmongItsFrames) {
  ProducerSettings settings;
  settings.history = 4;
  Producer producer = produce(settings);
  send_stream_head(producer, "caps");
  publish_frames(producer, 0, 8);
  ASSERT_TRUE(ok(producer.send(event(EventType::kCustom, "between"))));
  publish_frames(producer, 8, 2);
  Consumer consumer = join();
  EXPECT_EQ(next_items(consumer, 8), "sCg67c89");
}

TEST_F(Events, HistoryEndsAtTheLastChangeOfState) {
  ProducerSettings settings;
  settings.history = 8;
  Producer producer = produce(settings);
  send_stream_head(producer, "caps-1");
  publish_frames(producer, 0, 5);
  ASSERT_TRUE(ok(producer.set_caps("caps-2")));
  publish_frames(producer, 5, 2);
  Consumer consumer = join();
  EXPECT_EQ(next_items(consumer, 5), "sCg56") << "frames of other caps would be read wrongly";
  EXPECT_EQ(consumer.caps(), "caps-2");
}

TEST_F(Events, WithoutHistoryAJoinerStartsAtTheNextFrame) {
  Producer producer = produce();
  publish_frames(producer, 0, 5);
  Consumer consumer = join();
  publish_frames(producer, 5, 1);
  const auto taken = consumer.take(kPatience);
  ASSERT_TRUE(ok(taken));
  EXPECT_EQ(taken->seq(), 5u);
  EXPECT_EQ(taken->skipped(), 0u);
}

// --- end of stream

TEST_F(Events, TheEndIsReportedAgainAndAgain) {
  Producer producer = produce();
  Consumer consumer = join();
  publish_frames(producer, 0, 2);
  ASSERT_TRUE(ok(producer.end_of_stream()));
  take_frames(consumer, 0, 2);
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(fails_with(consumer.take(kForever), Code::kEndOfStream));
    EXPECT_TRUE(fails_with(consumer.try_take(), Code::kEndOfStream));
    EXPECT_TRUE(fails_with(consumer.take_item(kForever), Code::kEndOfStream));
  }
  producer.close();
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(fails_with(consumer.take(kForever), Code::kEndOfStream));
}

TEST_F(Events, NothingButAStreamStartFollowsTheEnd) {
  Producer producer = produce();
  Consumer consumer = join();
  ASSERT_TRUE(ok(producer.end_of_stream()));
  EXPECT_TRUE(fails_with(publish(producer, 0), Code::kInvalidArgument, "kStreamStart"));
  EXPECT_TRUE(fails_with(producer.set_caps("caps"), Code::kInvalidArgument, "kStreamStart"));
  EXPECT_TRUE(fails_with(producer.end_of_stream(), Code::kInvalidArgument, "kStreamStart"));
  EXPECT_TRUE(fails_with(consumer.take(kPatience), Code::kEndOfStream));
  send_stream_head(producer, "again");
  publish_frames(producer, 0, 1);
  ASSERT_TRUE(ok(after_the_end(consumer)));  // the stream start
  EXPECT_EQ(next_items(consumer, 3), "Cg0");
  ASSERT_TRUE(ok(producer.end_of_stream()));
  EXPECT_TRUE(fails_with(consumer.take(kPatience), Code::kEndOfStream));
  send_stream_head(producer, "once more");
  publish_frames(producer, 1, 1);
  ASSERT_TRUE(ok(after_the_end(consumer)));
  take_frames(consumer, 1, 1);
  EXPECT_EQ(consumer.caps(), "once more");
}

TEST_F(Events, WhoJoinsAfterTheEndGetsTheEnd) {
  Producer producer = produce();
  send_stream_head(producer, "caps");
  publish_frames(producer, 0, 3);
  ASSERT_TRUE(ok(producer.end_of_stream()));
  Consumer consumer = join();
  EXPECT_EQ(next_items(consumer, 4), "sCgE");
  EXPECT_TRUE(fails_with(consumer.take(kForever), Code::kEndOfStream));
  Consumer second = join();
  EXPECT_TRUE(fails_with(second.take(kForever), Code::kEndOfStream));
  send_stream_head(producer, "caps");
  publish_frames(producer, 3, 1);
  ASSERT_TRUE(ok(after_the_end(consumer)));
  ASSERT_TRUE(ok(after_the_end(second)));
  take_frames(consumer, 3, 1);
  take_frames(second, 3, 1);
}

TEST_F(Events, WhoJoinsAfterTheEndWithHistoryGetsTheLastFramesFirst) {
  ProducerSettings settings;
  settings.history = 2;
  Producer producer = produce(settings);
  publish_frames(producer, 0, 5);
  ASSERT_TRUE(ok(producer.end_of_stream()));
  Consumer consumer = join();
  EXPECT_EQ(next_items(consumer, 3), "34E");
}

TEST_F(Events, FramesLostAtTheVeryEndAreCounted) {
  if (is_stream()) GTEST_SKIP() << "a socket takes more than the burst: see streams_test";
  ProducerSettings settings;
  settings.stall_timeout = 1ms;
  Producer producer = produce(settings);
  Consumer consumer = join();
  publish_frames(producer, 0, 3);
  // A ring full of markers pushes the frames out; nothing but the end follows them.
  for (int i = 0; i < 300; ++i) ASSERT_TRUE(ok(producer.send(event(EventType::kCustom))));
  ASSERT_TRUE(ok(producer.end_of_stream()));
  EXPECT_TRUE(fails_with(consumer.take(kPatience), Code::kEndOfStream));
  EXPECT_EQ(consumer.stats().taken, 0u);
  EXPECT_EQ(consumer.stats().skipped, 3u);
  ASSERT_TRUE(ok(producer.send(event(EventType::kStreamStart))));
  publish_frames(producer, 3, 1);
  const auto next = consumer.take(kPatience);
  ASSERT_TRUE(ok(next));
  EXPECT_EQ(next->skipped(), 0u) << "those were counted with the end";
}

TEST_F(Events, AfterAnEndTheNextProducersStreamIsAnotherOne) {
  std::optional<Producer> producer(produce());
  Consumer consumer = join();
  ConsumerSettings once;
  once.reconnect = false;
  Consumer only = join(once);
  publish_frames(*producer, 0, 2);
  ASSERT_TRUE(ok(producer->end_of_stream()));
  take_frames(consumer, 0, 2);
  take_frames(only, 0, 2);
  EXPECT_TRUE(fails_with(consumer.take(kForever), Code::kEndOfStream));
  producer.reset();
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(fails_with(consumer.take(kForever), Code::kEndOfStream)) << "nobody is there: it doesn't wait";
    EXPECT_TRUE(fails_with(only.take(kForever), Code::kEndOfStream));
  }
  producer.emplace(produce());
  send_stream_head(*producer, "next");
  ASSERT_TRUE(ok(consumer.connect(kPatience)));
  publish_frames(*producer, 0, 1);
  EXPECT_EQ(next_items(consumer, 4), "sCg0");
  EXPECT_TRUE(fails_with(only.take(kForever), Code::kEndOfStream)) << "reconnect is off";
  EXPECT_TRUE(fails_with(consumer.take(1ms), Code::kTimeout));
  consumer.close();
  EXPECT_TRUE(fails_with(consumer.take(kForever), Code::kInvalidArgument, "closed"));
}

TEST_F(Events, AfterAnEndTakingAgainAndAgainFindsTheNextProducer) {
  std::optional<Producer> producer(produce());
  Consumer consumer = join();
  ASSERT_TRUE(ok(producer->end_of_stream()));
  EXPECT_TRUE(fails_with(consumer.take(kForever), Code::kEndOfStream));
  producer.reset();
  EXPECT_TRUE(fails_with(consumer.take(kForever), Code::kEndOfStream));
  producer.emplace(produce());
  std::optional<std::uint64_t> seq;
  std::thread sending([&] {
    ASSERT_TRUE(ok(producer->wait_for_consumers(1, kPatience)));
    publish_frames(*producer, 0, 1);
  });
  EXPECT_TRUE(eventually([&] {
    const auto frame = consumer.take(kPatience);
    if (frame) seq = frame->seq();
    return seq.has_value() || (!frame && frame.error().code != Code::kEndOfStream);
  }));
  sending.join();
  EXPECT_EQ(seq, 0u);
}

TEST_F(Events, StatesOfAStreamEndWithItAndThoseOfTheLaneStay) {
  Producer producer = produce();
  for (std::uint32_t number = 0; number < 16; ++number)
    ASSERT_TRUE(ok(producer.send(event(EventType::kState, std::to_string(number), number))));
  ASSERT_TRUE(ok(producer.send(event(EventType::kStreamStart, "new"))));
  Consumer consumer = join();
  publish_frames(producer, 0, 1);
  EXPECT_EQ(next_items(consumer, 14), "sSSSSSSSSSSSS0");
}

TEST_F(Events, LatestSeesTheEndBehindTheLastFrame) {
  Producer producer = produce();
  ConsumerSettings settings;
  settings.mode = Mode::kLatest;
  Consumer consumer = join(settings);
  publish_frames(producer, 0, 5);
  ASSERT_TRUE(ok(producer.end_of_stream()));
  take_frames(consumer, 4, 1);
  EXPECT_TRUE(fails_with(consumer.take(kForever), Code::kEndOfStream));
  EXPECT_EQ(consumer.stats().skipped, 4u);
}

TEST_F(Events, NoneIsLostBySkippingItsPlace) {
  if (is_stream()) GTEST_SKIP() << "a socket takes more than the burst: see streams_test";
  ProducerSettings settings;
  settings.leaky = Leaky::kDownstream;
  settings.burst = 4;
  Producer producer = produce(settings);
  Consumer consumer = join();
  for (std::uint64_t frame = 0; frame < 40; ++frame) {
    ASSERT_TRUE(ok(producer.send(event(EventType::kCustom, std::to_string(frame)))));
    publish_frames(producer, frame, 1);
  }
  ASSERT_TRUE(ok(producer.end_of_stream()));
  int events = 0;
  int frames = 0;
  for (;;) {
    auto item = consumer.take_item(kPatience);
    ASSERT_TRUE(ok(item));
    if (const auto* const told = std::get_if<format::Event>(&*item)) {
      if (told->type == EventType::kEndOfStream) break;
      EXPECT_EQ(told->text, std::to_string(events++));
      continue;
    }
    EXPECT_EQ(std::get<Frame>(*item).seq(), static_cast<std::uint64_t>(events - 1)) << "event before its frame";
    ++frames;
  }
  EXPECT_EQ(events, 40);
  EXPECT_EQ(frames, 4);
  EXPECT_EQ(consumer.stats().skipped, 36u);
  EXPECT_EQ(producer.stats().passed_over, 36u);
}

}  // namespace
}  // namespace framelane::lane_test
