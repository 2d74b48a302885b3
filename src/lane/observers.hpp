// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "framelane/lane/settings.hpp"

#include "lane/rate_limit.hpp"
#include "transport/control_socket.hpp"
#include "transport/monitor.hpp"
#include "wire/control_message.hpp"

namespace framelane::lane {

/// Who watches a lane: connections that ask for statistics, beside those of the consumers.
///
/// However many ask, and however often, one copy is made every kFreshNs at most, and each asker costs one datagram. One
/// that asks faster than kStatsPerSecond, or doesn't read its answers, is dropped; it can't keep anybody waiting.
///
/// Threads: the monitor's.
class Observers {
 public:
  static constexpr std::size_t kMost = 16;
  static constexpr std::uint32_t kStatsAtOnce = 32;
  static constexpr std::uint32_t kStatsPerSecond = 100;
  static constexpr std::int64_t kFreshNs = 5'000'000;     // a copy serves whoever asks so soon
  static constexpr std::int64_t kIdleNs = 5'000'000'000;  // one that is silent for so long gives way to others

  /// `copy` makes the statistics; it must not wait. `lane` is for logs.
  Observers(transport::Monitor& monitor, std::string lane, std::function<wire::Stats()> copy);

  /// Takes in one that said HELLO, or rejects it.
  void add(transport::ControlSocket&& socket, const PeerInfo& who);
  /// Ends all connections.
  void clear() noexcept { observers_.clear(); }

 private:
  struct Observer {
    Observer(transport::ControlSocket taken, std::string who_, std::int64_t now)
        : socket(std::move(taken)), who(std::move(who_)), asked_ns(now) {}

    transport::ControlSocket socket;
    std::string who;        // for logs
    std::int64_t asked_ns;  // the last time
    RateLimit requests{kStatsAtOnce, kStatsPerSecond};
    transport::Watch watch;  // last, so that it ends before the socket is closed
  };

  void on_messages(std::uint64_t id);
  [[nodiscard]] Result<void> answer(Observer& observer, const transport::Received& received);
  [[nodiscard]] Result<transport::OutgoingPtr> stats(std::int64_t now);
  [[nodiscard]] bool make_room(std::int64_t now);

  transport::Monitor& monitor_;
  std::string lane_;
  std::function<wire::Stats()> copy_;
  std::map<std::uint64_t, std::unique_ptr<Observer>> observers_;
  std::uint64_t next_id_ = 1;
  transport::OutgoingPtr last_;  // null: none yet
  std::int64_t last_ns_ = 0;
};

}  // namespace framelane::lane
