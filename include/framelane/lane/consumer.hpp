// SPDX-License-Identifier: MIT
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <variant>

#include "framelane/base/result.hpp"
#include "framelane/format/event.hpp"
#include "framelane/lane/frame.hpp"
#include "framelane/lane/settings.hpp"
#include "framelane/lane/stats.hpp"

namespace framelane {

namespace lane {
class ConsumerCore;
}

/// A frame, or an event that stands before the next frame.
using Item = std::variant<Frame, format::Event>;

/// Receiving end of a lane. It connects in the first take, and again when the producer comes back, so either side may
/// start first.
///
/// Threads:   the take functions from one thread at a time; interrupt(), resume() and stats() from any thread. A Frame
///            may be released on any thread, in any order, also after its Consumer is gone.
/// Processes: not inherited by fork: in a child only destroying the Consumer is allowed, and Frames must not be
///            touched.
/// Real time: take() makes no allocation and no system call while frames keep coming; try_take() never waits.
/// Units:     times are ns of CLOCK_MONOTONIC; sizes are bytes.
class Consumer {
 public:
  /// Checks the settings; doesn't wait for the producer.
  /// Errors: kInvalidArgument (name, descriptor or a setting), kTooLarge (socket path).
  [[nodiscard]] static Result<Consumer> open(ConsumerSettings settings);

  Consumer(Consumer&&) noexcept;
  Consumer& operator=(Consumer&&) noexcept;
  ~Consumer();  ///< close()

  /// Waits until a producer is connected. Errors: those of take().
  [[nodiscard]] Result<void> connect(std::chrono::nanoseconds timeout);

  /// Waits for the next frame and lends it, read-only, until the Frame is destroyed. Events on the way are skipped
  /// (caps() always knows the last).
  /// Errors: kTimeout (nothing came in time), kEndOfStream (again at each call, until the producer starts anew),
  /// kInterrupted, kNotFound (no such lane within connect_timeout), kPeerLost (the producer left without an end and
  /// reconnect is off), kProtocol (the peer broke the ABI; the text names the field), kRefused, kPermission,
  /// kUnsupported, kNoMemory.
  [[nodiscard]] Result<Frame> take(std::chrono::nanoseconds timeout = kForever) noexcept;
  /// The same, but events are returned, in order. After a reconnection the new producer's stream start, caps and
  /// segment come first.
  [[nodiscard]] Result<Item> take_item(std::chrono::nanoseconds timeout = kForever) noexcept;
  /// The next frame if it is there; never waits.
  [[nodiscard]] Result<std::optional<Frame>> try_take() noexcept;

  /// Caps of the last item taken; empty before the first. Call from the taking thread.
  [[nodiscard]] const std::string& caps() const noexcept;

  /// Makes the take functions return kInterrupted, now and until resume().
  void interrupt() noexcept;
  void resume() noexcept;

  [[nodiscard]] ConsumerStats stats() const;
  /// "shm", also after the connection is lost; empty before the first one.
  [[nodiscard]] std::string transport() const;
  [[nodiscard]] const std::string& descriptor() const noexcept;

  /// Leaves the lane. Frames that are still held stay readable; their slots go back when they are released.
  void close() noexcept;

 private:
  explicit Consumer(std::unique_ptr<lane::ConsumerCore> core) noexcept;
  std::unique_ptr<lane::ConsumerCore> core_;
};

}  // namespace framelane
