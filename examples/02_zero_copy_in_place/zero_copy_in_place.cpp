// SPDX-License-Identifier: MIT
// A consumer reads frames where the producer wrote them, keeps two of them, and gives them back last: slots come back
// in any order, and a kept frame holds up nobody. Both ends are in one process here, so that one program shows both.
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "framelane/lane/consumer.hpp"
#include "framelane/lane/producer.hpp"

namespace {

constexpr std::size_t kFrameBytes = 640 * 480;  // GRAY8
constexpr std::uint64_t kFrames = 1000;

// The first error ends the program: it is an example.
template <class T>
T must(framelane::Result<T> result) {
  if (!result) {
    std::fprintf(stderr, "zero_copy_in_place: %s\n", result.error().text.c_str());
    std::exit(1);
  }
  if constexpr (!std::is_void_v<T>) return std::move(*result);
}

void produce(framelane::Producer& producer) {
  must(producer.wait_for_consumers(1, std::chrono::seconds(10)));
  must(producer.set_caps("video/x-raw, format=GRAY8, width=640, height=480, framerate=0/1"));
  for (std::uint64_t i = 0; i < kFrames; ++i) {
    auto loan = must(producer.loan(kFrameBytes));
    std::memset(loan.data(), static_cast<int>(i % 251), kFrameBytes);  // drawn in the slot: nothing is copied later
    must(producer.publish(loan, kFrameBytes));
  }
  must(producer.end_of_stream());
}

bool holds(const framelane::Frame& frame, std::uint64_t seq) {
  const auto bytes = frame.bytes();
  const auto value = static_cast<std::byte>(seq % 251);
  return frame.seq() == seq && bytes.size() == kFrameBytes && bytes.front() == value && bytes.back() == value;
}

}  // namespace

int main(int argc, char** argv) {
  framelane::ProducerSettings settings;
  settings.lane = argc > 1 ? argv[1] : "in_place";
  auto producer = must(framelane::Producer::open(settings));
  std::thread producing(produce, std::ref(producer));

  framelane::ConsumerSettings wish;
  wish.lane = settings.lane;
  auto consumer = must(framelane::Consumer::open(wish));
  std::vector<framelane::Frame> kept;
  std::uint64_t taken = 0, wrong = 0;
  while (true) {
    auto frame = consumer.take(std::chrono::seconds(10));
    if (!frame && frame.error().code == framelane::Code::kEndOfStream) break;
    auto lent = must(std::move(frame));
    if (!holds(lent, taken) || lent.is_copy()) ++wrong;
    if (lent.seq() == 3 || lent.seq() == 7) kept.push_back(std::move(lent));
    ++taken;
  }
  for (const auto& frame : kept) {
    std::printf("frame %llu still lies untouched in slot %d\n", static_cast<unsigned long long>(frame.seq()),
                frame.slot());
    if (!holds(frame, frame.seq())) ++wrong;
  }
  producing.join();
  std::printf("%llu frames taken in place, %llu wrong\n", static_cast<unsigned long long>(taken),
              static_cast<unsigned long long>(wrong));
  return taken == kFrames && wrong == 0 && kept.size() == 2 ? 0 : 1;
}
