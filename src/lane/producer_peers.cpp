// SPDX-License-Identifier: MIT
// Consumers of a Producer: how they join, what they are told, how they leave. What the application hears of them is in
// producer_reports.cpp.
#include <algorithm>
#include <limits>

#include <sys/epoll.h>
#include <unistd.h>

#include "framelane/base/log.hpp"

#include "base/clock.hpp"
#include "base/crash_point.hpp"
#include "base/futex.hpp"
#include "lane/producer_core.hpp"
#include "lane/wire_convert.hpp"

namespace framelane::lane {
namespace {

constexpr int kMessagesAtOnce = 16;

Result<void> push_flush_start(transport::SendQueue& queue) {
  auto message = transport::make_outgoing(wire::encode(wire::FlushStart{}, 0));
  return message ? queue.push(*message) : tl::unexpected(message.error());
}

}  // namespace

// --- messages

void ProducerCore::Peer::set_who(const PeerInfo& who) {
  info.transport = who.transport;
  info.address = who.address;
  info.pid = who.pid;
  info.uid = who.uid;
  info.name = who.name;
}

void ProducerCore::Peer::want_writable(bool writable) noexcept {
  socket_watch.set_events(writable ? EPOLLIN | EPOLLRDHUP | EPOLLOUT : EPOLLIN | EPOLLRDHUP);
}

void ProducerCore::post(std::uint64_t number, std::uint64_t seq, wire::Message message, bool logged,
                        std::vector<transport::SharedFd> fds) {
  auto outgoing = transport::make_outgoing(wire::encode(message, number), std::move(fds));
  const std::lock_guard lock(peers_mutex_);
  if (!outgoing) {
    // Without this message no consumer can go on: each one joins again and gets the state anew.
    for (const auto& peer : peers_)
      evict(*peer, Eviction::kWhenItGoes, "an event could not be sent: " + outgoing.error().text);
    return;
  }
  for (const auto& peer : peers_) queue_to(*peer, *outgoing);
  const std::uint64_t oldest = writer_->oldest();
  while (!log_.empty() && log_.front().seq < oldest) log_.pop_front();
  if (logged) log_.push_back({number, seq, *outgoing});
}

void ProducerCore::queue_to(Peer& peer, transport::OutgoingPtr message) {
  // One that left reads nothing any more; its full queue would end the connection, and its holds with it.
  if (peer.going || peer.left) return;
  auto pushed = peer.queue.push(std::move(message));
  if (!pushed) return evict(peer, Eviction::kWhenItGoes, "it doesn't read its control socket");
  FRAMELANE_CRASH_POINT("message: queued, before it is sent");
  auto flushed = peer.queue.flush(peer.socket);
  FRAMELANE_CRASH_POINT("message: sent");
  if (!flushed) evict(peer, Eviction::kNone, "its connection ended");
}

void ProducerCore::add_segment(std::uint64_t number, std::uint64_t seq, const ring::SegmentSpec& spec, int fd) {
  auto shared = transport::share_fd(fd);
  std::vector<transport::SharedFd> fds;
  if (shared) {
    segment_fds_[spec.id] = *shared;
    fds.push_back(*shared);
  } else {
    base::log(base::LogLevel::kError, "a data segment can't be sent: " + shared.error().text);
  }
  post(number, seq, wire::AddSegment{notice_of(spec)}, false, std::move(fds));
}

void ProducerCore::retire_segment(std::uint64_t number, std::uint64_t seq, std::uint32_t segment_id) {
  segment_fds_.erase(segment_id);
  post(number, seq, wire::RetireSegment{segment_id}, false);
}

void ProducerCore::demoted(ring::ConsumerId id, bool demoted) {
  auto message = transport::make_outgoing(wire::encode(wire::Demoted{demoted}, 0));
  const std::lock_guard lock(peers_mutex_);
  for (const auto& peer : peers_) {
    if (peer->id != id || !message) continue;
    queue_to(*peer, *message);
    peer->demoted = demoted;
    if (demoted) {
      base::log(base::LogLevel::kWarning, "consumer " + std::to_string(id) + " (" + peer->info.name + ", pid " +
                                              std::to_string(peer->info.pid) + ") of " + descriptor_ +
                                              " stands still; not waiting for it until it catches up");
    }
  }
}

void ProducerCore::broke_protocol(ring::ConsumerId id, std::string_view field) {
  const std::lock_guard lock(peers_mutex_);
  for (const auto& peer : peers_) {
    if (peer->id == id)
      evict(*peer, Eviction::kAtOnce, "it broke the lane's protocol: field " + std::string(field) + " of its page");
  }
}

// --- joining

Admission ProducerCore::admission_of(const PeerInfo& peer) const {
  if (settings_.authorize) return settings_.authorize(peer);
  if (peer.transport == Transport::kTcp || peer.uid == geteuid()) return Admission::kGating;
  return peer.uid == 0 ? Admission::kNoGating : Admission::kRefused;
}

void ProducerCore::on_hello(transport::ControlSocket&& socket, const wire::Hello& hello,
                            const transport::PeerCredentials& peer) {
  PeerInfo who;
  who.pid = peer.pid;
  who.uid = peer.uid;
  who.name = hello.name;
  if (hello.role == wire::Role::kObserver) return on_observer(std::move(socket), who);
  if (hello.role != wire::Role::kConsumer) {
    transport::reject(socket, wire::RejectCode::kUnsupported, "signals belong to a stream, and not on this socket");
    return;
  }
  if (!place_.shm) {
    transport::reject(socket, wire::RejectCode::kUnsupported,
                      "this producer shares no memory; its lane is at " + descriptor_);
    return;
  }
  const Admission admission = admission_of(who);
  if (admission == Admission::kRefused) {
    transport::reject(socket, wire::RejectCode::kPermission, "this lane is for its owner and root only");
    return;
  }
  const auto joining = std::make_shared<Peer>(std::move(socket));
  joining->info.gating = admission == Admission::kGating;
  joining->set_who(who);
  take_in(joining, hello);
}

void ProducerCore::on_observer(transport::ControlSocket&& socket, const PeerInfo& who) {
  if (admission_of(who) == Admission::kRefused) {
    transport::reject(socket, wire::RejectCode::kPermission, "this lane is for its owner and root only");
    return;
  }
  observers_->add(std::move(socket), who);
}

void ProducerCore::on_stream_hello(transport::ControlSocket&& socket, const RelayHost::Joining& wish) {
  const auto joining = std::make_shared<Peer>(std::move(socket));
  joining->info.gating = wish.may_gate;
  joining->stand_in = wish.stand_in;
  joining->set_who(wish.peer);
  take_in(joining, wish.hello);
}

void ProducerCore::take_in(const PeerPtr& joining, const wire::Hello& hello) {
  joining->info.latest = hello.mode == wire::Mode::kLatest;
  joining->info.gating = joining->info.gating && hello.gating && !joining->info.latest;
  auto joined = watch(joining);
  if (joined) joined = admit(joining, hello);
  if (joined) return;
  const bool full = joined.error().code == Code::kFull;
  transport::reject(joining->socket,
                    full                                     ? wire::RejectCode::kTooMany
                    : joined.error().code == Code::kTooLarge ? wire::RejectCode::kFrameSize
                                                             : wire::RejectCode::kNoResources,
                    joined.error().text);
  base::log(base::LogLevel::kWarning, "a consumer of " + descriptor_ + " was refused: " + joined.error().text);
}

Result<void> ProducerCore::watch(const PeerPtr& peer) {
  // Callbacks run on this thread, so none comes before the peer is admitted. A Watch lives in its Peer: weak, or it
  // would keep it.
  const std::weak_ptr<Peer> weak = peer;
  auto socket = monitor_->watch(peer->socket.fd(), EPOLLIN | EPOLLRDHUP, [this, weak](std::uint32_t events) {
    if (const PeerPtr alive = weak.lock()) on_peer(alive, events);
  });
  if (!socket) return tl::unexpected(socket.error());
  peer->socket_watch = std::move(*socket);
  if (peer->info.transport != Transport::kShm) return {};  // the socket's other end is a relay of our own
  auto pidfd = peer->socket.peer_pidfd();
  if (!pidfd) return {};  // the hang-up alone has to do
  peer->pidfd = std::move(*pidfd);
  auto death = monitor_->watch(peer->pidfd.get(), EPOLLIN | EPOLLONESHOT, [this, weak](std::uint32_t) {
    if (const PeerPtr alive = weak.lock()) remove(alive->id, "its process ended");
  });
  if (!death) return tl::unexpected(death.error());
  peer->death_watch = std::move(*death);
  return {};
}

Result<void> ProducerCore::admit(const PeerPtr& peer, const wire::Hello& hello) {
  Result<void> queued{};
  const std::uint64_t resume = hello.resume.instance_id == instance_id_ ? hello.resume.entry : 0;
  const ring::JoinWish wish{peer->info.gating, hello.max_held, peer->stand_in, resume};
  auto id = writer_->add_consumer(wish, [&](const ring::Writer::Joined& joined) {
    peer->id = peer->info.id = joined.id;
    peer->link = joined.link;
    auto welcome = welcome_for(hello, joined, *peer);
    if (!welcome) {
      queued = tl::unexpected(welcome.error());
      return;
    }
    queued = peer->queue.push(*welcome);
    for (const Logged& logged : log_) {
      if (logged.number > joined.start_number && queued) queued = peer->queue.push(logged.message);
    }
    const std::lock_guard lock(peers_mutex_);
    if (closed_) queued = fail(Code::kPeerLost, "the producer is closing");
    if (flushing_ && queued) queued = push_flush_start(peer->queue);
    peers_.push_back(peer);
  });
  if (!id) return tl::unexpected(id.error());
  if (!queued) {
    {
      const std::lock_guard lock(peers_mutex_);
      std::erase(peers_, peer);
    }
    writer_->remove_consumer(*id);
    return queued;
  }
  FRAMELANE_CRASH_POINT("WELCOME: before it is sent");
  watched_.push_back(peer);
  auto flushed = peer->queue.flush(peer->socket);
  FRAMELANE_CRASH_POINT("WELCOME: sent, before the consumer is counted");
  num_consumers_.fetch_add(1, std::memory_order_acq_rel);
  consumers_changed();
  announce(*peer);
  if (!flushed) remove(*id, "its connection ended");
  return {};
}

Result<transport::OutgoingPtr> ProducerCore::welcome_for(const wire::Hello& hello, const ring::Writer::Joined& joined,
                                                         Peer& peer) {
  wire::Welcome welcome;
  welcome.abi_version = ring::kAbiVersion;
  welcome.instance_id = instance_id_;
  welcome.consumer_id = joined.id;
  welcome.colour = joined.colour;
  welcome.start = joined.start;
  welcome.last_number = joined.start_number;
  welcome.entry_count = writer_->entry_count();
  welcome.page_size = sizeof(ring::ConsumerPage);
  welcome.max_held = joined.max_held;
  welcome.gating = peer.info.gating;
  welcome.unsealed = settings_.unsealed;
  set_clock(welcome);
  welcome.served = descriptor_;
  auto page = transport::share_fd(joined.page_fd);
  if (!page) return tl::unexpected(page.error());
  std::vector<transport::SharedFd> fds{ring_fd_, *page};
  for (const ring::SlotPool::Segment& segment : *joined.segments) {
    if (!segment.announced) continue;  // its ADD_SEGMENT is still to come
    if (segment.spec.slot_size > ring::slot_size_with_room(hello.max_frame_size)) {
      return fail(Code::kTooLarge, "the lane's slots of " + std::to_string(segment.spec.slot_size) +
                                       " bytes are larger than the consumer's max-frame-size (" +
                                       std::to_string(hello.max_frame_size) + "); raise it");
    }
    const auto shared = segment_fds_.find(segment.spec.id);
    if (shared == segment_fds_.end()) return fail(Code::kNoMemory, "a data segment can't be sent: too many open files");
    welcome.segments.push_back(notice_of(segment.spec));
    fds.push_back(shared->second);
  }
  for (const auto& [key, event] : sticky_) welcome.sticky.push_back(event);
  if (joined.ended) {
    welcome.sticky.emplace_back().type = format::EventType::kEndOfStream;
  }
  return transport::make_outgoing(wire::encode(welcome, 0), std::move(fds));
}

// --- leaving

void ProducerCore::on_peer(const PeerPtr& peer, std::uint32_t events) {
  if ((events & EPOLLOUT) != 0 && !peer->going && !peer->queue.flush(peer->socket)) {
    return remove(peer->id, "its connection ended");
  }
  // A few at a time: one that floods its socket must not keep this thread from the others.
  for (int messages = 0; messages < kMessagesAtOnce; ++messages) {
    auto received = peer->socket.receive();
    if (!received) {
      const bool closed = received.error().code == Code::kPeerLost;
      if (!closed) evictions_.fetch_add(1, std::memory_order_relaxed);
      return remove(peer->id, closed ? "it closed" : received.error().text);
    }
    if (!*received) return;
    if (!on_message(peer, std::move(**received))) return;
  }
  // What is left, after the others had their turn. (Not by the watch: a hang-up is told only once.)
  monitor_->post([weak = weak_from_this(), peer = std::weak_ptr(peer)] {
    const auto core = weak.lock();
    if (const PeerPtr alive = core != nullptr ? peer.lock() : nullptr) core->on_peer(alive, EPOLLIN);
  });
}

bool ProducerCore::on_message(const PeerPtr& peer, transport::Received received) {
  auto decoded = peer->messages.take(base::monotonic_ns())
                     ? wire::decode(received.bytes)
                     : fail(Code::kProtocol, "it floods its control socket with messages");
  if (decoded) {
    if (auto* const request = std::get_if<wire::RequestMessage>(&decoded->message)) {
      on_request_message(peer, std::move(request->request));
      return true;
    }
  }
  if (decoded && std::holds_alternative<wire::Leave>(decoded->message)) {
    {
      const std::lock_guard lock(peers_mutex_);
      peer->left = true;
    }
    FRAMELANE_CRASH_POINT("LEAVE: received, before it is let go");
    writer_->stop_gating(peer->id);
    return true;
  }
  evictions_.fetch_add(1, std::memory_order_relaxed);
  remove(peer->id, decoded ? "it sent a message that consumers don't send" : decoded.error().text);
  return false;
}

void ProducerCore::evict(Peer& peer, Eviction when, std::string reason) {
  if (peer.going.exchange(true)) return;
  if (when != Eviction::kNone) evictions_.fetch_add(1, std::memory_order_relaxed);
  // Not here: the caller holds locks that this takes.
  monitor_->post([weak = weak_from_this(), when, id = peer.id, reason = std::move(reason)] {
    const auto core = weak.lock();
    if (core == nullptr) return;
    when == Eviction::kWhenItGoes ? core->let_go(id, reason) : core->remove(id, reason);
  });
}

void ProducerCore::let_go(ring::ConsumerId id, const std::string& reason) {
  PeerPtr slow;
  {
    const std::lock_guard lock(peers_mutex_);
    const auto found = std::find_if(peers_.begin(), peers_.end(), [id](const PeerPtr& peer) { return peer->id == id; });
    if (found == peers_.end()) return;
    slow = *found;
  }
  writer_->stop_gating(id);
  slow->socket_watch.set_events(EPOLLIN | EPOLLRDHUP);  // nothing more is sent
  // Only our direction: it learns that we are done with it, and its own close tells us when its last Frame is released.
  slow->socket.finish();
  base::log(base::LogLevel::kWarning, "consumer " + std::to_string(id) + " (" + slow->info.name + ") of " +
                                          descriptor_ + " was disconnected: " + reason);
}

void ProducerCore::remove(ring::ConsumerId id, const std::string& reason) {
  PeerPtr gone;
  {
    const std::lock_guard lock(peers_mutex_);
    const auto found = std::find_if(peers_.begin(), peers_.end(), [id](const PeerPtr& peer) { return peer->id == id; });
    if (found == peers_.end()) return;
    gone = *found;
    gone->going = true;
    peers_.erase(found);
  }
  FRAMELANE_CRASH_POINT("death: noticed, before the ring knows");
  std::erase(watched_, gone);
  writer_->remove_consumer(id);
  FRAMELANE_CRASH_POINT("death: out of the ring, before it is counted");
  num_consumers_.fetch_sub(1, std::memory_order_acq_rel);
  gone->socket.shutdown();
  gone->socket_watch.reset();
  gone->death_watch.reset();
  base::log(base::LogLevel::kInfo,
            "consumer " + std::to_string(id) + " (" + gone->info.name + ") left " + descriptor_ + ": " + reason);
  consumers_changed();
  announce_gone(*gone, reason);
  free_pages();
}

/// A publish that was under way may still have looked at the page of one who left. It takes microseconds.
void ProducerCore::free_pages() {
  if (writer_->free_pages()) return;
  pages_timer_ = monitor_->after(std::chrono::milliseconds(1), [weak = weak_from_this()] {
    if (const auto core = weak.lock()) core->free_pages();
  });
}

void ProducerCore::consumers_changed() noexcept {
  change_word_.fetch_add(1, std::memory_order_release);
  base::futex_wake(change_word_, std::numeric_limits<int>::max());
}

void ProducerCore::close() noexcept {
  // A forked child has a copy of this object, but neither the monitor's thread nor the mappings.
  if (getpid() != pid_) return;
  stream_.store(Stream::kClosed, std::memory_order_relaxed);
  {
    const std::lock_guard lock(peers_mutex_);
    if (std::exchange(closed_, true)) return;
  }
  FRAMELANE_CRASH_POINT("close: begun");
  if (server_ != nullptr) server_->stop();
  if (observers_ != nullptr) {
    monitor_->call([this] {
      observers_->clear();
      watched_.clear();
    });
  }
  if (streams_ != nullptr) streams_->stop_accepting();
  if (writer_ == nullptr) return;  // create() failed half-way
  std::vector<PeerPtr> peers;
  {
    const std::lock_guard lock(peers_mutex_);
    peers.swap(peers_);
  }
  // The last Loan may end on the monitor's thread, which must not wait.
  const std::int64_t deadline = monitor_->on_this_thread() ? 0 : base::deadline_after(settings_.linger);
  const auto leave = transport::make_outgoing(wire::encode(wire::Leave{}, 0));
  for (const PeerPtr& peer : peers) {
    if (leave) static_cast<void>(peer->queue.push(*leave));
    // What can't be sent until then is lost with the consumer.
    static_cast<void>(peer->queue.drain(peer->socket, peer->demoted ? 0 : deadline));
    peer->socket_watch.reset();
    peer->death_watch.reset();
    FRAMELANE_CRASH_POINT("close: told, before the consumer is let go");
    writer_->remove_consumer(peer->id);
    peer->socket.finish();  // relays go on until they see that
  }
  if (streams_ != nullptr) streams_->drain(deadline);
  num_consumers_.store(0, std::memory_order_release);
  consumers_changed();
  // Also because a callback may be at work for a peer that was out of the list already, and uses this object.
  monitor_->call([&] {
    for (const PeerPtr& peer : peers) announce_gone(*peer, "the producer closed");
  });
  const std::lock_guard lock(peers_mutex_);
  callback_ = nullptr;
  request_callback_ = nullptr;
}

}  // namespace framelane::lane
