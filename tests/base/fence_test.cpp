// SPDX-License-Identifier: MIT
#include "base/fence.hpp"

#include <thread>
#include <vector>

#include <gtest/gtest.h>

namespace framelane::base {
namespace {

struct alignas(64) Word {
  std::atomic<int> value{0};
};

/// Both threads leave meet() at nearly the same time.
class Barrier {
 public:
  void meet(int round) noexcept {
    arrived_.fetch_add(1);
    // Tightly, since a thread that yields starts too late to race; but not for ever on a busy machine.
    for (int spins = 0; arrived_.load() < 2 * round; ++spins) {
      if (spins > 1000) std::this_thread::yield();
    }
  }

 private:
  std::atomic<int> arrived_{0};
};

// Two threads each store to their own word and then load the other's. Without a full fence between the two, both may
// read 0 (on x86, too: a store waits in its buffer while the load goes ahead).
TEST(FullFence, LetsNotBothSidesMissEachOther) {
  constexpr int kRounds = 20'000;
  std::vector<Word> words[2] = {std::vector<Word>(kRounds), std::vector<Word>(kRounds)};
  std::vector<int> seen[2] = {std::vector<int>(kRounds), std::vector<int>(kRounds)};
  Barrier barrier;
  const auto side = [&](std::size_t self) {
    for (std::size_t i = 0; i < kRounds; ++i) {
      barrier.meet(static_cast<int>(i) + 1);
      words[self][i].value.store(1, std::memory_order_relaxed);
      full_fence();
      seen[self][i] = words[1 - self][i].value.load(std::memory_order_relaxed);
    }
  };
  std::thread other(side, std::size_t{1});
  side(0);
  other.join();
  int missed = 0;
  for (std::size_t i = 0; i < kRounds; ++i) missed += seen[0][i] == 0 && seen[1][i] == 0 ? 1 : 0;
  EXPECT_EQ(missed, 0);
}

}  // namespace
}  // namespace framelane::base
