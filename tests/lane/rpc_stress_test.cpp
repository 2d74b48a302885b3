// SPDX-License-Identifier: MIT
// Four threads call through one Client, in all ways, while servers come and go.
#include <atomic>
#include <cstdlib>
#include <random>
#include <thread>

#include "pairs.hpp"

namespace framelane::lane_test {
namespace {

std::chrono::milliseconds duration() {
  const char* const seconds = std::getenv("FRAMELANE_STRESS_SECONDS");
  return std::chrono::milliseconds(seconds != nullptr ? static_cast<int>(std::atof(seconds) * 1000) : 3000);
}

struct Totals {
  std::atomic<std::uint64_t> answers{0}, errors{0}, timeouts{0}, lost{0}, cancelled{0}, interrupted{0}, full{0};

  /// Every way in which a call may fail here; anything else fails the test.
  void count(const Error& error) {
    switch (error.code) {
      case Code::kTimeout:
        ++timeouts;
        break;
      case Code::kPeerLost:
        ++lost;
        break;
      case Code::kInterrupted:
        ++interrupted;
        break;
      case Code::kFull:
        ++full;
        break;
      case Code::kRefused:
        ++errors;
        break;
      default:
        ADD_FAILURE() << to_string(error.code) << ": " << error.text;
    }
  }
};

void check(const Result<Response>& response, std::uint64_t number, Totals& totals) {
  if (!response) return totals.count(response.error());
  ASSERT_TRUE(is_frame(response->bytes(), number)) << "another call's answer";
  ++totals.answers;
}

/// A few calls at once, some of which are given up.
void call_several(Client& client, std::mt19937& random, std::uint64_t& next, Totals& totals) {
  std::vector<std::pair<Call, std::uint64_t>> calls;
  for (std::uint32_t i = 0; i < 1 + random() % 4; ++i) {
    auto call = client.start(payload(random() % 3000, ++next), random() % 4 == 0 ? 300us : kPatience);
    if (!call) {
      totals.count(call.error());
    } else {
      calls.emplace_back(std::move(*call), next);
    }
  }
  for (auto& [call, number] : calls) {
    if (random() % 5 == 0) {
      call.cancel();
      ++totals.cancelled;
      continue;
    }
    auto response = call.wait(random() % 3 == 0 ? 100us : kPatience);
    if (!response && call.pending()) response = call.wait(kPatience);
    check(response, number, totals);
  }
}

void live(Client& client, std::uint32_t seed, const std::atomic<bool>& over, Totals& totals) {
  std::mt19937 random(seed);
  for (std::uint64_t next = std::uint64_t{seed} << 32; !over;) {
    if (random() % 2 == 0) {
      call_several(client, random, next, totals);
    } else {
      const auto response = client.call(payload(random() % 100, ++next), random() % 8 == 0 ? 200us : kPatience);
      check(response, next, totals);
    }
  }
}

/// One server: two threads answer what it takes, a few requests are left without an answer.
void serve_for_a_while(std::mt19937& random, std::atomic<bool>& over) {
  Server server = answer();
  std::mutex mutex;
  std::vector<Request> queue;
  std::atomic<bool> closing{false};
  const auto work = [&] {
    for (bool last = false; !last;) {
      last = closing;
      std::vector<Request> mine;
      {
        const std::lock_guard lock(mutex);
        mine.swap(queue);
      }
      for (Request& request : mine) {
        if (!request.cancelled()) echo(request);
      }
      if (mine.empty()) std::this_thread::sleep_for(50us);
    }
  };
  std::thread workers[] = {std::thread(work), std::thread(work)};
  const auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds(20 + random() % 200);
  while (!over && std::chrono::steady_clock::now() < until) {
    auto request = server.next(10ms);
    if (!request) {
      ASSERT_EQ(request.error().code, Code::kTimeout) << request.error().text;
    } else if (random() % 4 == 0) {
      echo(*request);
    } else if (random() % 50 != 0) {
      const std::lock_guard lock(mutex);
      queue.push_back(std::move(*request));
    }
  }
  closing = true;
  for (std::thread& worker : workers) worker.join();
}

TEST(RpcStress, FourCallersAndServersThatComeAndGo) {
  const LaneDirectory directory;
  Totals totals;
  std::atomic<bool> over{false};
  Client client = ask();
  std::vector<std::thread> callers;
  for (std::uint32_t seed = 1; seed <= 4; ++seed) callers.emplace_back([&, seed] { live(client, seed, over, totals); });
  std::atomic<bool> servers_over{false};
  std::uint64_t servers = 0;
  std::thread serving([&] {
    for (std::mt19937 random(5); !servers_over; ++servers) serve_for_a_while(random, servers_over);
  });
  std::mt19937 random(6);
  const auto until = std::chrono::steady_clock::now() + duration();
  while (std::chrono::steady_clock::now() < until) {
    std::this_thread::sleep_for(std::chrono::milliseconds(random() % 50));
    client.interrupt();
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 500));
    client.resume();
  }
  over = true;
  for (std::thread& caller : callers) caller.join();
  servers_over = true;
  serving.join();
  EXPECT_GT(totals.answers, 0u);
  EXPECT_GT(totals.cancelled, 0u);
  EXPECT_GT(servers, 0u);
  std::printf(
      "%llu answers, %llu error answers, %llu timeouts, %llu lost, %llu cancelled, %llu interrupted, %llu full, "
      "%llu servers\n",
      static_cast<unsigned long long>(totals.answers), static_cast<unsigned long long>(totals.errors),
      static_cast<unsigned long long>(totals.timeouts), static_cast<unsigned long long>(totals.lost),
      static_cast<unsigned long long>(totals.cancelled), static_cast<unsigned long long>(totals.interrupted),
      static_cast<unsigned long long>(totals.full), static_cast<unsigned long long>(servers));
}

}  // namespace
}  // namespace framelane::lane_test
