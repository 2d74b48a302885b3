// SPDX-License-Identifier: MIT
// A producer or a consumer dies at each named point of the library, and the others go on.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <regex>
#include <set>
#include <sstream>

#include <signal.h>
#include <sys/wait.h>

#include "crash_point.hpp"
#include "lane/lanes.hpp"
#include "lane/processes.hpp"
#include "points.hpp"
#include "shared.hpp"
#include "traffic.hpp"

namespace framelane::fault {
namespace {

using namespace std::chrono_literals;
using lane_test::Arguments;
using lane_test::Channel;
using lane_test::Child;
using lane_test::eventually;
using lane_test::kPatience;
using lane_test::ok;
using lane_test::RoleOf;

constexpr std::uint64_t kFrames = 360;       // of a producer: through all sizes
constexpr std::uint64_t kMostFrames = 3000;  // of one that shall die: what its point waits for has happened by then
constexpr std::uint32_t kLast = 2;           // the producer whose end of stream counts
constexpr unsigned kAmid = 25;               // the visit of a point that is in the middle of the traffic

unsigned transport_bit() {
  switch (lane_test::tested_transport()) {
    case Transport::kUds:
      return kUds;
    case Transport::kTcp:
      return kTcp;
    default:
      return kShm;
  }
}

// --- the producer of all scenes

ProducerSettings producer_settings(Scene scene) {
  const bool leaky = scene == Scene::kLeaky || scene == Scene::kLap;
  ProducerSettings settings;
  settings.burst = 4;
  settings.max_loans = 2;
  settings.leaky = leaky ? Leaky::kDownstream : Leaky::kNo;
  settings.full_timeout = kPatience;
  settings.stall_timeout = scene == Scene::kStall ? std::chrono::nanoseconds(150ms) : kForever;
  settings.spin = Spin::kOff;
  return settings;
}

std::size_t size_in(Scene scene, std::uint64_t number) {
  const bool large = scene == Scene::kLarge && number >= 20 && number < 60;
  return large ? std::size_t{1} << 20 : size_of(number);
}

/// One frame, and now and then what else a producer does.
Result<Published> produce_next(Producer& producer, Scene scene, const FrameId& id) {
  const std::uint64_t number = id.number;
  if (number % 30 == 7) {
    if (auto sent = producer.send(lane_test::event(format::EventType::kCustom, "between")); !sent)
      return tl::unexpected(sent.error());
  }
  if (number % 50 == 10) {
    auto unused = producer.loan(1000);
    if (!unused && unused.error().code != Code::kFull) return tl::unexpected(unused.error());
  }
  if (scene == Scene::kFlush && number % 40 == 20) {
    producer.flush_start();
    if (auto stopped = producer.flush_stop(); !stopped) return tl::unexpected(stopped.error());
  }
  if (number % 25 == 24) std::this_thread::sleep_for(300us);  // consumers fall asleep
  // A lane that never waits has no slots of a new size while two older ones are still being read.
  auto sent = publish_frame(producer, id, size_in(scene, number));
  for (int tries = 0; !sent && sent.error().code == Code::kFull && tries < 10'000; ++tries) {
    std::this_thread::sleep_for(1ms);
    sent = publish_frame(producer, id, size_in(scene, number));
  }
  return sent;
}

/// Arguments: its number, point, visit, scene, file of the count of what is published.
int be_producer(Channel& parent, const Arguments& arguments) {
  const auto self = static_cast<std::uint32_t>(std::stoul(arguments.at(0)));
  const auto scene = static_cast<Scene>(std::stoi(arguments.at(3)));
  die_at(arguments.at(1), static_cast<unsigned>(std::stoul(arguments.at(2))));
  const Shared<std::atomic<std::uint64_t>> published(arguments.at(4));
  published->store(0);
  Producer producer = lane_test::produce(producer_settings(scene));
  parent.send("open");
  if (!producer.wait_for_consumers(2, kPatience)) return 2;
  const std::uint64_t frames = self != kLast ? kMostFrames : kFrames;
  for (std::uint64_t number = 0; number < frames; ++number) {
    const auto sent = produce_next(producer, scene, {self, number});
    if (!sent || *sent != Published::kSent) return 3;
    published->store(number + 1);
  }
  if (self != kLast) return 0;
  if (!producer.end_of_stream()) return 4;
  static_cast<void>(parent.receive());  // somebody may come again for the end
  return 0;
}
const RoleOf kProducerRole("producer", be_producer);

// --- the consumer of all scenes

ConsumerSettings consumer_settings(Scene scene) {
  ConsumerSettings settings;
  settings.mode = scene == Scene::kLatest ? Mode::kLatest : Mode::kEvery;
  settings.spin = Spin::kOff;
  settings.connect_timeout = kPatience;
  return settings;
}

struct Totals {
  std::uint64_t taken = 0;
  std::uint64_t skipped = 0;
};

/// What a consumer does in its scene after frame `number`.
void dawdle(Consumer& consumer, Scene scene, std::uint64_t taken, bool& has_stalled) {
  if (taken % 20 == 19) std::this_thread::sleep_for(1ms);
  if ((scene == Scene::kLeaky || scene == Scene::kLatest) && taken % 10 == 9) std::this_thread::sleep_for(5ms);
  if (scene == Scene::kLarge && taken == 25) std::this_thread::sleep_for(100ms);  // until the socket is full
  if (scene != Scene::kStall || has_stalled || taken < 30) return;
  has_stalled = true;
  const auto until = std::chrono::steady_clock::now() + 1s;  // if the producer died, nobody tells us
  while (!consumer.stats().demoted && std::chrono::steady_clock::now() < until) std::this_thread::sleep_for(1ms);
}

/// The next item. Who waits holds nothing: then all slots can be counted.
Result<Item> next_item(Consumer& consumer, Account& account) {
  auto item = consumer.take_item(5ms);
  if (item || item.error().code != Code::kTimeout) return item;
  account.release_all();
  return consumer.take_item(kPatience);
}

/// Takes until the end of the stream, or, in kLeave, until a few frames are taken. True: the end.
Result<bool> take_some(Consumer& consumer, Scene scene, Account& account) {
  bool has_stalled = false;
  for (std::uint64_t taken = 0; scene != Scene::kLeave || taken < 15;) {
    auto item = next_item(consumer, account);
    if (!item && item.error().code == Code::kEndOfStream) return true;
    if (!item) return tl::unexpected(item.error());
    if (auto* const frame = std::get_if<Frame>(&*item)) {
      account.take(std::move(*frame));
      dawdle(consumer, scene, ++taken, has_stalled);
    } else if (std::get<format::Event>(*item).type == format::EventType::kFlushStop) {
      account.expect_gap();
    }
  }
  return false;
}

/// "fault" or a line of numbers for each producer.
std::string text_of(const Account& account, const Totals& totals) {
  if (!account.fault().empty()) return account.fault();
  std::ostringstream out;
  out << totals.taken << ' ' << totals.skipped;
  for (const auto& [producer, run] : account.runs())
    out << '\n'
        << producer << ' ' << run.first << ' ' << run.next << ' ' << run.taken << ' ' << run.skipped << ' '
        << run.missed;
  return out.str();
}

/// Arguments: point, visit, scene, whether it says that it is connected. Reports at the end of the stream.
int be_consumer(Channel& parent, const Arguments& arguments) {
  const auto scene = static_cast<Scene>(std::stoi(arguments.at(2)));
  die_at(arguments.at(0), static_cast<unsigned>(std::stoul(arguments.at(1))));
  if (scene == Scene::kLap) linger_at("T3: hold bit set", 3ms);
  Account account(3);
  Totals totals;
  for (bool ended = false; !ended;) {
    Consumer consumer = lane_test::consume(consumer_settings(scene));
    if (arguments.at(3) == "tells" && consumer.connect(kPatience)) parent.send("connected");
    const auto done = take_some(consumer, scene, account);
    if (!done) {
      parent.send(done.error().text);
      return 1;
    }
    ended = *done;
    totals.taken += consumer.stats().taken;
    totals.skipped += consumer.stats().skipped;
    consumer.close();
    account.release_all();  // in kLeave the connection lives as long as these
    account.expect_gap();
  }
  parent.send(text_of(account, totals));
  return 0;
}
const RoleOf kConsumerRole("consumer", be_consumer);

std::vector<std::string> consumer_arguments(Scene scene, const std::string& point = "", unsigned visit = 0) {
  return {point, std::to_string(visit), std::to_string(static_cast<int>(scene)), point.empty() ? "tells" : ""};
}

struct Report {
  Totals totals;  // as the Consumer counts
  std::map<std::uint32_t, Run> runs;
};

Report report_of(Child& consumer) {
  std::string text = consumer.receive();
  while (text == "connected") text = consumer.receive();
  Report report;
  std::istringstream in(text);
  in >> report.totals.taken >> report.totals.skipped;
  EXPECT_FALSE(in.fail()) << text;
  std::uint32_t producer = 0;
  for (Run run; in >> producer >> run.first >> run.next >> run.taken >> run.skipped >> run.missed;) {
    EXPECT_EQ(run.next - run.first, run.taken + run.skipped + run.missed) << text;
    report.runs[producer] = run;
  }
  EXPECT_EQ(consumer.wait(), 0);
  return report;
}

// --- tests

struct Kill {
  const Point* point;
  unsigned visit;
};

std::vector<Kill> kills(unsigned Point::*who) {
  std::vector<Kill> all;
  for (const Point& point : points()) {
    if ((point.*who & transport_bit()) == 0) continue;
    all.push_back({&point, 1});
    if (point.often) all.push_back({&point, kAmid});
  }
  return all;
}

std::string name_of(const ::testing::TestParamInfo<Kill>& info) {
  std::string name = info.param.point->name;
  for (char& letter : name) letter = std::isalnum(static_cast<unsigned char>(letter)) != 0 ? letter : '_';
  const Scene scene = info.param.point->scene;
  if (scene != Scene::kPlain) name += "_in_scene_" + std::to_string(static_cast<int>(scene));
  return name + (info.param.visit == 1 ? "" : "_amid");
}

bool has_ended(const Child& child) {
  siginfo_t info{};
  return waitid(P_PID, static_cast<id_t>(child.pid()), &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid != 0;
}

class Dies : public lane_test::LaneTest, public ::testing::WithParamInterface<Kill> {
 protected:
  [[nodiscard]] Scene scene() const { return GetParam().point->scene; }
  /// Whether every consumer gets every frame.
  [[nodiscard]] bool loses_nothing() const {
    return scene() != Scene::kLeaky && scene() != Scene::kLap && scene() != Scene::kFlush;
  }
  [[nodiscard]] std::vector<std::string> producer_arguments(std::uint32_t self) const {
    const bool deadly = self != kLast;
    return {std::to_string(self), deadly ? GetParam().point->name : "", std::to_string(GetParam().visit),
            std::to_string(static_cast<int>(scene())), count_file()};
  }
  [[nodiscard]] std::string count_file() const { return directory_.path() + "/published"; }
};

class ProducerDies : public Dies {};
class ConsumerDies : public Dies {};

void expect_frames_of_the_next(const Report& report, bool all) {
  ASSERT_TRUE(report.runs.contains(kLast));
  const Run& run = report.runs.at(kLast);
  EXPECT_EQ(run.next, kFrames);
  if (!all) return;
  EXPECT_EQ(run.first, 0u);
  EXPECT_EQ(run.taken, kFrames);
}

TEST_P(ProducerDies, AndItsConsumersGoOnWithTheNextOne) {
  const Shared<std::atomic<std::uint64_t>> published(count_file());
  Child deadly("producer", producer_arguments(1));
  static_cast<void>(deadly.channel().receive());  // "open", unless it died before
  Child steady("consumer", consumer_arguments(scene() == Scene::kFlush ? Scene::kFlush : Scene::kPlain));
  Child other("consumer", consumer_arguments(scene()));
  ASSERT_EQ(deadly.wait(), -SIGKILL) << "it never came to \"" << GetParam().point->name << '"';
  const std::uint64_t published_before = published->load();
  Child next("producer", producer_arguments(kLast));
  const Report report = report_of(steady);
  const Report others = report_of(other);
  next.channel().send("all is taken");
  EXPECT_EQ(next.wait(), 0);
  expect_frames_of_the_next(report, loses_nothing());
  if (scene() == Scene::kPlain) expect_frames_of_the_next(others, true);
  if (!loses_nothing()) return;
  EXPECT_EQ(report.totals.skipped, 0u);
  if (lane_test::is_stream() || published_before == 0) return;  // a relay dies with what it hasn't sent
  ASSERT_TRUE(report.runs.contains(1));
  EXPECT_EQ(report.runs.at(1).first, 0u);
  EXPECT_GE(report.runs.at(1).next, published_before) << "published, and lost";
}

/// A producer in this process, and what it has published.
class Publishing {
 public:
  explicit Publishing(Scene scene) : scene_(scene), producer_(lane_test::produce(producer_settings(scene))) {}

  void publish(std::uint64_t count) {
    for (const std::uint64_t until = number_ + count; number_ < until; ++number_) {
      const auto sent = produce_next(producer_, scene_, {kLast, number_});
      ASSERT_TRUE(ok(sent));
      ASSERT_EQ(*sent, Published::kSent);
    }
  }
  [[nodiscard]] std::uint64_t published() const noexcept { return number_; }
  [[nodiscard]] Producer& operator*() noexcept { return producer_; }
  [[nodiscard]] Producer* operator->() noexcept { return &producer_; }

  /// All slots but that of the newest frame, which stays in the ring; none is lent.
  [[nodiscard]] bool has_all_slots() {
    std::vector<std::uint16_t> none;
    producer_.reclaimed(none);
    const ProducerStats stats = producer_.stats();
    return stats.loans == 0 && stats.free_slots == stats.slots - (size_in(scene_, number_ - 1) > 32 ? 1 : 0);
  }

 private:
  Scene scene_;
  Producer producer_;
  std::uint64_t number_ = 0;
};

void publish_until_dead(Publishing& lane, const Child& child) {
  const auto until = std::chrono::steady_clock::now() + kPatience;
  while (!has_ended(child) && std::chrono::steady_clock::now() < until) lane.publish(1);
}

void expect_every_slot(Publishing& lane) {
  ASSERT_TRUE(ok(lane->drain(kPatience)));
  EXPECT_TRUE(eventually([&] { return lane.has_all_slots(); }))
      << lane->stats().free_slots << " of " << lane->stats().slots << " slots, " << lane->stats().loans << " loans";
  std::vector<Loan> loans;
  for (int i = 0; i < 2; ++i) {
    auto loan = lane->loan(1000);
    ASSERT_TRUE(ok(loan)) << "loan " << i;
    loans.push_back(std::move(*loan));
  }
}

TEST_P(ConsumerDies, AndTheOthersLoseNothing) {
  Publishing lane(scene());
  Child steady("consumer", consumer_arguments(scene() == Scene::kFlush ? Scene::kFlush : Scene::kPlain));
  ASSERT_TRUE(ok(lane->wait_for_consumers(1, kPatience)));
  Child deadly("consumer", consumer_arguments(scene(), GetParam().point->name, GetParam().visit));
  EXPECT_TRUE(eventually([&] { return lane->num_consumers() == 2 || has_ended(deadly); }));
  publish_until_dead(lane, deadly);
  ASSERT_TRUE(has_ended(deadly)) << "it never came to \"" << GetParam().point->name << '"';
  ASSERT_EQ(deadly.wait(), -SIGKILL);
  EXPECT_TRUE(eventually([&] { return lane->num_consumers() == 1; }));
  expect_every_slot(lane);

  Child again("consumer", consumer_arguments(Scene::kPlain));
  ASSERT_EQ(again.receive(), "connected");  // a number of consumers could be that of a dead one's late HELLO
  lane.publish(100);
  expect_every_slot(lane);
  ASSERT_TRUE(ok(lane->end_of_stream()));
  const Report report = report_of(steady);
  const Report restarted = report_of(again);
  EXPECT_EQ(lane->stats().published, lane.published());
  EXPECT_EQ(report.totals.taken + report.totals.skipped, lane.published());
  EXPECT_TRUE(report.totals.skipped == 0 || !loses_nothing()) << report.totals.skipped << " skipped";
  EXPECT_EQ(restarted.totals.taken + restarted.totals.skipped, 100u);
  EXPECT_EQ(restarted.runs.at(kLast).next, lane.published());
}

INSTANTIATE_TEST_SUITE_P(At, ProducerDies, ::testing::ValuesIn(kills(&Point::producer_dies)), name_of);
INSTANTIATE_TEST_SUITE_P(At, ConsumerDies, ::testing::ValuesIn(kills(&Point::consumer_dies)), name_of);

// --- the list

std::set<std::string> points_in_sources() {
  const std::regex point("FRAMELANE_CRASH_POINT\\(\"([^\"]+)\"\\)");
  std::set<std::string> names;
  for (const auto& file : std::filesystem::recursive_directory_iterator(FRAMELANE_SOURCES)) {
    if (file.path().extension() != ".cpp" && file.path().extension() != ".hpp") continue;
    std::stringstream text;
    text << std::ifstream(file.path()).rdbuf();
    const std::string source = text.str();
    for (std::sregex_iterator found(source.begin(), source.end(), point), end; found != end; ++found) {
      EXPECT_TRUE(names.insert((*found)[1]).second) << (*found)[1] << " stands in the sources twice";
    }
  }
  return names;
}

TEST(Points, OfTheSourcesAreThoseOfTheList) {
  std::set<std::string> listed;
  for (const Point& point : points()) {
    listed.insert(point.name);
    EXPECT_NE(point.producer_dies | point.consumer_dies, 0u) << "nobody dies at \"" << point.name << '"';
  }
  EXPECT_EQ(listed, points_in_sources());
}

}  // namespace
}  // namespace framelane::fault
