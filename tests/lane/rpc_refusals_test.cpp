// SPDX-License-Identifier: MIT
// What a Client and a Server refuse: settings, sizes, each other, and nonsense.
#include <atomic>
#include <thread>

#include "lane/rpc_frame.hpp"
#include "pairs.hpp"

namespace framelane::lane_test {
namespace {

using Rpc = LaneTest;

// --- what can't be

TEST_F(Rpc, RefusesSettingsThatCannotBe) {
  if (is_stream()) GTEST_SKIP() << "says the same of a pair that has a name";
  const auto refuses = [](const std::function<void(ClientSettings&)>& spoil, std::string_view words) {
    auto settings = pair_settings<ClientSettings>();
    spoil(settings);
    return fails_with(Client::open(settings), Code::kInvalidArgument, words);
  };
  EXPECT_TRUE(refuses([](auto& s) { s.burst = 0; }, "burst is 0; it must be 1 to 256"));
  EXPECT_TRUE(refuses([](auto& s) { s.burst = 257; }, "burst"));
  EXPECT_TRUE(refuses([](auto& s) { s.max_request_size = 0; }, "max-request-size"));
  EXPECT_TRUE(refuses([](auto& s) { s.max_response_size = std::size_t{1} << 30; }, "max-response-size"));
  EXPECT_TRUE(refuses([](auto& s) { s.connect_timeout = -1ns; }, "connect-timeout"));
  EXPECT_TRUE(refuses([](auto& s) { s.spin_budget = 2; }, "spin-budget"));
  EXPECT_TRUE(refuses([](auto& s) { s.lane.clear(); }, "requests and responses"));
  EXPECT_TRUE(refuses([](auto& s) { s.requests = "a"; }, "requests and responses"));
  EXPECT_TRUE(refuses([](auto& s) { s.lane = "a b"; }, "position"));
  EXPECT_TRUE(refuses([](auto& s) { s.lane = "lane.tcp://127.0.0.1:7411/cam0"; }, "requests and responses"));
  EXPECT_TRUE(refuses(
      [](auto& s) {
        s.lane.clear();
        s.requests = s.responses = "same";
      },
      "one lane"));
}

TEST_F(Rpc, ADescriptorOfAPathNamesAPairToo) {
  if (is_stream()) GTEST_SKIP() << "two descriptors name it there";
  auto settings = pair_settings<ServerSettings>();
  settings.lane = "lane.shm://" + directory_.path() + "/pair";
  ServerThread server(echo, settings);
  Client client = ask();  // by the bare name
  EXPECT_TRUE(ok(client.call({}, kPatience)));
}

TEST_F(Rpc, EndsThatDontSuitEachOtherSayWhy) {
  ServerThread server;
  const auto refused = [](const std::function<void(ClientSettings&)>& change, std::string_view words) {
    auto settings = pair_settings<ClientSettings>();
    change(settings);
    Client client = ask(settings);
    return fails_with(client.call(bytes_of("x"), kPatience), Code::kRefused, words);
  };
  EXPECT_TRUE(refused([](auto& s) { s.burst = 17; }, "burst (17) must be at most the server's (16)"));
  EXPECT_TRUE(refused([](auto& s) { s.max_request_size += 1; }, "max-request-size"));
  EXPECT_TRUE(refused([](auto& s) { s.max_response_size -= 1; }, "must be at least the server's"));
  Client client = ask();
  EXPECT_TRUE(ok(client.call(bytes_of("x"), kPatience)));
}

TEST_F(Rpc, WrongSizesAreErrorsOfTheCallAndNoMore) {
  ServerThread server([](Request& request) {
    EXPECT_TRUE(fails_with(request.respond(Bytes((1u << 20) + 1)), Code::kTooLarge, "max-response-size"));
    auto loan = request.loan(100);
    ASSERT_TRUE(ok(loan));
    EXPECT_TRUE(fails_with(request.respond(std::move(*loan), 10'000'000), Code::kInvalidArgument, "larger loan"));
    EXPECT_TRUE(fails_with(request.respond(Loan(), 0), Code::kInvalidArgument, "empty"));
    EXPECT_FALSE(request.answered());
    echo(request);
  });
  Client client = ask();
  EXPECT_TRUE(fails_with(client.call(Bytes((1u << 20) + 1), kPatience), Code::kTooLarge, "max-request-size"));
  auto loan = client.loan(100);
  ASSERT_TRUE(ok(loan));
  EXPECT_TRUE(fails_with(client.call(std::move(*loan), loan->capacity(), kPatience), Code::kInvalidArgument));
  EXPECT_TRUE(fails_with(client.call(Loan(), 0, kPatience), Code::kInvalidArgument, "empty"));
  EXPECT_TRUE(ok(client.call({}, kPatience)));
}

/// A frame as the two ends exchange them.
Bytes frame_of(std::size_t size, lane::FrameKind kind, std::uint64_t id, std::int64_t time) {
  Bytes bytes(size + lane::kTrailerBytes);
  lane::write_trailer(bytes.data() + size, kind, id, time);
  return bytes;
}

TEST_F(Rpc, TheSmallestSizesServeAndErrorAnswersAreCutToTheirLimit) {
  auto asked = pair_settings<ClientSettings>(1);
  asked.max_request_size = asked.max_response_size = 1;
  auto served = pair_settings<ServerSettings>(1);
  served.max_request_size = served.max_response_size = 1;
  ServerThread server(
      [](Request& request) {
        if (request.size() != 0) return echo(request);
        EXPECT_TRUE(ok(request.respond_error(Code::kNotFound, std::string(5000, 'x'))));
      },
      served);
  Client client = ask(asked);
  const auto one = client.call(bytes_of("1"), kPatience);
  ASSERT_TRUE(ok(one));
  EXPECT_EQ(text_of(one->bytes()), "1");
  const auto failed = client.call({}, kPatience);
  ASSERT_TRUE(fails_with(failed, Code::kNotFound));
  EXPECT_EQ(failed.error().text, std::string(1024, 'x'));
  EXPECT_TRUE(fails_with(client.call(bytes_of("12"), kPatience), Code::kTooLarge));
}

TEST_F(Rpc, AClientThatSendsNonsenseIsDroppedAndTheNextOneServed) {
  using lane::FrameKind;
  ServerThread server;
  const Bytes nonsense[] = {{},
                            payload(15, 1),
                            frame_of(0, FrameKind{0}, 1, 0),
                            frame_of(100, FrameKind{255}, 1, 0),
                            frame_of(0, FrameKind::kAnswer, 1, 0),
                            frame_of(15, FrameKind::kHello, 1, lane::kRpcVersion),
                            frame_of(5000, FrameKind::kHello, 1, lane::kRpcVersion)};
  for (const Bytes& bytes : nonsense) {
    std::atomic<int> left{0};
    Producer producer = produce({.lane = "pair-requests"});
    producer.on_consumer([&](const ConsumerInfo&, bool joined, std::string_view) { left += joined ? 0 : 1; });
    const Consumer consumer = join({.lane = "pair-responses"});
    ASSERT_TRUE(ok(producer.wait_for_consumers(1, kPatience)));
    ASSERT_TRUE(ok(producer.publish_copy(bytes)));
    EXPECT_TRUE(eventually([&] { return left != 0; })) << bytes.size();
    producer.close();
  }
  Client client = ask();
  EXPECT_TRUE(ok(client.call(bytes_of("x"), kPatience)));
}

TEST_F(Rpc, RequestsOfAClientThatWasNotAcceptedAreDropped) {
  using lane::FrameKind;
  ServerThread server([](Request&) { ADD_FAILURE() << "nobody introduced himself"; });
  Producer producer = produce({.lane = "pair-requests"});
  Consumer consumer = join({.lane = "pair-responses"});
  ASSERT_TRUE(ok(producer.wait_for_consumers(1, kPatience)));
  // Again and again: the server may come, go and come again, as a Client would notice.
  Result<Frame> refusal(tl::in_place);
  Bytes hello = frame_of(sizeof(lane::Terms), FrameKind::kHello, 5, lane::kRpcVersion + 1);
  ASSERT_TRUE(eventually([&] {
    EXPECT_TRUE(ok(producer.publish_copy(frame_of(0, FrameKind::kRequest, 1, 0))));
    EXPECT_TRUE(ok(producer.publish_copy(hello)));
    refusal = consumer.take(50ms);
    return refusal.has_value();
  }));
  EXPECT_EQ(lane::read_trailer(refusal->bytes()).value().kind(), FrameKind::kError);
  EXPECT_NE(text_of(refusal->bytes()).find("version 2"), std::string::npos);
}

TEST_F(Rpc, AServerThatSendsNonsenseHurtsNoOtherCall) {
  using lane::FrameKind;
  Client client = ask();
  Producer producer = produce({.lane = "pair-responses"});
  std::thread server([&] {
    Consumer consumer = join({.lane = "pair-requests", .reconnect = false});
    for (;;) {
      const auto frame = consumer.take(kPatience);
      if (!frame) return;  // the client has left
      const lane::Trailer trailer = lane::read_trailer(frame->bytes()).value();
      if (trailer.kind() == FrameKind::kHello) {
        ASSERT_TRUE(ok(producer.publish_copy(frame_of(0, FrameKind::kWelcome, trailer.id() + 1, 1))));
        ASSERT_TRUE(ok(producer.publish_copy(frame_of(0, FrameKind::kWelcome, trailer.id(), 1))));
        continue;
      }
      for (const std::size_t size : {0u, 15u, 100u}) ASSERT_TRUE(ok(producer.publish_copy(payload(size, 3))));
      for (const std::uint64_t id : {std::uint64_t{0}, trailer.id() + 1, trailer.id() + 0x10000, trailer.id() | 0xffff})
        ASSERT_TRUE(ok(producer.publish_copy(frame_of(1, FrameKind::kAnswer, id, 0))));
      ASSERT_TRUE(ok(producer.publish_copy(frame_of(1, FrameKind::kWelcome, trailer.id(), 0))));
      ASSERT_TRUE(ok(producer.publish_copy(frame_of(3, FrameKind::kError, trailer.id(), 4711))));
      ASSERT_TRUE(ok(producer.publish_copy(frame_of(3, FrameKind::kAnswer, trailer.id(), 0))));  // a second one
    }
  });
  for (int i = 0; i < 3; ++i)
    EXPECT_TRUE(fails_with(client.call(bytes_of("x"), kPatience), Code::kProtocol, "no known code"));
  client.close();
  server.join();
}

}  // namespace
}  // namespace framelane::lane_test
