// SPDX-License-Identifier: MIT
#include "cli/progress.hpp"

#include <cstdio>

#include <fmt/format.h>
#include <unistd.h>

#include "base/clock.hpp"
#include "cli/lane_text.hpp"

namespace framelane::cli {
namespace {

constexpr std::int64_t kEvery = 200'000'000;  // ns
constexpr const char* kClearLine = "\r\x1b[K";

}  // namespace

Progress::Progress(bool quiet) : terminal_(!quiet && isatty(STDERR_FILENO) != 0) {}

void Progress::say(const std::string& text) {
  if (!terminal_) return;
  fmt::print(stderr, "{}{}", kClearLine, text);
  std::fflush(stderr);
  shown_ = true;
}

void Progress::show(const Moved& moved) {
  const std::int64_t now = base::monotonic_ns();
  if (first_ns_ == 0) {
    first_ns_ = now;
    last_ns_ = now;
    last_frames_ = moved.frames;
  }
  if (!terminal_ || now < last_ns_ + kEvery) return;
  const double rate = static_cast<double>(moved.frames - last_frames_) * 1e9 / static_cast<double>(now - last_ns_);
  say(fmt::format("{} frames, {}, {:.1f} a second{}", moved.frames, bytes_text(moved.bytes), rate,
                  moved.lost == 0 ? "" : fmt::format(", {} lost", moved.lost)));
  last_ns_ = now;
  last_frames_ = moved.frames;
}

void Progress::clear() {
  if (!shown_) return;
  fmt::print(stderr, "{}", kClearLine);
  std::fflush(stderr);
  shown_ = false;
}

double Progress::seconds() const {
  return first_ns_ == 0 ? 0 : static_cast<double>(base::monotonic_ns() - first_ns_) / 1e9;
}

}  // namespace framelane::cli
