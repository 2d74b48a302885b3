// SPDX-License-Identifier: MIT
// What stays the caller's when there is no memory for a handle.
#include <thread>
#include <vector>

#include "c_lanes.hpp"
#include "frame_path_counters.hpp"

namespace framelane::capi_test {
namespace {

TEST_F(CTest, WithoutMemoryForItsHandleACallIsNotStarted) {
  framelane_server* server = nullptr;
  framelane_client* client = nullptr;
  ASSERT_EQ(framelane_server_open("ask", nullptr, &server), FRAMELANE_OK) << framelane_error_text();
  ASSERT_EQ(framelane_client_open("ask", nullptr, &client), FRAMELANE_OK) << framelane_error_text();
  std::vector<std::size_t> requests;
  std::thread serving([&] {
    framelane_request* request = nullptr;
    while (framelane_server_next(server, FRAMELANE_FOREVER, &request) == FRAMELANE_OK) {
      requests.push_back(framelane_request_size(request));
      EXPECT_EQ(framelane_request_respond(request, nullptr, 0), FRAMELANE_OK) << framelane_error_text();
      framelane_request_free(request);
    }
  });
  EXPECT_EQ(framelane_client_connect(client, kPatience), FRAMELANE_OK) << framelane_error_text();
  framelane_loan* loan = nullptr;
  EXPECT_EQ(framelane_client_loan(client, 3000, &loan), FRAMELANE_OK) << framelane_error_text();
  std::memset(framelane_loan_data(loan), 'x', 3000);

  framelane_call* call = nullptr;
  constexpr std::size_t kLarge = 512;  // as the first handles are; what a request itself takes is smaller
  const bool refuses = support::refuse_allocations(kLarge);
  const framelane_code refused = framelane_client_start_loan(client, loan, refuses ? 3000 : 1 << 20, kPatience, &call);
  support::refuse_allocations(0);
  EXPECT_EQ(refused, refuses ? FRAMELANE_NO_MEMORY : FRAMELANE_INVALID_ARGUMENT);
  EXPECT_EQ(call, nullptr);
  framelane_client_stats stats{};
  stats.size = sizeof stats;
  EXPECT_EQ(framelane_client_get_stats(client, &stats), FRAMELANE_OK);
  EXPECT_EQ(stats.sent, 0u);

  EXPECT_EQ(framelane_client_start_loan(client, loan, 3000, kPatience, &call), FRAMELANE_OK) << framelane_error_text();
  framelane_response* response = nullptr;
  EXPECT_EQ(framelane_call_wait(call, kPatience, &response), FRAMELANE_OK) << framelane_error_text();
  framelane_response_unref(response);
  framelane_call_free(call);
  framelane_server_interrupt(server);
  serving.join();
  EXPECT_EQ(requests, (std::vector<std::size_t>{3000}));
  framelane_client_close(client);
  framelane_server_close(server);
}

}  // namespace
}  // namespace framelane::capi_test
