// SPDX-License-Identifier: MIT
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "framelane/base/result.hpp"
#include "framelane/lane/frame.hpp"
#include "framelane/lane/producer.hpp"
#include "framelane/lane/settings.hpp"

namespace framelane {

namespace lane {
class ClientCore;
}

/// What a Client is asked for. Lanes, sizes and burst must suit the Server's: it says so when they don't.
struct ClientSettings {
  std::string lane;            ///< NAME or descriptor of a path: the pair NAME-requests and NAME-responses
  std::string requests = {};   ///< or the descriptor of each: of the lane that this end produces (TCP: listens on)
  std::string responses = {};  ///< and of the lane that it consumes
  std::uint32_t burst = 16;    ///< calls without an answer at any time, 1 to 256; at most the server's
  std::size_t max_request_size = 1u << 20;                              ///< bytes; at most the server's
  std::size_t max_response_size = 1u << 20;                             ///< bytes; at least the server's
  std::chrono::nanoseconds connect_timeout = std::chrono::seconds(10);  ///< of a call that has to connect first
  Spin spin = Spin::kAdaptive;
  double spin_budget = 0.02;  ///< share of one CPU
  bool insecure = false;      ///< TCP: as ProducerSettings::insecure
  std::string psk_file = {};  ///< TCP: as ProducerSettings::psk_file, for both lanes
};

/// A client's counters since it was opened.
struct ClientStats {
  std::uint64_t sent = 0;       ///< requests
  std::uint64_t answered = 0;   ///< calls that got their answer, error answers included
  std::uint64_t late = 0;       ///< answers to calls that were given up: thrown away
  std::uint64_t lost = 0;       ///< calls whose server left
  std::uint64_t sessions = 0;   ///< times a server was connected
  std::uint32_t in_flight = 0;  ///< requests without an answer now, given-up ones included
};

/// The answer to a call: lends the frame in which the server wrote it, read-only.
///
/// Threads:   as Frame. Real time: as Frame. Units: sizes are bytes.
class Response {
 public:
  Response() noexcept = default;

  /// What the server answered, shape [size()]; starts 64-byte aligned unless it is inline. Valid until release().
  [[nodiscard]] std::span<const std::byte> bytes() const noexcept { return {frame_.data(), size_}; }
  [[nodiscard]] const std::byte* data() const noexcept { return frame_.data(); }
  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  /// True for a private copy, made because `burst` responses are held already.
  [[nodiscard]] bool is_copy() const noexcept { return frame_.is_copy(); }

  /// Gives the slot back now; the Response is empty afterwards.
  void release() noexcept {
    size_ = 0;
    frame_.release();
  }

 private:
  friend class lane::ClientCore;

  Frame frame_;
  std::size_t size_ = 0;
};

/// A request that was sent and has no answer yet. Destroying it cancels it.
///
/// Threads:   one at a time; each Call of a Client may have a thread of its own. May outlive its Client (wait() then
///            says that it is closed).
class Call {
 public:
  Call() noexcept = default;
  Call(Call&& other) noexcept;
  Call& operator=(Call&& other) noexcept;
  ~Call() { cancel(); }

  /// Waits for the answer. kTimeout with pending() still true means that `timeout` is over, not the call: wait again.
  /// Errors: those of Client::call(), but those of connecting and sending; kInvalidArgument (it is over already).
  [[nodiscard]] Result<Response> wait(std::chrono::nanoseconds timeout = kForever);

  /// Gives the call up: tells the server (best effort; Request::cancelled()) and throws away an answer that comes
  /// nevertheless. Until that or the server's end it counts as in flight.
  void cancel() noexcept;

  /// True until wait() has returned the answer or what the call failed with, or cancel() was called.
  [[nodiscard]] bool pending() const noexcept { return core_ != nullptr; }

 private:
  friend class Client;
  Call(std::shared_ptr<lane::ClientCore> core, std::uint64_t id) noexcept : core_(std::move(core)), id_(id) {}

  std::shared_ptr<lane::ClientCore> core_;  // empty when it is over
  std::uint64_t id_ = 0;
};

/// Asking end of a pair of lanes: sends requests to a Server, and gets each one's answer, in whatever order they come.
/// It produces the lane of requests and consumes the lane of responses. It connects in the first call, and again in a
/// call after the server was gone, so either side may start first. A pair serves one client at a time; a process may
/// open several pairs.
///
/// Threads:   every call from any thread. No thread of its own: of the threads that wait, one reads the lane for all of
///            them, wakes those whose answers it finds, and hands the reading on when its own is there. So a single
///            caller has the latency of two bare lanes; with several, an answer can cost the wake of a thread (30 to
///            40 µs). Where that counts, open a pair for each thread, or let one thread have many calls in flight.
/// Processes: not inherited by fork: in a child only destroying the Client is allowed; Calls and Responses must not be
///            touched.
/// Real time: a call makes no allocation and no system call while the server answers at once and other threads don't
///            contend (once its requests are no larger than earlier ones: see reserve()). Sending never waits for the
///            server. Every wait has a bound or ends with interrupt().
/// Units:     times are ns of CLOCK_MONOTONIC; sizes are bytes.
class Client {
 public:
  /// Creates the lane of requests; doesn't wait for the server.
  /// Errors: those of Producer::open() (kInUse: another client has this pair; names its process), kInvalidArgument (a
  /// setting; says which and what would do).
  [[nodiscard]] static Result<Client> open(ClientSettings settings);

  Client(Client&&) noexcept;
  Client& operator=(Client&&) noexcept;
  ~Client();  ///< close()

  /// Waits until a server is there and has agreed; a call does the same by itself.
  /// Errors: kTimeout (no server answered within `timeout`), kNotFound (none within connect_timeout), kRefused (burst
  /// or sizes don't suit the server's; the text says which), kInterrupted, kInvalidArgument (closed), and those of
  /// Consumer::connect().
  [[nodiscard]] Result<void> connect(std::chrono::nanoseconds timeout = kForever);

  /// Sends a request and waits for its answer. The timeout travels with it: the server drops a request whose time is
  /// up, and sees when that will be (Request::deadline()).
  /// Errors: kTimeout (no answer in time), kPeerLost (the server died, closed or dropped the connection: whether it
  /// carried out the request is unknown; the next call connects again), kFull (`burst` requests have no answer yet; it
  /// doesn't wait for one), kTooLarge (beyond max_request_size), kInterrupted, kInvalidArgument (closed), kNoMemory,
  /// those of connect(), and what the server answers with Request::respond_error(): its code and its text.
  [[nodiscard]] Result<Response> call(std::span<const std::byte> request, std::chrono::nanoseconds timeout = kForever);
  /// The same for a request that was written into a loan(), which is kept if the request wasn't sent.
  [[nodiscard]] Result<Response> call(Loan&& request, std::size_t size, std::chrono::nanoseconds timeout = kForever);

  /// Sends a request; its answer comes from Call::wait(). `timeout` is that of the whole call.
  /// Errors: those of call() that come before the wait.
  [[nodiscard]] Result<Call> start(std::span<const std::byte> request, std::chrono::nanoseconds timeout = kForever);
  [[nodiscard]] Result<Call> start(Loan&& request, std::size_t size, std::chrono::nanoseconds timeout = kForever);

  /// Lends a slot for a request of at most `size` bytes (the capacity is larger: 16 bytes behind the payload are the
  /// pair's own). Errors: those of Producer::loan(); kTooLarge (beyond max_request_size).
  [[nodiscard]] Result<Loan> loan(std::size_t size);
  /// Makes room for requests of `size` bytes ahead of time. Errors: those of Producer::reserve().
  [[nodiscard]] Result<void> reserve(std::size_t size);

  /// Makes every wait return kInterrupted, now and until resume(). Calls stay pending, but for those inside call().
  void interrupt() noexcept;
  void resume() noexcept;

  [[nodiscard]] ClientStats stats() const;
  /// True while a server has agreed and isn't known to be gone.
  [[nodiscard]] bool connected() const noexcept;

  /// Ends all waits with kInvalidArgument and leaves both lanes. Responses stay readable.
  void close() noexcept;

 private:
  explicit Client(std::shared_ptr<lane::ClientCore> core) noexcept;
  std::shared_ptr<lane::ClientCore> core_;
};

}  // namespace framelane
