// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <optional>

#include <gst/gst.h>

namespace framelane::gst {

/// Now, ns of CLOCK_MONOTONIC: the clock of every time in a lane.
[[nodiscard]] std::int64_t monotonic_now();

/// An element's base time on CLOCK_MONOTONIC, whatever clock its pipeline runs by.
///
/// Threads: one, the streaming thread.
class BaseTime {
 public:
  /// Base time in ns of CLOCK_MONOTONIC; empty while the element has no clock (PAUSED, READY). Other clocks than the
  /// monotonic system clock are compared with it once a second.
  [[nodiscard]] std::optional<std::int64_t> get(GstElement* element);

  /// Forgets the comparison: the element has another clock or starts anew.
  void reset() { sampled_clock_ = nullptr; }

 private:
  const void* sampled_clock_ = nullptr;  // only compared
  std::int64_t offset_ns_ = 0;           // CLOCK_MONOTONIC minus that clock
  std::int64_t sampled_at_ns_ = 0;
};

}  // namespace framelane::gst
