// SPDX-License-Identifier: MIT
// Structs of other versions, wrong input, and how errors are read.
#include <cstddef>
#include <thread>
#include <vector>

#include "c_lanes.hpp"

namespace framelane::capi_test {
namespace {

std::string text() { return framelane_error_text(); }

TEST_F(CTest, CodesHaveNamesAndTheThreadItsText) {
  EXPECT_STREQ(framelane_code_name(FRAMELANE_OK), "ok");
  EXPECT_STREQ(framelane_code_name(FRAMELANE_IN_USE), "in-use");
  framelane_producer* producer = nullptr;
  EXPECT_EQ(framelane_producer_open("no such name", nullptr, &producer), FRAMELANE_INVALID_ARGUMENT);
  EXPECT_EQ(producer, nullptr);
  EXPECT_EQ(framelane_error_code(), FRAMELANE_INVALID_ARGUMENT);
  const std::string mine = text();
  EXPECT_NE(mine, "");
  std::thread([] {
    EXPECT_STREQ(framelane_error_text(), "");
    EXPECT_EQ(framelane_error_code(), FRAMELANE_OK);
    EXPECT_EQ(framelane_consumer_connect(nullptr, 0), FRAMELANE_INVALID_ARGUMENT);
    EXPECT_STREQ(framelane_error_text(), "consumer is NULL");
  }).join();
  EXPECT_EQ(text(), mine);
}

TEST_F(CTest, InitFillsInTheDefaults) {
  framelane_producer_settings producer;
  std::memset(&producer, 0xff, sizeof producer);
  framelane_producer_settings_init(&producer, sizeof producer);
  EXPECT_EQ(producer.size, sizeof producer);
  EXPECT_EQ(producer.burst, 8u);
  EXPECT_EQ(producer.full_timeout_ns, 1'000'000'000);
  EXPECT_EQ(producer.max_side_data, 960u);
  EXPECT_EQ(producer.psk_file, nullptr);
  framelane_consumer_settings consumer;
  framelane_consumer_settings_init(&consumer, sizeof consumer);
  EXPECT_EQ(consumer.gating, 1);
  EXPECT_EQ(consumer.connect_timeout_ns, 10'000'000'000);
  framelane_rpc_settings rpc;
  framelane_rpc_settings_init(&rpc, sizeof rpc);
  EXPECT_EQ(rpc.burst, 16u);
}

// A program that was compiled when the struct ended behind `burst`: nothing behind it is read or written.
TEST_F(CTest, AShorterStructCountsForWhatItHas) {
  constexpr std::size_t kOld = offsetof(framelane_producer_settings, burst_time_ns);
  framelane_producer_settings settings;
  std::memset(&settings, 0xee, sizeof settings);
  framelane_producer_settings_init(&settings, kOld);
  EXPECT_EQ(settings.size, kOld);
  EXPECT_EQ(settings.burst, 8u);
  EXPECT_EQ(settings.max_frame_size, 0xeeeeeeeeeeeeeeeeu);
  settings.burst = 2;
  framelane_producer* producer = nullptr;
  ASSERT_EQ(framelane_producer_open("cam0", &settings, &producer), FRAMELANE_OK) << text();

  constexpr std::size_t kOldStats = offsetof(framelane_producer_stats, dropped_full);
  framelane_producer_stats stats;
  std::memset(&stats, 0xee, sizeof stats);
  stats.size = kOldStats;
  ASSERT_EQ(framelane_producer_get_stats(producer, &stats, nullptr, 0), FRAMELANE_OK);
  EXPECT_EQ(stats.size, kOldStats);
  EXPECT_EQ(stats.published, 0u);
  EXPECT_EQ(stats.dropped_full, 0xeeeeeeeeeeeeeeeeu);

  framelane_frame_info info;
  framelane_frame_info_init(&info, sizeof info);
  info.pts = 3;
  info.dts = 4;  // behind the end
  info.size = offsetof(framelane_frame_info, dts);
  ASSERT_EQ(framelane_producer_publish_copy(producer, "x", 1, &info, nullptr, nullptr), FRAMELANE_OK) << text();
  framelane_producer_close(producer);
}

struct NewerSettings {
  framelane_consumer_settings known;
  std::uint64_t newer;
};

TEST_F(CTest, ALongerStructIsReadUnlessItAsksForWhatIsNotKnown) {
  NewerSettings settings;
  std::memset(&settings, 0xee, sizeof settings);
  framelane_consumer_settings_init(&settings.known, sizeof settings);
  EXPECT_EQ(settings.known.size, sizeof settings);
  EXPECT_EQ(settings.newer, 0u);
  framelane_consumer* consumer = nullptr;
  ASSERT_EQ(framelane_consumer_open("cam0", &settings.known, &consumer), FRAMELANE_OK) << text();
  framelane_consumer_close(consumer);
  settings.newer = 1;
  EXPECT_EQ(framelane_consumer_open("cam0", &settings.known, &consumer), FRAMELANE_UNSUPPORTED);
  EXPECT_NE(text().find("framelane_consumer_settings"), std::string::npos) << text();
  EXPECT_EQ(consumer, nullptr);
}

TEST_F(CTest, AStructWithoutASizeIsRefused) {
  for (const std::uint32_t size : {0u, 4u, 7u, 100'000u, 0xffffffffu}) {
    framelane_producer_settings settings{};
    settings.size = size;
    framelane_producer* producer = nullptr;
    EXPECT_EQ(framelane_producer_open("cam0", &settings, &producer), FRAMELANE_INVALID_ARGUMENT) << size;
    EXPECT_NE(text().find("framelane_producer_settings"), std::string::npos) << text();
  }
}

TEST_F(CTest, NumbersThatAreNoneOfTheirEnumAreRefused) {
  framelane_producer_settings settings;
  framelane_producer* producer = nullptr;
  for (int which = 0; which < 5; ++which) {
    framelane_producer_settings_init(&settings, sizeof settings);
    if (which == 0) settings.leaky = 3;
    if (which == 1) settings.stamps = -1;
    if (which == 2) settings.spin = 9;
    if (which == 3) settings.transport = FRAMELANE_TRANSPORT_PIPE;
    if (which == 4) settings.burst = 0;
    EXPECT_EQ(framelane_producer_open("cam0", &settings, &producer), FRAMELANE_INVALID_ARGUMENT) << which;
  }
  framelane_consumer_settings wanted;
  framelane_consumer_settings_init(&wanted, sizeof wanted);
  wanted.mode = 2;
  framelane_consumer* consumer = nullptr;
  EXPECT_EQ(framelane_consumer_open("cam0", &wanted, &consumer), FRAMELANE_INVALID_ARGUMENT);
  EXPECT_EQ(framelane_consumer_open(nullptr, nullptr, &consumer), FRAMELANE_INVALID_ARGUMENT);
  EXPECT_EQ(text(), "lane is NULL");
  EXPECT_EQ(framelane_consumer_open("cam0", nullptr, nullptr), FRAMELANE_INVALID_ARGUMENT);
}

TEST_F(CLane, WrongArgumentsLeaveTheLoanWithItsOwner) {
  framelane_loan* loan = nullptr;
  EXPECT_EQ(framelane_producer_loan(producer_, std::size_t{1} << 40, &loan), FRAMELANE_TOO_LARGE);
  EXPECT_EQ(loan, nullptr);
  ASSERT_EQ(framelane_producer_loan(producer_, 100, &loan), FRAMELANE_OK);
  EXPECT_EQ(framelane_producer_publish(producer_, loan, std::size_t{1} << 30, nullptr, nullptr, nullptr),
            FRAMELANE_INVALID_ARGUMENT);
  framelane_frame_info info{};
  EXPECT_EQ(framelane_producer_publish(producer_, loan, 100, &info, nullptr, nullptr), FRAMELANE_INVALID_ARGUMENT);
  framelane_publish_options options;
  framelane_publish_options_init(&options, sizeof options);
  options.side_data_size = 4;
  EXPECT_EQ(framelane_producer_publish(producer_, loan, 100, nullptr, &options, nullptr), FRAMELANE_INVALID_ARGUMENT);
  EXPECT_EQ(text(), "side_data is NULL");
  std::vector<char> much(2000);
  options.side_data = much.data();
  options.side_data_size = much.size();
  EXPECT_EQ(framelane_producer_publish(producer_, loan, 100, nullptr, &options, nullptr), FRAMELANE_TOO_LARGE);
  EXPECT_EQ(framelane_producer_publish(producer_, loan, 100, nullptr, nullptr, nullptr), FRAMELANE_OK);
  framelane_frame_unref(take());

  framelane_event event;
  framelane_event_init(&event, sizeof event);
  event.type = 99;
  EXPECT_EQ(framelane_producer_send(producer_, &event), FRAMELANE_INVALID_ARGUMENT);
  framelane_upstream wish;
  framelane_upstream_init(&wish, sizeof wish);
  wish.type = 0;
  EXPECT_EQ(framelane_consumer_send_upstream(consumer_, &wish), FRAMELANE_INVALID_ARGUMENT);
  EXPECT_EQ(framelane_producer_set_leaky(producer_, 3), FRAMELANE_INVALID_ARGUMENT);
  EXPECT_EQ(framelane_producer_publish_copy(producer_, nullptr, 4, nullptr, nullptr, nullptr),
            FRAMELANE_INVALID_ARGUMENT);
}

TEST_F(CLane, RunsOutOfLoansWithASentence) {
  std::vector<framelane_loan*> loans;
  framelane_loan* loan = nullptr;
  while (framelane_producer_loan(producer_, 100, &loan) == FRAMELANE_OK) loans.push_back(loan);
  EXPECT_EQ(loans.size(), 16u);
  EXPECT_EQ(framelane_error_code(), FRAMELANE_FULL);
  for (framelane_loan* one : loans) framelane_loan_discard(one);
  ASSERT_EQ(framelane_producer_loan(producer_, 100, &loan), FRAMELANE_OK);
  framelane_loan_discard(loan);
}

void note_line(int32_t level, const char* line, void* user) {
  if (level == FRAMELANE_LOG_WARNING) *static_cast<std::string*>(user) = line;
}

TEST_F(CTest, LogLinesGoToTheHook) {
  static std::string last;
  ASSERT_EQ(framelane_set_log_hook(note_line, &last), FRAMELANE_OK);
  ASSERT_EQ(framelane_set_log_hook(note_line, &last), FRAMELANE_OK);
  framelane_log(FRAMELANE_LOG_WARNING, "look out");
  ASSERT_EQ(framelane_set_log_hook(nullptr, nullptr), FRAMELANE_OK);
  EXPECT_EQ(last, "look out");
  framelane_log(99, nullptr);
}

TEST_F(CTest, TheVersionIsTheHeaders) {
  const std::string version = std::to_string(FRAMELANE_VERSION_MAJOR) + "." + std::to_string(FRAMELANE_VERSION_MINOR) +
                              "." + std::to_string(FRAMELANE_VERSION_PATCH);
  EXPECT_EQ(framelane_version(), version);
  EXPECT_EQ(framelane_version_number(),
            10000u * FRAMELANE_VERSION_MAJOR + 100u * FRAMELANE_VERSION_MINOR + std::uint32_t{FRAMELANE_VERSION_PATCH});
}

}  // namespace
}  // namespace framelane::capi_test
