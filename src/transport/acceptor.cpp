// SPDX-License-Identifier: MIT
#include "transport/acceptor.hpp"

#include <cerrno>
#include <chrono>
#include <utility>

#include <sys/socket.h>

#include "framelane/base/log.hpp"

#include "base/text.hpp"

namespace framelane::transport {
namespace {

constexpr std::chrono::milliseconds kPause{100};  // after accept() failed for want of descriptors or memory
constexpr int kAcceptedAtOnce = 16;               // then others that this thread serves have their turn

}  // namespace

Result<std::unique_ptr<Acceptor>> Acceptor::start(Monitor& monitor, int listener, std::string place,
                                                  Callback callback) {
  std::unique_ptr<Acceptor> acceptor(new Acceptor(monitor, listener, std::move(place), std::move(callback)));
  auto watched = monitor.watch(listener, 0, [raw = acceptor.get()](std::uint32_t) { raw->on_connection(); });
  if (!watched) return tl::unexpected(std::move(watched.error()));
  acceptor->watch_ = std::move(*watched);
  acceptor->watch_.set_events(EPOLLIN);  // only now, since on_connection() uses it
  return acceptor;
}

Acceptor::Acceptor(Monitor& monitor, int listener, std::string place, Callback callback)
    : monitor_(monitor), listener_(listener), place_(std::move(place)), callback_(std::move(callback)) {}

void Acceptor::on_connection() {
  for (int accepted = 0; accepted < kAcceptedAtOnce; ++accepted) {
    if (!accept_one()) return;
  }
}

/// Returns whether to go on.
bool Acceptor::accept_one() {
  base::UniqueFd fd(accept4(listener_, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
  if (fd.valid()) {
    paused_ = false;
    callback_(std::move(fd));
    return true;
  }
  if (errno == EINTR || errno == ECONNABORTED) return true;
  if (errno != EAGAIN) pause();
  return false;
}

/// The waiting connection keeps the listener readable; without a pause this would be a loop without a wait.
void Acceptor::pause() {
  if (!std::exchange(paused_, true)) {
    base::log(base::LogLevel::kWarning,
              "cannot accept a connection to " + place_ + ": " + base::system_words(errno) + " (trying until it can)");
  }
  watch_.set_events(0);
  resume_ = monitor_.after(kPause, [this] { watch_.set_events(EPOLLIN); });
}

}  // namespace framelane::transport
