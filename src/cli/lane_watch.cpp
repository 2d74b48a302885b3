// SPDX-License-Identifier: MIT
#include "cli/lane_watch.hpp"

#include <algorithm>
#include <utility>

#include "base/clock.hpp"

namespace framelane::cli {
namespace {

using State = LaneSample::State;

/// What an error says of a lane.
State state_of(Code code) noexcept {
  switch (code) {
    case Code::kTimeout:
      return State::kSilent;
    case Code::kNotFound:
    case Code::kPeerLost:
      return State::kStale;
    default:
      return State::kRefused;
  }
}

LaneSample failed(LaneSample sample, const Error& error) {
  sample.state = state_of(error.code);
  sample.problem = sample.state == State::kSilent  ? "does not answer: its producer is stopped, or very busy"
                   : sample.state == State::kStale ? "stale: its producer is gone"
                                                   : error.text;
  return sample;
}

LaneSample live(LaneSample sample, LaneStats stats) {
  sample.stats = std::move(stats);
  return sample;
}

}  // namespace

std::string_view to_string(State state) noexcept {
  switch (state) {
    case State::kSilent:
      return "silent";
    case State::kStale:
      return "stale";
    case State::kRefused:
      return "refused";
    case State::kLive:
      break;
  }
  return "live";
}

/// Also over a connection whose producer has gone: another one may have the lane by now.
Result<void> LaneWatch::ask(Known& known, const FoundLane& lane) {
  if (known.observer) {
    if (auto asked = known.observer->ask(); asked || asked.error().code == Code::kTimeout) return asked;
    known.observer.reset();
  }
  auto observer = Observer::connect("lane.shm://" + lane.path);
  if (!observer) return tl::unexpected(std::move(observer.error()));
  known.observer = std::move(*observer);
  return known.observer->ask();
}

LaneSample LaneWatch::answer(Known& known, const FoundLane& lane, std::chrono::nanoseconds left) {
  LaneSample sample{lane.name, lane.path, State::kLive, {}, {}};
  auto stats = known.observer->stats(known.silent ? std::chrono::nanoseconds(0) : left);
  known.silent = !stats && stats.error().code == Code::kTimeout;
  if (stats) return live(std::move(sample), std::move(*stats));
  if (!known.silent) known.observer.reset();
  return failed(std::move(sample), stats.error());
}

Result<std::vector<LaneSample>> LaneWatch::look(std::chrono::nanoseconds patience) {
  auto lanes = find_lanes();
  if (!lanes) return tl::unexpected(std::move(lanes.error()));
  std::map<std::string, Known> known;  // those that are gone drop out
  std::vector<Result<void>> asked;
  for (const FoundLane& lane : *lanes) {
    auto& now = known[lane.path] = std::move(known_[lane.path]);
    asked.push_back(ask(now, lane));
  }
  known_ = std::move(known);
  const std::int64_t deadline = base::deadline_after(patience);
  std::vector<LaneSample> samples;
  for (std::size_t i = 0; i < lanes->size(); ++i) {
    const FoundLane& lane = (*lanes)[i];
    if (!asked[i]) {
      samples.push_back(failed({lane.name, lane.path, State::kLive, {}, {}}, asked[i].error()));
      continue;
    }
    const std::chrono::nanoseconds left(std::max<std::int64_t>(deadline - base::monotonic_ns(), 0));
    samples.push_back(answer(known_[lane.path], lane, left));
  }
  return samples;
}

LaneSample look_at(const std::string& lane, std::chrono::nanoseconds patience) {
  LaneSample sample{lane, {}, State::kLive, {}, {}};
  auto observer = Observer::connect(lane);
  if (!observer) {
    sample = failed(std::move(sample), observer.error());
    sample.problem = observer.error().text;  // names the path, and what to do
    return sample;
  }
  auto stats = observer->stats(patience);
  return stats ? live(std::move(sample), std::move(*stats)) : failed(std::move(sample), stats.error());
}

}  // namespace framelane::cli
