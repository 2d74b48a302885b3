// SPDX-License-Identifier: MIT
#include "crash_point.hpp"

#include <atomic>
#include <string_view>
#include <thread>

#include <signal.h>
#include <unistd.h>

#include "base/crash_point.hpp"

namespace framelane {
namespace {

// Written before there is a second thread.
std::string deadly_point;
std::atomic<unsigned> times_left{0};
std::string slow_point;
std::chrono::microseconds slow_time{0};

}  // namespace

namespace fault {

void die_at(const std::string& point, unsigned count) {
  deadly_point = point;
  times_left = count;
}

void linger_at(const std::string& point, std::chrono::microseconds time) {
  slow_point = point;
  slow_time = time;
}

}  // namespace fault

void base::crash_point(const char* name) noexcept {
  if (!deadly_point.empty() && deadly_point == name && times_left.fetch_sub(1) == 1) {
    kill(getpid(), SIGKILL);
    for (;;) pause();
  }
  if (!slow_point.empty() && slow_point == name) std::this_thread::sleep_for(slow_time);
}

}  // namespace framelane
