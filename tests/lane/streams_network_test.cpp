// SPDX-License-Identifier: MIT
// A lane through TLS between two network namespaces, whose link is cut for five seconds.
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>

#include <fcntl.h>
#include <sched.h>
#include <sys/stat.h>

#include "framelane/lane/producer.hpp"

#include "processes.hpp"
#include "streams.hpp"
#include "transport/tls_library.hpp"

namespace framelane::lane_test {
namespace {

bool enter(const std::string& network) {
  const base::UniqueFd fd(open(("/run/netns/" + network).c_str(), O_RDONLY | O_CLOEXEC));
  return fd.valid() && setns(fd.get(), CLONE_NEWNET) == 0;
}

/// Arguments: network, address, key's file, "no" or "downstream". Says its descriptor, publishes until it is told to
/// stop, and says "published dropped".
const RoleOf kNetworkProducer("network-producer", [](Channel& parent, const Arguments& arguments) {
  if (!enter(arguments.at(0))) return 1;
  ProducerSettings settings;
  settings.lane = "lane.tcp://" + arguments.at(1) + ":0/lane";
  settings.psk_file = arguments.at(2);
  settings.leaky = arguments.at(3) == "no" ? Leaky::kNo : Leaky::kDownstream;
  settings.full_timeout = 20ms;
  settings.stall_timeout = kForever;
  auto producer = Producer::open(settings);
  if (!producer) {
    parent.send("error: " + producer.error().text);
    return 1;
  }
  parent.send(producer->descriptor());
  if (!producer->wait_for_consumers(1, kPatience)) return 1;
  std::atomic<bool> stopped{false};
  std::thread listening([&] {
    static_cast<void>(parent.receive());
    stopped = true;
  });
  std::uint64_t frame = 0;
  std::uint64_t dropped = 0;
  while (!stopped) {
    const auto sent = publish(*producer, frame, 50'000);
    if (!sent) break;
    *sent == Published::kSent ? ++frame : ++dropped;
    std::this_thread::sleep_for(3ms);
  }
  listening.join();
  static_cast<void>(producer->end_of_stream());
  const ProducerStats stats = producer->stats();
  parent.send(std::to_string(frame) + ' ' + std::to_string(dropped) + ' ' + std::to_string(stats.published) + ' ' +
              std::to_string(stats.dropped_full));
  static_cast<void>(parent.receive());  // the consumer has its end
  return 0;
});

/// Arguments: network, descriptor, key's file. Says "connected", takes until the end, and says "taken skipped
/// connections bad last".
const RoleOf kNetworkConsumer("network-consumer", [](Channel& parent, const Arguments& arguments) {
  if (!enter(arguments.at(0))) return 1;
  ConsumerSettings settings;
  settings.lane = arguments.at(1);
  settings.psk_file = arguments.at(2);
  auto consumer = Consumer::open(settings);
  if (!consumer) return 1;
  const auto connected = consumer->connect(kPatience);
  parent.send(connected ? "connected" : "error: " + connected.error().text);
  std::uint64_t bad = 0;
  std::uint64_t next = 0;
  for (;;) {
    const auto frame = consumer->take(60s);
    if (!frame && frame.error().code == Code::kEndOfStream) break;
    if (!frame) {
      parent.send("error: " + frame.error().text);
      return 1;
    }
    if (frame->seq() != next + frame->skipped() || !is_frame(frame->bytes(), frame->seq())) ++bad;
    next = frame->seq() + 1;
  }
  const ConsumerStats stats = consumer->stats();
  parent.send(std::to_string(stats.taken) + ' ' + std::to_string(stats.skipped) + ' ' +
              std::to_string(stats.connections) + ' ' + std::to_string(bad) + ' ' + consumer->transport());
  return 0;
});

/// Two network namespaces of the test's own with a link between them.
class CutLink : public LaneTest, public ::testing::WithParamInterface<const char*> {
 protected:
  void SetUp() override {
    if (geteuid() != 0) GTEST_SKIP() << "network namespaces need root";
    if (std::system("ip -V >/dev/null 2>&1") != 0) GTEST_SKIP() << "there is no ip: install iproute2";
    if (const auto library = transport::TlsLibrary::get(); !library) GTEST_SKIP() << library.error().text;
    if (!run("netns add " + here_)) GTEST_SKIP() << "no network namespace can be made here";
    made_ = true;
    ASSERT_TRUE(run("netns add " + there_));
    ASSERT_TRUE(run("-n " + here_ + " link add lane type veth peer name lane netns " + there_));
    ASSERT_TRUE(run("-n " + here_ + " address add 10.77.0.1/24 dev lane"));
    ASSERT_TRUE(run("-n " + there_ + " address add 10.77.0.2/24 dev lane"));
    for (const std::string& network : {here_, there_}) {
      ASSERT_TRUE(run("-n " + network + " link set lo up"));
      ASSERT_TRUE(run("-n " + network + " link set lane up"));
    }
    key_ = directory_.path() + "/key";
    std::ofstream(key_) << "lane:" << std::string(64, '7') << '\n';
    chmod(key_.c_str(), 0600);
  }
  void TearDown() override {
    if (!made_) return;
    for (const std::string& network : {here_, there_}) static_cast<void>(run("netns delete " + network));
  }

  [[nodiscard]] static bool run(const std::string& arguments) {
    return std::system(("ip " + arguments + " 2>/dev/null").c_str()) == 0;
  }

  const std::string here_ = "framelane-" + std::to_string(getpid()) + "-a";
  const std::string there_ = "framelane-" + std::to_string(getpid()) + "-b";
  std::string key_;
  bool made_ = false;
};

TEST_P(CutLink, TheStreamGoesOnAndEveryFrameIsCounted) {
  Child producer("network-producer", {here_, "10.77.0.1", key_, GetParam()});
  const std::string descriptor = producer.receive();
  ASSERT_EQ(descriptor.rfind("lane.tcp://10.77.0.1:", 0), 0u) << descriptor;
  Child consumer("network-consumer", {there_, descriptor, key_});
  ASSERT_EQ(consumer.receive(), "connected");
  std::this_thread::sleep_for(1s);
  ASSERT_TRUE(run("-n " + here_ + " link set lane down"));
  std::this_thread::sleep_for(5s);
  ASSERT_TRUE(run("-n " + here_ + " link set lane up"));
  std::this_thread::sleep_for(4s);
  producer.channel().send("stop");
  std::istringstream said(producer.receive());
  std::uint64_t sent = 0, not_sent = 0, published = 0, dropped = 0;
  ASSERT_TRUE(said >> sent >> not_sent >> published >> dropped) << said.str();
  std::istringstream told(consumer.receive());
  std::uint64_t taken = 0, skipped = 0, connections = 0, bad = 0;
  std::string transport;
  ASSERT_TRUE(told >> taken >> skipped >> connections >> bad >> transport) << told.str();
  EXPECT_EQ(published, sent);
  EXPECT_EQ(dropped, not_sent);
  EXPECT_EQ(taken + skipped, published);
  EXPECT_EQ(bad, 0u) << "frames that aren't whole, or gaps that nobody told of";
  EXPECT_EQ(connections, 1u) << "TCP itself bridges five seconds";
  EXPECT_EQ(transport, "tcp");
  EXPECT_GT(dropped + skipped, 0u) << "the link was down for longer than sockets and ring last";
  producer.channel().send("over");
  EXPECT_EQ(producer.wait(), 0);
  EXPECT_EQ(consumer.wait(), 0);
}

INSTANTIATE_TEST_SUITE_P(Policies, CutLink, ::testing::Values("no", "downstream"),
                         [](const ::testing::TestParamInfo<const char*>& policy) { return std::string(policy.param); });

}  // namespace
}  // namespace framelane::lane_test
