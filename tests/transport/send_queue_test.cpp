// SPDX-License-Identifier: MIT
#include "transport/send_queue.hpp"

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "base/clock.hpp"
#include "support.hpp"
#include "transport/monitor.hpp"

namespace framelane::transport {
namespace {

OutgoingPtr message(std::uint64_t number, std::size_t size = 0) {
  wire::EventMessage event;
  event.event.text.assign(size, 's');
  auto made = make_outgoing(wire::encode(event, number));
  EXPECT_TRUE(made.has_value());
  return made ? *made : nullptr;
}

std::uint64_t next_number(ControlSocket& socket) {
  const auto received = socket.receive_until(soon());
  EXPECT_TRUE(received.has_value()) << received.error().text;
  if (!received) return 0;
  return wire::decode(received->bytes)->number;
}

/// Pushes and flushes until the socket is full; returns how many messages there are in all.
std::uint64_t fill(SendQueue& queue, ControlSocket& socket) {
  for (std::uint64_t count = 1; count < 100'000; ++count) {
    EXPECT_TRUE(queue.push(message(count)).has_value());
    if (queue.flush(socket) == FlushState::kBlocked) return count;
  }
  ADD_FAILURE() << "the socket never was full";
  return 0;
}

TEST(SendQueue, SendsInOrderAcrossAFullSocket) {
  Pair pair = connected_pair();
  SendQueue queue;
  const std::uint64_t filled = fill(queue, pair.producer);
  for (std::uint64_t i = 1; i <= 100; ++i) {
    ASSERT_TRUE(queue.push(message(filled + i)).has_value());
    EXPECT_EQ(queue.flush(pair.producer), FlushState::kBlocked);
  }
  EXPECT_EQ(queue.size(), 101u);
  for (std::uint64_t i = 1; i <= filled + 100; ++i) {
    ASSERT_EQ(next_number(pair.consumer), i);
    ASSERT_TRUE(queue.flush(pair.producer).has_value());
  }
  EXPECT_EQ(queue.size(), 0u);
}

TEST(SendQueue, OverflowsByNumber) {
  SendQueue queue;
  for (std::size_t i = 0; i < SendQueue::kMaxMessages; ++i) ASSERT_TRUE(queue.push(message(i)).has_value());
  EXPECT_EQ(queue.push(message(0)).error().code, Code::kFull);
  EXPECT_EQ(queue.size(), SendQueue::kMaxMessages);
}

TEST(SendQueue, OverflowsBySize) {
  SendQueue queue;
  std::size_t count = 0;
  while (queue.push(message(0, 50'000)).has_value()) ASSERT_LT(++count, SendQueue::kMaxMessages);
  EXPECT_EQ(count, SendQueue::kMaxBytes / 50'100);
  EXPECT_EQ(queue.size(), count);
}

TEST(SendQueue, TakesOneMessageOfAnySize) {
  Pair pair = connected_pair();
  SendQueue queue;
  ASSERT_TRUE(queue.push(message(1, 4 * SendQueue::kMaxBytes)).has_value());
  EXPECT_EQ(queue.push(message(2)).error().code, Code::kFull);
  EXPECT_EQ(queue.flush(pair.producer), FlushState::kEmpty);
  EXPECT_EQ(next_number(pair.consumer), 1u);
  EXPECT_TRUE(queue.push(message(3)).has_value());
}

TEST(SendQueue, AsksForWritabilityOnlyWhileMessagesWait) {
  Pair pair = connected_pair();
  std::vector<bool> asked;
  SendQueue queue([&](bool wanted) { asked.push_back(wanted); });
  const std::uint64_t filled = fill(queue, pair.producer);
  EXPECT_EQ(queue.flush(pair.producer), FlushState::kBlocked);
  EXPECT_EQ(asked, std::vector<bool>{true});
  for (std::uint64_t i = 0; i < filled - 1; ++i) next_number(pair.consumer);
  EXPECT_EQ(queue.flush(pair.producer), FlushState::kEmpty);
  EXPECT_EQ(queue.flush(pair.producer), FlushState::kEmpty);
  EXPECT_EQ(asked, (std::vector<bool>{true, false}));
}

TEST(SendQueue, ALostPeerEndsIt) {
  Pair pair = connected_pair();
  SendQueue queue;
  ASSERT_TRUE(queue.push(message(1)).has_value());
  ASSERT_TRUE(queue.push(message(2)).has_value());
  { const ControlSocket gone = std::move(pair.consumer); }
  EXPECT_EQ(queue.flush(pair.producer).error().code, Code::kPeerLost);
  EXPECT_EQ(queue.size(), 0u);
  EXPECT_EQ(queue.push(message(3)).error().code, Code::kPeerLost);
  EXPECT_EQ(queue.flush(pair.producer).error().code, Code::kPeerLost);
  EXPECT_EQ(queue.drain(pair.producer, soon()).error().code, Code::kPeerLost);
}

TEST(SendQueue, DrainWaitsForThePeerUntilTheDeadline) {
  Pair pair = connected_pair();
  SendQueue queue;
  const std::uint64_t filled = fill(queue, pair.producer);
  EXPECT_EQ(queue.drain(pair.producer, base::deadline_after(std::chrono::milliseconds(30))).error().code,
            Code::kTimeout);
  std::thread reader([&] {
    for (std::uint64_t i = 1; i <= filled; ++i) EXPECT_EQ(next_number(pair.consumer), i);
  });
  EXPECT_TRUE(queue.drain(pair.producer, soon()).has_value());
  reader.join();
}

TEST(SendQueue, ThreadsKeepTheirOrderWhileTheMonitorDrains) {
  constexpr std::uint64_t kEach = 20'000;
  Pair pair = connected_pair();
  Watch watch;
  SendQueue queue([&](bool wanted) { watch.set_events(wanted ? EPOLLOUT : 0u); });
  const auto monitor = Monitor::instance();
  ASSERT_TRUE(monitor.has_value());
  auto watched = (*monitor)->watch(pair.producer.fd(), 0, [&](std::uint32_t) { (void)queue.flush(pair.producer); });
  ASSERT_TRUE(watched.has_value());
  watch = std::move(*watched);
  std::vector<std::thread> threads;
  for (std::uint64_t thread = 0; thread < 2; ++thread) {
    threads.emplace_back([&, thread] {
      for (std::uint64_t i = 1; i <= kEach; ++i) {
        while (!queue.push(message(thread << 32 | i))) std::this_thread::yield();
        ASSERT_TRUE(queue.flush(pair.producer).has_value());
      }
    });
  }
  std::uint64_t last[2] = {0, 0};
  for (std::uint64_t i = 0; i < 2 * kEach; ++i) {
    const std::uint64_t number = next_number(pair.consumer);
    ASSERT_NE(number, 0u);
    std::uint64_t& previous = last[number >> 32];
    ASSERT_EQ(number & 0xffffffff, previous + 1);
    ++previous;
  }
  for (std::thread& thread : threads) thread.join();
  watch.reset();
}

}  // namespace
}  // namespace framelane::transport
