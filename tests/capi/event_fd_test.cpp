// SPDX-License-Identifier: MIT
// A consumer's event descriptor: readable when the next take wouldn't wait, and not for ever.
#include <cerrno>
#include <thread>
#include <utility>

#include <poll.h>
#include <unistd.h>

#include "c_lanes.hpp"

namespace framelane::capi_test {
namespace {

bool readable(int fd, int timeout_ms = 20'000) {
  pollfd ready{fd, POLLIN, 0};
  int count = 0;
  do {
    count = poll(&ready, 1, timeout_ms);
  } while (count < 0 && errno == EINTR);
  return count == 1;
}

class EventFd : public CLane {
 protected:
  void SetUp() override {
    CLane::SetUp();
    ASSERT_EQ(framelane_consumer_event_fd(consumer_, &fd_), FRAMELANE_OK) << framelane_error_text();
    drain();
  }

  /// Takes until nothing is there; says how many frames there were.
  int drain() {
    int frames = 0;
    framelane_frame* frame = nullptr;
    while ((code_ = framelane_consumer_try_take(consumer_, &frame)) == FRAMELANE_OK) {
      last_ = number(frame);
      ++frames;
      framelane_frame_unref(frame);
    }
    return frames;
  }
  /// The same as soon as the descriptor says so, until there were `count`.
  void expect_frames(int count) {
    int frames = 0;
    while (frames < count && readable(fd_)) frames += drain();
    EXPECT_EQ(frames, count);
    EXPECT_EQ(code_, FRAMELANE_TIMEOUT);
  }

  int fd_ = -1;
  std::uint64_t last_ = 0;
  framelane_code code_ = FRAMELANE_OK;
};

TEST_F(EventFd, IsReadableWhenAFrameIsThereAndClearedByTheTake) {
  EXPECT_EQ(code_, FRAMELANE_TIMEOUT);
  EXPECT_FALSE(readable(fd_, 30));
  publish(1);
  publish(2);
  expect_frames(2);
  EXPECT_EQ(last_, 2u);
  EXPECT_FALSE(readable(fd_, 30));
  publish(3);
  expect_frames(1);
  int again = -1;
  ASSERT_EQ(framelane_consumer_event_fd(consumer_, &again), FRAMELANE_OK);
  EXPECT_EQ(again, fd_);
}

TEST_F(EventFd, NoFrameIsLostWhileTheLoopIsBusy) {
  constexpr int kFrames = 3000;
  std::thread producing([this] {
    for (std::uint64_t i = 0; i < kFrames; ++i) {
      publish(i);
      if (i % 64 == 0) usleep(1000);
    }
  });
  std::uint64_t next = 0;
  while (next < kFrames && readable(fd_)) {
    framelane_frame* frame = nullptr;
    while (framelane_consumer_try_take(consumer_, &frame) == FRAMELANE_OK) {
      EXPECT_EQ(number(frame), next++);
      framelane_frame_unref(frame);
    }
  }
  producing.join();
  EXPECT_EQ(next, std::uint64_t{kFrames});
}

TEST_F(EventFd, TheEndIsToldOnceAndEachTakeSaysIt) {
  publish(1);
  ASSERT_EQ(framelane_producer_end_of_stream(producer_), FRAMELANE_OK);
  int frames = 0;
  while (code_ != FRAMELANE_END_OF_STREAM && readable(fd_)) frames += drain();
  EXPECT_EQ(frames, 1);
  EXPECT_EQ(code_, FRAMELANE_END_OF_STREAM);
  EXPECT_FALSE(readable(fd_, 100)) << "an event loop must not turn in circles after an end";
  drain();
  EXPECT_EQ(code_, FRAMELANE_END_OF_STREAM);
  framelane_frame* frame = nullptr;
  EXPECT_EQ(framelane_consumer_take(consumer_, kPatience, &frame), FRAMELANE_END_OF_STREAM);
  framelane_event event;
  framelane_event_init(&event, sizeof event);
  event.type = FRAMELANE_EVENT_STREAM_START;
  event.text = "another";
  ASSERT_EQ(framelane_producer_send(producer_, &event), FRAMELANE_OK) << framelane_error_text();
  publish(2);
  expect_frames(1);
  EXPECT_EQ(last_, 2u);
}

TEST_F(EventFd, AnInterruptionShowsUntilResume) {
  framelane_consumer_interrupt(consumer_);
  ASSERT_TRUE(readable(fd_));
  drain();
  EXPECT_EQ(code_, FRAMELANE_INTERRUPTED);
  EXPECT_TRUE(readable(fd_));
  framelane_consumer_resume(consumer_);
  drain();
  EXPECT_EQ(code_, FRAMELANE_TIMEOUT);
  EXPECT_FALSE(readable(fd_, 30));
}

TEST_F(EventFd, ADuplicateTellsThatItIsOver) {
  const int duplicate = dup(fd_);
  EXPECT_FALSE(readable(duplicate, 30));
  framelane_consumer_close(std::exchange(consumer_, nullptr));
  EXPECT_TRUE(readable(duplicate));
  close(duplicate);
}

TEST_F(EventFd, ATakeThatWaitsStillWorks) {
  framelane_frame* frame = nullptr;
  EXPECT_EQ(framelane_consumer_take(consumer_, kMoment, &frame), FRAMELANE_TIMEOUT);
  std::thread producing([this] {
    usleep(30'000);
    publish(7);
  });
  ASSERT_EQ(framelane_consumer_take(consumer_, kPatience, &frame), FRAMELANE_OK) << framelane_error_text();
  producing.join();
  EXPECT_EQ(number(frame), 7u);
  framelane_frame_unref(frame);
  EXPECT_EQ(framelane_consumer_connect(consumer_, kPatience), FRAMELANE_OK);
}

TEST_F(EventFd, EventsShowToo) {
  ASSERT_EQ(framelane_producer_set_caps(producer_, "video/x-h264"), FRAMELANE_OK);
  framelane_frame* frame = nullptr;
  framelane_event event{};
  event.size = sizeof event;
  while (event.type != FRAMELANE_EVENT_CAPS && readable(fd_)) {
    const auto code = framelane_consumer_take_item(consumer_, 0, &frame, &event);
    ASSERT_TRUE(code == FRAMELANE_OK || code == FRAMELANE_TIMEOUT) << framelane_error_text();
  }
  EXPECT_EQ(event.type, FRAMELANE_EVENT_CAPS);
}

TEST_F(EventFd, TheNewestFrameIsTheNewestWhenItIsTaken) {
  if (tested_transport() != FRAMELANE_TRANSPORT_SHM) GTEST_SKIP() << "a stream's frames wait in the socket";
  framelane_consumer_settings settings;
  framelane_consumer_settings_init(&settings, sizeof settings);
  settings.mode = FRAMELANE_MODE_LATEST;
  framelane_consumer* latest = nullptr;
  ASSERT_EQ(framelane_consumer_open("cam0", &settings, &latest), FRAMELANE_OK);
  ASSERT_EQ(framelane_consumer_connect(latest, kPatience), FRAMELANE_OK);
  int fd = -1;
  ASSERT_EQ(framelane_consumer_event_fd(latest, &fd), FRAMELANE_OK);
  framelane_frame* frame = nullptr;
  EXPECT_EQ(framelane_consumer_try_take(latest, &frame), FRAMELANE_TIMEOUT);
  publish(1);
  ASSERT_TRUE(readable(fd));
  publish(2);
  publish(3);
  framelane_code code = FRAMELANE_TIMEOUT;  // what was to be read may be no frame yet: news of the slots, for example
  while (code == FRAMELANE_TIMEOUT && readable(fd)) code = framelane_consumer_try_take(latest, &frame);
  ASSERT_EQ(code, FRAMELANE_OK);
  EXPECT_EQ(number(frame), 3u);
  framelane_frame_unref(frame);
  framelane_consumer_close(latest);
}

TEST_F(CTest, AnEventLoopWaitsForALaneAndForItsComingBack) {
  framelane_consumer* consumer = nullptr;
  ASSERT_EQ(framelane_consumer_open("cam0", nullptr, &consumer), FRAMELANE_OK);
  int fd = -1;
  ASSERT_EQ(framelane_consumer_event_fd(consumer, &fd), FRAMELANE_OK);
  framelane_frame* frame = nullptr;
  EXPECT_EQ(framelane_consumer_try_take(consumer, &frame), FRAMELANE_TIMEOUT);
  for (int life = 0; life < 2; ++life) {
    ProducerProcess process("cam0");
    ASSERT_TRUE(process.has_published());
    framelane_code code = FRAMELANE_TIMEOUT;
    while (code == FRAMELANE_TIMEOUT && readable(fd)) code = framelane_consumer_try_take(consumer, &frame);
    ASSERT_EQ(code, FRAMELANE_OK) << framelane_error_text();
    framelane_frame_unref(frame);
    EXPECT_EQ(framelane_consumer_try_take(consumer, &frame), FRAMELANE_TIMEOUT);
  }
  framelane_consumer_close(consumer);
}

TEST_F(CTest, ALaneThatNeverComesIsAnErrorInTheLoop) {
  framelane_consumer_settings settings;
  framelane_consumer_settings_init(&settings, sizeof settings);
  settings.connect_timeout_ns = 100'000'000;
  framelane_consumer* consumer = nullptr;
  ASSERT_EQ(framelane_consumer_open("nobody", &settings, &consumer), FRAMELANE_OK);
  int fd = -1;
  ASSERT_EQ(framelane_consumer_event_fd(consumer, &fd), FRAMELANE_OK);
  framelane_frame* frame = nullptr;
  framelane_code code = FRAMELANE_TIMEOUT;
  while (code == FRAMELANE_TIMEOUT && readable(fd)) code = framelane_consumer_try_take(consumer, &frame);
  EXPECT_EQ(code, FRAMELANE_NOT_FOUND);
  framelane_consumer_close(consumer);
}

}  // namespace
}  // namespace framelane::capi_test
