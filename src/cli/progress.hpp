// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <string>

namespace framelane::cli {

/// What `send` and `recv` have moved so far.
struct Moved {
  std::uint64_t frames = 0;
  std::uint64_t bytes = 0;
  std::uint64_t lost = 0;  ///< dropped by the producer's policy, or skipped by the consumer
};

/// One line on standard error that shows what flows, a few times a second; nothing where that is no terminal.
///
/// Threads: one thread. Costs a look at the clock for each frame.
class Progress {
 public:
  explicit Progress(bool quiet);
  ~Progress() { clear(); }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void show(const Moved& moved);
  /// A sentence in place of the figures, for example what is waited for.
  void say(const std::string& text);
  /// Takes the line away before something else is written.
  void clear();
  /// Since the first frame, s; 0 before it.
  [[nodiscard]] double seconds() const;

 private:
  bool terminal_;
  bool shown_ = false;
  std::int64_t first_ns_ = 0;
  std::int64_t last_ns_ = 0;
  std::uint64_t last_frames_ = 0;
};

}  // namespace framelane::cli
