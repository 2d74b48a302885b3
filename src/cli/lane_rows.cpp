// SPDX-License-Identifier: MIT
#include "cli/lane_rows.hpp"

#include <algorithm>
#include <tuple>
#include <utility>

namespace framelane::cli {
namespace {

/// Counts come from another process, and may do anything.
double rate(std::uint64_t now, std::uint64_t before, double seconds) noexcept {
  return now > before && seconds > 0 ? static_cast<double>(now - before) / seconds : 0;
}

std::string_view wake_of(double sleeps, double spins) noexcept {
  constexpr double kMostly = 0.9;
  const double waits = sleeps + spins;
  if (waits <= 0) return "-";
  return sleeps >= kMostly * waits ? "futex" : spins >= kMostly * waits ? "spin" : "mixed";
}

std::string_view state_of(const ConsumerInfo& info) noexcept {
  if (info.demoted) return "demoted";
  if (info.max_held != 0 && info.held >= info.max_held) return "full";
  return info.sleeping ? "sleeps" : "ok";
}

const ConsumerInfo* find(const LaneStats* stats, std::uint32_t id) noexcept {
  if (stats == nullptr) return nullptr;
  const auto found = std::find_if(stats->consumers.begin(), stats->consumers.end(),
                                  [id](const ConsumerInfo& info) { return info.id == id; });
  return found == stats->consumers.end() ? nullptr : &*found;
}

ConsumerRow consumer_row(const ConsumerInfo& info, const ConsumerInfo* before, double seconds) {
  static const ConsumerInfo kNothing;
  ConsumerRow row;
  row.info = info;
  row.state = state_of(info);
  // Without a look before, how it waited since it joined.
  const ConsumerInfo& then = before != nullptr ? *before : kNothing;
  const double span = before != nullptr ? seconds : 1;
  row.sleeps_per_s = rate(info.sleeps, then.sleeps, span);
  row.spins_per_s = rate(info.spins, then.spins, span);
  row.wake = wake_of(row.sleeps_per_s, row.spins_per_s);
  if (before == nullptr) {
    row.sleeps_per_s = row.spins_per_s = 0;
    return row;
  }
  row.fps = rate(info.taken, before->taken, seconds);
  return row;
}

std::uint64_t drops_of(const LaneStats& stats) noexcept { return stats.dropped_full + stats.passed_over; }

bool is_digit(char c) noexcept { return c >= '0' && c <= '9'; }

/// The digits that `text` begins with, without zeros before them; it is left with the rest.
std::string_view take_number(std::string_view& text) noexcept {
  std::size_t size = 0;
  while (size < text.size() && is_digit(text[size])) ++size;
  std::string_view digits = text.substr(0, size);
  text.remove_prefix(size);
  digits.remove_prefix(std::min(digits.find_first_not_of('0'), size));
  return digits;
}

/// What grows with the key.
double value_of(const LaneRow& row, SortKey key) noexcept {
  switch (key) {
    case SortKey::kFps:
      return row.fps;
    case SortKey::kRate:
      return row.bytes_per_s;
    case SortKey::kUnread:
      return row.fill();
    case SortKey::kDrops:
      return static_cast<double>(row.drops);
    case SortKey::kConsumers:
      return static_cast<double>(row.consumers.size());
    case SortKey::kLatency:
      return static_cast<double>(row.latency.p99_ns);
    case SortKey::kName:
      break;
  }
  return 0;
}

}  // namespace

bool name_before(std::string_view a, std::string_view b) noexcept {
  const std::string_view whole_a = a;
  const std::string_view whole_b = b;
  while (!a.empty() && !b.empty()) {
    if (is_digit(a[0]) && is_digit(b[0])) {
      const std::string_view one = take_number(a);
      const std::string_view other = take_number(b);
      if (one != other) return one.size() != other.size() ? one.size() < other.size() : one < other;
      continue;
    }
    if (a[0] != b[0]) return a[0] < b[0];
    a.remove_prefix(1);
    b.remove_prefix(1);
  }
  return a.empty() == b.empty() ? whole_a < whole_b : a.empty();
}

double LaneRow::fill() const noexcept {
  if (!live() || sample.stats->burst == 0) return 0;
  return std::min(1.0, static_cast<double>(sample.stats->unread) / sample.stats->burst);
}

LaneRow row_of(LaneSample sample, const LaneStats* before) {
  LaneRow row;
  row.sample = std::move(sample);
  if (!row.live()) return row;
  const LaneStats& now = *row.sample.stats;
  if (before != nullptr && (before->instance_id != now.instance_id || before->at_ns >= now.at_ns)) before = nullptr;
  row.drops = drops_of(now);
  if (before != nullptr) {
    row.has_rates = true;
    row.seconds = static_cast<double>(now.at_ns - before->at_ns) / 1e9;
    row.fps = rate(now.published, before->published, row.seconds);
    row.bytes_per_s = rate(now.bytes, before->bytes, row.seconds);
    row.drops_per_s = rate(row.drops, drops_of(*before), row.seconds);
  }
  for (const ConsumerInfo& info : now.consumers) {
    row.consumers.push_back(consumer_row(info, find(before, info.id), row.seconds));
    if (info.latency.p99_ns >= row.latency.p99_ns) row.latency = info.latency;
  }
  return row;
}

std::string_view name_of(SortKey key) noexcept {
  static constexpr std::string_view kNames[] = {"name", "fps", "rate", "unread", "drops", "consumers", "latency"};
  return kNames[static_cast<std::size_t>(key)];
}

void sort_rows(std::vector<LaneRow>& rows, SortKey key, bool reversed) {
  const bool up = (key == SortKey::kName) != reversed;
  std::sort(rows.begin(), rows.end(), [&](const LaneRow& a, const LaneRow& b) {
    if (a.live() != b.live()) return a.live();
    if (key == SortKey::kName)
      return up ? name_before(a.sample.name, b.sample.name) : name_before(b.sample.name, a.sample.name);
    const double one = value_of(a, key);
    const double other = value_of(b, key);
    if (one != other) return up ? one < other : one > other;
    return name_before(a.sample.name, b.sample.name);
  });
}

std::vector<LaneRow> LaneHistory::rows_of(std::vector<LaneSample> samples) {
  std::vector<LaneRow> rows;
  std::map<std::string, LaneStats> now;
  for (LaneSample& sample : samples) {
    const auto found = before_.find(sample.path);
    if (sample.stats) now[sample.path] = *sample.stats;
    rows.push_back(row_of(std::move(sample), found == before_.end() ? nullptr : &found->second));
  }
  before_ = std::move(now);
  return rows;
}

}  // namespace framelane::cli
