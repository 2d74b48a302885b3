// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <utility>

#include "framelane/lane/consumer.hpp"
#include "framelane/lane/producer.hpp"

#include "base/clock.hpp"
#include "base/cpu.hpp"

// Both ends of what a bench compares: the bare limit and a lane, behind the same two calls (send a number, receive a
// number), so that one harness times both.

namespace framelane::cli {

/// A message that doesn't come within this time never will.
inline constexpr std::chrono::seconds kPatience{5};

/// How much of a payload the writer writes and the reader reads.
enum class Touch {
  kEdges,  ///< the first and the last 8 bytes: the frame is passed on, not worked on
  kAll,    ///< every byte
};

/// One word on lines of its own. 256 bytes apart, as the CPU's prefetchers move up to four lines at once.
struct alignas(256) LineWord {
  std::atomic<std::uint64_t> value;
};

/// Spins until `word` is `wanted`. False after kPatience.
[[nodiscard]] inline bool await_word(const LineWord& word, std::uint64_t wanted) noexcept {
  std::int64_t deadline = 0;
  for (;;) {
    // No look at the clock at first, and the pause hint of all our spins: with it the other side's store arrives 20 ns
    // sooner than when the line is asked for without a break.
    for (int look = 0; look < 100'000; ++look) {
      if (word.value.load(std::memory_order_acquire) == wanted) return true;
      base::cpu_relax();
    }
    if (deadline == 0) deadline = base::deadline_after(kPatience);
    if (base::monotonic_ns() > deadline) return false;
  }
}

/// The bare limit: a number stored in the peer's line and awaited in ours. Nothing else is written, read or checked.
class FloorEnd {
 public:
  FloorEnd(LineWord& out, const LineWord& in) noexcept : out_(out), in_(in) {}

  [[nodiscard]] bool send(std::uint64_t number) noexcept {
    out_.value.store(number, std::memory_order_release);
    return true;
  }
  [[nodiscard]] bool receive(std::uint64_t number) noexcept { return await_word(in_, number); }
  [[nodiscard]] static std::string why() { return "the peer did not answer on the bare lines"; }

 private:
  LineWord& out_;
  const LineWord& in_;
};

/// Writes a frame that is known by `number`: its first and last 8 bytes, or all of it.
inline void write_payload(std::span<std::byte> bytes, std::uint64_t number, Touch touch) noexcept {
  if (touch == Touch::kAll) std::memset(bytes.data(), static_cast<int>(number & 0xff), bytes.size());
  const std::size_t word = std::min(sizeof number, bytes.size());
  std::memcpy(bytes.data(), &number, word);
  std::memcpy(bytes.data() + bytes.size() - word, &number, word);
}

/// Reads what write_payload() wrote; false if it is another frame's, or none.
[[nodiscard]] inline bool payload_is(std::span<const std::byte> bytes, std::uint64_t number, Touch touch) noexcept {
  const std::size_t word = std::min(sizeof number, bytes.size());
  if (std::memcmp(bytes.data(), &number, word) != 0) return false;
  if (std::memcmp(bytes.data() + bytes.size() - word, &number, word) != 0) return false;
  if (touch == Touch::kEdges || bytes.size() <= 2 * sizeof number) return true;
  // No early exit: every byte is to be read.
  const std::byte expected{static_cast<unsigned char>(number & 0xff)};
  std::byte wrong{0};
  for (const std::byte byte : bytes.subspan(word, bytes.size() - 2 * word)) wrong |= byte ^ expected;
  return wrong == std::byte{0};
}

/// A lane in each direction, through the public API as an application uses it.
class LaneEnd {
 public:
  struct Settings {
    std::string out;  ///< lane that this end produces
    std::string in;   ///< lane that it consumes
    std::size_t size = 32;
    Touch touch = Touch::kEdges;
    Spin spin = Spin::kBusy;
    Stamps stamps = Stamps::kOff;
    std::uint32_t burst = 8;
  };

  /// Opens both directions and waits for the peer. Errors: those of Producer::open and Consumer::connect; kTimeout.
  [[nodiscard]] static Result<LaneEnd> open(const Settings& settings) {
    ProducerSettings out;
    out.lane = settings.out;
    out.burst = settings.burst;
    out.max_loans = 2;  // few slots, so that large frames don't ask for much memory
    out.max_held = 1;
    out.max_consumers = 1;
    out.full_timeout = kPatience;
    out.stamps = settings.stamps;
    out.spin = settings.spin;
    auto producer = Producer::open(std::move(out));
    if (!producer) return tl::unexpected(producer.error());
    if (auto reserved = producer->reserve(settings.size); !reserved) return tl::unexpected(reserved.error());
    ConsumerSettings in;
    in.lane = settings.in;
    in.max_held = 1;
    in.reconnect = false;
    in.spin = settings.spin;
    auto consumer = Consumer::open(std::move(in));
    if (!consumer) return tl::unexpected(consumer.error());
    if (auto connected = consumer->connect(2 * kPatience); !connected) return tl::unexpected(connected.error());
    if (auto peer = producer->wait_for_consumers(1, 2 * kPatience); !peer) return tl::unexpected(peer.error());
    return LaneEnd(std::move(*producer), std::move(*consumer), settings);
  }

  [[nodiscard]] bool send(std::uint64_t number) {
    auto loan = producer_.loan(size_);
    if (!loan) return fail_with(std::move(loan.error()));
    write_payload({loan->data(), size_}, number, touch_);
    auto published = producer_.publish(*loan, size_);
    if (!published) return fail_with(std::move(published.error()));
    if (*published == Published::kSent) return true;
    return fail_with({Code::kFull, "a frame was dropped"});
  }

  [[nodiscard]] bool receive(std::uint64_t number) {
    auto frame = consumer_.take(kPatience);
    if (!frame) return fail_with(std::move(frame.error()));
    if (frame->size() == size_ && payload_is(frame->bytes(), number, touch_)) return true;
    return fail_with({Code::kProtocol, "a frame arrived that was not the next one"});
  }

  [[nodiscard]] std::string why() const {
    return std::string(framelane::to_string(error_.code)) + (error_.text.empty() ? "" : ": " + error_.text);
  }

 private:
  LaneEnd(Producer producer, Consumer consumer, const Settings& settings)
      : producer_(std::move(producer)), consumer_(std::move(consumer)), size_(settings.size), touch_(settings.touch) {}

  bool fail_with(Error error) {
    error_ = std::move(error);
    return false;
  }

  Producer producer_;
  Consumer consumer_;
  std::size_t size_;
  Touch touch_;
  Error error_{Code::kSystem, {}};
};

}  // namespace framelane::cli
