// SPDX-License-Identifier: MIT
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "cli/bench_ends.hpp"

// What the command `bench gst` and its processes share. The processes (bench_gst_ends.cpp, bench_gst_elements.cpp) are
// built only where GStreamer is; the command itself always.
namespace framelane::cli::bench_gst {

/// How frames get from the one end to the other.
enum class Way : std::uint32_t {
  kLane,     ///< lanesink, lanesrc; the source writes into slots
  kShm,      ///< shmsink, shmsrc; the source writes into shmsink's shared memory
  kShmCopy,  ///< the same; the source writes into memory of its own, and shmsink copies
  kFloor,    ///< nothing between the two ends, in one process
};
inline constexpr std::array kWays{Way::kLane, Way::kShm, Way::kShmCopy, Way::kFloor};

/// What is asked of a run.
struct Job {
  Way way = Way::kLane;
  std::string caps;
  std::size_t frame_bytes = 0;
  double fps = 0;             ///< 0: as fast as it goes
  std::uint64_t warm_up = 0;  ///< frames before the measured ones
  std::uint64_t frames = 0;
  std::uint32_t shm_size = 0;  ///< bytes, of shmsink
  std::string socket;          ///< of shmsink
  std::string spin;            ///< of lanesink and lanesrc
  std::optional<int> cpu;      ///< of this end's process

  [[nodiscard]] std::uint64_t total() const noexcept { return warm_up + frames; }
};

/// What the ends of a run leave in shared memory, so that there is something to report when they hang and are killed.
struct Record {
  LineWord received;  ///< frames that have arrived; the watchdog looks at it
  LineWord done;      ///< not 0 once the last one has
  std::atomic<std::uint32_t> measured{0};
  std::atomic<std::uint64_t> lost{0};
  std::atomic<std::int64_t> first_ns{0};  ///< CLOCK_MONOTONIC, of the first and the last measured arrival
  std::atomic<std::int64_t> last_ns{0};
  std::atomic<std::int64_t> producer_cpu_ns{0};  ///< of the measured frames, all threads of the process
  std::atomic<std::int64_t> consumer_cpu_ns{0};  ///< 0 for Way::kFloor, where the producer's is both
  // Of lanesink's `stats`, warm-up included: frames that weren't copied, waits for room, wakes of the consumer.
  std::atomic<std::uint64_t> in_place{0};
  std::atomic<std::uint64_t> full_waits{0};
  std::atomic<std::uint64_t> wakes{0};
};

/// What the machine has to say before anything runs.
struct Probe {
  std::size_t frame_bytes = 0;
  char caps[2048] = {};  ///< as they are when every field is decided
};

/// Bodies of processes; they start GStreamer, so they run in forks. Each returns an exit code, having said why.
[[nodiscard]] int probe(const std::string& caps, Probe& result);
[[nodiscard]] int produce(const Job& job, Record& record);
[[nodiscard]] int consume(const Job& job, Record& record, std::span<std::uint32_t> samples);
[[nodiscard]] int floor(const Job& job, Record& record, std::span<std::uint32_t> samples);

}  // namespace framelane::cli::bench_gst
