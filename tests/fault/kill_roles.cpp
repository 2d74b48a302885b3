// SPDX-License-Identifier: MIT
#include "kill_roles.hpp"

#include <unistd.h>

#include "board.hpp"
#include "lane/lanes.hpp"
#include "shared.hpp"
#include "traffic.hpp"

namespace framelane::fault {
namespace {

using namespace std::chrono_literals;
using lane_test::eventually;
using lane_test::kPatience;

constexpr unsigned kOrphanSeconds = 60;
constexpr auto kSilence = 30s;  // without a frame while somebody publishes

/// A child that keeps every descriptor, and does nothing.
pid_t fork_one() {
  const pid_t child = fork();
  if (child != 0) return child;
  alarm(kOrphanSeconds);
  for (;;) pause();
}

ProducerSettings settings_of_producer(bool demotes) {
  ProducerSettings settings;
  settings.full_timeout = kForever;
  settings.stall_timeout = demotes ? std::chrono::nanoseconds(100ms) : kForever;
  return settings;
}

std::string counted(std::uint64_t count, const std::string& what) { return std::to_string(count) + ' ' + what; }

/// All slots but that of the newest frame, which stays in the ring.
bool has_all_slots(Producer& producer, std::uint64_t published) {
  std::vector<std::uint16_t> none;
  producer.reclaimed(none);
  const ProducerStats stats = producer.stats();
  const bool keeps_one = published != 0 && size_of(published - 1) > 32;
  return stats.loans == 0 && stats.free_slots == stats.slots - (keeps_one ? 1 : 0);
}

/// Empty: all is well.
std::string check(Producer& producer, std::uint64_t published, std::uint32_t consumers) {
  if (!eventually([&] { return producer.num_consumers() == consumers; }))
    return counted(producer.num_consumers(), "consumers instead of " + std::to_string(consumers));
  if (const auto drained = producer.drain(kPatience); !drained) return drained.error().text;
  if (!eventually([&] { return has_all_slots(producer, published); })) {
    const ProducerStats stats = producer.stats();
    return counted(stats.free_slots, "of " + std::to_string(stats.slots) + " slots are free, and " +
                                         std::to_string(stats.loans) + " lent, when everything is taken");
  }
  if (const std::uint64_t counts = producer.stats().published; counts != published)
    return counted(counts, "frames counted, and " + std::to_string(published) + " published");
  return {};
}

/// Empty: published.
std::string publish_next(Producer& producer, const FrameId& id) {
  if (id.number % 64 == 63) {
    const auto sent = producer.send(lane_test::event(format::EventType::kCustom, "between"));
    if (!sent) return sent.error().text;
  }
  const auto sent = publish_frame(producer, id, size_of(id.number));
  if (!sent) return sent.error().text;
  return *sent == Published::kSent ? std::string() : "a frame was dropped";
}

void say_end(Producer& producer, Board& board, ProducerRow& own) {
  if (const auto ended = producer.end_of_stream(); !ended) return own.complaint.say(ended.error().text);
  own.ended.store(true);
  static_cast<void>(eventually([&] { return board.command.load() == Command::kQuit; }));
}

/// One look at what is asked, and one frame. False: it is over.
bool produce_one(Producer& producer, Board& board, ProducerRow& own, FrameId& id) {
  if (board.fork.exchange(false)) own.orphan.store(fork_one());
  if (board.command.load() == Command::kEnd) {
    say_end(producer, board, own);
    return false;
  }
  std::string wrong;
  if (const std::uint32_t asked = board.check.load(); asked != own.checked.load()) {
    wrong = check(producer, id.number, board.consumers.load());
    own.demotions.store(producer.stats().demotions);
    own.checked.store(asked);
  } else if (board.command.load() == Command::kCheck) {
    std::this_thread::sleep_for(100us);
  } else {
    wrong = publish_next(producer, id);
    own.published.store(++id.number);
  }
  if (!wrong.empty()) own.complaint.say(wrong);
  return wrong.empty();
}

void enter(ConsumerRow& own, const Account& account) {
  const auto& [producer, run] = *account.runs().rbegin();
  own.next[producer].store(run.next);
  own.producer.store(producer);
  own.skipped.store(run.skipped);
  own.taken.fetch_add(1);
}

}  // namespace

int produce_until_killed(const std::string& path, std::uint32_t producer, bool demotes) {
  const Shared<Board> board(path);
  ProducerRow& own = board->producers[producer];
  Producer lane = lane_test::produce(settings_of_producer(demotes));
  if (!lane.wait_for_consumers(1, kPatience)) {
    own.complaint.say("no consumer came");
    return 1;
  }
  for (FrameId id{producer, 0}; produce_one(lane, *board, own, id);) {
  }
  return own.complaint.is_there.load() ? 1 : 0;
}

int consume_until_killed(const std::string& path, std::size_t row, std::size_t kept) {
  const Shared<Board> board(path);
  ConsumerRow& own = board->rows[row];
  ConsumerSettings settings;
  settings.connect_timeout = kPatience;
  Consumer consumer = lane_test::consume(settings);
  Account account(kept);
  auto last = std::chrono::steady_clock::now();
  for (;;) {
    if (own.fork.exchange(false)) own.orphan.store(fork_one());
    auto frame = consumer.take(10ms);
    const auto now = std::chrono::steady_clock::now();
    if (frame) {
      account.take(std::move(*frame));
      if (account.fault().empty()) enter(own, account);
      last = now;
    } else if (frame.error().code == Code::kEndOfStream) {
      break;
    } else if (frame.error().code != Code::kTimeout) {
      own.complaint.say(frame.error().text);
    } else if (now - last > kSilence && board->command.load() == Command::kRun) {
      own.complaint.say("no frame for 30 s");
    }
    if (!frame) account.release_all();  // who waits holds nothing: then all slots can be counted
    if (!account.fault().empty()) own.complaint.say(account.fault());
    if (own.complaint.is_there.load()) return 1;
  }
  account.release_all();
  if (!account.fault().empty()) own.complaint.say(account.fault());
  own.ended.store(true);
  return 0;
}

}  // namespace framelane::fault
