// SPDX-License-Identifier: MIT
// How a Client finds its server, and how it notices that it has gone.
#include <algorithm>
#include <cstring>

#include "framelane/base/log.hpp"

#include "base/clock.hpp"
#include "lane/client_core.hpp"

namespace framelane::lane {

Result<void> ClientCore::connect(std::int64_t deadline_ns) {
  Wakes wakes;
  Lock lock(mutex_);
  if (auto stop = stopped(); !stop) return stop;
  if (ready()) return {};
  Slot* const slot = allocate(State::kConnecting, deadline_ns);
  if (slot == nullptr) return fail(Code::kFull, "all calls wait for their answers or for the connection already");
  auto connected = connect(lock, *slot, deadline_ns, wakes);
  free(*slot);
  return connected;
}

Result<void> ClientCore::connect(Lock& lock, Slot& slot, std::int64_t deadline_ns, Wakes& wakes) {
  const std::int64_t own = base::deadline_after(connect_timeout_);
  const std::int64_t until = std::min(deadline_ns, own);
  while (!ready()) {
    if (auto stop = stopped(); !stop) return stop;
    if (until != base::kForever && base::monotonic_ns() >= until) break;
    if (reading_) {
      sleep(lock, slot, until);
      continue;
    }
    reading_ = true;
    if (ready_) end_session(lock, {Code::kPeerLost, "it left the lane of requests"}, wakes);
    lock.unlock();
    wakes.flush();
    auto opened = open_session(until);
    lock.lock();
    if (opened) wake_all();  // those who wait for the same
    hand_on(wakes);
    if (!opened && opened.error().code != Code::kTimeout && opened.error().code != Code::kInterrupted) return opened;
  }
  if (ready()) return {};
  if (!reading_) hand_on(wakes);  // it may have been our turn
  const std::string text = "no server of " + pair_.requests + " and " + pair_.responses + " within ";
  if (until == own) return fail(Code::kNotFound, text + "connect-timeout; start it, check the names, or raise that");
  return fail(Code::kTimeout, text + "the time given; start it, or check the names");
}

// With reading_, without mutex_. The server joins our lane when we have joined its, and we need both before the first
// request. That a consumer is there isn't enough: it can be one that died a moment ago.
Result<void> ClientCore::open_session(std::int64_t until_ns) {
  std::uint64_t id = 0;
  {
    const Lock lock(mutex_);
    id = next_id(kHelloIndex);
  }
  std::uint32_t greeted = joins_.load() - 1;
  for (;;) {
    receiver_.unpoke();
    if (auto stop = stopped(); !stop) return stop;
    const std::int64_t now = base::monotonic_ns();
    if (now >= until_ns) return fail(Code::kTimeout);
    if (!receiver_.connected()) {
      const auto left = until_ns == base::kForever ? kForever : std::chrono::nanoseconds(until_ns - now);
      auto connected = receiver_.connect(left);
      if (!connected && connected.error().code == Code::kInterrupted) continue;
      if (!connected) {
        if (connected.error().code != Code::kTimeout) receiver_.drop();
        return connected;
      }
    }
    const std::uint32_t leaves = leaves_.load();
    const std::uint32_t joins = joins_.load();
    if (joins != greeted && producer_.num_consumers() != 0) {
      greeted = joins;
      {
        const Lock lock(mutex_);
        session_leaves_ = leaves;
      }
      if (auto said = say_hello(id); !said) return said;
    }
    auto welcome = await_welcome(id, until_ns);
    if (!welcome) return tl::unexpected(welcome.error());
    if (*welcome) return {};
  }
}

Result<void> ClientCore::say_hello(std::uint64_t id) {
  auto loan = producer_.loan(sizeof(Terms) + kTrailerBytes);
  if (!loan) return tl::unexpected(loan.error());
  const Terms terms{pair_.burst, static_cast<std::uint32_t>(pair_.max_request_size),
                    static_cast<std::uint32_t>(pair_.max_response_size), 0};
  std::memcpy(loan->data(), &terms, sizeof terms);
  write_trailer(loan->data() + sizeof terms, FrameKind::kHello, id, kRpcVersion);
  return publish(*loan, sizeof terms + kTrailerBytes);
}

// The next frame. True: the server has agreed. False: look at everything again.
Result<bool> ClientCore::await_welcome(std::uint64_t id, std::int64_t until_ns) {
  const auto left = until_ns == base::kForever
                        ? kForever
                        : std::chrono::nanoseconds(std::max<std::int64_t>(until_ns - base::monotonic_ns(), 0));
  const auto frame = receiver_.take(left);
  if (!frame) {
    const Code code = frame.error().code;
    if (code == Code::kTimeout || code == Code::kInterrupted) return false;
    receiver_.drop();
    if (code == Code::kPeerLost || code == Code::kEndOfStream) return false;  // another one may come
    return tl::unexpected(frame.error());
  }
  const auto trailer_untrusted = read_trailer(frame->bytes());
  if (!trailer_untrusted || trailer_untrusted->id() != id) return false;
  if (trailer_untrusted->kind() == FrameKind::kError) {
    return fail(Code::kRefused,
                std::string(reinterpret_cast<const char*>(frame->data()), frame->size() - kTrailerBytes));
  }
  if (trailer_untrusted->kind() != FrameKind::kWelcome) return false;
  const Lock lock(mutex_);
  ready_ = true;
  same_clock_ = receiver_.on_this_host();
  ++stats_.sessions;
  return true;
}

// With reading_ and mutex_, which is released for a while. Answers that the server published before it left count.
void ClientCore::end_session(Lock& lock, const Error& why, Wakes& wakes) {
  while (receiver_.connected()) {
    auto frame = receiver_.try_take();
    if (frame && *frame) {
      file(**frame, wakes);
    } else if (!frame && frame.error().code == Code::kInterrupted) {
      receiver_.unpoke();
    } else {
      break;
    }
  }
  ready_ = false;
  lost_.text = "the server of " + pair_.requests + " has gone (" + why.text +
               "); whether it carried out the request is unknown; call again to find the next one";
  base::log(base::LogLevel::kInfo, "lost the server of " + pair_.requests + ": " + why.text);
  for (std::uint32_t i = 0; i < pair_.burst; ++i) {
    Slot& slot = slots_[i];
    if (slot.state == State::kWaiting) slot.state = State::kLost;
    if (slot.state == State::kGivenUp) free(slot);
  }
  wake_all();
  lock.unlock();
  receiver_.drop();
  lock.lock();
}

}  // namespace framelane::lane
