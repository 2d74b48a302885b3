// SPDX-License-Identifier: MIT
#include <atomic>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "support.hpp"
#include "transport/byte_stream.hpp"

// One thread that sends and one that receives at each end, and a third that shuts down.

namespace framelane::tls {
namespace {

/// Sends and receives `rounds` messages of random sizes, which both ends know, at once.
void talk(SecureStream& stream, unsigned sends, unsigned receives, int rounds) {
  const std::jthread sender([&] {
    std::mt19937 random(sends);
    for (int i = 0; i < rounds; ++i) ASSERT_TRUE(send_all(stream, random_bytes(1 + random() % 100'000, sends + i)));
  });
  std::mt19937 random(receives);
  for (int i = 0; i < rounds; ++i) {
    const auto wanted = random_bytes(1 + random() % 100'000, receives + i);
    ASSERT_TRUE(receive_all(stream, wanted.size()) == wanted) << i;
  }
}

TEST(TlsStress, TwoThreadsAtEachEnd) {
  for (const auto pair : {&tcp_pair, &unix_pair}) {
    Ends ends = shaken(pair());
    const std::jthread server([&] { talk(*ends.server, 1, 2, 200); });
    talk(*ends.client, 2, 1, 200);
  }
}

TEST(TlsStress, ShutdownWhileBothGo) {
  for (int round = 0; round < 50; ++round) {
    Ends ends = shaken(tcp_pair());
    const auto bytes = random_bytes(100'000, 1);
    std::atomic<int> moved = 0;
    const auto send_until_lost = [&](SecureStream& stream) {
      while (send_all(stream, bytes)) ++moved;
    };
    const auto receive_until_lost = [&](SecureStream& stream) {
      while (receive_all(stream, bytes.size()) == bytes) ++moved;
    };
    const std::jthread a([&] { send_until_lost(*ends.client); });
    const std::jthread b([&] { receive_until_lost(*ends.client); });
    const std::jthread c([&] { send_until_lost(*ends.server); });
    const std::jthread d([&] { receive_until_lost(*ends.server); });
    while (moved < round) std::this_thread::yield();
    // Both: the other end of a TCP connection learns of a shutdown by reading, or when the descriptor is closed.
    (round % 2 == 0 ? ends.client : ends.server)->shutdown();
    (round % 2 == 0 ? ends.server : ends.client)->shutdown();
  }
}

TEST(TlsStress, ManyConnectionsAtOnce) {
  std::vector<std::jthread> threads;
  for (unsigned thread = 0; thread < 4; ++thread) {
    threads.emplace_back([thread] {
      for (unsigned i = 0; i < 25; ++i) {
        Ends ends = shaken(tcp_pair());
        const auto bytes = random_bytes(5000, thread * 1000 + i);
        ASSERT_TRUE(send_all(*ends.client, bytes));
        ASSERT_TRUE(receive_all(*ends.server, bytes.size()) == bytes);
      }
    });
  }
}

}  // namespace
}  // namespace framelane::tls
