// SPDX-License-Identifier: MIT
// What a Consumer takes. How it comes to its connections, and loses them, is in consumer_connect.cpp.
#include "lane/consumer_core.hpp"

#include <algorithm>
#include <cerrno>
#include <new>
#include <utility>

#include <sys/eventfd.h>
#include <unistd.h>

#include "framelane/base/log.hpp"
#include "framelane/descriptor/descriptor.hpp"
#include "framelane/format/plane_layout.hpp"

#include "base/clock.hpp"
#include "base/text.hpp"
#include "lane/consumer_totals.hpp"
#include "lane/event_pump.hpp"
#include "lane/settings_check.hpp"
#include "memory/sealed_memory.hpp"

namespace framelane::lane {
namespace {

format::Event flush_event(format::EventType type) {
  format::Event event;
  event.type = type;
  return event;
}

Result<base::UniqueFd> new_event_fd() {
  base::UniqueFd fd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (fd.valid()) return fd;
  return fail(Code::kSystem, "no event descriptor: " + base::system_words(errno));
}

}  // namespace

Result<std::unique_ptr<ConsumerCore>> ConsumerCore::create(ConsumerSettings settings) {
  if (auto fine = check(settings); !fine) return tl::unexpected(fine.error());
  const auto descriptor = descriptor::Descriptor::parse(settings.lane, descriptor::Side::kConsumer);
  if (!descriptor) return tl::unexpected(descriptor.error());
  auto ways = consumer_ways(*descriptor, settings.transport);
  if (!ways) return tl::unexpected(std::move(ways.error()));
  auto interrupt_fd = new_event_fd();
  if (!interrupt_fd) return tl::unexpected(std::move(interrupt_fd.error()));
  std::string canonical = descriptor->to_string();
  return std::unique_ptr<ConsumerCore>(
      new ConsumerCore(std::move(settings), std::move(canonical), std::move(*ways), std::move(*interrupt_fd)));
}

Result<std::unique_ptr<ConsumerCore>> ConsumerCore::create(Connection* connection, std::string descriptor) {
  auto interrupt_fd = new_event_fd();
  if (!interrupt_fd) {
    connection->drop();
    return tl::unexpected(std::move(interrupt_fd.error()));
  }
  ConsumerSettings settings;
  settings.reconnect = false;
  std::unique_ptr<ConsumerCore> core(
      new ConsumerCore(std::move(settings), std::move(descriptor), {}, std::move(*interrupt_fd)));
  core->set_connection(connection);
  core->totals_->connections = 1;
  core->goes_on_after_end_ = true;
  return core;
}

ConsumerCore::ConsumerCore(ConsumerSettings settings, std::string descriptor, std::vector<Way> ways,
                           base::UniqueFd interrupt_fd)
    : settings_(std::move(settings)),
      descriptor_(std::move(descriptor)),
      pid_(getpid()),
      interrupt_fd_(std::move(interrupt_fd)),
      negotiation_(settings_, descriptor_, std::move(ways), interrupt_fd_.get()),
      totals_(std::make_unique<Totals>()) {}

ConsumerCore::~ConsumerCore() { close(); }

// --- take

bool ConsumerCore::spin_briefly() noexcept {
  return shm_ != nullptr ? shm_->spin_briefly() : connection_->spin_briefly();
}

bool ConsumerCore::plain() const noexcept {
  // First the pump, which is the taking thread's own: all else may be its thread's at the moment.
  return pump_ == nullptr && connection_ != nullptr && !interrupted() && !ended_ && !stash_ &&
         connection_->events().empty() && !connection_->flush_is_open();
}

[[gnu::flatten]] void ConsumerCore::take(Result<Frame>& frame, std::chrono::nanoseconds timeout) {
  std::int64_t deadline = 0;
  for (;;) {
    auto taken = take_at_once(*frame);
    if (taken && *taken) return;
    if (!taken) {
      frame = tl::unexpected(std::move(taken.error()));
      return;
    }
    if (deadline == 0) {
      // Two readings of the clock would take as long as a peer that answers at once.
      if (timeout.count() > 0 && plain() && spin_briefly()) continue;
      deadline = base::deadline_after(timeout);
    }
    if (!wait_for_more(deadline)) break;
  }
  auto item = next(deadline, false);
  if (item) {
    *frame = std::get<Frame>(std::move(**item));
  } else {
    frame = tl::unexpected(std::move(item.error()));
  }
}

// Waits for the next entry (at most 200 ms) where that is all there is to do; false: next() has to see.
[[gnu::noinline]] bool ConsumerCore::wait_for_more(std::int64_t deadline_ns) noexcept {
  if (!plain() || connection_->lost() || base::monotonic_ns() >= deadline_ns) return false;
  connection_->wait([this] { return interrupted() || flush_news(); }, deadline_ns);
  return true;
}

Result<bool> ConsumerCore::take_at_once(Frame& frame) {
  if (!plain()) return false;
  auto step = shm_ != nullptr ? shm_->poll(frame) : connection_->poll(frame);
  if (!step) return after_error(step.error()).map([](bool) { return false; });
  if (*step != Connection::Step::kFrame) return false;
  if (connection_->events().empty()) return true;
  stash_ = std::move(frame);
  return false;
}

Connection::Step ConsumerCore::take_meanwhile(Frame& frame) noexcept {
  using Step = Connection::Step;
  if (shm_ == nullptr || !plain()) return Step::kMarker;
  const auto step = shm_->poll(frame);  // an error comes again
  if (!step || *step == Step::kMarker || shm_->awaits_message() || shm_->lost()) {
    if (frame) put_back(std::move(frame));
    return Step::kMarker;
  }
  if (*step == Step::kNothing || shm_->events().empty()) return *step;
  put_back(std::move(frame));
  return Step::kMarker;
}

[[gnu::noinline]] Result<std::optional<Item>> ConsumerCore::next_here(std::int64_t deadline_ns, bool events) {
  for (;;) {
    if (interrupted()) return fail(Code::kInterrupted);
    if (std::exchange(forget_caps_, false)) forget_caps();
    if (ahead_) return tl::unexpected(*std::exchange(ahead_, std::nullopt));
    if (flush_news()) {
      auto told = tell_flush();
      if (told && events) return told;
    }
    if (connection_ != nullptr) {
      auto item = deliver(events);
      if (!item || *item) return item;
    }
    // After an end only what is already there counts: a new stream of this producer or the next one, or nothing.
    const std::int64_t until = ended_ ? 0 : deadline_ns;
    if (ended_ && connection_ == nullptr && !settings_.reconnect) return fail(Code::kEndOfStream, "end of stream");
    auto moved = connection_ != nullptr ? poll_connection(until) : connect_step(until);
    if (!moved && ended_ && connection_ == nullptr) return fail(Code::kEndOfStream, "end of stream");
    if (moved && !*moved && connection_ != nullptr && connection_->awaits_message() && ended_ && deadline_ns != 0) {
      moved = poll_connection(deadline_ns);  // a new stream is there, and its start is on its way
    }
    if (!moved) return tl::unexpected(moved.error());
    if (*moved) continue;
    if (ended_) return fail(Code::kEndOfStream, "end of stream");
    if (deadline_ns == 0) return std::optional<Item>();
    return fail(Code::kTimeout, "no frame in time");
  }
}

bool ConsumerCore::flush_news() const noexcept {
  if (connection_ == nullptr) return flush_told_;  // the producer went away without a FLUSH_STOP
  if (flush_told_) return false;
  const auto& waiting = connection_->events();
  return connection_->flush_is_open() ||
         (!waiting.empty() && waiting.front().event.type == format::EventType::kFlushStop);
}

std::optional<Item> ConsumerCore::tell_flush() {
  flush_told_ = connection_ != nullptr;
  if (ended_) return std::nullopt;  // there is no stream to flush
  return flush_event(flush_told_ ? format::EventType::kFlushStart : format::EventType::kFlushStop);
}

Result<std::optional<Item>> ConsumerCore::deliver(bool events) {
  auto& waiting = connection_->events();
  if (connection_->flush_is_open()) {
    connection_->drop_passing_events();
    stash_.release();
    return std::optional<Item>();
  }
  while (!waiting.empty()) {
    format::Event event = std::move(waiting.front().event);
    event_index_ = waiting.front().index;
    waiting.pop_front();
    if (event.type == format::EventType::kFlushStop) {
      flush_told_ = false;
      connection_->flush_is_told();
      if (events && !ended_) return std::optional<Item>(std::move(event));
      continue;
    }
    ended_ = event.type == format::EventType::kEndOfStream && !goes_on_after_end_;
    note_format(event);
    if (events) return std::optional<Item>(std::move(event));
    if (ended_) return fail(Code::kEndOfStream, "end of stream");
  }
  if (!stash_) return std::optional<Item>();
  ended_ = false;
  return std::optional<Item>(std::move(stash_));
}

void ConsumerCore::note_format(const format::Event& event) {
  if (event.type == format::EventType::kCaps) {
    caps_ = event.text;
    layout_.clear();
  } else if (event.type == format::EventType::kState && event.number == format::kLayoutState) {
    layout_ = event.text;
  }
}

Result<bool> ConsumerCore::poll_connection(std::int64_t deadline_ns) {
  for (;;) {
    // Before the poll: what a producer published before it died is still taken.
    const bool lost = connection_->lost();
    auto step = connection_->poll(stash_);
    if (!step && flush_news()) return true;  // the error comes again
    if (!step) return after_error(step.error());
    if (*step != Connection::Step::kNothing || !connection_->events().empty()) return true;
    if (interrupted() || flush_news()) return true;  // before the loss: a flush that is told must also be ended
    if (lost) return connection_over(std::nullopt);
    if (deadline_ns == 0 || (deadline_ns != base::kForever && base::monotonic_ns() >= deadline_ns)) return false;
    connection_->wait([this] { return interrupted() || flush_news(); }, deadline_ns);
    if (stash_) return true;  // taken meanwhile
  }
}

[[gnu::noinline, gnu::cold]] Result<bool> ConsumerCore::after_error(const Error& error) {
  if (error.code == Code::kPeerLost) return connection_over(std::nullopt);
  if (error.code == Code::kInterrupted) return tl::unexpected(error);
  // A segment that is too large, or that there is no memory for, ends it too: the producer must not wait for us.
  if (error.code == Code::kProtocol || connection_->fault()) return connection_over(error);
  return tl::unexpected(error);
}

// --- any thread

Result<void> ConsumerCore::send(const format::Request& request) {
  if (auto fine = wire::check_request(request); !fine) return fine;
  const std::lock_guard lock(mutex_);
  if (connection_ == nullptr) return fail(Code::kNotFound, "no producer of " + descriptor_ + " is connected");
  return connection_->send(request);
}

void ConsumerCore::on_connection(Consumer::ConnectionCallback callback) {
  const std::lock_guard lock(mutex_);
  connection_callback_ = std::move(callback);
}

void ConsumerCore::on_flush(Consumer::FlushCallback callback) {
  const std::lock_guard lock(mutex_);
  flush_callback_ = std::move(callback);
}

bool ConsumerCore::flushing() const {
  const std::lock_guard lock(mutex_);
  return connection_ != nullptr && connection_->flushing();
}

std::array<std::uint8_t, 16> ConsumerCore::producer_id() const {
  const std::lock_guard lock(mutex_);
  return producer_id_;
}

void ConsumerCore::interrupt() noexcept {
  const std::lock_guard lock(mutex_);  // flag and descriptor change together, or one of them would stay behind
  interrupted_.store(true, std::memory_order_seq_cst);
  eventfd_write(interrupt_fd_.get(), 1);
  if (connection_ != nullptr) connection_->wake();
}

void ConsumerCore::resume() noexcept {
  const std::lock_guard lock(mutex_);
  interrupted_.store(false, std::memory_order_seq_cst);
  eventfd_t count = 0;
  eventfd_read(interrupt_fd_.get(), &count);
}

void ConsumerCore::close() noexcept {
  if (getpid() != pid_) {  // a forked child's copy: the mappings are not there, and the connection is the parent's
    connection_ = nullptr;
    negotiation_.forget();
    static_cast<void>(pump_.release());                              // its thread isn't here
    static_cast<void>(new (std::nothrow) Frame(std::move(stash_)));  // never released: its page isn't mapped here
    return;
  }
  stop_pump();
  negotiation_.end();
  drop_connection();
  final_ = Error{Code::kInvalidArgument, "this consumer is closed"};
}

ConsumerStats ConsumerCore::stats() const {
  const std::lock_guard lock(mutex_);
  const auto sum = std::make_unique<Totals>();
  sum->add(*totals_);
  ConsumerStats stats;
  if (connection_ != nullptr) {
    sum->add(*connection_);
    stats.held = connection_->held();
    stats.connected = !connection_->lost();
    stats.gating = connection_->gating();
    stats.demoted = connection_->demoted();
    stats.clock_offset_error_ns = connection_->clock_error_ns();
  }
  stats.taken = sum->taken;
  stats.skipped = sum->skipped;
  stats.copied = sum->copied;
  stats.sleeps = sum->sleeps;
  stats.spins = sum->spins;
  stats.connections = sum->connections;
  stats.transport = transport_words();
  stats.transport_reason = transport_reason_;
  stats.latency = measure::summarize(sum->latency);
  return stats;
}

std::string ConsumerCore::transport() const {
  const std::lock_guard lock(mutex_);
  return transport_words();
}

std::string ConsumerCore::transport_words() const {
  return transport_ == Transport::kAuto ? std::string() : std::string(to_string(transport_));
}

std::string ConsumerCore::transport_reason() const {
  const std::lock_guard lock(mutex_);
  return transport_reason_;
}

}  // namespace framelane::lane
