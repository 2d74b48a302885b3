// SPDX-License-Identifier: MIT
// Observers: what they are told, that they change nothing, and that neither side can hurt the other.
#include "framelane/lane/observer.hpp"

#include <functional>
#include <mutex>
#include <optional>
#include <set>

#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "processes.hpp"
#include "raw_peer.hpp"
#include "transport/lane_files.hpp"

namespace framelane::lane_test {
namespace {

/// Publishes a frame each ms until it is killed.
int publish_on(Channel& parent, const Arguments& arguments) {
  ProducerSettings settings;
  settings.lane = arguments.at(0);
  auto producer = Producer::open(settings);
  if (!producer) return 1;
  parent.send(producer->descriptor());
  for (std::uint64_t frame = 0;; ++frame) {
    if (!publish(*producer, frame)) return 2;
    std::this_thread::sleep_for(1ms);
  }
}
const RoleOf publish_on_role("publish_on", publish_on);

class Observing : public LaneTest {
 protected:
  [[nodiscard]] static Observer observe(const std::string& lane = "lane") {
    auto observer = Observer::connect(lane);
    if (!observer) throw std::runtime_error(observer.error().text);
    return std::move(*observer);
  }
  [[nodiscard]] static LaneStats stats_of(Observer& observer) {
    auto stats = observer.stats(kPatience);
    if (!stats) throw std::runtime_error(stats.error().text);
    return std::move(*stats);
  }
  [[nodiscard]] std::string path(const std::string& lane = "lane") const { return directory_.path() + "/" + lane; }
};

// --- what is told

TEST_F(Observing, TellsWhatTheLaneIs) {
  ProducerSettings settings;
  settings.burst = 5;
  settings.leaky = Leaky::kDownstream;
  settings.max_consumers = 7;
  Producer producer = produce(settings);
  ASSERT_TRUE(ok(producer.set_caps("video/x-raw, width=640")));
  publish_frames(producer, 0, 3, 1000);
  Observer observer = observe();
  const LaneStats stats = stats_of(observer);
  EXPECT_EQ(stats.lane, "lane");
  EXPECT_EQ(stats.descriptor, producer.descriptor());
  EXPECT_EQ(stats.pid, getpid());
  EXPECT_FALSE(stats.program.empty());
  EXPECT_EQ(stats.caps, "video/x-raw, width=640");
  EXPECT_EQ(stats.burst, 5u);
  EXPECT_EQ(stats.leaky, Leaky::kDownstream);
  EXPECT_EQ(stats.max_consumers, 7u);
  EXPECT_GE(stats.slot_size, 1000u);
  EXPECT_EQ(stats.slots, producer.stats().slots);
  EXPECT_EQ(stats.published, 3u);
  EXPECT_EQ(stats.bytes, 3000u);
  EXPECT_EQ(producer.stats().bytes, 3000u);
  EXPECT_FALSE(stats.ended);
  EXPECT_TRUE(stats.consumers.empty());
  EXPECT_GT(stats.opened_ns, 0);
  EXPECT_GT(stats.at_ns, stats.opened_ns);
}

TEST_F(Observing, TellsHowAConsumerDoes) {
  Producer producer = produce();
  ConsumerSettings settings;
  settings.max_held = 2;
  Consumer consumer = join(settings);
  publish_frames(producer, 0, 5);
  const auto first = consumer.take(kPatience);
  const auto second = consumer.take(kPatience);
  ASSERT_TRUE(first && second);
  Observer observer = observe();
  const LaneStats stats = stats_of(observer);
  ASSERT_EQ(stats.consumers.size(), 1u);
  const ConsumerInfo& info = stats.consumers[0];
  EXPECT_EQ(info.pid, getpid());
  EXPECT_EQ(info.uid, geteuid());
  EXPECT_EQ(info.transport, Transport::kShm);
  EXPECT_TRUE(info.gating);
  EXPECT_FALSE(info.demoted);
  EXPECT_EQ(info.taken, 2u);
  EXPECT_EQ(info.lag, 3u);
  EXPECT_EQ(stats.unread, 3u);
  EXPECT_EQ(info.held, 2u);
  EXPECT_EQ(info.max_held, 2u);
  EXPECT_EQ(info.latency.count, 2u);
  EXPECT_LE(info.latency.p50_ns, info.latency.max_ns);
  const ConsumerInfo own = producer.stats().consumers.at(0);
  EXPECT_EQ(own.lag, 3u);
  EXPECT_EQ(own.latency.max_ns, info.latency.max_ns) << "both are told the same";
}

TEST_F(Observing, TellsLagAndLossAcrossManyTurnsOfTheRing) {
  ProducerSettings settings;
  settings.leaky = Leaky::kDownstream;
  Producer producer = produce(settings);
  Consumer slow = join();
  Observer observer = observe();
  for (std::uint64_t turn = 0; turn < 40; ++turn) {
    publish_frames(producer, turn * 100, 100);
    const LaneStats stats = stats_of(observer);
    ASSERT_EQ(stats.consumers.size(), 1u);
    EXPECT_GE(stats.consumers[0].lag, 8u) << "the burst is there";
    EXPECT_LE(stats.consumers[0].lag, 100u);
    EXPECT_EQ(stats.consumers[0].taken + stats.passed_over + stats.consumers[0].lag, stats.published);
    while (slow.take(0ns)) {
    }
    ASSERT_TRUE(eventually([&] { return stats_of(observer).consumers.at(0).lag == 0; }));
  }
}

TEST_F(Observing, TellsWhoSleepsAndWhoSpins) {
  Producer producer = produce();
  std::atomic<bool> stop{false};
  std::thread sleeper([&] {
    ConsumerSettings settings;
    settings.spin = Spin::kOff;
    Consumer consumer = join(settings);
    while (!stop) static_cast<void>(consumer.take(20ms));
  });
  Observer observer = observe();
  EXPECT_TRUE(eventually([&] {
    const LaneStats stats = stats_of(observer);
    return stats.consumers.size() == 1 && stats.consumers[0].sleeping && stats.consumers[0].sleeps > 0;
  }));
  EXPECT_EQ(stats_of(observer).consumers.at(0).spins, 0u);
  stop = true;
  sleeper.join();
  std::thread spinner([&] {
    ConsumerSettings settings;
    settings.spin = Spin::kBusy;
    Consumer consumer = join(settings);
    static_cast<void>(consumer.take(kPatience));
    while (stop) std::this_thread::sleep_for(1ms);
  });
  EXPECT_TRUE(eventually([&] { return producer.num_consumers() == 1; }));
  std::this_thread::sleep_for(20ms);  // it waits by then, and if it doesn't the next frames will do
  std::uint64_t frame = 0;
  EXPECT_TRUE(eventually([&] {
    publish_frames(producer, frame++, 1);
    const LaneStats stats = stats_of(observer);
    return stats.consumers.size() == 1 && stats.consumers[0].taken > 0;
  }));
  EXPECT_GT(stats_of(observer).consumers.at(0).spins, 0u);
  EXPECT_EQ(stats_of(observer).consumers.at(0).sleeps, 0u);
  stop = false;
  spinner.join();
}

TEST_F(Observing, TellsHowEachConsumersFramesTravel) {
  ProducerSettings settings;
  settings.lane = "lane.shm://" + path() + ",lane.uds://" + path() + ",lane.tcp://127.0.0.1:0/lane";
  auto producer = Producer::open(settings);
  ASSERT_TRUE(ok(producer));
  std::vector<Consumer> consumers;
  for (const Transport transport : {Transport::kShm, Transport::kUds, Transport::kTcp}) {
    ConsumerSettings wish;
    wish.lane = producer->descriptor();
    wish.transport = transport;
    auto consumer = Consumer::open(wish);
    ASSERT_TRUE(ok(consumer));
    ASSERT_TRUE(ok(consumer->connect(kPatience)));
    consumers.push_back(std::move(*consumer));
  }
  Observer observer = observe();
  std::map<Transport, std::string> seen;
  for (const ConsumerInfo& info : stats_of(observer).consumers) seen[info.transport] = info.address;
  EXPECT_EQ(seen.size(), 3u);
  EXPECT_EQ(seen[Transport::kShm], "");
  EXPECT_NE(seen[Transport::kTcp].find("127.0.0.1"), std::string::npos) << seen[Transport::kTcp];
}

TEST_F(Observing, LongCapsAreCut) {
  Producer producer = produce();
  ASSERT_TRUE(ok(producer.set_caps("video/x-raw, note=" + std::string(100'000, 'x'))));
  Observer observer = observe();
  const LaneStats stats = stats_of(observer);
  EXPECT_EQ(stats.caps.size(), 4096u);
  EXPECT_EQ(stats.caps.substr(4093), "...");
}

// --- it changes nothing

TEST_F(Observing, IsNoConsumer) {
  ProducerSettings settings;
  settings.max_consumers = 1;
  Producer producer = produce(settings);
  Observer observer = observe();
  static_cast<void>(stats_of(observer));
  EXPECT_EQ(producer.num_consumers(), 0u);
  EXPECT_TRUE(producer.stats().consumers.empty());
  Consumer consumer = join();
  publish_frames(producer, 0, 8);
  take_frames(consumer, 0, 8);
  EXPECT_EQ(stats_of(observer).consumers.size(), 1u);
}

TEST_F(Observing, IsAnsweredWhileAPublishWaitsForRoom) {
  ProducerSettings settings;
  settings.burst = 2;
  settings.full_timeout = kForever;
  settings.stall_timeout = kForever;
  Producer producer = produce(settings);
  Consumer consumer = join();
  publish_frames(producer, 0, 2);
  std::thread publisher([&] { publish_frames(producer, 2, 1); });
  Observer observer = observe();
  EXPECT_TRUE(eventually([&] { return stats_of(observer).full_waits == 1; }));
  const LaneStats stats = stats_of(observer);
  EXPECT_EQ(stats.unread, stats.burst) << "full";
  EXPECT_EQ(stats.published, 2u);
  take_frames(consumer, 0, 3);
  publisher.join();
}

TEST_F(Observing, ManyWatchATornStreamAtOnce) {
  Producer producer = produce();
  Consumer consumer = join();
  std::atomic<bool> stop{false};
  std::vector<std::thread> watchers;
  std::atomic<int> answers{0};
  for (int i = 0; i < 3; ++i) {
    watchers.emplace_back([&] {
      Observer observer = observe();
      std::uint64_t published = 0;
      while (!stop) {
        const LaneStats stats = stats_of(observer);
        EXPECT_GE(stats.published, published);
        published = stats.published;
        EXPECT_LE(stats.unread, stats.burst) << "what passed during the look doesn't count";
        ++answers;
      }
    });
  }
  std::uint64_t frame = 0;
  const std::int64_t deadline = base::deadline_after(kPatience);
  while (answers < 30 && base::monotonic_ns() < deadline) {
    publish_frames(producer, frame, 8);
    take_frames(consumer, frame, 8);
    frame += 8;
  }
  stop = true;
  for (std::thread& watcher : watchers) watcher.join();
  EXPECT_GE(answers, 30);
  EXPECT_EQ(producer.stats().dropped_full, 0u);
  EXPECT_EQ(consumer.stats().skipped, 0u);
}

// --- coming and going

TEST_F(Observing, NoLaneIsNotFound) {
  EXPECT_TRUE(fails_with(Observer::connect("lane"), Code::kNotFound));
  EXPECT_TRUE(fails_with(Observer::connect("not a lane"), Code::kInvalidArgument));
}

TEST_F(Observing, ALaneThatOnlyListensOnTcpCannotBeObserved) {
  EXPECT_TRUE(fails_with(Observer::connect("lane.tcp://127.0.0.1:7411/lane"), Code::kUnsupported, "control socket"));
}

TEST_F(Observing, AnAddressBesideTcpIsTaken) {
  Producer producer = produce();
  EXPECT_TRUE(ok(Observer::connect("lane.tcp://127.0.0.1:7411/lane,lane.uds://" + path())));
}

TEST_F(Observing, AProducerThatClosesIsLost) {
  std::optional<Producer> producer = produce();
  Observer observer = observe();
  static_cast<void>(stats_of(observer));
  producer.reset();
  EXPECT_TRUE(fails_with(observer.stats(kPatience), Code::kPeerLost));
}

TEST_F(Observing, AProducerThatDiesIsLost) {
  Child child("publish_on", {"lane"});
  ASSERT_NE(child.receive().find("lane"), std::string::npos);
  Observer observer = observe();
  EXPECT_EQ(stats_of(observer).pid, child.pid());
  child.kill_now();
  EXPECT_TRUE(fails_with(observer.stats(kPatience), Code::kPeerLost));
}

TEST_F(Observing, AProducerThatIsStoppedDoesNotAnswerUntilItGoesOn) {
  Child child("publish_on", {"lane"});
  ASSERT_NE(child.receive().find("lane"), std::string::npos);
  Observer observer = observe();
  static_cast<void>(stats_of(observer));
  child.stop();
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(fails_with(observer.stats(20ms), Code::kTimeout, "does not answer"));
  auto another = Observer::connect("lane");
  ASSERT_TRUE(ok(another)) << "the backlog takes it";
  EXPECT_TRUE(fails_with(another->stats(20ms), Code::kTimeout));
  child.go_on();
  std::this_thread::sleep_for(50ms);  // what was asked before is answered by now
  const std::int64_t before = base::monotonic_ns();
  EXPECT_GE(stats_of(observer).at_ns, before) << "an answer to now, not to the one that gave up";
  EXPECT_GE(stats_of(*another).at_ns, before);
}

TEST_F(Observing, AnAnswerThatCameTooLateIsNotTakenForTheNext) {
  Child child("publish_on", {"lane"});
  ASSERT_NE(child.receive().find("lane"), std::string::npos);
  Observer observer = observe();
  child.stop();
  EXPECT_TRUE(fails_with(observer.stats(5ms), Code::kTimeout));
  child.go_on();
  std::this_thread::sleep_for(100ms);  // the late answer lies in the socket
  const std::int64_t now = base::monotonic_ns();
  EXPECT_GE(stats_of(observer).at_ns, now);
}

TEST_F(Observing, ManyLanesAreAskedAtOnce) {
  std::vector<Producer> producers;
  std::vector<Observer> observers;
  for (const char* const name : {"a", "b", "c"}) {
    ProducerSettings settings;
    settings.lane = name;
    producers.push_back(produce(settings));
    observers.push_back(observe(name));
  }
  // All were asked before the first answer is read: in some turn all answers are older than the reading of the first.
  EXPECT_TRUE(eventually([&] {
    for (Observer& observer : observers) EXPECT_TRUE(ok(observer.ask()));
    std::this_thread::sleep_for(10ms);
    const std::int64_t reading_ns = base::monotonic_ns();
    bool all_answered = true;
    for (std::size_t i = 0; i < observers.size(); ++i) {
      const LaneStats stats = stats_of(observers[i]);
      EXPECT_EQ(stats.lane, std::string(1, static_cast<char>('a' + static_cast<int>(i))));
      all_answered = all_answered && stats.at_ns < reading_ns;
    }
    return all_answered;
  }));
}

// --- finding

/// A listening socket of `type` that is no lane.
base::UniqueFd listen_at(const std::string& path, int type) {
  base::UniqueFd fd(socket(AF_UNIX, type | SOCK_CLOEXEC, 0));
  const auto address = transport::unix_address(path);
  EXPECT_EQ(bind(fd.get(), reinterpret_cast<const sockaddr*>(&*address), sizeof *address), 0);
  EXPECT_EQ(listen(fd.get(), 1), 0);
  return fd;
}

TEST_F(Observing, FindsLanesAndSaysWhatBecameOfThem) {
  ProducerSettings settings;
  settings.lane = "cam1";
  const Producer first = produce(settings);
  settings.lane = "cam0";
  const Producer second = produce(settings);
  {
    Child child("publish_on", {"dead"});
    ASSERT_NE(child.receive().find("dead"), std::string::npos);
    child.kill_now();
  }
  const auto foreign = listen_at(path("other"), SOCK_STREAM);
  std::ofstream(path("file")) << "no socket";
  ASSERT_EQ(symlink(path("cam0").c_str(), path("link").c_str()), 0);
  const auto lanes = find_lanes();
  ASSERT_TRUE(ok(lanes));
  std::string text;
  for (const FoundLane& lane : *lanes) text += lane.name + " " + std::string(to_string(lane.state)) + "\n";
  EXPECT_EQ(text, "cam0 alive\ncam1 alive\ndead stale\nother foreign\n");
  EXPECT_EQ((*lanes)[0].path, path("cam0"));
}

TEST_F(Observing, AFullBacklogIsBusy) {
  const auto silent = listen_at(path("silent"), SOCK_SEQPACKET);
  std::vector<transport::ControlSocket> waiting;
  while (true) {
    auto socket = transport::ControlSocket::connect(path("silent"));
    if (!socket) break;
    waiting.push_back(std::move(*socket));
  }
  const auto lanes = find_lanes();
  ASSERT_TRUE(ok(lanes));
  EXPECT_EQ(lanes->at(0).state, LaneState::kBusy);
  EXPECT_TRUE(fails_with(Observer::connect("silent"), Code::kTimeout));
}

TEST_F(Observing, LookingForLanesKeepsTheClaimOnOnesOwn) {
  const Producer producer = produce();
  ASSERT_TRUE(ok(find_lanes()));
  Child child("publish_on", {"lane"});  // the lock is a record lock: a close of the file here would have ended it
  EXPECT_EQ(child.wait(), std::optional<int>(1)) << "a second producer got the lane";
}

TEST_F(Observing, ADirectoryThatIsNotThereHasNoLanes) {
  const auto lanes = find_lanes(path("nowhere"));
  ASSERT_TRUE(ok(lanes));
  EXPECT_TRUE(lanes->empty());
}

TEST_F(Observing, ADirectoryOfOthersIsNotRead) {
  ASSERT_EQ(chmod(directory_.path().c_str(), 0777), 0);
  EXPECT_TRUE(fails_with(find_lanes(), Code::kPermission, "chmod 700"));
  EXPECT_TRUE(fails_with(find_lanes("relative"), Code::kInvalidArgument, "absolute"));
}

// --- hostile observers

class RawObserver {
 public:
  explicit RawObserver(const std::string& path) : socket_(connect(path)) {
    wire::Hello hello;
    hello.role = wire::Role::kObserver;
    EXPECT_TRUE(socket_.send(wire::encode(hello, 0)).has_value());
  }
  [[nodiscard]] transport::ControlSocket& socket() noexcept { return socket_; }
  /// False: it is cut off, or nobody reads.
  bool say(const wire::Message& message) {
    const auto sent = socket_.send(wire::encode(message, 0));
    return sent && *sent == transport::SendOutcome::kSent;
  }
  /// Reads what the producer said until it ended the connection: the sentences of its REJECTs.
  [[nodiscard]] std::string heard_until_the_end() {
    std::string heard;
    for (;;) {
      const auto received = socket_.receive_until(patience_ns());
      if (!received) return heard + (received.error().code == Code::kPeerLost ? "" : received.error().text);
      const auto message = wire::decode(received->bytes);
      if (!message) return heard + message.error().text;
      if (const auto* const reject = std::get_if<wire::Reject>(&message->message)) heard += reject->sentence;
    }
  }

 private:
  static transport::ControlSocket connect(const std::string& path) {
    auto socket = transport::ControlSocket::connect(path);
    if (!socket) throw std::runtime_error(socket.error().text);
    return std::move(*socket);
  }
  transport::ControlSocket socket_;
};

class HostileObserver : public Observing {
 protected:
  HostileObserver() : producer_(produce()), consumer_(join()), honest_(observe()) {}

  void expect_unharmed() {
    publish_frames(producer_, 0, 8);
    take_frames(consumer_, 0, 8);
    // Not at once: an answer may be the copy that another observer got a moment ago.
    EXPECT_TRUE(eventually([this] { return stats_of(honest_).published == 8; }));
    EXPECT_EQ(stats_of(honest_).evictions, 0u);
    EXPECT_EQ(producer_.num_consumers(), 1u);
  }

  Producer producer_;
  Consumer consumer_;
  Observer honest_;
};

TEST_F(HostileObserver, OneThatFloodsIsCutOff) {
  RawObserver hostile(path());
  std::thread reader(
      [&] { EXPECT_NE(hostile.heard_until_the_end().find("more than 100 times a second"), std::string::npos); });
  const std::int64_t until = patience_ns();
  while (base::monotonic_ns() < until) {
    const auto sent = hostile.socket().send(wire::encode(wire::StatsRequest{}, 0));
    if (!sent) break;
  }
  reader.join();
  expect_unharmed();
}

TEST_F(HostileObserver, OneThatNeverReadsIsCutOff) {
  RawObserver hostile(path());
  const int small = 1;
  ASSERT_EQ(setsockopt(hostile.socket().fd(), SOL_SOCKET, SO_RCVBUF, &small, sizeof small), 0);
  // No faster than an honest one.
  EXPECT_TRUE(eventually([&] {
    std::this_thread::sleep_for(11ms);
    return !hostile.socket().send(wire::encode(wire::StatsRequest{}, 0)).has_value();
  }));
  expect_unharmed();
}

TEST_F(HostileObserver, MessagesOfOthersAreNotTakenFromIt) {
  for (const wire::Message& message :
       {wire::Message(wire::RequestMessage{}), wire::Message(wire::Stats{}), wire::Message(wire::EventMessage{}),
        wire::Message(wire::Hello{}), wire::Message(wire::FrameMessage{})}) {
    RawObserver hostile(path());
    EXPECT_TRUE(hostile.say(message));
    EXPECT_EQ(hostile.heard_until_the_end(), "");
  }
  expect_unharmed();
}

TEST_F(HostileObserver, GarbageAndDescriptorsEndItsConnection) {
  RawObserver garbage(path());
  const char noise[] = "this is no message at all, but long enough for a header";
  ASSERT_GT(send(garbage.socket().fd(), noise, sizeof noise, MSG_NOSIGNAL), 0);
  EXPECT_EQ(garbage.heard_until_the_end(), "");
  RawObserver giver(path());
  const int fd = garbage.socket().fd();
  const auto given = giver.socket().send(wire::encode(wire::StatsRequest{}, 0), {&fd, 1});
  if (given.has_value()) {  // newer kernels refuse to send it
    EXPECT_EQ(giver.heard_until_the_end(), "");
  }
  expect_unharmed();
}

TEST_F(HostileObserver, SoManyMayWatchAndNoMore) {
  std::vector<Observer> watching;
  for (int i = 0; i < 15; ++i) {
    watching.push_back(observe());
    static_cast<void>(stats_of(watching.back()));
  }
  Observer surplus = observe();
  EXPECT_TRUE(fails_with(surplus.stats(kPatience), Code::kRefused, "16 observers"));
  watching.pop_back();
  EXPECT_TRUE(eventually([&] {
    Observer again = observe();
    return again.stats(kPatience).has_value();
  }));
  expect_unharmed();
}

TEST_F(Observing, OneWhoMayNotJoinMayNotWatch) {
  ProducerSettings settings;
  settings.authorize = [](const PeerInfo&) { return Admission::kRefused; };
  const Producer producer = produce(settings);
  Observer observer = observe();
  EXPECT_TRUE(fails_with(observer.stats(kPatience), Code::kPermission));
}

// --- hostile producers

/// Answers a HELLO with whatever the test wants to say.
class LyingProducer : public transport::HelloHandler {
 public:
  using Say = std::function<void(transport::ControlSocket&)>;
  LyingProducer(const std::string& directory, Say say) : say_(std::move(say)) {
    auto files = transport::LaneFiles::claim(directory, "lane");
    if (!files) throw std::runtime_error(files.error().text);
    auto server = transport::ControlServer::start(std::move(*files), *this);
    if (!server) throw std::runtime_error(server.error().text);
    server_ = std::move(*server);
  }
  void on_hello(transport::ControlSocket&& socket, const wire::Hello& hello,
                const transport::PeerCredentials&) override {
    EXPECT_EQ(hello.role, wire::Role::kObserver);
    socket_.emplace(std::move(socket));
    say_(*socket_);
  }

 private:
  Say say_;
  std::optional<transport::ControlSocket> socket_;
  std::unique_ptr<transport::ControlServer> server_;
};

class LiedTo : public Observing {
 protected:
  void expect_error(Code code, std::string_view words, LyingProducer::Say say) {
    const LyingProducer producer(directory_.path(), std::move(say));
    Observer observer = observe();
    Result<LaneStats> stats = observer.stats(kPatience);
    for (int i = 0; i < 20 && stats; ++i) stats = observer.stats(kPatience);
    EXPECT_TRUE(fails_with(stats, code, words));
  }
  static LyingProducer::Say message(const wire::Message& message) {
    return [message](transport::ControlSocket& socket) { static_cast<void>(socket.send(wire::encode(message, 0))); };
  }
};

TEST_F(LiedTo, GarbageIsNamed) {
  expect_error(Code::kProtocol, "magic", [](transport::ControlSocket& socket) {
    const char noise[] = "this is no message at all, but long enough for a header";
    static_cast<void>(send(socket.fd(), noise, sizeof noise, MSG_NOSIGNAL));
  });
}

TEST_F(LiedTo, AnotherAnswerIsNone) {
  expect_error(Code::kProtocol, "no STATS", [](transport::ControlSocket& socket) {
    // Not before it is asked: it would be thrown away.
    std::thread([fd = dup(socket.fd())] {
      transport::ControlSocket late(base::UniqueFd(fd), transport::AcceptFds::kNo);
      if (!late.receive_until(patience_ns())) return;
      static_cast<void>(late.send(wire::encode(wire::Leave{}, 0)));
    }).detach();
  });
}

TEST_F(LiedTo, ABrokenAnswerNamesTheField) {
  wire::Stats stats;
  stats.consumers.resize(2);
  auto bytes = wire::encode(stats, 0);
  bytes.resize(bytes.size() - 1);
  bytes[16] = static_cast<std::byte>(static_cast<int>(bytes[16]) - 1);
  expect_error(Code::kProtocol, "consumers[1].latency", [bytes](transport::ControlSocket& socket) {
    static_cast<void>(send(socket.fd(), bytes.data(), bytes.size(), MSG_NOSIGNAL));
  });
}

TEST_F(LiedTo, AnswersWithoutEndAreAnError) {
  expect_error(Code::kProtocol, "nobody asked for", [](transport::ControlSocket& socket) {
    for (int i = 0; i < 100; ++i) static_cast<void>(socket.send(wire::encode(wire::Stats{}, 0)));
  });
}

TEST_F(LiedTo, DescriptorsAreNotTaken) {
  expect_error(Code::kProtocol, "descriptors", [](transport::ControlSocket& socket) {
    const int fd = socket.fd();
    static_cast<void>(socket.send(wire::encode(wire::Stats{}, 0), {&fd, 1}));
  });
}

TEST_F(LiedTo, ARefusalIsToldInItsWords) {
  expect_error(Code::kUnsupported, "older release",
               message(wire::Reject{wire::RejectCode::kUnsupported, "this producer answers no observers"}));
}

TEST_F(LiedTo, NumbersOfAnyKindAreHarmless) {
  wire::Stats stats;
  stats.consumers.resize(1);
  for (auto* number :
       {&stats.published, &stats.bytes, &stats.slot_size, &stats.consumers[0].lag, &stats.consumers[0].latency.p99_ns})
    *number = ~std::uint64_t{0};
  stats.pid = stats.consumers[0].pid = ~0u;
  stats.consumers[0].gating = true;
  const LyingProducer producer(directory_.path(), [stats](transport::ControlSocket& socket) {
    std::thread([stats, fd = dup(socket.fd())] {
      transport::ControlSocket late(base::UniqueFd(fd), transport::AcceptFds::kNo);
      if (!late.receive_until(patience_ns())) return;
      static_cast<void>(late.send(wire::encode(stats, 0)));
    }).detach();
  });
  Observer observer = observe();
  const LaneStats read = stats_of(observer);
  EXPECT_EQ(read.unread, ~std::uint64_t{0});
}

}  // namespace
}  // namespace framelane::lane_test
