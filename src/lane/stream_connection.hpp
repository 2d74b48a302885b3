// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/unique_fd.hpp"
#include "lane/clock_probe.hpp"
#include "lane/connection.hpp"
#include "lane/frame_pool.hpp"
#include "ring/spinner.hpp"
#include "transport/byte_stream.hpp"
#include "transport/frame_stream.hpp"
#include "transport/monitor.hpp"

namespace framelane::lane {

/// The consumer's end of a stream, from its HELLO on.
struct StreamEnd {
  StreamEnd(std::unique_ptr<transport::ByteStream> opened, std::uint64_t max_frame_size)
      : stream(std::move(opened)), receiver(*stream, pool, max_frame_size) {}

  std::unique_ptr<transport::ByteStream> stream;
  FramePool pool;
  transport::StreamReceiver receiver;
};

/// A connection over a stream: frames and messages come in order, and are read by whoever takes. Nobody reads ahead,
/// so that the producer sees how fast its consumer is. What has to overtake them comes over a second stream, the
/// signals, which the monitor's thread reads.
///
/// Threads: as Connection.
class StreamConnection final : public Connection {
 public:
  /// What the greeting has left.
  struct Greeted {
    std::unique_ptr<StreamEnd> end;
    std::unique_ptr<StreamEnd> signals;  // of the same consumer
    wire::Welcome welcome;
    measure::ClockFilter clock;  // what the producer said of it
  };
  /// The caller has to drop() it. Errors: kSystem, kProtocol.
  [[nodiscard]] static Result<Connection*> create(Greeted greeted, Transport transport,
                                                  const ConnectionSettings& settings);

  void drop() noexcept override;
  void release(std::uint16_t slot) noexcept override;
  [[nodiscard]] Result<Step> poll(Frame& frame) override;
  [[nodiscard]] bool spin_briefly() noexcept override { return !lost() && readable(); }
  void wait(const std::function<bool()>& stop, std::int64_t deadline_ns) noexcept override;
  void wake() noexcept override;
  void leave() noexcept override;

  [[nodiscard]] Transport transport() const noexcept override { return transport_; }
  [[nodiscard]] std::int64_t clock_error_ns() const override { return clock_ ? clock_->estimate().error_ns : 0; }
  [[nodiscard]] std::uint64_t next_index() const noexcept override { return next_index_; }
  void expect(std::uint64_t index) noexcept override { next_index_ = std::min(next_index_, index); }
  [[nodiscard]] const ring::ConsumerPage& page() const noexcept override { return *page_; }
  [[nodiscard]] std::uint32_t held() const noexcept override { return uses_.load(std::memory_order_relaxed) - 1; }

 private:
  StreamConnection(Greeted greeted, Transport transport, base::UniqueFd wake_fd, const ConnectionSettings& settings);
  ~StreamConnection() override = default;

  [[nodiscard]] Result<void> watch();
  [[nodiscard]] Result<void> watch_death(transport::Monitor& monitor);
  void on_signals();
  [[nodiscard]] bool on_signal(const wire::Message& message);
  [[nodiscard]] Result<bool> send_now(std::span<const std::byte> message) override;
  [[nodiscard]] Result<std::optional<wire::Decoded>> next_message();
  [[nodiscard]] Result<Step> apply(wire::Decoded message, Frame& frame);
  [[nodiscard]] Result<Step> apply_event(wire::EventMessage& message);
  [[nodiscard]] Result<Step> apply_flush_stop(const wire::FlushStop& message);
  [[nodiscard]] Result<Step> take_frame(const wire::FrameMessage& message, Frame& frame);
  [[nodiscard]] Result<std::uint64_t> advance_to(std::uint64_t index_untrusted);
  void translate_times(wire::FrameMessage& message) const noexcept;
  void count(const Frame& frame) noexcept;
  [[nodiscard]] bool readable() const noexcept;

  std::unique_ptr<StreamEnd> end_;
  transport::StreamSender sender_;  // send_mutex_
  Transport transport_;
  base::UniqueFd wake_fd_;
  bool latest_ = false;
  std::uint64_t next_index_ = 0;       // frame expected next
  std::optional<wire::Decoded> next_;  // read ahead, since a frame had to be handed out before it
  ring::Spinner spinner_;
  std::unique_ptr<ring::ConsumerPage> page_;  // of which the statistics are used
  std::atomic<std::uint32_t> uses_{1};        // the Consumer's, and one of each held Frame
  std::unique_ptr<StreamEnd> signals_;        // the monitor's
  std::optional<ClockProbe> clock_;           // empty: the producer's clock is ours
  base::UniqueFd pidfd_;                      // of a producer over UDS
  std::atomic<bool> died_{false};             // it has; what it had sent is still to be read
  transport::Watch death_watch_;
  transport::Watch watch_;  // last: its callback uses all of it
};

}  // namespace framelane::lane
