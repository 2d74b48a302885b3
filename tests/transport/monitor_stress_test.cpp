// SPDX-License-Identifier: MIT
#include <atomic>
#include <chrono>
#include <memory>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/unique_fd.hpp"
#include "transport/monitor.hpp"

namespace framelane::transport {
namespace {

/// What a callback uses. Sanitizers see a use after the destructor; `alive` shows it without them.
struct Target {
  ~Target() { alive = false; }
  void touch() {
    EXPECT_TRUE(alive.load());
    ++touched;
  }
  std::atomic<bool> alive{true};
  std::atomic<int> touched{0};
};

base::UniqueFd raised_event() { return base::UniqueFd(eventfd(1, EFD_CLOEXEC | EFD_NONBLOCK)); }

Monitor& monitor() { return **Monitor::instance(); }

TEST(MonitorStress, NoCallbackRunsOnceItsWatchHasEnded) {
  std::atomic<int> touched{0};
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&, thread] {
      for (int i = 0; i < 1500; ++i) {
        auto target = std::make_unique<Target>();
        const base::UniqueFd fd = raised_event();  // always readable: the callback runs all the time
        auto watch = monitor().watch(fd.get(), EPOLLIN, [at = target.get()](std::uint32_t) { at->touch(); });
        ASSERT_TRUE(watch.has_value());
        if (i % 3 == thread % 3) std::this_thread::yield();
        if (i % 5 == 0) watch->set_events(i % 2 == 0 ? EPOLLIN : EPOLLIN | EPOLLONESHOT);
        watch->reset();
        touched += target->touched;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_GT(touched, 0);
}

TEST(MonitorStress, NoTimerRunsOnceItsWatchHasEnded) {
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 3; ++thread) {
    threads.emplace_back([&] {
      for (int i = 0; i < 1000; ++i) {
        auto target = std::make_unique<Target>();
        const auto touch = [at = target.get()] { at->touch(); };
        const Watch once = monitor().after(std::chrono::microseconds(i % 7 * 300), touch);
        const Watch often = monitor().every(std::chrono::milliseconds(1), touch);
        if (i % 4 == 0) std::this_thread::sleep_for(std::chrono::microseconds(i % 11 * 200));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(MonitorStress, EventsChangeWhileCallbacksEndTheirWatch) {
  for (int i = 0; i < 2000; ++i) {
    const base::UniqueFd fd = raised_event();
    Watch watch;
    std::atomic<bool> ended{false};
    auto watched = monitor().watch(fd.get(), 0, [&](std::uint32_t) {
      watch.reset();
      ended = true;
    });
    ASSERT_TRUE(watched.has_value());
    watch = std::move(*watched);
    std::thread changer([&] {
      while (!ended) watch.set_events(EPOLLIN);
    });
    changer.join();
    monitor().call([] {});  // the callback may still be returning
  }
}

TEST(MonitorStress, CallsFromManyThreadsAllRun) {
  int sum = 0;  // only the monitor's thread touches it
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&] {
      for (int i = 0; i < 2000; ++i) monitor().call([&] { ++sum; });
    });
  }
  for (std::thread& thread : threads) thread.join();
  monitor().call([&] { EXPECT_EQ(sum, 8000); });
}

}  // namespace
}  // namespace framelane::transport
