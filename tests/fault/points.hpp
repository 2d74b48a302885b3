// SPDX-License-Identifier: MIT
#pragma once

#include <string>
#include <vector>

// Every crash point of the library, and how it is reached: some in more than one scene.
namespace framelane::fault {

/// What goes on when a process dies.
enum class Scene {
  kPlain,  // full load; consumers that pause, sleep and hold frames
  kLeave,  // a consumer that leaves with frames in its hands, and comes again
  kLeaky,  // leaky=downstream, and a slow consumer
  kLap,    // the same, and the consumer stands still between T3 and T4
  kStall,  // a consumer that stands still until the producer waits for it no more
  kLatest,
  kFlush,
  kLarge,  // some frames are larger than a socket's buffers
};

/// Transports, as bits.
enum Over : unsigned { kNone = 0, kShm = 1, kUds = 2, kTcp = 4, kStreams = kUds | kTcp, kAll = kShm | kStreams };

struct Point {
  std::string name;
  Scene scene;
  unsigned producer_dies;  // Over
  unsigned consumer_dies;  // Over
  bool often = true;       // reached again and again, so also killed there in the middle of the traffic
};

[[nodiscard]] const std::vector<Point>& points();

}  // namespace framelane::fault
