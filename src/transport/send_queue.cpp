// SPDX-License-Identifier: MIT
#include "transport/send_queue.hpp"

#include <algorithm>
#include <limits>
#include <string>
#include <utility>

#include <poll.h>

#include "base/clock.hpp"

namespace framelane::transport {
namespace {

tl::unexpected<Error> lost_earlier() { return fail(Code::kPeerLost, "the connection failed earlier"); }

}  // namespace

SendQueue::SendQueue(std::function<void(bool)> want_writable) : want_writable_(std::move(want_writable)) {}

Result<void> SendQueue::push(OutgoingPtr message) {
  const std::lock_guard lock(mutex_);
  if (lost_) return lost_earlier();
  const bool fits = messages_.size() < kMaxMessages && bytes_ + message->cost <= kMaxBytes;
  if (!fits && !messages_.empty()) {
    return fail(Code::kFull, "the peer does not read its control messages: " + std::to_string(messages_.size()) +
                                 " of them (" + std::to_string(bytes_) + " bytes) wait");
  }
  bytes_ += message->cost;
  messages_.push_back(std::move(message));
  return {};
}

Result<FlushState> SendQueue::flush(ControlSocket& socket) {
  const std::lock_guard lock(mutex_);
  return flush_locked(socket);
}

Result<FlushState> SendQueue::flush_locked(ControlSocket& socket) {
  if (lost_) return lost_earlier();
  while (!messages_.empty()) {
    const auto outcome = socket.send(*messages_.front());
    if (!outcome) {
      lost_ = true;
      messages_.clear();
      bytes_ = 0;
      set_blocked(false);
      return tl::unexpected(outcome.error());
    }
    if (*outcome == SendOutcome::kWouldBlock) {
      set_blocked(true);
      return FlushState::kBlocked;
    }
    bytes_ -= messages_.front()->cost;
    messages_.pop_front();
  }
  set_blocked(false);
  return FlushState::kEmpty;
}

void SendQueue::set_blocked(bool blocked) {
  if (std::exchange(blocked_, blocked) != blocked && want_writable_) want_writable_(blocked);
}

Result<void> SendQueue::drain(ControlSocket& socket, std::int64_t deadline_ns) {
  while (true) {
    const auto state = flush(socket);
    if (!state) return tl::unexpected(state.error());
    if (*state == FlushState::kEmpty) return {};
    const std::int64_t left = deadline_ns - base::monotonic_ns();
    if (left <= 0) return fail(Code::kTimeout, "the peer did not read its control messages in time");
    pollfd wanted{socket.fd(), POLLOUT, 0};
    poll(&wanted, 1, static_cast<int>(std::min<std::int64_t>(left / 1'000'000 + 1, std::numeric_limits<int>::max())));
  }
}

std::size_t SendQueue::size() const {
  const std::lock_guard lock(mutex_);
  return messages_.size();
}

}  // namespace framelane::transport
