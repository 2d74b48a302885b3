// SPDX-License-Identifier: MIT
#pragma once

#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <numeric>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "framelane/lane/consumer.hpp"
#include "framelane/lane/producer.hpp"

// What the tests of this room share: a directory for lanes, frames whose bytes say which frame they are, and short ways
// to open both ends.
namespace framelane::lane_test {

using namespace std::chrono_literals;
using Bytes = std::vector<std::byte>;

/// Long enough for a slow machine; a test that waits this long has failed.
inline constexpr std::chrono::nanoseconds kPatience = 20s;

/// The transport that is tested: what $FRAMELANE_TEST_TRANSPORT says ("shm", "uds" or "tcp"; else shm).
[[nodiscard]] inline Transport tested_transport() {
  const char* const told = std::getenv("FRAMELANE_TEST_TRANSPORT");
  const std::string name = told != nullptr ? told : "shm";
  return name == "tcp" ? Transport::kTcp : name == "uds" ? Transport::kUds : Transport::kShm;
}

/// Frames are then copied through a socket: the consumer's are its own memory, and some wait where nobody counts them.
[[nodiscard]] inline bool is_stream() { return tested_transport() != Transport::kShm; }

/// An own directory for lanes, named by $FRAMELANE_DIR while it lives.
class LaneDirectory {
 public:
  LaneDirectory() {
    char path[] = "/tmp/framelane-test-XXXXXX";
    if (mkdtemp(path) == nullptr) std::abort();
    path_ = path;
    setenv("FRAMELANE_DIR", path, 1);
  }
  ~LaneDirectory() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  LaneDirectory(const LaneDirectory&) = delete;
  LaneDirectory& operator=(const LaneDirectory&) = delete;
  [[nodiscard]] const std::string& path() const noexcept { return path_; }

 private:
  std::string path_;
};

/// A free port of loopback for the lane, the same in every process that has the directory.
[[nodiscard]] inline std::string port_of(const std::string& lane) {
  const std::string path = std::string(std::getenv("FRAMELANE_DIR")) + "/" + lane + ".port";
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  if (fd < 0 || bind(fd, reinterpret_cast<sockaddr*>(&address), size) != 0 ||
      getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) != 0)
    throw std::runtime_error("no free port");
  ::close(fd);
  const std::string port = std::to_string(ntohs(address.sin_port));
  const std::string own = path + "." + std::to_string(getpid());
  std::ofstream(own) << port;
  static_cast<void>(link(own.c_str(), path.c_str()));  // whoever is first
  unlink(own.c_str());
  std::string agreed;
  std::ifstream(path) >> agreed;
  return agreed;
}

/// The descriptor of a lane over the tested transport.
[[nodiscard]] inline std::string address_of(const std::string& lane) {
  if (tested_transport() != Transport::kTcp || lane.find(':') != std::string::npos) return lane;
  return "lane.tcp://127.0.0.1:" + port_of(lane) + "/" + lane;
}

/// What the producer of a lane says of it.
[[nodiscard]] inline std::string served_as(const std::string& lane) {
  if (tested_transport() == Transport::kTcp) return address_of(lane);
  return "lane." + std::string(to_string(tested_transport())) + "://" + std::getenv("FRAMELANE_DIR") + "/" + lane;
}

/// Fills a payload so that any byte of another frame in it would show.
inline void fill(std::span<std::byte> bytes, std::uint64_t frame) {
  std::uint64_t state = (frame + 1) * 0x9e3779b97f4a7c15u;
  std::size_t i = 0;
  for (; i + 8 <= bytes.size(); i += 8) {
    state += 0x9e3779b97f4a7c15u;
    const std::uint64_t word = (state ^ (state >> 29)) * 0xbf58476d1ce4e5b9u;
    std::memcpy(bytes.data() + i, &word, 8);
  }
  for (; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(state >> (8 * (i % 8)) ^ frame);
}

[[nodiscard]] inline Bytes payload(std::size_t size, std::uint64_t frame) {
  Bytes bytes(size);
  fill(bytes, frame);
  return bytes;
}

[[nodiscard]] inline bool is_frame(std::span<const std::byte> bytes, std::uint64_t frame) {
  const Bytes expected = payload(bytes.size(), frame);
  return std::equal(bytes.begin(), bytes.end(), expected.begin());
}

template <class T>
[[nodiscard]] ::testing::AssertionResult ok(const Result<T>& result) {
  if (result) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure() << to_string(result.error().code) << ": " << result.error().text;
}

template <class T>
[[nodiscard]] ::testing::AssertionResult fails_with(const Result<T>& result, Code code, std::string_view words = {}) {
  if (result) return ::testing::AssertionFailure() << "no error, but " << to_string(code) << " was expected";
  if (result.error().code == code && result.error().text.find(words) != std::string::npos)
    return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure() << to_string(result.error().code) << ": \"" << result.error().text
                                       << "\" instead of " << to_string(code) << " with \"" << words << '"';
}

[[nodiscard]] inline Producer produce(ProducerSettings settings = {}) {
  settings.lane = address_of(settings.lane.empty() ? "lane" : settings.lane);
  if (settings.transport == Transport::kAuto) settings.transport = tested_transport();
  auto producer = Producer::open(std::move(settings));
  if (!producer) throw std::runtime_error(producer.error().text);
  return std::move(*producer);
}

[[nodiscard]] inline Consumer consume(ConsumerSettings settings = {}) {
  settings.lane = address_of(settings.lane.empty() ? "lane" : settings.lane);
  if (settings.transport == Transport::kAuto) settings.transport = tested_transport();
  auto consumer = Consumer::open(std::move(settings));
  if (!consumer) throw std::runtime_error(consumer.error().text);
  return std::move(*consumer);
}

/// A consumer that is connected, and counted by its producer.
[[nodiscard]] inline Consumer join(ConsumerSettings settings = {}) {
  Consumer consumer = consume(std::move(settings));
  if (auto connected = consumer.connect(kPatience); !connected) throw std::runtime_error(connected.error().text);
  return consumer;
}

[[nodiscard]] inline Result<Published> publish(Producer& producer, std::uint64_t frame, std::size_t size = 100,
                                               const format::FrameInfo& info = {}) {
  auto loan = producer.loan(size);
  if (!loan) return tl::unexpected(loan.error());
  fill(loan->bytes().first(size), frame);
  return producer.publish(std::move(*loan), size, info);
}

/// Publishes frames first .. first + count - 1, all of which must be sent.
inline void publish_frames(Producer& producer, std::uint64_t first, std::uint64_t count, std::size_t size = 100) {
  for (std::uint64_t frame = first; frame < first + count; ++frame) {
    const auto sent = publish(producer, frame, size);
    ASSERT_TRUE(ok(sent)) << "frame " << frame;
    ASSERT_EQ(*sent, Published::kSent) << "frame " << frame;
  }
}

/// Takes frames first .. first + count - 1, each with its bytes.
inline void take_frames(Consumer& consumer, std::uint64_t first, std::uint64_t count) {
  for (std::uint64_t frame = first; frame < first + count; ++frame) {
    const auto taken = consumer.take(kPatience);
    ASSERT_TRUE(ok(taken)) << "frame " << frame;
    ASSERT_EQ(taken->seq(), frame);
    ASSERT_TRUE(is_frame(taken->bytes(), frame)) << "frame " << frame;
  }
}

/// The next items, a letter each: "<" and ">" are a flush's start and stop, a frame is its number.
[[nodiscard]] inline std::string next_items(Consumer& consumer, int count) {
  std::string got;
  for (int i = 0; i < count; ++i) {
    auto item = consumer.take_item(kPatience);
    if (!item) return got + "!" + item.error().text;
    if (const auto* const frame = std::get_if<Frame>(&*item)) {
      got += std::to_string(frame->seq());
    } else {
      got += "?sCgtGcES<>"[static_cast<int>(std::get<format::Event>(*item).type)];
    }
  }
  return got;
}

/// The next item where an end was taken: of the stream that begins after it. (Over a socket it is on its way; in shared
/// memory it is there.)
[[nodiscard]] inline Result<Item> after_the_end(Consumer& consumer) {
  const auto until = std::chrono::steady_clock::now() + (is_stream() ? kPatience : 0ns);
  while (true) {
    auto item = consumer.take_item(kPatience);
    if (item || item.error().code != Code::kEndOfStream || std::chrono::steady_clock::now() >= until) return item;
    std::this_thread::sleep_for(1ms);
  }
}

/// Waits until something that another thread or process does is done. Returns false after kPatience.
[[nodiscard]] inline bool eventually(const std::function<bool()>& done) {
  const auto until = std::chrono::steady_clock::now() + kPatience;
  while (!done()) {
    if (std::chrono::steady_clock::now() >= until) return false;
    std::this_thread::sleep_for(1ms);
  }
  return true;
}

[[nodiscard]] inline format::Event event(format::EventType type, std::string text = {}, std::uint32_t number = 0) {
  format::Event made;
  made.type = type;
  made.text = std::move(text);
  made.number = number;
  return made;
}

class LaneTest : public ::testing::Test {
 protected:
  LaneDirectory directory_;
};

}  // namespace framelane::lane_test
