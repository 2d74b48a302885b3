// SPDX-License-Identifier: MIT
// No allocation and no system call on a frame's way, from loan to release, while both sides are awake. Counted.
#include <array>
#include <atomic>
#include <thread>

#include <sys/syscall.h>
#include <unistd.h>

#include "frame_path_counters.hpp"
#include "lanes.hpp"
#include "sanitizers.hpp"

namespace framelane::lane_test {
namespace {

constexpr std::uint64_t kWarmUp = 200;  // segments come, lazily bound symbols are looked up
constexpr std::uint64_t kRounds = 10'000;

struct Case {
  const char* name;
  std::size_t size;
  std::uint32_t type_id;
  Mode mode;
  std::uint32_t kept;  // frames that the consumer holds all the time
  std::size_t side_data = 0;
};

std::ostream& operator<<(std::ostream& out, const Case& frame) { return out << frame.name; }

class FramePath : public LaneTest, public ::testing::WithParamInterface<Case> {
 protected:
  /// Publishes a frame, waits until it was taken; `rounds` times.
  static void publish_rounds(Producer& producer, std::uint64_t first, std::uint64_t rounds,
                             const std::atomic<std::uint64_t>& taken) {
    const Case& frame = GetParam();
    format::FrameInfo info;
    info.type_id = frame.type_id;
    static constexpr std::array<std::byte, 960> kSide{};
    const auto side = std::span(kSide).first(frame.side_data);
    for (std::uint64_t round = first; round < first + rounds; ++round) {
      auto loan = producer.loan(frame.size);
      if (!loan) std::abort();
      loan->data()[0] = static_cast<std::byte>(round);
      if (producer.publish(std::move(*loan), frame.size, info, Wake::kNow, side) != Published::kSent) std::abort();
      while (taken.load(std::memory_order_acquire) != round + 1) {
      }
    }
  }

  /// Takes frames and holds the last `kept` of them.
  static void take_rounds(Consumer& consumer, std::vector<Frame>& held, std::uint64_t first, std::uint64_t rounds,
                          std::atomic<std::uint64_t>& taken) {
    for (std::uint64_t round = first; round < first + rounds; ++round) {
      auto frame = consumer.take();
      if (!frame || frame->data()[0] != static_cast<std::byte>(round)) std::abort();
      if (frame->side_data().size() != GetParam().side_data) std::abort();
      if (!held.empty()) held[round % held.size()] = std::move(*frame);
      frame->release();
      taken.store(round + 1, std::memory_order_release);
    }
  }
};

TEST_P(FramePath, MakesNoAllocationAndNoSystemCall) {
  if (kSanitized) GTEST_SKIP() << "a sanitizer allocates and calls the system by itself";
  ProducerSettings settings;
  settings.spin = Spin::kBusy;
  settings.max_held = 8;
  Producer producer = produce(settings);
  ConsumerSettings wanted;
  wanted.spin = Spin::kBusy;
  wanted.max_held = 8;
  wanted.mode = GetParam().mode;
  Consumer consumer = join(wanted);
  ASSERT_TRUE(ok(producer.set_caps("caps")));
  std::atomic<std::uint64_t> taken{0};
  std::atomic<int> ready{0};
  std::atomic<int> trapping{0};
  std::uint64_t calls[2] = {};
  long last[2] = {};
  std::uint64_t allocations = 0;
  const auto both = [&](std::atomic<int>& count) {
    ++count;
    while (count != 2) {
    }
  };
  std::thread taker([&] {
    std::vector<Frame> held(GetParam().kept);
    take_rounds(consumer, held, 0, kWarmUp, taken);
    if (support::trap_system_calls()) ++trapping;
    both(ready);
    take_rounds(consumer, held, kWarmUp, kRounds, taken);
    calls[0] = support::trapped_calls();
    last[0] = support::last_trapped_call();
  });
  std::thread publisher([&] {
    publish_rounds(producer, 0, kWarmUp, taken);
    if (support::trap_system_calls()) ++trapping;
    both(ready);
    const std::uint64_t before = support::allocations();
    publish_rounds(producer, kWarmUp, kRounds, taken);
    allocations = support::allocations() - before;
    calls[1] = support::trapped_calls();
    last[1] = support::last_trapped_call();
  });
  taker.join();
  publisher.join();
  ASSERT_GT(support::allocations(), 0u) << "nothing is counted";
  EXPECT_EQ(allocations, 0u);
#if defined(__x86_64__)
  ASSERT_EQ(trapping, 2);
#endif
  EXPECT_EQ(calls[0], 0u) << "of the consumer, the last one number " << last[0];
  EXPECT_EQ(calls[1], 0u) << "of the producer, the last one number " << last[1];
  EXPECT_EQ(consumer.stats().taken, kWarmUp + kRounds);
  EXPECT_EQ(consumer.stats().copied, 0u);
}

INSTANTIATE_TEST_SUITE_P(
    Ways, FramePath,
    ::testing::Values(Case{"inline", 32, 0, Mode::kEvery, 0}, Case{"small_with_type_id", 8, 5, Mode::kEvery, 0},
                      Case{"slot", 1000, 0, Mode::kEvery, 0}, Case{"pages", 100'000, 7, Mode::kEvery, 0},
                      Case{"held", 1000, 0, Mode::kEvery, 6}, Case{"latest", 1000, 0, Mode::kLatest, 0},
                      Case{"side_data", 1000, 0, Mode::kEvery, 0, 900},
                      Case{"small_with_side_data", 8, 0, Mode::kEvery, 6, 64}),
    [](const auto& instance) { return std::string(instance.param.name); });

TEST(FramePathCounters, CountWhatTheyShould) {
  if (kSanitized) GTEST_SKIP() << "a sanitizer has its own allocator";
  std::uint64_t calls = 0;
  std::uint64_t allocations = 0;
  pid_t pid = 0;
  bool trapping = false;
  std::thread([&] {
    trapping = support::trap_system_calls();
    for (int i = 0; i < 5; ++i) pid = static_cast<pid_t>(syscall(SYS_getpid));
    calls = support::trapped_calls();
    const std::uint64_t before = support::allocations();
    auto* volatile memory = new int(3);
    delete memory;
    allocations = support::allocations() - before;
  }).join();
  EXPECT_EQ(pid, getpid()) << "trapped calls are made all the same";
  EXPECT_EQ(allocations, 1u);
  EXPECT_EQ(calls, trapping ? 5u : 0u);
}

}  // namespace
}  // namespace framelane::lane_test
