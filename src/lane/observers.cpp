// SPDX-License-Identifier: MIT
#include "lane/observers.hpp"

#include <algorithm>
#include <utility>

#include <sys/epoll.h>

#include "framelane/base/log.hpp"

#include "base/clock.hpp"
#include "transport/control_server.hpp"

namespace framelane::lane {

Observers::Observers(transport::Monitor& monitor, std::string lane, std::function<wire::Stats()> copy)
    : monitor_(monitor), lane_(std::move(lane)), copy_(std::move(copy)) {}

void Observers::add(transport::ControlSocket&& socket, const PeerInfo& who) {
  const std::int64_t now = base::monotonic_ns();
  if (!make_room(now)) {
    transport::reject(socket, wire::RejectCode::kTooMany,
                      std::to_string(kMost) + " observers watch this lane already; end one of them");
    return;
  }
  const std::uint64_t id = next_id_++;
  auto observer = std::make_unique<Observer>(std::move(socket), who.name + ", pid " + std::to_string(who.pid), now);
  auto watch =
      monitor_.watch(observer->socket.fd(), EPOLLIN | EPOLLRDHUP, [this, id](std::uint32_t) { on_messages(id); });
  if (!watch) {
    transport::reject(observer->socket, wire::RejectCode::kNoResources, watch.error().text);
    return;
  }
  observer->watch = std::move(*watch);
  observers_.emplace(id, std::move(observer));
}

/// Connections that nobody uses must not keep others out.
bool Observers::make_room(std::int64_t now) {
  if (observers_.size() < kMost) return true;
  const auto oldest = std::min_element(observers_.begin(), observers_.end(), [](const auto& a, const auto& b) {
    return a.second->asked_ns < b.second->asked_ns;
  });
  if (now - oldest->second->asked_ns < kIdleNs) return false;
  observers_.erase(oldest);
  return true;
}

void Observers::on_messages(std::uint64_t id) {
  const auto found = observers_.find(id);
  if (found == observers_.end()) return;
  Observer& observer = *found->second;
  // A hang-up is told only once, so all that is there is read: the rate's limit ends the loop.
  for (;;) {
    auto received = observer.socket.receive();
    if (received && !*received) return;
    auto done = received ? answer(observer, **received) : tl::unexpected(std::move(received.error()));
    if (done) continue;
    if (done.error().code != Code::kPeerLost) {
      base::log(base::LogLevel::kInfo,
                "an observer of " + lane_ + " (" + observer.who + ") was dropped: " + done.error().text);
    }
    observers_.erase(found);
    return;
  }
}

Result<void> Observers::answer(Observer& observer, const transport::Received& received) {
  const std::int64_t now = base::monotonic_ns();
  if (!observer.requests.take(now)) {
    std::string sentence = "you ask for statistics more than " + std::to_string(kStatsPerSecond) + " times a second";
    transport::reject(observer.socket, wire::RejectCode::kTooMany, sentence);
    return fail(Code::kProtocol, std::move(sentence));
  }
  const auto request = wire::decode(received.bytes);
  if (!request) return tl::unexpected(request.error());
  if (std::holds_alternative<wire::Leave>(request->message)) return fail(Code::kPeerLost);
  if (!std::holds_alternative<wire::StatsRequest>(request->message))
    return fail(Code::kProtocol, "it sent a message that observers don't send");
  observer.asked_ns = now;
  auto told = stats(now);
  if (!told) return tl::unexpected(std::move(told.error()));
  auto sent = observer.socket.send(**told);
  if (!sent) return tl::unexpected(std::move(sent.error()));
  if (*sent == transport::SendOutcome::kWouldBlock) return fail(Code::kFull, "it doesn't read its answers");
  return {};
}

Result<transport::OutgoingPtr> Observers::stats(std::int64_t now) {
  if (last_ != nullptr && now - last_ns_ < kFreshNs) return last_;
  auto made = transport::make_outgoing(wire::encode(copy_(), 0));
  if (!made) return made;
  last_ns_ = now;
  last_ = *made;
  return made;
}

}  // namespace framelane::lane
