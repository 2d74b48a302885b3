// SPDX-License-Identifier: MIT
// Requests that are cancelled, and clients and servers that go.
#include <optional>
#include <thread>
#include <vector>

#include "base/child.hpp"
#include "pairs.hpp"
#include "support/sanitizers.hpp"

namespace framelane::lane_test {
namespace {

using Rpc = LaneTest;

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

}  // namespace
}  // namespace framelane::lane_test
