// SPDX-License-Identifier: MIT
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "framelane/base/result.hpp"
#include "framelane/format/event.hpp"
#include "framelane/format/frame_info.hpp"
#include "framelane/lane/settings.hpp"
#include "framelane/lane/stats.hpp"

namespace framelane {

class Producer;

namespace lane {
class ProducerCore;
}

/// A slot lent for writing. Destroying it unpublished gives the slot back.
///
/// Threads:   one thread at a time; may be filled and destroyed on any thread. It keeps the lane's memory alive, so it
///            may outlive its Producer.
/// Real time: no call allocates or waits.
class Loan {
 public:
  Loan() noexcept = default;
  Loan(Loan&& other) noexcept;
  Loan& operator=(Loan&& other) noexcept;
  ~Loan() {
    if (data_ != nullptr) discard();
  }

  /// Where to write, shape [capacity()], 64-byte aligned in a slot. The bytes are whatever an earlier frame left.
  [[nodiscard]] std::byte* data() noexcept { return data_ != nullptr ? data_ : inline_; }
  [[nodiscard]] std::span<std::byte> bytes() noexcept { return {data(), capacity_}; }
  /// Bytes that fit: at least what was asked for.
  [[nodiscard]] std::size_t capacity() const noexcept { return capacity_; }
  /// Index of the slot (0..4095); -1 while a small payload lies in the Loan itself.
  [[nodiscard]] int slot() const noexcept { return data_ != nullptr ? slot_ : -1; }
  [[nodiscard]] explicit operator bool() const noexcept { return capacity_ != 0; }

  /// Gives the slot back unpublished.
  void discard() noexcept;

 private:
  friend class Producer;
  friend class lane::ProducerCore;

  lane::ProducerCore* core_ = nullptr;  // null while a small payload lies here; lives as long as a slot is out
  std::byte* data_ = nullptr;
  std::uint32_t capacity_ = 0;
  std::uint16_t slot_ = 0;
  alignas(8) std::byte inline_[32] = {};
};

/// What became of a frame.
enum class Published {
  kSent,     ///< in the ring
  kDropped,  ///< the ring was full and the policy dropped it; counted
};

enum class Wake {
  kNow,    ///< wake sleeping consumers: a system call per sleeper, 30 to 40 µs
  kLater,  ///< no system call at all; call wake_consumers() soon, from any thread
};

/// What a consumer asks of the producer.
struct ConsumerRequest {
  std::uint32_t consumer = 0;  ///< ConsumerInfo::id
  format::Request request;
};

/// Sending end of a lane.
///
/// Threads:   publish(), send(), end_of_stream() and flush_stop() from one thread at a time; loans may be taken, filled
///            and discarded on any thread; interrupt(), resume(), flush_start(), take_requests(), stats() and
///            wake_consumers() from any thread.
/// Processes: not inherited by fork: in a child only destroying the Producer is allowed, and Loans must not be touched.
/// Real time: loan and publish make no allocation and no system call while the consumers keep up and are awake.
///            try_loan() and publish(..., Wake::kLater) with leaky other than kNo never wait.
/// Units:     times are ns; sizes are bytes.
class Producer {
 public:
  /// Creates the lane's memory and its control socket; consumers can connect when this returns.
  /// Errors: kInvalidArgument (name, descriptor or a setting; says which and what would do), kInUse (a live producer
  /// has the lane; names its process), kPermission (directory not ours or not writable), kTooLarge (socket path),
  /// kNoMemory, kUnsupported (no sealed memory on this kernel), kSystem.
  [[nodiscard]] static Result<Producer> open(ProducerSettings settings);

  Producer(Producer&&) noexcept;
  Producer& operator=(Producer&&) noexcept;
  ~Producer();  ///< close()

  /// Makes room for frames of `slot_size` bytes ahead of time (a larger one later does it by itself, with a pause).
  /// Errors: kTooLarge, kNoMemory, kFull (two older segments are still being read).
  [[nodiscard]] Result<void> reserve(std::size_t slot_size);

  /// Lends a slot of at least `size` bytes. Waits for consumers only with leaky=kNo, when the frame is larger than any
  /// before and frames of two older sizes are still being read: then up to full_timeout.
  /// Errors: kFull (max_loans are out, or the wait was in vain), kTooLarge, kNoMemory, kInterrupted, kUnsupported,
  /// kSystem.
  [[nodiscard]] Result<Loan> loan(std::size_t size);
  /// The same, without waiting: empty when the lock is taken, all loans are out or there are no slots of that size yet
  /// (see reserve()). Errors: kTooLarge.
  [[nodiscard]] Result<std::optional<Loan>> try_loan(std::size_t size);

  /// Publishes the first `size` bytes of a loan. When the ring is full, the policy decides. The loan is used up if
  /// the frame was sent or dropped, and kept if an error is returned.
  /// Errors: kInvalidArgument (empty loan, another producer's or one that is published already, a size beyond its
  /// capacity, a stream that has ended), kTooLarge (more side data than max_side_data), kInterrupted (while waiting
  /// for room). A payload of at most 32 bytes with metadata or side data needs a slot after all: also those of loan().
  /// `side_data` is copied: bytes of the application's own that Frame::side_data() gives the consumers.
  [[nodiscard]] Result<Published> publish(Loan& loan, std::size_t size, const format::FrameInfo& info = {},
                                          Wake wake = Wake::kNow, std::span<const std::byte> side_data = {});
  [[nodiscard]] Result<Published> publish(Loan&& loan, std::size_t size, const format::FrameInfo& info = {},
                                          Wake wake = Wake::kNow, std::span<const std::byte> side_data = {}) {
    return publish(loan, size, info, wake, side_data);
  }
  /// Loans, copies `bytes` and publishes. Errors: those of loan() and publish().
  [[nodiscard]] Result<Published> publish_copy(std::span<const std::byte> bytes, const format::FrameInfo& info = {},
                                               Wake wake = Wake::kNow, std::span<const std::byte> side_data = {});
  /// Wakes consumers that sleep although frames are there (after Wake::kLater).
  void wake_consumers() noexcept;

  /// For memory that others may still read after it was published (a GstMemory): publishes, but the slot comes back
  /// only when the ring AND the owner are done. The Loan stays valid for reading, data() included; reclaimed() tells
  /// when no consumer reads it any more; after that the loan may be published again, or discarded.
  /// Errors: as publish().
  [[nodiscard]] Result<Published> publish_kept(Loan& loan, std::size_t size, const format::FrameInfo& info = {},
                                               Wake wake = Wake::kNow, std::span<const std::byte> side_data = {});
  /// Appends the slots of kept loans that no consumer reads any more; first reclaims what can be.
  void reclaimed(std::vector<std::uint16_t>& slots);

  /// Sends an event in order with the frames. Caps are the text that all consumers see as the format.
  /// Errors: kInterrupted, kTooLarge (text), kInvalidArgument (an event that can't be; a stream that has ended; caps
  /// whose frame rate makes burst_time more slots than a lane has).
  [[nodiscard]] Result<void> send(const format::Event& event);
  /// send() of a kCaps event, and burst_time becomes frames by its rate. Errors: as send().
  [[nodiscard]] Result<void> set_caps(std::string_view caps);
  /// Ends the stream: consumers take what is published and then get kEndOfStream. A new kStreamStart begins another.
  /// Errors: as send().
  [[nodiscard]] Result<void> end_of_stream();

  /// Begins a flush: consumers drop every frame that they haven't taken, also those still to be published, and all
  /// events but the sticky ones; a waiting take_item() returns kFlushStart at once. Until flush_stop() every wait of
  /// this Producer returns kInterrupted. Never waits; again has no effect.
  void flush_start() noexcept;
  /// Ends the flush (begins one first, if none is under way): the frames that nobody took are gone, take_item() returns
  /// kFlushStop, and frames count again. Late joiners and `history` never reach back past it. Doesn't wait for
  /// consumers. Errors: kInvalidArgument (closed).
  [[nodiscard]] Result<void> flush_stop();

  /// What consumers asked for since the last call, in order for each of them. All wishes of one consumer for a key unit
  /// become one, of reports on quality the last counts, of others the first 64. Never waits.
  [[nodiscard]] std::vector<ConsumerRequest> take_requests();
  /// Called on the monitor's thread when take_requests() has something to give; not again before it was called. Must
  /// not wait.
  using RequestCallback = std::function<void()>;
  void on_request(RequestCallback callback);

  /// Waits until at least `count` consumers are connected. Errors: kTimeout, kInterrupted.
  [[nodiscard]] Result<void> wait_for_consumers(std::uint32_t count, std::chrono::nanoseconds timeout);
  /// Waits until every gating consumer took everything published. Errors: kTimeout, kInterrupted.
  [[nodiscard]] Result<void> drain(std::chrono::nanoseconds timeout);
  [[nodiscard]] std::uint32_t num_consumers() const noexcept;

  /// Another policy for a full ring, from the next frame on. Any thread.
  void set_leaky(Leaky leaky) noexcept;

  /// Makes every wait return kInterrupted, now and until resume().
  void interrupt() noexcept;
  void resume() noexcept;

  [[nodiscard]] ProducerStats stats() const;
  /// Canonical descriptor of the lane, e.g. "lane.shm:///run/user/1000/framelane/cam0".
  [[nodiscard]] const std::string& descriptor() const noexcept;

  /// Called on the monitor's thread when a consumer came (joined) or went (with the reason; also when the Producer
  /// closes); must not wait. Of consumers that are there already it is told before on_consumer() returns.
  using ConsumerCallback = std::function<void(const ConsumerInfo& info, bool joined, std::string_view reason)>;
  void on_consumer(ConsumerCallback callback);

  /// Ends the lane: drains the queued messages for at most `linger`, tells the consumers, removes the socket. Slots
  /// that Loans or consumers still use stay mapped until they are released. Consumers finish what is published.
  void close() noexcept;

 private:
  explicit Producer(std::shared_ptr<lane::ProducerCore> core) noexcept;
  std::shared_ptr<lane::ProducerCore> core_;
};

}  // namespace framelane
