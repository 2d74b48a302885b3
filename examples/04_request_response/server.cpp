// SPDX-License-Identifier: MIT
// Adds up the numbers that it is sent, until a request says "stop".    sum_server [NAME]
#include "framelane/lane/server.hpp"

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>

int main(int argc, char** argv) {
  framelane::ServerSettings settings;
  settings.lane = argc > 1 ? argv[1] : "sums";
  auto server = framelane::Server::open(settings);
  if (!server) {
    std::fprintf(stderr, "sum_server: %s\n", server.error().text.c_str());
    return 1;
  }
  const auto served = server->serve([&server](framelane::Request& request) {
    if (request.size() == 4 && std::memcmp(request.data(), "stop", 4) == 0) {
      server->interrupt();  // serve() returns after this answer
      static_cast<void>(request.respond({}));
      return;
    }
    if (request.size() % 8 != 0) {
      static_cast<void>(request.respond_error(framelane::Code::kInvalidArgument, "8 bytes are a number"));
      return;
    }
    std::int64_t sum = 0;
    for (std::size_t at = 0; at < request.size(); at += 8) {  // read where the client wrote them
      std::int64_t number = 0;
      std::memcpy(&number, request.data() + at, sizeof number);
      sum += number;
    }
    static_cast<void>(request.respond(std::as_bytes(std::span(&sum, 1))));  // a client that has gone is no error here
  });
  return served ? 0 : 1;
}
