// SPDX-License-Identifier: MIT
// Frames and events of a Producer. Its consumers are in producer_peers.cpp.
#include "lane/producer_core.hpp"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <limits>
#include <new>

#include <sys/random.h>
#include <unistd.h>

#include "framelane/descriptor/descriptor.hpp"
#include "framelane/format/caps.hpp"

#include "base/clock.hpp"
#include "base/futex.hpp"
#include "base/text.hpp"
#include "lane/settings_check.hpp"
#include "lane/wire_convert.hpp"
#include "transport/lane_files.hpp"
#include "transport/stream_socket.hpp"

namespace framelane::lane {
namespace {

constexpr std::int64_t kDrainingLookNs = 1'000'000;

bool has_metadata(const format::FrameInfo& info) noexcept {
  format::FrameInfo bare;
  bare.due_ns = info.due_ns;  // that one has its place in the entry
  return !(info == bare);
}

Result<std::array<std::uint8_t, 16>> random_id() {
  std::array<std::uint8_t, 16> id{};
  if (getrandom(id.data(), id.size(), 0) == static_cast<ssize_t>(id.size())) return id;
  return fail(Code::kSystem, std::string("no random numbers: ") + base::system_words(errno));
}

}  // namespace

Result<std::shared_ptr<ProducerCore>> ProducerCore::create(ProducerSettings settings) {
  if (auto fine = check(settings); !fine) return tl::unexpected(fine.error());
  const auto descriptor = descriptor::Descriptor::parse(settings.lane, descriptor::Side::kProducer);
  if (!descriptor) return tl::unexpected(descriptor.error());
  auto place = producer_place(*descriptor, settings.transport);
  if (!place) return tl::unexpected(std::move(place.error()));
  auto id = random_id();
  if (!id) return tl::unexpected(id.error());
  auto monitor = transport::Monitor::instance();
  if (!monitor) return tl::unexpected(monitor.error());

  std::shared_ptr<ProducerCore> core(new ProducerCore(std::move(settings), std::move(*place)));
  core->pid_ = getpid();
  core->opened_ns_ = base::monotonic_ns();
  core->instance_id_ = *id;
  core->monitor_ = *monitor;
  if (auto opened = core->open_place(); !opened) return tl::unexpected(std::move(opened.error()));
  return core;
}

ProducerCore::ProducerCore(ProducerSettings settings, Place place)
    : settings_(std::move(settings)), place_(std::move(place)), leaky_(settings_.leaky) {}

/// Claims the lane, makes its memory, and lets consumers in.
Result<void> ProducerCore::open_place() {
  if (auto fine = check_security(); !fine) return fine;
  std::optional<transport::LaneFiles> files;
  if (place_.has_files) {
    auto claimed = transport::LaneFiles::claim(place_.directory, place_.lane);
    if (!claimed) return tl::unexpected(std::move(claimed.error()));
    files = std::move(*claimed);
  }
  if (place_.uds || !place_.tcp.empty()) {
    auto streams = StreamServer::listen(place_, settings_.psk_file);
    if (!streams) return tl::unexpected(std::move(streams.error()));
    streams_ = std::move(*streams);
  }
  descriptor_ = place_.to_string();
  auto writer = ring::Writer::create(writer_settings(settings_, place_.lane), instance_id_, *this);
  if (!writer) return tl::unexpected(writer.error());
  writer_ = std::move(*writer);
  auto ring_fd = transport::share_fd(writer_->ring_fd());
  if (!ring_fd) return tl::unexpected(ring_fd.error());
  ring_fd_ = std::move(*ring_fd);
  observers_ = std::make_unique<Observers>(*monitor_, descriptor_, [this] { return observed(); });
  if (files) {
    auto server = transport::ControlServer::start(std::move(*files), *this, {64, settings_.handshake_timeout});
    if (!server) return tl::unexpected(server.error());
    server_ = std::move(*server);
  }
  if (streams_ == nullptr) return {};
  RelayHost host;
  host.lane = place_.lane;
  host.descriptor = descriptor_;
  host.served = descriptor_;
  host.instance_id = instance_id_;
  host.max_held = settings_.max_held;
  host.handshake_timeout = settings_.handshake_timeout;
  host.admission = [weak = weak_from_this()](const PeerInfo& peer) {
    const auto core = weak.lock();
    return core != nullptr ? core->admission_of(peer) : Admission::kRefused;
  };
  host.join = [weak = weak_from_this()](transport::ControlSocket socket, const RelayHost::Joining& joining) {
    if (const auto core = weak.lock()) core->on_stream_hello(std::move(socket), joining);
  };
  return streams_->start(std::move(host));
}

/// TCP beyond this host needs a key, or somebody who says that it needs none.
Result<void> ProducerCore::check_security() const {
  if (settings_.insecure || !settings_.psk_file.empty()) return {};
  for (const Place::Tcp& address : place_.tcp) {
    auto loopback = transport::is_loopback_host(address.host);
    if (!loopback) return tl::unexpected(std::move(loopback.error()));
    if (*loopback) continue;
    return fail(
        Code::kPermission,
        "\"" + address.host +
            "\" can be reached from other hosts, and the frames would go to anybody: give a "
            "psk-file (made by: echo \"lane:$(openssl rand -hex 32)\" > FILE; chmod 600 FILE), set insecure=true if "
            "that is meant, or listen on 127.0.0.1");
  }
  return {};
}

ProducerCore::~ProducerCore() { close(); }

// --- frames

Result<Loan> ProducerCore::loan(std::size_t size) {
  Result<Loan> loan(tl::in_place);  // the one variable that is returned: see Consumer::take
  if (size <= ring::kInlineBytes) {
    writer_->prepare();  // a small payload is written in no time, so its publish is near
    loan->capacity_ = ring::kInlineBytes;
  } else if (auto slot = slot_for(size)) {
    fill(*loan, *slot);
  } else {
    loan = tl::unexpected(std::move(slot.error()));
  }
  return loan;
}

Result<ring::SlotRef> ProducerCore::slot_for(std::size_t size) {
  std::int64_t deadline = 0;
  for (;;) {
    auto slot = writer_->loan(size);
    if (slot || slot.error().code != Code::kFull || !writer_->draining()) return slot;
    // Frames of two older sizes are still being read: like a full ring, this waits and then gives up.
    if (leaky_.load(std::memory_order_relaxed) != Leaky::kNo) return slot;
    if (writer_->interrupted()) return fail(Code::kInterrupted);
    const std::int64_t now = base::monotonic_ns();
    if (deadline == 0) deadline = base::deadline_after(settings_.full_timeout);
    if (now >= deadline) return slot;
    base::futex_wait(change_word_, change_word_.load(std::memory_order_acquire),
                     std::min(deadline, now + kDrainingLookNs));
  }
}

Result<std::optional<Loan>> ProducerCore::try_loan(std::size_t size) {
  if (size <= ring::kInlineBytes)
    return loan(size).map([](Loan&& small) { return std::optional<Loan>(std::move(small)); });
  if (size > settings_.max_frame_size) return fail(Code::kTooLarge, "larger than max-frame-size");
  const auto slot = writer_->try_loan(size);
  if (!slot) return std::optional<Loan>();
  std::optional<Loan> loan(std::in_place);
  fill(*loan, *slot);
  return loan;
}

void ProducerCore::fill(Loan& loan, const ring::SlotRef& slot) {
  loan.core_ = this;
  loan.data_ = slot.data;
  loan.capacity_ = slot.capacity;
  loan.slot_ = slot.slot;
}

void ProducerCore::discard(std::uint16_t slot) noexcept {
  std::shared_ptr<ProducerCore> last;  // ends after the lock
  const std::lock_guard lock(loans_mutex_);
  writer_->discard(slot);
  if (writer_->in_hands() == 0) last = std::move(self_);
}

void ProducerCore::abandon(std::shared_ptr<ProducerCore> core) noexcept {
  core->close();
  if (getpid() != core->pid_) {  // a forked child's copy is never taken apart: neither mappings nor threads are there
    static_cast<void>(new (std::nothrow) std::shared_ptr<ProducerCore>(std::move(core)));
    return;
  }
  const std::lock_guard lock(core->loans_mutex_);
  if (core->writer_->in_hands() != 0) core->self_ = core;
}

Result<void> ProducerCore::move_to_slot(Loan& loan, std::size_t size, Wake wake) {
  std::optional<ring::SlotRef> slot = writer_->try_loan(ring::kInlineBytes);
  if (!slot && wake == Wake::kLater) return fail(Code::kFull, "no slot at once for a small payload with metadata");
  if (!slot) {
    auto waited = slot_for(ring::kInlineBytes);
    if (!waited) return tl::unexpected(waited.error());
    slot = *waited;
  }
  std::memcpy(slot->data, loan.data(), size);
  fill(loan, *slot);
  return {};
}

Result<void> ProducerCore::check_publish(const Loan& loan, std::size_t size, const Manner& manner) const {
  if (!loan) return fail(Code::kInvalidArgument, "the loan is empty: it was published or discarded already");
  if (size > loan.capacity()) {
    return fail(Code::kInvalidArgument, "a frame of " + std::to_string(size) + " bytes in a loan of " +
                                            std::to_string(loan.capacity()) + "; take a larger loan");
  }
  if (loan.data_ != nullptr && loan.core_ != this)
    return fail(Code::kInvalidArgument, "the loan is another producer's");
  if (loan.data_ != nullptr && writer_->is_published(loan.slot_))
    return fail(Code::kInvalidArgument, "the loan is published already; wait until reclaimed() names its slot");
  if (stream_.load(std::memory_order_relaxed) != Stream::kOpen) return no_stream();
  if (manner.side_data.size() > settings_.max_side_data) {
    return fail(Code::kTooLarge, std::to_string(manner.side_data.size()) +
                                     " bytes of side data are more than max-side-data (" +
                                     std::to_string(settings_.max_side_data) + "); raise it, or send less");
  }
  return {};
}

Result<Published> ProducerCore::publish(Loan& loan, std::size_t size, const Manner& manner) {
  if (loan.data_ == nullptr) writer_->prepare();
  if (auto fine = check_publish(loan, size, manner); !fine) return tl::unexpected(fine.error());
  if (loan.data_ == nullptr && (manner.keep || !manner.side_data.empty() || has_metadata(manner.info))) {
    if (auto moved = move_to_slot(loan, size, manner.wake); !moved) return tl::unexpected(moved.error());
  }
  const ring::SlotRef slot{loan.slot_, loan.data_, loan.capacity_};
  ring::Writer::Outgoing frame;
  frame.slot = loan.data_ != nullptr ? &slot : nullptr;
  frame.inline_bytes = loan.inline_;
  frame.size = static_cast<std::uint32_t>(size);
  frame.info = &manner.info;
  frame.side_data = manner.side_data;
  frame.keep = manner.keep;
  frame.wake = manner.wake == Wake::kNow;
  auto sent = writer_->publish(frame);
  if (!sent) return tl::unexpected(sent.error());
  if (!*sent) {
    if (!manner.keep) loan.discard();
    return Published::kDropped;
  }
  if (!manner.keep) {
    loan.capacity_ = 0;
    loan.data_ = nullptr;
    loan.core_ = nullptr;
  }
  return Published::kSent;
}

Result<Published> ProducerCore::publish_copy(std::span<const std::byte> bytes, const Manner& manner) {
  auto slot = loan(bytes.size());
  if (!slot) return tl::unexpected(slot.error());
  if (!bytes.empty()) std::memcpy(slot->data(), bytes.data(), bytes.size());
  auto sent = publish(*slot, bytes.size(), manner);
  if (sent && *sent == Published::kSent) copied_.fetch_add(1, std::memory_order_relaxed);
  return sent;
}

// --- events

Result<void> ProducerCore::send(const format::Event& event) {
  if (auto fine = wire::check_event(event); !fine) return fine;
  if (event.type == format::EventType::kState && event.number >= format::kMaxStates)
    return fail(Code::kInvalidArgument, "a state's number must be below " + std::to_string(format::kMaxStates));
  const bool starts = event.type == format::EventType::kStreamStart;
  const Stream stream = stream_.load(std::memory_order_relaxed);
  if (stream == Stream::kClosed || (stream == Stream::kEnded && !starts)) return no_stream();
  if (event.type == format::EventType::kCaps) {
    if (auto applied = apply_burst_time(event.text); !applied) return applied;
  }
  const bool sticky = format::is_sticky(event.type);
  const bool ends = event.type == format::EventType::kEndOfStream;
  const auto queue = [&](std::uint64_t number, std::uint64_t seq) {
    if (sticky) remember(event);
    post(number, seq, wire::EventMessage{event, seq}, !sticky);
  };
  using Kind = ring::Writer::MarkerKind;
  auto sent = writer_->publish_marker(queue, ends ? Kind::kEnd : sticky ? Kind::kBarrier : Kind::kPlain);
  if (!sent) return sent;
  Stream expected = stream;  // kClosed stays
  stream_.compare_exchange_strong(expected, ends ? Stream::kEnded : Stream::kOpen, std::memory_order_relaxed);
  return {};
}

tl::unexpected<Error> ProducerCore::no_stream() const {
  if (stream_.load(std::memory_order_relaxed) == Stream::kClosed)
    return fail(Code::kInvalidArgument, "this producer is closed");
  return fail(Code::kInvalidArgument, "the stream has ended; send a kStreamStart event to begin another");
}

void ProducerCore::remember(const format::Event& event) {
  if (event.type == format::EventType::kStreamStart) {
    std::erase_if(sticky_, [](const auto& entry) {
      const auto& [type, number] = entry.first;
      return type == format::EventType::kTag ||
             (type == format::EventType::kState && number >= format::kFirstStreamState);
    });
  }
  if (event.type == format::EventType::kCaps) {
    auto caps = std::make_shared<const std::string>(event.text);
    const std::lock_guard lock(caps_mutex_);
    caps_.swap(caps);
  }
  std::uint32_t number = 0;
  if (event.type == format::EventType::kTag) number = event.number % 2;  // two scopes
  if (event.type == format::EventType::kState) number = event.number;
  sticky_[{event.type, number}] = event;
}

Result<void> ProducerCore::apply_burst_time(const std::string& caps) {
  if (settings_.burst_time.count() == 0) return {};
  const auto rate = format::frame_rate(caps);
  if (!rate || *rate <= 0) return {};  // `burst` counts as long as the rate isn't known
  const double frames = std::ceil(std::chrono::duration<double>(settings_.burst_time).count() * *rate);
  return writer_->set_burst(static_cast<std::uint32_t>(std::clamp(frames, 1.0, 65536.0)));
}

// --- waits

Result<void> ProducerCore::wait_for_consumers(std::uint32_t count, std::int64_t deadline_ns) {
  for (;;) {
    const std::uint32_t word = change_word_.load(std::memory_order_acquire);
    if (writer_->interrupted()) return fail(Code::kInterrupted);
    if (num_consumers() >= count) return {};
    if (base::monotonic_ns() >= deadline_ns)
      return fail(Code::kTimeout, "fewer than " + std::to_string(count) + " consumers came in time");
    base::futex_wait(change_word_, word, deadline_ns);
  }
}

void ProducerCore::set_leaky(Leaky leaky) noexcept {
  leaky_.store(leaky, std::memory_order_relaxed);
  writer_->set_when_full(when_full(leaky));
}

void ProducerCore::interrupt() noexcept { stop_waits(ring::Writer::kStopInterrupt); }

void ProducerCore::stop_waits(ring::Writer::Stop why) noexcept {
  writer_->interrupt(why);
  change_word_.fetch_add(1, std::memory_order_release);
  base::futex_wake(change_word_, std::numeric_limits<int>::max());
}

void ProducerCore::resume() noexcept { writer_->resume(ring::Writer::kStopInterrupt); }

// --- flush

void ProducerCore::flush_start() noexcept {
  const std::lock_guard one_at_a_time(flush_mutex_);
  begin_flush();
}

void ProducerCore::begin_flush() noexcept {
  if (flushing_ || stream_.load(std::memory_order_relaxed) == Stream::kClosed) return;
  stop_waits(ring::Writer::kStopFlush);
  const auto message = transport::make_outgoing(wire::encode(wire::FlushStart{}, 0));
  const std::lock_guard lock(peers_mutex_);
  flushing_ = true;  // from here on whoever joins is told when it does
  for (const auto& peer : peers_) {
    if (message) queue_to(*peer, *message);
  }
}

Result<void> ProducerCore::flush_stop() {
  const std::lock_guard one_at_a_time(flush_mutex_);
  if (stream_.load(std::memory_order_relaxed) == Stream::kClosed) return no_stream();
  begin_flush();
  // First: a full ring can't keep the marker out, so this doesn't wait, and needn't be interrupted.
  writer_->drop_unread();
  const auto queue = [this](std::uint64_t number, std::uint64_t seq) {
    post(number, seq, wire::FlushStop{seq}, false);
    const std::lock_guard lock(peers_mutex_);
    flushing_ = false;
  };
  auto stopped = writer_->publish_marker(queue, ring::Writer::MarkerKind::kBarrier);
  writer_->resume(ring::Writer::kStopFlush);
  return stopped;
}

}  // namespace framelane::lane
