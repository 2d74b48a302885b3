// SPDX-License-Identifier: MIT
#include "transport/monitor.hpp"

#include <atomic>
#include <filesystem>
#include <fstream>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/clock.hpp"
#include "base/fence.hpp"
#include "support.hpp"

namespace framelane::transport {
namespace {

using std::chrono::milliseconds;

Monitor& monitor() {
  const auto instance = Monitor::instance();
  EXPECT_TRUE(instance.has_value());
  return **instance;
}

/// Long enough for a callback that must not come to come all the same.
void let_things_happen() { std::this_thread::sleep_for(milliseconds(60)); }

struct Event {
  base::UniqueFd fd{eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
  void raise() const {
    const std::uint64_t one = 1;
    EXPECT_EQ(write(fd.get(), &one, sizeof one), static_cast<ssize_t>(sizeof one));
  }
  void clear() const {
    std::uint64_t count = 0;
    EXPECT_EQ(read(fd.get(), &count, sizeof count), static_cast<ssize_t>(sizeof count));
  }
};

TEST(Monitor, CallsAgainAndAgainWhileAnEventLasts) {
  const Event event;
  std::atomic<int> calls{0};
  const auto watch = monitor().watch(event.fd.get(), EPOLLIN, [&](std::uint32_t events) {
    EXPECT_EQ(events, static_cast<std::uint32_t>(EPOLLIN));
    EXPECT_TRUE(monitor().on_this_thread());
    if (++calls == 3) event.clear();
  });
  ASSERT_TRUE(watch.has_value());
  EXPECT_FALSE(monitor().on_this_thread());
  let_things_happen();
  EXPECT_EQ(calls, 0);
  event.raise();
  EXPECT_TRUE(eventually([&] { return calls == 3; }));
  let_things_happen();
  EXPECT_EQ(calls, 3);
  event.raise();
  EXPECT_TRUE(eventually([&] { return calls >= 4; }));
}

TEST(Monitor, EventsCanBeChangedFromAnyThread) {
  Pair pair = connected_pair();
  std::atomic<std::uint32_t> seen{0};
  Watch watch;
  auto watched = monitor().watch(pair.producer.fd(), 0, [&](std::uint32_t events) {
    seen |= events;
    watch.set_events(0);
  });
  ASSERT_TRUE(watched.has_value());
  watch = std::move(*watched);
  let_things_happen();
  EXPECT_EQ(seen, 0u);
  watch.set_events(EPOLLOUT);
  EXPECT_TRUE(eventually([&] { return seen == EPOLLOUT; }));
  watch.reset();
}

TEST(Monitor, ReportsWhatCannotBeWatched) {
  const TempDirectory temp;
  const base::UniqueFd file(open((temp / "file").c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0600));
  for (const int fd : {-1, file.get()}) {
    const auto watch = monitor().watch(fd, EPOLLIN, [](std::uint32_t) {});
    ASSERT_FALSE(watch.has_value());
    EXPECT_EQ(watch.error().code, Code::kSystem);
  }
}

TEST(Monitor, AHangUpIsToldOnce) {
  Pair pair = connected_pair();
  std::atomic<int> calls{0};
  std::atomic<std::uint32_t> seen{0};
  auto watch = monitor().watch(pair.producer.fd(), EPOLLIN, [&](std::uint32_t events) {
    ++calls;
    seen = events;
  });
  ASSERT_TRUE(watch.has_value());
  { const ControlSocket gone = std::move(pair.consumer); }
  EXPECT_TRUE(eventually([&] { return calls > 0; }));
  EXPECT_NE(seen & EPOLLHUP, 0u);
  let_things_happen();
  EXPECT_EQ(calls, 1) << "a callback that ignores a hang-up must not spin";
  watch->set_events(EPOLLIN);
  EXPECT_TRUE(eventually([&] { return calls == 2; }));
  let_things_happen();
  EXPECT_EQ(calls, 2);
}

TEST(Monitor, ACallbackThatCanTakeNoMoreIsLeftAloneAlsoAfterAHangUp) {
  Pair pair = connected_pair();
  std::atomic<int> calls{0};
  Watch watch;
  auto watched = monitor().watch(pair.producer.fd(), 0, [&](std::uint32_t) {
    ++calls;
    watch.set_events(0);
  });
  ASSERT_TRUE(watched.has_value());
  watch = std::move(*watched);
  watch.set_events(EPOLLIN);
  ASSERT_EQ(pair.consumer.send(wire::encode(wire::Leave{}, 0)), SendOutcome::kSent);
  EXPECT_TRUE(eventually([&] { return calls == 1; }));
  { const ControlSocket gone = std::move(pair.consumer); }
  let_things_happen();
  EXPECT_EQ(calls, 1);
  watch.set_events(EPOLLIN);
  EXPECT_TRUE(eventually([&] { return calls == 2; }));
  let_things_happen();
  EXPECT_EQ(calls, 2);
  watch.reset();
}

TEST(Monitor, OneShotEventsAreToldOnce) {
  const Event event;
  std::atomic<int> calls{0};
  auto watch = monitor().watch(event.fd.get(), EPOLLIN | EPOLLONESHOT, [&](std::uint32_t) { ++calls; });
  ASSERT_TRUE(watch.has_value());
  event.raise();
  EXPECT_TRUE(eventually([&] { return calls == 1; }));
  let_things_happen();
  EXPECT_EQ(calls, 1);
  watch->set_events(EPOLLIN | EPOLLONESHOT);
  EXPECT_TRUE(eventually([&] { return calls == 2; }));
}

TEST(Monitor, SeesAKilledPeer) {
  Pair pair = connected_pair();
  const Signal ready;
  Child child([&] {
    ready.send();
    pause();
    return 0;
  });
  ASSERT_TRUE(ready.wait());
  { const ControlSocket the_childs = std::move(pair.consumer); }
  std::atomic<bool> lost{false};
  const auto watch = monitor().watch(pair.producer.fd(), EPOLLIN, [&](std::uint32_t) {
    const auto received = pair.producer.receive();
    if (!received && received.error().code == Code::kPeerLost) lost = true;
  });
  ASSERT_TRUE(watch.has_value());
  let_things_happen();
  EXPECT_FALSE(lost);
  child.kill(SIGKILL);
  EXPECT_TRUE(eventually([&] { return lost.load(); }));
}

TEST(Monitor, AWatchMayEndInItsOwnCallback) {
  const Event event;
  std::atomic<int> calls{0};
  const auto alive = std::make_shared<int>(7);
  std::weak_ptr<int> captured = alive;
  auto watch = std::make_unique<Watch>();
  auto watched = monitor().watch(event.fd.get(), EPOLLIN, [&, kept = std::make_shared<int>(7)](std::uint32_t) {
    captured = kept;
    watch.reset();
    EXPECT_EQ(*kept, 7) << "the callback lives until it returns";
    ++calls;
  });
  ASSERT_TRUE(watched.has_value());
  monitor().call([&] { *watch = std::move(*watched); });
  event.raise();
  EXPECT_TRUE(eventually([&] { return calls == 1; }));
  EXPECT_TRUE(eventually([&] { return captured.expired(); }));
  let_things_happen();
  EXPECT_EQ(calls, 1);
}

TEST(Monitor, EndingAWatchWaitsForItsCallback) {
  const Event event;
  std::atomic<bool> entered{false};
  std::atomic<bool> left{false};
  auto watch = monitor().watch(event.fd.get(), EPOLLIN, [&](std::uint32_t) {
    entered = true;
    std::this_thread::sleep_for(milliseconds(50));
    left = true;
  });
  ASSERT_TRUE(watch.has_value());
  event.raise();
  ASSERT_TRUE(eventually([&] { return entered.load(); }));
  watch->reset();
  EXPECT_TRUE(left);
  EXPECT_FALSE(static_cast<bool>(*watch));
  watch->reset();
  watch->set_events(EPOLLIN);
}

TEST(Monitor, TimersComeInOrderAndNotEarly) {
  std::mutex mutex;
  std::vector<int> order;
  std::atomic<bool> early{false};
  const std::int64_t start = base::monotonic_ns();
  const auto timer = [&](int delay) {
    return monitor().after(milliseconds(delay), [&, delay] {
      if (base::monotonic_ns() < start + delay * 1'000'000) early = true;
      const std::lock_guard lock(mutex);
      order.push_back(delay);
    });
  };
  const Watch timers[] = {timer(60), timer(20), timer(40), timer(0)};
  EXPECT_TRUE(eventually([&] {
    const std::lock_guard lock(mutex);
    return order.size() == 4;
  }));
  EXPECT_EQ(order, (std::vector<int>{0, 20, 40, 60}));
  EXPECT_FALSE(early);
}

TEST(Monitor, AnEndedTimerDoesNotCome) {
  std::atomic<int> calls{0};
  Watch cancelled = monitor().after(milliseconds(20), [&] { ++calls; });
  const Watch never = monitor().after(std::chrono::nanoseconds::max(), [&] { ++calls; });
  cancelled.reset();
  let_things_happen();
  EXPECT_EQ(calls, 0);
}

TEST(Monitor, APeriodicTimerComesUntilItEnds) {
  std::atomic<int> calls{0};
  Watch timer;
  monitor().call([&] {
    timer = monitor().every(milliseconds(2), [&] {
      if (++calls == 5) timer.reset();
    });
  });
  EXPECT_TRUE(eventually([&] { return calls == 5; }));
  let_things_happen();
  EXPECT_EQ(calls, 5);
}

TEST(Monitor, TasksRunInOrder) {
  std::vector<int> order;
  for (int i = 0; i < 100; ++i) monitor().post([&, i] { order.push_back(i); });
  monitor().call([&] { monitor().call([&] { order.push_back(100); }); });
  ASSERT_EQ(order.size(), 101u);
  for (int i = 0; i <= 100; ++i) EXPECT_EQ(order[static_cast<std::size_t>(i)], i);
}

TEST(Monitor, ItsThreadHasANameAndTakesNoSignals) {
  std::string blocked;
  monitor().call([&] {
    std::ifstream status("/proc/self/task/" + std::to_string(gettid()) + "/status");
    for (std::string line; std::getline(status, line);) {
      if (line.starts_with("Name:")) {
        EXPECT_EQ(line, "Name:\tframelane-mon");
      }
      if (line.starts_with("SigBlk:")) blocked = line.substr(8);
    }
  });
  ASSERT_FALSE(blocked.empty());
  const std::uint64_t mask = std::stoull(blocked, nullptr, 16);
  for (const int signal : {SIGINT, SIGTERM, SIGCHLD, SIGUSR1, SIGALRM, SIGPROF}) {
    EXPECT_NE(mask >> (signal - 1) & 1, 0u) << signal;
  }
}

TEST(Monitor, AForkedChildHasItsOwn) {
#if defined(FRAMELANE_TSAN)
  GTEST_SKIP() << "TSan can't start a thread after a fork";
#endif
  const Event event;
  std::atomic<int> calls{0};
  auto watch = monitor().watch(event.fd.get(), EPOLLIN, [&](std::uint32_t) {
    event.clear();
    ++calls;
  });
  ASSERT_TRUE(watch.has_value());
  const Monitor* const parents = &monitor();
  Child child([&] {
    watch->set_events(0);  // must not reach the parent's epoll set, which the child shares
    watch->reset();
    const auto own = Monitor::instance();
    if (!own || *own == parents || (*own)->on_this_thread()) return 1;
    std::atomic<bool> came{false};
    const Watch timer = (*own)->after(milliseconds(1), [&] { came = true; });
    return eventually([&] { return came.load(); }) ? 0 : 2;
  });
  EXPECT_EQ(child.wait(), 0);
  event.raise();
  EXPECT_TRUE(eventually([&] { return calls == 1; }));
}

}  // namespace
}  // namespace framelane::transport
