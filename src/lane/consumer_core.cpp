// SPDX-License-Identifier: MIT
#include "lane/consumer_core.hpp"

#include <algorithm>
#include <cerrno>
#include <new>

#include <poll.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "framelane/base/log.hpp"
#include "framelane/descriptor/descriptor.hpp"

#include "base/clock.hpp"
#include "base/text.hpp"
#include "lane/settings_check.hpp"
#include "memory/sealed_memory.hpp"

namespace framelane::lane {
namespace {

constexpr std::int64_t kHandshakeNs = 5'000'000'000;
constexpr std::int64_t kFirstBackoffNs = 20'000'000;
constexpr std::int64_t kMostBackoffNs = 250'000'000;

Error lasting(const wire::Reject& reject) {
  switch (reject.code) {
    case wire::RejectCode::kPermission:
      return {Code::kPermission, reject.sentence};
    case wire::RejectCode::kFrameSize:
      return {Code::kTooLarge, reject.sentence};
    case wire::RejectCode::kUnsupported:
    case wire::RejectCode::kVersion:
    case wire::RejectCode::kByteOrder:
      return {Code::kUnsupported, reject.sentence};
    default:
      return {Code::kRefused, reject.sentence};
  }
}

}  // namespace

struct ConsumerCore::Totals {
  std::uint64_t taken = 0;
  std::uint64_t skipped = 0;
  std::uint64_t copied = 0;
  std::uint64_t sleeps = 0;
  std::uint64_t spins = 0;
  std::uint64_t connections = 0;
  measure::HistogramCells latency{};

  void add(const Totals& other) noexcept {
    taken += other.taken;
    skipped += other.skipped;
    copied += other.copied;
    sleeps += other.sleeps;
    spins += other.spins;
    connections += other.connections;
    measure::merge(latency, other.latency);
  }

  void add(const ring::Reader& reader) noexcept {
    constexpr auto relaxed = std::memory_order_relaxed;
    const ring::ConsumerPage& page = reader.page();
    taken += page.taken.load(relaxed);
    skipped += page.skipped.load(relaxed);
    copied += page.copied.load(relaxed);
    sleeps += page.sleeps.load(relaxed);
    spins += reader.spins();
    measure::merge(latency, page.latency);
  }
};

Result<std::unique_ptr<ConsumerCore>> ConsumerCore::create(ConsumerSettings settings) {
  if (auto fine = check(settings); !fine) return tl::unexpected(fine.error());
  const auto descriptor = descriptor::Descriptor::parse(settings.lane, descriptor::Side::kConsumer);
  if (!descriptor) return tl::unexpected(descriptor.error());
  const auto address = shm_address(*descriptor, descriptor::Side::kConsumer);
  if (!address) return tl::unexpected(address.error());
  auto path = address->socket_path();
  if (!path) return tl::unexpected(path.error());
  base::UniqueFd interrupt_fd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!interrupt_fd.valid())
    return fail(Code::kSystem, std::string("no event descriptor: ") + base::system_words(errno));
  std::string canonical = descriptor->to_string();
  return std::unique_ptr<ConsumerCore>(
      new ConsumerCore(std::move(settings), std::move(canonical), std::move(*path), std::move(interrupt_fd)));
}

ConsumerCore::ConsumerCore(ConsumerSettings settings, std::string descriptor, std::string path,
                           base::UniqueFd interrupt_fd)
    : settings_(std::move(settings)),
      descriptor_(std::move(descriptor)),
      path_(std::move(path)),
      pid_(getpid()),
      interrupt_fd_(std::move(interrupt_fd)),
      jitter_(static_cast<std::uint32_t>(base::monotonic_ns()) ^ static_cast<std::uint32_t>(getpid())),
      totals_(std::make_unique<Totals>()) {}

ConsumerCore::~ConsumerCore() { close(); }

// --- connect

Result<void> ConsumerCore::connect(std::int64_t deadline_ns) {
  while (connection_ == nullptr) {
    if (interrupted()) return fail(Code::kInterrupted);
    auto moved = connect_step(deadline_ns);
    if (!moved) return tl::unexpected(moved.error());
    if (!*moved) return fail(Code::kTimeout, "no producer of " + descriptor_ + " yet");
  }
  return {};
}

Result<bool> ConsumerCore::connect_step(std::int64_t until_ns) {
  if (final_) return tl::unexpected(*final_);
  const std::int64_t now = base::monotonic_ns();
  if (connect_until_ == 0) {
    // connect-timeout bounds the first connection only: a lane that was there once is worth waiting for.
    connect_until_ = totals_->connections == 0 ? base::deadline_after(settings_.connect_timeout) : base::kForever;
  }
  if (handshake_) return await_welcome(until_ns);
  if (now >= next_try_) return call();
  if (now >= until_ns) return false;
  pause(std::min(next_try_, until_ns), -1);
  return true;
}

Result<bool> ConsumerCore::call() {
  auto socket = transport::ControlSocket::connect(path_);
  if (!socket) {
    const Code code = socket.error().code;
    if (code == Code::kNotFound || code == Code::kTimeout) return retry_later(socket.error());
    connect_until_ = 0;
    return tl::unexpected(socket.error());
  }
  const transport::PeerCredentials peer = socket->peer();
  if (peer.uid != geteuid() && peer.uid != 0) {
    connect_until_ = 0;
    return fail(Code::kPermission, "the producer of " + descriptor_ + " runs as another user (uid " +
                                       std::to_string(peer.uid) +
                                       "); frames are only taken from the same user or root");
  }
  const auto bytes = wire::encode(hello(), 0);
  auto sent = socket->send(bytes);
  if (!sent) return retry_later(sent.error());
  handshake_ = std::move(*socket);
  handshake_until_ = base::monotonic_ns() + kHandshakeNs;
  return true;
}

wire::Hello ConsumerCore::hello() const {
  wire::Hello hello;
  hello.mode = settings_.mode == Mode::kLatest ? wire::Mode::kLatest : wire::Mode::kEvery;
  hello.gating = settings_.gating && settings_.mode == Mode::kEvery;
  hello.max_held = settings_.max_held;
  hello.abi_version = ring::kAbiVersion;
  hello.transports = wire::kTransportShm;
  hello.max_frame_size = settings_.max_frame_size;
  hello.name = program_invocation_short_name;
  return hello;
}

Result<bool> ConsumerCore::await_welcome(std::int64_t until_ns) {
  auto received = handshake_->receive();
  if (!received) {
    const Error why = received.error();
    handshake_.reset();
    if (why.code == Code::kPeerLost) return retry_later(why);
    connect_until_ = 0;
    return tl::unexpected(why);
  }
  if (*received) return welcomed(std::move(**received));
  const std::int64_t now = base::monotonic_ns();
  if (now >= handshake_until_ || now >= connect_until_) {
    handshake_.reset();
    return retry_later({Code::kTimeout, "a producer is there, but doesn't answer"});
  }
  if (now >= until_ns) return false;
  pause(std::min({until_ns, handshake_until_, connect_until_}), handshake_->fd());
  return true;
}

Result<bool> ConsumerCore::welcomed(transport::Received received) {
  transport::ControlSocket socket = std::move(*handshake_);
  handshake_.reset();
  auto decoded = wire::decode(received.bytes);
  if (decoded) {
    if (const auto* const reject = std::get_if<wire::Reject>(&decoded->message)) {
      if (wire::is_passing(reject->code)) return retry_later({Code::kRefused, reject->sentence});
      connect_until_ = 0;
      return tl::unexpected(lasting(*reject));
    }
  }
  connect_until_ = 0;
  if (!decoded) return tl::unexpected(decoded.error());
  auto* const welcome = std::get_if<wire::Welcome>(&decoded->message);
  if (welcome == nullptr)
    return fail(Code::kProtocol, "the producer broke the lane's protocol: first message isn't a WELCOME");
  ConnectionSettings wanted;
  wanted.max_frame_size = settings_.max_frame_size;
  wanted.latest = settings_.mode == Mode::kLatest;
  wanted.spin = spin_kind(settings_.spin);
  wanted.spin_budget = settings_.spin_budget;
  auto connection = Connection::create(std::move(socket), std::move(*welcome), std::move(received.fds), wanted);
  if (!connection) return tl::unexpected(connection.error());
  backoff_ns_ = 0;
  next_try_ = 0;
  refusal_.reset();
  caps_.clear();  // the next producer may say none
  const std::lock_guard lock(mutex_);
  connection_ = *connection;
  ++totals_->connections;
  base::log(base::LogLevel::kInfo, "connected to " + descriptor_ + " by shm (same host, descriptors passed)");
  return true;
}

Result<bool> ConsumerCore::retry_later(Error why) {
  const std::int64_t now = base::monotonic_ns();
  if (why.code == Code::kRefused) refusal_ = why;
  if (now >= connect_until_) {
    // The last try may have had no time for its answer; a refusal before it says more.
    if (why.code == Code::kTimeout && refusal_) why = *refusal_;
    refusal_.reset();
    connect_until_ = 0;
    next_try_ = 0;
    backoff_ns_ = 0;
    const Code code = why.code == Code::kRefused ? Code::kRefused : Code::kNotFound;
    const auto seconds = std::chrono::duration<double>(settings_.connect_timeout).count();
    char waited[32];
    std::snprintf(waited, sizeof waited, "%.3g s", seconds);
    return fail(code, "no connection to " + descriptor_ + " within " + waited + " (" + why.text +
                          "); start the producer, check the lane's name, or raise connect-timeout");
  }
  backoff_ns_ = backoff_ns_ == 0 ? kFirstBackoffNs : std::min(backoff_ns_ * 3 / 2, kMostBackoffNs);
  std::uniform_int_distribution<std::int64_t> spread(backoff_ns_ * 3 / 4, backoff_ns_ * 5 / 4);
  next_try_ = std::min(now + spread(jitter_), connect_until_);
  return true;
}

void ConsumerCore::pause(std::int64_t until_ns, int fd) noexcept {
  pollfd fds[2] = {{interrupt_fd_.get(), POLLIN, 0}, {fd, POLLIN, 0}};
  timespec left{};
  if (until_ns != base::kForever) {
    const std::int64_t wait = std::max<std::int64_t>(until_ns - base::monotonic_ns(), 0);
    left.tv_sec = static_cast<time_t>(wait / 1'000'000'000);
    left.tv_nsec = static_cast<long>(wait % 1'000'000'000);
  }
  ppoll(fds, fd >= 0 ? 2 : 1, until_ns != base::kForever ? &left : nullptr, nullptr);
}

// --- take

bool ConsumerCore::plain() const noexcept {
  return connection_ != nullptr && !interrupted() && !ended_ && !stash_ && connection_->events().empty();
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
      if (timeout.count() > 0 && plain() && connection_->spin_briefly()) continue;
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
  connection_->wait([this] { return interrupted(); }, deadline_ns);
  return true;
}

Result<bool> ConsumerCore::take_at_once(Frame& frame) {
  if (!plain()) return false;
  auto step = connection_->poll(frame);
  if (!step) return after_error(step.error()).map([](bool) { return false; });
  if (*step != Connection::Step::kFrame) return false;
  if (connection_->events().empty()) return true;
  stash_ = std::move(frame);
  return false;
}

[[gnu::noinline]] Result<std::optional<Item>> ConsumerCore::next(std::int64_t deadline_ns, bool events) {
  for (;;) {
    if (interrupted()) return fail(Code::kInterrupted);
    if (connection_ != nullptr) {
      auto item = deliver(events);
      if (!item || *item) return item;
    }
    if (ended_ && connection_ == nullptr) return fail(Code::kEndOfStream, "end of stream");
    // After an end only what is already there counts: a new stream, or nothing.
    auto moved = connection_ != nullptr ? poll_connection(ended_ ? 0 : deadline_ns) : connect_step(deadline_ns);
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

Result<std::optional<Item>> ConsumerCore::deliver(bool events) {
  auto& waiting = connection_->events();
  while (!waiting.empty()) {
    format::Event event = std::move(waiting.front());
    waiting.pop_front();
    ended_ = event.type == format::EventType::kEndOfStream;
    if (event.type == format::EventType::kCaps) caps_ = event.text;
    if (events) return std::optional<Item>(std::move(event));
    if (ended_) return fail(Code::kEndOfStream, "end of stream");
  }
  if (!stash_) return std::optional<Item>();
  ended_ = false;
  return std::optional<Item>(std::move(stash_));
}

Result<bool> ConsumerCore::poll_connection(std::int64_t deadline_ns) {
  for (;;) {
    // Before the poll: what a producer published before it died is still taken.
    const bool lost = connection_->lost();
    auto step = connection_->poll(stash_);
    if (!step) return after_error(step.error());
    if (*step != Connection::Step::kNothing || !connection_->events().empty()) return true;
    if (lost) return connection_over(std::nullopt);
    if (interrupted()) return true;
    if (deadline_ns == 0 || (deadline_ns != base::kForever && base::monotonic_ns() >= deadline_ns)) return false;
    connection_->wait([this] { return interrupted(); }, deadline_ns);
  }
}

[[gnu::noinline, gnu::cold]] Result<bool> ConsumerCore::after_error(const Error& error) {
  if (error.code == Code::kPeerLost) return connection_over(std::nullopt);
  if (error.code == Code::kInterrupted) return tl::unexpected(error);
  // A segment that is too large, or that there is no memory for, ends it too: the producer must not wait for us.
  if (error.code == Code::kProtocol || connection_->fault()) return connection_over(error);
  return tl::unexpected(error);
}

Result<bool> ConsumerCore::connection_over(std::optional<Error> why) {
  if (!why) why = connection_->fault();
  drop_connection();
  if (ended_ && !why) return true;
  if (!settings_.reconnect) {
    final_ = why ? *why : Error{Code::kPeerLost, "the producer of " + descriptor_ + " left without an end of stream"};
    return tl::unexpected(*final_);
  }
  base::log(base::LogLevel::kInfo, "lost the producer of " + descriptor_ + "; waiting for it to come back");
  if (why) return tl::unexpected(*why);
  return true;
}

void ConsumerCore::drop_connection() noexcept {
  stash_.release();
  Connection* dropped = nullptr;
  {
    const std::lock_guard lock(mutex_);
    dropped = std::exchange(connection_, nullptr);
    if (dropped == nullptr) return;
    totals_->add(dropped->reader());
  }
  if (dropped->reader().held() != 0) dropped->leave();
  dropped->drop();
}

// --- any thread

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
    static_cast<void>(new (std::nothrow) Frame(std::move(stash_)));  // never released: its page isn't mapped here
    return;
  }
  handshake_.reset();
  drop_connection();
  if (!ended_) final_ = Error{Code::kInvalidArgument, "this consumer is closed"};
}

ConsumerStats ConsumerCore::stats() const {
  const std::lock_guard lock(mutex_);
  const auto sum = std::make_unique<Totals>();
  sum->add(*totals_);
  ConsumerStats stats;
  if (connection_ != nullptr) {
    sum->add(connection_->reader());
    stats.held = connection_->reader().held();
    stats.connected = !connection_->lost();
    stats.gating = connection_->gating();
    stats.demoted = connection_->demoted();
  }
  stats.taken = sum->taken;
  stats.skipped = sum->skipped;
  stats.copied = sum->copied;
  stats.sleeps = sum->sleeps;
  stats.spins = sum->spins;
  stats.connections = sum->connections;
  stats.transport = sum->connections != 0 ? "shm" : "";
  stats.latency = measure::summarize(sum->latency);
  return stats;
}

std::string ConsumerCore::transport() const {
  const std::lock_guard lock(mutex_);
  return totals_->connections != 0 ? "shm" : "";
}

}  // namespace framelane::lane
