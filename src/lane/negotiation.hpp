// SPDX-License-Identifier: MIT
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "framelane/base/result.hpp"
#include "framelane/lane/settings.hpp"

#include "lane/approach.hpp"
#include "lane/connection.hpp"
#include "lane/ways.hpp"

namespace framelane::lane {

/// How a consumer comes to a connection: tries the ways in their order, exchanges a stream for a better way to the same
/// producer, waits and tries again, and says why it came out as it did.
///
/// Threads: one.
class Negotiation {
 public:
  /// `settings` must outlive it. `descriptor`: for words. `interrupt_fd`: waits end when it is readable.
  Negotiation(const ConsumerSettings& settings, std::string descriptor, std::vector<Way> ways, int interrupt_fd);
  ~Negotiation();
  Negotiation(const Negotiation&) = delete;
  Negotiation& operator=(const Negotiation&) = delete;

  /// For the connections to come: ConnectionSettings::on_flush.
  void on_flush(std::function<void()> callback) { on_flush_ = std::move(callback); }

  enum class Progress : std::uint8_t {
    kLate,   ///< `until_ns` has come
    kMoved,  ///< and must go on
    kFound,  ///< take_found() is due
  };
  /// Goes on, and waits if it must. `first`: there was no connection yet, so connect-timeout bounds it.
  /// Errors: those of the ways; it begins anew at the next call.
  [[nodiscard]] Result<Progress> step(std::int64_t until_ns, bool first);
  struct Found {
    Connection* connection = nullptr;
    std::string reason;  // why that transport
  };
  [[nodiscard]] Found take_found() noexcept { return std::exchange(found_, {}); }

  /// A connection is over because memory or descriptors ran out here. True: another way may do, and the next one takes
  /// up the lane where that one stopped. It is kept until then, so that a producer that waits for it loses nothing.
  [[nodiscard]] bool goes_on_without_memory(Connection* connection, const Error& why);
  /// Waits until `until_ns`, until `fd` has one of `events`, or until it is interrupted.
  void pause(std::int64_t until_ns, int fd = -1, short events = 0) const noexcept;
  /// Gives up what is on its way.
  void end() noexcept;
  /// In a forked child: what was inherited is the parent's.
  void forget() noexcept;

 private:
  using Step = Result<Progress>;

  [[nodiscard]] ApproachSettings approach_settings() const;
  [[nodiscard]] Step try_way();
  [[nodiscard]] Step begin_approach(const Way& way);
  [[nodiscard]] Step await(std::int64_t until_ns);
  [[nodiscard]] std::optional<Way> better_way(const wire::Welcome& welcome) const;
  [[nodiscard]] Step found(Connection* connection);
  [[nodiscard]] std::string reason_for(const Connection& connection) const;
  [[nodiscard]] Step way_failed(Setback why);
  void better_way_failed(Setback why);
  [[nodiscard]] Step round_failed();
  [[nodiscard]] std::string setbacks_in_words() const;
  [[nodiscard]] Step retry_later(Error why);
  [[nodiscard]] Error out_of_time(Error why) const;
  void begin_anew() noexcept;
  void let_former_go() noexcept;

  const ConsumerSettings& settings_;
  std::string descriptor_;
  std::vector<Way> ways_;
  int interrupt_fd_;
  std::function<void()> on_flush_;
  std::minstd_rand jitter_;

  // This try.
  std::size_t way_ = 0;  // of ways_
  std::unique_ptr<Approach> approach_;
  std::int64_t approach_until_ = 0;
  std::unique_ptr<Approach> spare_;  // a stream that is half greeted, while a better way to its producer is tried
  std::string passed_over_;          // the better way that failed, for the reason; empty: none was tried
  Found found_;
  // This round: each way once.
  std::vector<std::pair<Transport, Setback>> setbacks_;
  std::optional<Error> shm_failed_;  // shared memory was lost: this round does without
  // This attempt to connect: rounds, until one succeeds.
  std::size_t rounds_ = 0;
  std::int64_t connect_until_ = 0;  // 0 = not begun
  std::int64_t next_try_ = 0;
  std::int64_t backoff_ns_ = 0;
  std::optional<Error> refusal_;  // the last one
  std::optional<Error> earlier_;  // why the try before this one failed
  bool cut_short_ = false;        // the last try was, by connect_until_
  // Where to take up the lane.
  Connection* former_ = nullptr;  // without memory; the producer waits for it as long as it gates
  wire::Resume resume_;
};

}  // namespace framelane::lane
