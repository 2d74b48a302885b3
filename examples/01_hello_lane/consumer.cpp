// SPDX-License-Identifier: MIT
// Prints every frame of a lane until its end. May be started before its producer.    hello_consumer [LANE]
#include "framelane/lane/consumer.hpp"

#include <cstdio>
#include <string>

int main(int argc, char** argv) {
  framelane::ConsumerSettings settings;
  settings.lane = argc > 1 ? argv[1] : "hello";
  auto consumer = framelane::Consumer::open(settings);
  if (!consumer) {
    std::fprintf(stderr, "hello_consumer: %s\n", consumer.error().text.c_str());
    return 1;
  }
  while (true) {
    auto frame = consumer->take();
    if (!frame && frame.error().code == framelane::Code::kEndOfStream) break;
    if (!frame) {
      std::fprintf(stderr, "hello_consumer: %s\n", frame.error().text.c_str());
      return 1;
    }
    std::printf("%llu at %llu ms: %.*s\n", static_cast<unsigned long long>(frame->seq()),
                static_cast<unsigned long long>(frame->pts() / 1'000'000), static_cast<int>(frame->size()),
                reinterpret_cast<const char*>(frame->data()));
  }  // the Frame goes out of scope here, and its slot goes back to the producer
  std::printf("end of %s\n", consumer->caps().c_str());
  return 0;
}
