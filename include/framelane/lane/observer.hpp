// SPDX-License-Identifier: MIT
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "framelane/base/result.hpp"
#include "framelane/lane/settings.hpp"
#include "framelane/lane/stats.hpp"

namespace framelane {

/// What was found behind a lane's name.
enum class LaneState {
  kAlive,    ///< a process listens there
  kBusy,     ///< a process listens, but has taken in nobody for a while: stopped, or overloaded
  kStale,    ///< a producer that is gone left its socket
  kForeign,  ///< no lane: this can't be connected to as one
};
/// "alive", "busy", "stale", "foreign".
[[nodiscard]] std::string_view to_string(LaneState state) noexcept;

struct FoundLane {
  std::string name;
  std::string path;  ///< of its control socket
  LaneState state = LaneState::kAlive;
};

/// The lanes in a directory, by name. Empty: the runtime directory, where lanes with bare names are. Tries each socket,
/// and never waits. A lane that is only served over TCP has no file, so it can't be found; nor can a lane in a
/// directory that isn't ours. A directory that isn't there has no lanes.
/// Errors: kPermission (the directory isn't safe; says why), kInvalidArgument ($FRAMELANE_DIR isn't absolute), kSystem.
[[nodiscard]] Result<std::vector<FoundLane>> find_lanes(const std::string& directory = {});

/// A lane as its producer sees it at one moment. Counts are since the producer was opened, so that the difference of
/// two LaneStats with the same `instance_id`, over the difference of their `at_ns`, is a rate.
///
/// All of this is what another process says. Texts are printable ASCII, whatever it sent ('?' is put in place of other
/// bytes), so they can be shown on a terminal; numbers may be any.
struct LaneStats {
  std::int64_t at_ns = 0;                      ///< CLOCK_MONOTONIC: when this was so
  std::int64_t opened_ns = 0;                  ///< CLOCK_MONOTONIC: when the producer was opened
  std::array<std::uint8_t, 16> instance_id{};  ///< random, of this producer
  std::int32_t pid = 0;                        ///< the producer's, in its own pid namespace
  std::string program;                         ///< its process's name
  std::string lane;
  std::string descriptor;  ///< all places where the lane is served
  std::string caps;        ///< the format; empty: none was set. Cut to 4096 bytes
  bool ended = false;      ///< the stream has ended, and no new one has begun
  Leaky leaky = Leaky::kNo;
  std::uint64_t slot_size = 0;  ///< bytes that a frame may have, of the newest segment; 0: none yet
  std::uint32_t slots = 0;      ///< that can be used now
  std::uint32_t loans = 0;      ///< slots out for writing
  std::uint32_t burst = 0;      ///< frames
  std::uint32_t max_consumers = 0;
  std::uint64_t unread = 0;        ///< frames that the slowest gating consumer has to take; at `burst` the lane is full
  std::uint64_t published = 0;     ///< frames
  std::uint64_t bytes = 0;         ///< of the payloads of those
  std::uint64_t dropped_full = 0;  ///< new frames dropped: the ring was full
  std::uint64_t passed_over = 0;   ///< unread frames taken from slow consumers
  std::uint64_t full_waits = 0;    ///< publishes that had to wait
  std::uint64_t wakes = 0;         ///< sleeping consumers woken
  std::uint64_t demotions = 0;
  std::uint64_t evictions = 0;          ///< consumers disconnected for a broken protocol or a full queue
  std::uint64_t copied = 0;             ///< frames that were copied into a slot
  std::vector<ConsumerInfo> consumers;  ///< at most 32
};

/// Watches a lane without taking part: asks the producer for a copy of its statistics. It gets no memory, is no
/// consumer, and is never waited for; the producer answers on the thread that serves its control socket.
///
/// Threads:   one at a time; never the monitor's (in a callback of a Producer, Consumer, Client or Server).
/// Real time: no call here is.
/// Units:     times are ns; sizes are bytes.
class Observer {
 public:
  /// Connects to the lane of a name or descriptor, on this host: its first address that is a path. Doesn't wait.
  /// Errors: kInvalidArgument (descriptor), kNotFound (no producer there), kPermission (its producer is another
  /// user's), kTimeout (a producer is there that takes in nobody: stopped, or overloaded), kUnsupported (only TCP
  /// addresses: those have no control socket), kTooLarge (path), kSystem.
  [[nodiscard]] static Result<Observer> connect(const std::string& lane);

  Observer(Observer&&) noexcept;
  Observer& operator=(Observer&&) noexcept;
  ~Observer();

  /// Asks without waiting for the answer, which the next stats() takes: so one thread can ask many lanes at once. Has
  /// no effect when an answer is still to come, or the last question was asked a moment ago. Errors: as stats().
  [[nodiscard]] Result<void> ask();
  /// Asks, unless ask() did, and waits for the answer. A producer answers at most 100 times a second: calls that come
  /// faster wait.
  /// Errors: kTimeout (no answer: stopped, or overloaded; ask again later), kRefused (too many observers), kPermission
  /// (the producer's `authorize` says no), kUnsupported (a release that can't be observed), kPeerLost (it is gone),
  /// kProtocol (the answer is broken; names the field), kSystem. After any but kTimeout connect anew.
  [[nodiscard]] Result<LaneStats> stats(std::chrono::nanoseconds timeout);

 private:
  struct State;
  explicit Observer(std::unique_ptr<State> state) noexcept;
  std::unique_ptr<State> state_;
};

}  // namespace framelane
