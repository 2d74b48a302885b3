// SPDX-License-Identifier: MIT
// Calls of a Client. How it finds its server is in client_session.cpp.
#include "lane/client_core.hpp"

#include <algorithm>
#include <cstring>
#include <limits>
#include <random>

#include <unistd.h>

#include "base/clock.hpp"
#include "base/futex.hpp"

namespace framelane::lane {
namespace {

constexpr std::int64_t kWatchdogNs = 200'000'000;
constexpr std::uint64_t kGenerations = std::uint64_t{1} << 40;

std::chrono::nanoseconds left_until(std::int64_t until_ns) noexcept {
  if (until_ns == base::kForever) return kForever;
  return std::chrono::nanoseconds(std::max<std::int64_t>(until_ns - base::monotonic_ns(), 0));
}

bool is_code(std::int64_t number) noexcept {
  return number >= static_cast<std::int64_t>(Code::kTimeout) && number <= static_cast<std::int64_t>(Code::kSystem);
}

}  // namespace

Result<std::shared_ptr<ClientCore>> ClientCore::create(ClientSettings settings) {
  auto pair = checked(PairSettings::of(settings));
  if (!pair) return tl::unexpected(pair.error());
  if (settings.connect_timeout.count() < 0) return fail(Code::kInvalidArgument, "connect-timeout must not be negative");
  // A consumer checks nothing but its settings until it connects: better here than in the first call.
  const auto probe = Consumer::open(in_settings(*pair, pair->responses, pair->max_response_size));
  if (!probe) return tl::unexpected(probe.error());
  auto producer = Producer::open(out_settings(*pair, pair->requests, pair->max_request_size));
  if (!producer) return tl::unexpected(producer.error());
  return std::shared_ptr<ClientCore>(new ClientCore(settings, std::move(*pair), std::move(*producer)));
}

ClientCore::ClientCore(const ClientSettings& settings, PairSettings pair, Producer producer)
    : pair_(std::move(pair)),
      connect_timeout_(settings.connect_timeout),
      pid_(getpid()),
      slots_(std::make_unique<Slot[]>(pair_.burst)),
      receiver_(in_settings(pair_, pair_.responses, pair_.max_response_size)),
      producer_(std::move(producer)) {
  std::random_device random;
  generation_ = (std::uint64_t{random()} << 32 | random()) % kGenerations;
  for (std::uint32_t i = pair_.burst; i > 0; --i) free_.push_back(static_cast<std::uint16_t>(i - 1));
  producer_.on_consumer([this](const ConsumerInfo&, bool joined, std::string_view) {
    if (joined) {
      joins_.fetch_add(1);
    } else if (producer_.num_consumers() == 0) {
      leaves_.fetch_add(1);
    }
    receiver_.poke();
  });
}

ClientCore::~ClientCore() { close(); }

// --- the table

ClientCore::Slot* ClientCore::allocate(State state, std::int64_t deadline_ns) {
  if (free_.empty()) return nullptr;
  const std::uint16_t index = free_.back();
  free_.pop_back();
  Slot& slot = slots_[index];
  slot.state = state;
  slot.deadline_ns = deadline_ns;
  slot.id = next_id(index);
  return &slot;
}

void ClientCore::free(Slot& slot) noexcept {
  slot.state = State::kFree;
  free_.push_back(static_cast<std::uint16_t>(slot.id & kIndexMask));  // never more than were there at first
}

std::uint64_t ClientCore::next_id(std::uint64_t index) noexcept {
  generation_ = (generation_ + 1) % kGenerations;
  return generation_ << 16 | index;
}

Result<void> ClientCore::stopped() const {
  const std::uint32_t stops = stops_.load();
  if ((stops & kStopClosed) != 0) return fail(Code::kInvalidArgument, "this client is closed");
  if (stops != 0) return fail(Code::kInterrupted);
  return {};
}

void ClientCore::Wakes::add(Slot& slot) noexcept {
  slot.word.fetch_add(1, std::memory_order_release);
  if (count_ == slots_.size()) return base::futex_wake(slot.word, 1);
  slots_[count_++] = &slot;
}

void ClientCore::Wakes::flush() noexcept {
  for (std::size_t i = 0; i < count_; ++i) base::futex_wake(slots_[i]->word, 1);
  count_ = 0;
}

// --- sending

Result<Loan> ClientCore::loan(std::size_t size) {
  if (size <= pair_.max_request_size) return producer_.loan(size + kTrailerBytes);
  return fail(Code::kTooLarge, "a request of " + std::to_string(size) + " bytes is larger than max-request-size (" +
                                   std::to_string(pair_.max_request_size) + "); raise it on both sides");
}

Result<Loan> ClientCore::loan_copy(std::span<const std::byte> bytes) {
  auto lent = loan(bytes.size());
  if (lent && !bytes.empty()) std::memcpy(lent->data(), bytes.data(), bytes.size());
  return lent;
}

Result<void> ClientCore::check_request(const Loan& loan, std::size_t size) const {
  if (!loan) return fail(Code::kInvalidArgument, "the loan is empty: it was sent or discarded already");
  if (size > loan.capacity() || loan.capacity() - size < kTrailerBytes) {
    return fail(Code::kInvalidArgument, "a request of " + std::to_string(size) +
                                            " bytes is larger than what was asked of loan(); take a larger loan");
  }
  return {};
}

Result<void> ClientCore::publish(Loan& loan, std::size_t size) {
  const std::lock_guard lock(send_mutex_);
  const auto sent = producer_.publish(loan, size);
  if (!sent) return tl::unexpected(sent.error());
  if (*sent == Published::kSent) return {};
  return fail(Code::kFull, "the lane of requests is full: the server doesn't take them");
}

Result<std::uint64_t> ClientCore::start(Loan& loan, std::size_t size, std::chrono::nanoseconds timeout) {
  if (auto fine = check_request(loan, size); !fine) return tl::unexpected(fine.error());
  const std::int64_t deadline = base::deadline_after(timeout);
  Wakes wakes;
  Lock lock(mutex_);
  if (auto stop = stopped(); !stop) return tl::unexpected(stop.error());
  if (free_.empty()) sweep(wakes);
  Slot* const slot = allocate(State::kConnecting, deadline);
  if (slot == nullptr) {
    return fail(Code::kFull, std::to_string(pair_.burst) +
                                 " requests have no answer yet; wait for some, or raise burst on both sides");
  }
  if (!ready()) {
    if (auto connected = connect(lock, *slot, deadline, wakes); !connected) {
      free(*slot);
      return tl::unexpected(connected.error());
    }
  }
  slot->state = State::kWaiting;
  ++stats_.sent;
  const std::uint64_t id = slot->id;
  const bool same_clock = same_clock_;
  lock.unlock();
  wakes.flush();
  if (auto sent = send(*slot, id, loan, size, same_clock); !sent) return tl::unexpected(sent.error());
  return id;
}

Result<void> ClientCore::send(Slot& slot, std::uint64_t id, Loan& loan, std::size_t size, bool same_clock) {
  const std::int64_t deadline = slot.deadline_ns;  // the slot is ours until somebody waits or cancels
  FrameKind kind = FrameKind::kRequest;
  std::int64_t time = 0;
  if (deadline != base::kForever) {
    kind = same_clock ? FrameKind::kRequestUntil : FrameKind::kRequestWithin;
    time = same_clock ? deadline : left_until(deadline).count();
  }
  write_trailer(loan.data() + size, kind, id, time);
  auto sent = publish(loan, size + kTrailerBytes);
  if (sent) return sent;
  const Lock lock(mutex_);
  free(slot);
  --stats_.sent;
  return sent;
}

void ClientCore::call(Result<Response>& response, Loan& loan, std::size_t size, std::chrono::nanoseconds timeout) {
  auto id = start(loan, size, timeout);
  if (!id) {
    response = tl::unexpected(std::move(id.error()));
    return;
  }
  bool over = false;
  wait(response, *id, base::kForever, timeout, over);
  if (!over) cancel(*id);
}

// --- waiting

void ClientCore::wait(Result<Response>& response, std::uint64_t id, std::int64_t until_ns,
                      std::chrono::nanoseconds timeout, bool& over) {
  Slot& slot = slot_of(id);
  Wakes wakes;
  Lock lock(mutex_);
  const std::int64_t until = std::min(until_ns, slot.deadline_ns);
  const bool told = until_ns == base::kForever && timeout != kForever;
  if (!told && slot.deadline_ns < until_ns) timeout = left_until(until);
  for (bool in_time = true;;) {
    over = slot.state != State::kWaiting;
    if (over) return collect(lock, slot, response);
    if (!in_time) {
      response = tl::unexpected(out_of_time(slot, over));
      return;
    }
    if (auto stop = stopped(); !stop) {
      over = (stops_.load() & kStopClosed) != 0;
      if (over) slot.state = State::kGivenUp;
      response = tl::unexpected(std::move(stop.error()));
      return;
    }
    if (reading_) {
      sleep(lock, slot, until);
      timeout = left_until(until);
      in_time = !reading_ || timeout.count() > 0;  // whom nobody reads for has to read, be it only for the others
      continue;
    }
    reading_ = true;
    in_time = read(lock, slot, until, timeout, wakes);
    hand_on(wakes);
  }
}

void ClientCore::sleep(Lock& lock, Slot& slot, std::int64_t until_ns) noexcept {
  const std::uint32_t seen = slot.word.load(std::memory_order_relaxed);
  slot.asleep = true;
  ++asleep_;
  lock.unlock();
  base::futex_wait(slot.word, seen, until_ns);
  lock.lock();
  slot.asleep = false;
  --asleep_;
}

// Reads until the call is answered or lost, or something has happened that wait() has to see. False: out of time.
bool ClientCore::read(Lock& lock, Slot& slot, std::int64_t until_ns, std::chrono::nanoseconds left, Wakes& wakes) {
  while (slot.state == State::kWaiting && stops_.load() == 0) {
    if (!ready()) {
      end_session(lock, {Code::kPeerLost, "it left the lane of requests"}, wakes);
      return true;
    }
    lock.unlock();
    wakes.flush();
    auto frame = receiver_.take(left);
    lock.lock();
    if (frame) {
      file(*frame, wakes);
      if (slot.state != State::kWaiting) return true;
    } else if (frame.error().code == Code::kInterrupted) {
      receiver_.unpoke();
    } else if (frame.error().code != Code::kTimeout) {
      end_session(lock, frame.error(), wakes);
      return true;
    }
    left = left_until(until_ns);
    if (left.count() == 0) return false;
  }
  return true;
}

// Puts an answer into its call's place. Under mutex_, by whom reading_ is.
void ClientCore::file(Frame& frame, Wakes& wakes) noexcept {
  const auto trailer_untrusted = read_trailer(frame.bytes());
  if (!trailer_untrusted) return;
  const FrameKind kind = trailer_untrusted->kind();
  const std::uint64_t id = trailer_untrusted->id();
  if ((kind != FrameKind::kAnswer && kind != FrameKind::kError) || (id & kIndexMask) >= pair_.burst) return;
  Slot& slot = slot_of(id);
  if (slot.id != id) return;  // of an earlier client, or from a server that answers twice
  if (slot.state == State::kGivenUp) {
    ++stats_.late;
    free(slot);
  } else if (slot.state == State::kWaiting) {
    slot.state = State::kAnswered;
    slot.kind = kind;
    slot.time = trailer_untrusted->time;
    slot.answer = std::move(frame);
    if (slot.asleep) wakes.add(slot);
  }
}

// When the table is full of calls that were given up: their answers may be here, but nobody reads.
void ClientCore::sweep(Wakes& wakes) noexcept {
  if (reading_ || !ready()) return;
  for (;;) {
    auto frame = receiver_.try_take();
    if (!frame || !*frame) return;  // the next one who waits sees what is wrong
    file(**frame, wakes);
  }
}

// Somebody else may read. Under mutex_.
void ClientCore::hand_on(Wakes& wakes) noexcept {
  reading_ = false;
  if ((stops_.load() & kStopClosed) != 0) {
    baton_word_.fetch_add(1, std::memory_order_release);
    base::futex_wake(baton_word_, std::numeric_limits<int>::max());
  }
  if (asleep_ == 0) return;
  // Somebody who will read, not go and send: those who connect sleep only while there is no session.
  const bool connecting = !ready();
  for (std::uint32_t i = 0; i < pair_.burst; ++i) {
    Slot& slot = slots_[i];
    if (!slot.asleep) continue;
    if (slot.state == State::kWaiting || (connecting && slot.state == State::kConnecting)) return wakes.add(slot);
  }
}

void ClientCore::wake_all() noexcept {
  for (std::uint32_t i = 0; i < pair_.burst; ++i) {
    if (!slots_[i].asleep) continue;
    slots_[i].word.fetch_add(1, std::memory_order_release);
    base::futex_wake(slots_[i].word, 1);
  }
}

void ClientCore::collect(Lock& lock, Slot& slot, Result<Response>& response) {
  if (slot.state != State::kAnswered) {
    free(slot);
    ++stats_.lost;
    response = tl::unexpected(lost_);
    return;
  }
  response->frame_ = std::move(slot.answer);  // one move less than by a Response of its own: each costs as a lock does
  const FrameKind kind = slot.kind;
  const std::int64_t time_untrusted = slot.time;
  free(slot);
  ++stats_.answered;
  lock.unlock();
  response->size_ = response->frame_.size() - kTrailerBytes;
  if (kind == FrameKind::kAnswer) return;
  std::string text(reinterpret_cast<const char*>(response->data()), response->size());
  if (is_code(time_untrusted)) {
    response = fail(static_cast<Code>(time_untrusted), std::move(text));
  } else {
    response = fail(Code::kProtocol, "the server's error answer has no known code");
  }
}

Error ClientCore::out_of_time(Slot& slot, bool& over) {
  over = slot.deadline_ns != base::kForever && base::monotonic_ns() >= slot.deadline_ns;
  if (!over) return {Code::kTimeout, "no answer yet"};
  slot.state = State::kGivenUp;
  return {Code::kTimeout, "no answer within the call's timeout"};
}

void ClientCore::cancel(std::uint64_t id) noexcept {
  Frame answer;  // released without the lock
  bool tell = false;
  {
    const Lock lock(mutex_);
    Slot& slot = slot_of(id);
    tell = slot.state == State::kWaiting;
    if (tell) {
      slot.state = State::kGivenUp;
    } else {
      answer = std::move(slot.answer);
      free(slot);
    }
  }
  if (!tell) return;
  format::Request request;
  request.type = format::RequestType::kCustom;
  request.number = kCancelKind;
  request.time = id;
  static_cast<void>(receiver_.send_upstream(request));  // without it the server works in vain, and that is all
}

// --- any thread

void ClientCore::interrupt() noexcept {
  {
    const Lock lock(mutex_);
    stops_.fetch_or(kStopInterrupt);
    wake_all();
  }
  receiver_.poke();
}

void ClientCore::resume() noexcept { stops_.fetch_and(~std::uint32_t{kStopInterrupt}); }

ClientStats ClientCore::stats() const {
  const Lock lock(mutex_);
  ClientStats stats = stats_;
  stats.in_flight = pair_.burst - static_cast<std::uint32_t>(free_.size());
  return stats;
}

bool ClientCore::connected() const {
  const Lock lock(mutex_);
  return ready();
}

void ClientCore::close() noexcept {
  if (getpid() != pid_) {  // a forked child's copy: what the Frames lie in isn't mapped here
    static_cast<void>(slots_.release());
    return;
  }
  Lock lock(mutex_);
  stops_.fetch_or(kStopClosed);
  wake_all();
  lock.unlock();
  receiver_.poke();
  lock.lock();
  while (reading_ && !drained_) {
    const std::uint32_t seen = baton_word_.load(std::memory_order_acquire);
    lock.unlock();
    base::futex_wait(baton_word_, seen, base::monotonic_ns() + kWatchdogNs);
    lock.lock();
  }
  if (std::exchange(drained_, true)) return;
  reading_ = true;  // for ever
  ready_ = false;
  lock.unlock();
  receiver_.drop();
  const std::lock_guard sending(send_mutex_);
  producer_.close();
}

}  // namespace framelane::lane
