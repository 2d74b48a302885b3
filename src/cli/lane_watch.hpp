// SPDX-License-Identifier: MIT
#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "framelane/lane/observer.hpp"

namespace framelane::cli {

/// What one look at a lane gave.
struct LaneSample {
  enum class State {
    kLive,     ///< `stats` is there
    kSilent,   ///< its producer doesn't answer: stopped, or overloaded
    kStale,    ///< its producer is gone
    kRefused,  ///< it is no lane, or doesn't let us look
  };
  std::string name;
  std::string path;  ///< of its control socket
  State state = State::kLive;
  std::string problem;  ///< in words, unless it is live
  std::optional<LaneStats> stats;
};
/// "live", "silent", "stale", "refused".
[[nodiscard]] std::string_view to_string(LaneSample::State state) noexcept;

/// Looks at all lanes of the runtime directory again and again, over connections that are kept.
///
/// Threads: one.
class LaneWatch {
 public:
  /// Waits for at most `patience` in all, however many lanes don't answer; for one that didn't the last time, not at
  /// all. Errors: those of find_lanes().
  [[nodiscard]] Result<std::vector<LaneSample>> look(std::chrono::nanoseconds patience);

 private:
  struct Known {
    std::optional<Observer> observer;
    bool silent = false;  // the last time
  };
  [[nodiscard]] static Result<void> ask(Known& known, const FoundLane& lane);
  [[nodiscard]] static LaneSample answer(Known& known, const FoundLane& lane, std::chrono::nanoseconds left);

  std::map<std::string, Known> known_;  // by path
};

/// One look at one lane, by its name or descriptor. Never fails: the sample says what is wrong.
[[nodiscard]] LaneSample look_at(const std::string& lane, std::chrono::nanoseconds patience);

}  // namespace framelane::cli
