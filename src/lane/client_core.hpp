// SPDX-License-Identifier: MIT
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include <sys/types.h>

#include "framelane/lane/client.hpp"

#include "lane/rpc_frame.hpp"
#include "lane/rpc_pair.hpp"

namespace framelane::lane {

/// What a Client is made of: a Producer, a Receiver, and a table of the calls that have no answer yet.
///
/// Threads: as Client. Whoever sets reading_ under mutex_ has the Receiver until it clears it: it reads without the
///          mutex, files each answer into its call's place, and wakes that call's thread. When it is done it wakes one
///          of those who still wait, to read on (hand_on). mutex_ is never held across a wait; send_mutex_ orders the
///          publishing and is never taken under mutex_, nor the other way round. The monitor's thread takes neither.
class ClientCore {
 public:
  [[nodiscard]] static Result<std::shared_ptr<ClientCore>> create(ClientSettings settings);
  ~ClientCore();

  [[nodiscard]] Result<void> connect(std::int64_t deadline_ns);
  [[nodiscard]] Result<Loan> loan(std::size_t size);
  [[nodiscard]] Result<Loan> loan_copy(std::span<const std::byte> bytes);
  [[nodiscard]] Result<void> reserve(std::size_t size) { return producer_.reserve(size + kTrailerBytes); }
  /// The call's id.
  [[nodiscard]] Result<std::uint64_t> start(Loan& loan, std::size_t size, std::chrono::nanoseconds timeout);
  /// `timeout` is what is left until `until_ns` or, if that is kForever, until the call's own deadline: an estimate
  /// that saves a reading of the clock. `over` tells whether the id is used up.
  /// `response` holds an empty Response, and then the answer or the error.
  void wait(Result<Response>& response, std::uint64_t id, std::int64_t until_ns, std::chrono::nanoseconds timeout,
            bool& over);
  void call(Result<Response>& response, Loan& loan, std::size_t size, std::chrono::nanoseconds timeout);
  void cancel(std::uint64_t id) noexcept;

  void interrupt() noexcept;
  void resume() noexcept;
  [[nodiscard]] ClientStats stats() const;
  [[nodiscard]] bool connected() const;
  void close() noexcept;

 private:
  using Lock = std::unique_lock<std::mutex>;
  enum Stop : std::uint32_t { kStopInterrupt = 1, kStopClosed = 2 };

  /// A call's place in the table; everything but the futex word is guarded by mutex_.
  struct Slot {
    enum class State : std::uint8_t {
      kFree,
      kConnecting,  // not sent yet
      kWaiting,     // sent
      kAnswered,    // the answer is here
      kLost,        // the server left
      kGivenUp,     // nobody waits; free when its answer has come
    };
    State state = State::kFree;
    bool asleep = false;
    FrameKind kind{};  // of the answer
    std::uint64_t id = 0;
    std::int64_t deadline_ns = 0;
    std::int64_t time = 0;  // of the answer's trailer
    Frame answer;
    std::atomic<std::uint32_t> word{0};  // futex: look again
  };
  using State = Slot::State;

  /// Threads to wake as soon as the mutex is free again. Declare it before the lock.
  class Wakes {
   public:
    ~Wakes() { flush(); }
    void add(Slot& slot) noexcept;
    void flush() noexcept;

   private:
    std::array<Slot*, 2> slots_{};
    std::size_t count_ = 0;
  };

  ClientCore(const ClientSettings& settings, PairSettings pair, Producer producer);

  // the table; under mutex_
  [[nodiscard]] Slot* allocate(State state, std::int64_t deadline_ns);
  void free(Slot& slot) noexcept;
  [[nodiscard]] Slot& slot_of(std::uint64_t id) noexcept { return slots_[id & kIndexMask]; }
  [[nodiscard]] std::uint64_t next_id(std::uint64_t index) noexcept;
  [[nodiscard]] Result<void> stopped() const;

  // calls
  [[nodiscard]] Result<void> check_request(const Loan& loan, std::size_t size) const;
  [[nodiscard]] Result<void> publish(Loan& loan, std::size_t size);
  [[nodiscard]] Result<void> send(Slot& slot, std::uint64_t id, Loan& loan, std::size_t size, bool same_clock);
  void sleep(Lock& lock, Slot& slot, std::int64_t until_ns) noexcept;
  [[nodiscard]] bool read(Lock& lock, Slot& slot, std::int64_t until_ns, std::chrono::nanoseconds left, Wakes& wakes);
  void file(Frame& frame, Wakes& wakes) noexcept;
  void sweep(Wakes& wakes) noexcept;
  void hand_on(Wakes& wakes) noexcept;
  void wake_all() noexcept;
  void collect(Lock& lock, Slot& slot, Result<Response>& response);
  [[nodiscard]] Error out_of_time(Slot& slot, bool& over);

  // session
  [[nodiscard]] bool ready() const noexcept { return ready_ && leaves_.load() == session_leaves_; }
  [[nodiscard]] Result<void> connect(Lock& lock, Slot& slot, std::int64_t deadline_ns, Wakes& wakes);
  [[nodiscard]] Result<void> open_session(std::int64_t until_ns);
  [[nodiscard]] Result<bool> await_welcome(std::uint64_t id, std::int64_t until_ns);
  [[nodiscard]] Result<void> say_hello(std::uint64_t id);
  void end_session(Lock& lock, const Error& why, Wakes& wakes);

  static constexpr std::uint64_t kIndexMask = 0xffff;
  static constexpr std::uint64_t kHelloIndex = 0xffff;

  const PairSettings pair_;
  const std::chrono::nanoseconds connect_timeout_;
  const pid_t pid_;  // of the process that opened it

  mutable std::mutex mutex_;
  std::unique_ptr<Slot[]> slots_;  // [burst]
  std::vector<std::uint16_t> free_;
  std::uint32_t asleep_ = 0;
  std::uint64_t generation_;  // of ids; 40 bits
  bool reading_ = false;      // somebody has receiver_
  bool ready_ = false;        // a server has agreed
  bool same_clock_ = false;   // and reads the same one
  std::uint32_t session_leaves_ = 0;
  Error lost_{Code::kPeerLost, {}};  // why the last session ended
  ClientStats stats_;
  std::atomic<std::uint32_t> baton_word_{0};  // futex: reading_ was cleared; for close()
  bool drained_ = false;                      // close() has been here

  std::atomic<std::uint32_t> stops_{0};   // Stop bits; set under mutex_
  std::atomic<std::uint32_t> joins_{0};   // times that a consumer of our requests came
  std::atomic<std::uint32_t> leaves_{0};  // times that the last one left

  Receiver receiver_;  // reading_'s
  std::mutex send_mutex_;
  Producer producer_;  // last: its callbacks use what is above
};

}  // namespace framelane::lane
