// SPDX-License-Identifier: MIT
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include <sys/types.h>

#include "framelane/lane/server.hpp"

#include "lane/rpc_frame.hpp"
#include "lane/rpc_pair.hpp"

namespace framelane::lane {

/// What a Server is made of: a Receiver, a Producer, and the number of the session, by which it knows the requests of
/// clients that are gone.
///
/// Threads: as Server. send_mutex_ orders the publishing, cancels_mutex_ guards a list; neither is taken under the
///          other. The monitor's thread takes neither.
class ServerCore : public std::enable_shared_from_this<ServerCore> {
 public:
  [[nodiscard]] static Result<std::shared_ptr<ServerCore>> create(ServerSettings settings);
  ~ServerCore();

  /// `request` holds an empty Request, and then the next one or the error.
  void next(Result<Request>& request, std::chrono::nanoseconds timeout);
  [[nodiscard]] Result<void> reserve(std::size_t size) { return producer_.reserve(size + kTrailerBytes); }

  // of a Request
  [[nodiscard]] Result<Loan> loan(std::size_t size);
  [[nodiscard]] Result<void> respond(const Request& request, Loan& loan, std::size_t size);
  [[nodiscard]] Result<void> respond_error(const Request& request, Code code, std::string_view text);
  [[nodiscard]] bool cancelled(const Request& request);
  /// Its answer is sent, or never will be.
  void finish(const Request& request, bool answered) noexcept;

  void interrupt() noexcept;
  void resume() noexcept;
  [[nodiscard]] ServerStats stats() const;
  void close() noexcept;

 private:
  enum Stop : std::uint32_t { kStopInterrupt = 1, kStopClosed = 2 };

  ServerCore(PairSettings pair, Producer producer);

  // clients
  void on_consumer(bool joined) noexcept;
  [[nodiscard]] bool find_client(std::int64_t until_ns);
  void drop_client(std::string_view why) noexcept;
  [[nodiscard]] Result<void> greet(std::span<const std::byte> payload, const Trailer& trailer_untrusted);
  [[nodiscard]] std::string unsuitable(const Terms& terms_untrusted, std::int64_t version_untrusted) const;

  // requests
  [[nodiscard]] bool take(Request& request, std::chrono::nanoseconds left);
  [[nodiscard]] Result<bool> look_at(Frame& frame, Request& request);
  [[nodiscard]] bool accept(Frame& frame, std::size_t size, const Trailer& trailer_untrusted, Request& request);
  void collect_cancels();
  [[nodiscard]] bool is_cancelled(std::uint64_t id);
  void forget_cancel(std::uint64_t id) noexcept;
  void news() noexcept;

  // answers
  [[nodiscard]] Result<void> publish(Loan& loan, std::size_t size, FrameKind kind, std::uint64_t id, std::int64_t time);
  [[nodiscard]] Result<void> publish_error(std::uint64_t id, Code code, std::string_view text);
  [[nodiscard]] Result<void> check_session(const Request& request) const;

  const PairSettings pair_;
  const pid_t pid_;  // of the process that opened it

  std::atomic<std::uint32_t> stops_{0};    // Stop bits
  std::atomic<std::uint64_t> session_{1};  // counts up when a client is accepted, and when it goes
  std::atomic<std::uint32_t> news_{0};     // futex: clients came or went, or stops_ changed
  std::atomic<bool> cancels_came_{false};

  // The thread's that is in next().
  Receiver receiver_;
  std::uint64_t greeted_ = 0;  // the session whose client was accepted

  std::mutex cancels_mutex_;
  std::vector<std::uint64_t> cancels_;     // ids of requests whose clients gave them up
  std::atomic<std::size_t> cancelled_{0};  // their number

  std::atomic<std::uint64_t> taken_{0}, expired_{0}, dropped_cancelled_{0}, sessions_{0};  // next()'s thread
  std::atomic<std::uint64_t> answered_{0}, let_go_{0};

  std::mutex send_mutex_;
  Producer producer_;  // last: its callbacks use what is above
};

}  // namespace framelane::lane
