// SPDX-License-Identifier: MIT
// Consumers of all kinds come and go while a producer publishes frames of changing sizes with events between them.
#include <atomic>
#include <cstdlib>
#include <random>
#include <thread>

#include "lanes.hpp"

namespace framelane::lane_test {
namespace {

std::chrono::milliseconds duration() {
  const char* const seconds = std::getenv("FRAMELANE_STRESS_SECONDS");
  return std::chrono::milliseconds(seconds != nullptr ? static_cast<int>(std::atof(seconds) * 1000) : 3000);
}

struct Totals {
  std::atomic<std::uint64_t> taken{0}, skipped{0}, events{0}, joins{0}, interrupts{0};
};

ConsumerSettings any_settings(std::mt19937& random, bool gating) {
  ConsumerSettings settings;
  settings.gating = gating;
  settings.mode = !gating && random() % 3 == 0 ? Mode::kLatest : Mode::kEvery;
  settings.max_held = 1 + static_cast<std::uint32_t>(random() % 6);
  settings.spin = std::array{Spin::kAdaptive, Spin::kOff, Spin::kBusy}[random() % 3];
  return settings;
}

/// One consumer's life: takes some frames, checks them, keeps some, releases them here or on another thread.
void live(std::mt19937& random, bool gating, const std::atomic<bool>& over, Totals& totals) {
  ConsumerSettings settings = any_settings(random, gating);
  settings.lane = "lane";
  Consumer consumer = join(settings);
  ++totals.joins;
  std::vector<Frame> held;
  std::uint64_t next = 0;
  bool first = true;
  std::uint64_t skipped = 0;
  bool behind_an_event = false;  // then a frame may be taken already
  for (std::int64_t left = 1 + random() % 3000; (left > 0 && !over) || behind_an_event; --left) {
    auto item = consumer.take_item(100ms);
    behind_an_event = item && std::holds_alternative<format::Event>(*item);
    if (!item) {
      ASSERT_EQ(item.error().code, Code::kTimeout) << item.error().text;
      continue;
    }
    if (std::holds_alternative<format::Event>(*item)) {
      ++totals.events;
      continue;
    }
    Frame frame = std::get<Frame>(std::move(*item));
    ASSERT_TRUE(is_frame(frame.bytes(), frame.seq())) << "seq " << frame.seq() << ", size " << frame.size();
    ASSERT_TRUE(first || frame.seq() == next + frame.skipped()) << frame.seq() << ' ' << next;
    ASSERT_TRUE(first || !gating || frame.skipped() == 0) << "a gating consumer loses nothing";
    skipped += frame.skipped();
    next = frame.seq() + 1;
    first = false;
    held.push_back(std::move(frame));
    if (held.size() > random() % 8) {
      const std::size_t gone = random() % held.size();
      ASSERT_TRUE(is_frame(held[gone].bytes(), held[gone].seq())) << "overwritten while it was held";
      held.erase(held.begin() + static_cast<std::ptrdiff_t>(gone));
    }
  }
  ASSERT_EQ(consumer.stats().skipped, skipped);
  totals.taken += consumer.stats().taken;
  totals.skipped += skipped;
  if (random() % 2 == 0) consumer.close();
  std::thread([frames = std::move(held)]() mutable {
    for (Frame& frame : frames) ASSERT_TRUE(is_frame(frame.bytes(), frame.seq())) << "overwritten after close";
    frames.clear();
  }).join();
}

void produce_all(Producer& producer, std::uint32_t seed, std::chrono::steady_clock::time_point until) {
  std::mt19937 random(seed);
  std::uint64_t frame = 0;
  std::vector<Loan> loans;
  auto next_event = std::chrono::steady_clock::now();
  while (std::chrono::steady_clock::now() < until) {
    // One event a ms: a consumer that is thousands of events behind would rightly be disconnected.
    const auto now = std::chrono::steady_clock::now();
    if (now >= next_event) {
      next_event = now + 1ms;
      ASSERT_TRUE(ok(random() % 10 == 0 ? producer.set_caps("caps-" + std::to_string(frame))
                                        : producer.send(event(format::EventType::kCustom, "custom"))));
    }
    if (random() % 200 == 0) static_cast<void>(producer.stats());
    const std::size_t most = random() % 1000 == 0 ? 200'000 : random() % 3 == 0 ? 32 : 3000;
    const std::size_t size = random() % (most + 1);
    auto loan = producer.loan(size);
    if (!loan) {
      ASSERT_EQ(loan.error().code, Code::kFull) << loan.error().text;
      continue;
    }
    fill(loan->bytes().first(size), frame);
    auto sent = producer.publish(*loan, size);
    ASSERT_TRUE(ok(sent));
    if (*sent == Published::kSent) ++frame;
    if (random() % 20 == 0 && loans.size() < 4) loans.push_back(producer.loan(100).value_or(Loan()));
    if (random() % 20 == 0) loans.clear();
  }
}

TEST(LaneStress, ConsumersComeAndGoAndEachSeesRightFrames) {
  const LaneDirectory directory;
  for (const Leaky leaky : {Leaky::kNo, Leaky::kDownstream, Leaky::kUpstream}) {
    ProducerSettings settings;
    settings.leaky = leaky;
    settings.full_timeout = kForever;
    settings.stall_timeout = kForever;
    settings.history = leaky == Leaky::kNo ? 0 : 3;
    settings.max_held = 6;
    Producer producer = produce(settings);
    producer.on_consumer([](const ConsumerInfo&, bool joined, std::string_view reason) {
      EXPECT_TRUE(joined || reason == "it closed" || reason == "its connection ended") << reason;
    });
    std::atomic<bool> over{false};
    Totals totals;
    std::vector<std::thread> consumers;
    for (unsigned i = 0; i < 4; ++i) {
      consumers.emplace_back([&, i] {
        std::mt19937 random(i);
        const bool gating = i < 2 && leaky != Leaky::kDownstream;
        while (!over && !::testing::Test::HasFatalFailure()) live(random, gating, over, totals);
      });
    }
    produce_all(producer, 99, std::chrono::steady_clock::now() + duration() / 3);
    over = true;
    for (std::thread& consumer : consumers) consumer.join();
    EXPECT_GT(totals.taken, 0u);
    EXPECT_GT(totals.joins, 3u);
    EXPECT_GT(totals.events, 0u);
    const ProducerStats stats = producer.stats();
    EXPECT_EQ(stats.evictions, 0u);
    EXPECT_EQ(stats.demotions, 0u);
    EXPECT_TRUE(eventually([&] { return producer.num_consumers() == 0; }));
    // When all are gone, all slots but the newest frames' are free.
    std::vector<std::uint16_t> none;
    for (int i = 0; i < 50; ++i) producer.reclaimed(none);
    EXPECT_GE(producer.stats().free_slots + 8 + settings.history, producer.stats().slots);
    EXPECT_EQ(producer.stats().loans, 0u);
  }
}

TEST(LaneStress, InterruptsFromOtherThreadsLoseNothing) {
  const LaneDirectory directory;
  ProducerSettings settings;
  settings.burst = 2;
  settings.full_timeout = kForever;
  settings.stall_timeout = kForever;
  Producer producer = produce(settings);
  Consumer consumer = join();
  const auto until = std::chrono::steady_clock::now() + duration() / 3;
  std::atomic<bool> over{false};
  std::thread troublemaker([&] {
    std::mt19937 random(5);
    while (!over) {
      std::this_thread::sleep_for(std::chrono::microseconds(random() % 500));
      if (random() % 2 == 0) {
        producer.interrupt();
        producer.resume();
      } else {
        consumer.interrupt();
        consumer.resume();
      }
      static_cast<void>(producer.stats());
      static_cast<void>(consumer.stats());
    }
  });
  std::atomic<std::uint64_t> published{0};
  std::atomic<bool> all{false};
  std::thread publisher([&] {
    while (std::chrono::steady_clock::now() < until) {
      auto loan = producer.loan(500);
      ASSERT_TRUE(ok(loan));
      fill(loan->bytes().first(500), published);
      for (;;) {
        const auto sent = producer.publish(*loan, 500);
        if (sent) break;
        ASSERT_EQ(sent.error().code, Code::kInterrupted) << sent.error().text;
      }
      ++published;
    }
    all = true;
  });
  std::uint64_t next = 0;
  for (;;) {
    const auto frame = consumer.take(100ms);
    if (!frame && all && next == published) break;
    if (!frame) continue;
    ASSERT_EQ(frame->seq(), next++);
    ASSERT_TRUE(is_frame(frame->bytes(), frame->seq()));
  }
  publisher.join();
  over = true;
  troublemaker.join();
  EXPECT_EQ(next, published);
}

}  // namespace
}  // namespace framelane::lane_test
