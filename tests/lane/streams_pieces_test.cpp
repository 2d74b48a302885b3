// SPDX-License-Identifier: MIT
// What a byte stream may do to its bytes: cut them anywhere. And what signals may do to those who wait.
#include <atomic>
#include <csignal>
#include <mutex>
#include <random>

#include <pthread.h>

#include "streams.hpp"

namespace framelane::lane_test {
namespace {

class StreamPieces : public StreamsTest {
 protected:
  /// 200 frames of 0 to 70,000 bytes, many with side data, and an event before every tenth.
  struct Stream {
    explicit Stream(unsigned seed) : random(seed) {}

    [[nodiscard]] std::size_t size_of_next() {
      const std::size_t kind = random() % 16;
      if (kind == 0) return random() % 70'001;
      return random() % (kind < 6 ? 40 : 3000);  // the smallest travel in the ring's entry
    }
    std::mt19937 random;
  };
  static constexpr std::uint64_t kFrames = 200;

  static Bytes side_data_of(std::uint64_t frame) { return payload(frame % 3 == 0 ? 0 : (frame * 37) % 960, frame + 7); }

  static void publish_stream(Producer& producer, unsigned seed) {
    Stream stream(seed);
    for (std::uint64_t frame = 0; frame < kFrames; ++frame) {
      if (frame % 10 == 0) {
        ASSERT_TRUE(ok(producer.send(event(format::EventType::kCustom, std::to_string(frame)))));
      }
      const Bytes bytes = payload(stream.size_of_next(), frame);
      format::FrameInfo info;
      info.pts = frame * 1000;
      const auto sent = producer.publish_copy(bytes, info, Wake::kNow, side_data_of(frame));
      ASSERT_TRUE(ok(sent));
      ASSERT_EQ(*sent, Published::kSent) << frame;
    }
    ASSERT_TRUE(ok(producer.end_of_stream()));
  }

  static void take_stream(Consumer& consumer, unsigned seed) {
    Stream stream(seed);
    for (std::uint64_t frame = 0; frame < kFrames; ++frame) {
      if (frame % 10 == 0) {
        const auto item = consumer.take_item(kPatience);
        ASSERT_TRUE(ok(item)) << "the event before frame " << frame;
        const auto* const told = std::get_if<format::Event>(&*item);
        ASSERT_NE(told, nullptr);
        EXPECT_EQ(told->text, std::to_string(frame));
      }
      auto item = consumer.take_item(kPatience);
      ASSERT_TRUE(ok(item)) << "frame " << frame;
      const auto* const taken = std::get_if<Frame>(&*item);
      ASSERT_NE(taken, nullptr) << "frame " << frame;
      ASSERT_EQ(taken->seq(), frame);
      ASSERT_EQ(taken->size(), stream.size_of_next());
      EXPECT_TRUE(is_frame(taken->bytes(), frame)) << "frame " << frame;
      EXPECT_EQ(taken->info().pts, frame * 1000);
      const Bytes beside = side_data_of(frame);
      EXPECT_TRUE(std::equal(beside.begin(), beside.end(), taken->side_data().begin(), taken->side_data().end()));
    }
    EXPECT_TRUE(fails_with(consumer.take(kPatience), Code::kEndOfStream));
    EXPECT_EQ(consumer.stats().skipped, 0u);
  }

  static ProducerSettings patient() {
    ProducerSettings settings;
    settings.full_timeout = kPatience;
    settings.stall_timeout = kForever;
    return settings;
  }

  void expect_whole(const Proxy::Piece& piece) {
    Producer producer = open_producer(patient());
    const Proxy proxy(GetParam(), directory_.path(), producer.descriptor(), piece);
    ConsumerSettings settings;
    settings.transport = GetParam();
    Consumer consumer = join(proxy.descriptor(), settings);
    std::thread publishing([&] { publish_stream(producer, 5); });
    take_stream(consumer, 5);
    publishing.join();
    EXPECT_EQ(producer.stats().dropped_full, 0u);
  }
};

TEST_P(StreamPieces, OfOneByteArriveWhole) {
  expect_whole([] { return std::size_t{1}; });
}

TEST_P(StreamPieces, OfSevenBytesArriveWhole) {
  expect_whole([] { return std::size_t{7}; });
}

TEST_P(StreamPieces, OfRandomSizesArriveWhole) {
  std::mutex mutex;
  std::mt19937 random(3);
  expect_whole([&] {
    const std::lock_guard lock(mutex);
    return std::size_t{1} + (random() % 5 == 0 ? random() % 65'536 : random() % 50);
  });
}

/// Interrupts system calls of two threads a thousand times a second.
class SignalStorm {
 public:
  explicit SignalStorm(std::vector<pthread_t> threads) : threads_(std::move(threads)) {
    struct sigaction action {};
    action.sa_handler = [](int) { ++hits_; };  // no SA_RESTART
    sigaction(SIGUSR2, &action, &before_);
    hits_ = 0;
    thread_ = std::thread([this] {
      while (!stopped_) {
        for (const pthread_t thread : threads_) pthread_kill(thread, SIGUSR2);
        std::this_thread::sleep_for(1ms);
      }
    });
  }
  /// While the threads still live.
  void stop() {
    if (!thread_.joinable()) return;
    stopped_ = true;
    thread_.join();
  }
  ~SignalStorm() {
    stop();
    sigaction(SIGUSR2, &before_, nullptr);
  }
  SignalStorm(const SignalStorm&) = delete;
  SignalStorm& operator=(const SignalStorm&) = delete;
  [[nodiscard]] static int hits() { return hits_; }

 private:
  static inline std::atomic<int> hits_{0};
  std::vector<pthread_t> threads_;
  struct sigaction before_ {};
  std::atomic<bool> stopped_{false};
  std::thread thread_;
};

TEST_P(StreamPieces, AStormOfSignalsHarmsNothing) {
  Producer producer = open_producer(patient());
  std::atomic<bool> ready{false};
  std::atomic<bool> go{false};
  std::atomic<bool> done{false};
  std::thread publishing([&] {
    ready = true;
    while (!go) std::this_thread::sleep_for(1ms);
    EXPECT_TRUE(ok(producer.wait_for_consumers(1, kPatience)));
    publish_stream(producer, 9);
    while (!done) std::this_thread::sleep_for(1ms);  // signals reach only threads that live
  });
  ASSERT_TRUE(eventually([&] { return ready.load(); }));
  SignalStorm storm({pthread_self(), publishing.native_handle()});
  go = true;
  Consumer consumer = join(producer.descriptor());
  take_stream(consumer, 9);
  EXPECT_TRUE(fails_with(consumer.take(300ms), Code::kEndOfStream));
  EXPECT_TRUE(eventually([] { return SignalStorm::hits() >= 50; }));
  storm.stop();
  done = true;
  publishing.join();
  EXPECT_EQ(producer.stats().dropped_full, 0u);
}

INSTANTIATE_TEST_SUITE_P(Transports, StreamPieces, ::testing::Values(Transport::kUds, Transport::kTcp), transport_name);

}  // namespace
}  // namespace framelane::lane_test
