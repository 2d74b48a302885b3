// SPDX-License-Identifier: MIT
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "framelane/lane/settings.hpp"

#include "base/unique_fd.hpp"
#include "lane/consumer_core.hpp"
#include "lane/rate_limit.hpp"
#include "ring/consumer_table.hpp"
#include "transport/byte_stream.hpp"
#include "transport/control_socket.hpp"
#include "transport/frame_stream.hpp"
#include "transport/monitor.hpp"
#include "transport/secure_stream.hpp"

namespace framelane::lane {

/// What a relay must know and ask of its producer.
struct RelayHost {
  std::string lane;        // its name
  std::string descriptor;  // for logs
  std::string served;      // descriptor of all its places
  std::array<std::uint8_t, 16> instance_id{};
  std::uint32_t max_held = 0;
  std::chrono::nanoseconds handshake_timeout{};
  /// Any thread.
  std::function<Admission(const PeerInfo&)> admission;
  /// Makes the other end of `socket` a consumer of the ring, or rejects it. The monitor's thread.
  struct Joining {
    const wire::Hello& hello;
    const PeerInfo& peer;
    bool may_gate;
    std::shared_ptr<ring::StandIn> stand_in;
  };
  std::function<void(transport::ControlSocket socket, const Joining& joining)> join;
  /// Keeps a stream of signals until its consumer's frames are asked for, or the handshake's time is over, and sends
  /// `welcome` over it. Any thread.
  std::function<void(std::uint64_t token, std::unique_ptr<transport::ByteStream> signals,
                     const std::vector<std::byte>& welcome)>
      keep_signals;
  /// Null: there are none. Any thread.
  std::function<std::unique_ptr<transport::ByteStream>(std::uint64_t token)> take_signals;
};

/// Serves one consumer that came over a stream: a thread that is itself a consumer of the lane's ring, and sends what
/// it takes. So bursts, policies, statistics and deaths are the ring's.
///
/// While its thread sleeps, the publishing thread sends small frames in its place: a system call that doesn't wait
/// costs less than the wake that it replaces.
///
/// Threads: its own takes and sends, or the publishing one, whoever has the Door's mutex; the monitor's reads what the
///          consumer says; end() from any.
class Relay : private transport::FrameReceiver {
 public:
  /// `peer`: what is known of who came.
  Relay(const RelayHost& host, transport::OpenStream opened, PeerInfo peer);
  ~Relay() override;

  /// Once. `over` is called at the end, on the relay's thread, which then only returns. Errors: kSystem (no thread).
  [[nodiscard]] Result<void> start(std::function<void()> over);
  /// Waits for the thread's end.
  void join_thread() noexcept { thread_.join(); }

  /// Cuts the connection. (When the producer ends the lane, the relay ends by itself, when all is sent.)
  void end(std::string reason) noexcept;
  /// It isn't a consumer yet, and may become one.
  [[nodiscard]] bool is_greeting() const noexcept { return greeting_.load(std::memory_order_relaxed); }

 private:
  /// Where the publishing thread comes in. It outlives the Relay.
  class Door;

  [[nodiscard]] Result<void> serve();
  [[nodiscard]] Result<void> await_handshake(std::int64_t deadline_ns);
  [[nodiscard]] Result<wire::Hello> await_hello(std::int64_t deadline_ns);
  [[nodiscard]] std::optional<wire::Reject> refusal(const wire::Hello& hello);
  [[nodiscard]] Result<void> join_ring(const wire::Hello& hello, bool may_gate, std::int64_t deadline_ns);
  [[nodiscard]] Result<void> hand_over_signals(std::uint64_t token);
  [[nodiscard]] Result<void> take_over(Connection* connection);
  [[nodiscard]] Result<void> welcome(const wire::Hello& hello, std::int64_t deadline_ns);
  [[nodiscard]] Result<void> forward();
  [[nodiscard]] Result<void> forward_items();
  [[nodiscard]] bool forward_meanwhile() noexcept;
  [[nodiscard]] bool goes_on_with_rest();
  [[nodiscard]] wire::FrameMessage message_of(const Frame& frame);
  [[nodiscard]] Result<void> send_item(const Item& item);
  [[nodiscard]] Result<void> send_frame(const Frame& frame);
  [[nodiscard]] Result<void> send_event(const format::Event& event);
  [[nodiscard]] Result<void> watch_signals(std::unique_ptr<transport::ByteStream> signals);
  void signal(const wire::Message& message) noexcept;
  [[nodiscard]] tl::unexpected<Error> reject(wire::Reject reject);
  [[nodiscard]] Result<void> await_delivery();
  void await_hang_up(std::int64_t deadline_ns) noexcept;

  // the monitor's thread
  void on_flush();
  void on_demoted(bool demoted);
  void on_signals();
  [[nodiscard]] Result<void> watch();
  [[nodiscard]] Result<void> watch_death(transport::Monitor& monitor);
  void on_stream();
  [[nodiscard]] bool on_message(wire::Decoded message);
  // a consumer sends no frames
  [[nodiscard]] Result<transport::FrameRoom> room_for(const wire::FrameMessage& frame) override;

  const RelayHost& host_;
  std::unique_ptr<transport::ByteStream> stream_;
  transport::SecureStream* secure_;  // stream_, if it has a handshake
  PeerInfo peer_;
  base::UniqueFd stop_fd_;  // readable when it shall end
  transport::StreamSender sender_;
  transport::StreamReceiver receiver_;
  std::shared_ptr<Door> door_;
  std::unique_ptr<ConsumerCore> core_;
  std::size_t tuned_for_ = 0;  // bytes of a frame that the socket's buffers suit
  std::atomic<bool> greeting_{true};
  RateLimit messages_{kMessagesInAFlood, kFloodPerSecond};   // the monitor's
  RateLimit questions_{kMessagesInAFlood, kFloodPerSecond};  // the same
  std::mutex mutex_;
  std::string reason_;                                         // of its end
  std::unique_ptr<transport::ByteStream> signals_;             // null: it has none
  std::uint32_t flushes_begun_ = 0;                            // since it joined
  bool demoted_ = false;                                       // it gates no more
  std::optional<transport::StreamReceiver> signals_receiver_;  // the monitor's
  std::function<void()> over_;
  std::thread thread_;
  base::UniqueFd pidfd_;  // of a consumer over UDS
  transport::Watch death_watch_;
  transport::Watch watch_;  // last: the callbacks use all of it
  transport::Watch signals_watch_;
};

}  // namespace framelane::lane
