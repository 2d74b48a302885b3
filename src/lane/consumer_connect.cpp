// SPDX-License-Identifier: MIT
// The connections of a Consumer: what a new one changes, and the end of one.
#include <utility>

#include "framelane/base/log.hpp"

#include "lane/consumer_core.hpp"
#include "lane/consumer_totals.hpp"

namespace framelane::lane {

Result<void> ConsumerCore::connect_here(std::int64_t deadline_ns) {
  while (connection_ == nullptr) {
    if (interrupted()) return fail(Code::kInterrupted);
    auto moved = connect_step(deadline_ns);
    if (!moved) return tl::unexpected(moved.error());
    if (!*moved) return fail(Code::kTimeout, "no producer of " + descriptor_ + " yet");
  }
  return {};
}

Result<bool> ConsumerCore::connect_step(std::int64_t until_ns) {
  if (final_) return tl::unexpected(*final_);
  {
    const std::lock_guard lock(mutex_);
    negotiation_.on_flush(flush_callback_);
  }
  const auto progress = negotiation_.step(until_ns, totals_->connections == 0);
  if (!progress) return tl::unexpected(progress.error());
  if (*progress == Negotiation::Progress::kFound) adopt(negotiation_.take_found());
  return *progress != Negotiation::Progress::kLate;
}

void ConsumerCore::adopt(Negotiation::Found found) {
  Connection* const connection = found.connection;
  // The next producer may say none. Not from the pump's thread: the taking thread may be reading them.
  forget_caps_ = pump_ != nullptr;
  if (!forget_caps_) forget_caps();
  ended_ = false;  // another producer's stream is another one, and waited for
  if (flush_told_) connection->events().emplace_front().event.type = format::EventType::kFlushStop;
  const std::string words = std::string(to_string(connection->transport())) + " (" + found.reason + ")";
  {
    const std::lock_guard lock(mutex_);
    // The same lane goes on: what it published while nobody here was connected is lost, and counted.
    if (totals_->connections != 0 && producer_id_ == connection->instance_id()) connection->expect(due_index_);
    set_connection(connection);
    producer_id_ = connection->instance_id();
    transport_ = connection->transport();
    transport_reason_ = std::move(found.reason);
    ++totals_->connections;
  }
  tell_connection(true);
  base::log(base::LogLevel::kInfo, "connected to " + descriptor_ + " by " + words);
}

void ConsumerCore::set_connection(Connection* connection) noexcept {
  connection_ = connection;
  shm_ = connection->transport() == Transport::kShm ? static_cast<ShmConnection*>(connection) : nullptr;
}

// --- the end of one

Result<bool> ConsumerCore::connection_over(std::optional<Error> why) {
  if (!why) why = connection_->fault();
  Connection* const over = detach_connection();
  if (why && negotiation_.goes_on_without_memory(over, *why)) return true;
  let_go(over);
  if (ended_ && !why) return true;
  if (!settings_.reconnect) {
    final_ = why ? *why : Error{Code::kPeerLost, "the producer of " + descriptor_ + " left without an end of stream"};
    return tl::unexpected(*final_);
  }
  base::log(base::LogLevel::kInfo, "lost the producer of " + descriptor_ + "; waiting for it to come back");
  if (why) return tl::unexpected(*why);
  return true;
}

void ConsumerCore::drop_connection() noexcept {
  if (connection_ != nullptr) let_go(detach_connection());
}

Connection* ConsumerCore::detach_connection() noexcept {
  stash_.release();
  Connection* detached = nullptr;
  {
    const std::lock_guard lock(mutex_);
    detached = std::exchange(connection_, nullptr);
    totals_->add(*detached);
    shm_ = nullptr;
    due_index_ = detached->next_index();
  }
  tell_connection(false);
  return detached;
}

void ConsumerCore::tell_connection(bool connected) const {
  Consumer::ConnectionCallback callback;
  {
    const std::lock_guard lock(mutex_);
    callback = connection_callback_;
  }
  if (callback) callback(connected);
}

}  // namespace framelane::lane
