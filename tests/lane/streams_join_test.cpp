// SPDX-License-Identifier: MIT
// Who gets in over byte streams, who doesn't and what they are told; and consumers that come and go.
#include <atomic>
#include <fstream>
#include <mutex>

#include <sys/stat.h>

#include "streams.hpp"
#include "transport/tls_library.hpp"

namespace framelane::lane_test {
namespace {

/// Its error comes at once, not when connect-timeout is over: that is longer than anybody waits here.
[[nodiscard]] Error error_at_once(const std::string& descriptor, ConsumerSettings settings = {}) {
  settings.lane = descriptor;
  settings.connect_timeout = kForever;
  auto consumer = Consumer::open(std::move(settings));
  if (!consumer) return consumer.error();
  const auto connected = consumer->connect(kPatience);
  return connected ? Error{Code::kSystem, "it was let in"} : connected.error();
}

[[nodiscard]] ::testing::AssertionResult says(const Error& error, Code code, const std::string& words) {
  return fails_with(Result<void>(tl::unexpected(error)), code, words);
}

// --- coming and going

using StreamGuests = StreamsTest;

TEST_P(StreamGuests, AHundredComeAndGoAndNobodyElseLosesAFrame) {
  constexpr int kHosts = 25;  // threads with one consumer at a time
  constexpr int kEach = 4;
  ProducerSettings settings;
  settings.full_timeout = kForever;
  settings.stall_timeout = kForever;
  Producer producer = open_producer(settings);
  std::optional<Consumer> steady(join(producer.descriptor()));
  publish_frames(producer, 0, 1);
  take_frames(*steady, 0, 1);
  const Resources before = resources();
  std::atomic<bool> stopped{false};
  std::atomic<std::uint64_t> published{1};
  std::atomic<int> served{0};
  std::thread publishing([&] {
    for (std::uint64_t frame = 1; !stopped; ++frame) {
      ASSERT_EQ(publish(producer, frame, 2000).value(), Published::kSent);
      published = frame + 1;
      if (frame % 8 == 0) std::this_thread::sleep_for(1ms);
    }
  });
  std::vector<std::thread> hosts;
  for (int host = 0; host < kHosts; ++host) {
    hosts.emplace_back([&, host] {
      for (int i = 0; i < kEach; ++i) {
        Consumer guest = open_consumer(producer.descriptor());
        ASSERT_TRUE(ok(guest.connect(kPatience)));
        std::optional<Frame> held;
        for (int taken = 0; taken < (host + i) % 5; ++taken) {
          auto frame = guest.take(kPatience);
          ASSERT_TRUE(ok(frame));
          EXPECT_TRUE(is_frame(frame->bytes(), frame->seq()));
          EXPECT_EQ(frame->skipped(), 0u);
          held = std::move(*frame);
        }
        if (i % 2 == 0) guest.close();  // before the Frame that it holds
        ++served;
      }
    });
  }
  std::uint64_t next = 1;
  while (served != kHosts * kEach) {
    take_frames(*steady, next++, 1);
    if (HasFatalFailure()) break;
  }
  for (std::thread& host : hosts) host.join();
  stopped = true;
  while (next < published) take_frames(*steady, next++, 1);
  publishing.join();
  while (next < published) take_frames(*steady, next++, 1);
  EXPECT_EQ(steady->stats().skipped, 0u);
  EXPECT_EQ(producer.stats().dropped_full, 0u);
  EXPECT_EQ(producer.stats().evictions, 0u);
  EXPECT_TRUE(eventually([&] { return producer.num_consumers() == 1; }));
  EXPECT_TRUE(nothing_is_left(before));
}

INSTANTIATE_TEST_SUITE_P(Transports, StreamGuests, ::testing::Values(Transport::kUds, Transport::kTcp), transport_name);

// --- who gets in

class Joining : public LaneTest, public ::testing::WithParamInterface<Transport> {
 protected:
  [[nodiscard]] Producer open_producer(ProducerSettings settings) const {
    const std::string path = directory_.path() + "/lane";
    settings.lane = GetParam() == Transport::kTcp   ? "lane.tcp://127.0.0.1:0/lane"
                    : GetParam() == Transport::kUds ? "lane.uds://" + path
                                                    : "lane.shm://" + path;
    auto producer = Producer::open(std::move(settings));
    if (!producer) throw std::runtime_error(producer.error().text);
    return std::move(*producer);
  }
  [[nodiscard]] static Consumer join(const Producer& producer) {
    ConsumerSettings settings;
    settings.lane = producer.descriptor();
    auto consumer = Consumer::open(std::move(settings)).value();
    if (auto done = consumer.connect(kPatience); !done) throw std::runtime_error(done.error().text);
    return consumer;
  }
};

TEST_P(Joining, BeyondMaxConsumersItIsRefusedAndToldSo) {
  ProducerSettings settings;
  settings.max_consumers = 2;
  Producer producer = open_producer(settings);
  std::optional<Consumer> first(join(producer));
  const Consumer second = join(producer);
  ConsumerSettings third;
  third.lane = producer.descriptor();
  third.connect_timeout = 100ms;
  Consumer waiting = Consumer::open(third).value();
  EXPECT_TRUE(fails_with(waiting.take(kForever), Code::kRefused, "the lane has its 2 consumers; raise max-consumers"));
  EXPECT_EQ(producer.num_consumers(), 2u);
  first.reset();
  third.connect_timeout = kPatience;
  waiting = Consumer::open(third).value();
  EXPECT_TRUE(ok(waiting.connect(kPatience))) << "there is room again";
}

TEST_P(Joining, WhoIsNotAuthorizedIsToldSoAtOnce) {
  std::mutex mutex;
  std::vector<PeerInfo> asked;
  ProducerSettings settings;
  settings.authorize = [&](const PeerInfo& peer) {
    const std::lock_guard lock(mutex);
    asked.push_back(peer);
    return Admission::kRefused;
  };
  const Producer producer = open_producer(settings);
  const Error error = error_at_once(producer.descriptor());
  EXPECT_EQ(error.code, Code::kPermission) << error.text;
  EXPECT_FALSE(error.text.empty());
  const std::lock_guard lock(mutex);
  ASSERT_EQ(asked.size(), 1u);
  EXPECT_EQ(asked[0].transport, GetParam());
  EXPECT_EQ(asked[0].name, program_invocation_short_name);
  EXPECT_EQ(asked[0].pid, GetParam() == Transport::kTcp ? 0 : getpid());
  EXPECT_EQ(asked[0].uid, GetParam() == Transport::kTcp ? 65534u : geteuid());
  EXPECT_EQ(asked[0].address.rfind("127.0.0.1:", 0) == 0, GetParam() == Transport::kTcp) << asked[0].address;
  EXPECT_EQ(producer.num_consumers(), 0u);
}

TEST_P(Joining, WhoMayNotGateJoinsWithoutGating) {
  ProducerSettings settings;
  settings.authorize = [](const PeerInfo&) { return Admission::kNoGating; };
  Producer producer = open_producer(settings);
  Consumer consumer = join(producer);
  EXPECT_FALSE(consumer.stats().gating);
  EXPECT_FALSE(producer.stats().consumers.at(0).gating);
  publish_frames(producer, 0, 3);
  take_frames(consumer, 0, 3);
  publish_frames(producer, 3, 1000);
  EXPECT_EQ(producer.stats().full_waits, 0u);
}

TEST_P(Joining, WhoMayGateGates) {
  ProducerSettings settings;
  settings.authorize = [](const PeerInfo&) { return Admission::kGating; };
  Producer producer = open_producer(settings);
  const Consumer consumer = join(producer);
  EXPECT_TRUE(consumer.stats().gating);
  EXPECT_TRUE(producer.stats().consumers.at(0).gating);
}

INSTANTIATE_TEST_SUITE_P(Transports, Joining, ::testing::Values(Transport::kShm, Transport::kUds, Transport::kTcp),
                         transport_name);

// --- TCP

class Tcp : public LaneTest {
 protected:
  [[nodiscard]] static Result<Producer> open(const std::string& lane, ProducerSettings settings = {}) {
    settings.lane = lane;
    return Producer::open(std::move(settings));
  }
  [[nodiscard]] static std::string port_of(const Producer& producer) {
    const std::string descriptor = producer.descriptor();
    const auto begin = descriptor.rfind(':') + 1;
    return descriptor.substr(begin, descriptor.find('/', begin) - begin);
  }
};

TEST_F(Tcp, PortZeroIsOneThatConsumersCanUse) {
  auto producer = open("lane.tcp://127.0.0.1:0/cam0");
  ASSERT_TRUE(ok(producer));
  EXPECT_EQ(producer->descriptor(), "lane.tcp://127.0.0.1:" + port_of(*producer) + "/cam0");
  EXPECT_NE(port_of(*producer), "0");
  ConsumerSettings settings;
  settings.lane = producer->descriptor();
  auto consumer = Consumer::open(settings);
  ASSERT_TRUE(ok(consumer));
  ASSERT_TRUE(ok(consumer->connect(kPatience)));
  publish_frames(*producer, 0, 3);
  take_frames(*consumer, 0, 3);
}

TEST_F(Tcp, AnotherLanesNameIsToldAtOnceWithBothNames) {
  auto producer = open("lane.tcp://127.0.0.1:0/cam0");
  ASSERT_TRUE(ok(producer));
  EXPECT_TRUE(says(error_at_once("lane.tcp://127.0.0.1:" + port_of(*producer) + "/cam1"), Code::kNotFound,
                   "the lane \"cam1\" isn't here; this is \"cam0\""));
}

TEST_F(Tcp, WhatOthersCanReachNeedsAKeyOrAWord) {
  for (const char* const lane : {"lane.tcp://0.0.0.0:0/lane", "lane,lane.tcp://0.0.0.0:0/lane"}) {
    const auto refused = open(lane);
    EXPECT_TRUE(fails_with(refused, Code::kPermission, "psk-file"));
    EXPECT_TRUE(fails_with(refused, Code::kPermission, "insecure=true"));
    EXPECT_TRUE(fails_with(refused, Code::kPermission, "127.0.0.1"));
  }
  ProducerSettings settings;
  settings.insecure = true;
  auto producer = open("lane.tcp://0.0.0.0:0/lane", settings);
  ASSERT_TRUE(ok(producer));
  ConsumerSettings consumer_settings;
  consumer_settings.lane = "lane.tcp://127.0.0.1:" + port_of(*producer) + "/lane";
  auto consumer = Consumer::open(consumer_settings);
  ASSERT_TRUE(ok(consumer));
  ASSERT_TRUE(ok(consumer->connect(kPatience)));
  publish_frames(*producer, 0, 3);
  take_frames(*consumer, 0, 3);
}

TEST_F(Tcp, APortThatIsTakenIsNamed) {
  auto producer = open("lane.tcp://127.0.0.1:0/lane");
  ASSERT_TRUE(ok(producer));
  EXPECT_TRUE(fails_with(open(producer->descriptor()), Code::kInUse, "port"));
}

// --- TLS

class TlsLane : public Tcp {
 protected:
  void SetUp() override {
    if (const auto library = transport::TlsLibrary::get(); !library) GTEST_SKIP() << library.error().text;
    key_ = key_file("key", 'a');
  }

  [[nodiscard]] std::string key_file(const std::string& name, char digit, const std::string& identity = "lane") const {
    std::string path = directory_.path() + "/" + name;
    std::ofstream(path) << identity << ':' << std::string(64, digit) << '\n';
    chmod(path.c_str(), 0600);
    return path;
  }
  [[nodiscard]] Producer secure_producer() const {
    ProducerSettings settings;
    settings.psk_file = key_;
    settings.full_timeout = kPatience;
    return std::move(open("lane.tcp://127.0.0.1:0/lane", settings).value());
  }
  [[nodiscard]] static ConsumerSettings with_key(const std::string& file) {
    ConsumerSettings settings;
    settings.psk_file = file;
    return settings;
  }
  /// The consumer is told at once, and the producer's log says it once.
  static void expect_refused(const Producer& producer, const ConsumerSettings& settings, Code code,
                             const std::string& consumer_is_told, const std::string& producer_logs) {
    const LogCapture log;
    EXPECT_TRUE(says(error_at_once(producer.descriptor(), settings), code, consumer_is_told));
    EXPECT_TRUE(eventually([&] { return log.has(producer_logs); })) << log.text();
    const std::string text = log.text();
    EXPECT_EQ(text.find(producer_logs), text.rfind(producer_logs)) << text;
    EXPECT_EQ(producer.num_consumers(), 0u);
  }

  std::string key_;
};

TEST_F(TlsLane, CarriesFramesEventsAndFlushes) {
  Producer producer = secure_producer();
  ConsumerSettings settings = with_key(key_);
  settings.lane = producer.descriptor();
  auto consumer = Consumer::open(settings);
  ASSERT_TRUE(ok(consumer));
  ASSERT_TRUE(ok(consumer->connect(kPatience)));
  std::thread publishing([&] {
    for (std::uint64_t frame = 0; frame < 100; ++frame) publish_frames(producer, frame, 1, (frame * 7919) % 200'000);
  });
  take_frames(*consumer, 0, 100);
  publishing.join();
  ASSERT_TRUE(ok(producer.set_caps("video/x-raw, format=(string)GRAY8")));
  ASSERT_TRUE(ok(producer.send(event(format::EventType::kCustom, "hello"))));
  publish_frames(producer, 100, 1);
  EXPECT_EQ(next_items(*consumer, 3), "Cc100");
  ASSERT_TRUE(ok(producer.flush_stop()));
  publish_frames(producer, 101, 1, 5'000'000);
  EXPECT_EQ(next_items(*consumer, 3), "<>101");
  ASSERT_TRUE(ok(consumer->send_upstream({})));
  EXPECT_TRUE(eventually([&] { return !producer.take_requests().empty(); }));
  ASSERT_TRUE(ok(producer.end_of_stream()));
  EXPECT_TRUE(fails_with(consumer->take(kPatience), Code::kEndOfStream));
}

TEST_F(TlsLane, ServesWhatOthersCanReach) {
  ProducerSettings settings;
  settings.psk_file = key_;
  auto producer = open("lane.tcp://0.0.0.0:0/lane", settings);
  ASSERT_TRUE(ok(producer));
  ConsumerSettings consumer_settings = with_key(key_);
  consumer_settings.lane = "lane.tcp://127.0.0.1:" + port_of(*producer) + "/lane";
  auto consumer = Consumer::open(consumer_settings);
  ASSERT_TRUE(ok(consumer));
  EXPECT_TRUE(ok(consumer->connect(kPatience)));
}

TEST_F(TlsLane, AWrongKeyIsOneClearErrorAtBothEnds) {
  const Producer producer = secure_producer();
  expect_refused(producer, with_key(key_file("other", 'b')), Code::kPermission, "give both ends the same psk-file",
                 "give both ends the same psk-file");
}

TEST_F(TlsLane, AnotherIdentityIsOneClearErrorAtBothEnds) {
  const Producer producer = secure_producer();
  expect_refused(producer, with_key(key_file("other", 'a', "elsewhere")), Code::kPermission,
                 "give both ends the same psk-file", "give both ends the same psk-file");
}

TEST_F(TlsLane, PlainAgainstTlsIsOneClearErrorAtBothEnds) {
  const Producer producer = secure_producer();
  expect_refused(producer, {}, Code::kPermission, "this lane goes through TLS: give the consumer the same psk-file",
                 "doesn't speak TLS: give it the psk-file too");
}

TEST_F(TlsLane, TlsAgainstPlainIsOneClearErrorAtBothEnds) {
  const auto producer = open("lane.tcp://127.0.0.1:0/lane");
  ASSERT_TRUE(ok(producer));
  expect_refused(*producer, with_key(key_), Code::kProtocol, "doesn't speak TLS: give it the psk-file too",
                 "speaks TLS, and this one doesn't: give this end its psk-file too");
}

TEST_F(TlsLane, AKeyFileThatCannotBeReadIsToldAtOnce) {
  const Producer producer = secure_producer();
  EXPECT_TRUE(
      says(error_at_once(producer.descriptor(), with_key(directory_.path() + "/none")), Code::kNotFound, "/none"));
  const std::string open_to_all = key_file("open", 'a');
  chmod(open_to_all.c_str(), 0644);
  EXPECT_TRUE(says(error_at_once(producer.descriptor(), with_key(open_to_all)), Code::kPermission, "/open"));
  ProducerSettings settings;
  settings.psk_file = directory_.path() + "/none";
  EXPECT_TRUE(fails_with(open("lane.tcp://127.0.0.1:0/other", settings), Code::kNotFound, "/none"));
}

TEST_F(TlsLane, SharedMemoryAndFilesNeedNoKey) {
  ProducerSettings settings;
  settings.psk_file = key_;
  const auto producer = open("lane,lane.tcp://127.0.0.1:0/lane", settings);
  ASSERT_TRUE(ok(producer));
  for (const Transport transport : {Transport::kShm, Transport::kUds}) {
    ConsumerSettings plain;
    plain.lane = "lane";
    plain.transport = transport;
    auto consumer = Consumer::open(plain);
    ASSERT_TRUE(ok(consumer));
    EXPECT_TRUE(ok(consumer->connect(kPatience)));
  }
}

TEST_F(TlsLane, StreamsThatAreCutAnywhereHarmNothingElse) {
  Producer producer = secure_producer();
  ConsumerSettings settings = with_key(key_);
  settings.lane = producer.descriptor();
  auto honest = Consumer::open(settings);
  ASSERT_TRUE(ok(honest));
  ASSERT_TRUE(ok(honest->connect(kPatience)));
  publish_frames(producer, 0, 1);
  take_frames(*honest, 0, 1);
  const Resources before = resources();
  // The first bytes of a handshake, and of anything else.
  const Bytes hello = wire::encode(stream_hello(), 0);
  const Bytes record{std::byte{0x16}, std::byte{0x03}, std::byte{0x01}, std::byte{0x02}, std::byte{0x00}};
  for (std::size_t size = 0; size <= 64; ++size) {
    Bytes bytes = record;
    const Bytes rest = payload(size, size);
    bytes.insert(bytes.end(), rest.begin(), rest.end());
    for (const Bytes& some : {bytes, rest, Bytes(hello.begin(), hello.begin() + static_cast<std::ptrdiff_t>(size))}) {
      const base::UniqueFd fd = connect_raw(producer.descriptor());
      ASSERT_TRUE(send_raw(fd.get(), some));
    }
  }
  publish_frames(producer, 1, 5);
  take_frames(*honest, 1, 5);
  EXPECT_TRUE(nothing_is_left(before));
}

}  // namespace
}  // namespace framelane::lane_test
