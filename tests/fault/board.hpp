// SPDX-License-Identifier: MIT
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>

#include <sys/types.h>

// What lane_kills and its processes tell each other, in memory that outlives each of them.
namespace framelane::fault {

inline constexpr std::size_t kMostConsumers = 8;
inline constexpr std::size_t kMostProducers = 64;  // one after the other, in one round

enum class Command : std::uint32_t { kRun, kCheck, kEnd, kQuit };

/// A sentence of a process that found something wrong.
struct Complaint {
  std::atomic<bool> is_there{false};
  char words[240] = {};

  void say(const std::string& text) noexcept {
    std::strncpy(words, text.c_str(), sizeof words - 1);
    is_there.store(true);
  }
};

struct ProducerRow {
  std::atomic<std::uint64_t> published{0};  // for sure: publish() has returned
  std::atomic<std::uint64_t> demotions{0};
  std::atomic<std::uint32_t> checked{0};  // number of the last check that it did
  std::atomic<bool> ended{false};
  std::atomic<pid_t> orphan{0};  // a child that it forked
  Complaint complaint;
};

struct ConsumerRow {
  std::atomic<std::uint32_t> producer{0};                         // whose frame it took last
  std::atomic<std::uint64_t> taken{0};                            // by this process
  std::atomic<std::uint64_t> skipped{0};                          // of that producer
  std::array<std::atomic<std::uint64_t>, kMostProducers> next{};  // of each producer; 0: took nothing of it
  std::atomic<bool> ended{false};
  std::atomic<bool> fork{false};  // asks it to fork
  std::atomic<pid_t> orphan{0};
  Complaint complaint;
};

struct Board {
  std::atomic<Command> command{Command::kRun};
  std::atomic<std::uint32_t> check{0};      // number of the check that is asked for
  std::atomic<std::uint32_t> consumers{0};  // that must be connected for it
  std::atomic<bool> fork{false};            // asks the producer to fork
  std::array<ProducerRow, kMostProducers> producers;
  std::array<ConsumerRow, kMostConsumers> rows;
};

}  // namespace framelane::fault
