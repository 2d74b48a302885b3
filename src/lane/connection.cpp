// SPDX-License-Identifier: MIT
#include "lane/connection.hpp"

#include <utility>

#include "framelane/base/log.hpp"

#include "base/clock.hpp"
#include "base/host.hpp"
#include "transport/monitor.hpp"

namespace framelane::lane {

tl::unexpected<Error> broken_lane(std::string what) {
  return fail(Code::kProtocol, "the producer broke the lane's protocol: " + what);
}

void let_go(Connection* connection) noexcept {
  if (connection->held() != 0) connection->leave();
  connection->drop();
}

void set_clock(wire::Welcome& welcome) noexcept {
  welcome.boot_id = base::boot_id();
  welcome.time_namespace = base::time_namespace();
  welcome.clock_ns = static_cast<std::uint64_t>(base::monotonic_ns());
}

bool shares_time_namespace(const wire::Welcome& welcome) noexcept {
  const std::uint64_t ours = base::time_namespace();
  return ours == welcome.time_namespace || ours == 0 || welcome.time_namespace == 0;
}

bool shares_clock(const wire::Welcome& welcome) noexcept {
  const std::array<std::uint8_t, 16> unknown{};
  return welcome.boot_id == base::boot_id() && welcome.boot_id != unknown && shares_time_namespace(welcome);
}

Connection::Connection(wire::Welcome welcome, const ConnectionSettings& settings)
    : on_flush_(settings.on_flush),
      on_demoted_(settings.on_demoted),
      gating_(welcome.gating),
      welcome_(std::move(welcome)) {
  for (format::Event& event : welcome_.sticky) events_.push_back({std::move(event), welcome_.start});
  welcome_.sticky.clear();
}

std::optional<Error> Connection::fault() const {
  const std::lock_guard lock(fault_mutex_);
  return fault_;
}

Result<void> Connection::send(const format::Request& request) {
  const auto bytes = wire::encode(wire::RequestMessage{request}, 0);
  const std::lock_guard lock(send_mutex_);
  if (!send_limit_.take(base::monotonic_ns())) {
    return fail(Code::kFull, "more than " + std::to_string(kRequestsPerSecond) + " requests a second; send fewer");
  }
  // The socket's buffer is the queue. Nothing waits here: a producer that doesn't read must not hold up its consumers.
  const auto sent = send_now(bytes);
  if (!sent) return tl::unexpected(sent.error());
  if (!*sent) return fail(Code::kFull, "the producer doesn't read its requests");
  return {};
}

// --- flushes

void Connection::begin_flush() noexcept {
  flushes_begun_.fetch_add(1, std::memory_order_seq_cst);
  wake();
  tell_flush();
}

void Connection::begin_flushes(std::uint32_t count) noexcept {
  std::uint32_t begun = flushes_begun_.load(std::memory_order_relaxed);
  while (begun < count && !flushes_begun_.compare_exchange_weak(begun, count, std::memory_order_seq_cst)) {
  }
}

Result<void> Connection::end_flushes(std::uint64_t index, std::uint32_t count) {
  const std::uint32_t begun = flushes_begun_.load(std::memory_order_acquire);
  if (count <= flushes_ended_ || count > begun) return broken_lane("FLUSH_STOP without FLUSH_START");
  flushes_ended_ = count;
  drop_passing_events();
  Pending& stop = events_.emplace_front();
  stop.event.type = format::EventType::kFlushStop;
  stop.index = index;
  return {};
}

void Connection::stop_telling() noexcept {
  if (!on_flush_ && !on_demoted_) return;
  if (const auto monitor = transport::Monitor::instance()) {
    (*monitor)->call([this] {
      on_flush_ = nullptr;
      on_demoted_ = nullptr;
    });
  }
}

void Connection::drop_passing_events() {
  std::erase_if(events_, [](const Pending& waiting) { return !format::is_sticky(waiting.event.type); });
}

// --- how it stands

void Connection::set_demoted(bool demoted) noexcept {
  demoted_.store(demoted, std::memory_order_relaxed);
  base::log(base::LogLevel::kInfo, demoted ? "too slow: the producer doesn't wait for this consumer any more"
                                           : "caught up: the producer waits for this consumer again");
  if (on_demoted_) on_demoted_(demoted);
}

void Connection::set_lost(std::optional<Error> why) noexcept {
  {
    const std::lock_guard lock(fault_mutex_);
    if (why && !fault_) fault_ = std::move(why);
  }
  lost_.store(true, std::memory_order_seq_cst);
  wake();
}

}  // namespace framelane::lane
