// SPDX-License-Identifier: MIT
// A Consumer in an event loop: between two takes a thread of its own waits for it.
#include <algorithm>

#include <sys/eventfd.h>

#include "base/clock.hpp"
#include "lane/consumer_core.hpp"
#include "lane/event_pump.hpp"

namespace framelane::lane {

Result<int> ConsumerCore::event_fd() {
  if (pump_ == nullptr) {
    if (final_) return tl::unexpected(*final_);  // later it may be the pump's to write
    auto pump = EventPump::create([this](std::int64_t deadline_ns) { return await_item(deadline_ns); });
    if (!pump) return tl::unexpected(std::move(pump.error()));
    pump_ = std::move(*pump);
  }
  return pump_->fd();
}

void ConsumerCore::stop_pump() noexcept {
  if (pump_ == nullptr) return;
  pump_->stop([this] {
    const std::lock_guard lock(mutex_);
    eventfd_write(interrupt_fd_.get(), 1);  // we are closing: it may stay
    if (connection_ != nullptr) connection_->wake();
  });
  pump_.reset();
}

Result<std::optional<Item>> ConsumerCore::next_in_turn(std::int64_t deadline_ns, bool events) {
  for (;;) {
    if (interrupted()) return fail(Code::kInterrupted);
    if (!pump_->claim(ended_told_ ? 0 : deadline_ns)) {
      if (ended_told_) return fail(Code::kEndOfStream, "end of stream");
      if (deadline_ns == 0) return std::optional<Item>();
      return fail(Code::kTimeout, "no frame in time");
    }
    auto item = next_here(0, events);
    if (item && *item) return item;
    // An end that was told isn't news: only what follows it makes the descriptor readable again.
    ended_told_ = !item && item.error().code == Code::kEndOfStream;
    if (item || ended_told_) pump_->hand_back();
    if (!item || deadline_ns == 0) return item;
  }
}

Result<void> ConsumerCore::connect_in_turn(std::int64_t deadline_ns) {
  static_cast<void>(pump_->claim(base::kForever, true));
  return connect_here(deadline_ns);
}

bool ConsumerCore::await_item(std::int64_t deadline_ns) {
  for (;;) {
    if (pump_->wanted() || interrupted() || ahead_ || stash_ || flush_news()) return true;
    if (connection_ != nullptr && !connection_->events().empty()) return true;
    auto moved = Result<bool>(false);
    if (shm_ != nullptr && !(ended_ && shm_->lost())) {
      // Its frames stay where they are until they are taken, so that the newest is the newest then.
      const bool lost = shm_->lost();
      if (shm_->ready() || lost) return true;
      moved = base::monotonic_ns() < deadline_ns;
      if (*moved) shm_->wait([this] { return pump_->wanted() || interrupted() || flush_news(); }, deadline_ns);
      if (shm_->awaits_message()) return true;
    } else if (connection_ != nullptr) {
      moved = poll_connection(deadline_ns);
    } else if (!ended_ || settings_.reconnect) {
      moved = connect_step(deadline_ns);
    }
    if (!moved && !ended_) {
      ahead_ = std::move(moved.error());
      return true;
    }
    if (moved && *moved) continue;
    // Nobody has to hear that there is no next one.
    if (ended_ && connection_ == nullptr) negotiation_.pause(deadline_ns);
    return false;
  }
}

}  // namespace framelane::lane
