// SPDX-License-Identifier: MIT
#pragma once

#include <glib-object.h>

namespace framelane::gst {

/// Property `leaky`: framelane::Leaky, and "what suits the upstream".
enum class LeakyChoice { kAuto, kNo, kUpstream, kDownstream };

/// Property `timestamp-mode`: how the source maps the producer's running time to its own.
enum class TimestampMode {
  kAuto,      ///< kClock when the producer's upstream is live, else kFirst
  kClock,     ///< by the clocks: a frame keeps the moment at which it was due
  kFirst,     ///< the first frame is due now
  kProducer,  ///< the producer's segment, as it is
  kArrival,   ///< PTS are the running times at which frames arrive
};

GType leaky_type();
GType mode_type();
GType spin_type();
GType stamps_type();
GType timestamp_mode_type();

}  // namespace framelane::gst
