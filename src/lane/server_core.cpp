// SPDX-License-Identifier: MIT
#include "lane/server_core.hpp"

#include <algorithm>
#include <cstring>
#include <limits>

#include <unistd.h>

#include "framelane/base/log.hpp"

#include "base/clock.hpp"
#include "base/futex.hpp"

namespace framelane::lane {
namespace {

constexpr std::int64_t kAfterFaultNs = 500'000'000;  // before a lane that can't be joined is tried again

std::chrono::nanoseconds left_until(std::int64_t until_ns) noexcept {
  if (until_ns == base::kForever) return kForever;
  return std::chrono::nanoseconds(std::max<std::int64_t>(until_ns - base::monotonic_ns(), 0));
}

/// Of a counter that one thread writes: no locked instruction.
void count(std::atomic<std::uint64_t>& counter) noexcept {
  counter.store(counter.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
}

}  // namespace

Result<std::shared_ptr<ServerCore>> ServerCore::create(ServerSettings settings) {
  auto pair = checked(PairSettings::of(settings));
  if (!pair) return tl::unexpected(pair.error());
  // A consumer checks nothing but its settings until it connects: better here than in next().
  const auto probe = Consumer::open(in_settings(*pair, pair->requests, pair->max_request_size));
  if (!probe) return tl::unexpected(probe.error());
  auto producer = Producer::open(out_settings(*pair, pair->responses, pair->max_response_size));
  if (!producer) return tl::unexpected(producer.error());
  return std::shared_ptr<ServerCore>(new ServerCore(std::move(*pair), std::move(*producer)));
}

ServerCore::ServerCore(PairSettings pair, Producer producer)
    : pair_(std::move(pair)),
      pid_(getpid()),
      receiver_(in_settings(pair_, pair_.requests, pair_.max_request_size)),
      producer_(std::move(producer)) {
  cancels_.reserve(std::size_t{2} * pair_.burst);
  producer_.on_consumer([this](const ConsumerInfo&, bool joined, std::string_view) { on_consumer(joined); });
  producer_.on_request([this] { cancels_came_.store(true); });
}

ServerCore::~ServerCore() { close(); }

// --- clients

void ServerCore::on_consumer(bool joined) noexcept {
  if (!joined && producer_.num_consumers() == 0) session_.fetch_add(1);  // nobody is left who could get an answer
  news();
}

void ServerCore::news() noexcept {
  receiver_.poke();  // first: who is woken below then isn't disturbed once more while it connects
  news_.fetch_add(1);
  base::futex_wake(news_, std::numeric_limits<int>::max());
}

// False: out of time. True: connected, or something has changed. A client joins our lane first: until one does there is
// nothing to look for, and when it does its own lane is there.
bool ServerCore::find_client(std::int64_t until_ns) {
  const std::uint32_t seen = news_.load();
  if (stops_.load() != 0) return true;
  const auto left = left_until(until_ns);
  if (producer_.num_consumers() == 0) {
    receiver_.drop();
    if (left.count() == 0) return false;
    base::futex_wait(news_, seen, until_ns);
    return true;
  }
  auto connected = receiver_.connect(left);
  if (connected) return true;
  const Code code = connected.error().code;
  if (code == Code::kTimeout) return false;
  receiver_.drop();  // whoever came: the first try of the next one comes at once
  if (code == Code::kInterrupted) return true;
  base::log(base::LogLevel::kWarning, "no way to the client of " + pair_.requests + ": " + connected.error().text);
  base::futex_wait(news_, seen, std::min(until_ns, base::monotonic_ns() + kAfterFaultNs));
  return true;
}

void ServerCore::drop_client(std::string_view why) noexcept {
  session_.fetch_add(1);
  receiver_.drop();
  base::log(base::LogLevel::kInfo, "lost the client of " + pair_.requests + ": " + std::string(why));
}

Result<void> ServerCore::greet(std::span<const std::byte> payload, const Trailer& trailer_untrusted) {
  if (payload.size() != sizeof(Terms)) return fail(Code::kProtocol, "size of a hello");
  Terms terms_untrusted;
  std::memcpy(&terms_untrusted, payload.data(), sizeof terms_untrusted);
  const std::string refusal = unsuitable(terms_untrusted, trailer_untrusted.time);
  if (!refusal.empty()) return publish_error(trailer_untrusted.id(), Code::kRefused, refusal);
  {
    const std::lock_guard lock(cancels_mutex_);
    cancels_.clear();
    cancelled_.store(0);
  }
  greeted_ = session_.fetch_add(1) + 1;
  count(sessions_);
  auto loan = producer_.loan(kTrailerBytes);
  if (!loan) return tl::unexpected(loan.error());
  return publish(*loan, 0, FrameKind::kWelcome, trailer_untrusted.id(), kRpcVersion);
}

std::string ServerCore::unsuitable(const Terms& terms_untrusted, std::int64_t version_untrusted) const {
  if (version_untrusted != kRpcVersion) {
    return "the client speaks version " + std::to_string(version_untrusted) +
           " of requests and responses, the server " + std::to_string(kRpcVersion) + "; update the older one";
  }
  const auto differ = [](const char* name, std::uint64_t client, std::uint64_t server, const char* relation) {
    return std::string("the client's ") + name + " (" + std::to_string(client) + ") must be " + relation +
           " the server's (" + std::to_string(server) + "); change one of them";
  };
  if (terms_untrusted.burst > pair_.burst) return differ("burst", terms_untrusted.burst, pair_.burst, "at most");
  if (terms_untrusted.max_request_size > pair_.max_request_size)
    return differ("max-request-size", terms_untrusted.max_request_size, pair_.max_request_size, "at most");
  if (terms_untrusted.max_response_size < pair_.max_response_size)
    return differ("max-response-size", terms_untrusted.max_response_size, pair_.max_response_size, "at least");
  return {};
}

// --- requests

void ServerCore::next(Result<Request>& request, std::chrono::nanoseconds timeout) {
  const std::int64_t until = base::deadline_after(timeout);
  for (auto left = timeout; stops_.load() == 0; left = left_until(until)) {
    if (receiver_.connected()) {
      if (take(*request, left)) return;
      if (left.count() != 0) continue;
    } else {
      receiver_.unpoke();
      if (find_client(until)) continue;
    }
    request = fail(Code::kTimeout, "no request in time");
    return;
  }
  const bool closed = (stops_.load() & kStopClosed) != 0;
  request = closed ? fail(Code::kInvalidArgument, "this server is closed") : fail(Code::kInterrupted);
}

// The next frame of a client that is there. False: it was no request for the application, or none came.
bool ServerCore::take(Request& request, std::chrono::nanoseconds left) {
  auto frame = receiver_.take(left);
  if (frame) {
    const auto mine = look_at(*frame, request);
    if (!mine) drop_client("it broke the protocol of requests and responses: " + mine.error().text);
    return mine && *mine;
  }
  if (frame.error().code == Code::kInterrupted) {
    receiver_.unpoke();
  } else if (frame.error().code != Code::kTimeout) {
    drop_client(frame.error().text);
  }
  return false;
}

Result<bool> ServerCore::look_at(Frame& frame, Request& request) {
  const auto trailer_untrusted = read_trailer(frame.bytes());
  if (!trailer_untrusted) return fail(Code::kProtocol, "a frame without a trailer");
  const std::size_t size = frame.size() - kTrailerBytes;
  switch (trailer_untrusted->kind()) {
    case FrameKind::kHello:
      return greet(frame.bytes().first(size), *trailer_untrusted).map([] { return false; });
    case FrameKind::kRequest:
    case FrameKind::kRequestUntil:
    case FrameKind::kRequestWithin:
      return accept(frame, size, *trailer_untrusted, request);
    default:
      return fail(Code::kProtocol, "kind of a frame");
  }
}

bool ServerCore::accept(Frame& frame, std::size_t size, const Trailer& trailer_untrusted, Request& request) {
  const std::uint64_t session = session_.load();
  if (session != greeted_) return false;  // its client went away, so nobody wants it
  const std::uint64_t id = trailer_untrusted.id();
  std::int64_t deadline = format::kNoClockTime;
  if (trailer_untrusted.kind() != FrameKind::kRequest) {
    const std::int64_t time_untrusted = trailer_untrusted.time;  // any value does: it is only compared
    const bool same_clock = trailer_untrusted.kind() == FrameKind::kRequestUntil;
    deadline = same_clock ? time_untrusted : base::deadline_after(std::chrono::nanoseconds(time_untrusted));
    if (base::monotonic_ns() >= deadline) {
      count(expired_);
      static_cast<void>(publish_error(id, Code::kTimeout, "the deadline passed before the server took the request"));
      return false;
    }
  }
  if (is_cancelled(id)) {
    count(dropped_cancelled_);
    forget_cancel(id);
    static_cast<void>(publish_error(id, Code::kInterrupted, "cancelled"));
    return false;
  }
  count(taken_);
  request.core_ = shared_from_this();
  request.frame_ = std::move(frame);
  request.size_ = size;
  request.id_ = id;
  request.session_ = session;
  request.deadline_ns_ = deadline;
  return true;
}

void ServerCore::collect_cancels() {
  if (!cancels_came_.load() || !cancels_came_.exchange(false)) return;
  const std::lock_guard lock(cancels_mutex_);
  for (const ConsumerRequest& came : producer_.take_requests()) {
    const format::Request& request = came.request;
    if (request.type != format::RequestType::kCustom || request.number != kCancelKind) continue;
    // One that came too late for its request stays here until newer ones push it out.
    if (cancels_.size() >= 2 * std::size_t{pair_.burst}) cancels_.erase(cancels_.begin());
    cancels_.push_back(request.time);
  }
  cancelled_.store(cancels_.size());
}

bool ServerCore::is_cancelled(std::uint64_t id) {
  collect_cancels();
  if (cancelled_.load() == 0) return false;
  const std::lock_guard lock(cancels_mutex_);
  return std::find(cancels_.begin(), cancels_.end(), id) != cancels_.end();
}

bool ServerCore::cancelled(const Request& request) { return !check_session(request) || is_cancelled(request.id_); }

void ServerCore::finish(const Request& request, bool answered) noexcept {
  (answered ? answered_ : let_go_).fetch_add(1, std::memory_order_relaxed);
  forget_cancel(request.id_);
}

void ServerCore::forget_cancel(std::uint64_t id) noexcept {
  if (cancelled_.load() == 0) return;
  const std::lock_guard lock(cancels_mutex_);
  std::erase(cancels_, id);
  cancelled_.store(cancels_.size());
}

// --- answers

Result<Loan> ServerCore::loan(std::size_t size) {
  if (size <= pair_.max_response_size) return producer_.loan(size + kTrailerBytes);
  return fail(Code::kTooLarge, "a response of " + std::to_string(size) + " bytes is larger than max-response-size (" +
                                   std::to_string(pair_.max_response_size) + "); raise it on both sides");
}

Result<void> ServerCore::check_session(const Request& request) const {
  if ((stops_.load() & kStopClosed) != 0) return fail(Code::kInvalidArgument, "this server is closed");
  if (session_.load() == request.session_) return {};
  return fail(Code::kPeerLost, "the client of " + pair_.requests + " has gone; nobody waits for this answer");
}

Result<void> ServerCore::respond(const Request& request, Loan& loan, std::size_t size) {
  if (auto here = check_session(request); !here) return here;
  if (!loan) return fail(Code::kInvalidArgument, "the loan is empty: it was sent or discarded already");
  if (size > loan.capacity() || loan.capacity() - size < kTrailerBytes) {
    return fail(Code::kInvalidArgument, "a response of " + std::to_string(size) +
                                            " bytes is larger than what was asked of loan(); take a larger loan");
  }
  return publish(loan, size, FrameKind::kAnswer, request.id_, 0);
}

Result<void> ServerCore::respond_error(const Request& request, Code code, std::string_view text) {
  if (auto here = check_session(request); !here) return here;
  return publish_error(request.id_, code, text);
}

Result<void> ServerCore::publish_error(std::uint64_t id, Code code, std::string_view text) {
  text = text.substr(0, payload_limit(pair_.max_response_size));
  auto loan = producer_.loan(text.size() + kTrailerBytes);
  if (!loan) return tl::unexpected(loan.error());
  if (!text.empty()) std::memcpy(loan->data(), text.data(), text.size());
  return publish(*loan, text.size(), FrameKind::kError, id, static_cast<std::int64_t>(code));
}

Result<void> ServerCore::publish(Loan& loan, std::size_t size, FrameKind kind, std::uint64_t id, std::int64_t time) {
  write_trailer(loan.data() + size, kind, id, time);
  const std::lock_guard lock(send_mutex_);
  const auto sent = producer_.publish(loan, size + kTrailerBytes);
  if (!sent) return tl::unexpected(sent.error());
  if (*sent == Published::kSent) return {};
  return fail(Code::kFull, "the lane of responses is full: the client doesn't take them");
}

// --- any thread

void ServerCore::interrupt() noexcept {
  stops_.fetch_or(kStopInterrupt);
  news();
}

void ServerCore::resume() noexcept { stops_.fetch_and(~std::uint32_t{kStopInterrupt}); }

ServerStats ServerCore::stats() const {
  ServerStats stats;
  stats.answered = answered_.load(std::memory_order_relaxed);
  const std::uint64_t over = stats.answered + let_go_.load(std::memory_order_acquire);
  stats.taken = taken_.load(std::memory_order_relaxed);
  stats.expired = expired_.load(std::memory_order_relaxed);
  stats.cancelled = dropped_cancelled_.load(std::memory_order_relaxed);
  stats.sessions = sessions_.load(std::memory_order_relaxed);
  stats.open = static_cast<std::uint32_t>(stats.taken - std::min(over, stats.taken));
  return stats;
}

void ServerCore::close() noexcept {
  if (getpid() != pid_) return;  // a forked child's copy
  if ((stops_.fetch_or(kStopClosed) & kStopClosed) != 0) return;
  news();
  receiver_.drop();
  const std::lock_guard lock(send_mutex_);
  producer_.close();
}

}  // namespace framelane::lane
