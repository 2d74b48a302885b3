// SPDX-License-Identifier: MIT
#include "cli/transports_report.hpp"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <functional>
#include <span>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/text.hpp"
#include "base/unique_fd.hpp"
#include "cli/percentiles.hpp"

namespace framelane::cli {
namespace {

constexpr std::array<const char*, kWays> kWords{"shm", "uds", "tcp", "bare_uds", "bare_tcp"};
constexpr std::array<const char*, kWays> kRowNames{"shm", "uds", "tcp", "bare UDS", "bare TCP"};

double p50_of(const SizeFigures& size, std::uint32_t way) {
  return static_cast<double>(std::max<std::uint64_t>(size.ways[way].round_trip.p50_ns, 1));
}
double rate_of(const SizeFigures& size, std::uint32_t way) { return median_of(size.ways[way].frames_per_second); }
double megabytes(const SizeFigures& size, std::uint32_t way) {
  return rate_of(size, way) * static_cast<double>(size.size) / 1e6;
}

/// This way's figures of each round divided by the other's of the same round.
std::vector<double> ratios(const std::vector<double>& ours, const std::vector<double>& others) {
  std::vector<double> all;
  for (std::size_t i = 0; i < ours.size(); ++i) all.push_back(ours[i] / std::max(others[i], 1.0));
  return all;
}

/// Of a lane over a stream to the bare socket of its kind.
struct ToBare {
  std::vector<double> round_trip;
  std::vector<double> frames_per_second;
};
ToBare to_bare(const SizeFigures& size, std::uint32_t way) {
  const WayFigures& lane = size.ways[way];
  const WayFigures& bare = size.ways[way == kUds ? kBareUds : kBareTcp];
  return {ratios(lane.round_p50_ns, bare.round_p50_ns), ratios(lane.frames_per_second, bare.frames_per_second)};
}

bool is_stream_lane(std::uint32_t way) { return way == kUds || way == kTcp; }

nlohmann::ordered_json spread_json(const std::vector<double>& values) {
  const auto [least, most] = std::minmax_element(values.begin(), values.end());
  return {{"median", median_of(values)}, {"min", *least}, {"max", *most}, {"all", values}};
}

std::string spread_text(const std::vector<double>& values) {
  const auto [least, most] = std::minmax_element(values.begin(), values.end());
  return fmt::format("{:.2f} ({:.2f}-{:.2f})", median_of(values), *least, *most);
}

// --- where one becomes faster than the other

using Pair = std::pair<std::uint32_t, std::uint32_t>;
constexpr std::array<Pair, 3> kPairs{{{kShm, kUds}, {kShm, kTcp}, {kUds, kTcp}}};

struct Measure {
  const char* word;
  const char* name;
  bool (*is_faster)(const SizeFigures&, std::uint32_t, std::uint32_t);
};
constexpr std::array<Measure, 2> kMeasures{
    {{"round_trip", "round trip",
      [](const SizeFigures& size, std::uint32_t one, std::uint32_t other) {
        return p50_of(size, one) <= p50_of(size, other);
      }},
     {"one_way", "one way", [](const SizeFigures& size, std::uint32_t one, std::uint32_t other) {
        return rate_of(size, one) >= rate_of(size, other);
      }}}};

/// The faster one of the smallest size, and of each size at which that changes.
std::vector<std::pair<std::size_t, std::uint32_t>> faster_from(const Report& report, const Measure& measure,
                                                               Pair pair) {
  std::vector<std::pair<std::size_t, std::uint32_t>> changes;
  for (const SizeFigures& size : report.sizes) {
    const std::uint32_t faster = measure.is_faster(size, pair.first, pair.second) ? pair.first : pair.second;
    if (changes.empty() || changes.back().second != faster) changes.emplace_back(size.size, faster);
  }
  return changes;
}

nlohmann::ordered_json crossovers_json(const Report& report) {
  auto all = nlohmann::ordered_json::array();
  for (const Measure& measure : kMeasures) {
    for (const Pair& pair : kPairs) {
      auto faster = nlohmann::ordered_json::array();
      for (const auto& [size, way] : faster_from(report, measure, pair))
        faster.push_back({{"from_size", size}, {"faster", kWords[way]}});
      all.push_back({{"measure", measure.word},
                     {"between", {kWords[pair.first], kWords[pair.second]}},
                     {"faster", std::move(faster)}});
    }
  }
  return all;
}

std::string crossovers_text(const Report& report) {
  std::string text = "Which is faster, from which size on\n";
  for (const Measure& measure : kMeasures) {
    for (const Pair& pair : kPairs) {
      text += fmt::format("  {:<10}  {} or {}:", measure.name, kWords[pair.first], kWords[pair.second]);
      bool first = true;
      for (const auto& [size, way] : faster_from(report, measure, pair))
        text += std::exchange(first, false) ? fmt::format(" {}", kWords[way])
                                            : fmt::format(", {} from {}", kWords[way], size);
      text += "\n";
    }
  }
  return text;
}

/// Over all sizes, round trip and one way alike. No frame's size is known when a consumer connects.
bool uds_is_faster(const Report& report) {
  double logs = 0;
  for (const SizeFigures& size : report.sizes)
    logs += std::log(p50_of(size, kTcp) / p50_of(size, kUds)) +
            std::log(std::max(rate_of(size, kUds), 1e-9) / std::max(rate_of(size, kTcp), 1e-9));
  return logs >= 0;
}

const char* stream_order(const Report& report) { return uds_is_faster(report) ? "uds tcp" : "tcp uds"; }

std::string host_name() {
  utsname system{};
  uname(&system);
  return system.nodename;
}

std::string date_now() {
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  gmtime_r(&now, &utc);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &utc);
  return text;
}

// --- the profile's files

Result<std::filesystem::path> cache_directory() {
  const char* const cache = std::getenv("XDG_CACHE_HOME");
  if (cache != nullptr && *cache == '/') return std::filesystem::path(cache) / "framelane";  // a relative one is void
  const char* const home = std::getenv("HOME");
  if (home != nullptr && *home == '/') return std::filesystem::path(home) / ".cache" / "framelane";
  return fail(Code::kNotFound, "nowhere to keep the profile: set XDG_CACHE_HOME or HOME, or give --no-profile");
}

tl::unexpected<Error> cannot_write(const std::filesystem::path& path, int error) {
  return fail(error == EACCES || error == EROFS || error == EPERM ? Code::kPermission : Code::kSystem,
              "cannot write " + path.string() + ": " + base::system_words(error) +
                  "; set XDG_CACHE_HOME to a directory that can be written, or give --no-profile");
}

/// A reader finds the old content or the new one, never a part of it.
Result<void> replace_file(const std::filesystem::path& path, const std::string& content) {
  std::string draft = path.string() + ".XXXXXX";
  const base::UniqueFd fd(::mkostemp(draft.data(), O_CLOEXEC));
  if (!fd.valid()) return cannot_write(path, errno);
  errno = ENOSPC;  // of a write that was too short
  const bool written = ::write(fd.get(), content.data(), content.size()) == static_cast<ssize_t>(content.size());
  if (written && ::rename(draft.c_str(), path.c_str()) == 0) return {};
  const int error = errno;
  ::unlink(draft.c_str());
  return cannot_write(path, error);
}

nlohmann::ordered_json profile_json(const Report& report) {
  auto sizes = nlohmann::ordered_json::array();
  for (const SizeFigures& size : report.sizes) {
    nlohmann::ordered_json one{{"size", size.size}};
    for (std::uint32_t way = 0; way < kLanes; ++way) {
      one[kWords[way]] = {{"round_trip_p50_ns", size.ways[way].round_trip.p50_ns},
                          {"frames_per_second", rate_of(size, way)},
                          {"megabytes_per_second", megabytes(size, way)}};
    }
    sizes.push_back(std::move(one));
  }
  return {{"format", 1},
          {"date", date_now()},
          {"host", host_name()},
          {"streams", stream_order(report)},
          {"sizes", std::move(sizes)},
          {"how", report.how}};
}

std::string row(const SizeFigures& size, std::uint32_t way) {
  const measure::LatencySummary& trip = size.ways[way].round_trip;
  const auto us = [](std::uint64_t ns) { return static_cast<double>(ns) / 1000; };
  return fmt::format("  {:<10}{:>10.1f}{:>10.1f}{:>10.1f}{:>14.0f}{:>12.1f}\n", kRowNames[way], us(trip.p50_ns),
                     us(trip.p90_ns), us(trip.p99_ns), rate_of(size, way), megabytes(size, way));
}

}  // namespace

std::string way_word(std::uint32_t way) { return kWords[way]; }

nlohmann::ordered_json report_json(const Report& report, const std::optional<std::string>& kept) {
  nlohmann::ordered_json json{{"bench", "transports"}};
  for (std::uint32_t way = 0; way < kLanes; ++way) json["connecting"][kWords[way]] = to_json(report.connecting[way]);
  json["sizes"] = nlohmann::ordered_json::array();
  for (const SizeFigures& size : report.sizes) {
    nlohmann::ordered_json one{{"size", size.size}};
    for (std::uint32_t way = 0; way < kWays; ++way) {
      nlohmann::ordered_json figures{{"round_trip", to_json(size.ways[way].round_trip)},
                                     {"frames_per_second", spread_json(size.ways[way].frames_per_second)},
                                     {"megabytes_per_second", megabytes(size, way)}};
      if (is_stream_lane(way)) {
        const ToBare ratio = to_bare(size, way);
        figures["ratio_to_bare"] = {{"round_trip_p50", spread_json(ratio.round_trip)},
                                    {"frames_per_second", spread_json(ratio.frames_per_second)}};
      }
      one[kWords[way]] = std::move(figures);
    }
    json["sizes"].push_back(std::move(one));
  }
  json["crossovers"] = crossovers_json(report);
  json["streams"] = stream_order(report);
  json["profile"] = kept ? nlohmann::ordered_json(*kept) : nlohmann::ordered_json(nullptr);
  json.update(report.how);
  return json;
}

std::string report_text(const Report& report, const std::optional<std::string>& kept) {
  std::string text = fmt::format("Connecting, median: shm {:.2f} ms, uds {:.2f} ms, tcp {:.2f} ms\n\n",
                                 static_cast<double>(report.connecting[kShm].p50_ns) / 1e6,
                                 static_cast<double>(report.connecting[kUds].p50_ns) / 1e6,
                                 static_cast<double>(report.connecting[kTcp].p50_ns) / 1e6);
  text += report.how["touch"] == "all"
              ? "Every byte of a frame is written and read.\n\n"
              : "Of a frame 8 bytes at either end are written and read; shm moves no more.\n\n";
  text += fmt::format("  {:<10}{:>30}{:>26}\n", "", "round trip, us", "one way, median");
  text += fmt::format("  {:<10}{:>10}{:>10}{:>10}{:>14}{:>12}\n", "bytes", "p50", "p90", "p99", "frames/s", "MB/s");
  for (const SizeFigures& size : report.sizes) {
    text += fmt::format("{}\n", size.size);
    for (const std::uint32_t way : {kShm, kUds, kBareUds, kTcp, kBareTcp}) text += row(size, way);
    for (const std::uint32_t way : {kUds, kTcp}) {
      const ToBare ratio = to_bare(size, way);
      text += fmt::format("  {} to bare: round trip {}, one way {}\n", kWords[way], spread_text(ratio.round_trip),
                          spread_text(ratio.frames_per_second));
    }
  }
  text += "\n" + crossovers_text(report);
  if (kept) text += fmt::format("\nKept in {}; streams in the order {}.\n", *kept, stream_order(report));
  return text;
}

Result<std::string> save_profile(const Report& report) {
  auto directory = cache_directory();
  if (!directory) return tl::unexpected(std::move(directory.error()));
  std::error_code error;
  std::filesystem::create_directories(*directory, error);
  if (error) return cannot_write(*directory, error.value());
  const std::filesystem::path path = *directory / "transports.json";
  if (auto written = replace_file(path, profile_json(report).dump(2) + "\n"); !written)
    return tl::unexpected(std::move(written.error()));
  auto written = replace_file(*directory / "transports.profile",
                              fmt::format("framelane-transports 1 {} {}\n", host_name(), stream_order(report)));
  if (!written) return tl::unexpected(std::move(written.error()));
  return path.string();
}

}  // namespace framelane::cli
