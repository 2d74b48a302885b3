// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/lane_watch.hpp"

// What `framelane top` shows, as numbers: rates from two looks at a lane, worst cases, order. Nothing here draws.
namespace framelane::cli {

struct ConsumerRow {
  ConsumerInfo info;
  double fps = 0;
  double sleeps_per_s = 0;
  double spins_per_s = 0;
  /// How it waited for its frames since the last look: "spin", "futex", "mixed", "-" when it didn't wait.
  std::string_view wake = "-";
  /// "ok", "sleeps", "full" (holds as many frames as it may), "demoted".
  std::string_view state = "ok";
};

struct LaneRow {
  LaneSample sample;
  bool has_rates = false;  ///< there was a look before, at the same producer
  double seconds = 0;      ///< between the two
  double fps = 0;
  double bytes_per_s = 0;
  double drops_per_s = 0;
  std::uint64_t drops = 0;             ///< frames that were dropped or passed over, all of them
  measure::LatencySummary latency;     ///< of the consumer whose p99 is the longest
  std::vector<ConsumerRow> consumers;  ///< as the producer lists them

  [[nodiscard]] bool live() const noexcept { return sample.stats.has_value(); }
  /// Unread frames as a share of the burst depth, 0 to 1.
  [[nodiscard]] double fill() const noexcept;
};

/// The numbers of one lane; `before` is what it said at the look before, if any.
[[nodiscard]] LaneRow row_of(LaneSample sample, const LaneStats* before);

/// The order of names with numbers as numbers: cam2 before cam10.
[[nodiscard]] bool name_before(std::string_view a, std::string_view b) noexcept;

enum class SortKey { kName, kFps, kRate, kUnread, kDrops, kConsumers, kLatency };
/// "name", "fps", "rate", "unread", "drops", "consumers", "latency".
[[nodiscard]] std::string_view name_of(SortKey key) noexcept;
/// By the key, the largest first (names: the first one first), or the other way round; what is equal by name.
/// Lanes that aren't live come last.
void sort_rows(std::vector<LaneRow>& rows, SortKey key, bool reversed);

/// Remembers the look before.
class LaneHistory {
 public:
  [[nodiscard]] std::vector<LaneRow> rows_of(std::vector<LaneSample> samples);

 private:
  std::map<std::string, LaneStats> before_;  // by path
};

}  // namespace framelane::cli
