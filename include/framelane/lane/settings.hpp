// SPDX-License-Identifier: MIT
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace framelane {

/// Waits without bound.
inline constexpr std::chrono::nanoseconds kForever = std::chrono::nanoseconds::max();

/// How the bytes travel.
enum class Transport {
  kAuto,  ///< all that the descriptor allows: shared memory, else a Unix domain socket, else TCP
  kShm,   ///< shared memory
  kUds,   ///< Unix domain socket
  kTcp,   ///< TCP
};
/// "auto", "shm", "uds", "tcp".
[[nodiscard]] std::string_view to_string(Transport transport) noexcept;

/// What a producer does when the ring is full, in the words of GStreamer's queue.
enum class Leaky {
  kNo,          ///< waits for gating consumers up to full_timeout, then drops the new frame
  kUpstream,    ///< drops the new frame
  kDownstream,  ///< passes over the slow consumers: they skip their oldest frame
};

/// Which frames a consumer wants.
enum class Mode {
  kEvery,   ///< every frame, in order
  kLatest,  ///< always the newest one; never gates
};

/// How a waiting side spends the time before it sleeps.
enum class Spin {
  kAdaptive,  ///< a short spin that is cheaper than a wake, more within spin_budget, then sleep
  kBusy,      ///< spins until the frame is there: lowest latency, one whole CPU
  kOff,       ///< sleeps at once
};

/// Which frames carry the time at which they were published.
enum class Stamps {
  kAuto,  ///< every frame up to 20,000 a second, then every 16th (a stamp costs about 30 ns)
  kOn,
  kOff,
};

/// Who wants to join a lane.
struct PeerInfo {
  Transport transport = Transport::kShm;
  std::int32_t pid = 0;       ///< 0: unknown (TCP, another pid namespace)
  std::uint32_t uid = 65534;  ///< 65534: unknown (TCP, another user namespace)
  std::string name;           ///< the process's name, as it says itself
  std::string address;        ///< with kTcp: host and port; else empty
};

/// What a producer says to one who wants to join.
enum class Admission {
  kRefused,   ///< gets an error that says so
  kNoGating,  ///< joins, but is never waited for
  kGating,    ///< joins, and is waited for if it wishes that
};

/// What a Producer is asked for. The defaults suit 30 to 60 frames a second.
struct ProducerSettings {
  std::string lane;                        ///< name or descriptor; required
  std::uint32_t burst = 8;                 ///< frames absorbed while a consumer pauses, with no drop and no wait
  std::chrono::nanoseconds burst_time{0};  ///< the same as a time; wins when set and the caps have a frame rate
  Leaky leaky = Leaky::kNo;
  std::chrono::nanoseconds full_timeout = std::chrono::seconds(1);   ///< kForever: no bound
  std::chrono::nanoseconds stall_timeout = std::chrono::seconds(5);  ///< kForever: never demotes
  std::uint32_t history = 0;                                         ///< old frames that a late joiner still gets
  std::uint32_t max_loans = 16;                                      ///< slots out for writing at any time
  std::uint32_t max_held = 4;                                        ///< the most that one consumer may hold
  std::uint32_t max_consumers = 32;                                  ///< 1 to 32
  std::size_t max_frame_size = 256u << 20;                           ///< bytes
  std::uint32_t max_side_data = 960;  ///< bytes that a frame may carry beside its payload, up to 65472; room per slot
  Stamps stamps = Stamps::kAuto;
  Spin spin = Spin::kAdaptive;
  double spin_budget = 0.02;                                  ///< share of one CPU
  std::chrono::nanoseconds linger = std::chrono::seconds(2);  ///< close() waits this long for queued messages
  Transport transport = Transport::kAuto;  ///< serves only this one of those that the descriptor allows
  bool insecure = false;   ///< allows TCP without a key on an address that isn't loopback: anybody can read the frames
  std::string psk_file{};  ///< TCP: TLS 1.3 with the key in this file, which the consumers need, too; empty: plain
  std::chrono::nanoseconds handshake_timeout = std::chrono::seconds(2);  ///< a connection that isn't ready then goes
  /// Decides who may join, on any thread, at any time until close() has returned; must not wait, nor call this
  /// Producer. Empty: over shm and UDS root and the own user (who alone gates), over TCP whoever can connect.
  std::function<Admission(const PeerInfo&)> authorize{};
  bool unsealed = false;  ///< allows shm on kernels that can't seal (before 5.1): consumers could then write
};

/// What a Consumer is asked for.
struct ConsumerSettings {
  std::string lane;  ///< name or descriptor; required
  Mode mode = Mode::kEvery;
  bool gating = true;          ///< the producer waits for us, if it grants that (by default to its own uid)
  std::uint32_t max_held = 4;  ///< frames held at once; beyond it frames are copied
  bool reconnect = true;       ///< waits for the lane to come back when the producer leaves without an end
  std::chrono::nanoseconds connect_timeout = std::chrono::seconds(10);  ///< of the first connection only
  /// Bytes. Slots have room for frames to grow: up to as much again and at most 1 MiB.
  std::size_t max_frame_size = 256u << 20;
  Spin spin = Spin::kAdaptive;
  double spin_budget = 0.02;               ///< share of one CPU
  Transport transport = Transport::kAuto;  ///< tries only this one of those that the descriptor allows
  std::string psk_file{};  ///< TCP: TLS 1.3 with the key in this file, which the producer needs, too; empty: plain
};

}  // namespace framelane
