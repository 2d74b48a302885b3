// SPDX-License-Identifier: MIT
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "framelane/base/log.hpp"

#include "base/unique_fd.hpp"
#include "lanes.hpp"
#include "wire/control_message.hpp"

// What the tests of lanes over byte streams share: both transports with addresses of their own, peers that speak the
// protocol by themselves and so can break it, and something between the two ends that cuts the bytes into pieces.
namespace framelane::lane_test {

/// Connected to the producer that serves `descriptor`, which has one stream address. Non-blocking is off: sends and
/// receives wait, for 20 s at most.
[[nodiscard]] base::UniqueFd connect_raw(const std::string& descriptor);
/// All of it, or false.
[[nodiscard]] bool send_raw(int fd, std::span<const std::byte> bytes);
[[nodiscard]] bool send_raw(int fd, const wire::Message& message);
/// Reads until the peer closes, for 20 s at most. False: it didn't close.
[[nodiscard]] bool is_cut_off(int fd);
/// The next message; empty when the peer closes, is silent for 20 s, or sends something else.
[[nodiscard]] std::optional<wire::Message> receive_message(int fd);

[[nodiscard]] wire::Hello stream_hello(const std::string& lane = "lane");

/// Open descriptors and threads of this process.
struct Resources {
  std::size_t fds = 0;
  std::size_t threads = 0;
  friend bool operator==(const Resources&, const Resources&) = default;
};
[[nodiscard]] Resources resources();
/// Waits until the process has no more of them than before.
[[nodiscard]] ::testing::AssertionResult nothing_is_left(const Resources& before);

/// What the library logs meanwhile, one line each.
class LogCapture {
 public:
  LogCapture();
  ~LogCapture();
  LogCapture(const LogCapture&) = delete;
  LogCapture& operator=(const LogCapture&) = delete;
  [[nodiscard]] bool has(const std::string& words) const;
  [[nodiscard]] std::string text() const;

  struct Lines {
    std::mutex mutex;
    std::string text;
  };

 private:
  std::shared_ptr<Lines> lines_;
};

/// A listener where consumers look for a producer.
class Listener {
 public:
  Listener(Transport transport, const std::string& directory);
  /// Where a consumer finds it.
  [[nodiscard]] const std::string& descriptor() const noexcept { return descriptor_; }
  /// The next connection, or nothing when none comes within 20 s or stop() was called.
  [[nodiscard]] base::UniqueFd accept();
  void stop() noexcept;
  [[nodiscard]] bool stopped() const noexcept { return stopped_; }

 private:
  base::UniqueFd fd_;
  base::UniqueFd stop_fd_;
  std::string descriptor_;
  std::atomic<bool> stopped_{false};
};

/// What a producer that keeps to the protocol would begin with.
[[nodiscard]] wire::Welcome good_welcome();

/// Speaks for a producer: answers every HELLO, on a thread of its own.
class FakeProducer {
 public:
  enum class Then {
    kStays,
    kCloses,
    kPours,  ///< sends small frames, from index 0 on, without an end, and faster than anybody takes them
  };
  /// `says`: on the stream of the frames, from the WELCOME on. The signals get a good WELCOME.
  FakeProducer(Transport transport, const std::string& directory, Bytes says, Then then = Then::kStays);
  /// Both get this WELCOME, and nothing follows.
  FakeProducer(Transport transport, const std::string& directory, const wire::Welcome& welcome);
  ~FakeProducer();
  FakeProducer(const FakeProducer&) = delete;
  FakeProducer& operator=(const FakeProducer&) = delete;

  [[nodiscard]] const std::string& descriptor() const noexcept { return listener_.descriptor(); }
  /// How many streams of frames were asked for.
  [[nodiscard]] std::size_t streams() const noexcept { return streams_; }

 private:
  void run();
  static void pour(int fd);

  Listener listener_;
  Bytes signals_say_;
  Bytes says_;
  Then then_;
  std::atomic<std::size_t> streams_{0};
  std::thread thread_;
};

/// Between a consumer and a producer: carries the bytes in pieces of `piece()` bytes.
class Proxy {
 public:
  using Piece = std::function<std::size_t()>;
  /// To the producer that serves `descriptor`. `piece` is called on several threads.
  Proxy(Transport transport, const std::string& directory, std::string descriptor, Piece piece);
  ~Proxy();
  Proxy(const Proxy&) = delete;
  Proxy& operator=(const Proxy&) = delete;

  [[nodiscard]] const std::string& descriptor() const noexcept { return listener_.descriptor(); }

 private:
  void run();
  void carry(base::UniqueFd consumer);  // until one side closes

  Listener listener_;
  std::string producer_;
  Piece piece_;
  std::vector<std::thread> carriers_;
  std::thread thread_;
};

/// Tests over both kinds of stream. Addresses don't depend on $FRAMELANE_TEST_TRANSPORT.
class StreamsTest : public LaneTest, public ::testing::WithParamInterface<Transport> {
 protected:
  [[nodiscard]] Producer open_producer(ProducerSettings settings = {}) const {
    settings.lane =
        GetParam() == Transport::kTcp ? "lane.tcp://127.0.0.1:0/lane" : "lane.uds://" + directory_.path() + "/lane";
    auto producer = Producer::open(std::move(settings));
    if (!producer) throw std::runtime_error(producer.error().text);
    return std::move(*producer);
  }
  [[nodiscard]] static Consumer open_consumer(const std::string& descriptor, ConsumerSettings settings = {}) {
    settings.lane = descriptor;
    auto consumer = Consumer::open(std::move(settings));
    if (!consumer) throw std::runtime_error(consumer.error().text);
    return std::move(*consumer);
  }
  [[nodiscard]] static Consumer join(const std::string& descriptor, ConsumerSettings settings = {}) {
    Consumer consumer = open_consumer(descriptor, std::move(settings));
    if (auto done = consumer.connect(kPatience); !done) throw std::runtime_error(done.error().text);
    return consumer;
  }
};

/// For INSTANTIATE_TEST_SUITE_P.
[[nodiscard]] inline std::string transport_name(const ::testing::TestParamInfo<Transport>& info) {
  return std::string(to_string(info.param));
}

}  // namespace framelane::lane_test
