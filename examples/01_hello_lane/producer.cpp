// SPDX-License-Identifier: MIT
// Sends ten lines of text over a lane and ends the stream.    hello_producer [LANE]
#include "framelane/lane/producer.hpp"

#include <chrono>
#include <cstdio>
#include <string>

namespace {

int complain(const framelane::Error& error) {
  std::fprintf(stderr, "hello_producer: %s\n", error.text.c_str());
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  framelane::ProducerSettings settings;
  settings.lane = argc > 1 ? argv[1] : "hello";
  auto producer = framelane::Producer::open(settings);
  if (!producer) return complain(producer.error());

  // A lane waits for nobody by itself. This one wants somebody to hear its first frame.
  auto heard = producer->wait_for_consumers(1, std::chrono::seconds(30));
  if (!heard) return complain(heard.error());
  auto described = producer->set_caps("text/plain");
  if (!described) return complain(described.error());

  for (int i = 0; i < 10; ++i) {
    auto loan = producer->loan(256);  // a slot of shared memory: what is written here is what consumers read
    if (!loan) return complain(loan.error());
    const int size = std::snprintf(reinterpret_cast<char*>(loan->data()), loan->capacity(),
                                   "Hello from frame %d, which lies in shared memory", i);
    framelane::format::FrameInfo info;
    info.pts = static_cast<std::uint64_t>(i) * 100'000'000;  // ns
    auto published = producer->publish(*loan, static_cast<std::size_t>(size), info);
    if (!published) return complain(published.error());
  }
  auto ended = producer->end_of_stream();
  return ended ? 0 : complain(ended.error());
}
