// SPDX-License-Identifier: MIT
// Clients and servers in processes of their own, which are killed and started again.
#include <optional>
#include <thread>
#include <vector>

#include "pairs.hpp"
#include "processes.hpp"

namespace framelane::lane_test {
namespace {

// --- roles

/// Answers every request with its own bytes, until it is killed. Argument: how many requests it takes first, and keeps.
int serve_pair(Channel& parent, const Arguments& arguments) {
  Server server = answer();
  parent.send("open");
  std::vector<Request> kept;
  for (const auto keep = std::stoul(arguments.at(0)); kept.size() < keep;) {
    auto request = server.next(kPatience);
    if (!request) return 1;
    kept.push_back(std::move(*request));
  }
  parent.send("kept");
  return server.serve(echo) ? 0 : 1;
}
const RoleOf kServerRole("rpc_server", serve_pair);

/// Makes one call, says how it ended, and then has others in flight until it is killed.
int use_pair(Channel& parent, const Arguments&) {
  Client client = ask();
  const auto response = client.call(payload(3000, 1), kPatience);
  parent.send(!response ? response.error().text : is_frame(response->bytes(), 1) ? "answered" : "bad");
  std::vector<Call> calls;
  for (int i = 0; i < 3; ++i) {
    auto call = client.start(bytes_of("unanswered"));
    if (!call) return 1;
    calls.push_back(std::move(*call));
  }
  parent.send("waiting");
  static_cast<void>(calls[0].wait(kPatience));
  return 0;
}
const RoleOf kClientRole("rpc_client", use_pair);

using RpcProcesses = LaneTest;

TEST_F(RpcProcesses, AServerThatIsKilledFailsEachWaitingCallAndTheNextOneServes) {
  std::optional<Child> server(std::in_place, "rpc_server", Arguments{"8"});
  Client client = ask();
  std::vector<std::thread> callers;
  for (int i = 0; i < 4; ++i) {
    callers.emplace_back(
        [&] { EXPECT_TRUE(fails_with(client.call(payload(100, 1)), Code::kPeerLost, "the server of pair-requests")); });
  }
  std::vector<Call> calls;
  for (int i = 0; i < 4; ++i) {
    auto call = client.start(payload(100, 1));
    ASSERT_TRUE(ok(call));
    calls.push_back(std::move(*call));
  }
  ASSERT_EQ(server->receive(), "open");
  ASSERT_EQ(server->receive(), "kept");
  server->kill_now();
  // Without a timeout: only the death ends them.
  for (std::thread& caller : callers) caller.join();
  for (Call& call : calls) EXPECT_TRUE(fails_with(call.wait(), Code::kPeerLost));
  EXPECT_EQ(client.stats().lost, 8u);
  EXPECT_FALSE(client.connected());

  server.emplace("rpc_server", Arguments{"0"});
  const auto response = client.call(payload(100, 2), kPatience);
  ASSERT_TRUE(ok(response));
  EXPECT_TRUE(is_frame(response->bytes(), 2));
  EXPECT_EQ(client.stats().sessions, 2u);
}

TEST_F(RpcProcesses, AServerThatIsRestartedWhileNobodyCallsIsFoundAgain) {
  Client client = ask();
  for (int i = 0; i < 4; ++i) {
    Child server("rpc_server", {"0"});
    auto response = client.call(payload(100, 2), kPatience);
    // The death of the one before may be noticed only now; then nobody answered, and the next call finds the new one.
    if (!response && response.error().code == Code::kPeerLost) response = client.call(payload(100, 2), kPatience);
    ASSERT_TRUE(ok(response)) << i;
    server.kill_now();
  }
}

TEST_F(RpcProcesses, AClientThatIsKilledLeavesTheServerToTheNextOne) {
  Server server = answer();
  for (int i = 0; i < 3; ++i) {
    Child client("rpc_client");
    auto request = server.next(kPatience);
    ASSERT_TRUE(ok(request)) << i;
    EXPECT_TRUE(is_frame(request->bytes(), 1));
    echo(*request);
    ASSERT_EQ(client.receive(), "answered");
    ASSERT_EQ(client.receive(), "waiting");
    request = server.next(kPatience);
    ASSERT_TRUE(ok(request));
    EXPECT_FALSE(request->cancelled());
    client.kill_now();
    EXPECT_TRUE(eventually([&] { return request->cancelled(); }));
    EXPECT_EQ(text_of(request->bytes()), "unanswered") << "its bytes stay";
    EXPECT_TRUE(fails_with(request->respond({}), Code::kPeerLost));
  }
  EXPECT_EQ(server.stats().sessions, 3u);
  EXPECT_EQ(server.stats().open, 0u);
}

TEST_F(RpcProcesses, AStoppedServerCostsTheCallsTheirTimeAndNoMore) {
  Child server("rpc_server", {"0"});
  Client client = ask(pair_settings<ClientSettings>(2));
  ASSERT_TRUE(ok(client.call(payload(100, 1), kPatience)));
  server.stop();
  for (int i = 0; i < 2; ++i) EXPECT_TRUE(fails_with(client.call(payload(100, 2), 5ms), Code::kTimeout));
  EXPECT_TRUE(fails_with(client.call(payload(100, 2), 5ms), Code::kFull));
  server.go_on();
  EXPECT_TRUE(eventually([&] { return client.call(payload(100, 3), kPatience).has_value(); }));
}

}  // namespace
}  // namespace framelane::lane_test
