// SPDX-License-Identifier: MIT
// Producers and consumers in processes of their own, which are stopped and killed.
#include "processes.hpp"

#include <atomic>
#include <optional>
#include <set>
#include <sstream>
#include <thread>

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "lanes.hpp"

namespace framelane::lane_test {
namespace {

// --- roles

/// Says each item of its stream in one letter or number, and asks for a key unit when it is told to.
int say_items(Channel& parent, const Arguments&) {
  Consumer consumer = join();
  parent.send("connected");
  for (;;) {
    auto item = consumer.take_item(kPatience);
    if (!item) {
      parent.send(item.error().code == Code::kEndOfStream ? "end" : item.error().text);
      return 0;
    }
    if (const auto* const frame = std::get_if<Frame>(&*item)) {
      parent.send(is_frame(frame->bytes(), frame->seq()) ? std::to_string(frame->seq()) : "bad");
      const auto word = parent.receive();  // busy with the frame until then
      if (word == "ask" && !consumer.send_upstream({})) return 1;
      continue;
    }
    const auto type = std::get<format::Event>(*item).type;
    if (type == format::EventType::kFlushStart) parent.send("start");
    if (type == format::EventType::kFlushStop) parent.send("stop");
  }
}
const RoleOf say_items_role("say_items", say_items);

/// What a taker reports when its stream has ended.
struct Report {
  std::uint64_t taken = 0, skipped = 0, copied = 0;
  std::uint64_t first = 0, last = 0;
  std::uint64_t bad = 0;      // frames that were not what they should be when taken
  std::uint64_t spoilt = 0;   // kept frames that were overwritten
  std::uint64_t missing = 0;  // gaps that skipped() didn't tell of
};

std::string text_of(const Report& report) {
  std::ostringstream out;
  out << report.taken << ' ' << report.skipped << ' ' << report.copied << ' ' << report.first << ' ' << report.last
      << ' ' << report.bad << ' ' << report.spoilt << ' ' << report.missing;
  return out.str();
}

Report report_of(const std::string& text) {
  Report report;
  std::istringstream in(text);
  in >> report.taken >> report.skipped >> report.copied >> report.first >> report.last >> report.bad >> report.spoilt >>
      report.missing;
  EXPECT_FALSE(in.fail()) << '"' << text << '"';
  return report;
}

bool keeps(const std::string& which, std::uint64_t frame) {
  if (which == "all") return true;
  if (which == "none") return false;
  std::istringstream list(which);
  for (std::uint64_t number = 0; list >> number;) {
    if (number == frame) return true;
  }
  return false;
}

/// Takes until the end of the stream. Arguments: which frames it keeps ("none", "all", or numbers), and max_held.
int take_all(Channel& parent, const Arguments& arguments) {
  ConsumerSettings settings;
  settings.max_held = static_cast<std::uint32_t>(std::stoul(arguments.at(1)));
  Consumer consumer = join(settings);
  parent.send("connected");
  Report report;
  std::vector<Frame> kept;
  std::uint64_t next = 0;
  for (bool first = true;; first = false) {
    auto frame = consumer.take(kPatience);
    if (!frame && frame.error().code == Code::kEndOfStream) break;
    if (!frame) {
      parent.send(frame.error().text);
      return 1;
    }
    if (first) report.first = next = frame->seq();
    if (frame->seq() != next + frame->skipped()) ++report.missing;
    next = frame->seq() + 1;
    report.last = frame->seq();
    if (!is_frame(frame->bytes(), frame->seq())) ++report.bad;
    if (keeps(arguments.at(0), frame->seq())) kept.push_back(std::move(*frame));
  }
  for (const Frame& frame : kept) report.spoilt += is_frame(frame.bytes(), frame.seq()) ? 0 : 1;
  const ConsumerStats stats = consumer.stats();
  report.taken = stats.taken;
  report.skipped = stats.skipped;
  report.copied = stats.copied;
  parent.send(text_of(report));
  return 0;
}
const RoleOf kTaker("taker", take_all);

/// Shared with a process that will be killed: how many frames it has published for sure.
class SharedCount {
 public:
  explicit SharedCount(const std::string& path) {
    const base::UniqueFd fd(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
    if (ftruncate(fd.get(), 4096) != 0) std::abort();
    void* const memory = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0);
    if (memory == MAP_FAILED) std::abort();
    count_ = static_cast<std::atomic<std::uint64_t>*>(memory);
  }
  ~SharedCount() { munmap(count_, 4096); }
  SharedCount(const SharedCount&) = delete;
  SharedCount& operator=(const SharedCount&) = delete;
  std::atomic<std::uint64_t>& operator*() const { return *count_; }

 private:
  std::atomic<std::uint64_t>* count_;
};

/// Publishes until it is killed. Arguments: the generation, a file for its SharedCount.
int publish_until_killed(Channel& parent, const Arguments& arguments) {
  Producer producer = produce();
  SharedCount published(arguments.at(1));
  (*published).store(0);
  format::FrameInfo info;
  info.type_id = static_cast<std::uint32_t>(std::stoul(arguments.at(0)));
  if (!producer.send(event(format::EventType::kStreamStart, arguments.at(0)))) return 1;
  if (!producer.wait_for_consumers(1, kPatience)) return 2;
  parent.send("publishing");
  for (std::uint64_t frame = 0;; ++frame) {
    if (frame % 7 == 0 && !producer.send(event(format::EventType::kCustom, "between"))) return 3;
    if (!publish(producer, frame, 50 + frame % 1000, info)) return 4;
    (*published).store(frame + 1);
  }
}
const RoleOf kPublisher("publisher", publish_until_killed);

/// A child that keeps every descriptor open, and does nothing.
pid_t fork_one() {
  const pid_t child = fork();
  if (child != 0) return child;
  alarm(60);
  for (;;) pause();
}

Transport transport_in(const Arguments& arguments) {
  return arguments.at(0) == "uds" ? Transport::kUds : Transport::kShm;
}

int publish_and_fork(Channel& parent, const Arguments& arguments) {
  Producer producer = produce({.lane = "lane", .transport = transport_in(arguments)});
  if (!producer.wait_for_consumers(1, kPatience)) return 2;
  publish_frames(producer, 0, 5);
  parent.send(std::to_string(fork_one()));
  for (;;) pause();
}
const RoleOf kForker("forker", publish_and_fork);

int take_and_fork(Channel& parent, const Arguments& arguments) {
  Consumer consumer = join({.lane = "lane", .transport = transport_in(arguments)});
  take_frames(consumer, 0, 1);
  parent.send(std::to_string(fork_one()));
  for (;;) pause();
}
const RoleOf kTakingForker("taking forker", take_and_fork);

// --- tests

using Processes = LaneTest;

std::uint64_t free_slots(Producer& producer) {
  std::vector<std::uint16_t> none;
  producer.reclaimed(none);
  return producer.stats().free_slots;
}

struct Policy {
  Leaky leaky;
  std::uint64_t dropped, passed_over, waits;
  std::uint64_t skipped, last;  // as the consumer sees it
};

class Burst : public LaneTest, public ::testing::WithParamInterface<Policy> {};

TEST_P(Burst, OfASuspendedConsumerIsAbsorbedAndOneMoreIsTheProducersPolicy) {
  constexpr std::uint64_t kBurst = 12;
  const Policy& policy = GetParam();
  ProducerSettings settings;
  settings.burst = kBurst;
  settings.leaky = policy.leaky;
  settings.full_timeout = 30ms;
  Producer producer = produce(settings);
  Child child("taker", {"none", "4"});
  ASSERT_EQ(child.receive(), "connected");
  publish_frames(producer, 0, 3);
  ASSERT_TRUE(ok(producer.drain(kPatience)));
  child.stop();
  publish_frames(producer, 3, kBurst);
  ProducerStats stats = producer.stats();
  EXPECT_EQ(stats.published, 3 + kBurst);
  EXPECT_EQ(stats.full_waits + stats.dropped_full + stats.passed_over, 0u) << "the burst depth is absorbed";
  ASSERT_TRUE(ok(publish(producer, 3 + kBurst)));  // one more
  stats = producer.stats();
  EXPECT_EQ(stats.dropped_full, policy.dropped);
  EXPECT_EQ(stats.passed_over, policy.passed_over);
  EXPECT_EQ(stats.full_waits, policy.waits);
  EXPECT_EQ(stats.consumers.at(0).lag, kBurst);
  ASSERT_TRUE(ok(producer.end_of_stream()));
  child.go_on();
  const Report report = report_of(child.receive());
  EXPECT_EQ(child.wait(), 0);
  EXPECT_EQ(report.taken, 3 + kBurst);
  EXPECT_EQ(report.skipped, policy.skipped);
  EXPECT_EQ(report.last, policy.last);
  EXPECT_EQ(report.bad + report.missing, 0u);
}

INSTANTIATE_TEST_SUITE_P(Policies, Burst,
                         ::testing::Values(Policy{Leaky::kNo, 1, 0, 1, 0, 14}, Policy{Leaky::kUpstream, 1, 0, 0, 0, 14},
                                           Policy{Leaky::kDownstream, 0, 1, 0, 1, 15}));

TEST_F(Processes, ExactlyTheBurstLosesNothing) {
  Producer producer = produce();
  Child child("taker", {"none", "4"});
  ASSERT_EQ(child.receive(), "connected");
  for (std::uint64_t round = 0; round < 10; ++round) {
    ASSERT_TRUE(ok(producer.drain(kPatience)));
    child.stop();
    publish_frames(producer, round * 8, 8, 5000);
    child.go_on();
  }
  ASSERT_TRUE(ok(producer.end_of_stream()));
  const Report report = report_of(child.receive());
  EXPECT_EQ(report.taken, 80u);
  EXPECT_EQ(report.skipped + report.bad + report.missing, 0u);
  EXPECT_EQ(producer.stats().full_waits + producer.stats().dropped_full, 0u);
}

TEST_F(Processes, FramesThreeAndSevenAreKeptForEver) {
  ProducerSettings settings;
  settings.full_timeout = kForever;
  Producer producer = produce(settings);
  Child child("taker", {"3 7", "4"});
  ASSERT_EQ(child.receive(), "connected");
  publish_frames(producer, 0, 5000, 3000);
  ASSERT_TRUE(ok(producer.drain(kPatience)));
  EXPECT_GE(producer.stats().consumers.at(0).held, 2u);
  ASSERT_TRUE(ok(producer.end_of_stream()));
  const Report report = report_of(child.receive());
  EXPECT_EQ(report.taken, 5000u);
  EXPECT_EQ(report.skipped + report.copied + report.bad + report.missing + report.spoilt, 0u);
}

TEST_F(Processes, WhoKeepsEverythingGetsCopies) {
  ProducerSettings settings;
  settings.full_timeout = kForever;
  Producer producer = produce(settings);
  Child child("taker", {"all", "3"});
  ASSERT_EQ(child.receive(), "connected");
  publish_frames(producer, 0, 1000, 3000);
  ASSERT_TRUE(ok(producer.end_of_stream()));
  const Report report = report_of(child.receive());
  EXPECT_EQ(report.taken, 1000u);
  EXPECT_EQ(report.copied, 997u);
  EXPECT_EQ(report.skipped + report.bad + report.missing + report.spoilt, 0u);
}

TEST_F(Processes, OneKilledAndOneSuspendedDoNotHurtTheThird) {
  ProducerSettings settings;
  settings.full_timeout = kForever;
  settings.stall_timeout = 50ms;
  settings.linger = kForever;  // nothing is queued, so close() has nothing to linger for
  Producer producer = produce(settings);
  Child steady("taker", {"none", "4"});
  Child killed("taker", {"1 2 3 4", "4"});
  Child stopped("taker", {"none", "4"});
  ASSERT_EQ(steady.receive(), "connected");
  ASSERT_EQ(killed.receive(), "connected");
  ASSERT_EQ(stopped.receive(), "connected");
  publish_frames(producer, 0, 100, 5000);
  ASSERT_TRUE(ok(producer.drain(kPatience)));
  const auto held_by = [&](pid_t pid) {
    for (const ConsumerInfo& info : producer.stats().consumers) {
      if (info.pid == pid) return info.held;
    }
    return 0u;
  };
  EXPECT_TRUE(eventually([&] { return held_by(killed.pid()) == 4; }));
  const std::uint64_t all = producer.stats().slots - 1;  // the newest frame stays
  EXPECT_TRUE(eventually([&] { return free_slots(producer) == all - 4; }))
      << free_slots(producer) << " of " << all << " slots";
  killed.kill_now();
  publish_frames(producer, 100, 1000, 5000);
  EXPECT_TRUE(eventually([&] { return producer.num_consumers() == 2; }));
  ASSERT_TRUE(ok(producer.drain(kPatience)));
  EXPECT_TRUE(eventually([&] { return free_slots(producer) == all; }))
      << free_slots(producer) << " of " << all << " slots";
  stopped.stop();
  publish_frames(producer, 1100, 1000, 5000);
  EXPECT_EQ(producer.stats().demotions, 1u);
  ASSERT_TRUE(ok(producer.end_of_stream()));
  const Report report = report_of(steady.receive());
  EXPECT_EQ(report.taken, 2100u);
  EXPECT_EQ(report.skipped + report.bad + report.missing, 0u);
  producer.close();
  stopped.go_on();
  const Report late = report_of(stopped.receive());
  EXPECT_EQ(late.taken + late.skipped, 2100u);
  EXPECT_EQ(late.bad + late.missing, 0u);
}

TEST_F(Processes, KilledInTheMiddleOfTakingHurtsNobody) {
  ProducerSettings settings;
  settings.full_timeout = kForever;
  settings.stall_timeout = kForever;
  Producer producer = produce(settings);
  Child steady("taker", {"none", "4"});
  ASSERT_EQ(steady.receive(), "connected");
  std::uint64_t frame = 0;
  for (int round = 0; round < 20; ++round) {
    Child victim("taker", {round % 2 == 0 ? "none" : "all", "4"});
    ASSERT_EQ(victim.receive(), "connected");
    std::thread killer([&] {
      std::this_thread::sleep_for(std::chrono::microseconds(300 * round));
      kill(victim.pid(), SIGKILL);
    });
    for (int i = 0; i < 300; ++i) publish_frames(producer, frame++, 1, 2000);
    killer.join();
  }
  ASSERT_TRUE(ok(producer.drain(kPatience)));
  EXPECT_TRUE(eventually([&] { return producer.num_consumers() == 1; }));
  const std::uint64_t all = producer.stats().slots - 1;
  EXPECT_TRUE(eventually([&] { return free_slots(producer) == all; }));
  ASSERT_TRUE(ok(producer.end_of_stream()));
  const Report report = report_of(steady.receive());
  EXPECT_EQ(report.taken, 6000u);
  EXPECT_EQ(report.skipped + report.bad + report.missing, 0u);
}

TEST_F(Processes, AProducerThatIsKilledTenTimesLosesAndRepeatsNothing) {
  Consumer consumer = consume();
  SharedCount published(directory_.path() + "/published");
  const auto descriptors = [] {
    return std::distance(std::filesystem::directory_iterator("/proc/self/fd"), std::filesystem::directory_iterator{});
  };
  std::ptrdiff_t before = 0;
  for (std::uint32_t generation = 1; generation <= 10; ++generation) {
    Child child("publisher", {std::to_string(generation), directory_.path() + "/published"});
    std::uint64_t next = 0;
    bool dead = false;
    for (;;) {
      auto frame = consumer.take(dead ? 200ms : 2s);
      if (!frame && frame.error().code == Code::kTimeout) {
        if (dead) break;
        continue;
      }
      ASSERT_TRUE(ok(frame)) << "generation " << generation;
      ASSERT_EQ(frame->type_id(), generation) << "stale";
      ASSERT_EQ(frame->seq(), next++);
      ASSERT_TRUE(is_frame(frame->bytes(), frame->seq()));
      if (!dead && next == 100 + 37 * generation) {
        child.kill_now();
        dead = true;
      }
    }
    EXPECT_GE(next, (*published).load()) << "published before the kill, and lost";
    if (generation == 1) before = descriptors();
  }
  EXPECT_EQ(consumer.stats().connections, 10u);
  EXPECT_EQ(consumer.stats().skipped, 0u);
  EXPECT_TRUE(eventually([&] { return descriptors() <= before; })) << before << " -> " << descriptors();
}

class ForkedChild : public LaneTest, public ::testing::WithParamInterface<Transport> {
 protected:
  ForkedChild() { prctl(PR_SET_CHILD_SUBREAPER, 1); }
  [[nodiscard]] static Arguments arguments() { return {std::string(to_string(GetParam()))}; }
};

TEST_P(ForkedChild, DoesNotHideTheProducersDeath) {
  Consumer consumer = consume({.lane = "lane", .reconnect = false, .transport = GetParam()});
  Child child("forker", arguments());
  ASSERT_TRUE(ok(consumer.connect(kPatience)));
  const pid_t grandchild = std::stoi(child.receive());
  take_frames(consumer, 0, 3);
  child.kill_now();
  take_frames(consumer, 3, 2);
  EXPECT_TRUE(fails_with(consumer.take(kPatience), Code::kPeerLost));
  EXPECT_EQ(kill(grandchild, 0), 0) << "it still keeps the socket open";
  // And where nobody will answer, nobody waits for an answer.
  Consumer late = consume({.lane = "lane", .connect_timeout = 300ms, .transport = GetParam()});
  EXPECT_TRUE(fails_with(late.connect(kPatience), Code::kNotFound, "a child that it forked keeps its socket open"));
  Producer next = produce({.lane = "lane", .transport = GetParam()});  // nor does it keep the lane
  EXPECT_TRUE(ok(join({.lane = "lane", .transport = GetParam()}).connect(kPatience)));
  kill_and_reap(grandchild);
}

TEST_P(ForkedChild, DoesNotHideTheConsumersDeath) {
  Producer producer =
      produce({.lane = "lane", .full_timeout = kPatience, .stall_timeout = kForever, .transport = GetParam()});
  Child child("taking forker", arguments());
  ASSERT_TRUE(ok(producer.wait_for_consumers(1, kPatience)));
  publish_frames(producer, 0, 1);
  const pid_t grandchild = std::stoi(child.receive());
  child.kill_now();
  publish_frames(producer, 1, 100, 100'000);  // more than a socket holds
  EXPECT_TRUE(eventually([&] { return producer.num_consumers() == 0; }));
  EXPECT_EQ(kill(grandchild, 0), 0) << "it still keeps the socket open";
  kill_and_reap(grandchild);
}

INSTANTIATE_TEST_SUITE_P(Over, ForkedChild, ::testing::Values(Transport::kShm, Transport::kUds),
                         [](const auto& param) { return std::string(to_string(param.param)); });

TEST_F(Processes, AFlushAndARequestCross) {
  Producer producer = produce();
  Child child("say_items");
  ASSERT_EQ(child.receive(), "connected");
  publish_frames(producer, 0, 5);
  ASSERT_EQ(child.receive(), "0");
  producer.flush_start();
  publish_frames(producer, 5, 1);
  ASSERT_TRUE(ok(producer.flush_stop()));
  publish_frames(producer, 6, 1);
  child.channel().send("ask");
  EXPECT_EQ(child.receive(), "start");
  EXPECT_EQ(child.receive(), "stop");
  EXPECT_EQ(child.receive(), "6");
  std::vector<ConsumerRequest> asked;
  ASSERT_TRUE(eventually([&] {
    asked = producer.take_requests();
    return !asked.empty();
  }));
  EXPECT_EQ(asked[0].request, format::Request{});
  ASSERT_TRUE(ok(producer.end_of_stream()));
  child.channel().send("go on");
  EXPECT_EQ(child.receive(), "end");
  EXPECT_EQ(child.wait(), 0);
}

TEST_F(Processes, AFlushEndsForWhoStoodStill) {
  ProducerSettings settings;
  settings.full_timeout = kForever;
  settings.stall_timeout = kForever;
  Producer producer = produce(settings);
  Child child("say_items");
  ASSERT_EQ(child.receive(), "connected");
  publish_frames(producer, 0, 8);
  ASSERT_EQ(child.receive(), "0");
  child.stop();
  for (std::uint64_t round = 1; round < 20; ++round) {
    ASSERT_TRUE(ok(producer.flush_stop()));  // waits for nobody
    publish_frames(producer, 8 * round, 8);
  }
  child.go_on();
  child.channel().send("go on");
  EXPECT_EQ(child.receive(), "start");
  std::string last;
  do {  // several flushes may be one, and no frame but the last ones comes
    last = child.receive();
  } while (last == "stop" || last == "start");
  EXPECT_EQ(last, "152");
}

TEST_F(Processes, ASecondProducerIsToldWhoHasTheLane) {
  Consumer consumer = consume();
  Child child("publisher", {"1", directory_.path() + "/published"});
  ASSERT_TRUE(ok(consumer.connect(kPatience)));
  const auto second = Producer::open({.lane = "lane"});
  EXPECT_TRUE(fails_with(second, Code::kInUse, "process " + std::to_string(child.pid()) + " ("));
  child.kill_now();
  EXPECT_TRUE(ok(Producer::open({.lane = "lane"}))) << "a stale socket is replaced";
}

}  // namespace
}  // namespace framelane::lane_test
