// SPDX-License-Identifier: MIT
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "framelane/base/result.hpp"

// What `framelane doctor` looks at: each probe is one function, bounded in time, and leaves everything as it was.
namespace framelane::cli {

enum class Verdict {
  kOk,
  kNote,     ///< lanes work, but something costs latency or will be in the way
  kProblem,  ///< something that lanes use doesn't work
};
/// "ok", "note", "PROBLEM".
[[nodiscard]] std::string_view to_string(Verdict verdict) noexcept;

/// What one probe saw.
struct Finding {
  Verdict verdict = Verdict::kOk;
  std::string found;   ///< a value or a short phrase
  std::string means;   ///< for latency, or for working at all; empty when there is nothing to say
  std::string change;  ///< a command or what to do; empty when there is nothing to change
  bool fatal = false;  ///< no lane works here
};
/// All is well; `means` and `change` show with --all.
[[nodiscard]] inline Finding fine(std::string found, std::string means = {}, std::string change = {}) {
  return {Verdict::kOk, std::move(found), std::move(means), std::move(change), false};
}

/// Where a probe finds the system.
struct System {
  std::string root;       ///< before /proc and /sys; empty but in tests
  std::string lanes_dir;  ///< where lanes with bare names live

  /// A small file's first 64 KiB, without the end of its last line; nothing when it can't be read.
  [[nodiscard]] std::optional<std::string> read(const std::string& path) const;
  [[nodiscard]] bool exists(const std::string& path) const;
};

struct Probe {
  const char* group;
  const char* name;
  Finding (*look)(const System& system);
};

/// Of the clock that stamps frames, whose reading takes so long.
[[nodiscard]] Finding clock_finding(const std::string& source, double read_ns);

/// Kernel features, by trying them.
[[nodiscard]] std::span<const Probe> kernel_probes();
/// Limits, CPUs, clock, sockets, pages: what /proc and /sys say.
[[nodiscard]] std::span<const Probe> system_probes();
/// The lanes' directory, a lane, a wake, the libraries.
[[nodiscard]] std::span<const Probe> lane_probes();

}  // namespace framelane::cli
