// SPDX-License-Identifier: MIT
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <functional>
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

/// A frame, or an event that stands before the next frame. kFlushStart comes ahead of all that isn't taken yet, which
/// is dropped; what follows the kFlushStop after it counts again.
using Item = std::variant<Frame, format::Event>;

/// Receiving end of a lane. It connects in the first take, and again when the producer comes back, so either side may
/// start first.
///
/// Threads:   connect() and the take functions from one thread at a time; interrupt(), resume(), send_upstream(),
///            flushing(), producer_id() and stats() from any thread. A Frame may be released on any thread, in any
///            order, also after its Consumer is gone.
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

  /// Waits until a producer is connected; after an end of stream, for the next one if that one has gone.
  /// Errors: those of take().
  [[nodiscard]] Result<void> connect(std::chrono::nanoseconds timeout);

  /// Waits for the next frame and lends it, read-only, until the Frame is destroyed. Events on the way are skipped
  /// (caps() always knows the last).
  /// Errors: kTimeout (nothing came in time), kEndOfStream (an end that was published ends the stream, unless a flush
  /// drops it; again at each call, without waiting, until the producer starts another one or, with reconnect, a new one
  /// is connected), kInterrupted, kNotFound (no such lane within connect_timeout), kPeerLost (the producer left without
  /// an end and reconnect is off), kProtocol (the peer broke the ABI; the text names the field), kRefused, kPermission,
  /// kUnsupported, kNoMemory.
  [[nodiscard]] Result<Frame> take(std::chrono::nanoseconds timeout = kForever) noexcept;
  /// The same, but events are returned, in order. After a reconnection the new producer's stream start, caps and
  /// segment come first. A flush ends the wait at once.
  [[nodiscard]] Result<Item> take_item(std::chrono::nanoseconds timeout = kForever) noexcept;
  /// The next frame if it is there; never waits.
  [[nodiscard]] Result<std::optional<Frame>> try_take() noexcept;

  /// A descriptor for poll, epoll, GLib or asyncio: readable when the next take wouldn't wait (a frame, an event, an
  /// end, an error, an interruption). It isn't to be read nor closed: call try_take() or take_item() without waiting
  /// until nothing is there; that clears it, and now and then that is at once. An end clears it when it was told, until
  /// another stream begins. It is the Consumer's; valid until close(), from when on a duplicate (dup()) stays readable.
  /// From the first call on a thread of this Consumer's own waits, connects and connects again between two takes (and
  /// makes on_connection's calls then), so that a frame costs a system call and the wake of two threads. On the taking
  /// thread. Errors: kSystem, kInvalidArgument (closed).
  [[nodiscard]] Result<int> event_fd();

  /// Caps of the last item taken; empty before the first. Call from the taking thread.
  [[nodiscard]] const std::string& caps() const noexcept;
  /// Text of the last state event format::kLayoutState since these caps: what format::PlaneLayout::parse() reads; not
  /// checked. Empty: the planes of video lie where the caps imply. Call from the taking thread.
  [[nodiscard]] const std::string& plane_layout() const noexcept;

  /// Asks something of the producer, which learns who asked. Never waits; nothing is queued here.
  /// Errors: kNotFound (not connected), kFull (more than 200 a second, or the producer doesn't read them: try later),
  /// kTooLarge (text), kInvalidArgument (a member that can't be), kPeerLost, kSystem.
  [[nodiscard]] Result<void> send_upstream(const format::Request& request);

  /// Called on the taking thread when a producer is connected, and when it is gone and all it published is taken; also
  /// in close(). Must not call this Consumer's take functions.
  using ConnectionCallback = std::function<void(bool connected)>;
  void on_connection(ConnectionCallback callback);
  /// Called on the monitor's thread when a flush begins, for those whose taking thread is busy elsewhere; must not
  /// wait, nor close this Consumer. Not called any more when close() has returned. Set it before the first connection.
  using FlushCallback = std::function<void()>;
  void on_flush(FlushCallback callback);
  /// True from the beginning of a flush until take_item() has returned its kFlushStop.
  [[nodiscard]] bool flushing() const;

  /// Instance id of the producer that is, or was last, connected: random, new for each Producer; 0 before the first.
  [[nodiscard]] std::array<std::uint8_t, 16> producer_id() const;

  /// Makes the take functions return kInterrupted, now and until resume().
  void interrupt() noexcept;
  void resume() noexcept;

  [[nodiscard]] ConsumerStats stats() const;
  /// "shm", "uds" or "tcp", also after the connection is lost; empty before the first one.
  [[nodiscard]] std::string transport() const;
  /// Why that one: what else was tried and why it can't serve, or what spoke for it.
  [[nodiscard]] std::string transport_reason() const;
  [[nodiscard]] const std::string& descriptor() const noexcept;

  /// Leaves the lane. Frames that are still held stay readable; their slots go back when they are released.
  void close() noexcept;

 private:
  explicit Consumer(std::unique_ptr<lane::ConsumerCore> core) noexcept;
  std::unique_ptr<lane::ConsumerCore> core_;
};

}  // namespace framelane
