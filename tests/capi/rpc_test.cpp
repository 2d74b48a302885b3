// SPDX-License-Identifier: MIT
#include <thread>

#include "c_lanes.hpp"

namespace framelane::capi_test {
namespace {

/// A server that answers on a thread of its own until the test ends.
class CPair : public CTest {
 protected:
  void SetUp() override {
    framelane_rpc_settings settings;
    framelane_rpc_settings_init(&settings, sizeof settings);
    ASSERT_EQ(framelane_server_open("ask", &settings, &server_), FRAMELANE_OK) << framelane_error_text();
    ASSERT_EQ(framelane_server_reserve(server_, 4096), FRAMELANE_OK);
    ASSERT_EQ(framelane_client_open("ask", nullptr, &client_), FRAMELANE_OK) << framelane_error_text();
    thread_ = std::thread([this] { serve(); });
    ASSERT_EQ(framelane_client_connect(client_, kPatience), FRAMELANE_OK) << framelane_error_text();
    ASSERT_EQ(framelane_client_reserve(client_, 4096), FRAMELANE_OK);
  }
  void TearDown() override {
    framelane_client_close(client_);
    framelane_server_interrupt(server_);
    if (thread_.joinable()) thread_.join();
    framelane_server_resume(server_);
    framelane_server_close(server_);
  }

  /// By the first byte: 'e' an error answer, 'n' none, 'l' from a loan, 's' silence until cancelled; else an echo.
  void serve() {
    framelane_request* request = nullptr;
    while (framelane_server_next(server_, FRAMELANE_FOREVER, &request) == FRAMELANE_OK) {
      const auto* const data = static_cast<const char*>(framelane_request_data(request));
      const std::size_t size = framelane_request_size(request);
      if (data[0] == 'e') {
        EXPECT_EQ(framelane_request_respond_error(request, 0, "x"), FRAMELANE_INVALID_ARGUMENT);
        EXPECT_EQ(framelane_request_respond_error(request, FRAMELANE_TOO_LARGE, "too much"), FRAMELANE_OK);
        EXPECT_EQ(framelane_request_answered(request), 1);
        EXPECT_EQ(framelane_request_respond(request, data, size), FRAMELANE_INVALID_ARGUMENT);
      } else if (data[0] == 'l') {
        framelane_loan* loan = nullptr;
        EXPECT_EQ(framelane_request_loan(request, size, &loan), FRAMELANE_OK);
        std::memcpy(framelane_loan_data(loan), data, size);
        EXPECT_EQ(framelane_request_respond_loan(request, loan, size), FRAMELANE_OK);
      } else if (data[0] == 's') {
        EXPECT_NE(framelane_request_deadline(request), FRAMELANE_NO_CLOCK_TIME);
        for (int i = 0; i < 2000 && framelane_request_cancelled(request) == 0; ++i) usleep(10'000);
        EXPECT_EQ(framelane_request_cancelled(request), 1);
      } else if (data[0] != 'n') {
        EXPECT_EQ(framelane_request_respond(request, data, size), FRAMELANE_OK);
      }
      framelane_request_free(request);
    }
  }

  framelane_server* server_ = nullptr;
  framelane_client* client_ = nullptr;
  std::thread thread_;
};

TEST_F(CPair, CallsAreAnswered) {
  framelane_response* response = nullptr;
  ASSERT_EQ(framelane_client_call(client_, "hello", 5, kPatience, &response), FRAMELANE_OK) << framelane_error_text();
  ASSERT_EQ(framelane_response_size(response), 5u);
  EXPECT_EQ(std::memcmp(framelane_response_data(response), "hello", 5), 0);
  EXPECT_EQ(framelane_response_is_copy(response), 0);
  EXPECT_EQ(framelane_response_ref(response), response);
  framelane_response_unref(response);
  std::thread([response] { framelane_response_unref(response); }).join();
  EXPECT_EQ(framelane_client_connected(client_), 1);
  framelane_client_stats stats{};
  stats.size = sizeof stats;
  ASSERT_EQ(framelane_client_get_stats(client_, &stats), FRAMELANE_OK);
  EXPECT_EQ(stats.answered, 1u);
  framelane_server_stats served{};
  served.size = sizeof served;
  ASSERT_EQ(framelane_server_get_stats(server_, &served), FRAMELANE_OK);
  EXPECT_EQ(served.taken, 1u);
}

TEST_F(CPair, LoansBothWays) {
  framelane_loan* loan = nullptr;
  ASSERT_EQ(framelane_client_loan(client_, 3000, &loan), FRAMELANE_OK);
  std::memset(framelane_loan_data(loan), 'l', 3000);
  framelane_response* response = nullptr;
  int32_t sent = 0;
  ASSERT_EQ(framelane_client_call_loan(client_, loan, 3000, kPatience, &response, &sent), FRAMELANE_OK);
  EXPECT_EQ(sent, 1);
  EXPECT_EQ(framelane_response_size(response), 3000u);
  framelane_response_unref(response);
  ASSERT_EQ(framelane_client_loan(client_, 3000, &loan), FRAMELANE_OK);
  std::memset(framelane_loan_data(loan), 'x', 3000);
  framelane_call* call = nullptr;
  ASSERT_EQ(framelane_client_start_loan(client_, loan, 3000, kPatience, &call), FRAMELANE_OK);
  ASSERT_EQ(framelane_call_wait(call, kPatience, &response), FRAMELANE_OK);
  framelane_response_unref(response);
  framelane_call_free(call);
  ASSERT_EQ(framelane_client_loan(client_, 10, &loan), FRAMELANE_OK);
  EXPECT_EQ(framelane_client_call_loan(client_, loan, std::size_t{1} << 30, kPatience, &response, &sent),
            FRAMELANE_INVALID_ARGUMENT);
  EXPECT_EQ(sent, 0);
  EXPECT_EQ(framelane_client_start_loan(client_, loan, std::size_t{1} << 30, kPatience, &call),
            FRAMELANE_INVALID_ARGUMENT);
  EXPECT_EQ(call, nullptr);
  framelane_loan_discard(loan);
}

TEST_F(CPair, ErrorAnswersHaveTheServersCodeAndText) {
  framelane_response* response = nullptr;
  EXPECT_EQ(framelane_client_call(client_, "e", 1, kPatience, &response), FRAMELANE_TOO_LARGE);
  EXPECT_STREQ(framelane_error_text(), "too much");
  EXPECT_EQ(response, nullptr);
  EXPECT_EQ(framelane_client_call(client_, "n", 1, kPatience, &response), FRAMELANE_REFUSED);
}

TEST_F(CPair, CallsInFlightCanBeGivenUp) {
  framelane_call* silent = nullptr;
  ASSERT_EQ(framelane_client_start(client_, "s", 1, kPatience, &silent), FRAMELANE_OK);
  framelane_response* response = nullptr;
  EXPECT_EQ(framelane_call_wait(silent, kMoment, &response), FRAMELANE_TIMEOUT);
  EXPECT_EQ(framelane_call_pending(silent), 1);
  framelane_client_interrupt(client_);
  EXPECT_EQ(framelane_call_wait(silent, FRAMELANE_FOREVER, &response), FRAMELANE_INTERRUPTED);
  framelane_client_resume(client_);
  framelane_call_free(silent);
  ASSERT_EQ(framelane_client_call(client_, "again", 5, kPatience, &response), FRAMELANE_OK) << framelane_error_text();
  framelane_response_unref(response);
}

TEST_F(CPair, ResponsesAndCallsOutliveTheClient) {
  framelane_response* response = nullptr;
  std::string question(2000, 'q');
  ASSERT_EQ(framelane_client_call(client_, question.data(), question.size(), kPatience, &response), FRAMELANE_OK);
  framelane_call* call = nullptr;
  ASSERT_EQ(framelane_client_start(client_, "x", 1, kPatience, &call), FRAMELANE_OK);
  framelane_client_close(client_);
  client_ = nullptr;
  EXPECT_EQ(static_cast<const char*>(framelane_response_data(response))[1999], 'q');
  framelane_response* none = nullptr;
  EXPECT_EQ(framelane_call_wait(call, kPatience, &none), FRAMELANE_INVALID_ARGUMENT);
  framelane_call_free(call);
  framelane_response_unref(response);
}

}  // namespace
}  // namespace framelane::capi_test
