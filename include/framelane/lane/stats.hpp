// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "framelane/lane/settings.hpp"
#include "framelane/measure/latency.hpp"

namespace framelane {

/// What a producer knows of one consumer. Counts are frames since the consumer joined.
struct ConsumerInfo {
  std::uint32_t id = 0;   ///< unique in the producer's life, from 1
  std::int32_t pid = 0;   ///< 0: unknown (another pid namespace)
  std::uint32_t uid = 0;  ///< 65534: unknown
  std::string name;       ///< the consumer's process name
  Transport transport = Transport::kShm;
  std::string address;              ///< with kTcp: its host and port
  bool gating = false;              ///< the producer waits for it now
  bool demoted = false;             ///< lost that until it catches up
  bool latest = false;              ///< mode
  std::uint64_t lag = 0;            ///< published, not yet taken
  std::uint32_t held = 0;           ///< slots that it still reads
  std::uint64_t taken = 0;          ///< as the consumer counts
  std::uint64_t skipped = 0;        ///< as the consumer counts
  std::uint64_t copied = 0;         ///< taken as private copies, as the consumer counts
  std::uint32_t max_held = 0;       ///< slots that it may hold; with so many held it takes copies
  bool sleeping = false;            ///< waits for a frame in the kernel now, and so costs a wake
  std::uint64_t sleeps = 0;         ///< waits that ended in a sleep, as the consumer counts
  std::uint64_t spins = 0;          ///< waits that ended while spinning, as the consumer counts
  measure::LatencySummary latency;  ///< publish to take, ns
};

/// A producer's counters since it was opened. published = frames that got a sequence number; the drops got none.
struct ProducerStats {
  std::uint64_t published = 0;
  std::uint64_t bytes = 0;         ///< of the payloads of those
  std::uint64_t dropped_full = 0;  ///< new frames dropped: the ring was full (leaky=upstream, or full_timeout)
  std::uint64_t passed_over = 0;   ///< unread frames taken from slow consumers (leaky=downstream)
  std::uint64_t full_waits = 0;    ///< publishes that had to wait
  std::uint64_t wakes = 0;         ///< sleeping consumers woken
  std::uint64_t demotions = 0;
  std::uint64_t evictions = 0;  ///< consumers disconnected for a broken protocol or a full queue
  std::uint64_t copied = 0;     ///< frames that publish_copy() copied into a slot
  std::uint32_t loans = 0;      ///< slots out for writing now
  std::uint32_t slots = 0;      ///< slots of the current segment that can be used now
  std::uint32_t free_slots = 0;
  std::vector<ConsumerInfo> consumers;
};

/// A consumer's counters since it was opened.
struct ConsumerStats {
  std::uint64_t taken = 0;        ///< frames
  std::uint64_t skipped = 0;      ///< frames lost, all of them counted
  std::uint64_t copied = 0;       ///< taken as private copies because max_held frames were held
  std::uint64_t sleeps = 0;       ///< waits that ended in a sleep
  std::uint64_t spins = 0;        ///< waits that ended while spinning
  std::uint64_t connections = 0;  ///< times a producer was connected
  std::uint32_t held = 0;         ///< frames held now
  bool connected = false;
  bool gating = false;  ///< granted by the producer
  bool demoted = false;
  std::string transport;            ///< "shm", "uds" or "tcp"; empty before the first connection
  std::string transport_reason;     ///< why that one
  measure::LatencySummary latency;  ///< publish to take, ns, of the frames that were stamped
  /// A producer on another host, or in another time namespace, has another clock: its frames' times (and the latency)
  /// are translated to ours, and may be wrong by so many ns. 0: it has the same clock.
  std::int64_t clock_offset_error_ns = 0;
};

}  // namespace framelane
