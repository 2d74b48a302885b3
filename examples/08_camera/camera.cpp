// SPDX-License-Identifier: MIT
// A camera without a camera: 30 pictures a second with a moving pattern, until SIGINT.    camera [LANE]
#include "camera.hpp"

#include <atomic>
#include <csignal>
#include <cstdio>
#include <thread>

#include "framelane/lane/producer.hpp"

namespace {

std::atomic<bool> stop_asked{false};
static_assert(std::atomic<bool>::is_always_lock_free);  // a signal handler sets it

extern "C" void ask_to_stop(int) { stop_asked = true; }

int complain(const framelane::Error& error) {
  std::fprintf(stderr, "camera: %s\n", error.text.c_str());
  return 1;
}

std::int64_t now_ns() {
  return std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count();  // CLOCK_MONOTONIC
}

framelane::Result<void> capture(framelane::Producer& producer, std::uint64_t number) {
  auto loan = producer.loan(camera::kFrameBytes);
  if (!loan) return tl::unexpected(loan.error());
  framelane::format::FrameInfo info;
  info.capture_ns = now_ns();
  info.pts = number * static_cast<std::uint64_t>(camera::kInterval.count());
  info.duration = static_cast<std::uint64_t>(camera::kInterval.count());
  info.flags = framelane::format::kLive;
  camera::paint(number, loan->bytes());
  auto published = producer.publish(*loan, camera::kFrameBytes, info);
  if (!published) return tl::unexpected(published.error());
  return {};
}

}  // namespace

int main(int argc, char** argv) {
  std::signal(SIGINT, ask_to_stop);
  std::signal(SIGTERM, ask_to_stop);

  framelane::ProducerSettings settings;
  settings.lane = argc > 1 ? argv[1] : "camera";
  settings.burst_time = std::chrono::milliseconds(500);  // a viewer may pause that long and miss nothing
  settings.leaky = framelane::Leaky::kDownstream;        // after that it does: a camera waits for nobody
  settings.max_loans = 2;
  auto producer = framelane::Producer::open(settings);
  if (!producer) return complain(producer.error());
  if (auto described = producer->set_caps(camera::kCaps); !described) return complain(described.error());

  std::uint64_t number = 0;
  auto due = std::chrono::steady_clock::now();
  for (; !stop_asked; ++number) {
    if (auto captured = capture(*producer, number); !captured) return complain(captured.error());
    due += camera::kInterval;  // absolute, so that the rate doesn't drift
    std::this_thread::sleep_until(due);
  }
  if (auto ended = producer->end_of_stream(); !ended) return complain(ended.error());
  std::printf("%llu pictures\n", static_cast<unsigned long long>(number));
  return 0;
}
