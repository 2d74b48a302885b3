// SPDX-License-Identifier: MIT
#include "lane/shm_connection.hpp"

#include <cstring>
#include <limits>

#include <sys/epoll.h>

#include "framelane/base/log.hpp"

#include "base/clock.hpp"
#include "base/crash_point.hpp"
#include "base/futex.hpp"
#include "lane/frame_pool.hpp"
#include "lane/wire_convert.hpp"

namespace framelane::lane {
namespace {

constexpr std::int64_t kControlWaitNs = 1'000'000'000;  // for a message whose marker is already in the ring
constexpr std::int64_t kWatchdogNs = 200'000'000;
constexpr std::size_t kMostInbox = 4096;  // then the socket is read no further until the consumer takes
constexpr std::size_t kMostInboxBytes = std::size_t{64} << 20;
constexpr int kMessagesAtOnce = 16;

}  // namespace

Result<Connection*> ShmConnection::create(transport::ControlSocket socket, wire::Welcome welcome,
                                          std::vector<base::UniqueFd> fds, const ConnectionSettings& settings) {
  if (fds.size() != 2 + welcome.segments.size()) return broken_lane("number of descriptors of the WELCOME");
  if (welcome.abi_version != ring::kAbiVersion) return broken_lane("abi_version of the WELCOME");
  if (welcome.entry_count > ring::kMaxEntries) return broken_lane("entry_count of the WELCOME");
  if (welcome.page_size != sizeof(ring::ConsumerPage)) return broken_lane("page_size of the WELCOME");
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
  told.lock = settings.lock;
  auto reader = ring::Reader::create(std::move(told));
  if (!reader) return tl::unexpected(reader.error());

  auto* const connection = new ShmConnection(std::move(socket), std::move(welcome), std::move(*reader), settings);
  const auto& segments = connection->welcome().segments;
  Result<void> ready{};
  for (std::size_t i = 0; ready && i < segments.size(); ++i) {
    std::vector<base::UniqueFd> one;
    one.push_back(std::move(fds[2 + i]));
    ready = connection->apply_segment({segments[i]}, one);
  }
  if (ready) ready = connection->watch();
  if (ready) return connection;
  connection->drop();
  return tl::unexpected(ready.error());
}

ShmConnection::ShmConnection(transport::ControlSocket socket, wire::Welcome welcome,
                             std::unique_ptr<ring::Reader> reader, const ConnectionSettings& settings)
    : Connection(std::move(welcome), settings),
      socket_(std::move(socket)),
      max_frame_size_(settings.max_frame_size),
      reader_(std::move(reader)),
      applied_(this->welcome().last_number) {}

void ShmConnection::drop() noexcept {
  stop_telling();  // held Frames keep the connection, but the application is told of nothing any more
  if (reader_->leave()) delete this;
}

// --- the monitor's side

Result<void> ShmConnection::watch() {
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

bool ShmConnection::inbox_is_full() const noexcept {
  return inbox_.size() >= kMostInbox || inbox_bytes_ >= kMostInboxBytes;
}

void ShmConnection::on_socket() {
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
    FRAMELANE_CRASH_POINT("message: read by the monitor");
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

void ShmConnection::on_message(transport::Received received) {
  auto decoded = wire::decode(received.bytes);
  if (!decoded) return set_lost(decoded.error());
  if (const auto* const demoted = std::get_if<wire::Demoted>(&decoded->message)) return set_demoted(demoted->demoted);
  if (std::holds_alternative<wire::FlushStart>(decoded->message)) return begin_flush();
  if (decoded->number == 0) return;  // STATS and what later versions add; LEAVE is followed by the hang-up
  {
    const std::lock_guard lock(inbox_mutex_);
    inbox_bytes_ += received.bytes.size();
    inbox_.push_back({decoded->number, std::move(decoded->message), std::move(received.fds), received.bytes.size()});
  }
  FRAMELANE_CRASH_POINT("message: in the inbox, before the taker is woken");
  inbox_word_.fetch_add(1, std::memory_order_release);
  base::futex_wake(inbox_word_, 1);
}

void ShmConnection::wait(const std::function<bool()>& stop, std::int64_t deadline_ns) noexcept {
  if (awaits_message_) {
    if (!stop()) wait_for_message(deadline_ns);
  } else {
    reader_->wait([&] { return lost() || stop(); }, deadline_ns);
  }
}

void ShmConnection::wake() noexcept {
  reader_->wake();
  inbox_word_.fetch_add(1, std::memory_order_release);
  base::futex_wake(inbox_word_, 1);
}

void ShmConnection::leave() noexcept {
  FRAMELANE_CRASH_POINT("LEAVE: before it is sent");
  const auto bytes = wire::encode(wire::Leave{}, 0);
  static_cast<void>(socket_.send(bytes));  // if it can't be sent, the producer learns it from the hang-up
  FRAMELANE_CRASH_POINT("LEAVE: sent, frames held");
}

Result<bool> ShmConnection::send_now(std::span<const std::byte> message) {
  const auto sent = socket_.send(message);
  if (!sent) return tl::unexpected(sent.error());
  return *sent == transport::SendOutcome::kSent;
}

// --- control messages, on the taking thread

Result<std::uint64_t> ShmConnection::apply_up_to(std::uint16_t ctl) {
  while (static_cast<std::uint16_t>(applied_) != ctl) {
    auto message = next_message();
    if (!message) return tl::unexpected(message.error());
    if (message->number != applied_ + 1) return broken_lane("number of a control message");
    if (auto applied = apply(*message); !applied) {
      set_lost(applied.error());  // the message is used up, so nothing after it can be taken
      return tl::unexpected(applied.error());
    }
    applied_ = message->number;
  }
  return applied_;
}

Result<ShmConnection::Inbound> ShmConnection::next_message() {
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
  return broken_lane("a control message that was announced didn't come within 1 s");
}

void ShmConnection::wait_for_message(std::int64_t deadline_ns) noexcept {
  base::futex_wait(inbox_word_, inbox_seen_, std::min(deadline_ns, base::monotonic_ns() + kWatchdogNs));
}

Result<void> ShmConnection::apply(Inbound& inbound) {
  if (auto* const event = std::get_if<wire::EventMessage>(&inbound.message)) return apply_event(inbound.number, *event);
  if (const auto* const stop = std::get_if<wire::FlushStop>(&inbound.message))
    return apply_flush_stop(inbound.number, *stop);
  if (const auto* const add = std::get_if<wire::AddSegment>(&inbound.message)) return apply_segment(*add, inbound.fds);
  if (const auto* const retire = std::get_if<wire::RetireSegment>(&inbound.message))
    return reader_->retire_segment(retire->id);
  return broken_lane("type of a numbered control message");
}

Result<void> ShmConnection::apply_event(std::uint64_t number, wire::EventMessage& message) {
  if (message.event.type == format::EventType::kEndOfStream) {
    // No frame may follow that would tell of those lost before it.
    const auto lost = reader_->end_run(number, message.seq);
    if (!lost) return tl::unexpected(lost.error());
    if (!flush_is_open()) reader_->count_skipped(*lost);
  }
  add_event(std::move(message.event), reader_->next_index());
  return {};
}

Result<void> ShmConnection::apply_flush_stop(std::uint64_t number, const wire::FlushStop& message) {
  const auto dropped = reader_->end_run(number, message.first_seq);  // not lost: nobody wants them any more
  if (!dropped) return tl::unexpected(dropped.error());
  return end_flushes(reader_->next_index(), flushes_ended() + 1);  // a socket keeps its order: the START came first
}

Result<void> ShmConnection::apply_segment(const wire::AddSegment& message, std::vector<base::UniqueFd>& fds) {
  if (fds.size() != 1) return broken_lane("number of descriptors of a data segment");
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
                                      memory::Sharing::kReadOnly, welcome().unsealed);
  if (!mapping) return tl::unexpected(mapping.error());
  return reader_->add_segment(spec, std::move(*mapping));
}

// --- frames

[[gnu::flatten]] Result<ShmConnection::Step> ShmConnection::poll(Frame& frame) {
  if (frame) frame.release();
  ring::Taken taken;
  taken.inline_words = inline_words(frame);
  const auto step = reader_->poll(taken, *this);
  awaits_message_ = !step && step.error().code == Code::kTimeout;
  if (awaits_message_) return Step::kNothing;
  if (!step) return tl::unexpected(step.error());
  if (*step == ring::Reader::Step::kEmpty) return Step::kNothing;
  if (taken.marker) return Step::kMarker;
  if (make_frame(taken, frame)) return Step::kFrame;
  return fail(Code::kNoMemory, "no memory for a copy of a frame beyond max-held; release frames or raise max-held");
}

bool ShmConnection::make_frame(ring::Taken& taken, Frame& frame) {
  const bool copied = !taken.is_inline && reader_->held() > reader_->max_held();
  reader_->count_taken(taken.index, taken.skipped, copied, taken.publish_ns);
  if (!copied) {
    hand_out(taken, taken.is_inline ? Place::kInline : Place::kSlot, frame);
    return true;
  }
  const bool enough = copy_payload(taken);
  reader_->release(taken.slot);
  if (enough) hand_out(taken, Place::kCopy, frame);
  return enough;
}

[[gnu::noinline]] bool ShmConnection::copy_payload(ring::Taken& taken) noexcept {
  const FrameLayout layout(taken.side_data, taken.size);
  std::byte* const copy = layout.allocate();
  if (copy == nullptr) return false;
  std::memcpy(copy, taken.record, sizeof(ring::MetaRecord) + taken.side_data);
  std::memcpy(copy + layout.head, taken.data, taken.size);
  taken.record = copy;
  taken.data = copy + layout.head;
  return true;
}

}  // namespace framelane::lane
