// SPDX-License-Identifier: MIT
// Holds: a slot that a consumer reads is never written, and comes back when the consumer releases it, leaves or dies.
#include <algorithm>
#include <atomic>
#include <bit>
#include <thread>
#include <tuple>

#include <gtest/gtest.h>

#include "harness.hpp"

namespace framelane::ring {
namespace {

using testing::intact;
using testing::Lane;
using testing::must;
using testing::TestConsumer;

using Slots = std::pair<std::uint32_t, std::uint32_t>;

/// Inline frames push the last slot frames out of the ring.
void flush_slots(Lane& lane, TestConsumer* gating = nullptr) {
  for (int i = 0; i < 300; ++i) {
    ASSERT_TRUE(lane.send_inline());
    if (gating != nullptr) gating->take_all();
  }
}

std::uint32_t bits(TestConsumer& consumer) {
  std::uint32_t count = 0;
  for (const auto& word : consumer.page().holds) count += static_cast<std::uint32_t>(std::popcount(word.load()));
  return count;
}

TEST(Hold, OutlivesThousandsOfFramesInAnyOrder) {
  Lane lane({});
  TestConsumer consumer(lane);
  std::optional<Taken> third, seventh;
  for (std::uint64_t i = 0; i < 5000; ++i) {
    ASSERT_TRUE(lane.send_slot());
    auto taken = consumer.take();
    ASSERT_TRUE(taken && intact(*taken, i));
    if (i == 3) {
      third = taken;
    } else if (i == 7) {
      seventh = taken;
    } else {
      ASSERT_FALSE(third && taken->slot == third->slot);
      ASSERT_FALSE(seventh && taken->slot == seventh->slot);
      consumer.reader().release(taken->slot);
    }
    if (i == 2500) {
      EXPECT_TRUE(intact(*seventh, 7));
      consumer.reader().release(seventh->slot);
      seventh.reset();
    }
  }
  EXPECT_TRUE(intact(*third, 3));
  EXPECT_EQ(consumer.reader().held(), 1u);
  EXPECT_EQ(lane.counters().dropped_full, 0u);
  flush_slots(lane, &consumer);
  const auto [free, all] = lane.free_slots();
  EXPECT_EQ(free, all - 1) << "what was released is free again";
  consumer.reader().release(third->slot);
  EXPECT_EQ(lane.free_slots(), Slots(all, all));
}

TEST(Hold, OfMaxHeldFramesByEveryConsumerCostsNoBurst) {
  Lane lane({.sizes = {.burst = 8, .max_held = 3, .max_consumers = 32}, .when_full = WhenFull::kDropNew});
  std::vector<std::unique_ptr<TestConsumer>> consumers;
  std::vector<std::pair<Taken, TestConsumer*>> held;
  for (int i = 0; i < 32; ++i) consumers.push_back(std::make_unique<TestConsumer>(lane));
  // Each holds three frames that no other one holds.
  for (auto& holder : consumers) {
    for (int i = 0; i < 3; ++i) {
      ASSERT_TRUE(lane.send_slot());
      for (auto& consumer : consumers) {
        const auto taken = consumer->take();
        ASSERT_TRUE(taken);
        if (consumer == holder) {
          held.emplace_back(*taken, consumer.get());
        } else {
          consumer->reader().release(taken->slot);
        }
      }
    }
  }
  std::vector<SlotRef> loans;
  for (int i = 0; i < 16; ++i) loans.push_back(must(lane.writer->loan(8)));
  for (const SlotRef& loan : loans) lane.writer->discard(loan.slot);
  for (int round = 0; round < 50; ++round) {
    ASSERT_TRUE(lane.send(8)) << "the burst is as deep as ever";
    for (auto& consumer : consumers) ASSERT_EQ(consumer->take_all().size(), 8u);
  }
  for (const auto& [taken, consumer] : held) EXPECT_TRUE(intact(taken, taken.index));
  EXPECT_TRUE(lane.control.broken().empty());
}

TEST(Hold, OfOneMoreThanMaxHeldIsAllowedWhileItIsCopied) {
  Lane lane({});
  TestConsumer consumer(lane, {.max_held = 2});
  std::vector<Taken> held;
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(lane.send_slot());
    held.push_back(*consumer.take());
  }
  ASSERT_EQ(consumer.reader().max_held(), 2u);
  EXPECT_EQ(consumer.reader().held(), 3u);
  flush_slots(lane, &consumer);
  EXPECT_TRUE(lane.control.broken().empty());
  for (const Taken& taken : held) EXPECT_TRUE(intact(taken, taken.index));
}

TEST(Hold, OfMoreEndsTheConnectionAndIsIgnored) {
  Lane lane({});
  TestConsumer honest(lane, {.gating = false});
  TestConsumer greedy(lane, {.gating = false, .max_held = 2});
  std::vector<Taken> greedy_holds;
  std::optional<Taken> honest_hold;
  for (int i = 0; i < 4; ++i) {
    ASSERT_TRUE(lane.send_slot());
    const auto taken = honest.take();
    if (i == 1) {
      honest_hold = taken;
    } else {
      honest.reader().release(taken->slot);
    }
    greedy_holds.push_back(*greedy.take());
  }
  flush_slots(lane);
  using Broken = std::vector<std::pair<ConsumerId, std::string>>;
  EXPECT_EQ(lane.control.broken(), (Broken{{greedy.id(), "holds"}}));
  EXPECT_TRUE(lane.link(greedy.id())->broken);
  const auto [free, all] = lane.free_slots();
  EXPECT_EQ(free, all - 1) << "only the honest consumer's hold counts";
  ASSERT_TRUE(lane.send(500));
  EXPECT_TRUE(intact(*honest_hold, 1));
  EXPECT_EQ(lane.control.broken().size(), 1u) << "told once";
}

TEST(Hold, OfEverySlotIsIgnoredToo) {
  Lane lane({});
  TestConsumer greedy(lane);
  for (auto& word : greedy.page().holds) word.store(~0u);
  ASSERT_TRUE(lane.send(8));
  greedy.page().cursor.store(lane.writer->entry_count() + 9);  // it claims to have taken them, so that they retire
  flush_slots(lane);
  ASSERT_EQ(lane.control.broken().size(), 1u);
  EXPECT_EQ(lane.control.broken()[0].second, "holds");
  const auto [free, all] = lane.free_slots();
  EXPECT_EQ(free, all);
}

TEST(Hold, EndsWithTheConsumer) {
  Lane lane({});
  for (int round = 0; round < 20; ++round) {
    TestConsumer staying(lane, {.gating = false});
    auto dying = std::make_unique<TestConsumer>(lane, testing::JoinOptions{.gating = round % 2 == 0});
    ASSERT_TRUE(lane.send(4));
    for (int i = 0; i < 4; ++i) ASSERT_TRUE(dying->take());
    const auto kept = staying.take();
    flush_slots(lane, dying.get());
    auto [free, all] = lane.free_slots();
    ASSERT_EQ(free, all - 4) << "all four are held, one by both";
    dying->leave();  // what the monitor does when the process is gone, whatever bits it left
    std::tie(free, all) = lane.free_slots();
    ASSERT_EQ(free, all - 1);
    ASSERT_TRUE(intact(*kept, kept->index));
    staying.reader().release(kept->slot);
    std::tie(free, all) = lane.free_slots();
    ASSERT_EQ(free, all);
  }
}

TEST(Hold, IsReleasedByManyThreadsAtOnce) {
  Lane lane({.sizes = {.max_held = 16}});
  TestConsumer consumer(lane, {.max_held = 16});
  for (int round = 0; round < 200; ++round) {
    std::vector<Taken> held;
    for (int i = 0; i < 16; ++i) {
      ASSERT_TRUE(lane.send_slot());
      held.push_back(*consumer.take());
    }
    std::vector<std::thread> threads;
    for (std::size_t t = 0; t < 4; ++t) {
      threads.emplace_back([&, t] {
        for (std::size_t i = t; i < held.size(); i += 4) consumer.reader().release(held[i].slot);
      });
    }
    for (std::thread& thread : threads) thread.join();
    ASSERT_EQ(consumer.reader().held(), 0u);
    ASSERT_EQ(lane.link(consumer.id())->held_count(), 0u);
  }
}

TEST(Hold, CountsBitsOfDifferentWords) {
  Lane lane({});
  TestConsumer consumer(lane, {.max_held = 2});
  for (const int slot : {0, 31, 32, 4095}) {
    consumer.page().holds[slot / 32].fetch_or(1u << (slot % 32));
  }
  const auto link = lane.link(consumer.id());
  EXPECT_EQ(link->held_count(), 4u);
  EXPECT_TRUE(link->holds_too_many());
  consumer.page().holds[0].fetch_and(~1u);
  EXPECT_EQ(link->held_count(), 3u);
  EXPECT_FALSE(link->holds_too_many());
  EXPECT_TRUE(link->holds(31));
  EXPECT_TRUE(link->holds(4095));
  EXPECT_FALSE(link->holds(33));
}

TEST(Hold, CountsUntilItsBitIsClear) {
  Lane lane({.sizes = {.max_held = 16}});
  TestConsumer consumer(lane, {.max_held = 16});
  for (int round = 0; round < 50; ++round) {
    std::vector<std::uint16_t> held;
    for (int i = 0; i < 16; ++i) {
      ASSERT_TRUE(lane.send_slot());
      held.push_back(consumer.take()->slot);
    }
    std::thread releaser([&] {
      for (const std::uint16_t slot : held) consumer.reader().release(slot);
    });
    // Both only fall, so bits that are read later must not be more.
    bool honest = true;
    for (std::uint32_t count = 16; count != 0;) {
      count = consumer.reader().held();
      honest = honest && bits(consumer) <= count;
    }
    releaser.join();
    ASSERT_TRUE(honest) << "a bit was set that held() didn't count";
  }
}

// The producer can't read all hold words at one moment. What it adds up must have been set together all the same.
TEST(Hold, BitsOfDifferentMomentsAreNotAddedUp) {
  Lane lane({});
  TestConsumer consumer(lane, {.max_held = 2});
  const auto link = lane.link(consumer.id());
  ConsumerPage& page = consumer.page();
  for (int pass = 0; pass < 20; ++pass) {
    // Takes and releases 4096 slots, one after the other, three at any moment.
    std::atomic<bool> done{false};
    std::thread reader([&] {
      for (std::uint32_t slot = 0; slot < kMaxSlots + 2; ++slot) {
        if (slot >= 2) page.holds[(slot - 2) / 32].fetch_and(~(1u << (slot - 2) % 32));
        if (slot < kMaxSlots) page.holds[slot / 32].fetch_or(1u << slot % 32);
      }
      done = true;
    });
    bool evicted = false;
    while (!done) evicted = evicted || link->holds_too_many();
    reader.join();
    ASSERT_FALSE(evicted);
  }
}

// --- slots on loan

TEST(Loan, LendsAtMostMaxLoans) {
  Lane lane({.sizes = {.max_loans = 3}});
  std::vector<SlotRef> loans;
  for (int i = 0; i < 3; ++i) loans.push_back(must(lane.writer->loan(100)));
  EXPECT_EQ(lane.loans(), 3u);
  const auto fourth = lane.writer->loan(100);
  ASSERT_FALSE(fourth);
  EXPECT_EQ(fourth.error().code, Code::kFull);
  EXPECT_NE(fourth.error().text.find("max-loans"), std::string::npos);
  EXPECT_FALSE(lane.writer->try_loan(100));
  lane.writer->discard(loans[1].slot);
  EXPECT_EQ(lane.loans(), 2u);
  const auto again = lane.writer->try_loan(100);
  ASSERT_TRUE(again);
  EXPECT_EQ(again->slot, loans[1].slot) << "the last one that came back is the warmest";
}

TEST(Loan, TriedNeverMakesASegment) {
  Lane lane({});
  EXPECT_FALSE(lane.writer->try_loan(100));
  must(lane.writer->reserve(100));
  EXPECT_TRUE(lane.writer->try_loan(100));
  EXPECT_FALSE(lane.writer->try_loan(101));
}

TEST(Loan, TriedReclaimsWhatItNeeds) {
  Lane lane({});
  TestConsumer consumer(lane);
  must(lane.writer->reserve(64));
  static constexpr format::FrameInfo kNoInfo{};
  for (std::uint64_t i = 0; i < 1000; ++i) {
    const auto slot = lane.writer->try_loan(64);
    ASSERT_TRUE(slot);
    ASSERT_TRUE(must(lane.writer->publish({&*slot, nullptr, 64, &kNoInfo, false, false})));
    ASSERT_EQ(consumer.take_all().size(), 1u);
  }
}

TEST(Loan, IsPublishedInAnyOrder) {
  Lane lane({.sizes = {.burst = 16}});
  TestConsumer consumer(lane);
  std::vector<SlotRef> loans;
  for (std::uint64_t i = 0; i < 16; ++i) {
    loans.push_back(must(lane.writer->loan(64)));
    testing::fill(loans.back().data, 64, i);
  }
  std::reverse(loans.begin(), loans.end());
  static constexpr format::FrameInfo kNoInfo{};
  for (const SlotRef& loan : loans) ASSERT_TRUE(must(lane.writer->publish({&loan, nullptr, 64, &kNoInfo})));
  EXPECT_EQ(lane.loans(), 0u);
  for (std::uint64_t i = 16; i-- > 0;) {
    const auto taken = consumer.take();
    ASSERT_TRUE(taken && intact(*taken, i));
    consumer.reader().release(taken->slot);
  }
}

TEST(Loan, ThatWasDroppedIsStillOnLoan) {
  Lane lane({.sizes = {.burst = 1}, .when_full = WhenFull::kDropNew});
  TestConsumer paused(lane);
  ASSERT_TRUE(lane.send_slot());
  const SlotRef loan = must(lane.writer->loan(64));
  testing::fill(loan.data, 64, 1);
  static constexpr format::FrameInfo kNoInfo{};
  EXPECT_FALSE(must(lane.writer->publish({&loan, nullptr, 64, &kNoInfo})));
  EXPECT_EQ(lane.loans(), 1u);
  paused.take_all();
  EXPECT_TRUE(must(lane.writer->publish({&loan, nullptr, 64, &kNoInfo})));
  EXPECT_EQ(lane.loans(), 0u);
  EXPECT_TRUE(intact(*paused.take(), 1));
}

// --- kept slots: their owner goes on reading them

TEST(Kept, ComesBackWhenNoConsumerReadsIt) {
  Lane lane({});
  TestConsumer consumer(lane);
  static constexpr format::FrameInfo kNoInfo{};
  const SlotRef kept = must(lane.writer->loan(64));
  testing::fill(kept.data, 64, 0);
  ASSERT_TRUE(must(lane.writer->publish({&kept, nullptr, 64, &kNoInfo, true})));
  EXPECT_TRUE(lane.writer->is_published(kept.slot));
  const auto taken = consumer.take();
  std::vector<std::uint16_t> back;
  for (int i = 0; i < 300; ++i) {
    ASSERT_TRUE(must(lane.writer->publish({nullptr, kept.data, 8, &kNoInfo})));
    consumer.take_all();
  }
  lane.writer->reclaimed(back);
  EXPECT_TRUE(back.empty()) << "a consumer reads it";
  EXPECT_TRUE(lane.writer->is_published(kept.slot));
  EXPECT_EQ(lane.loans(), 0u);
  consumer.reader().release(taken->slot);
  lane.writer->reclaimed(back);
  EXPECT_EQ(back, (std::vector<std::uint16_t>{kept.slot}));
  EXPECT_FALSE(lane.writer->is_published(kept.slot));
  EXPECT_EQ(lane.loans(), 1u) << "it is a loan again";
  EXPECT_TRUE(testing::intact(kept.data, 64, 0)) << "and nobody has written it";
  back.clear();
  lane.writer->reclaimed(back);
  EXPECT_TRUE(back.empty()) << "told once";
  lane.writer->discard(kept.slot);
  EXPECT_EQ(lane.loans(), 0u);
}

TEST(Kept, MayBeDiscardedWhileItIsInTheRing) {
  Lane lane({});
  TestConsumer consumer(lane);
  static constexpr format::FrameInfo kNoInfo{};
  const SlotRef kept = must(lane.writer->loan(64));
  testing::fill(kept.data, 64, 0);
  ASSERT_TRUE(must(lane.writer->publish({&kept, nullptr, 64, &kNoInfo, true})));
  lane.writer->discard(kept.slot);
  const auto taken = consumer.take();
  for (int i = 0; i < 300; ++i) {
    ASSERT_TRUE(must(lane.writer->publish({nullptr, kept.data, 8, &kNoInfo})));
    consumer.take_all();
  }
  EXPECT_TRUE(intact(*taken, 0));
  consumer.reader().release(taken->slot);
  std::vector<std::uint16_t> back;
  lane.writer->reclaimed(back);
  EXPECT_TRUE(back.empty());
  const auto [free, all] = lane.free_slots();
  EXPECT_EQ(free, all);
}

}  // namespace
}  // namespace framelane::ring
