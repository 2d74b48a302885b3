// SPDX-License-Identifier: MIT
#pragma once

#include <stdexcept>
#include <string>
#include <thread>

#include "framelane/lane/client.hpp"
#include "framelane/lane/server.hpp"

#include "lanes.hpp"

// What the tests of requests and responses share, beside what those of lanes do.
namespace framelane::lane_test {

template <class Settings>
[[nodiscard]] Settings pair_settings(std::uint32_t burst = 16) {
  Settings settings;
  if (is_stream()) {
    settings.requests = served_as("pair-requests");
    settings.responses = served_as("pair-responses");
  } else {
    settings.lane = "pair";
  }
  settings.burst = burst;
  return settings;
}

[[nodiscard]] inline Client ask(ClientSettings settings = pair_settings<ClientSettings>()) {
  auto client = Client::open(std::move(settings));
  if (!client) throw std::runtime_error(client.error().text);
  return std::move(*client);
}

[[nodiscard]] inline Server answer(ServerSettings settings = pair_settings<ServerSettings>()) {
  auto server = Server::open(std::move(settings));
  if (!server) throw std::runtime_error(server.error().text);
  return std::move(*server);
}

inline void echo(Request& request) { static_cast<void>(request.respond(request.bytes())); }

/// A server with a thread that serves until it goes.
class ServerThread {
 public:
  explicit ServerThread(Server::Handler handler = echo, ServerSettings settings = pair_settings<ServerSettings>())
      : server_(answer(std::move(settings))),
        thread_([this, handler = std::move(handler)] { EXPECT_TRUE(ok(server_.serve(handler))); }) {}
  ~ServerThread() {
    server_.interrupt();
    thread_.join();
  }
  ServerThread(const ServerThread&) = delete;
  ServerThread& operator=(const ServerThread&) = delete;
  [[nodiscard]] Server& server() noexcept { return server_; }

 private:
  Server server_;
  std::thread thread_;
};

/// Has a client connected while this thread is the server's. Client::connect() needs somebody in next().
inline void introduce(Client& client, Server& server) {
  Result<void> connected{};
  std::thread caller([&] {
    connected = client.connect(kPatience);
    server.interrupt();
  });
  const auto nothing = server.next(kPatience);
  caller.join();
  server.resume();
  ASSERT_TRUE(ok(connected));
  ASSERT_TRUE(fails_with(nothing, Code::kInterrupted));
}

[[nodiscard]] inline std::string text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

[[nodiscard]] inline std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

}  // namespace framelane::lane_test
