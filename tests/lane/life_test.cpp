// SPDX-License-Identifier: MIT
// Opening, connecting, leaving, coming back; and that nothing is left behind.
#include <atomic>
#include <fstream>
#include <mutex>
#include <optional>
#include <thread>

#include "base/child.hpp"
#include "lanes.hpp"
#include "support/sanitizers.hpp"

namespace framelane::lane_test {
namespace {

using Life = LaneTest;

TEST_F(Life, TheConsumerMayComeFirst) {
  Consumer consumer = consume();
  EXPECT_EQ(consumer.transport(), "");
  EXPECT_FALSE(consumer.stats().connected);
  std::optional<Producer> producer;
  std::thread late([&] {
    std::this_thread::sleep_for(50ms);
    producer.emplace(produce());
    ASSERT_TRUE(ok(producer->wait_for_consumers(1, kPatience)));
    publish_frames(*producer, 0, 3);
  });
  take_frames(consumer, 0, 3);
  late.join();
  EXPECT_EQ(consumer.transport(), to_string(tested_transport()));
  EXPECT_TRUE(consumer.stats().connected);
  EXPECT_EQ(producer->num_consumers(), 1u);
}

TEST_F(Life, BothSidesNameTheirLane) {
  Producer producer = produce();
  EXPECT_EQ(producer.descriptor(), served_as("lane"));
  ConsumerSettings settings;
  settings.lane = producer.descriptor();
  unsetenv("FRAMELANE_DIR");
  Consumer consumer = join(settings);
  EXPECT_EQ(consumer.descriptor(), producer.descriptor());
}

TEST_F(Life, ThirtyTwoConsumersGetEverythingAndThe33rdASentence) {
  Producer producer = produce();
  std::vector<Consumer> consumers;
  for (int i = 0; i < 32; ++i) consumers.push_back(join());
  ASSERT_TRUE(ok(producer.wait_for_consumers(32, kPatience)));
  ConsumerSettings settings;
  settings.connect_timeout = 500ms;  // two greetings on a busy machine
  Consumer one_more = consume(settings);
  EXPECT_TRUE(fails_with(one_more.take(kForever), Code::kRefused, "max-consumers"));
  for (std::uint64_t frame = 0; frame < 40; ++frame) {
    publish_frames(producer, frame, 1, frame % 2 == 0 ? 10 : 1000);
    for (Consumer& consumer : consumers) take_frames(consumer, frame, 1);
  }
  EXPECT_EQ(producer.stats().consumers.size(), 32u);
  consumers.pop_back();
  ASSERT_TRUE(eventually([&] { return producer.num_consumers() == 31; }));
  EXPECT_TRUE(ok(one_more.connect(kPatience))) << "a place is free now";
}

TEST_F(Life, MaxConsumersIsTheProducersWord) {
  ProducerSettings few;
  few.max_consumers = 1;
  Producer producer = produce(few);
  Consumer first = join();
  ConsumerSettings settings;
  settings.connect_timeout = 500ms;  // two greetings on a busy machine
  Consumer second = consume(settings);
  EXPECT_TRUE(fails_with(second.connect(kForever), Code::kRefused, "1 consumers"));
}

TEST_F(Life, ConsumersAreAnnouncedWithReason) {
  Producer producer = produce();
  std::mutex mutex;
  std::vector<std::string> told;
  producer.on_consumer([&](const ConsumerInfo& info, bool joined, std::string_view reason) {
    const std::lock_guard lock(mutex);
    told.push_back(std::to_string(info.id) + (joined ? "+" : "-") + std::string(reason));
    EXPECT_EQ(info.pid, tested_transport() == Transport::kTcp ? 0 : getpid());
  });
  const auto count = [&] {
    const std::lock_guard lock(mutex);
    return told.size();
  };
  {
    Consumer first = join();
    ASSERT_TRUE(eventually([&] { return count() == 1; }));
    Consumer second = join();
    ASSERT_TRUE(eventually([&] { return count() == 2; }));
    second.close();
    ASSERT_TRUE(eventually([&] { return count() == 3; }));
  }
  ASSERT_TRUE(eventually([&] { return count() == 4; }));
  EXPECT_EQ(told, (std::vector<std::string>{"1+", "2+", "2-it closed", "1-it closed"}));
}

TEST_F(Life, WhoIsThereAlreadyIsAnnouncedAndWhoStaysToTheEndIsToldOf) {
  Producer producer = produce();
  Consumer consumer = join();
  std::vector<std::string> told;  // every call comes before on_consumer() and close() return
  producer.on_consumer([&](const ConsumerInfo& info, bool joined, std::string_view reason) {
    told.push_back(std::to_string(info.id) + (joined ? "+" : "-") + std::string(reason));
  });
  EXPECT_EQ(told, (std::vector<std::string>{"1+"}));
  producer.close();
  EXPECT_EQ(told, (std::vector<std::string>{"1+", "1-the producer closed"}));
}

TEST_F(Life, AConsumerIsToldOfItsConnection) {
  std::optional<Producer> producer(produce());
  Consumer consumer = consume();
  std::string told;
  consumer.on_connection([&](bool connected) { told += connected ? '+' : '-'; });
  const std::array<std::uint8_t, 16> none{};
  EXPECT_EQ(consumer.producer_id(), none);
  ASSERT_TRUE(ok(consumer.connect(kPatience)));
  EXPECT_EQ(told, "+");
  const auto first = consumer.producer_id();
  EXPECT_NE(first, none);
  publish_frames(*producer, 0, 1);  // no event ever
  producer.reset();
  take_frames(consumer, 0, 1);
  EXPECT_TRUE(fails_with(consumer.take(1ms), Code::kTimeout));
  EXPECT_EQ(told, "+-");
  EXPECT_EQ(consumer.producer_id(), first);
  producer.emplace(produce());
  ASSERT_TRUE(ok(consumer.connect(kPatience)));
  EXPECT_NE(consumer.producer_id(), first);
  consumer.close();
  EXPECT_EQ(told, "+-+-");
}

TEST_F(Life, WithoutReconnectALeavingProducerIsLostForGood) {
  std::optional<Producer> producer(produce());
  ConsumerSettings settings;
  settings.reconnect = false;
  Consumer consumer = join(settings);
  publish_frames(*producer, 0, 5);
  producer.reset();
  take_frames(consumer, 0, 5);
  EXPECT_TRUE(fails_with(consumer.take(kForever), Code::kPeerLost, "without an end of stream"));
  Producer again = produce();
  EXPECT_TRUE(fails_with(consumer.take(kForever), Code::kPeerLost));
  EXPECT_TRUE(fails_with(consumer.try_take(), Code::kPeerLost));
  EXPECT_EQ(consumer.stats().taken, 5u);
  EXPECT_FALSE(consumer.stats().connected);
}

TEST_F(Life, WithReconnectTheNextProducersStreamFollows) {
  std::optional<Producer> producer(produce());
  Consumer consumer = join();
  for (std::uint64_t round = 0; round < 5; ++round) {
    ASSERT_TRUE(ok(producer->send(event(format::EventType::kStreamStart, std::to_string(round)))));
    ASSERT_TRUE(ok(producer->set_caps("caps-" + std::to_string(round))));
    publish_frames(*producer, 0, 3);
    producer.reset();  // nothing published is lost
    auto item = consumer.take_item(kPatience);
    ASSERT_TRUE(ok(item));
    EXPECT_EQ(std::get<format::Event>(*item).text, std::to_string(round));
    take_frames(consumer, 0, 3);
    EXPECT_EQ(consumer.caps(), "caps-" + std::to_string(round));
    EXPECT_TRUE(fails_with(consumer.take(1ms), Code::kTimeout)) << "it waits for the lane to come back";
    producer.emplace(produce());
    ASSERT_TRUE(ok(consumer.connect(kPatience)));
  }
  EXPECT_EQ(consumer.stats().taken, 15u);
  EXPECT_EQ(consumer.stats().connections, 6u);
  EXPECT_EQ(consumer.stats().skipped, 0u);
  publish_frames(*producer, 0, 1);
  take_frames(consumer, 0, 1);
  EXPECT_EQ(consumer.caps(), "") << "this producer said none";
}

TEST_F(Life, FramesOfThePreviousProducerStayReadable) {
  std::optional<Producer> producer(produce());
  Consumer consumer = join();
  publish_frames(*producer, 0, 1, 5000);
  const auto held = consumer.take(kPatience);
  ASSERT_TRUE(ok(held));
  producer.emplace(produce({.lane = "other"}));
  Producer next = produce();
  ASSERT_TRUE(eventually([&] {
    auto taken = consumer.try_take();
    return taken && consumer.stats().connections == 2;
  }));
  publish_frames(next, 0, 1, 6000);
  take_frames(consumer, 0, 1);
  EXPECT_TRUE(is_frame(held->bytes(), 0));
  EXPECT_EQ(held->size(), 5000u);
}

TEST_F(Life, CloseMayBeCalledAgain) {
  Producer producer = produce();
  Consumer consumer = join();
  publish_frames(producer, 0, 1);
  consumer.close();
  consumer.close();
  EXPECT_TRUE(fails_with(consumer.take(kForever), Code::kInvalidArgument, "closed"));
  EXPECT_TRUE(fails_with(consumer.try_take(), Code::kInvalidArgument, "closed"));
  EXPECT_TRUE(fails_with(consumer.connect(kForever), Code::kInvalidArgument, "closed"));
  EXPECT_FALSE(consumer.stats().connected);
  producer.close();
  producer.close();
  EXPECT_EQ(producer.num_consumers(), 0u);
  Producer next = produce();
}

TEST_F(Life, AClosedProducerPublishesNothing) {
  Producer producer = produce();
  auto loan = producer.loan(100);
  ASSERT_TRUE(ok(loan));
  producer.close();
  EXPECT_TRUE(fails_with(producer.publish(*loan, 100), Code::kInvalidArgument, "closed"));
  EXPECT_TRUE(fails_with(publish(producer, 0), Code::kInvalidArgument, "closed"));
  EXPECT_TRUE(fails_with(producer.set_caps("caps"), Code::kInvalidArgument, "closed"));
}

TEST_F(Life, BothSidesMove) {
  Producer producer = produce();
  Producer second = std::move(producer);
  Consumer consumer = join();
  publish_frames(second, 0, 1);
  Consumer other = std::move(consumer);
  take_frames(other, 0, 1);
  second = produce({.lane = "other"});  // closes the first lane
  EXPECT_EQ(second.descriptor(), served_as("other"));
  Producer third = produce();
  EXPECT_TRUE(eventually([&] { return other.try_take() && other.stats().connections == 2; }));
  other = join({.lane = "other"});
  EXPECT_TRUE(eventually([&] { return third.num_consumers() == 0; }));
  publish_frames(second, 0, 1);
  take_frames(other, 0, 1);
}

TEST_F(Life, BothSidesMayCloseAtTheSameMoment) {
  for (int round = 0; round < 200; ++round) {
    std::optional<Producer> producer(produce());
    std::optional<Consumer> consumer(join());
    publish_frames(*producer, 0, 2);
    std::optional<Result<Frame>> held(consumer->take(kPatience));
    std::atomic<bool> go{false};
    std::thread other([&] {
      while (!go) {
      }
      consumer.reset();
      held.reset();
    });
    go = true;
    std::this_thread::sleep_for(std::chrono::microseconds(round));
    producer.reset();
    other.join();
  }
}

// --- leaks

std::size_t entries(const char* directory) {
  std::size_t count = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(directory)) ++count;
  return count;
}

std::size_t lane_mappings() {
  std::ifstream maps("/proc/self/maps");
  std::size_t count = 0;
  for (std::string line; std::getline(maps, line);) {
    if (line.find("/memfd:") != std::string::npos) ++count;
  }
  return count;
}

TEST_F(Life, AForkedChildMayDestroyBothEnds) {
  if (kSanitized) GTEST_SKIP() << "a sanitizer's runtime doesn't bear a fork with threads";
  std::optional<Producer> producer(produce());
  std::optional<Consumer> consumer(join());
  ASSERT_TRUE(ok(producer->wait_for_consumers(1, kPatience)));
  publish_frames(*producer, 0, 3, 1000);
  take_frames(*consumer, 0, 1);
  std::optional<Loan> loan(producer->loan(1000).value());
  const int status = test::in_child([&] {
    consumer.reset();
    producer.reset();
    return 7;
  });
  EXPECT_EQ(status, 7);
  loan.reset();
  publish_frames(*producer, 3, 2, 1000);
  take_frames(*consumer, 1, 4);  // the parent's ends are as they were
  EXPECT_EQ(producer->num_consumers(), 1u);
}

TEST_F(Life, LeavesNoDescriptorsMappingsOrThreads) {
  const auto cycle = [] {
    Producer producer = produce();
    Consumer first = join();
    Consumer second = join();
    ASSERT_TRUE(ok(producer.set_caps("caps")));
    publish_frames(producer, 0, 2, 1000);
    publish_frames(producer, 2, 2, 100'000);
    take_frames(first, 0, 4);
    Frame held = second.take(kPatience).value();
    second.close();
    producer.close();
  };
  cycle();  // the monitor's thread and descriptors stay
  const auto settled = [](std::size_t fds, std::size_t threads) {
    return entries("/proc/self/fd") == fds && entries("/proc/self/task") == threads && lane_mappings() == 0;
  };
  EXPECT_EQ(lane_mappings(), 0u);
  const std::size_t fds = entries("/proc/self/fd");
  const std::size_t threads = entries("/proc/self/task");
  for (int i = 0; i < 100; ++i) cycle();
  EXPECT_TRUE(eventually([&] { return settled(fds, threads); }))
      << fds << " -> " << entries("/proc/self/fd") << " descriptors, " << threads << " -> "
      << entries("/proc/self/task") << " threads, " << lane_mappings() << " mappings";
}

TEST_F(Life, ConsumersThatComeAndGoLeaveNothingInTheProducer) {
  Producer producer = produce();
  publish_frames(producer, 0, 1, 1000);
  const auto cycle = [&](std::uint64_t frame) {
    Consumer consumer = join();
    publish_frames(producer, frame, 1, 1000);
    Frame held = consumer.take(kPatience).value();
  };
  const auto gone = [&] { return producer.num_consumers() == 0; };
  cycle(1);
  ASSERT_TRUE(eventually(gone));
  publish_frames(producer, 2, 1, 1000);  // frees what publishing might still look at
  const std::size_t fds = entries("/proc/self/fd");
  for (std::uint64_t i = 0; i < 100; ++i) {
    cycle(3 + i);
    ASSERT_TRUE(eventually(gone));
  }
  EXPECT_LE(lane_mappings(), 4u) << "ring, data and at most the last page";
  EXPECT_TRUE(eventually([&] { return entries("/proc/self/fd") <= fds; })) << fds;
}

}  // namespace
}  // namespace framelane::lane_test
