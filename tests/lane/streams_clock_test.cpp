// SPDX-License-Identifier: MIT
// Producers whose clock isn't ours: on another host, in another time namespace, or lying.
#include <cerrno>
#include <cstdlib>
#include <fstream>

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <sys/wait.h>

#include "base/clock.hpp"
#include "processes.hpp"
#include "streams.hpp"

namespace framelane::lane_test {
namespace {

constexpr std::int64_t kDay = 86'400'000'000'000;
constexpr std::int64_t kMs = 1'000'000;

/// A producer on another host: its boot is another one, and its clock says what `clock` says. It sends a frame a
/// millisecond, published now, due in 5 ms, captured 5 ms ago.
class FarProducer {
 public:
  using ClockOf = std::function<std::uint64_t()>;
  struct Manners {
    std::chrono::milliseconds welcome_after{0};
    bool answers = true;  // at once; else when answer_from_now_on() was called
    std::function<std::uint64_t(std::uint64_t)> repeat = [](std::uint64_t asked) { return asked; };  // of a question
  };
  FarProducer(Transport transport, const std::string& directory, ClockOf clock)
      : FarProducer(transport, directory, std::move(clock), Manners()) {}
  FarProducer(Transport transport, const std::string& directory, ClockOf clock, Manners manners)
      : listener_(transport, directory),
        clock_(std::move(clock)),
        manners_(std::move(manners)),
        answers_(manners_.answers),
        thread_([this] { run(); }) {}
  ~FarProducer() {
    listener_.stop();
    thread_.join();
  }
  FarProducer(const FarProducer&) = delete;
  FarProducer& operator=(const FarProducer&) = delete;

  [[nodiscard]] const std::string& descriptor() const noexcept { return listener_.descriptor(); }
  [[nodiscard]] std::uint32_t questions() const noexcept { return questions_; }
  void answer_from_now_on() noexcept { answers_ = true; }

 private:
  void run() {
    const base::UniqueFd signals = greet();
    const base::UniqueFd frames = greet();
    if (!signals.valid() || !frames.valid()) return;
    for (std::uint64_t index = 0; !listener_.stopped(); ++index) {
      wire::FrameMessage frame;
      frame.index = index;
      frame.publish_ns = static_cast<std::int64_t>(clock_());
      frame.info.due_ns = frame.publish_ns + 5 * kMs;
      frame.info.capture_ns = frame.publish_ns - 5 * kMs;
      if (!send_raw(frames.get(), frame)) return;
      if (answers_) answer(signals.get());
    }
  }
  base::UniqueFd greet() {
    base::UniqueFd fd = listener_.accept();
    if (!fd.valid() || !receive_message(fd.get())) return {};
    std::this_thread::sleep_for(manners_.welcome_after);
    wire::Welcome welcome = good_welcome();
    welcome.boot_id.fill(0xfa);
    welcome.clock_ns = clock_();
    return send_raw(fd.get(), welcome) ? std::move(fd) : base::UniqueFd();
  }
  void answer(int fd) {
    pollfd there{fd, POLLIN, 0};
    if (poll(&there, 1, 1) <= 0) return;
    const auto message = receive_message(fd);
    const auto* const asked = message ? std::get_if<wire::Clock>(&*message) : nullptr;
    if (asked == nullptr) return;
    ++questions_;
    static_cast<void>(send_raw(fd, wire::Clock{manners_.repeat(asked->asked_ns), clock_()}));
  }

  Listener listener_;
  ClockOf clock_;
  const Manners manners_;
  std::atomic<bool> answers_;
  std::atomic<std::uint32_t> questions_{0};
  std::thread thread_;
};

std::uint64_t now_and(std::int64_t offset) { return static_cast<std::uint64_t>(base::monotonic_ns() + offset); }

class FarClock : public StreamsTest {};

TEST_P(FarClock, TimesAreTranslatedWithinTheErrorThatIsTold) {
  const FarProducer producer(GetParam(), directory_.path(), [] { return now_and(kDay); });
  const std::int64_t before = base::monotonic_ns();  // it publishes from its greeting on
  Consumer consumer = join(producer.descriptor());
  for (int i = 0; i < 200; ++i) {
    const auto frame = consumer.take(kPatience);
    ASSERT_TRUE(ok(frame));
    const std::int64_t now = base::monotonic_ns();
    const std::int64_t error = consumer.stats().clock_offset_error_ns;
    ASSERT_GT(error, 0) << "the clocks aren't one";
    ASSERT_LE(frame->published(), now);
    ASSERT_GE(frame->published(), before - error);
    ASSERT_LE(frame->due(), now + 5 * kMs + error);
    // Published, due and captured are one time and what is added to it, but where it was cut off at now.
    ASSERT_LE(std::abs(frame->due() - frame->published() - 5 * kMs), error);
    ASSERT_EQ(frame->due() - frame->info().capture_ns, 10 * kMs);
  }
  EXPECT_TRUE(eventually([&] { return producer.questions() >= 8; }));
  EXPECT_GT(consumer.stats().latency.count, 0u) << "the latency of its frames is measured";
}

TEST_P(FarClock, TheErrorShrinksAsMoreAnswersCome) {
  FarProducer::Manners slow;
  slow.welcome_after = 100ms;
  slow.answers = false;
  FarProducer producer(
      GetParam(), directory_.path(), [] { return now_and(-kMs); }, slow);
  Consumer consumer = join(producer.descriptor());
  EXPECT_GE(consumer.stats().clock_offset_error_ns, 50 * kMs) << "half of what the greeting took";
  producer.answer_from_now_on();
  EXPECT_TRUE(eventually([&] {
    static_cast<void>(consumer.take(0ns));  // the producer's one thread must not wait for room
    return consumer.stats().clock_offset_error_ns < 25 * kMs;
  }));
  const auto frame = consumer.take(kPatience);
  ASSERT_TRUE(ok(frame));
  EXPECT_LE(frame->published(), base::monotonic_ns());
}

TEST_P(FarClock, AnotherBootsStreamThatAnswersNothingStillHasABound) {
  const std::int64_t before = base::monotonic_ns();
  FakeProducer producer(GetParam(), directory_.path(), [] {
    wire::Welcome welcome = good_welcome();
    welcome.boot_id.fill(0xfa);
    welcome.clock_ns = now_and(kDay);
    Bytes says = wire::encode(welcome, 0);
    wire::FrameMessage frame;
    frame.publish_ns = static_cast<std::int64_t>(now_and(kDay));
    const Bytes sent = wire::encode(frame, 0);
    says.insert(says.end(), sent.begin(), sent.end());
    return says;
  }());
  Consumer consumer = join(producer.descriptor());
  const auto frame = consumer.take(kPatience);
  ASSERT_TRUE(ok(frame));
  const std::int64_t error = consumer.stats().clock_offset_error_ns;
  EXPECT_GT(error, 0);
  EXPECT_LE(frame->published(), base::monotonic_ns());
  EXPECT_GE(frame->published(), before - error);
}

TEST_P(FarClock, ALieHurtsNobodyElse) {
  Producer honest = open_producer();
  Consumer neighbour = join(honest.descriptor());
  std::uint64_t state = 1;
  // Any time at all.
  FarProducer liar(GetParam(), directory_.path(), [&state] { return (state *= 6364136223846793005u) >> 2; });
  Consumer fooled = join(liar.descriptor());
  for (int i = 0; i < 100; ++i) {
    const auto frame = fooled.take(kPatience);
    ASSERT_TRUE(ok(frame));
    EXPECT_LE(frame->published(), base::monotonic_ns());
  }
  publish_frames(honest, 0, 5);
  take_frames(neighbour, 0, 5);
  EXPECT_EQ(neighbour.stats().clock_offset_error_ns, 0);
  EXPECT_EQ(neighbour.stats().skipped, 0u);
  EXPECT_TRUE(ok(fooled.take(kPatience)));
}

TEST_P(FarClock, AnAnswerThatWasNotAskedForIsBelievedNoMore) {
  FarProducer::Manners wrong;
  wrong.repeat = [](std::uint64_t asked) { return asked + 1; };
  const FarProducer producer(
      GetParam(), directory_.path(), [] { return now_and(kDay); }, wrong);
  Consumer consumer = join(producer.descriptor());
  EXPECT_TRUE(eventually([&] { return producer.questions() == 1 && consumer.try_take(); }));
  for (int i = 0; i < 100; ++i) ASSERT_TRUE(ok(consumer.take(kPatience)));
  EXPECT_EQ(producer.questions(), 1u) << "it is asked no more, and its frames are still taken";
}

TEST_P(FarClock, AConsumerThatFloodsWithQuestionsGoesAlone) {
  Producer producer = open_producer();
  Consumer neighbour = join(producer.descriptor());
  wire::Hello hello = stream_hello();
  hello.token = 4711;
  hello.role = wire::Role::kSignals;
  const base::UniqueFd signals = connect_raw(producer.descriptor());
  ASSERT_TRUE(send_raw(signals.get(), hello));
  ASSERT_TRUE(receive_message(signals.get()));
  hello.role = wire::Role::kConsumer;
  const base::UniqueFd frames = connect_raw(producer.descriptor());
  ASSERT_TRUE(send_raw(frames.get(), hello));
  ASSERT_TRUE(receive_message(frames.get()));
  ASSERT_TRUE(send_raw(signals.get(), wire::Clock{17, 0}));
  const auto answer = receive_message(signals.get());
  ASSERT_TRUE(answer && std::holds_alternative<wire::Clock>(*answer));
  EXPECT_EQ(std::get<wire::Clock>(*answer).asked_ns, 17u);
  EXPECT_LE(std::get<wire::Clock>(*answer).answer_ns, now_and(0));
  const Bytes question = wire::encode(wire::Clock{17, 0}, 0);
  Bytes flood;
  for (int i = 0; i < 5000; ++i) flood.insert(flood.end(), question.begin(), question.end());
  static_cast<void>(send_raw(signals.get(), flood));
  EXPECT_TRUE(is_cut_off(frames.get()));
  publish_frames(producer, 0, 5);
  take_frames(neighbour, 0, 5);
}

INSTANTIATE_TEST_SUITE_P(Transports, FarClock, ::testing::Values(Transport::kUds, Transport::kTcp), transport_name);

// --- a real producer in another time namespace

/// Arguments: how far its clock is ahead (s), its lane. Says its descriptor, and publishes until it is told to stop.
const RoleOf kOffsetProducer("offset-producer", [](Channel& parent, const Arguments& arguments) {
  if (unshare(CLONE_NEWTIME) != 0) {
    parent.send("skip: no time namespace can be made here");
    return 0;
  }
  std::ofstream offsets("/proc/self/timens_offsets");
  offsets << "monotonic " << arguments.at(0) << " 0\n";
  offsets.close();
  // Only a child lives in the new namespace, or who enters it.
  const base::UniqueFd own(open("/proc/self/ns/time_for_children", O_RDONLY | O_CLOEXEC));
  if (!offsets || !own.valid() || setns(own.get(), CLONE_NEWTIME) != 0) {
    parent.send("skip: the time namespace can't be entered");
    return 0;
  }
  ProducerSettings settings;
  settings.lane = arguments.at(1);
  auto producer = Producer::open(settings);
  if (!producer) return 1;
  parent.send(producer->descriptor());
  std::atomic<bool> stopped{false};
  std::thread listening([&] {
    static_cast<void>(parent.receive());
    stopped = true;
  });
  for (std::uint64_t frame = 0; !stopped; ++frame) {
    format::FrameInfo info;
    info.due_ns = base::monotonic_ns() + 5 * kMs;
    static_cast<void>(publish(*producer, frame, 1000, info));
    std::this_thread::sleep_for(2ms);
  }
  listening.join();
  return 0;
});

class TimeNamespace : public LaneTest {
 protected:
  void take_and_look(const std::string& lane, const std::string& transport) {
    Child producer("offset-producer", {"100000", lane});
    const std::string said = producer.receive();
    if (said.rfind("skip: ", 0) == 0) GTEST_SKIP() << said;
    ConsumerSettings settings;
    settings.lane = said;
    auto consumer = Consumer::open(settings);
    ASSERT_TRUE(ok(consumer));
    ASSERT_TRUE(ok(consumer->connect(kPatience)));
    EXPECT_EQ(consumer->transport(), transport) << consumer->transport_reason();
    for (int i = 0; i < 50; ++i) {
      const std::int64_t begun = base::monotonic_ns();
      const auto frame = consumer->take(kPatience);
      ASSERT_TRUE(ok(frame));
      const std::int64_t error = consumer->stats().clock_offset_error_ns;
      ASSERT_GT(error, 0);
      EXPECT_LE(std::abs(frame->published() - begun), kPatience.count()) << "100,000 s off";
      EXPECT_LE(std::abs(frame->due() - frame->published() - 5 * kMs), 100'000 * kMs);
    }
    producer.channel().send("stop");
    EXPECT_EQ(producer.wait(), 0);
  }
};

TEST_F(TimeNamespace, ALaneOfAnotherOneIsTranslatedOverUds) {
  take_and_look("lane.uds://" + directory_.path() + "/lane", "uds");
}
TEST_F(TimeNamespace, ALaneOfAnotherOneIsTranslatedOverTcp) { take_and_look("lane.tcp://127.0.0.1:0/lane", "tcp"); }
TEST_F(TimeNamespace, ANameLeadsPastSharedMemoryThere) { take_and_look("lane", "uds"); }

}  // namespace
}  // namespace framelane::lane_test
