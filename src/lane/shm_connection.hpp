// SPDX-License-Identifier: MIT
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "lane/connection.hpp"
#include "transport/control_socket.hpp"
#include "transport/monitor.hpp"

namespace framelane::lane {

/// A connection through shared memory: the producer's ring, its segments, its control socket.
///
/// Threads: as Connection; the monitor's thread fills the inbox.
class ShmConnection final : public Connection, private ring::ControlIn {
 public:
  /// Takes over what the WELCOME brought. The caller has to drop() it. Errors: kProtocol, kNoMemory, kSystem,
  /// kUnsupported (descriptors that didn't come with it).
  [[nodiscard]] static Result<Connection*> create(transport::ControlSocket socket, wire::Welcome welcome,
                                                  std::vector<base::UniqueFd> fds, const ConnectionSettings& settings);

  void drop() noexcept override;
  void release(std::uint16_t slot) noexcept override {
    if (reader_->release(slot)) delete this;
  }
  [[nodiscard]] Result<Step> poll(Frame& frame) override;
  [[nodiscard]] bool spin_briefly() noexcept override { return !awaits_message_ && reader_->spin_briefly(); }
  /// True when poll() may find something.
  [[nodiscard]] bool ready() const noexcept { return reader_->ready(); }
  void wait(const std::function<bool()>& stop, std::int64_t deadline_ns) noexcept override;
  void wake() noexcept override;
  [[nodiscard]] bool awaits_message() const noexcept override { return awaits_message_; }
  void leave() noexcept override;

  [[nodiscard]] Transport transport() const noexcept override { return Transport::kShm; }
  [[nodiscard]] std::uint64_t next_index() const noexcept override { return reader_->next_index(); }
  [[nodiscard]] std::uint64_t cursor() const noexcept override { return reader_->cursor(); }
  void expect(std::uint64_t index) noexcept override { reader_->expect(index); }
  [[nodiscard]] const ring::ConsumerPage& page() const noexcept override { return reader_->page(); }
  [[nodiscard]] std::uint32_t held() const noexcept override { return reader_->held(); }

 private:
  struct Inbound {
    std::uint64_t number = 0;
    wire::Message message;
    std::vector<base::UniqueFd> fds;
    std::size_t bytes = 0;
  };

  ShmConnection(transport::ControlSocket socket, wire::Welcome welcome, std::unique_ptr<ring::Reader> reader,
                const ConnectionSettings& settings);
  ~ShmConnection() override = default;

  [[nodiscard]] Result<bool> send_now(std::span<const std::byte> message) override;
  // ring::ControlIn
  [[nodiscard]] Result<std::uint64_t> apply_up_to(std::uint16_t ctl) override;

  [[nodiscard]] Result<void> watch();
  void on_socket();
  void on_message(transport::Received received);
  [[nodiscard]] Result<Inbound> next_message();
  void wait_for_message(std::int64_t deadline_ns) noexcept;
  [[nodiscard]] bool inbox_is_full() const noexcept;
  [[nodiscard]] Result<void> apply(Inbound& message);
  [[nodiscard]] Result<void> apply_event(std::uint64_t number, wire::EventMessage& message);
  [[nodiscard]] Result<void> apply_flush_stop(std::uint64_t number, const wire::FlushStop& message);
  [[nodiscard]] Result<void> apply_segment(const wire::AddSegment& message, std::vector<base::UniqueFd>& fds);
  [[nodiscard]] bool make_frame(ring::Taken& taken, Frame& frame);
  [[nodiscard]] static bool copy_payload(ring::Taken& taken) noexcept;

  transport::ControlSocket socket_;
  std::uint64_t max_frame_size_ = 0;
  std::unique_ptr<ring::Reader> reader_;
  std::uint64_t applied_ = 0;       // number of the last message that was applied
  bool awaits_message_ = false;     // the last poll() found an entry whose control message is still on its way
  std::uint32_t inbox_seen_ = 0;    // inbox_word_ when that message was looked for
  std::int64_t missing_since_ = 0;  // since when it is looked for; 0 = it isn't
  std::atomic<std::uint32_t> inbox_word_{0};  // futex: changes when something arrives or ends
  std::mutex inbox_mutex_;
  std::deque<Inbound> inbox_;
  std::size_t inbox_bytes_ = 0;
  bool inbox_full_ = false;
  bool died_ = false;  // the monitor's: the process is gone, though its socket may be open in a child of it

  // Last, so that the monitor's callbacks end before anything that they use.
  base::UniqueFd pidfd_;
  transport::Watch socket_watch_;
  transport::Watch death_watch_;
};

}  // namespace framelane::lane
