// SPDX-License-Identifier: MIT
#include "cli/percentiles.hpp"

#include <algorithm>

#include <fmt/format.h>

namespace framelane::cli {
namespace {

// In integers: 0.999 * n in doubles can land just above a whole number, one rank too far.
template <class T>
T nearest_rank(const std::vector<T>& sorted, std::uint64_t per_10000) {
  const std::uint64_t rank = (sorted.size() * per_10000 + 9999) / 10000;
  return sorted[rank == 0 ? 0 : rank - 1];
}

}  // namespace

measure::LatencySummary summarize_samples(std::vector<std::uint32_t>& samples) {
  measure::LatencySummary summary;
  if (samples.empty()) return summary;
  std::sort(samples.begin(), samples.end());
  summary.count = samples.size();
  summary.min_ns = samples.front();
  summary.p50_ns = nearest_rank(samples, 5000);
  summary.p90_ns = nearest_rank(samples, 9000);
  summary.p99_ns = nearest_rank(samples, 9900);
  summary.p999_ns = nearest_rank(samples, 9990);
  summary.p9999_ns = nearest_rank(samples, 9999);
  summary.max_ns = samples.back();
  return summary;
}

double median_of(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  return nearest_rank(values, 5000);
}

nlohmann::ordered_json to_json(const measure::LatencySummary& summary) {
  return {{"count", summary.count},       {"min_ns", summary.min_ns}, {"p50_ns", summary.p50_ns},
          {"p90_ns", summary.p90_ns},     {"p99_ns", summary.p99_ns}, {"p999_ns", summary.p999_ns},
          {"p9999_ns", summary.p9999_ns}, {"max_ns", summary.max_ns}};
}

std::string summary_heading() {
  return fmt::format("{:<16}{:>8}{:>8}{:>8}{:>8}{:>9}{:>9}{:>11}", "ns", "min", "p50", "p90", "p99", "p99.9", "p99.99",
                     "max");
}

std::string summary_row(std::string_view label, const measure::LatencySummary& summary) {
  return fmt::format("{:<16}{:>8}{:>8}{:>8}{:>8}{:>9}{:>9}{:>11}", label, summary.min_ns, summary.p50_ns,
                     summary.p90_ns, summary.p99_ns, summary.p999_ns, summary.p9999_ns, summary.max_ns);
}

}  // namespace framelane::cli
