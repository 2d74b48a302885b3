// SPDX-License-Identifier: MIT
// Producers and consumers for the tests of `framelane ls` and `top`.
//   lane_peer produce FPS CAPS NAME...   publishes 1000-byte frames on all these lanes; prints "ready"
//   lane_peer pad CAPS LAYOUT NAME       publishes frames of 16 bytes, 0 to 15, of such a layout; prints "ready"
//   lane_peer consume NAME               takes every frame; prints "ready" at the first
//   lane_peer lie PATH                   a socket that answers whatever it is asked with rubbish; prints "ready"
// Each ends when standard input is closed, at the latest after two minutes.
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "framelane/lane/consumer.hpp"
#include "framelane/lane/producer.hpp"

namespace {

using namespace framelane;
using namespace std::chrono_literals;

constexpr unsigned kWatchdogSeconds = 120;

/// Waits for `time`; true when standard input was closed.
bool is_over(std::chrono::nanoseconds time) {
  pollfd input{STDIN_FILENO, POLLIN, 0};
  return poll(&input, 1, static_cast<int>(time / 1ms)) == 1;
}

int ready() {
  std::puts("ready");
  std::fflush(stdout);
  return 0;
}

int failed(const Error& error) {
  std::fprintf(stderr, "lane_peer: %s\n", error.text.c_str());
  return 1;
}

int produce(double fps, const std::string& caps, const std::vector<std::string>& names) {
  std::vector<Producer> producers;
  for (const std::string& name : names) {
    ProducerSettings settings;
    settings.lane = name;
    settings.max_consumers = 4;
    auto producer = Producer::open(settings);
    if (!producer) return failed(producer.error());
    if (auto set = producer->set_caps(caps); !set) return failed(set.error());
    producers.push_back(std::move(*producer));
  }
  const std::vector<std::byte> frame(1000);
  for (bool first = true;; first = false) {
    for (Producer& producer : producers) {
      if (auto sent = producer.publish_copy(frame); !sent) return failed(sent.error());
    }
    if (first) ready();
    if (is_over(std::chrono::nanoseconds(static_cast<std::int64_t>(1e9 / fps)))) return 0;
  }
}

int pad(const std::string& caps, const std::string& layout, const std::string& name) {
  ProducerSettings settings;
  settings.lane = name;
  auto producer = Producer::open(settings);
  if (!producer) return failed(producer.error());
  format::Event event;
  event.type = format::EventType::kState;
  event.text = layout;
  if (auto set = producer->set_caps(caps); !set) return failed(set.error());
  if (auto sent = producer->send(event); !sent) return failed(sent.error());
  std::array<std::byte, 16> frame{};
  for (std::size_t i = 0; i < frame.size(); ++i) frame[i] = static_cast<std::byte>(i);
  ready();
  while (!is_over(5ms)) {
    if (auto sent = producer->publish_copy(frame); !sent) return failed(sent.error());
  }
  return 0;
}

int consume(const std::string& name) {
  ConsumerSettings settings;
  settings.lane = name;
  auto consumer = Consumer::open(settings);
  if (!consumer) return failed(consumer.error());
  for (bool first = true; !is_over(0ns);) {
    const auto taken = consumer->take(100ms);
    if (taken && std::exchange(first, false)) ready();
    if (!taken && taken.error().code != Code::kTimeout) return failed(taken.error());
  }
  return 0;
}

int lie(const std::string& path) {
  const int listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::strncpy(address.sun_path, path.c_str(), sizeof address.sun_path - 1);
  if (bind(listener, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 || listen(listener, 8) != 0)
    return 1;
  ready();
  for (;;) {
    pollfd wanted[] = {{STDIN_FILENO, POLLIN, 0}, {listener, POLLIN, 0}};
    if (poll(wanted, 2, -1) < 0 || wanted[0].revents != 0) return 0;
    const int fd = accept(listener, nullptr, nullptr);
    const char rubbish[] = "\x1b[2J\x1b]0;owned\x07 this is no answer, but long enough";
    static_cast<void>(send(fd, rubbish, sizeof rubbish, MSG_NOSIGNAL));
    // Left open: the other side has to see for itself that this is no lane.
  }
}

}  // namespace

int main(int argc, char** argv) {
  alarm(kWatchdogSeconds);
  const std::vector<std::string> words(argv + 1, argv + argc);
  if (words.size() >= 4 && words[0] == "produce")
    return produce(std::atof(words[1].c_str()), words[2], {words.begin() + 3, words.end()});
  if (words.size() == 4 && words[0] == "pad") return pad(words[1], words[2], words[3]);
  if (words.size() == 2 && words[0] == "consume") return consume(words[1]);
  if (words.size() == 2 && words[0] == "lie") return lie(words[1]);
  return 2;
}
