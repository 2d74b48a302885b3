// SPDX-License-Identifier: MIT
#include "transport/control_server.hpp"

#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.hpp"
#include "ring/layout.hpp"
#include "support.hpp"
#include "transport/monitor.hpp"

namespace framelane::transport {
namespace {

using std::chrono::milliseconds;

wire::Hello good_hello(const std::string& name = "test") {
  wire::Hello hello;
  hello.abi_version = ring::kAbiVersion;
  hello.transports = wire::kTransportShm;
  hello.name = name;
  return hello;
}

/// Answers every HELLO with WELCOME and keeps the socket, as a producer does.
class Welcomer : public HelloHandler {
 public:
  void on_hello(ControlSocket&& socket, const wire::Hello& hello, const PeerCredentials& peer) override {
    wire::Welcome welcome;
    welcome.consumer_id = static_cast<std::uint32_t>(hellos + 1);
    (void)socket.send(wire::encode(welcome, 0));
    const std::lock_guard lock(mutex);
    sockets.push_back(std::move(socket));
    last_name = hello.name;
    last_peer = peer;
    ++hellos;
  }
  void forget() {
    const std::lock_guard lock(mutex);
    sockets.clear();
  }

  std::mutex mutex;
  std::vector<ControlSocket> sockets;
  std::string last_name;
  PeerCredentials last_peer;
  std::atomic<int> hellos{0};
};

class ControlServerTest : public ::testing::Test {
 protected:
  void start(ServerSettings settings = {}) {
    auto files = LaneFiles::claim(temp_.path(), "cam0");
    ASSERT_TRUE(files.has_value()) << files.error().text;
    auto started = ControlServer::start(std::move(*files), handler_, settings);
    ASSERT_TRUE(started.has_value()) << started.error().text;
    server_ = std::move(*started);
  }
  ControlSocket connect() {
    auto connected = ControlSocket::connect(temp_ / "cam0");
    EXPECT_TRUE(connected.has_value()) << connected.error().text;
    return std::move(*connected);
  }
  /// Sends the bytes as first message and returns the answer; nothing when the server closes without one.
  std::optional<wire::Message> answer_to(const std::vector<std::byte>& bytes) {
    ControlSocket socket = connect();
    EXPECT_GT(send_raw(socket.fd(), bytes), 0);
    return next_message(socket);
  }
  static std::optional<wire::Message> next_message(ControlSocket& socket) {
    const auto received = socket.receive_until(soon());
    if (!received) {
      EXPECT_EQ(received.error().code, Code::kPeerLost);
      return std::nullopt;
    }
    auto decoded = wire::decode(received->bytes);
    EXPECT_TRUE(decoded.has_value()) << decoded.error().text;
    return decoded->message;
  }
  void expect_reject(const std::vector<std::byte>& bytes, wire::RejectCode code, const std::string& part) {
    const auto answer = answer_to(bytes);
    ASSERT_TRUE(answer && std::holds_alternative<wire::Reject>(*answer));
    EXPECT_EQ(std::get<wire::Reject>(*answer).code, code);
    EXPECT_TRUE(has(std::get<wire::Reject>(*answer).sentence, part)) << std::get<wire::Reject>(*answer).sentence;
  }

  TempDirectory temp_;
  Welcomer handler_;
  std::unique_ptr<ControlServer> server_;
};

TEST_F(ControlServerTest, HandsOverWhoeverSaysHello) {
  start();
  EXPECT_EQ(server_->socket_path(), temp_ / "cam0");
  const Signal end;
  Child child([&] {
    auto socket = ControlSocket::connect(temp_ / "cam0");
    if (!socket || socket->send(wire::encode(good_hello("a child"), 0)) != SendOutcome::kSent) return 1;
    const auto received = socket->receive_until(soon());
    if (!received || !std::holds_alternative<wire::Welcome>(wire::decode(received->bytes)->message)) return 2;
    return end.wait() ? 0 : 3;
  });
  ASSERT_TRUE(eventually([&] { return handler_.hellos == 1; }));
  {
    const std::lock_guard lock(handler_.mutex);
    EXPECT_EQ(handler_.last_name, "a child");
    EXPECT_EQ(handler_.last_peer.pid, child.pid());
    EXPECT_EQ(handler_.last_peer.uid, getuid());
  }
  EXPECT_EQ(server_->num_pending(), 0u);
  end.send();
  EXPECT_EQ(child.wait(), 0);
}

TEST_F(ControlServerTest, RejectsWhatItCannotServeWithASentence) {
  start();
  wire::Hello newer = good_hello();
  newer.version_min = wire::kVersionMax + 1;
  newer.version_max = wire::kVersionMax + 2;
  expect_reject(wire::encode(newer, 0), wire::RejectCode::kVersion, "you speak 2 to 3");

  wire::Hello foreign = good_hello();
  foreign.byte_order = wire::ByteOrder::kBig;
  expect_reject(wire::encode(foreign, 0), wire::RejectCode::kByteOrder, "byte order");

  wire::Hello other_abi = good_hello();
  other_abi.abi_version = ring::kAbiVersion + 1;
  expect_reject(wire::encode(other_abi, 0), wire::RejectCode::kVersion, "ABI version");
  EXPECT_EQ(handler_.hellos, 0);
}

TEST(RefusalOf, MemoryMattersOnlyToThoseWhoNeedIt) {
  wire::Hello hello = good_hello();
  hello.abi_version = ring::kAbiVersion + 1;
  EXPECT_TRUE(refusal_of(hello).has_value());
  hello.transports |= wire::kTransportUds;
  EXPECT_FALSE(refusal_of(hello).has_value());
  hello.transports = wire::kTransportShm;
  hello.role = wire::Role::kObserver;
  EXPECT_FALSE(refusal_of(hello).has_value());
  hello.version_max = 0;
  hello.version_min = 0;
  EXPECT_TRUE(refusal_of(hello).has_value());
}

TEST_F(ControlServerTest, RejectsWhatIsNoHello) {
  start();
  expect_reject(std::vector<std::byte>(100, std::byte{0x55}), wire::RejectCode::kBadHello, "field magic");
  expect_reject({std::byte{1}}, wire::RejectCode::kBadHello, "field magic");
  expect_reject(wire::encode(wire::Leave{}, 0), wire::RejectCode::kBadHello, "must begin with HELLO, not LEAVE");
  auto damaged = wire::encode(good_hello(), 0);
  damaged[wire::kHeaderBytes + 9] = std::byte{9};
  expect_reject(damaged, wire::RejectCode::kBadHello, "HELLO message: field role");
  expect_reject(std::vector<std::byte>(wire::kMaxInlineBytes + 1), wire::RejectCode::kBadHello, "datagram of");
  EXPECT_EQ(handler_.hellos, 0);
}

TEST_F(ControlServerTest, TakesNoDescriptors) {
  start();
  const std::size_t before = open_fds();
  for (int i = 0; i < 5; ++i) {
    ControlSocket socket = connect();
    // Either the kernel refuses already (Linux 6.16), or the server does.
    if (send_raw(socket.fd(), wire::encode(good_hello(), 0), {0, 1}) < 0) {
      EXPECT_EQ(errno, EPERM);
      continue;
    }
    const auto answer = next_message(socket);
    ASSERT_TRUE(answer && std::holds_alternative<wire::Reject>(*answer));
    EXPECT_TRUE(has(std::get<wire::Reject>(*answer).sentence, "file descriptors"));
  }
  EXPECT_TRUE(eventually([&] { return open_fds() == before; }));
  EXPECT_EQ(handler_.hellos, 0);
}

TEST_F(ControlServerTest, DropsAHalfHandshake) {
  start({.max_pending = 64, .handshake_timeout = milliseconds(80)});
  const std::int64_t start = base::monotonic_ns();
  ControlSocket silent = connect();
  EXPECT_TRUE(eventually([&] { return server_->num_pending() == 1; }));
  const auto received = silent.receive_until(soon());
  ASSERT_FALSE(received.has_value());
  EXPECT_EQ(received.error().code, Code::kPeerLost);
  EXPECT_GE(base::monotonic_ns() - start, 80'000'000);
  EXPECT_TRUE(eventually([&] { return server_->num_pending() == 0; }));
}

TEST_F(ControlServerTest, SilentConnectionsDontKeepOthersOut) {
  start({.max_pending = 2, .handshake_timeout = std::chrono::hours(1)});
  std::vector<ControlSocket> silent;
  for (int i = 0; i < 6; ++i) silent.push_back(connect());
  ControlSocket talker = connect();
  ASSERT_EQ(talker.send(wire::encode(good_hello(), 0)), SendOutcome::kSent);
  const auto answer = next_message(talker);
  EXPECT_TRUE(answer && std::holds_alternative<wire::Welcome>(*answer));
  EXPECT_LE(server_->num_pending(), 2u);
}

TEST_F(ControlServerTest, TheOneThatIsSilentForLongestMakesRoom) {
  start({.max_pending = 2, .handshake_timeout = std::chrono::hours(1)});
  ControlSocket first = connect();
  ASSERT_TRUE(eventually([&] { return server_->num_pending() == 1; }));
  ControlSocket second = connect();
  ASSERT_TRUE(eventually([&] { return server_->num_pending() == 2; }));
  const ControlSocket third = connect();
  const auto received = first.receive_until(soon());
  ASSERT_FALSE(received.has_value());
  EXPECT_EQ(received.error().code, Code::kPeerLost);
  ASSERT_EQ(second.send(wire::encode(good_hello(), 0)), SendOutcome::kSent);
  const auto answer = next_message(second);
  EXPECT_TRUE(answer && std::holds_alternative<wire::Welcome>(*answer));
}

TEST_F(ControlServerTest, PeersThatLeaveAtAnyPointLeakNothing) {
  start();
  const std::size_t before = open_fds();
  const auto hello = wire::encode(good_hello(), 0);
  for (int i = 0; i < 60; ++i) {
    ControlSocket socket = connect();
    if (i % 6 == 1) socket.shutdown();
    if (i % 6 == 2) send_raw(socket.fd(), std::vector<std::byte>(hello.begin(), hello.begin() + 30));
    if (i % 6 == 3) send_raw(socket.fd(), {});
    if (i % 6 >= 4) send_raw(socket.fd(), hello);
    if (i % 6 == 5) {
      EXPECT_TRUE(next_message(socket).has_value());
    }
  }
  EXPECT_TRUE(eventually([&] { return server_->num_pending() == 0 && handler_.hellos == 20; })) << handler_.hellos;
  handler_.forget();
  EXPECT_TRUE(eventually([&] { return open_fds() == before; })) << open_fds() << " instead of " << before;
}

TEST_F(ControlServerTest, AKilledPeersHandshakeIsForgotten) {
  start({.max_pending = 64, .handshake_timeout = std::chrono::hours(1)});
  Child child([&] {
    const auto socket = ControlSocket::connect(temp_ / "cam0");
    pause();
    return 1;
  });
  EXPECT_TRUE(eventually([&] { return server_->num_pending() == 1; }));
  child.kill(SIGKILL);
  EXPECT_TRUE(eventually([&] { return server_->num_pending() == 0; }));
}

TEST_F(ControlServerTest, StopEndsEverythingAndFreesTheLane) {
  start({.max_pending = 64, .handshake_timeout = std::chrono::hours(1)});
  ControlSocket silent = connect();
  EXPECT_TRUE(eventually([&] { return server_->num_pending() == 1; }));
  server_->stop();
  server_->stop();
  EXPECT_EQ(silent.receive_until(soon()).error().code, Code::kPeerLost);
  EXPECT_EQ(ControlSocket::connect(temp_ / "cam0").error().code, Code::kNotFound);
  EXPECT_TRUE(LaneFiles::claim(temp_.path(), "cam0").has_value());
}

TEST_F(ControlServerTest, AForkedChildsCopyIsHarmless) {
  start();
  Child child([&] {
    server_.reset();
    return 0;
  });
  EXPECT_EQ(child.wait(), 0);
  const auto answer = answer_to(wire::encode(good_hello(), 0));
  EXPECT_TRUE(answer && std::holds_alternative<wire::Welcome>(*answer));
}

/// Fails when it is called after its end.
class Mortal : public HelloHandler {
 public:
  ~Mortal() override { alive = false; }
  void on_hello(ControlSocket&&, const wire::Hello&, const PeerCredentials&) override {
    std::this_thread::sleep_for(std::chrono::microseconds(200));
    EXPECT_TRUE(alive.load());
  }
  std::atomic<bool> alive{true};
};

TEST(ControlServerStress, StopsInTheMiddleOfTraffic) {
  const TempDirectory temp;
  std::atomic<bool> done{false};
  std::vector<std::thread> clients;
  for (int i = 0; i < 3; ++i) {
    clients.emplace_back([&, i] {
      const auto hello = wire::encode(good_hello(), 0);
      while (!done) {
        auto socket = ControlSocket::connect(temp / "cam0");
        if (socket && i != 0) (void)socket->send(hello);
        std::this_thread::yield();
      }
    });
  }
  for (int round = 0; round < 150; ++round) {
    auto files = LaneFiles::claim(temp.path(), "cam0");
    ASSERT_TRUE(files.has_value()) << files.error().text;
    auto handler = std::make_unique<Mortal>();
    auto server = ControlServer::start(std::move(*files), *handler);
    ASSERT_TRUE(server.has_value());
    std::this_thread::sleep_for(std::chrono::microseconds(round * 20));
    server->reset();
    handler.reset();
  }
  done = true;
  for (std::thread& client : clients) client.join();
}

}  // namespace
}  // namespace framelane::transport
