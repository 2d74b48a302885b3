// SPDX-License-Identifier: MIT
#include "base/futex.hpp"

#include <cerrno>
#include <chrono>
#include <new>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>

#include "base/child.hpp"
#include "base/clock.hpp"

namespace framelane::base {
namespace {

using std::chrono::milliseconds;
using Word = std::atomic<std::uint32_t>;

/// Waits until the word is no longer `expected`, as users of a futex do.
void wait_until_changed(const Word& word, std::uint32_t expected) {
  while (word.load() == expected) futex_wait(word, expected, kForever);
}

TEST(FutexWait, ReturnsAtOnceWhenTheWordHasChanged) {
  const Word word{2};
  EXPECT_EQ(futex_wait(word, 1, kForever), FutexResult::kChanged);
}

TEST(FutexWait, TimesOutNoSoonerThanItsDeadline) {
  const Word word{1};
  // The fraction of a second counts, whichever part of it the deadline falls on.
  for (int i = 0; i < 4; ++i) {
    const std::int64_t deadline = deadline_after(milliseconds(260));
    FutexResult result = FutexResult::kInterrupted;
    while (result == FutexResult::kInterrupted || result == FutexResult::kWoken) result = futex_wait(word, 1, deadline);
    EXPECT_EQ(result, FutexResult::kTimedOut);
    EXPECT_GE(monotonic_ns(), deadline);
  }
}

TEST(FutexWait, TimesOutAtOnceWhenTheDeadlineHasPassed) {
  const Word word{1};
  for (const std::int64_t deadline : {std::int64_t{0}, std::int64_t{-1}, monotonic_ns() - 1}) {
    EXPECT_EQ(futex_wait(word, 1, deadline), FutexResult::kTimedOut);
  }
}

TEST(FutexWait, IsEndedByAWake) {
  Word word{0};
  std::thread waker([&] {
    std::this_thread::sleep_for(milliseconds(20));
    word = 1;
    futex_wake(word, 1);
  });
  wait_until_changed(word, 0);
  waker.join();
  EXPECT_EQ(word, 1u);
}

void on_signal(int) {}

TEST(FutexWait, IsEndedByASignal) {
  struct sigaction action {};
  action.sa_handler = on_signal;  // without SA_RESTART
  struct sigaction before {};
  ASSERT_EQ(sigaction(SIGUSR1, &action, &before), 0);
  const Word word{1};
  std::atomic<bool> done{false};
  FutexResult result = FutexResult::kWoken;
  std::thread sleeper([&] {
    result = futex_wait(word, 1, kForever);
    done = true;
  });
  while (!done) {  // again and again, since the first may come before the wait
    pthread_kill(sleeper.native_handle(), SIGUSR1);
    std::this_thread::sleep_for(milliseconds(2));
  }
  sleeper.join();
  sigaction(SIGUSR1, &before, nullptr);
  EXPECT_EQ(result, FutexResult::kInterrupted);
}

TEST(FutexWake, WakesAllThatItIsAskedTo) {
  Word word{0};
  std::vector<std::thread> sleepers;
  for (int i = 0; i < 4; ++i) sleepers.emplace_back([&] { wait_until_changed(word, 0); });
  std::this_thread::sleep_for(milliseconds(20));
  word = 1;
  futex_wake(word, 4);
  for (auto& sleeper : sleepers) sleeper.join();
  EXPECT_EQ(word, 1u);
}

TEST(FutexWake, LeavesErrnoAlone) {
  Word word{0};
  errno = EXDEV;
  futex_wake(word, 1);
  EXPECT_EQ(errno, EXDEV);
}

TEST(FutexWake, ReachesAnotherProcess) {
  void* const page = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(page, MAP_FAILED);
  auto* const words = new (page) Word[2];  // [0] from the child: "I am here", [1] to the child: "go"
  std::thread parent([&] {
    wait_until_changed(words[0], 0);
    std::this_thread::sleep_for(milliseconds(20));
    words[1] = 1;
    futex_wake(words[1], 1);
  });
  const int status = test::in_child([&] {
    words[0] = 1;
    futex_wake(words[0], 1);
    wait_until_changed(words[1], 0);
    return 0;
  });
  words[0] = 1;  // if the child failed, the thread must not wait for it
  futex_wake(words[0], 1);
  parent.join();
  EXPECT_EQ(status, 0);
  munmap(page, 4096);
}

}  // namespace
}  // namespace framelane::base
