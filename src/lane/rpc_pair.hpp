// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "framelane/lane/consumer.hpp"
#include "framelane/lane/producer.hpp"

namespace framelane::lane {

/// What Client and Server have in common of their settings.
struct PairSettings {
  std::string lane;
  std::string requests;
  std::string responses;
  std::uint32_t burst;
  std::size_t max_request_size;
  std::size_t max_response_size;
  Spin spin;
  double spin_budget;
  bool insecure;
  std::string psk_file;

  template <class Settings>
  [[nodiscard]] static PairSettings of(const Settings& from) {
    return {from.lane, from.requests,    from.responses, from.burst,   from.max_request_size, from.max_response_size,
            from.spin, from.spin_budget, from.insecure,  from.psk_file};
  }
};

/// Fills in `requests` and `responses`, and checks all but these.
/// Errors: kInvalidArgument (names the setting and what would do).
[[nodiscard]] Result<PairSettings> checked(PairSettings settings);

/// The largest payload of a lane: what the application asked for, or what an error answer's text needs.
[[nodiscard]] constexpr std::size_t payload_limit(std::size_t max_size) noexcept {
  return std::max<std::size_t>(max_size, 1024);
}

[[nodiscard]] ProducerSettings out_settings(const PairSettings& pair, const std::string& lane, std::size_t max_size);
[[nodiscard]] ConsumerSettings in_settings(const PairSettings& pair, const std::string& lane, std::size_t max_size);

/// A Consumer that is made anew after each connection, so that its first try to connect comes at once. (One that
/// reconnects by itself would look for the lane only every 250 ms.)
///
/// Threads: as Consumer; poke(), send_upstream() from any thread.
class Receiver {
 public:
  explicit Receiver(ConsumerSettings settings) : settings_(std::move(settings)) { settings_.reconnect = false; }

  [[nodiscard]] bool connected() const noexcept { return connected_; }
  /// Errors: those of Consumer::open() and connect(); kInterrupted after a poke().
  [[nodiscard]] Result<void> connect(std::chrono::nanoseconds timeout);
  /// Only while connected. Errors: those of Consumer::take(); kInterrupted after a poke(). After any error but kTimeout
  /// and kInterrupted call drop().
  [[nodiscard]] Result<Frame> take(std::chrono::nanoseconds timeout) noexcept { return consumer_->take(timeout); }
  [[nodiscard]] Result<std::optional<Frame>> try_take() noexcept { return consumer_->try_take(); }
  void drop() noexcept;
  /// Whether the other end reads the same clock. Only while connected.
  [[nodiscard]] bool on_this_host() const { return consumer_->transport() != "tcp"; }

  /// Makes connect() or take(), or the next one, return kInterrupted, until unpoke().
  void poke() noexcept;
  void unpoke() noexcept;
  [[nodiscard]] Result<void> send_upstream(const format::Request& request);

 private:
  ConsumerSettings settings_;
  bool connected_ = false;  // the taking thread's
  std::mutex mutex_;        // consumer_ is changed by the taking thread, under it; and poked_
  std::optional<Consumer> consumer_;
  bool poked_ = false;
};

}  // namespace framelane::lane
