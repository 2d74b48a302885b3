// SPDX-License-Identifier: MIT
// The C ABI adds neither an allocation nor a system call to a frame's way. Counted.
#include <atomic>
#include <thread>

#include "c_lanes.hpp"
#include "frame_path_counters.hpp"

namespace framelane::capi_test {
namespace {

constexpr std::uint64_t kWarmUp = 200;
constexpr std::uint64_t kRounds = 5000;

void publish_round(framelane_producer* producer, std::uint64_t round) {
  framelane_loan* loan = nullptr;
  framelane_frame_info info;
  framelane_frame_info_init(&info, sizeof info);
  info.pts = round;
  if (framelane_producer_loan(producer, 5000, &loan) != FRAMELANE_OK) std::abort();
  std::memcpy(framelane_loan_data(loan), &round, sizeof round);
  if (framelane_producer_publish(producer, loan, 5000, &info, nullptr, nullptr) != FRAMELANE_OK) std::abort();
}

/// So that what comes next is a frame: events have to be taken one by one.
void take_events(framelane_consumer* consumer, const char* caps) {
  framelane_frame* frame = nullptr;
  framelane_event event;
  event.size = sizeof event;
  while (std::strcmp(framelane_consumer_caps(consumer), caps) != 0) {
    if (framelane_consumer_take_item(consumer, kPatience, &frame, &event) != FRAMELANE_OK) std::abort();
  }
}

void take_round(framelane_consumer* consumer, std::uint64_t round) {
  framelane_frame* frame = nullptr;
  framelane_event event;
  event.size = sizeof event;
  // Each way to take one, in turns; Python's is the second.
  const framelane_code code = round % 3 == 0   ? framelane_consumer_take(consumer, FRAMELANE_FOREVER, &frame)
                              : round % 3 == 1 ? framelane_consumer_try_take(consumer, &frame)
                                               : framelane_consumer_take_item(consumer, 0, &frame, &event);
  if (code != FRAMELANE_OK || frame == nullptr) std::abort();
  if (framelane_frame_pts(frame) != round || framelane_frame_caps_id(frame) == 0) std::abort();
  framelane_frame_ref(frame);
  framelane_frame_unref(frame);
  framelane_frame_unref(frame);
}

TEST_F(CTest, NoAllocationAndNoSystemCallOnAFramesWay) {
  framelane_producer* producer = nullptr;
  framelane_consumer_settings settings;
  framelane_consumer_settings_init(&settings, sizeof settings);
  settings.spin = FRAMELANE_SPIN_BUSY;
  framelane_consumer* consumer = nullptr;
  ASSERT_EQ(framelane_producer_open("cam0", nullptr, &producer), FRAMELANE_OK);
  const char* const caps = "video/x-raw, format=GRAY8, width=50, height=100";
  ASSERT_EQ(framelane_producer_set_caps(producer, caps), FRAMELANE_OK);
  ASSERT_EQ(framelane_consumer_open("cam0", &settings, &consumer), FRAMELANE_OK);
  ASSERT_EQ(framelane_consumer_connect(consumer, kPatience), FRAMELANE_OK);
  take_events(consumer, caps);
  bool counts_calls = false;
  std::uint64_t allocations = 0;
  std::uint64_t calls = 0;
  std::thread([&] {  // one thread does both, so that nobody sleeps
    for (std::uint64_t i = 0; i < kWarmUp; ++i) {
      publish_round(producer, i);
      take_round(consumer, i);
    }
    counts_calls = support::trap_system_calls();
    allocations = support::allocations();
    calls = support::trapped_calls();
    for (std::uint64_t i = kWarmUp; i < kWarmUp + kRounds; ++i) {
      publish_round(producer, i);
      take_round(consumer, i);
    }
    allocations = support::allocations() - allocations;
    calls = support::trapped_calls() - calls;
  })
      .join();
  EXPECT_EQ(allocations, 0u);
  if (counts_calls) {
    EXPECT_EQ(calls, 0u);
  }
  framelane_consumer_close(consumer);
  framelane_producer_close(producer);
}

}  // namespace
}  // namespace framelane::capi_test
