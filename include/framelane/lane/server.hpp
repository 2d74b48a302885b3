// SPDX-License-Identifier: MIT
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "framelane/base/result.hpp"
#include "framelane/lane/frame.hpp"
#include "framelane/lane/producer.hpp"
#include "framelane/lane/settings.hpp"

namespace framelane {

namespace lane {
class ServerCore;
}

/// What a Server is asked for. The same lanes as the Client's.
struct ServerSettings {
  std::string lane;                         ///< NAME or descriptor of a path: the pair NAME-requests and NAME-responses
  std::string requests = {};                ///< or the descriptor of each: of the lane that this end consumes
  std::string responses = {};               ///< and of the lane that it produces (TCP: listens on)
  std::uint32_t burst = 16;                 ///< requests without an answer at any time, 1 to 256; at least the client's
  std::size_t max_request_size = 1u << 20;  ///< bytes; at least the client's
  std::size_t max_response_size = 1u << 20;  ///< bytes; at most the client's
  Spin spin = Spin::kAdaptive;
  double spin_budget = 0.02;  ///< share of one CPU
  bool insecure = false;      ///< TCP: as ProducerSettings::insecure
  std::string psk_file = {};  ///< TCP: as ProducerSettings::psk_file, for both lanes
};

/// A server's counters since it was opened.
struct ServerStats {
  std::uint64_t taken = 0;      ///< requests given to the application
  std::uint64_t answered = 0;   ///< by the application, error answers included
  std::uint64_t expired = 0;    ///< requests dropped: their deadline had passed when their turn came
  std::uint64_t cancelled = 0;  ///< requests dropped: their client had given them up
  std::uint64_t sessions = 0;   ///< clients that were accepted
  std::uint32_t open = 0;       ///< requests that the application still has to answer
};

/// One request, to be answered once, in any order. Destroying it without an answer sends an error answer (kRefused).
///
/// Threads:   one at a time; may be answered and destroyed on any thread, also after its Server (then it says that it
///            is closed).
/// Real time: answering makes no allocation and no system call while the client is awake (once responses are no larger
///            than earlier ones: see Server::reserve()), and never waits for the client; one answer at a time is
///            published, so another thread's may hold it up.
/// Units:     times are ns of CLOCK_MONOTONIC; sizes are bytes.
class Request {
 public:
  Request() noexcept = default;
  Request(Request&& other) noexcept;
  Request& operator=(Request&& other) noexcept;
  ~Request();

  /// What the client sent, read-only where it wrote it, shape [size()]; 64-byte aligned unless it is inline. Valid
  /// until release(), also after the answer.
  [[nodiscard]] std::span<const std::byte> bytes() const noexcept { return {frame_.data(), size_}; }
  [[nodiscard]] const std::byte* data() const noexcept { return frame_.data(); }
  [[nodiscard]] std::size_t size() const noexcept { return size_; }

  /// When the client stops waiting, ns of CLOCK_MONOTONIC; format::kNoClockTime: never. Over TCP it is counted from
  /// when the request was taken, as the other host has another clock.
  [[nodiscard]] std::int64_t deadline() const noexcept { return deadline_ns_; }
  /// True when nobody waits for the answer any more: the call was cancelled, or its client is gone. Cheap: no system
  /// call unless a cancellation has just come.
  [[nodiscard]] bool cancelled() const;

  /// Answers with a copy of `bytes`. What the client gave up meanwhile is no error.
  /// Errors: kPeerLost (the client is gone), kTooLarge (beyond max_response_size: the request can still be answered),
  /// kFull (burst answers weren't read, which the Client never lets happen), kInvalidArgument (answered already, or the
  /// server is closed), and those of Producer::loan().
  [[nodiscard]] Result<void> respond(std::span<const std::byte> bytes);
  /// Answers with the first `size` bytes of a loan(). Errors: the same.
  [[nodiscard]] Result<void> respond(Loan&& loan, std::size_t size);
  /// Makes the client's call fail with `code` and `text` (cut to max_response_size, but not below 1024 bytes).
  /// Errors: the same.
  [[nodiscard]] Result<void> respond_error(Code code, std::string_view text);

  /// Lends a slot for an answer of at most `size` bytes (the capacity is larger: 16 bytes behind the payload are the
  /// pair's own). Errors: those of Producer::loan(); kTooLarge (beyond max_response_size).
  [[nodiscard]] Result<Loan> loan(std::size_t size);

  [[nodiscard]] bool answered() const noexcept { return core_ == nullptr; }
  /// Gives the request's slot back now, before the answer; bytes() is empty afterwards.
  void release() noexcept {
    size_ = 0;
    frame_.release();
  }

 private:
  friend class lane::ServerCore;
  Result<void> done(Result<void> sent);

  std::shared_ptr<lane::ServerCore> core_;  // empty when it is answered
  Frame frame_;
  std::size_t size_ = 0;
  std::uint64_t id_ = 0;
  std::uint64_t session_ = 0;
  std::int64_t deadline_ns_ = format::kNoClockTime;
};

/// Answering end of a pair of lanes: see Client. It consumes the lane of requests and produces the lane of responses.
/// It serves one client at a time, and the next one when that one has left or died; a client finds out that it is
/// there, and whether their settings suit each other, while the server is inside next().
///
/// Threads:   next() and serve() from one thread at a time, and close() not while one of them runs; Requests on any
///            thread; interrupt(), resume() and stats() from any thread. No thread of its own.
/// Processes: not inherited by fork: in a child only destroying the Server is allowed; Requests must not be touched.
/// Real time: next() makes no allocation and no system call while requests keep coming.
/// Units:     times are ns of CLOCK_MONOTONIC; sizes are bytes.
class Server {
 public:
  /// Creates the lane of responses; doesn't wait for a client.
  /// Errors: those of Producer::open() (kInUse: another server has this pair; names its process), kInvalidArgument (a
  /// setting; says which and what would do).
  [[nodiscard]] static Result<Server> open(ServerSettings settings);

  Server(Server&&) noexcept;
  Server& operator=(Server&&) noexcept;
  ~Server();  ///< close()

  /// Waits for the next request. Those whose deadline has passed or that were cancelled are dropped on the way; clients
  /// come and go. A client that breaks the protocol is disconnected, with a warning in the log.
  /// Errors: kTimeout (no request in time), kInterrupted, kInvalidArgument (closed).
  [[nodiscard]] Result<Request> next(std::chrono::nanoseconds timeout = kForever);

  /// Calls `handler` with one request after the other until interrupt(). What it leaves unanswered and doesn't move
  /// away gets an error answer. Errors: kInvalidArgument (closed).
  using Handler = std::function<void(Request& request)>;
  [[nodiscard]] Result<void> serve(const Handler& handler);

  /// Makes room for responses of `size` bytes ahead of time. Errors: those of Producer::reserve().
  [[nodiscard]] Result<void> reserve(std::size_t size);

  /// Makes next() return kInterrupted, now and until resume(). Requests can still be answered.
  void interrupt() noexcept;
  void resume() noexcept;

  [[nodiscard]] ServerStats stats() const;

  /// Leaves both lanes: the client's waiting calls fail with kPeerLost.
  void close() noexcept;

 private:
  explicit Server(std::shared_ptr<lane::ServerCore> core) noexcept;
  std::shared_ptr<lane::ServerCore> core_;
};

}  // namespace framelane
