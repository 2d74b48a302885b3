// SPDX-License-Identifier: MIT
// Requests and responses between a Client and a Server of one process: answers, and their time.
#include <optional>
#include <thread>
#include <vector>

#include "pairs.hpp"

namespace framelane::lane_test {
namespace {

using Rpc = LaneTest;

// --- answers

TEST_F(Rpc, EachCallGetsItsAnswerWhateverItsSize) {
  ServerThread server;
  Client client = ask();
  std::uint64_t number = 0;
  for (const std::size_t size : {0u, 1u, 15u, 16u, 17u, 32u, 33u, 1000u, 65536u, 1u << 20, 32u}) {
    const Bytes request = payload(size, ++number);
    const auto response = client.call(request, kPatience);
    ASSERT_TRUE(ok(response)) << size;
    ASSERT_EQ(response->size(), size);
    EXPECT_TRUE(is_frame(response->bytes(), number)) << size;
  }
  EXPECT_EQ(client.stats().sent, number);
  EXPECT_EQ(client.stats().answered, number);
  EXPECT_EQ(client.stats().in_flight, 0u);
  EXPECT_EQ(server.server().stats().taken, number);
}

TEST_F(Rpc, TheClientMayStartFirst) {
  Client client = ask();
  std::optional<ServerThread> server;
  std::thread late([&] {
    std::this_thread::sleep_for(50ms);
    server.emplace();
  });
  const auto response = client.call(bytes_of("x"), kPatience);
  late.join();
  ASSERT_TRUE(ok(response));
  EXPECT_EQ(text_of(response->bytes()), "x");
  EXPECT_TRUE(client.connected());
}

TEST_F(Rpc, BothSidesWriteAndReadInPlace) {
  ServerThread server([](Request& request) {
    EXPECT_TRUE(is_frame(request.bytes(), 7));
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(request.data()) % 64, 0u);
    auto loan = request.loan(5000);
    ASSERT_TRUE(ok(loan));
    fill(loan->bytes().first(4000), 8);  // fewer than were asked for
    EXPECT_TRUE(ok(request.respond(std::move(*loan), 4000)));
    EXPECT_TRUE(request.answered());
    EXPECT_TRUE(is_frame(request.bytes(), 7)) << "still there after the answer";
  });
  Client client = ask();
  auto loan = client.loan(3000);
  ASSERT_TRUE(ok(loan));
  fill(loan->bytes().first(3000), 7);
  const auto response = client.call(std::move(*loan), 3000, kPatience);
  ASSERT_TRUE(ok(response));
  ASSERT_EQ(response->size(), 4000u);
  EXPECT_TRUE(is_frame(response->bytes(), 8));
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(response->data()) % 64, 0u);
  EXPECT_FALSE(response->is_copy());
}

TEST_F(Rpc, ResponsesStayReadableAfterTheClient) {
  ServerThread server;
  std::vector<Response> kept;
  {
    Client client = ask(pair_settings<ClientSettings>(4));
    for (std::uint64_t i = 0; i < 10; ++i) {  // more than it may hold: copies
      auto response = client.call(payload(3000, i), kPatience);
      ASSERT_TRUE(ok(response));
      kept.push_back(std::move(*response));
    }
  }
  for (std::uint64_t i = 0; i < kept.size(); ++i) {
    EXPECT_TRUE(is_frame(kept[i].bytes(), i));
    EXPECT_EQ(kept[i].is_copy(), i >= 4);
  }
}

TEST_F(Rpc, AnswersComeInAnyOrderFromAnyThread) {
  Client client = ask();
  Server server = answer();
  introduce(client, server);
  std::vector<Call> calls;
  for (std::uint64_t i = 0; i < 8; ++i) {
    auto call = client.start(payload(100, i), kPatience);
    ASSERT_TRUE(ok(call));
    calls.push_back(std::move(*call));
  }
  std::vector<Request> requests;
  for (std::uint64_t i = 0; i < 8; ++i) {
    auto request = server.next(kPatience);
    ASSERT_TRUE(ok(request));
    EXPECT_TRUE(is_frame(request->bytes(), i));
    requests.push_back(std::move(*request));
  }
  EXPECT_EQ(server.stats().open, 8u);
  std::vector<std::thread> threads;
  for (auto request = requests.rbegin(); request != requests.rend(); ++request)
    threads.emplace_back([&request = *request] { EXPECT_TRUE(ok(request.respond(request.bytes()))); });
  for (std::thread& thread : threads) thread.join();
  for (std::uint64_t i = 0; i < 8; ++i) {
    const auto response = calls[i].wait(kPatience);
    ASSERT_TRUE(ok(response));
    EXPECT_TRUE(is_frame(response->bytes(), i));
    EXPECT_FALSE(calls[i].pending());
    EXPECT_TRUE(fails_with(calls[i].wait(0ns), Code::kInvalidArgument, "over"));
  }
  EXPECT_EQ(server.stats().open, 0u);
  EXPECT_EQ(server.stats().answered, 8u);
}

TEST_F(Rpc, AnErrorAnswerIsTheCallsError) {
  ServerThread server([](Request& request) {
    const std::string text = text_of(request.bytes());
    if (text == "nothing") return;
    EXPECT_TRUE(ok(request.respond_error(Code::kNotFound, "no such key: " + text)));
    EXPECT_TRUE(fails_with(request.respond({}), Code::kInvalidArgument, "answered already"));
  });
  Client client = ask();
  EXPECT_TRUE(fails_with(client.call(bytes_of("abc"), kPatience), Code::kNotFound, "no such key: abc"));
  EXPECT_TRUE(fails_with(client.call(bytes_of("nothing"), kPatience), Code::kRefused, "no answer"));
  EXPECT_EQ(client.stats().answered, 2u);
}

TEST_F(Rpc, SeveralThreadsShareAClient) {
  ServerThread server;
  Client client = ask();
  std::vector<std::thread> callers;
  for (std::uint64_t caller = 0; caller < 4; ++caller) {
    callers.emplace_back([&client, caller] {
      for (std::uint64_t i = 0; i < 200; ++i) {
        const std::uint64_t number = 1000 * caller + i;
        const auto response = client.call(payload(8 + i, number), kPatience);
        ASSERT_TRUE(ok(response));
        ASSERT_EQ(response->size(), 8 + i);
        ASSERT_TRUE(is_frame(response->bytes(), number));
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(client.stats().answered, 800u);
  EXPECT_EQ(client.stats().sessions, 1u);
}

TEST_F(Rpc, OneProcessMayHaveSeveralPairs) {
  auto other = pair_settings<ServerSettings>();
  other.lane.clear();
  other.requests = "there";
  other.responses = "back";
  ServerThread first;
  ServerThread second([](Request& request) { EXPECT_TRUE(ok(request.respond(bytes_of("second")))); }, other);
  auto settings = pair_settings<ClientSettings>();
  settings.lane.clear();
  settings.requests = "there";
  settings.responses = "back";
  Client one = ask();
  Client two = ask(settings);
  const auto from_one = one.call(bytes_of("x"), kPatience);
  const auto from_two = two.call(bytes_of("x"), kPatience);
  ASSERT_TRUE(ok(from_one));
  ASSERT_TRUE(ok(from_two));
  EXPECT_EQ(text_of(from_one->bytes()), "x");
  EXPECT_EQ(text_of(from_two->bytes()), "second");
}

// --- time

TEST_F(Rpc, MoreInFlightThanBurstIsFullUntilAnAnswerComes) {
  Client client = ask(pair_settings<ClientSettings>(3));
  Server server = answer(pair_settings<ServerSettings>(3));
  introduce(client, server);
  std::vector<Call> calls;
  for (int i = 0; i < 3; ++i) calls.push_back(client.start(bytes_of("x")).value());
  EXPECT_TRUE(fails_with(client.start(bytes_of("x")), Code::kFull, "3 requests have no answer yet"));
  EXPECT_TRUE(fails_with(client.call(bytes_of("x")), Code::kFull));
  auto request = server.next(kPatience);
  ASSERT_TRUE(ok(request));
  echo(*request);
  EXPECT_TRUE(ok(calls[0].wait(kPatience)));
  EXPECT_TRUE(ok(client.start(bytes_of("x"))));
}

TEST_F(Rpc, AWaitThatTimesOutLeavesTheCallPending) {
  Client client = ask();
  Server server = answer();
  introduce(client, server);
  auto call = client.start(bytes_of("x"));
  ASSERT_TRUE(ok(call));
  EXPECT_TRUE(fails_with(call->wait(0ns), Code::kTimeout));
  EXPECT_TRUE(fails_with(call->wait(5ms), Code::kTimeout, "no answer yet"));
  EXPECT_TRUE(call->pending());
  auto request = server.next(kPatience);
  ASSERT_TRUE(ok(request));
  echo(*request);
  EXPECT_TRUE(ok(call->wait(is_stream() ? kPatience : 0ns))) << "it is there";
}

TEST_F(Rpc, TheDeadlineTravelsAndEndsTheCall) {
  Client client = ask();
  Server server = answer();
  introduce(client, server);
  auto call = client.start(bytes_of("x"), 30ms);
  auto patient = client.start(bytes_of("y"));
  ASSERT_TRUE(ok(call));
  ASSERT_TRUE(ok(patient));
  auto request = server.next(kPatience);
  ASSERT_TRUE(ok(request));
  if (text_of(request->bytes()) == "x") {  // a slow machine may have let it expire
    const auto now = std::chrono::steady_clock::now().time_since_epoch() / 1ns;
    EXPECT_LE(request->deadline(), now + 30'000'000);
    EXPECT_TRUE(fails_with(call->wait(kPatience), Code::kTimeout, "call's timeout"));
    EXPECT_TRUE(ok(request->respond({})));
    request = server.next(kPatience);
    ASSERT_TRUE(ok(request));
  }
  EXPECT_EQ(request->deadline(), format::kNoClockTime);
  echo(*request);
  EXPECT_TRUE(ok(patient->wait(kPatience)));
  EXPECT_TRUE(fails_with(call->wait(kPatience), Code::kInvalidArgument));
}

TEST_F(Rpc, TheServerDropsARequestWhoseDeadlineHasPassed) {
  if (tested_transport() == Transport::kTcp) GTEST_SKIP() << "the time that is left travels, not the moment";
  Client client = ask();
  Server server = answer();
  introduce(client, server);
  auto late = client.start(bytes_of("late"), 5ms);
  auto next = client.start(bytes_of("next"), kPatience);
  ASSERT_TRUE(ok(late));
  ASSERT_TRUE(ok(next));
  EXPECT_TRUE(fails_with(late->wait(), Code::kTimeout));
  EXPECT_FALSE(late->pending());
  auto request = server.next(kPatience);
  ASSERT_TRUE(ok(request));
  EXPECT_EQ(text_of(request->bytes()), "next");
  EXPECT_EQ(server.stats().expired, 1u);
  echo(*request);
  EXPECT_TRUE(ok(next->wait(kPatience)));
  EXPECT_EQ(client.stats().late, 1u) << "its place is free again";
  EXPECT_EQ(client.stats().in_flight, 0u);
}

TEST_F(Rpc, ACallWithoutAServerEndsInTime) {
  auto settings = pair_settings<ClientSettings>();
  settings.connect_timeout = 30ms;
  Client client = ask(settings);
  EXPECT_TRUE(fails_with(client.call(bytes_of("x"), 10ms), Code::kTimeout, "pair-requests"));
  EXPECT_TRUE(fails_with(client.call(bytes_of("x")), Code::kNotFound, "within connect-timeout"));
  EXPECT_TRUE(fails_with(client.connect(), Code::kNotFound));
  EXPECT_FALSE(client.connected());
  EXPECT_EQ(client.stats().in_flight, 0u);
  Server server = answer();
  EXPECT_TRUE(fails_with(client.connect(10ms), Code::kTimeout)) << "a server that isn't in next()";
}

}  // namespace
}  // namespace framelane::lane_test
