// SPDX-License-Identifier: MIT
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "framelane/lane/producer.hpp"

#include "lane/observers.hpp"
#include "lane/rate_limit.hpp"
#include "lane/request_queue.hpp"
#include "lane/stream_server.hpp"
#include "lane/ways.hpp"
#include "ring/writer.hpp"
#include "transport/control_server.hpp"
#include "transport/monitor.hpp"
#include "transport/send_queue.hpp"
#include "wire/control_message.hpp"

namespace framelane::lane {

/// What a Producer is made of: the ring's Writer, the control server, and a connection for each consumer.
///
/// Threads: as Producer; consumers come and go on the monitor's thread. Locks, in this order: flush_mutex_,
///          loans_mutex_, the Writer's mutex, peers_mutex_.
class ProducerCore final : public ring::ControlOut,
                           public transport::HelloHandler,
                           public std::enable_shared_from_this<ProducerCore> {
 public:
  [[nodiscard]] static Result<std::shared_ptr<ProducerCore>> create(ProducerSettings settings);
  ~ProducerCore() override;

  [[nodiscard]] Result<void> reserve(std::size_t slot_size) { return writer_->reserve(slot_size); }
  [[nodiscard]] Result<Loan> loan(std::size_t size);
  [[nodiscard]] Result<std::optional<Loan>> try_loan(std::size_t size);
  void discard(std::uint16_t slot) noexcept;
  /// The Producer is gone: closes, and lives on only as long as Loans have its slots.
  static void abandon(std::shared_ptr<ProducerCore> core) noexcept;
  /// What goes with a payload, and how it goes.
  struct Manner {
    const format::FrameInfo& info;
    std::span<const std::byte> side_data;
    Wake wake;
    bool keep;
  };
  [[nodiscard]] Result<Published> publish(Loan& loan, std::size_t size, const Manner& manner);
  [[nodiscard]] Result<Published> publish_copy(std::span<const std::byte> bytes, const Manner& manner);
  void reclaimed(std::vector<std::uint16_t>& slots) { writer_->reclaimed(slots); }
  void wake_consumers() noexcept { writer_->wake_consumers(); }

  [[nodiscard]] Result<void> send(const format::Event& event);
  void flush_start() noexcept;
  [[nodiscard]] Result<void> flush_stop();
  [[nodiscard]] std::vector<ConsumerRequest> take_requests();
  void on_request(Producer::RequestCallback callback);
  [[nodiscard]] Result<void> wait_for_consumers(std::uint32_t count, std::int64_t deadline_ns);
  [[nodiscard]] Result<void> drain(std::int64_t deadline_ns) { return writer_->drain(deadline_ns); }
  void set_leaky(Leaky leaky) noexcept;
  [[nodiscard]] std::uint32_t num_consumers() const noexcept { return num_consumers_.load(std::memory_order_acquire); }
  void interrupt() noexcept;
  void resume() noexcept;
  [[nodiscard]] ProducerStats stats() const;
  [[nodiscard]] const std::string& descriptor() const noexcept { return descriptor_; }
  void on_consumer(Producer::ConsumerCallback callback);
  void close() noexcept;

  // ring::ControlOut, under the Writer's mutex
  void add_segment(std::uint64_t number, std::uint64_t seq, const ring::SegmentSpec& spec, int fd) override;
  void retire_segment(std::uint64_t number, std::uint64_t seq, std::uint32_t segment_id) override;
  void demoted(ring::ConsumerId id, bool demoted) override;
  void broke_protocol(ring::ConsumerId id, std::string_view field) override;

  // transport::HelloHandler, on the monitor's thread
  void on_hello(transport::ControlSocket&& socket, const wire::Hello& hello,
                const transport::PeerCredentials& peer) override;

 private:
  /// A connected consumer.
  struct Peer {
    explicit Peer(transport::ControlSocket taken)
        : socket(std::move(taken)), queue([this](bool writable) { want_writable(writable); }) {}
    void want_writable(bool writable) noexcept;
    void set_who(const PeerInfo& who);

    ring::ConsumerId id = 0;
    std::shared_ptr<const ring::ConsumerLink> link;  // what the ring knows of it; null until it is admitted
    transport::ControlSocket socket;
    transport::SendQueue queue;
    ConsumerInfo info;
    bool demoted = false;            // stands still; guarded by peers_mutex_
    std::atomic<bool> going{false};  // its removal is under way; set under peers_mutex_
    bool left = false;               // it takes no more, but holds frames; guarded by peers_mutex_
    bool announced = false;          // the application was told of it; the monitor's thread
    RateLimit messages{kMessagesInAFlood, kFloodPerSecond};  // the monitor's thread
    std::shared_ptr<ring::StandIn> stand_in;                 // of a relay
    RequestQueue requests;                                   // guarded by peers_mutex_
    base::UniqueFd pidfd;
    transport::Watch socket_watch;
    transport::Watch death_watch;
  };
  using PeerPtr = std::shared_ptr<Peer>;
  struct Logged {
    std::uint64_t number;
    std::uint64_t seq;
    transport::OutgoingPtr message;
  };
  using StickyKey = std::pair<format::EventType, std::uint32_t>;

  ProducerCore(ProducerSettings settings, Place place);
  [[nodiscard]] Result<void> open_place();
  [[nodiscard]] Result<void> check_security() const;

  // frames
  [[nodiscard]] Result<ring::SlotRef> slot_for(std::size_t size);
  void fill(Loan& loan, const ring::SlotRef& slot);
  [[nodiscard]] Result<void> check_publish(const Loan& loan, std::size_t size, const Manner& manner) const;
  [[nodiscard]] Result<void> move_to_slot(Loan& loan, std::size_t size, Wake wake);
  [[nodiscard]] tl::unexpected<Error> no_stream() const;
  [[nodiscard]] Result<void> apply_burst_time(const std::string& caps);
  void stop_waits(ring::Writer::Stop why) noexcept;
  void begin_flush() noexcept;  // under flush_mutex_

  // control messages; under the Writer's mutex
  void post(std::uint64_t number, std::uint64_t seq, wire::Message message, bool logged,
            std::vector<transport::SharedFd> fds = {});
  void queue_to(Peer& peer, transport::OutgoingPtr message);  // under peers_mutex_
  void remember(const format::Event& event);

  // consumers; on the monitor's thread
  [[nodiscard]] Admission admission_of(const PeerInfo& peer) const;
  void on_stream_hello(transport::ControlSocket&& socket, const RelayHost::Joining& wish);
  void take_in(const PeerPtr& peer, const wire::Hello& hello);
  [[nodiscard]] Result<void> admit(const PeerPtr& peer, const wire::Hello& hello);
  [[nodiscard]] Result<void> watch(const PeerPtr& peer);
  [[nodiscard]] Result<transport::OutgoingPtr> welcome_for(const wire::Hello& hello, const ring::Writer::Joined& joined,
                                                           Peer& peer);
  void on_peer(const PeerPtr& peer, std::uint32_t events);
  [[nodiscard]] bool on_message(const PeerPtr& peer, transport::Received received);
  enum class Eviction : std::uint8_t {
    kNone,        // it went by itself, and a send saw that first
    kAtOnce,      // it broke the protocol: its hold bits count no more
    kWhenItGoes,  // it is honest but too slow: its Frames stay valid until it closes
  };
  void evict(Peer& peer, Eviction when, std::string reason);
  void let_go(ring::ConsumerId id, const std::string& reason);
  void remove(ring::ConsumerId id, const std::string& reason);
  void on_request_message(const PeerPtr& peer, format::Request request);
  void on_observer(transport::ControlSocket&& socket, const PeerInfo& who);
  [[nodiscard]] wire::Stats observed() const;
  [[nodiscard]] ConsumerInfo info_of(const Peer& peer) const;
  void free_pages();
  void announce(Peer& peer);
  void announce_gone(const Peer& peer, std::string_view reason);
  void consumers_changed() noexcept;

  ProducerSettings settings_;
  Place place_;
  std::string descriptor_;
  std::array<std::uint8_t, 16> instance_id_{};
  pid_t pid_ = 0;               // of the process that opened it
  std::int64_t opened_ns_ = 0;  // CLOCK_MONOTONIC
  transport::Monitor* monitor_ = nullptr;
  std::unique_ptr<ring::Writer> writer_;
  transport::SharedFd ring_fd_;
  enum class Stream : std::uint8_t { kOpen, kEnded, kClosed };
  std::atomic<Stream> stream_{Stream::kOpen};  // the publishing thread's, but for close()
  std::atomic<Leaky> leaky_;
  std::atomic<std::uint32_t> change_word_{0};  // futex: consumers came or went, or interrupt
  std::atomic<std::uint32_t> num_consumers_{0};
  bool closed_ = false;    // guarded by peers_mutex_
  bool flushing_ = false;  // changed under flush_mutex_ and peers_mutex_
  std::atomic<std::uint64_t> evictions_{0};
  std::atomic<std::uint64_t> copied_{0};

  // Guarded by the Writer's mutex.
  std::map<StickyKey, format::Event> sticky_;
  std::deque<Logged> log_;  // messages that a joiner with history still needs
  std::map<std::uint32_t, transport::SharedFd> segment_fds_;

  std::mutex flush_mutex_;              // one flush after the other; before all others
  std::mutex loans_mutex_;              // a discard against the end of the Producer; before all but flush_mutex_
  std::shared_ptr<ProducerCore> self_;  // while only Loans keep it

  mutable std::mutex peers_mutex_;
  std::vector<PeerPtr> peers_;
  std::vector<PeerPtr> watched_;  // the same, the monitor's thread alone: observers need no lock for it
  Producer::ConsumerCallback callback_;
  Producer::RequestCallback request_callback_;
  bool requests_told_ = false;  // and not taken yet

  mutable std::mutex caps_mutex_;  // for a copy of the pointer, so that observers need not the Writer's
  std::shared_ptr<const std::string> caps_;
  transport::Watch pages_timer_;  // the monitor's thread

  // Last: their threads call everything above.
  std::unique_ptr<Observers> observers_;
  std::unique_ptr<StreamServer> streams_;             // null: shared memory alone
  std::unique_ptr<transport::ControlServer> server_;  // null: TCP alone
};

}  // namespace framelane::lane
