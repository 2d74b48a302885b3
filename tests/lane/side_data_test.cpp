// SPDX-License-Identifier: MIT
#include "lanes.hpp"

namespace framelane::lane_test {
namespace {

class SideData : public LaneTest {};

bool carries(const Frame& frame, const Bytes& side) {
  const auto got = frame.side_data();
  return std::equal(got.begin(), got.end(), side.begin(), side.end());
}

TEST_F(SideData, TravelsWithFramesOfAnySize) {
  Producer producer = produce({});
  Consumer consumer = join();
  for (const std::size_t size : {0u, 1u, 32u, 33u, 4096u, 100'000u}) {
    const Bytes side = payload(size % 900 + 1, 7);
    ASSERT_TRUE(ok(producer.publish_copy(payload(size, 1), {}, Wake::kNow, side)));
    const auto frame = consumer.take(kPatience);
    ASSERT_TRUE(ok(frame));
    EXPECT_FALSE(frame->is_inline()) << "an entry has no room for it";
    EXPECT_TRUE(is_frame(frame->bytes(), 1)) << size;
    EXPECT_TRUE(carries(*frame, side)) << size;
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(frame->side_data().data()) % 64, 0u);
  }
}

TEST_F(SideData, IsEmptyWhereNoneWasSent) {
  Producer producer = produce({});
  Consumer consumer = join();
  EXPECT_TRUE(Frame().side_data().empty());
  for (int i = 0; i < 100; ++i) {  // slots come again, also those that had side data
    ASSERT_TRUE(ok(producer.publish_copy(payload(100, 1), {.pts = 1}, Wake::kNow, payload(i % 2 == 0 ? 64 : 0, 2))));
    const auto frame = consumer.take(kPatience);
    ASSERT_TRUE(ok(frame));
    EXPECT_EQ(frame->side_data().size(), i % 2 == 0 ? 64u : 0u);
  }
  ASSERT_TRUE(ok(producer.publish_copy(payload(16, 1))));
  const auto small = consumer.take(kPatience);
  ASSERT_TRUE(ok(small));
  EXPECT_EQ(small->is_inline(), !is_stream());
  EXPECT_TRUE(small->side_data().empty());
}

TEST_F(SideData, StaysWithACopyBeyondMaxHeld) {
  Producer producer = produce({});
  ConsumerSettings settings;
  settings.max_held = 1;
  Consumer consumer = join(settings);
  std::vector<Frame> frames;
  for (std::uint64_t i = 0; i < 4; ++i) {
    ASSERT_TRUE(ok(producer.publish_copy(payload(5000, i), {}, Wake::kNow, payload(i * 100 + 1, 50 + i))));
    auto frame = consumer.take(kPatience);
    ASSERT_TRUE(ok(frame));
    frames.push_back(std::move(*frame));
  }
  EXPECT_FALSE(frames[0].is_copy());
  for (std::uint64_t i = 1; i < 4; ++i) {
    EXPECT_TRUE(frames[i].is_copy());
    EXPECT_TRUE(is_frame(frames[i].bytes(), i));
    EXPECT_TRUE(carries(frames[i], payload(i * 100 + 1, 50 + i)));
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(frames[i].data()) % 64, 0u) << "as aligned as in a slot";
  }
}

TEST_F(SideData, MovesWithItsFrameAndEndsWithIt) {
  Producer producer = produce({});
  Consumer consumer = join();
  const Bytes side = payload(77, 3);
  ASSERT_TRUE(ok(producer.publish_copy(payload(100, 1), {}, Wake::kNow, side)));
  auto taken = consumer.take(kPatience);
  ASSERT_TRUE(ok(taken));
  Frame moved = std::move(*taken);
  EXPECT_TRUE(taken->side_data().empty());
  EXPECT_TRUE(carries(moved, side));
  moved.release();
  EXPECT_TRUE(moved.side_data().empty());
}

TEST_F(SideData, TravelsWithKeptLoans) {
  Producer producer = produce({});
  Consumer consumer = join();
  auto loan = producer.loan(1000);
  ASSERT_TRUE(ok(loan));
  fill(loan->bytes().first(1000), 1);
  const Bytes side = payload(64, 3);
  ASSERT_TRUE(ok(producer.publish_kept(*loan, 1000, {}, Wake::kNow, side)));
  const auto frame = consumer.take(kPatience);
  ASSERT_TRUE(ok(frame));
  EXPECT_TRUE(carries(*frame, side));
}

TEST_F(SideData, BeyondMaxSideDataIsRefusedAndKeepsTheLoan) {
  ProducerSettings settings;
  settings.max_side_data = 100;
  Producer producer = produce(settings);
  Consumer consumer = join();
  auto loan = producer.loan(1000);
  ASSERT_TRUE(ok(loan));
  EXPECT_TRUE(fails_with(producer.publish(*loan, 1000, {}, Wake::kNow, payload(101, 1)), Code::kTooLarge,
                         "101 bytes of side data are more than max-side-data (100)"));
  EXPECT_TRUE(static_cast<bool>(*loan));
  EXPECT_TRUE(ok(producer.publish(*loan, 1000, {}, Wake::kNow, payload(100, 1))));
  const auto frame = consumer.take(kPatience);
  ASSERT_TRUE(ok(frame));
  EXPECT_TRUE(carries(*frame, payload(100, 1)));
}

TEST_F(SideData, OfTheLargestSizeArrivesWhole) {
  ProducerSettings settings;
  settings.max_side_data = 65472;
  settings.max_consumers = 1;
  Producer producer = produce(settings);
  Consumer consumer = join();
  for (int i = 0; i < 20; ++i) {
    ASSERT_TRUE(ok(producer.publish_copy(payload(100, 1), {}, Wake::kNow, payload(65472, 1))));
    const auto frame = consumer.take(kPatience);
    ASSERT_TRUE(ok(frame));
    EXPECT_TRUE(carries(*frame, payload(65472, 1)));
  }
}

TEST_F(SideData, IsGoneWhereTheLaneHasNoRoomForAny) {
  ProducerSettings settings;
  settings.max_side_data = 0;
  Producer producer = produce(settings);
  EXPECT_TRUE(fails_with(producer.publish_copy(payload(8, 1), {}, Wake::kNow, payload(1, 1)), Code::kTooLarge,
                         "max-side-data (0)"));
  EXPECT_TRUE(ok(producer.publish_copy(payload(8, 1))));
}

}  // namespace
}  // namespace framelane::lane_test
