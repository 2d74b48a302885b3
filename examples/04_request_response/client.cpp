// SPDX-License-Identifier: MIT
// Has a server add up numbers: one call, several in flight, and one that goes wrong.    sum_client [NAME]
#include "framelane/lane/client.hpp"

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

namespace {

int complain(const framelane::Error& error) {
  std::fprintf(stderr, "sum_client: %s\n", error.text.c_str());
  return 1;
}

long long number_in(const framelane::Response& response) {
  std::int64_t number = 0;
  if (response.size() == sizeof number) std::memcpy(&number, response.data(), sizeof number);
  return number;
}

}  // namespace

int main(int argc, char** argv) {
  using namespace std::chrono_literals;
  framelane::ClientSettings settings;
  settings.lane = argc > 1 ? argv[1] : "sums";
  auto client = framelane::Client::open(settings);
  if (!client) return complain(client.error());

  // One call. It waits for the server, too, if that isn't there yet; the server drops it when the time is up.
  const std::int64_t numbers[] = {1, 2, 3};
  auto sum = client->call(std::as_bytes(std::span(numbers)), 30s);
  if (!sum) return complain(sum.error());
  std::printf("1 + 2 + 3 = %lld\n", number_in(*sum));

  // Several in flight, each written where the server reads it.
  std::vector<framelane::Call> calls;
  for (std::int64_t i = 1; i <= 4; ++i) {
    auto loan = client->loan(800);
    if (!loan) return complain(loan.error());
    for (std::size_t at = 0; at < 800; at += 8) std::memcpy(loan->data() + at, &i, sizeof i);
    auto call = client->start(std::move(*loan), 800, 30s);
    if (!call) return complain(call.error());
    calls.push_back(std::move(*call));
  }
  for (auto& call : calls) {
    auto answer = call.wait();
    if (!answer) return complain(answer.error());
    std::printf("a hundred times that number = %lld\n", number_in(*answer));
  }

  // What the server says is wrong is this call's error.
  const auto wrong = client->call(std::as_bytes(std::span("12345", 5)), 30s);
  std::printf("five bytes: %s\n", wrong ? "fine?" : wrong.error().text.c_str());

  const auto stopped = client->call(std::as_bytes(std::span("stop", 4)), 30s);
  return stopped ? 0 : complain(stopped.error());
}
