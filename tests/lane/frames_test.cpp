// SPDX-License-Identifier: MIT
// Frames on their way through one process: what goes in comes out, and slots come back.
#include <algorithm>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <thread>

#include "lanes.hpp"

namespace framelane::lane_test {
namespace {

class RoundTrip : public LaneTest, public ::testing::WithParamInterface<std::size_t> {};

TEST_P(RoundTrip, BringsTheBytesAndNothingElse) {
  ProducerSettings settings;
  settings.stamps = Stamps::kOn;
  Producer producer = produce(settings);
  Consumer consumer = join();
  const std::size_t size = GetParam();
  for (std::uint64_t frame = 0; frame < 100; ++frame) {
    ASSERT_TRUE(ok(publish(producer, frame, size)));
    const auto taken = consumer.take(kPatience);
    ASSERT_TRUE(ok(taken));
    EXPECT_EQ(taken->seq(), frame);
    EXPECT_EQ(taken->skipped(), 0u);
    EXPECT_EQ(taken->size(), size);
    EXPECT_TRUE(is_frame(taken->bytes(), frame));
    EXPECT_EQ(taken->is_inline(), size <= 32 && !is_stream());
    EXPECT_EQ(taken->slot() < 0, size <= 32 && !is_stream());
    EXPECT_FALSE(taken->is_copy());
    EXPECT_EQ(taken->info(), format::FrameInfo{});
    EXPECT_EQ(taken->due(), format::kNoClockTime);
    EXPECT_GT(taken->published(), 0);
    const std::uintptr_t alignment = size >= 4096 ? 4096 : size > 32 ? 64 : 1;
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(taken->data()) % alignment, 0u);
  }
}

INSTANTIATE_TEST_SUITE_P(Sizes, RoundTrip, ::testing::Values(0, 1, 31, 32, 33, 64, 4095, 4096, 1u << 20));

using Frames = LaneTest;

TEST_F(Frames, ASmallLoanIsAsLargeAsAnEntry) {
  Producer producer = produce();
  auto loan = producer.loan(1);
  ASSERT_TRUE(ok(loan));
  EXPECT_EQ(loan->capacity(), 32u);
  EXPECT_EQ(loan->slot(), -1);
  EXPECT_EQ(producer.stats().loans, 0u);
}

TEST_F(Frames, MetadataTravelsWithLargeAndSmallPayloads) {
  Producer producer = produce();
  Consumer consumer = join();
  format::FrameInfo info;
  info.pts = 40'000'000;
  info.dts = 39'000'000;
  info.duration = 1;
  info.offset = 7;
  info.offset_end = 8;
  info.flags = format::kDeltaUnit | format::kLive;
  info.type_id = 0xfeedbeef;
  info.due_ns = 123'456'789;
  info.capture_ns = -5;
  for (const std::size_t size : {0u, 4u, 32u, 33u, 5000u}) {
    ASSERT_TRUE(ok(publish(producer, size, size, info)));
    const auto taken = consumer.take(kPatience);
    ASSERT_TRUE(ok(taken));
    EXPECT_EQ(taken->info(), info) << size;
    EXPECT_EQ(taken->pts(), info.pts);
    EXPECT_EQ(taken->type_id(), info.type_id);
    EXPECT_EQ(taken->due(), info.due_ns);
    EXPECT_FALSE(taken->is_inline()) << "metadata has no room in an entry";
    EXPECT_GE(taken->slot(), 0);
    EXPECT_TRUE(is_frame(taken->bytes(), size));
  }
}

TEST_F(Frames, ADueTimeAloneStaysInTheEntry) {
  Producer producer = produce();
  Consumer consumer = join();
  format::FrameInfo info;
  info.due_ns = 1'000'000;
  ASSERT_TRUE(ok(publish(producer, 0, 8, info)));
  const auto taken = consumer.take(kPatience);
  ASSERT_TRUE(ok(taken));
  EXPECT_EQ(taken->is_inline(), !is_stream());
  EXPECT_EQ(taken->due(), 1'000'000);
  EXPECT_EQ(taken->info(), info);
}

TEST_F(Frames, ATypeIdAloneTakesASlot) {
  Producer producer = produce();
  Consumer consumer = join();
  format::FrameInfo info;
  info.type_id = 9;
  ASSERT_TRUE(ok(publish(producer, 0, 8, info)));
  ASSERT_TRUE(ok(publish(producer, 1, 8)));
  auto taken = consumer.take(kPatience);
  ASSERT_TRUE(ok(taken));
  EXPECT_EQ(taken->type_id(), 9u);
  EXPECT_FALSE(taken->is_inline());
  taken = consumer.take(kPatience);
  ASSERT_TRUE(ok(taken));
  EXPECT_EQ(taken->type_id(), 0u) << "not the number of the frame before";
}

TEST_F(Frames, AnInlinePayloadLivesInItsFrame) {
  if (is_stream()) GTEST_SKIP() << "a frame of a socket lies in no entry";
  Producer producer = produce();
  std::vector<Frame> frames;
  {
    Consumer consumer = join();
    for (std::uint64_t frame = 0; frame < 8; ++frame) {
      ASSERT_TRUE(ok(publish(producer, frame, 20)));
      auto taken = consumer.take(kPatience);
      ASSERT_TRUE(ok(taken));
      frames.push_back(std::move(*taken));
    }
    EXPECT_EQ(consumer.stats().held, 0u);
  }
  producer.close();
  frames.reserve(100);  // moves them
  for (std::uint64_t frame = 0; frame < 8; ++frame) {
    const auto* const at = reinterpret_cast<const std::byte*>(&frames[frame]);
    EXPECT_GE(frames[frame].data(), at);
    EXPECT_LT(frames[frame].data(), at + sizeof(Frame));
    EXPECT_TRUE(is_frame(frames[frame].bytes(), frame));
  }
}

TEST_F(Frames, AMovedFromFrameIsEmpty) {
  Producer producer = produce();
  Consumer consumer = join();
  publish_frames(producer, 0, 1);
  auto taken = consumer.take(kPatience);
  ASSERT_TRUE(ok(taken));
  Frame moved = std::move(*taken);
  EXPECT_FALSE(static_cast<bool>(*taken));
  EXPECT_EQ(taken->size(), 0u);
  EXPECT_EQ(taken->slot(), -1);
  EXPECT_TRUE(is_frame(moved.bytes(), 0));
  EXPECT_EQ(consumer.stats().held, 1u);
  moved.release();
  EXPECT_FALSE(static_cast<bool>(moved));
  EXPECT_EQ(moved.slot(), -1);
  EXPECT_EQ(consumer.stats().held, 0u);
}

TEST_F(Frames, AreReleasedInAnyOrderOnAnyThread) {
  ConsumerSettings settings;
  settings.max_held = 4;
  Producer producer = produce();
  Consumer consumer = join(settings);
  std::mt19937 random(7);
  std::vector<Frame> held;
  for (std::uint64_t frame = 0; frame < 2000; ++frame) {
    publish_frames(producer, frame, 1, 200);
    auto taken = consumer.take(kPatience);
    ASSERT_TRUE(ok(taken));
    ASSERT_TRUE(is_frame(taken->bytes(), frame));
    ASSERT_FALSE(taken->is_copy());
    held.push_back(std::move(*taken));
    if (held.size() < 4) continue;
    const std::size_t gone = random() % held.size();
    ASSERT_TRUE(is_frame(held[gone].bytes(), held[gone].seq())) << "overwritten while it was held";
    std::thread([frame = std::move(held[gone])]() mutable { frame.release(); }).join();
    held.erase(held.begin() + static_cast<std::ptrdiff_t>(gone));
  }
  EXPECT_EQ(producer.stats().published, 2000u);
  EXPECT_EQ(producer.stats().dropped_full, 0u);
}

TEST_F(Frames, OutliveConsumerAndProducer) {
  if (is_stream()) GTEST_SKIP() << "what it holds is its own memory";
  std::optional<Producer> producer(produce());
  std::vector<Frame> frames;
  {
    Consumer consumer = join();
    for (std::uint64_t frame = 0; frame < 3; ++frame) {
      publish_frames(*producer, frame, 1, 5000);
      auto taken = consumer.take(kPatience);
      ASSERT_TRUE(ok(taken));
      frames.push_back(std::move(*taken));
    }
  }
  // The consumer gates no more, but what it holds is not overwritten.
  publish_frames(*producer, 3, 500, 5000);
  EXPECT_EQ(producer->num_consumers(), 1u) << "the connection lives as long as its frames";
  for (std::uint64_t frame = 0; frame < 3; ++frame) EXPECT_TRUE(is_frame(frames[frame].bytes(), frame));
  std::thread([frame = std::move(frames[1])]() mutable { frame.release(); }).join();
  producer.reset();
  EXPECT_TRUE(is_frame(frames[0].bytes(), 0));
  EXPECT_TRUE(is_frame(frames[2].bytes(), 2));
  frames.clear();
}

TEST_F(Frames, TheLastFrameOfAClosedConsumerEndsItsConnection) {
  if (is_stream()) GTEST_SKIP() << "what it holds is its own memory";
  Producer producer = produce();
  Consumer consumer = join();
  publish_frames(producer, 0, 1);
  auto taken = consumer.take(kPatience);
  ASSERT_TRUE(ok(taken));
  consumer.close();
  std::this_thread::sleep_for(20ms);
  EXPECT_EQ(producer.num_consumers(), 1u);
  taken->release();
  EXPECT_TRUE(eventually([&] { return producer.num_consumers() == 0; }));
}

TEST_F(Frames, HeldAfterCloseSurviveThousandsOfEvents) {
  if (is_stream()) GTEST_SKIP() << "what it holds is its own memory";
  Producer producer = produce();
  Consumer consumer = join();
  publish_frames(producer, 0, 1);
  auto taken = consumer.take(kPatience);
  ASSERT_TRUE(ok(taken));
  consumer.close();
  ASSERT_TRUE(eventually([&] { return !producer.stats().consumers.at(0).gating; }));
  for (std::uint64_t frame = 1; frame <= 12'000; ++frame) {
    ASSERT_TRUE(ok(producer.send(event(format::EventType::kCustom, std::string(200, 'x')))));
    if (frame % 10 == 0) publish_frames(producer, frame, 1);
  }
  EXPECT_EQ(producer.num_consumers(), 1u);
  EXPECT_EQ(producer.stats().evictions, 0u);
  EXPECT_TRUE(is_frame(taken->bytes(), 0));
}

TEST_F(Frames, BeyondMaxHeldAreCopies) {
  Producer producer = produce();
  ConsumerSettings settings;
  settings.max_held = 2;
  Consumer consumer = join(settings);
  format::FrameInfo info;
  info.pts = 5;
  std::vector<Frame> kept;
  for (std::uint64_t frame = 0; frame < 300; ++frame) {
    ASSERT_TRUE(ok(publish(producer, frame, 1000, info)));
    auto taken = consumer.take(kPatience);
    ASSERT_TRUE(ok(taken));
    EXPECT_EQ(taken->is_copy(), frame >= 2);
    EXPECT_EQ(taken->slot() < 0, frame >= 2);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(taken->data()) % 64, 0u);
    EXPECT_EQ(taken->pts(), 5u);
    kept.push_back(std::move(*taken));
  }
  EXPECT_EQ(consumer.stats().copied, 298u);
  EXPECT_EQ(consumer.stats().held, 2u);
  EXPECT_EQ(consumer.stats().taken, 300u);
  EXPECT_EQ(producer.stats().dropped_full, 0u);
  for (std::uint64_t frame = 0; frame < 300; ++frame) ASSERT_TRUE(is_frame(kept[frame].bytes(), frame));
  kept[0].release();
  ASSERT_TRUE(ok(publish(producer, 300, 1000)));
  auto taken = consumer.take(kPatience);
  ASSERT_TRUE(ok(taken));
  EXPECT_FALSE(taken->is_copy()) << "room for a hold again";
}

TEST_F(Frames, TheProducersMaxHeldCapsTheConsumers) {
  ProducerSettings settings;
  settings.max_held = 1;
  Producer producer = produce(settings);
  ConsumerSettings wish;
  wish.max_held = 100;
  Consumer consumer = join(wish);
  std::vector<Frame> kept;
  for (std::uint64_t frame = 0; frame < 4; ++frame) {
    publish_frames(producer, frame, 1);
    auto taken = consumer.take(kPatience);
    ASSERT_TRUE(ok(taken));
    EXPECT_EQ(taken->is_copy(), frame >= 1);
    kept.push_back(std::move(*taken));
  }
}

TEST_F(Frames, LargerFramesComeWhileSmallOnesAreStillHeld) {
  Producer producer = produce();
  Consumer consumer = join();
  ASSERT_TRUE(ok(producer.set_caps("video/x-raw, width=64")));
  std::vector<Frame> held;
  const auto step = [&](std::uint64_t frame, std::size_t size) {
    ASSERT_TRUE(ok(publish(producer, frame, size)));
    auto taken = consumer.take(kPatience);
    ASSERT_TRUE(ok(taken));
    ASSERT_TRUE(is_frame(taken->bytes(), frame));
    held.push_back(std::move(*taken));
  };
  step(0, 100);
  step(1, 100);
  ASSERT_TRUE(ok(producer.set_caps("video/x-raw, width=640")));
  step(2, 50'000);
  EXPECT_EQ(consumer.caps(), "video/x-raw, width=640");
  for (std::uint64_t frame = 3; frame < 300; ++frame) {
    step(frame, 50'000);
    held.pop_back();
  }
  for (std::uint64_t frame = 0; frame < 3; ++frame) EXPECT_TRUE(is_frame(held[frame].bytes(), frame));
  held.clear();
  // The sizes go on changing; segments whose frames are released don't pile up.
  for (std::uint64_t frame = 300; frame < 308; ++frame) {
    step(frame, std::size_t{60'000} << (frame - 300));
    held.clear();
  }
}

TEST_F(Frames, AThirdSizeWaitsUntilTheOldFramesAreReleased) {
  if (is_stream()) GTEST_SKIP() << "what it holds is its own memory";
  ProducerSettings settings;
  settings.full_timeout = 100ms;
  Producer producer = produce(settings);
  Consumer consumer = join();
  std::vector<Frame> held;
  std::uint64_t frame = 0;
  for (const std::size_t size : {100u, 10'000u, 100'000u}) {
    ASSERT_TRUE(ok(publish(producer, frame++, size)));
    auto taken = consumer.take(kPatience);
    ASSERT_TRUE(ok(taken));
    held.push_back(std::move(*taken));
  }
  EXPECT_TRUE(fails_with(producer.loan(300'000), Code::kFull, "still being read"));
  held.erase(held.begin());
  ASSERT_TRUE(ok(publish(producer, frame, 300'000)));
  take_frames(consumer, frame, 1);
}

TEST_F(Frames, ReserveMakesSlotsOfExactlyThatSize) {
  Producer producer = produce();
  ASSERT_TRUE(ok(producer.reserve(3'110'400)));
  auto loan = producer.loan(1000);
  ASSERT_TRUE(ok(loan));
  EXPECT_EQ(loan->capacity(), 3'110'400u);
}

TEST_F(Frames, PublishCopyCountsItsCopies) {
  Producer producer = produce();
  Consumer consumer = join();
  for (std::uint64_t frame = 0; frame < 5; ++frame) ASSERT_TRUE(ok(producer.publish_copy(payload(frame * 30, frame))));
  take_frames(consumer, 0, 5);
  EXPECT_EQ(producer.stats().published, 5u);
}

// --- loans

TEST_F(Frames, LoansAreFilledInAnyOrderAndDiscardedOnOtherThreads) {
  ProducerSettings settings;
  settings.max_loans = 4;
  Producer producer = produce(settings);
  Consumer consumer = join();
  std::vector<Loan> loans;
  for (int i = 0; i < 4; ++i) {
    auto loan = producer.loan(1000);
    ASSERT_TRUE(ok(loan));
    loans.push_back(std::move(*loan));
  }
  EXPECT_EQ(producer.stats().loans, 4u);
  EXPECT_TRUE(fails_with(producer.loan(1000), Code::kFull, "max-loans"));
  auto none = producer.try_loan(1000);
  ASSERT_TRUE(ok(none));
  EXPECT_FALSE(none->has_value());
  fill(loans[2].bytes().first(1000), 0);
  ASSERT_TRUE(ok(producer.publish(loans[2], 1000)));
  EXPECT_FALSE(static_cast<bool>(loans[2]));
  std::thread([loan = std::move(loans[0])]() mutable { loan.discard(); }).join();
  EXPECT_EQ(producer.stats().loans, 2u);
  auto again = producer.try_loan(1000);
  ASSERT_TRUE(ok(again));
  EXPECT_TRUE(again->has_value());
  take_frames(consumer, 0, 1);
}

TEST_F(Frames, ALoanOutlivesItsProducer) {
  std::optional<Producer> producer(produce());
  auto loan = producer->loan(10'000);
  ASSERT_TRUE(ok(loan));
  producer.reset();
  fill(loan->bytes(), 1);
  EXPECT_TRUE(is_frame(loan->bytes(), 1));
  Producer next = produce();
  EXPECT_TRUE(fails_with(next.publish(*loan, 10), Code::kInvalidArgument, "another producer"));
  EXPECT_TRUE(static_cast<bool>(*loan));
  loan->discard();
}

TEST_F(Frames, WrongPublishesKeepTheLoan) {
  Producer producer = produce();
  auto loan = producer.loan(1000);
  ASSERT_TRUE(ok(loan));
  EXPECT_TRUE(fails_with(producer.publish(*loan, loan->capacity() + 1), Code::kInvalidArgument, "larger loan"));
  EXPECT_TRUE(static_cast<bool>(*loan));
  ASSERT_TRUE(ok(producer.publish(*loan, 1000)));
  EXPECT_TRUE(fails_with(producer.publish(*loan, 1000), Code::kInvalidArgument, "published or discarded"));
}

// --- kept loans

/// Reclaims until nothing changes.
std::vector<std::uint16_t> reclaim_all(Producer& producer) {
  std::vector<std::uint16_t> slots;
  for (int i = 0; i < 100; ++i) producer.reclaimed(slots);
  return slots;
}

TEST_F(Frames, AKeptLoanComesBackOnlyWhenNobodyReadsIt) {
  if (is_stream()) GTEST_SKIP() << "what it holds is its own memory";
  Producer producer = produce();
  Consumer consumer = join();
  auto loan = producer.loan(1000);
  ASSERT_TRUE(ok(loan));
  fill(loan->bytes().first(1000), 0);
  ASSERT_TRUE(ok(producer.publish_kept(*loan, 1000)));
  EXPECT_TRUE(static_cast<bool>(*loan));
  EXPECT_TRUE(is_frame(loan->bytes().first(1000), 0)) << "still readable for its owner";
  EXPECT_EQ(producer.stats().loans, 0u);
  EXPECT_TRUE(fails_with(producer.publish(*loan, 1000), Code::kInvalidArgument, "reclaimed()"));
  auto held = consumer.take(kPatience);
  ASSERT_TRUE(ok(held));
  std::uint64_t frame = 1;
  for (; frame < 50; ++frame) {
    publish_frames(producer, frame, 1, 1000);
    take_frames(consumer, frame, 1);
  }
  EXPECT_TRUE(reclaim_all(producer).empty()) << "a consumer still reads it";
  EXPECT_TRUE(is_frame(held->bytes(), 0));
  held->release();
  EXPECT_EQ(reclaim_all(producer), std::vector<std::uint16_t>{static_cast<std::uint16_t>(loan->slot())});
  EXPECT_EQ(producer.stats().loans, 1u) << "a loan again";
  fill(loan->bytes().first(1000), frame);
  ASSERT_TRUE(ok(producer.publish(*loan, 1000)));
  take_frames(consumer, frame, 1);
}

TEST_F(Frames, AKeptLoanIsNotPublishedAgainBeforeReclaimedNamedIt) {
  Producer producer = produce();
  Consumer consumer = join();
  auto loan = producer.loan(1000);
  ASSERT_TRUE(ok(loan));
  ASSERT_TRUE(ok(producer.publish_kept(*loan, 1000)));
  // Others' publishes reclaim it, but its owner hasn't been told.
  for (int i = 0; i < 200; ++i) {
    ASSERT_TRUE(ok(publish(producer, 0, 1000)));
    while (consumer.try_take().value().has_value()) {
    }
  }
  EXPECT_TRUE(fails_with(producer.publish_kept(*loan, 1000), Code::kInvalidArgument, "reclaimed()"));
  const int slot = loan->slot();
  EXPECT_EQ(reclaim_all(producer), std::vector<std::uint16_t>{static_cast<std::uint16_t>(slot)});
  ASSERT_TRUE(ok(producer.publish_kept(*loan, 1000)));
  EXPECT_TRUE(reclaim_all(producer).empty()) << "it is in the ring again";
}

TEST_F(Frames, AKeptLoanMayBeDiscardedBeforeItIsReclaimed) {
  ProducerSettings settings;
  settings.max_loans = 2;
  Producer producer = produce(settings);
  Consumer consumer = join();
  std::vector<Frame> held;
  for (std::uint64_t frame = 0; frame < 500; ++frame) {
    auto loan = producer.loan(1000);
    ASSERT_TRUE(ok(loan)) << frame;
    fill(loan->bytes().first(1000), frame);
    ASSERT_TRUE(ok(producer.publish_kept(*loan, 1000)));
    if (frame % 2 == 0) loan->discard();  // the other half by the destructor
    auto taken = consumer.take(kPatience);
    ASSERT_TRUE(ok(taken));
    ASSERT_TRUE(is_frame(taken->bytes(), frame));
    held.push_back(std::move(*taken));
    if (held.size() == 3) {
      ASSERT_TRUE(is_frame(held.front().bytes(), held.front().seq())) << "overwritten while it was held";
      held.erase(held.begin());
    }
  }
  EXPECT_TRUE(reclaim_all(producer).empty()) << "nobody is left to be told";
  EXPECT_EQ(producer.stats().loans, 0u);
}

TEST_F(Frames, SmallKeptLoansMoveToASlot) {
  Producer producer = produce();
  Consumer consumer = join();
  auto loan = producer.loan(8);
  ASSERT_TRUE(ok(loan));
  fill(loan->bytes().first(8), 0);
  ASSERT_TRUE(ok(producer.publish_kept(*loan, 8)));
  EXPECT_GE(loan->slot(), 0);
  EXPECT_TRUE(is_frame(loan->bytes().first(8), 0));
  take_frames(consumer, 0, 1);
}

TEST_F(Frames, KeptLoansWakeNobodyWhenToldSo) {
  if (is_stream()) GTEST_SKIP() << "who sleeps there is a relay";
  Producer producer = produce();
  Consumer consumer = join();
  publish_frames(producer, 0, 1, 1000);  // it tells of the slots, which wakes
  take_frames(consumer, 0, 1);
  auto loan = producer.loan(1000);
  ASSERT_TRUE(ok(loan));
  fill(loan->bytes().first(1000), 1);
  std::thread taking([&] { take_frames(consumer, 1, 1); });
  EXPECT_TRUE(eventually([&] { return producer.stats().consumers.front().sleeping; }));
  const std::uint64_t before = producer.stats().wakes;
  EXPECT_TRUE(ok(producer.publish_kept(*loan, 1000, {}, Wake::kLater)));
  EXPECT_EQ(producer.stats().wakes, before);
  producer.wake_consumers();
  taking.join();
}

TEST_F(Frames, DroppedKeptLoansStayLoans) {
  if (is_stream()) GTEST_SKIP() << "a socket takes more than the burst";
  ProducerSettings settings;
  settings.burst = 1;
  settings.leaky = Leaky::kUpstream;
  Producer producer = produce(settings);
  Consumer consumer = join();
  publish_frames(producer, 0, 1, 1000);
  auto loan = producer.loan(1000);
  ASSERT_TRUE(ok(loan));
  auto sent = producer.publish_kept(*loan, 1000);
  ASSERT_TRUE(ok(sent));
  EXPECT_EQ(*sent, Published::kDropped);
  EXPECT_EQ(producer.stats().loans, 1u);
  take_frames(consumer, 0, 1);
  fill(loan->bytes().first(1000), 1);
  sent = producer.publish_kept(*loan, 1000);
  ASSERT_TRUE(ok(sent));
  EXPECT_EQ(*sent, Published::kSent);
  take_frames(consumer, 1, 1);
}

}  // namespace
}  // namespace framelane::lane_test
