// SPDX-License-Identifier: MIT
#include "lane/connection.hpp"

#include <cstdlib>
#include <cstring>
#include <limits>

#include <sys/epoll.h>

#include "framelane/base/log.hpp"

#include "base/clock.hpp"
#include "base/futex.hpp"
#include "lane/wire_convert.hpp"

namespace framelane::lane {
namespace {

constexpr std::int64_t kControlWaitNs = 1'000'000'000;  // for a message whose marker is already in the ring
constexpr std::int64_t kWatchdogNs = 200'000'000;
constexpr std::size_t kMostInbox = 4096;  // then the socket is read no further until the consumer takes
constexpr std::size_t kMostInboxBytes = std::size_t{64} << 20;
constexpr int kMessagesAtOnce = 16;

tl::unexpected<Error> broken(std::string what) {
  return fail(Code::kProtocol, "the producer broke the lane's protocol: " + what);
}

}  // namespace

Result<Connection*> Connection::create(transport::ControlSocket socket, wire::Welcome welcome,
                                       std::vector<base::UniqueFd> fds, const ConnectionSettings& settings) {
  if (fds.size() != 2 + welcome.segments.size()) return broken("number of descriptors of the WELCOME");
  if (welcome.abi_version != ring::kAbiVersion) return broken("abi_version of the WELCOME");
  if (welcome.entry_count > ring::kMaxEntries) return broken("entry_count of the WELCOME");
  if (welcome.page_size != sizeof(ring::ConsumerPage)) return broken("page_size of the WELCOME");
  auto ring =
      memory::map_received(fds[0].get(), memory::round_up(ring::ring_bytes(welcome.entry_count), memory::page_size()),
                           memory::Sharing::kReadOnly, welcome.unsealed);
  if (!ring) return tl::unexpected(ring.error());
  auto page = memory::map_received(fds[1].get(), memory::round_up(sizeof(ring::ConsumerPage), memory::page_size()),
                                   memory::Sharing::kReadWrite);
  if (!page) return tl::unexpected(page.error());

  ring::ReaderSettings told;
  told.ring = std::move(*ring);
  told.page = std::move(*page);
  told.instance_id = welcome.instance_id;
  told.entry_count = welcome.entry_count;
  told.colour = welcome.colour;
  told.max_held = welcome.max_held;
  told.start = welcome.start;
  told.start_number = welcome.last_number;
  told.latest = settings.latest;
  told.spin = settings.spin;
  told.spin_budget = settings.spin_budget;
  auto reader = ring::Reader::create(std::move(told));
  if (!reader) return tl::unexpected(reader.error());

  auto* const connection = new Connection(std::move(socket), welcome, std::move(*reader), settings);
  Result<void> ready{};
  for (std::size_t i = 0; ready && i < welcome.segments.size(); ++i) {
    std::vector<base::UniqueFd> one;
    one.push_back(std::move(fds[2 + i]));
    ready = connection->apply_segment({welcome.segments[i]}, one);
  }
  if (ready) ready = connection->watch();
  if (ready) return connection;
  connection->drop();
  return tl::unexpected(ready.error());
}

Connection::Connection(transport::ControlSocket socket, const wire::Welcome& welcome,
                       std::unique_ptr<ring::Reader> reader, const ConnectionSettings& settings)
    : socket_(std::move(socket)),
      unsealed_(welcome.unsealed),
      max_frame_size_(settings.max_frame_size),
      on_flush_(settings.on_flush),
      gating_(welcome.gating),
      instance_id_(welcome.instance_id),
      reader_(std::move(reader)),
      applied_(welcome.last_number),
      events_(welcome.sticky.begin(), welcome.sticky.end()) {}

void Connection::drop() noexcept {
  // Held Frames keep the connection, but the application is told of nothing any more.
  if (const auto monitor = transport::Monitor::instance(); monitor && on_flush_)
    (*monitor)->call([this] { on_flush_ = nullptr; });
  if (reader_->leave()) delete this;
}

// --- the monitor's side

Result<void> Connection::watch() {
  auto monitor = transport::Monitor::instance();
  if (!monitor) return tl::unexpected(monitor.error());
  auto socket = (*monitor)->watch(socket_.fd(), EPOLLIN | EPOLLRDHUP, [this](std::uint32_t) { on_socket(); });
  if (!socket) return tl::unexpected(socket.error());
  socket_watch_ = std::move(*socket);
  auto pidfd = socket_.peer_pidfd();
  if (!pidfd) {
    if (pidfd.error().code == Code::kPeerLost) set_lost(std::nullopt);
    return {};  // the hang-up alone has to do
  }
  pidfd_ = std::move(*pidfd);
  // A child that the producer forked can keep the socket open; the pidfd tells of the producer itself.
  auto death = (*monitor)->watch(pidfd_.get(), EPOLLIN | EPOLLONESHOT, [this](std::uint32_t) {
    died_ = true;
    on_socket();
  });
  if (!death) return tl::unexpected(death.error());
  death_watch_ = std::move(*death);
  return {};
}

bool Connection::inbox_is_full() const noexcept {
  return inbox_.size() >= kMostInbox || inbox_bytes_ >= kMostInboxBytes;
}

void Connection::on_socket() {
  // A few at a time, so that a flood keeps the monitor's thread from no other lane. A dead producer's socket holds
  // little.
  for (int messages = 0; messages < kMessagesAtOnce || died_; ++messages) {
    {
      const std::lock_guard lock(inbox_mutex_);
      inbox_full_ = inbox_is_full() && !died_;
      if (inbox_full_) {
        socket_watch_.set_events(0);
        return;
      }
    }
    auto received = socket_.receive();
    if (!received) {
      const bool closed = received.error().code == Code::kPeerLost;
      set_lost(closed ? std::nullopt : std::optional<Error>(received.error()));
      return;
    }
    if (!*received) {
      if (died_) set_lost(std::nullopt);  // everything that it sent is read
      return;
    }
    on_message(std::move(**received));
  }
  socket_watch_.set_events(EPOLLIN | EPOLLRDHUP);  // a hang-up is told once: again for what is left
}

void Connection::on_message(transport::Received received) {
  auto decoded = wire::decode(received.bytes);
  if (!decoded) return set_lost(decoded.error());
  if (const auto* const demoted = std::get_if<wire::Demoted>(&decoded->message)) {
    demoted_.store(demoted->demoted, std::memory_order_relaxed);
    base::log(base::LogLevel::kInfo, demoted->demoted ? "too slow: the producer doesn't wait for this consumer any more"
                                                      : "caught up: the producer waits for this consumer again");
    return;
  }
  if (std::holds_alternative<wire::FlushStart>(decoded->message)) {
    flushes_begun_.fetch_add(1, std::memory_order_seq_cst);
    wake();
    if (on_flush_) on_flush_();
    return;
  }
  if (decoded->number == 0) return;  // STATS and what later versions add; LEAVE is followed by the hang-up
  {
    const std::lock_guard lock(inbox_mutex_);
    inbox_bytes_ += received.bytes.size();
    inbox_.push_back({decoded->number, std::move(decoded->message), std::move(received.fds), received.bytes.size()});
  }
  inbox_word_.fetch_add(1, std::memory_order_release);
  base::futex_wake(inbox_word_, 1);
}

void Connection::set_lost(std::optional<Error> why) noexcept {
  {
    const std::lock_guard lock(inbox_mutex_);
    if (why && !fault_) fault_ = std::move(why);
  }
  lost_.store(true, std::memory_order_seq_cst);
  wake();
}

void Connection::wake() noexcept {
  reader_->wake();
  inbox_word_.fetch_add(1, std::memory_order_release);
  base::futex_wake(inbox_word_, 1);
}

std::optional<Error> Connection::fault() const {
  const std::lock_guard lock(inbox_mutex_);
  return fault_;
}

void Connection::leave() noexcept {
  const auto bytes = wire::encode(wire::Leave{}, 0);
  static_cast<void>(socket_.send(bytes));  // if it can't be sent, the producer learns it from the hang-up
}

Result<void> Connection::send(const format::Request& request) {
  const auto bytes = wire::encode(wire::RequestMessage{request}, 0);
  const std::lock_guard lock(send_mutex_);
  if (!send_limit_.take(base::monotonic_ns())) {
    return fail(Code::kFull, "more than " + std::to_string(kRequestsPerSecond) + " requests a second; send fewer");
  }
  // The socket's buffer is the queue. Nothing waits here: a producer that doesn't read must not hold up its consumers.
  const auto sent = socket_.send(bytes);
  if (!sent) return tl::unexpected(sent.error());
  if (*sent == transport::SendOutcome::kWouldBlock) return fail(Code::kFull, "the producer doesn't read its requests");
  return {};
}

// --- control messages, on the taking thread

Result<std::uint64_t> Connection::apply_up_to(std::uint16_t ctl) {
  while (static_cast<std::uint16_t>(applied_) != ctl) {
    auto message = next_message();
    if (!message) return tl::unexpected(message.error());
    if (message->number != applied_ + 1) return broken("number of a control message");
    if (auto applied = apply(*message); !applied) {
      set_lost(applied.error());  // the message is used up, so nothing after it can be taken
      return tl::unexpected(applied.error());
    }
    applied_ = message->number;
  }
  return applied_;
}

Result<Connection::Inbound> Connection::next_message() {
  inbox_seen_ = inbox_word_.load(std::memory_order_acquire);
  const bool was_lost = lost();
  {
    const std::lock_guard lock(inbox_mutex_);
    if (!inbox_.empty()) {
      Inbound message = std::move(inbox_.front());
      inbox_.pop_front();
      inbox_bytes_ -= message.bytes;
      missing_since_ = 0;
      if (inbox_full_ && !inbox_is_full()) {
        inbox_full_ = false;
        socket_watch_.set_events(EPOLLIN | EPOLLRDHUP);
      }
      return message;
    }
  }
  if (was_lost) return fail(Code::kPeerLost, "the producer died before it had sent an event");
  const std::int64_t now = base::monotonic_ns();
  if (missing_since_ == 0) missing_since_ = now;
  if (now - missing_since_ < kControlWaitNs) return fail(Code::kTimeout);  // on its way: see wait()
  return broken("a control message that was announced didn't come within 1 s");
}

void Connection::wait_for_message(std::int64_t deadline_ns) noexcept {
  base::futex_wait(inbox_word_, inbox_seen_, std::min(deadline_ns, base::monotonic_ns() + kWatchdogNs));
}

Result<void> Connection::apply(Inbound& inbound) {
  if (auto* const event = std::get_if<wire::EventMessage>(&inbound.message)) return apply_event(inbound.number, *event);
  if (const auto* const stop = std::get_if<wire::FlushStop>(&inbound.message))
    return apply_flush_stop(inbound.number, *stop);
  if (const auto* const add = std::get_if<wire::AddSegment>(&inbound.message)) return apply_segment(*add, inbound.fds);
  if (const auto* const retire = std::get_if<wire::RetireSegment>(&inbound.message))
    return reader_->retire_segment(retire->id);
  return broken("type of a numbered control message");
}

Result<void> Connection::apply_event(std::uint64_t number, wire::EventMessage& message) {
  if (message.event.type == format::EventType::kEndOfStream) {
    // No frame may follow that would tell of those lost before it.
    const auto lost = reader_->end_run(number, message.seq);
    if (!lost) return tl::unexpected(lost.error());
    if (!flush_is_open()) reader_->count_skipped(*lost);
  }
  events_.push_back(std::move(message.event));
  return {};
}

Result<void> Connection::apply_flush_stop(std::uint64_t number, const wire::FlushStop& message) {
  // A socket keeps its order, so the FLUSH_START came first.
  if (!flush_is_open()) return broken("FLUSH_STOP without FLUSH_START");
  const auto dropped = reader_->end_run(number, message.first_seq);  // not lost: nobody wants them any more
  if (!dropped) return tl::unexpected(dropped.error());
  ++flushes_ended_;
  drop_passing_events();
  events_.emplace_front().type = format::EventType::kFlushStop;
  return {};
}

void Connection::drop_passing_events() {
  std::erase_if(events_, [](const format::Event& event) { return !format::is_sticky(event.type); });
}

Result<void> Connection::apply_segment(const wire::AddSegment& message, std::vector<base::UniqueFd>& fds) {
  if (fds.size() != 1) return broken("number of descriptors of a data segment");
  const ring::SegmentSpec spec = spec_from(message.segment);
  if (spec.slot_size > ring::slot_size_with_room(max_frame_size_)) {
    return fail(Code::kTooLarge, "the lane's slots of " + std::to_string(spec.slot_size) +
                                     " bytes are larger than max-frame-size (" + std::to_string(max_frame_size_) +
                                     "); raise it");
  }
  if (spec.total_bytes > std::numeric_limits<std::size_t>::max() / 2) {
    return fail(Code::kNoMemory, "the lane's slots (" + std::to_string(spec.total_bytes) +
                                     " bytes) don't fit into this process's address space");
  }
  auto mapping = memory::map_received(fds.front().get(), static_cast<std::size_t>(spec.total_bytes),
                                      memory::Sharing::kReadOnly, unsealed_);
  if (!mapping) return tl::unexpected(mapping.error());
  return reader_->add_segment(spec, std::move(*mapping));
}

// --- frames

[[gnu::flatten]] Result<Connection::Step> Connection::poll(Frame& frame) {
  if (frame) frame.release();
  ring::Taken taken;
  taken.inline_words = frame.inline_words_;
  const auto step = reader_->poll(taken, *this);
  awaits_message_ = !step && step.error().code == Code::kTimeout;
  if (awaits_message_) return Step::kNothing;
  if (!step) return tl::unexpected(step.error());
  if (*step == ring::Reader::Step::kEmpty) return Step::kNothing;
  if (taken.marker) return Step::kMarker;
  if (make_frame(taken, frame)) return Step::kFrame;
  return fail(Code::kNoMemory, "no memory for a copy of a frame beyond max-held; release frames or raise max-held");
}

bool Connection::make_frame(const ring::Taken& taken, Frame& frame) {
  frame.size_ = taken.size;
  frame.side_size_ = taken.side_data;
  frame.seq_ = taken.index;
  frame.skipped_ = taken.skipped;
  frame.due_ns_ = taken.due_ns;
  frame.publish_ns_ = taken.publish_ns;
  const bool copied = !taken.is_inline && reader_->held() > reader_->max_held();
  reader_->count_taken(taken.index, taken.skipped, copied, taken.publish_ns);
  if (taken.is_inline) {
    frame.kind_ = Frame::Kind::kInline;
    return true;
  }
  if (copied) {
    const bool enough = copy_frame(taken, frame);
    reader_->release(taken.slot);
    return enough;
  }
  frame.slot_ = taken.slot;
  frame.data_ = taken.data;
  frame.record_ = taken.record;
  frame.kind_ = Frame::Kind::kSlot;
  frame.connection_ = this;
  return true;
}

[[gnu::noinline]] bool Connection::copy_frame(const ring::Taken& taken, Frame& frame) noexcept {
  // The payload of a copy is as aligned as that of a slot.
  const std::size_t head = memory::round_up(sizeof(ring::MetaRecord) + taken.side_data, ring::kCacheLine);
  const std::size_t bytes = memory::round_up(head + taken.size, ring::kCacheLine);
  auto* const copy = static_cast<std::byte*>(std::aligned_alloc(ring::kCacheLine, bytes));
  if (copy == nullptr) return false;
  std::memcpy(copy, taken.record, sizeof(ring::MetaRecord) + taken.side_data);
  std::memcpy(copy + head, taken.data, taken.size);
  frame.record_ = copy;
  frame.data_ = copy + head;
  frame.kind_ = Frame::Kind::kCopy;
  return true;
}

}  // namespace framelane::lane
