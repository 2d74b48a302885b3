// SPDX-License-Identifier: MIT
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "framelane/base/result.hpp"
#include "framelane/measure/latency.hpp"

// What `bench transports` found: as a table, as JSON, and as the profile that it keeps.

namespace framelane::cli {

/// How frames went: over lanes of three transports, and over bare sockets of two.
enum Way : std::uint32_t { kShm, kUds, kTcp, kBareUds, kBareTcp };
inline constexpr std::uint32_t kLanes = kTcp + 1;
inline constexpr std::uint32_t kWays = kBareTcp + 1;
/// "shm", "uds", "tcp", "bare_uds", "bare_tcp".
[[nodiscard]] std::string way_word(std::uint32_t way);

struct WayFigures {
  measure::LatencySummary round_trip;     ///< over all rounds
  std::vector<double> round_p50_ns;       ///< of each round
  std::vector<double> frames_per_second;  ///< of each round, one way
};

struct SizeFigures {
  std::size_t size = 0;  ///< bytes
  std::array<WayFigures, kWays> ways;
};

struct Report {
  std::array<measure::LatencySummary, kLanes> connecting;
  std::vector<SizeFigures> sizes;  ///< from small to large
  nlohmann::ordered_json how;      ///< how it was measured
};

/// `kept`: where the profile lies.
[[nodiscard]] nlohmann::ordered_json report_json(const Report& report, const std::optional<std::string>& kept);
[[nodiscard]] std::string report_text(const Report& report, const std::optional<std::string>& kept);

/// Writes transports.json, and transports.profile for the consumers (src/lane/profile.hpp), into the user's cache;
/// returns the first's path. Errors: kPermission, kSystem, kNotFound (neither XDG_CACHE_HOME nor HOME is set).
[[nodiscard]] Result<std::string> save_profile(const Report& report);

}  // namespace framelane::cli
