// SPDX-License-Identifier: MIT
// Requests and responses between a Client and a Server of one process.
#include <algorithm>
#include <atomic>
#include <optional>
#include <thread>
#include <vector>

#include "base/child.hpp"
#include "lane/rpc_frame.hpp"
#include "pairs.hpp"
#include "support/sanitizers.hpp"

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

// --- cancel

TEST_F(Rpc, CancelTellsTheServerAndALateAnswerIsThrownAway) {
  Client client = ask(pair_settings<ClientSettings>(1));
  Server server = answer();
  introduce(client, server);
  auto call = client.start(bytes_of("x"));
  ASSERT_TRUE(ok(call));
  auto request = server.next(kPatience);
  ASSERT_TRUE(ok(request));
  EXPECT_FALSE(request->cancelled());
  call->cancel();
  EXPECT_FALSE(call->pending());
  EXPECT_TRUE(eventually([&] { return request->cancelled(); }));
  EXPECT_TRUE(fails_with(client.start(bytes_of("y")), Code::kFull)) << "it counts until its answer comes";
  EXPECT_TRUE(ok(request->respond(bytes_of("late"))));
  auto second = client.start(bytes_of("y"));
  const auto started = [&] { return second || (second = client.start(bytes_of("y"))); };
  ASSERT_TRUE(is_stream() ? eventually(started) : second.has_value()) << "the late answer made room";
  EXPECT_EQ(client.stats().late, 1u);
  request = server.next(kPatience);
  ASSERT_TRUE(ok(request));
  EXPECT_FALSE(request->cancelled());
  echo(*request);
  const auto response = second->wait(kPatience);
  ASSERT_TRUE(ok(response));
  EXPECT_EQ(text_of(response->bytes()), "y");
}

TEST_F(Rpc, ARequestThatIsCancelledBeforeItsTurnIsDropped) {
  Client client = ask();
  Server server = answer();
  introduce(client, server);
  auto first = client.start(bytes_of("first"));
  ASSERT_TRUE(ok(first));
  ASSERT_TRUE(ok(client.start(bytes_of("dropped"))));  // the Call goes at once
  auto last = client.start(bytes_of("last"));
  auto request = server.next(kPatience);
  ASSERT_TRUE(ok(request));
  EXPECT_EQ(text_of(request->bytes()), "first");
  // A cancellation overtakes, but nobody says how fast: it has come when this one has.
  first->cancel();
  ASSERT_TRUE(eventually([&] { return request->cancelled(); }));
  auto next = server.next(kPatience);
  ASSERT_TRUE(ok(next));
  EXPECT_EQ(text_of(next->bytes()), "last");
  EXPECT_EQ(server.stats().cancelled, 1u);
}

// --- ends

TEST_F(Rpc, AServerThatClosesFailsEachWaitingCall) {
  Client client = ask();
  std::optional<Server> server(answer());
  introduce(client, *server);
  std::vector<std::thread> callers;
  for (int i = 0; i < 4; ++i) {
    callers.emplace_back([&] {
      const auto response = client.call(bytes_of("x"));
      EXPECT_TRUE(fails_with(response, Code::kPeerLost, "whether it carried out the request is unknown"));
    });
  }
  std::vector<Request> requests;
  for (int i = 0; i < 4; ++i) requests.push_back(server->next(kPatience).value());
  server.reset();
  for (std::thread& caller : callers) caller.join();
  EXPECT_TRUE(fails_with(requests[1].respond({}), Code::kInvalidArgument, "closed"));
  EXPECT_EQ(client.stats().in_flight, 0u);

  ServerThread next;
  EXPECT_TRUE(ok(client.call(bytes_of("x"), kPatience)));
  EXPECT_EQ(client.stats().sessions, 2u);
}

TEST_F(Rpc, AnswersThatWerePublishedBeforeTheServerClosedCount) {
  Client client = ask();
  std::optional<Server> server(answer());
  introduce(client, *server);
  auto answered = client.start(bytes_of("x"));
  auto not_answered = client.start(bytes_of("y"));
  auto request = server->next(kPatience);
  ASSERT_TRUE(ok(request));
  echo(*request);
  server.reset();
  ASSERT_TRUE(eventually([&] { return !client.connected(); }));
  EXPECT_TRUE(ok(answered->wait(kPatience)));
  EXPECT_TRUE(fails_with(not_answered->wait(kPatience), Code::kPeerLost));
}

TEST_F(Rpc, AClientThatLeavesMakesRoomForTheNextOne) {
  Server server = answer();
  std::optional<Client> client(ask());
  introduce(*client, server);
  std::vector<Call> calls;
  for (int i = 0; i < 3; ++i) calls.push_back(client->start(bytes_of("old")).value());
  auto request = server.next(kPatience);
  ASSERT_TRUE(ok(request));
  client.reset();
  EXPECT_TRUE(fails_with(calls[0].wait(kPatience), Code::kInvalidArgument, "closed"));
  EXPECT_TRUE(eventually([&] { return request->cancelled(); })) << "also while nobody is in next()";
  EXPECT_TRUE(fails_with(request->respond(bytes_of("x")), Code::kPeerLost, "has gone"));
  EXPECT_TRUE(request->answered());

  client.emplace(ask());
  introduce(*client, server);  // the requests of the one that left aren't given to anybody
  auto call = client->start(bytes_of("new"));
  ASSERT_TRUE(ok(call));
  auto next = server.next(kPatience);
  ASSERT_TRUE(ok(next));
  EXPECT_EQ(text_of(next->bytes()), "new");
  echo(*next);
  EXPECT_TRUE(ok(call->wait(kPatience)));
  EXPECT_EQ(server.stats().sessions, 2u);
}

TEST_F(Rpc, ASecondClientOrServerIsToldWhoHasThePair) {
  Client client = ask();
  Server server = answer();
  EXPECT_TRUE(fails_with(Client::open(pair_settings<ClientSettings>()), Code::kInUse));
  EXPECT_TRUE(fails_with(Server::open(pair_settings<ServerSettings>()), Code::kInUse));
}

TEST_F(Rpc, InterruptEndsEveryWaitUntilResume) {
  Client client = ask();
  Server server = answer();
  introduce(client, server);
  auto call = client.start(bytes_of("x"));
  ASSERT_TRUE(ok(call));
  std::vector<std::thread> waiting;
  for (int i = 0; i < 2; ++i)
    waiting.emplace_back([&] { EXPECT_TRUE(fails_with(client.call(bytes_of("y")), Code::kInterrupted)); });
  ASSERT_TRUE(eventually([&] { return client.stats().sent == 3; }));
  client.interrupt();
  for (std::thread& thread : waiting) thread.join();
  EXPECT_TRUE(fails_with(call->wait(), Code::kInterrupted));
  EXPECT_TRUE(fails_with(client.call({}), Code::kInterrupted));
  EXPECT_TRUE(call->pending());
  client.resume();
  server.interrupt();
  EXPECT_TRUE(fails_with(server.next(), Code::kInterrupted));
  server.resume();
  auto request = server.next(kPatience);
  ASSERT_TRUE(ok(request));
  server.interrupt();
  EXPECT_TRUE(ok(request->respond(bytes_of("z")))) << "what was taken can still be answered";
  EXPECT_TRUE(ok(call->wait(kPatience)));
}

TEST_F(Rpc, InterruptEndsTheWaitForAServer) {
  Client client = ask();
  Server server = answer();
  std::vector<std::thread> waiting;
  for (int i = 0; i < 3; ++i)
    waiting.emplace_back([&] { EXPECT_TRUE(fails_with(client.call(bytes_of("y")), Code::kInterrupted)); });
  waiting.emplace_back([&] { EXPECT_TRUE(fails_with(server.next(), Code::kInterrupted)); });
  server.interrupt();
  ASSERT_TRUE(eventually([&] { return client.stats().in_flight == 3; }));
  client.interrupt();
  for (std::thread& thread : waiting) thread.join();
}

TEST_F(Rpc, CloseEndsEveryWait) {
  Client client = ask();
  Server server = answer();
  introduce(client, server);
  auto call = client.start(bytes_of("x"));
  std::vector<std::thread> waiting;
  for (int i = 0; i < 3; ++i)
    waiting.emplace_back(
        [&] { EXPECT_TRUE(fails_with(client.call(bytes_of("y")), Code::kInvalidArgument, "closed")); });
  ASSERT_TRUE(eventually([&] { return client.stats().sent == 4; }));
  client.close();
  client.close();
  for (std::thread& thread : waiting) thread.join();
  EXPECT_TRUE(fails_with(call->wait(), Code::kInvalidArgument, "closed"));
  EXPECT_TRUE(fails_with(client.call({}), Code::kInvalidArgument, "closed"));
  server.close();
  EXPECT_TRUE(fails_with(server.next(), Code::kInvalidArgument, "closed"));
}

TEST_F(Rpc, AForkedChildMayDestroyBothEnds) {
  if (kSanitized) GTEST_SKIP() << "a sanitizer's runtime doesn't bear a fork with threads";
  std::optional<Server> server(answer());
  std::optional<Client> client(ask());
  introduce(*client, *server);
  auto first = client->start(payload(3000, 1));
  auto second = client->start(payload(3000, 2));
  for (int i = 0; i < 2; ++i) {
    auto request = server->next(kPatience);
    ASSERT_TRUE(ok(request));
    echo(*request);
  }
  ASSERT_TRUE(ok(second->wait(kPatience)));  // the first answer waits in its place, in a slot
  const int status = test::in_child([&] {
    client.reset();
    server.reset();
    return 7;
  });
  EXPECT_EQ(status, 7);
  const auto response = first->wait(kPatience);
  ASSERT_TRUE(ok(response));
  EXPECT_TRUE(is_frame(response->bytes(), 1));
}

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
