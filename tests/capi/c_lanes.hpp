// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <unistd.h>

#include "framelane/framelane.h"

// What the tests of the C ABI share. They see framelane.h alone.
namespace framelane::capi_test {

/// Long enough for a slow machine; a test that waits this long has failed.
inline constexpr std::int64_t kPatience = 20'000'000'000;
inline constexpr std::int64_t kMoment = 20'000'000;

/// What $FRAMELANE_TEST_TRANSPORT says: "uds", else shm.
[[nodiscard]] inline std::int32_t tested_transport() {
  const char* const told = std::getenv("FRAMELANE_TEST_TRANSPORT");
  return told != nullptr && std::strcmp(told, "uds") == 0 ? FRAMELANE_TRANSPORT_UDS : FRAMELANE_TRANSPORT_SHM;
}

/// Each test has a directory for lanes of its own.
class CTest : public ::testing::Test {
 protected:
  CTest() {
    char path[] = "/tmp/framelane-capi-XXXXXX";
    if (mkdtemp(path) == nullptr) std::abort();
    directory_ = path;
    setenv("FRAMELANE_DIR", path, 1);
  }
  ~CTest() override {
    std::error_code ignored;
    std::filesystem::remove_all(directory_, ignored);
  }

  std::string directory_;
};

/// A producer and a connected consumer of lane "cam0".
class CLane : public CTest {
 protected:
  void SetUp() override {
    framelane_producer_settings settings;
    framelane_producer_settings_init(&settings, sizeof settings);
    settings.stamps = FRAMELANE_STAMPS_ON;
    ASSERT_EQ(framelane_producer_open("cam0", &settings, &producer_), FRAMELANE_OK) << framelane_error_text();
    framelane_consumer_settings wanted;
    framelane_consumer_settings_init(&wanted, sizeof wanted);
    wanted.transport = tested_transport();
    ASSERT_EQ(framelane_consumer_open("cam0", &wanted, &consumer_), FRAMELANE_OK) << framelane_error_text();
    ASSERT_EQ(framelane_consumer_connect(consumer_, kPatience), FRAMELANE_OK) << framelane_error_text();
    ASSERT_EQ(framelane_producer_wait_for_consumers(producer_, 1, kPatience), FRAMELANE_OK);
  }
  void TearDown() override {
    framelane_consumer_close(consumer_);
    framelane_producer_close(producer_);
  }

  void publish(std::uint64_t number, std::size_t size = 5000) {
    framelane_loan* loan = nullptr;
    ASSERT_EQ(framelane_producer_loan(producer_, size, &loan), FRAMELANE_OK) << framelane_error_text();
    std::memcpy(framelane_loan_data(loan), &number, sizeof number);
    ASSERT_EQ(framelane_producer_publish(producer_, loan, size, nullptr, nullptr, nullptr), FRAMELANE_OK);
  }
  static std::uint64_t number(const framelane_frame* frame) {
    std::uint64_t number = ~std::uint64_t{0};
    if (framelane_frame_size(frame) >= sizeof number) std::memcpy(&number, framelane_frame_data(frame), sizeof number);
    return number;
  }
  framelane_frame* take() {
    framelane_frame* frame = nullptr;
    EXPECT_EQ(framelane_consumer_take(consumer_, kPatience, &frame), FRAMELANE_OK) << framelane_error_text();
    return frame;
  }

  /// All that comes up to the end of the stream: the type of each event (0: a frame), and its number, of a segment its
  /// start, of a frame what publish() was told.
  std::vector<std::pair<std::int32_t, std::uint64_t>> take_items() {
    std::vector<std::pair<std::int32_t, std::uint64_t>> taken;
    framelane_event event{};
    event.size = sizeof event;
    framelane_frame* frame = nullptr;
    framelane_code code = FRAMELANE_OK;
    while (taken.size() < 50 &&
           (code = framelane_consumer_take_item(consumer_, kPatience, &frame, &event)) == FRAMELANE_OK) {
      const std::uint64_t said = event.type == FRAMELANE_EVENT_SEGMENT ? event.segment.start : event.number;
      taken.emplace_back(event.type, frame != nullptr ? number(frame) : said);
      framelane_frame_unref(frame);
    }
    EXPECT_EQ(code, FRAMELANE_END_OF_STREAM) << framelane_error_text();
    return taken;
  }

  framelane_producer* producer_ = nullptr;
  framelane_consumer* consumer_ = nullptr;
};

/// A child: this program again, as a producer until it is killed.
class ProducerProcess {
 public:
  explicit ProducerProcess(const char* lane);
  ~ProducerProcess() { kill_now(); }
  ProducerProcess(const ProducerProcess&) = delete;
  ProducerProcess& operator=(const ProducerProcess&) = delete;
  /// False when it doesn't begin within 30 s.
  [[nodiscard]] bool has_published() const;
  void kill_now();

 private:
  pid_t pid_ = -1;
  int from_ = -1;
};
int produce_until_killed(const char* lane);

}  // namespace framelane::capi_test
