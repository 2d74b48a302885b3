// SPDX-License-Identifier: MIT
// No allocation and no system call from a call to its answer, while both sides are awake. Counted.
#include <atomic>
#include <thread>

#include "frame_path_counters.hpp"
#include "pairs.hpp"
#include "sanitizers.hpp"

namespace framelane::lane_test {
namespace {

constexpr int kWarmUp = 200;  // segments come, lazily bound symbols are looked up
constexpr int kRounds = 3'000;

class RpcFramePath : public LaneTest, public ::testing::WithParamInterface<std::size_t> {
 protected:
  static void call(Client& client, std::span<const std::byte> request, int rounds) {
    for (int i = 0; i < rounds; ++i) {
      const auto response = client.call(request, kPatience);
      if (!response || response->size() != request.size()) std::abort();
    }
  }
  /// Three at a time.
  static void start(Client& client, std::span<const std::byte> request, int rounds) {
    for (int i = 0; i < rounds; i += 3) {
      Call calls[3];
      for (Call& call : calls) call = client.start(request, kPatience).value();
      for (Call& call : calls) {
        if (!call.wait()) std::abort();
      }
    }
  }
  static void answer_all(Server& server, int rounds) {
    for (int i = 0; i < rounds; ++i) {
      auto request = server.next(kPatience);
      if (!request || request->cancelled() || !request->respond(request->bytes())) std::abort();
    }
  }
};

TEST_P(RpcFramePath, MakesNoAllocationAndNoSystemCall) {
  if (kSanitized) GTEST_SKIP() << "a sanitizer allocates and calls the system by itself";
  constexpr int kInThrees = 900;
  auto asked = pair_settings<ClientSettings>();
  asked.spin = Spin::kBusy;
  auto served = pair_settings<ServerSettings>();
  served.spin = Spin::kBusy;
  Client client = ask(asked);
  Server server = answer(served);
  const Bytes request = payload(GetParam(), 1);
  std::atomic<int> ready{0};
  std::atomic<int> trapping{0};
  std::uint64_t calls[2] = {};
  long last[2] = {};
  std::uint64_t allocations = 0;
  const auto both_are_ready = [&] {
    ++ready;
    while (ready != 2) {
    }
  };
  std::thread answering([&] {
    answer_all(server, kWarmUp + kWarmUp / 10 * 3);
    if (support::trap_system_calls()) ++trapping;
    both_are_ready();
    answer_all(server, kRounds + kInThrees);
    calls[0] = support::trapped_calls();
    last[0] = support::last_trapped_call();
  });
  std::thread asking([&] {
    call(client, request, kWarmUp);
    start(client, request, kWarmUp / 10 * 3);
    if (support::trap_system_calls()) ++trapping;
    both_are_ready();
    const std::uint64_t before = support::allocations();
    call(client, request, kRounds);
    start(client, request, kInThrees);
    allocations = support::allocations() - before;
    calls[1] = support::trapped_calls();
    last[1] = support::last_trapped_call();
  });
  answering.join();
  asking.join();
  ASSERT_GT(support::allocations(), 0u) << "nothing is counted";
  EXPECT_EQ(allocations, 0u);
#if defined(__x86_64__)
  ASSERT_EQ(trapping, 2);
#endif
  EXPECT_EQ(calls[0], 0u) << "of the server, the last one number " << last[0];
  EXPECT_EQ(calls[1], 0u) << "of the client, the last one number " << last[1];
}

INSTANTIATE_TEST_SUITE_P(Sizes, RpcFramePath, ::testing::Values(8, 1000, 100'000),
                         [](const auto& instance) { return "bytes_" + std::to_string(instance.param); });

}  // namespace
}  // namespace framelane::lane_test
