// SPDX-License-Identifier: MIT
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "framelane/lane/consumer.hpp"

#include "base/unique_fd.hpp"
#include "lane/connection.hpp"
#include "lane/negotiation.hpp"
#include "lane/shm_connection.hpp"
#include "measure/histogram.hpp"

namespace framelane::lane {

class EventPump;

/// What a Consumer is made of: connects, takes, connects again.
///
/// Threads: as Consumer.
class ConsumerCore {
 public:
  [[nodiscard]] static Result<std::unique_ptr<ConsumerCore>> create(ConsumerSettings settings);
  /// The same over a connection that stands, and that no other follows. After an end of stream it waits for the next.
  [[nodiscard]] static Result<std::unique_ptr<ConsumerCore>> create(Connection* connection, std::string descriptor);
  ~ConsumerCore();

  [[nodiscard]] Result<void> connect(std::int64_t deadline_ns) {
    return pump_ != nullptr ? connect_in_turn(deadline_ns) : connect_here(deadline_ns);
  }
  /// The next frame, or an event if `events`; empty when `deadline_ns` is 0 and nothing is there.
  [[nodiscard]] Result<std::optional<Item>> next(std::int64_t deadline_ns, bool events) {
    return pump_ != nullptr ? next_in_turn(deadline_ns, events) : next_here(deadline_ns, events);
  }
  /// The same for frames alone; `frame` holds an empty Frame, and then the next one or the error.
  void take(Result<Frame>& frame, std::chrono::nanoseconds timeout);
  /// The hot path: a frame that is there and that no event stands before.
  [[nodiscard]] Result<bool> take_at_once(Frame& frame);

  /// Readable when next() wouldn't wait. From then on a thread waits between two takes.
  [[nodiscard]] Result<int> event_fd();

  [[nodiscard]] Result<void> send(const format::Request& request);
  void on_connection(Consumer::ConnectionCallback callback);
  void on_flush(Consumer::FlushCallback callback);
  [[nodiscard]] bool flushing() const;
  [[nodiscard]] std::array<std::uint8_t, 16> producer_id() const;

  void interrupt() noexcept;
  void resume() noexcept;
  void close() noexcept;

  [[nodiscard]] const std::string& caps() const noexcept { return caps_; }
  [[nodiscard]] const std::string& plane_layout() const noexcept { return layout_; }
  [[nodiscard]] ConsumerStats stats() const;
  [[nodiscard]] std::string transport() const;
  [[nodiscard]] std::string transport_reason() const;
  [[nodiscard]] const std::string& descriptor() const noexcept { return descriptor_; }
  /// Of the event that next() returned last, kEndOfStream or kFlushStop: number of the first frame behind it.
  [[nodiscard]] std::uint64_t event_index() const noexcept { return event_index_; }
  /// In place of a thread that sleeps in next(), with what ConnectionSettings::lock protects: takes a frame of shared
  /// memory. kNothing: none is there. kMarker: next() must see what is. Never waits.
  [[nodiscard]] Connection::Step take_meanwhile(Frame& frame) noexcept;
  /// A frame that take_meanwhile() gave: next() gives it again.
  void put_back(Frame frame) noexcept { stash_ = std::move(frame); }
  /// The taking thread's. Null: not connected.
  [[nodiscard]] const Connection* connection() const noexcept { return connection_; }

 private:
  struct Totals;  // of connections that are over

  ConsumerCore(ConsumerSettings settings, std::string descriptor, std::vector<Way> ways, base::UniqueFd interrupt_fd);

  // with event_fd()
  [[nodiscard]] Result<std::optional<Item>> next_in_turn(std::int64_t deadline_ns, bool events);
  [[nodiscard]] Result<void> connect_in_turn(std::int64_t deadline_ns);
  [[nodiscard]] bool await_item(std::int64_t deadline_ns);
  void stop_pump() noexcept;

  void note_format(const format::Event& event);
  void forget_caps() noexcept {
    caps_.clear();
    layout_.clear();
  }

  // connect
  [[nodiscard]] Result<void> connect_here(std::int64_t deadline_ns);
  [[nodiscard]] Result<bool> connect_step(std::int64_t until_ns);
  void adopt(Negotiation::Found found);
  void set_connection(Connection* connection) noexcept;

  // take
  [[nodiscard]] Result<std::optional<Item>> next_here(std::int64_t deadline_ns, bool events);
  [[nodiscard]] Result<bool> poll_connection(std::int64_t deadline_ns);
  [[nodiscard]] Result<std::optional<Item>> deliver(bool events);
  [[nodiscard]] Result<bool> after_error(const Error& error);
  [[nodiscard]] Result<bool> connection_over(std::optional<Error> why);
  void drop_connection() noexcept;
  [[nodiscard]] Connection* detach_connection() noexcept;
  void tell_connection(bool connected) const;
  [[nodiscard]] std::string transport_words() const;  // under mutex_
  [[nodiscard]] bool spin_briefly() noexcept;
  [[nodiscard]] bool plain() const noexcept;
  [[nodiscard]] bool wait_for_more(std::int64_t deadline_ns) noexcept;
  /// True when next() has to say that a flush begins or is over.
  [[nodiscard]] bool flush_news() const noexcept;
  [[nodiscard]] std::optional<Item> tell_flush();
  [[nodiscard]] bool interrupted() const noexcept { return interrupted_.load(std::memory_order_seq_cst); }

  ConsumerSettings settings_;
  std::string descriptor_;
  pid_t pid_;                    // of the process that opened it
  base::UniqueFd interrupt_fd_;  // readable while interrupted
  std::atomic<bool> interrupted_{false};

  // The taking thread's.
  Connection* connection_ = nullptr;  // changed under mutex_ too
  ShmConnection* shm_ = nullptr;      // the same, where it is one: calls that the compiler sees through
  Negotiation negotiation_;
  Frame stash_;  // taken, but events stand before it
  std::string caps_;
  std::string layout_;  // of planes, since these caps
  bool ended_ = false;
  bool goes_on_after_end_ = false;
  std::uint64_t event_index_ = 0;  // Pending::index of the last event
  bool flush_told_ = false;        // the caller knows of a flush that isn't over
  std::optional<Error> final_;     // closed, or lost for good
  std::optional<Error> ahead_;     // what connecting failed with while the pump waited: next() says it
  bool forget_caps_ = false;       // a new producer is connected: next() forgets the old one's
  bool ended_told_ = false;        // the caller was told of an end, and nothing came since
  std::unique_ptr<EventPump> pump_;

  mutable std::mutex mutex_;  // connection_ for other threads, and the totals
  std::unique_ptr<Totals> totals_;
  std::array<std::uint8_t, 16> producer_id_{};  // of the last one
  std::uint64_t due_index_ = 0;                 // the frame that it owed us when its connection ended
  Transport transport_ = Transport::kAuto;      // of the last connection; kAuto: there was none
  std::string transport_reason_;
  Consumer::ConnectionCallback connection_callback_;
  Consumer::FlushCallback flush_callback_;
};

}  // namespace framelane::lane
