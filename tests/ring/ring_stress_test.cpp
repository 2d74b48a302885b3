// SPDX-License-Identifier: MIT
// Everything at once, with every payload looked at while it is held and again right before it is released.
//   FRAMELANE_STRESS_SECONDS  for all tests together, 3 by default
//   FRAMELANE_STRESS_SEED     a random one by default; printed
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <map>
#include <random>
#include <sstream>
#include <thread>

#include <gtest/gtest.h>

#include "base/clock.hpp"
#include "base/cpu.hpp"
#include "harness.hpp"

namespace framelane::ring {
namespace {

using testing::Got;
using testing::intact;
using testing::JoinOptions;
using testing::Lane;
using testing::must;
using testing::TestConsumer;

constexpr int kTests = 8;
constexpr std::int64_t kUs = 1000;

double seconds() {
  const char* const text = std::getenv("FRAMELANE_STRESS_SECONDS");
  return text != nullptr ? std::strtod(text, nullptr) : 3.0;
}

std::uint64_t seed() {
  static const std::uint64_t chosen = [] {
    const char* const text = std::getenv("FRAMELANE_STRESS_SEED");
    return text != nullptr ? std::strtoull(text, nullptr, 10) : std::random_device{}();
  }();
  return chosen;
}

class Random {
 public:
  explicit Random(std::uint64_t seed) : engine_(seed) {}
  std::uint64_t below(std::uint64_t n) { return engine_() % n; }
  bool one_in(std::uint64_t n) { return below(n) == 0; }
  template <class T>
  T of(std::initializer_list<T> values) {
    return values.begin()[below(values.size())];
  }

 private:
  std::mt19937_64 engine_;
};

void pause(Random& random) {
  if (random.one_in(3)) {
    std::this_thread::sleep_for(std::chrono::microseconds(random.below(500)));
  } else {
    std::this_thread::yield();
  }
}

/// The first failure of any thread ends the run.
class Verdict {
 public:
  void fail(const std::string& what) {
    const std::lock_guard lock(mutex_);
    if (what_.empty()) what_ = what;
    failed_ = true;
  }
  [[nodiscard]] bool failed() const { return failed_; }
  [[nodiscard]] std::string what() const {
    const std::lock_guard lock(mutex_);
    return what_;
  }

 private:
  mutable std::mutex mutex_;
  std::string what_;
  std::atomic<bool> failed_{false};
};

// --- producer: one thread publishes, another takes and discards loans, reclaims and interrupts

class ProducerStress {
 public:
  ProducerStress(Lane& lane, Verdict& verdict, std::uint64_t seed) : lane_(lane), verdict_(verdict), seed_(seed) {}

  void publish_until(const std::atomic<bool>& stop) {
    Random random(seed_);
    while (!stop && !verdict_.failed()) {
      if (random.one_in(2000)) pause(random);
      if (random.one_in(30)) {
        send_event();
      } else if (random.one_in(3)) {
        send_inline(random);
      } else {
        send_slot(random);
      }
      if (random.one_in(5000)) must(lane_.writer->set_burst(1 + static_cast<std::uint32_t>(random.below(16))));
    }
  }

  void borrow_until(const std::atomic<bool>& stop) {
    Random random(seed_ + 1);
    while (!stop && !verdict_.failed()) {
      borrow(random);
      take_back_kept();
      if (random.one_in(200)) lane_.writer->interrupt();
      pause(random);
      lane_.writer->resume();
    }
  }

  /// Publishes what pushes everything else out of the ring, and gives everything back.
  void finish() {
    lane_.writer->resume();
    for (const SlotRef& loan : loans_) lane_.writer->discard(loan.slot);
    loans_.clear();
    Random random(seed_ + 2);
    for (std::uint32_t i = 0; i < 2 * lane_.writer->entry_count(); ++i) send_inline(random, true);
    take_back_kept();
    send_inline(random, true);  // retires the segments that have drained
  }

  [[nodiscard]] std::uint64_t sent() const { return sent_; }
  [[nodiscard]] std::size_t kept() const { return kept_.size(); }
  [[nodiscard]] std::size_t events() const { return static_cast<std::size_t>(event_); }

 private:
  struct Kept {
    SlotRef slot;
    std::uint32_t size;
    std::uint64_t number;
  };

  static std::uint32_t some_size(Random& random) {
    const std::uint64_t words = random.one_in(50) ? 1 + random.below(4096) : 1 + random.below(300);
    return static_cast<std::uint32_t>(words * 8);
  }

  void send_event() {
    const auto sent = lane_.writer->publish_marker(
        [&](std::uint64_t number, std::uint64_t seq) { lane_.control.event(number, seq, event_); },
        Writer::MarkerKind::kPlain);
    if (sent) ++event_;
  }

  void send_inline(Random& random, bool wake_now = false) {
    std::byte bytes[kInlineBytes];
    testing::fill(bytes, sizeof bytes, sent_);
    const bool wake = wake_now || !random.one_in(8);
    count(lane_.writer->publish({nullptr, bytes, sizeof bytes, &kInfo, false, wake}), wake);
  }

  void send_slot(Random& random) {
    const auto slot = loan(random);
    if (!slot) return;
    const auto size = std::min(some_size(random), slot->capacity / 8 * 8);
    const bool keep = random.one_in(20);
    const bool wake = !random.one_in(8);
    testing::fill(slot->data, size, sent_);
    if (keep) {
      const std::lock_guard lock(mutex_);
      kept_[slot->slot] = {*slot, size, sent_};
    }
    if (count(lane_.writer->publish({&*slot, nullptr, size, &kInfo, keep, wake}), wake)) return;
    if (keep) {
      const std::lock_guard lock(mutex_);
      kept_.erase(slot->slot);
    }
    lane_.writer->discard(slot->slot);
  }

  bool count(const Result<bool>& published, bool wake) {
    if (!wake) lane_.writer->wake_consumers();
    if (!published && published.error().code != Code::kInterrupted) verdict_.fail(published.error().text);
    const bool sent = published && *published;
    if (sent) ++sent_;
    return sent;
  }

  std::optional<SlotRef> loan(Random& random) {
    {
      const std::lock_guard lock(mutex_);
      if (!loans_.empty() && random.one_in(2)) {
        const SlotRef slot = loans_.back();
        loans_.pop_back();
        return slot;
      }
    }
    return random.one_in(4) ? lane_.writer->try_loan(some_size(random)) : loan_of(some_size(random));
  }

  std::optional<SlotRef> loan_of(std::uint32_t size) {
    auto slot = lane_.writer->loan(size);
    if (slot) return *slot;
    if (slot.error().code != Code::kFull) verdict_.fail(slot.error().text);
    return std::nullopt;
  }

  void borrow(Random& random) {
    const auto slot = loan_of(some_size(random));
    if (!slot) return;
    std::fill_n(slot->data, slot->capacity, std::byte{0xee});  // nobody may be reading it
    if (random.one_in(2)) return lane_.writer->discard(slot->slot);
    const std::lock_guard lock(mutex_);
    loans_.push_back(*slot);
  }

  void take_back_kept() {
    std::vector<std::uint16_t> back;
    lane_.writer->reclaimed(back);
    for (const std::uint16_t slot : back) {
      Kept kept{};
      {
        const std::lock_guard lock(mutex_);
        const auto found = kept_.find(slot);
        if (found == kept_.end()) return verdict_.fail("a slot was reclaimed that nobody kept");
        kept = found->second;
        kept_.erase(found);
      }
      if (!intact(kept.slot.data, kept.size, kept.number)) verdict_.fail("a kept slot was written by somebody else");
      lane_.writer->discard(slot);
    }
  }

  static constexpr format::FrameInfo kInfo{};
  Lane& lane_;
  Verdict& verdict_;
  std::uint64_t seed_;
  std::uint64_t sent_ = 0;  // of the publishing thread
  int event_ = 0;
  std::mutex mutex_;
  std::vector<SlotRef> loans_;
  std::map<std::uint16_t, Kept> kept_;
};

// --- consumers

/// Threads that release what readers hand them, in random order.
class Releasers {
 public:
  struct Hold {
    TestConsumer* consumer;
    std::atomic<int>* outstanding;
    Got taken;
  };

  explicit Releasers(Verdict& verdict, std::uint64_t seed) : verdict_(verdict) {
    for (std::uint64_t i = 0; i < 2; ++i) threads_.emplace_back([this, seed, i] { run(seed + i); });
  }
  ~Releasers() {
    stop_ = true;
    for (std::thread& thread : threads_) thread.join();
  }
  void give(const Hold& hold) {
    hold.outstanding->fetch_add(1);
    const std::lock_guard lock(mutex_);
    holds_.push_back(hold);
  }

 private:
  std::optional<Hold> some(Random& random) {
    const std::lock_guard lock(mutex_);
    if (holds_.empty()) return std::nullopt;
    std::swap(holds_[random.below(holds_.size())], holds_.back());
    const Hold hold = holds_.back();
    holds_.pop_back();
    return hold;
  }

  void run(std::uint64_t seed) {
    Random random(seed);
    for (;;) {
      const bool last = stop_;
      if (const auto hold = some(random)) {
        if (random.one_in(4)) pause(random);
        if (!intact(hold->taken, hold->taken.index)) verdict_.fail("a held frame was written before its release");
        hold->consumer->reader().release(hold->taken.slot);
        hold->outstanding->fetch_sub(1);
      } else if (last) {
        return;
      } else {
        std::this_thread::yield();
      }
    }
  }

  Verdict& verdict_;
  std::mutex mutex_;
  std::vector<Hold> holds_;
  std::atomic<bool> stop_{false};
  std::vector<std::thread> threads_;
};

struct Totals {
  std::atomic<std::uint64_t> taken{0}, skipped{0}, gating_skipped{0}, joins{0}, holds{0}, sleeps{0};
};

class ConsumerStress {
 public:
  ConsumerStress(Lane& lane, Verdict& verdict, Releasers& releasers, Totals& totals, JoinOptions options, bool stays,
                 std::uint64_t seed)
      : lane_(lane),
        verdict_(verdict),
        releasers_(releasers),
        totals_(totals),
        options_(options),
        stays_(stays),
        random_(seed) {}

  struct End {
    std::atomic<std::uint64_t> cursor{0};  // 0: not yet
    std::uint64_t frames = 0;
  };
  /// Until everything up to the end is taken or known to be lost.
  void run(const End& end) {
    while (!verdict_.failed() && !one_life(end)) {
    }
  }

 private:
  bool one_life(const End& end) {
    TestConsumer consumer(lane_, options_);
    totals_.joins.fetch_add(1);
    expected_ = consumer.start_index();
    std::uint64_t life = stays_ ? ~std::uint64_t{0} : random_.below(400);
    bool complete = false;
    try {
      while (life-- > 0 && !complete && !verdict_.failed()) {
        Got taken;
        if (must(consumer.reader().poll(taken, consumer)) == Reader::Step::kTaken) {
          if (!taken.marker) check(consumer, taken);
          if (random_.one_in(3000)) std::this_thread::sleep_for(std::chrono::microseconds(random_.below(3000)));
          continue;
        }
        complete = consumer.page().cursor.load() == end.cursor.load();
        const auto stop = [&] { return consumer.page().cursor.load() == end.cursor.load(); };
        consumer.reader().wait(stop, base::monotonic_ns() + 20'000 * kUs);
      }
      if (complete) lose_the_last(end.frames);
    } catch (const std::runtime_error& error) {
      verdict_.fail(error.what());
    }
    end_of(consumer);
    return complete;
  }

  /// Frames that were retired for the markers behind them: no later frame says so.
  void lose_the_last(std::uint64_t frames) {
    if (expected_ > frames) return verdict_.fail("more frames were taken than sent");
    totals_.skipped.fetch_add(frames - expected_);
    if (options_.gating) totals_.gating_skipped.fetch_add(frames - expected_);
  }

  void check(TestConsumer& consumer, const Got& taken) {
    if (taken.index != expected_ + taken.skipped) {
      std::ostringstream text;
      text << "frame " << taken.index << " with " << taken.skipped << " skipped where " << expected_ << " was expected";
      return verdict_.fail(text.str());
    }
    expected_ = taken.index + 1;
    totals_.taken.fetch_add(1, std::memory_order_relaxed);
    totals_.skipped.fetch_add(taken.skipped, std::memory_order_relaxed);
    if (options_.gating) totals_.gating_skipped.fetch_add(taken.skipped, std::memory_order_relaxed);
    if (!intact(taken, taken.index)) return verdict_.fail("frame " + std::to_string(taken.index) + " is torn");
    if (taken.is_inline) return;
    // Beyond max-held a consumer copies; so it holds one more only while it looks.
    if (consumer.reader().held() <= consumer.reader().max_held() && random_.one_in(2)) {
      totals_.holds.fetch_add(1, std::memory_order_relaxed);
      return releasers_.give({&consumer, &outstanding_, taken});
    }
    if (random_.one_in(8)) std::this_thread::yield();
    if (!intact(taken, taken.index)) verdict_.fail("a frame was written while it was read");
    consumer.reader().release(taken.slot);
  }

  void end_of(TestConsumer& consumer) {
    const bool stopped_first = random_.one_in(2);
    if (stopped_first) lane_.writer->stop_gating(consumer.id());
    while (outstanding_.load() != 0) std::this_thread::yield();
    Got last;
    // Some die with a frame in their hands: the bit stays set.
    if (!verdict_.failed() && random_.one_in(2)) {
      const auto polled = consumer.reader().poll(last, consumer);
      if (!polled) verdict_.fail(polled.error().text);
    }
    totals_.sleeps.fetch_add(consumer.page().sleeps.load());
    for (std::size_t i = 1; i < consumer.events.size(); ++i) {
      if (consumer.events[i] != consumer.events[i - 1] + 1) return verdict_.fail("an event was lost or came twice");
    }
  }

  Lane& lane_;
  Verdict& verdict_;
  Releasers& releasers_;
  Totals& totals_;
  JoinOptions options_;
  bool stays_;
  Random random_;
  std::uint64_t expected_ = 0;
  std::atomic<int> outstanding_{0};
};

// --- the run

struct Kind {
  WhenFull when_full;
  SpinKind spin;
  const char* name;
};
void PrintTo(const Kind& kind, std::ostream* out) { *out << kind.name; }

class RingStress : public ::testing::TestWithParam<Kind> {};
INSTANTIATE_TEST_SUITE_P(Kinds, RingStress,
                         ::testing::Values(Kind{WhenFull::kWait, SpinKind::kOff, "WaitAsleep"},
                                           Kind{WhenFull::kWait, SpinKind::kAdaptive, "WaitSpinning"},
                                           Kind{WhenFull::kDropNew, SpinKind::kOff, "DropNewAsleep"},
                                           Kind{WhenFull::kDropNew, SpinKind::kAdaptive, "DropNewSpinning"},
                                           Kind{WhenFull::kPassOver, SpinKind::kOff, "PassOverAsleep"},
                                           Kind{WhenFull::kPassOver, SpinKind::kAdaptive, "PassOverSpinning"}),
                         [](const auto& kind) { return kind.param.name; });

WriterSettings settings_of(const Kind& kind, Random& random) {
  WriterSettings settings;
  settings.sizes.burst = static_cast<std::uint32_t>(random.of({1, 2, 5, 8, 16}));
  settings.sizes.history = static_cast<std::uint32_t>(random.of({0, 0, 1, 20}));
  settings.sizes.max_loans = 8;
  settings.sizes.max_held = static_cast<std::uint32_t>(1 + random.below(4));
  settings.sizes.max_consumers = 8;
  settings.most_burst = 16;
  settings.max_frame_size = 64 << 10;
  settings.when_full = kind.when_full;
  settings.full_timeout_ns = random.of({20, 200, 2000}) * kUs;
  settings.stall_timeout_ns = random.of({50, 500, 50'000}) * kUs;
  settings.stamps = random.of({StampKind::kAuto, StampKind::kOn, StampKind::kOff});
  settings.spin = kind.spin;
  return settings;
}

void one_round(const Kind& kind, std::uint64_t seed, std::chrono::nanoseconds length) {
  Random random(seed);
  Lane lane(settings_of(kind, random));
  Verdict verdict;
  Totals totals;
  ProducerStress producer(lane, verdict, random.below(~0ull));
  std::atomic<bool> stop{false};
  ConsumerStress::End end;
  {
    Releasers releasers(verdict, random.below(~0ull));
    std::vector<std::unique_ptr<ConsumerStress>> consumers;
    std::vector<std::thread> readers;
    for (int i = 0; i < 6; ++i) {
      const JoinOptions options{.gating = i < 3, .max_held = 4, .latest = i == 5, .spin = kind.spin};
      consumers.push_back(std::make_unique<ConsumerStress>(lane, verdict, releasers, totals, options,
                                                           i == 0 || i == 3 || i == 5, random.below(~0ull)));
    }
    for (auto& consumer : consumers) readers.emplace_back([&end, &consumer] { consumer->run(end); });
    std::thread publisher([&] { producer.publish_until(stop); });
    std::thread borrower([&] { producer.borrow_until(stop); });
    const auto until = std::chrono::steady_clock::now() + length;
    while (std::chrono::steady_clock::now() < until && !verdict.failed())
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    stop = true;
    publisher.join();
    borrower.join();
    end.frames = producer.sent();
    end.cursor = lane.writer->entry_count() + producer.sent() + lane.control.count();
    for (std::thread& reader : readers) reader.join();
  }
  EXPECT_EQ(verdict.what(), "") << "seed " << seed;
  EXPECT_TRUE(lane.control.broken().empty()) << "an honest consumer was evicted: " << lane.control.broken()[0].second;
  producer.finish();
  EXPECT_EQ(verdict.what(), "");
  EXPECT_EQ(lane.loans(), 0u);
  EXPECT_EQ(producer.kept(), 0u);
  const auto [free, all] = lane.free_slots();
  EXPECT_EQ(free, all) << "seed " << seed;
  lane.writer->inspect([](const auto& links, const SlotPool& pool, std::uint32_t) {
    EXPECT_EQ(links.size(), 0u);
    EXPECT_EQ(pool.segments().size(), 1u);
  });
  const WriterCounters counters = lane.counters();
  EXPECT_EQ(counters.published, producer.sent());
  if (counters.demotions == 0 && counters.passed_over == 0) {
    EXPECT_EQ(totals.gating_skipped, 0u) << "the producer waits for these, seed " << seed;
  }
  std::printf(
      "seed %llu: %llu sent, %zu events, dropped %llu, passed over %llu, full waits %llu, demotions %llu, "
      "wakes %llu; taken %llu, skipped %llu, held %llu, joins %llu, sleeps %llu\n",
      static_cast<unsigned long long>(seed), static_cast<unsigned long long>(producer.sent()), producer.events(),
      static_cast<unsigned long long>(counters.dropped_full), static_cast<unsigned long long>(counters.passed_over),
      static_cast<unsigned long long>(counters.full_waits), static_cast<unsigned long long>(counters.demotions),
      static_cast<unsigned long long>(counters.wakes), static_cast<unsigned long long>(totals.taken),
      static_cast<unsigned long long>(totals.skipped), static_cast<unsigned long long>(totals.holds),
      static_cast<unsigned long long>(totals.joins), static_cast<unsigned long long>(totals.sleeps));
}

TEST_P(RingStress, TearsReordersAndLosesNothing) {
  const double all = seconds() / kTests;
  const int rounds = std::max(1, static_cast<int>(all / 0.5));  // each with other settings
  for (int i = 0; i < rounds && !HasFailure(); ++i) {
    one_round(GetParam(), seed() + static_cast<std::uint64_t>(i),
              std::chrono::nanoseconds(static_cast<std::int64_t>(all / rounds * 1e9)));
  }
}

// One frame at a time into a reader that goes to sleep: the moment at which a wake can be lost.
class WakeStress : public ::testing::TestWithParam<SpinKind> {};
INSTANTIATE_TEST_SUITE_P(Spins, WakeStress, ::testing::Values(SpinKind::kOff, SpinKind::kAdaptive));

TEST_P(WakeStress, LosesNoWake) {
  Lane lane({.sizes = {.burst = 1},
             .full_timeout_ns = base::kForever,
             .stall_timeout_ns = base::kForever,
             .spin = GetParam()});
  TestConsumer consumer(lane, {.spin = GetParam()});
  std::atomic<bool> stop{false};
  int lost = 0;
  std::uint64_t taken_count = 0;
  std::thread reader([&] {
    Got taken;
    while (!stop) {
      if (must(consumer.reader().poll(taken, consumer)) == Reader::Step::kTaken) {
        taken_count += taken.marker ? 0 : 1;
        continue;
      }
      const std::uint32_t word = consumer.page().wake_word.load();
      const std::uint64_t sleeps = consumer.page().sleeps.load();
      consumer.reader().wait([&] { return stop.load(); }, base::kForever);
      // It slept until the watchdog came, a frame was there, and nobody had woken it for that.
      const bool slept = consumer.page().sleeps.load() != sleeps;
      if (slept && !stop && consumer.reader().ready() && consumer.page().wake_word.load() == word) ++lost;
    }
  });
  const std::int64_t until = base::monotonic_ns() + static_cast<std::int64_t>(seconds() / kTests * 1e9);
  Random random(seed());
  while (base::monotonic_ns() < until) {
    ASSERT_TRUE(lane.send_inline());
    if (random.one_in(4)) continue;  // the next one waits for the reader
    // The next one comes in the moment in which the reader goes to sleep.
    for (int i = 0; i < 1000 && consumer.page().cursor.load() != lane.writer->entry_count() + lane.sent(); ++i) {
      if (i % 100 == 99) std::this_thread::yield();
      base::cpu_relax();
    }
    for (std::uint64_t i = random.below(60); i > 0; --i) base::cpu_relax();
  }
  must(lane.writer->drain(base::kForever));
  stop = true;
  consumer.reader().wake();
  reader.join();
  EXPECT_EQ(taken_count, lane.sent());
  EXPECT_EQ(lost, 0);
  std::printf("%llu frames, %llu wakes, %llu sleeps, %llu full waits\n", static_cast<unsigned long long>(lane.sent()),
              static_cast<unsigned long long>(lane.counters().wakes),
              static_cast<unsigned long long>(consumer.page().sleeps.load()),
              static_cast<unsigned long long>(lane.counters().full_waits));
}

}  // namespace
}  // namespace framelane::ring

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  std::printf("FRAMELANE_STRESS_SEED=%llu\n", static_cast<unsigned long long>(framelane::ring::seed()));
  return RUN_ALL_TESTS();
}
