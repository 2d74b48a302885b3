// SPDX-License-Identifier: MIT
#include <algorithm>
#include <array>
#include <atomic>
#include <thread>
#include <utility>
#include <vector>

#include "c_lanes.hpp"

namespace framelane::capi_test {
namespace {

constexpr int32_t kFrame = 0;
constexpr const char* kCaps =
    "video/x-raw, format=(string)NV12, width=(int)64, height=(int)48, framerate=(fraction)30/1";

TEST_F(CLane, LendsASlotAndItsFrame) {
  framelane_loan* loan = nullptr;
  ASSERT_EQ(framelane_producer_loan(producer_, 5000, &loan), FRAMELANE_OK);
  EXPECT_GE(framelane_loan_capacity(loan), 5000u);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(framelane_loan_data(loan)) % 64, 0u);
  const int slot = framelane_loan_slot(loan);
  EXPECT_GE(slot, 0);
  std::memset(framelane_loan_data(loan), 7, 5000);
  framelane_frame_info info;
  framelane_frame_info_init(&info, sizeof info);
  info.pts = 11;
  info.dts = 12;
  info.duration = 13;
  info.flags = FRAMELANE_FLAG_MARKER;
  info.type_id = 14;
  info.due_ns = 15;
  info.capture_ns = 16;
  framelane_publish_options options;
  framelane_publish_options_init(&options, sizeof options);
  options.wake = FRAMELANE_WAKE_LATER;
  options.side_data = "beside";
  options.side_data_size = 6;
  int32_t published = -1;
  ASSERT_EQ(framelane_producer_publish(producer_, loan, 5000, &info, &options, &published), FRAMELANE_OK);
  EXPECT_EQ(published, FRAMELANE_PUBLISHED);
  framelane_producer_wake_consumers(producer_);

  framelane_frame* frame = take();
  ASSERT_NE(frame, nullptr);
  EXPECT_EQ(framelane_frame_size(frame), 5000u);
  EXPECT_EQ(static_cast<const char*>(framelane_frame_data(frame))[4999], 7);
  EXPECT_EQ(framelane_frame_seq(frame), 0u);
  EXPECT_EQ(framelane_frame_skipped(frame), 0u);
  EXPECT_EQ(framelane_frame_slot(frame), slot);
  EXPECT_EQ(framelane_frame_pts(frame), 11u);
  EXPECT_EQ(framelane_frame_dts(frame), 12u);
  EXPECT_EQ(framelane_frame_duration(frame), 13u);
  EXPECT_EQ(framelane_frame_flags(frame), std::uint32_t{FRAMELANE_FLAG_MARKER});
  EXPECT_EQ(framelane_frame_type_id(frame), 14u);
  EXPECT_EQ(framelane_frame_due(frame), 15);
  EXPECT_GT(framelane_frame_published(frame), 0);
  EXPECT_GE(framelane_frame_latency(frame), 0);
  EXPECT_EQ(framelane_frame_is_copy(frame), 0);
  EXPECT_EQ(framelane_frame_is_inline(frame), 0);
  std::size_t side = 0;
  EXPECT_EQ(std::memcmp(framelane_frame_side_data(frame, &side), "beside", 6), 0);
  EXPECT_EQ(side, 6u);
  framelane_frame_info told{};
  told.size = sizeof told;
  ASSERT_EQ(framelane_frame_get_info(frame, &told), FRAMELANE_OK);
  EXPECT_EQ(told.capture_ns, 16);
  EXPECT_EQ(told.offset, FRAMELANE_NO_TIME);
  framelane_frame_unref(frame);
}

TEST_F(CLane, SmallPayloadsLieInTheFrame) {
  ASSERT_EQ(framelane_producer_publish_copy(producer_, "abc", 3, nullptr, nullptr, nullptr), FRAMELANE_OK);
  framelane_frame* frame = take();
  EXPECT_EQ(framelane_frame_is_inline(frame), 1);
  EXPECT_EQ(framelane_frame_slot(frame), -1);
  EXPECT_EQ(framelane_frame_pts(frame), FRAMELANE_NO_TIME);
  EXPECT_EQ(framelane_frame_due(frame), FRAMELANE_NO_CLOCK_TIME);
  EXPECT_EQ(framelane_frame_side_data(frame, nullptr), nullptr);
  framelane_frame_unref(frame);
}

TEST_F(CLane, FramesGoBackOnAnyThreadAfterTheLastReference) {
  publish(1);
  framelane_frame* frame = take();
  EXPECT_EQ(framelane_frame_ref(frame), frame);
  std::thread([frame] { framelane_frame_unref(frame); }).join();
  framelane_consumer_stats stats{};
  stats.size = sizeof stats;
  ASSERT_EQ(framelane_consumer_get_stats(consumer_, &stats), FRAMELANE_OK);
  EXPECT_EQ(stats.held, 1u);
  EXPECT_EQ(number(frame), 1u);
  std::thread([frame] { framelane_frame_unref(frame); }).join();
  ASSERT_EQ(framelane_consumer_get_stats(consumer_, &stats), FRAMELANE_OK);
  EXPECT_EQ(stats.held, 0u);
}

TEST_F(CLane, FramesAndLoansOutliveTheirEnds) {
  publish(1);
  framelane_frame* frame = take();
  framelane_loan* loan = nullptr;
  ASSERT_EQ(framelane_producer_loan(producer_, 5000, &loan), FRAMELANE_OK);
  framelane_consumer_close(consumer_);
  framelane_producer_close(producer_);
  consumer_ = nullptr;
  producer_ = nullptr;
  EXPECT_EQ(number(frame), 1u);
  std::memset(framelane_loan_data(loan), 1, 5000);
  framelane_loan_discard(loan);
  framelane_frame_unref(frame);
}

TEST_F(CLane, CountsPrivateCopiesBeyondMaxHeld) {
  std::vector<framelane_frame*> held;
  for (std::uint64_t i = 0; i < 6; ++i) {
    publish(i);
    held.push_back(take());
    EXPECT_EQ(framelane_frame_is_copy(held.back()), i >= 4 ? 1 : 0) << i;
  }
  for (framelane_frame* frame : held) framelane_frame_unref(frame);
}

TEST_F(CLane, TakesManyAtOnce) {
  framelane_loan* loans[3];
  EXPECT_EQ(framelane_producer_try_loan(producer_, 40, &loans[0]), FRAMELANE_FULL) << "no slots yet";
  ASSERT_EQ(framelane_producer_reserve(producer_, 5000), FRAMELANE_OK);
  std::size_t sizes[3];
  framelane_frame_info infos[3];
  for (std::size_t i = 0; i < 3; ++i) {
    sizes[i] = 40 + i;
    ASSERT_EQ(framelane_producer_try_loan(producer_, sizes[i], &loans[i]), FRAMELANE_OK);
    framelane_frame_info_init(&infos[i], sizeof infos[i]);
    infos[i].pts = i;
  }
  std::size_t done = 0;
  ASSERT_EQ(framelane_producer_publish_many(producer_, loans, sizes, infos, 3, &done), FRAMELANE_OK);
  EXPECT_EQ(done, 3u);
  std::array<framelane_frame*, 8> frames{};
  std::size_t count = 0;
  ASSERT_EQ(framelane_consumer_take_many(consumer_, kPatience, frames.data(), frames.size(), &count), FRAMELANE_OK);
  ASSERT_EQ(count, 3u);
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(framelane_frame_size(frames[i]), 40 + i);
    EXPECT_EQ(framelane_frame_pts(frames[i]), i);
    framelane_frame_unref(frames[i]);
  }
  EXPECT_EQ(framelane_consumer_take_many(consumer_, 0, frames.data(), frames.size(), &count), FRAMELANE_TIMEOUT);
  EXPECT_EQ(count, 0u);
}

TEST_F(CLane, KeepsALoanUntilNobodyReadsIt) {
  framelane_loan* loan = nullptr;
  ASSERT_EQ(framelane_producer_loan(producer_, 5000, &loan), FRAMELANE_OK);
  ASSERT_EQ(framelane_producer_publish_kept(producer_, loan, 5000, nullptr, nullptr, nullptr), FRAMELANE_OK);
  framelane_frame* frame = take();
  std::uint16_t slots[4];
  std::size_t count = 0;
  ASSERT_EQ(framelane_producer_reclaimed(producer_, slots, 4, &count), FRAMELANE_OK);
  EXPECT_EQ(count, 0u);
  framelane_frame_unref(frame);
  for (int i = 0; i < 64 && count == 0; ++i) {
    publish(static_cast<std::uint64_t>(i));
    framelane_frame_unref(take());
    ASSERT_EQ(framelane_producer_reclaimed(producer_, slots, 4, &count), FRAMELANE_OK);
  }
  ASSERT_EQ(count, 1u);
  EXPECT_EQ(slots[0], framelane_loan_slot(loan));
  framelane_loan_discard(loan);
}

TEST_F(CLane, KeptLoansWakeNobodyWhenToldSo) {
  publish(0);  // it tells of the slots, which wakes
  framelane_frame_unref(take());
  framelane_loan* loan = nullptr;
  ASSERT_EQ(framelane_producer_loan(producer_, 5000, &loan), FRAMELANE_OK);
  std::thread taking([this] { framelane_frame_unref(take()); });
  framelane_producer_stats stats{};
  stats.size = sizeof stats;
  framelane_consumer_info sleeper{};
  sleeper.size = sizeof sleeper;
  for (int i = 0; i < 2000 && sleeper.sleeping == 0; ++i) {
    usleep(10'000);
    EXPECT_EQ(framelane_producer_get_stats(producer_, &stats, &sleeper, 1), FRAMELANE_OK);
  }
  EXPECT_EQ(sleeper.sleeping, 1);
  const std::uint64_t before = stats.wakes;
  framelane_publish_options options;
  framelane_publish_options_init(&options, sizeof options);
  options.wake = FRAMELANE_WAKE_LATER;
  EXPECT_EQ(framelane_producer_publish_kept(producer_, loan, 5000, nullptr, &options, nullptr), FRAMELANE_OK);
  EXPECT_EQ(framelane_producer_get_stats(producer_, &stats, nullptr, 0), FRAMELANE_OK);
  EXPECT_EQ(stats.wakes, before);
  framelane_producer_wake_consumers(producer_);
  taking.join();
  framelane_loan_discard(loan);
}

TEST_F(CLane, FramesKnowTheirCaps) {
  publish(0);
  ASSERT_EQ(framelane_producer_set_caps(producer_, kCaps), FRAMELANE_OK);
  publish(1);
  publish(2);
  framelane_frame* frames[3] = {take(), take(), take()};
  EXPECT_STREQ(framelane_frame_caps(frames[0]), "");
  EXPECT_EQ(framelane_frame_caps_id(frames[0]), 0u);
  EXPECT_STREQ(framelane_frame_caps(frames[1]), kCaps);
  EXPECT_STREQ(framelane_consumer_caps(consumer_), kCaps);
  EXPECT_NE(framelane_frame_caps_id(frames[1]), 0u);
  EXPECT_EQ(framelane_frame_caps_id(frames[1]), framelane_frame_caps_id(frames[2]));
  framelane_format* format = nullptr;
  EXPECT_EQ(framelane_frame_get_format(frames[0], &format), FRAMELANE_NOT_FOUND);
  ASSERT_EQ(framelane_frame_get_format(frames[1], &format), FRAMELANE_OK);
  framelane_format* same = nullptr;
  ASSERT_EQ(framelane_frame_get_format(frames[2], &same), FRAMELANE_OK);
  EXPECT_EQ(same, format);
  for (framelane_frame* frame : frames) framelane_frame_unref(frame);
  framelane_format_unref(same);
  EXPECT_EQ(framelane_format_kind(format), FRAMELANE_FORMAT_VIDEO);
  framelane_format_unref(format);
}

// lanesink says so of planes that are padded.
TEST_F(CLane, FramesKnowWhereTheirPlanesLie) {
  ASSERT_EQ(framelane_producer_set_caps(producer_, kCaps), FRAMELANE_OK);
  publish(0);
  framelane_event event;
  framelane_event_init(&event, sizeof event);
  event.type = FRAMELANE_EVENT_STATE;
  event.text = "framelane-layout, offset=(guint64)< 96, 8192 >, stride=(int)< 96, 128 >, top=(uint)1;";
  ASSERT_EQ(framelane_producer_send(producer_, &event), FRAMELANE_OK) << framelane_error_text();
  publish(1, 16384);
  event.text = "framelane-layout, offset=(guint64)< 96 >, stride=(int)< 96 >;";
  ASSERT_EQ(framelane_producer_send(producer_, &event), FRAMELANE_OK) << framelane_error_text();
  publish(2);
  framelane_frame* frames[3] = {take(), take(), take()};
  EXPECT_NE(framelane_frame_caps_id(frames[0]), framelane_frame_caps_id(frames[1]));
  EXPECT_STREQ(framelane_frame_caps(frames[1]), kCaps);
  framelane_video_format video{};
  video.size = sizeof video;
  framelane_format* format = nullptr;
  ASSERT_EQ(framelane_frame_get_format(frames[0], &format), FRAMELANE_OK) << framelane_error_text();
  ASSERT_EQ(framelane_format_get_video(format, &video), FRAMELANE_OK);
  EXPECT_EQ(video.planes[1].offset, 64u * 48u);
  framelane_format_unref(format);
  ASSERT_EQ(framelane_frame_get_format(frames[1], &format), FRAMELANE_OK) << framelane_error_text();
  ASSERT_EQ(framelane_format_get_video(format, &video), FRAMELANE_OK);
  EXPECT_EQ(video.planes[0].offset, 96u);
  EXPECT_EQ(video.planes[0].stride, 96u);
  EXPECT_EQ(video.planes[1].offset, 8192u);
  EXPECT_EQ(video.planes[1].stride, 128u);
  EXPECT_EQ(video.planes[1].rows, 24u);
  EXPECT_EQ(video.planes[1].columns, 32u);
  EXPECT_EQ(framelane_format_frame_size(format), 8192u + 23u * 128u + 64u);
  EXPECT_EQ(video.frame_size, framelane_format_frame_size(format));
  framelane_format_unref(format);
  EXPECT_EQ(framelane_frame_get_format(frames[2], &format), FRAMELANE_PROTOCOL);
  EXPECT_NE(std::string(framelane_error_text()).find("1 planes"), std::string::npos) << framelane_error_text();
  for (framelane_frame* frame : frames) framelane_frame_unref(frame);
}

TEST_F(CLane, EventsComeInOrder) {
  framelane_event event;
  framelane_event_init(&event, sizeof event);
  event.type = FRAMELANE_EVENT_SEGMENT;
  event.segment.start = 5;
  ASSERT_EQ(framelane_producer_send(producer_, &event), FRAMELANE_OK) << framelane_error_text();
  framelane_event_init(&event, sizeof event);
  event.number = 3;
  event.text = "custom";
  ASSERT_EQ(framelane_producer_send(producer_, &event), FRAMELANE_OK) << framelane_error_text();
  publish(1);
  ASSERT_EQ(framelane_producer_set_caps(producer_, kCaps), FRAMELANE_OK);
  ASSERT_EQ(framelane_producer_end_of_stream(producer_), FRAMELANE_OK);
  using Taken = std::vector<std::pair<int32_t, std::uint64_t>>;
  EXPECT_EQ(take_items(), (Taken{{FRAMELANE_EVENT_SEGMENT, 5},
                                 {FRAMELANE_EVENT_CUSTOM, 3},
                                 {kFrame, 1},
                                 {FRAMELANE_EVENT_CAPS, 0},
                                 {FRAMELANE_EVENT_END_OF_STREAM, 0}}));
}

TEST_F(CLane, AFlushComesBetweenTheFramesThatItDropsAndTheNext) {
  publish(1);
  framelane_producer_flush_start(producer_);
  EXPECT_EQ(framelane_producer_drain(producer_, 0), FRAMELANE_INTERRUPTED);
  for (int i = 0; i < 2000 && framelane_consumer_flushing(consumer_) == 0; ++i) usleep(10'000);
  EXPECT_EQ(framelane_consumer_flushing(consumer_), 1);
  ASSERT_EQ(framelane_producer_flush_stop(producer_), FRAMELANE_OK);
  publish(2);
  ASSERT_EQ(framelane_producer_end_of_stream(producer_), FRAMELANE_OK);
  using Taken = std::vector<std::pair<int32_t, std::uint64_t>>;
  EXPECT_EQ(take_items(), (Taken{{FRAMELANE_EVENT_FLUSH_START, 0},
                                 {FRAMELANE_EVENT_FLUSH_STOP, 0},
                                 {kFrame, 2},
                                 {FRAMELANE_EVENT_END_OF_STREAM, 0}}));
  EXPECT_EQ(framelane_consumer_flushing(consumer_), 0);
}

TEST_F(CLane, EventsCarryTheirText) {
  framelane_event event;
  framelane_event_init(&event, sizeof event);
  event.number = 3;
  event.text = "custom";
  ASSERT_EQ(framelane_producer_send(producer_, &event), FRAMELANE_OK) << framelane_error_text();
  framelane_frame* frame = nullptr;
  framelane_event told{};
  told.size = sizeof told;
  ASSERT_EQ(framelane_consumer_take_item(consumer_, kPatience, &frame, &told), FRAMELANE_OK);
  EXPECT_EQ(frame, nullptr);
  EXPECT_EQ(told.type, FRAMELANE_EVENT_CUSTOM);
  EXPECT_EQ(told.number, 3u);
  EXPECT_STREQ(told.text, "custom");
}

void count_call(void* user) { ++*static_cast<std::atomic<int>*>(user); }

TEST_F(CLane, ConsumersAskAndTheProducerHears) {
  std::atomic<int> calls{0};
  ASSERT_EQ(framelane_producer_on_upstream(producer_, count_call, &calls), FRAMELANE_OK);
  framelane_upstream wish;
  framelane_upstream_init(&wish, sizeof wish);
  wish.type = FRAMELANE_UPSTREAM_CUSTOM;
  wish.number = 9;
  wish.text = "please";
  ASSERT_EQ(framelane_consumer_send_upstream(consumer_, &wish), FRAMELANE_OK) << framelane_error_text();
  framelane_upstream_init(&wish, sizeof wish);
  ASSERT_EQ(framelane_consumer_send_upstream(consumer_, &wish), FRAMELANE_OK) << framelane_error_text();
  framelane_upstream told{};
  told.size = sizeof told;
  std::vector<int32_t> types;
  for (int i = 0; i < 2000 && types.size() < 2; ++i) {
    const auto code = framelane_producer_take_upstream(producer_, &told);
    if (code == FRAMELANE_OK) {
      types.push_back(told.type);
      EXPECT_EQ(told.consumer, 1u);
      if (told.type == FRAMELANE_UPSTREAM_CUSTOM) {
        EXPECT_STREQ(told.text, "please");
      }
    } else {
      ASSERT_EQ(code, FRAMELANE_TIMEOUT);
      usleep(10'000);
    }
  }
  EXPECT_EQ(types.size(), 2u);
  EXPECT_GE(calls.load(), 1);
  ASSERT_EQ(framelane_producer_on_upstream(producer_, nullptr, nullptr), FRAMELANE_OK);
}

TEST_F(CLane, StatisticsOfBothEnds) {
  publish(1);
  framelane_frame* frame = take();
  framelane_producer_stats stats{};
  stats.size = sizeof stats;
  framelane_consumer_info consumers[2]{};
  consumers[0].size = sizeof consumers[0];
  ASSERT_EQ(framelane_producer_get_stats(producer_, &stats, consumers, 2), FRAMELANE_OK);
  EXPECT_EQ(stats.published, 1u);
  ASSERT_EQ(stats.num_consumers, 1u);
  EXPECT_EQ(framelane_producer_num_consumers(producer_), 1u);
  EXPECT_EQ(consumers[0].pid, getpid());
  EXPECT_EQ(consumers[0].held, 1u);
  EXPECT_EQ(consumers[0].gating, 1);
  EXPECT_EQ(consumers[0].transport, FRAMELANE_TRANSPORT_SHM);
  EXPECT_EQ(consumers[0].latency.count, 1u);
  EXPECT_NE(std::string(consumers[0].name), "");
  framelane_consumer_stats own;
  std::memset(&own, 0xee, sizeof own);
  own.size = sizeof own;
  ASSERT_EQ(framelane_consumer_get_stats(consumer_, &own), FRAMELANE_OK);
  EXPECT_EQ(own.taken, 1u);
  EXPECT_EQ(own.connected, 1);
  EXPECT_EQ(own.transport, FRAMELANE_TRANSPORT_SHM);
  EXPECT_EQ(own.clock_offset_error_ns, 0) << "both ends have one clock";
  EXPECT_STREQ(framelane_consumer_transport(consumer_), "shm");
  char reason[8];
  EXPECT_GT(framelane_consumer_transport_reason(consumer_, reason, sizeof reason), sizeof reason);
  EXPECT_EQ(std::strlen(reason), 7u);
  std::array<std::uint8_t, 16> id{};
  ASSERT_EQ(framelane_consumer_producer_id(consumer_, id.data()), FRAMELANE_OK);
  EXPECT_NE(id, (std::array<std::uint8_t, 16>{}));
  EXPECT_NE(std::string(framelane_producer_descriptor(producer_)).find("cam0"), std::string::npos);
  EXPECT_NE(std::string(framelane_consumer_descriptor(consumer_)).find("cam0"), std::string::npos);
  framelane_frame_unref(frame);
}

TEST_F(CLane, ObserversSeeALaneFromOutside) {
  ASSERT_EQ(framelane_producer_set_caps(producer_, kCaps), FRAMELANE_OK);
  publish(1);
  framelane_frame* frame = take();
  std::size_t count = 0;
  ASSERT_EQ(framelane_find_lanes(nullptr, nullptr, 0, &count), FRAMELANE_OK) << framelane_error_text();
  EXPECT_EQ(count, 1u);
  framelane_found_lane found[2]{};
  EXPECT_EQ(framelane_find_lanes(nullptr, found, 2, &count), FRAMELANE_INVALID_ARGUMENT) << "no size was set";
  found[0].size = sizeof found[0];
  ASSERT_EQ(framelane_find_lanes(directory_.c_str(), found, 2, &count), FRAMELANE_OK) << framelane_error_text();
  EXPECT_STREQ(found[0].name, "cam0");
  EXPECT_EQ(found[0].state, FRAMELANE_LANE_ALIVE);
  EXPECT_EQ(found[0].path, directory_ + "/cam0");
  EXPECT_STREQ(framelane_lane_state_name(FRAMELANE_LANE_STALE), "stale");
  EXPECT_STREQ(framelane_lane_state_name(4), "unknown");

  framelane_observer* observer = nullptr;
  EXPECT_EQ(framelane_observer_open("nobody", &observer), FRAMELANE_NOT_FOUND);
  ASSERT_EQ(framelane_observer_open("cam0", &observer), FRAMELANE_OK) << framelane_error_text();
  ASSERT_EQ(framelane_observer_ask(observer), FRAMELANE_OK);
  framelane_lane_stats stats{};
  stats.size = sizeof stats;
  framelane_consumer_info consumers[2]{};
  consumers[0].size = sizeof consumers[0];
  ASSERT_EQ(framelane_observer_stats(observer, kPatience, &stats, consumers, 2), FRAMELANE_OK)
      << framelane_error_text();
  EXPECT_EQ(stats.published, 1u);
  EXPECT_EQ(stats.bytes, 5000u);
  EXPECT_EQ(stats.burst, 8u);
  EXPECT_STREQ(stats.caps, kCaps);
  EXPECT_STREQ(stats.lane, "cam0");
  EXPECT_NE(std::string(stats.descriptor), "");
  ASSERT_EQ(stats.num_consumers, 1u);
  EXPECT_EQ(consumers[0].held, 1u);
  EXPECT_EQ(consumers[0].max_held, 4u);
  framelane_observer_close(observer);
  framelane_frame_unref(frame);
}

TEST_F(CLane, InterruptEndsWaitsUntilResume) {
  framelane_consumer_interrupt(consumer_);
  framelane_frame* frame = nullptr;
  EXPECT_EQ(framelane_consumer_take(consumer_, FRAMELANE_FOREVER, &frame), FRAMELANE_INTERRUPTED);
  framelane_consumer_resume(consumer_);
  EXPECT_EQ(framelane_consumer_take(consumer_, kMoment, &frame), FRAMELANE_TIMEOUT);
  EXPECT_EQ(framelane_consumer_try_take(consumer_, &frame), FRAMELANE_TIMEOUT);
  framelane_producer_interrupt(producer_);
  EXPECT_EQ(framelane_producer_wait_for_consumers(producer_, 2, FRAMELANE_FOREVER), FRAMELANE_INTERRUPTED);
  framelane_producer_resume(producer_);
  EXPECT_EQ(framelane_producer_wait_for_consumers(producer_, 2, kMoment), FRAMELANE_TIMEOUT);
  EXPECT_EQ(framelane_producer_drain(producer_, kPatience), FRAMELANE_OK);
}

TEST_F(CLane, TheDropIsTold) {
  ASSERT_EQ(framelane_producer_set_leaky(producer_, FRAMELANE_LEAKY_UPSTREAM), FRAMELANE_OK);
  int32_t published = FRAMELANE_PUBLISHED;
  for (int i = 0; i < 1000 && published == FRAMELANE_PUBLISHED; ++i) {
    ASSERT_EQ(framelane_producer_publish_copy(producer_, "x", 1, nullptr, nullptr, &published), FRAMELANE_OK);
  }
  EXPECT_EQ(published, FRAMELANE_DROPPED);
}

struct Joined {
  std::atomic<int> came{0};
  std::atomic<int> went{0};
};

void note_consumer(const framelane_consumer_info* info, int32_t joined, const char* reason, void* user) {
  if (info->size < sizeof *info || reason == nullptr) std::abort();
  auto* const notes = static_cast<Joined*>(user);
  ++(joined != 0 ? notes->came : notes->went);
}

void note_connection(int32_t connected, void* user) {
  auto* const notes = static_cast<Joined*>(user);
  ++(connected != 0 ? notes->came : notes->went);
}

int32_t admit_own(const framelane_peer_info* peer, void* user) {
  ++*static_cast<std::atomic<int>*>(user);
  return peer->uid == getuid() && peer->name[0] != '\0' ? FRAMELANE_ADMIT_NO_GATING : FRAMELANE_ADMIT_REFUSED;
}

TEST_F(CTest, CallbacksTellWhoComesAndGoes) {
  std::atomic<int> asked{0};
  framelane_producer_settings settings;
  framelane_producer_settings_init(&settings, sizeof settings);
  settings.authorize = admit_own;
  settings.authorize_user = &asked;
  framelane_producer* producer = nullptr;
  ASSERT_EQ(framelane_producer_open("cam0", &settings, &producer), FRAMELANE_OK);
  Joined consumers;
  Joined connections;
  std::atomic<int> flushes{0};
  ASSERT_EQ(framelane_producer_on_consumer(producer, note_consumer, &consumers), FRAMELANE_OK);
  framelane_consumer* consumer = nullptr;
  ASSERT_EQ(framelane_consumer_open("cam0", nullptr, &consumer), FRAMELANE_OK);
  ASSERT_EQ(framelane_consumer_on_connection(consumer, note_connection, &connections), FRAMELANE_OK);
  ASSERT_EQ(framelane_consumer_on_flush(consumer, count_call, &flushes), FRAMELANE_OK);
  ASSERT_EQ(framelane_consumer_connect(consumer, kPatience), FRAMELANE_OK) << framelane_error_text();
  ASSERT_EQ(framelane_producer_wait_for_consumers(producer, 1, kPatience), FRAMELANE_OK);
  EXPECT_GE(asked.load(), 1);
  EXPECT_EQ(connections.came.load(), 1);
  framelane_producer_flush_start(producer);
  for (int i = 0; i < 2000 && flushes.load() == 0; ++i) usleep(10'000);
  EXPECT_EQ(flushes.load(), 1);
  framelane_consumer_stats stats{};
  stats.size = sizeof stats;
  ASSERT_EQ(framelane_consumer_get_stats(consumer, &stats), FRAMELANE_OK);
  EXPECT_EQ(stats.gating, 0);
  framelane_consumer_close(consumer);
  EXPECT_EQ(connections.went.load(), 1);
  for (int i = 0; i < 2000 && consumers.went.load() == 0; ++i) usleep(10'000);
  EXPECT_EQ(consumers.came.load(), 1);
  EXPECT_EQ(consumers.went.load(), 1);
  framelane_producer_close(producer);
}

TEST_F(CTest, ADeadProducerIsReported) {
  ProducerProcess process("cam0");
  ASSERT_TRUE(process.has_published());
  framelane_consumer_settings settings;
  framelane_consumer_settings_init(&settings, sizeof settings);
  settings.reconnect = 0;
  framelane_consumer* consumer = nullptr;
  ASSERT_EQ(framelane_consumer_open("cam0", &settings, &consumer), FRAMELANE_OK);
  framelane_frame* frame = nullptr;
  ASSERT_EQ(framelane_consumer_take(consumer, kPatience, &frame), FRAMELANE_OK) << framelane_error_text();
  process.kill_now();
  framelane_frame* none = nullptr;
  EXPECT_EQ(framelane_consumer_take(consumer, kPatience, &none), FRAMELANE_PEER_LOST);
  EXPECT_NE(std::string(framelane_error_text()).find("left without an end of stream"), std::string::npos);
  EXPECT_EQ(framelane_frame_size(frame), 5000u) << "what was taken stays";
  EXPECT_EQ(static_cast<const char*>(framelane_frame_data(frame))[4999], 'x');
  framelane_frame_unref(frame);
  framelane_consumer_close(consumer);
}

}  // namespace
}  // namespace framelane::capi_test
