// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "framelane/measure/latency.hpp"

namespace framelane::cli {

/// Exact nearest-rank percentiles of `samples` (ns), which are sorted on the way. All 0 when there are none.
[[nodiscard]] measure::LatencySummary summarize_samples(std::vector<std::uint32_t>& samples);

/// Middle value; of an even number the lower of the two, as nearest-rank says. 0 when there are none.
[[nodiscard]] double median_of(std::vector<double> values);

/// {"count":…, "min_ns":…, "p50_ns":…, … "max_ns":…}
[[nodiscard]] nlohmann::ordered_json to_json(const measure::LatencySummary& summary);

/// One line of a table of summaries, and its heading. 78 columns.
[[nodiscard]] std::string summary_heading();
[[nodiscard]] std::string summary_row(std::string_view label, const measure::LatencySummary& summary);

}  // namespace framelane::cli
