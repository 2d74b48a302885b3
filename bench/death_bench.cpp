// SPDX-License-Identifier: MIT
// From the death of a consumer that holds frames until its producer has all slots back.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "framelane/lane/consumer.hpp"
#include "framelane/lane/producer.hpp"

namespace framelane {
namespace {

using Clock = std::chrono::steady_clock;
using namespace std::chrono_literals;

constexpr auto kPatience = 20s;
constexpr std::uint32_t kHeld = 4;

[[noreturn]] void give_up(const std::string& words) {
  std::fprintf(stderr, "death_bench: %s\n", words.c_str());
  std::exit(1);
}

/// Takes kHeld frames, keeps them, says so, and waits for its death.
int be_victim(const char* lane) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  auto consumer = Consumer::open({.lane = lane, .max_held = kHeld, .transport = Transport::kShm});
  if (!consumer) give_up(consumer.error().text);
  std::vector<Frame> kept;
  while (kept.size() < kHeld) {
    auto frame = consumer->take(kPatience);
    if (!frame) give_up(frame.error().text);
    kept.push_back(std::move(*frame));
  }
  if (write(STDOUT_FILENO, "h", 1) != 1) return 1;
  for (;;) pause();
}

struct Victim {
  pid_t pid = -1;
  int says = -1;
};

Victim start_victim(const std::string& lane) {
  int ends[2];
  if (pipe(ends) != 0) give_up("no pipe");
  const pid_t pid = fork();
  if (pid == 0) {
    dup2(ends[1], STDOUT_FILENO);
    execl("/proc/self/exe", "death_bench", "--victim", lane.c_str(), nullptr);
    _exit(127);
  }
  close(ends[1]);
  return {pid, ends[0]};
}

void publish(Producer& producer, std::size_t size) {
  auto loan = producer.loan(size);
  if (!loan) give_up(loan.error().text);
  std::memset(loan->data(), 1, size);
  if (const auto sent = producer.publish(std::move(*loan), size); !sent) give_up(sent.error().text);
}

bool has_all_slots(Producer& producer) {
  std::vector<std::uint16_t> none;
  producer.reclaimed(none);
  const ProducerStats stats = producer.stats();
  return stats.free_slots == stats.slots - 1;  // the newest frame stays
}

/// Nanoseconds from the kill.
std::int64_t measure_one(Producer& producer, const std::string& lane, std::size_t size) {
  const Victim victim = start_victim(lane);
  if (!producer.wait_for_consumers(1, kPatience)) give_up("no consumer came");
  for (std::uint32_t i = 0; i < kHeld; ++i) publish(producer, size);
  pollfd holds{victim.says, POLLIN, 0};
  if (poll(&holds, 1, 20'000) != 1) give_up("the consumer took nothing");
  publish(producer, size);  // so that the newest is none of those
  if (has_all_slots(producer)) give_up("the consumer holds nothing");
  const auto start = Clock::now();
  kill(victim.pid, SIGKILL);
  while (!has_all_slots(producer)) {
    if (Clock::now() - start > kPatience) give_up("the slots of the dead didn't come back in 20 s");
    std::this_thread::yield();
  }
  const auto took = Clock::now() - start;
  waitpid(victim.pid, nullptr, 0);
  close(victim.says);
  return std::chrono::nanoseconds(took).count();
}

int measure_all(int kills, std::size_t size) {
  const std::string lane = "death-bench-" + std::to_string(getpid());
  auto producer = Producer::open({.lane = lane, .full_timeout = kPatience, .transport = Transport::kShm});
  if (!producer) give_up(producer.error().text);
  std::vector<std::int64_t> times;
  for (int i = 0; i < kills; ++i) times.push_back(measure_one(*producer, lane, size));
  std::sort(times.begin(), times.end());
  const auto rank = [&](double share) {
    const auto place = static_cast<std::size_t>(share * static_cast<double>(times.size()));
    return static_cast<double>(times[std::min(place, times.size() - 1)]) / 1e6;
  };
  std::printf(
      "%d kills of a consumer that held %u frames of %zu bytes; all slots were back after, in ms:\n"
      "p50 %.3f  p99 %.3f  max %.3f\n",
      kills, kHeld, size, rank(0.50), rank(0.99), rank(1.0));
  return 0;
}

}  // namespace
}  // namespace framelane

int main(int argc, char** argv) {
  if (argc == 3 && std::strcmp(argv[1], "--victim") == 0) return framelane::be_victim(argv[2]);
  const int kills = argc > 1 ? std::atoi(argv[1]) : 500;
  const long size = argc > 2 ? std::atol(argv[2]) : 1 << 20;
  if (argc <= 3 && kills > 0 && size > 32) return framelane::measure_all(kills, static_cast<std::size_t>(size));
  std::fputs("death_bench [KILLS [BYTES]]    frames of more than 32 bytes, which lie in slots\n", stderr);
  return 2;
}
