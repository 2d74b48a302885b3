// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include <nlohmann/json.hpp>

#include "framelane/measure/latency.hpp"

namespace framelane::measure {

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(LatencySummary, count, min_ns, p50_ns, p90_ns, p99_ns, p999_ns, p9999_ns, max_ns)

}  // namespace framelane::measure

namespace framelane::cli {

/// Frames that a consumer of the demo keeps when it does.
inline constexpr std::uint32_t kDemoKept = 3;

/// What a consumer of the demo tells its parent, one JSON object a line, several times a second.
struct DemoReport {
  std::string state = "starting";  ///< then waiting, flowing, ended, or failed
  std::string error;               ///< the sentence, when failed
  std::string caps;
  double fps = 0;            ///< frames taken in the last second
  std::uint64_t frames = 0;  ///< taken
  std::uint64_t lost = 0;    ///< numbers missing between the first frame of the lane and the last one taken
  std::uint64_t copied = 0;  ///< taken as private copies
  std::uint32_t held = 0;
  measure::LatencySummary latency;                  ///< publish to take
  std::map<int, std::uint64_t> slots;               ///< slot -> number of the last frame that came in it
  std::map<int, std::uint64_t> kept;                ///< slot -> number of the frame that is kept in it
  std::map<std::uint64_t, std::uint64_t> pictures;  ///< number -> checksum, of the frames since the last report
};

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(DemoReport, state, error, caps, fps, frames, lost, copied, held, latency, slots,
                                   kept, pictures)

}  // namespace framelane::cli
