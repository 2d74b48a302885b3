// SPDX-License-Identifier: MIT
// Kills, stops and forks the processes of a lane under full load, at moments that a seed chooses: see README.md.
#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "board.hpp"
#include "kill_roles.hpp"
#include "lane/lanes.hpp"
#include "shared.hpp"

namespace framelane::fault {
namespace {

using Clock = std::chrono::steady_clock;
using namespace std::chrono_literals;

constexpr auto kPatience = 30s;
constexpr std::uint64_t kMostFrames = 120;       // that a victim lives on
constexpr std::uint64_t kMostDelayNs = 100'000;  // from that frame to the kill
constexpr unsigned kEventsOfARound = 40;
constexpr unsigned kEventsBetweenChecks = 8;

struct Options {
  std::uint64_t consumers_killed = 100;
  std::uint64_t producers_killed = 10;
  std::uint64_t stops = 0;
  std::uint64_t forks = 0;
  std::string transport = "shm";
  std::uint64_t seed = 0;  // 0: a new one
};

/// The same numbers from the same seed, everywhere (splitmix64).
class Dice {
 public:
  explicit Dice(std::uint64_t seed) noexcept : state_(seed) {}
  /// 0 to `sides` - 1.
  std::uint64_t roll(std::uint64_t sides) noexcept {
    state_ += 0x9e3779b97f4a7c15u;
    std::uint64_t word = (state_ ^ (state_ >> 30)) * 0xbf58476d1ce4e5b9u;
    word = (word ^ (word >> 27)) * 0x94d049bb133111ebu;
    return (word ^ (word >> 31)) % sides;
  }

 private:
  std::uint64_t state_;
};

/// Something is not as it must be.
class Failure : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// This program again, in a role. Killed and reaped when it goes.
class Process {
 public:
  explicit Process(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), "/proc/self/exe");
    std::vector<char*> argv;
    for (std::string& argument : arguments) argv.push_back(argument.data());
    argv.push_back(nullptr);
    pid_ = fork();
    if (pid_ != 0) return;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    execv(argv[0], argv.data());
    _exit(127);
  }
  ~Process() { end(); }
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  [[nodiscard]] pid_t pid() const noexcept { return pid_; }
  void signal(int number) const noexcept { kill(pid_, number); }
  /// Kills and reaps it. False: it had ended by itself.
  bool end() noexcept {
    if (pid_ <= 0) return false;
    kill(pid_, SIGKILL);
    return reap() == SIGKILL;
  }
  /// Its end by itself.
  [[nodiscard]] bool has_ended() const noexcept {
    siginfo_t info{};
    return waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid != 0;
  }

 private:
  int reap() noexcept {
    int status = 0;
    while (waitpid(std::exchange(pid_, -1), &status, 0) < 0 && errno == EINTR) {
    }
    return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
  }

  pid_t pid_ = -1;
};

enum class Event : std::uint8_t { kKillConsumer, kKillProducer, kStop, kFork };

struct Sums {
  std::uint64_t consumers_killed = 0, producers_killed = 0, stops = 0, forks = 0;
  std::uint64_t published = 0, demotions = 0, checks = 0;
};

/// One lane with its processes: some consumers, one producer after the other.
class Round {
 public:
  Round(const Options& options, Dice& dice, Sums& sums)
      : options_(options), dice_(dice), sums_(sums), path_(directory_.path() + "/board"), board_(path_) {
    new (&*board_) Board();
    count_ = 1 + dice_.roll(kMostConsumers);
    start_producer();
    for (std::size_t row = 0; row < count_; ++row) start_consumer(row);
  }

  void happen(Event event) {
    switch (event) {
      case Event::kKillConsumer:
        return kill_consumer();
      case Event::kKillProducer:
        return kill_producer();
      case Event::kStop:
        return stop_one();
      case Event::kFork:
        return fork_one();
    }
  }

  /// All that was published is taken or skipped, and all slots are back.
  void check() {
    board_->consumers.store(static_cast<std::uint32_t>(count_));
    board_->command.store(Command::kCheck);
    const std::uint32_t number = board_->check.fetch_add(1) + 1;
    wait_until("the producer's check", [&] { return producer_row().checked.load() == number; });
    expect_all_taken();
    board_->command.store(Command::kRun);
    ++sums_.checks;
  }

  void finish() {
    check();
    board_->command.store(Command::kEnd);
    wait_until("the end of the stream", [&] {
      return producer_row().ended.load() &&
             std::all_of(rows(), rows() + count_, [](const ConsumerRow& row) { return row.ended.load(); });
    });
    expect_all_taken();
    board_->command.store(Command::kQuit);
    sums_.published += producer_row().published.load();
    sums_.demotions += producer_row().demotions.load();
  }

 private:
  [[nodiscard]] ProducerRow& producer_row() const { return board_->producers[generation_]; }
  [[nodiscard]] ConsumerRow* rows() const { return board_->rows.data(); }

  void start_producer() {
    producer_row().checked.store(board_->check.load());
    producer_ = std::make_unique<Process>(std::vector<std::string>{
        "--role", "producer", path_, std::to_string(generation_), options_.stops != 0 ? "1" : "0"});
  }

  void start_consumer(std::size_t row) {
    new (&rows()[row]) ConsumerRow();
    const std::uint64_t kept = dice_.roll(4);
    consumers_[row] = std::make_unique<Process>(
        std::vector<std::string>{"--role", "consumer", path_, std::to_string(row), std::to_string(kept)});
  }

  /// Throws what anybody complains of, or that nothing happens.
  void wait_until(const std::string& what, const std::function<bool()>& done) {
    const auto until = Clock::now() + kPatience;
    while (!done()) {
      look_for_complaints();
      if (Clock::now() > until) throw Failure("waited in vain for " + what + "\n" + state());
      std::this_thread::sleep_for(50us);
    }
    look_for_complaints();
  }

  void look_for_complaints() {
    if (producer_row().complaint.is_there.load())
      throw Failure("producer: " + std::string(producer_row().complaint.words));
    for (std::size_t row = 0; row < count_; ++row) {
      const Complaint& complaint = rows()[row].complaint;
      if (complaint.is_there.load()) throw Failure("consumer " + std::to_string(row) + ": " + complaint.words);
      if (consumers_[row] != nullptr && !rows()[row].ended.load() && consumers_[row]->has_ended())
        throw Failure("consumer " + std::to_string(row) + " ended by itself");
    }
    const bool ends = board_->command.load() == Command::kEnd;
    if (producer_ != nullptr && !ends && producer_->has_ended()) throw Failure("the producer ended by itself");
  }

  [[nodiscard]] std::string state() const {
    std::string text = "producer " + std::to_string(generation_) + ": " +
                       std::to_string(producer_row().published.load()) + " published";
    for (std::size_t row = 0; row < count_; ++row) {
      text += "\nconsumer " + std::to_string(row) + ": frame " + std::to_string(rows()[row].next[generation_].load()) +
              " is next, " + std::to_string(rows()[row].taken.load()) + " taken";
    }
    return text;
  }

  void expect_all_taken() {
    const std::uint64_t published = producer_row().published.load();
    for (std::size_t row = 0; row < count_; ++row) {
      const ConsumerRow& own = rows()[row];
      const auto& next = own.next[generation_];
      // Over a stream some are still on their way. Of a consumer that came late there may be none.
      wait_until("consumer " + std::to_string(row) + "'s last frame",
                 [&] { return next.load() == published || next.load() == 0; });
      if (own.producer.load() == generation_ && own.skipped.load() != 0 && producer_row().demotions.load() == 0)
        throw Failure("consumer " + std::to_string(row) + " skipped frames, and the producer passed over none");
    }
  }

  // --- what happens

  /// Some frames from now, and then a moment.
  void wait_for_moment(const std::atomic<std::uint64_t>& frames) {
    const std::uint64_t until = frames.load() + dice_.roll(kMostFrames);
    const auto delay = std::chrono::nanoseconds(dice_.roll(kMostDelayNs));
    wait_until("frame " + std::to_string(until), [&] { return frames.load() >= until; });
    const auto at = Clock::now() + delay;
    while (Clock::now() < at) {
    }
  }

  void kill_consumer() {
    const std::size_t row = dice_.roll(count_);
    switch (dice_.roll(8)) {
      case 0: {  // young: in its handshake, perhaps
        const auto age = std::chrono::microseconds(dice_.roll(15'000));
        std::this_thread::sleep_for(age);
        break;
      }
      case 1:  // while it stands still
        wait_for_moment(rows()[row].taken);
        consumers_[row]->signal(SIGSTOP);
        std::this_thread::sleep_for(std::chrono::microseconds(dice_.roll(2'000)));
        break;
      default:
        wait_for_moment(rows()[row].taken);
    }
    look_for_complaints();
    if (!consumers_[row]->end()) throw Failure("consumer " + std::to_string(row) + " was dead already");
    start_consumer(row);
    ++sums_.consumers_killed;
  }

  void kill_producer() {
    wait_for_moment(producer_row().published);
    if (!producer_->end()) throw Failure("the producer was dead already");
    ++sums_.producers_killed;
    const std::uint64_t published = producer_row().published.load();
    sums_.published += published;
    const std::uint32_t dead = generation_++;
    start_producer();
    if (options_.transport != "shm") return;  // a relay dies with what it hasn't sent
    for (std::size_t row = 0; row < count_; ++row) {
      const auto& next = rows()[row].next[dead];
      wait_until("consumer " + std::to_string(row) + " to take what the dead producer had published",
                 [&] { return next.load() >= published || next.load() == 0; });
    }
  }

  void stop_one() {
    const std::size_t who = dice_.roll(count_ + 1);
    const Process& victim = who == count_ ? *producer_ : *consumers_[who];
    wait_for_moment(who == count_ ? producer_row().published : rows()[who].taken);
    victim.signal(SIGSTOP);
    std::this_thread::sleep_for(std::chrono::milliseconds(dice_.roll(10) == 0 ? 200 : dice_.roll(20)));
    victim.signal(SIGCONT);
    ++sums_.stops;
  }

  /// It forks, and dies; its child keeps every descriptor.
  void fork_one() {
    const bool producer = dice_.roll(3) == 0;
    const std::size_t row = dice_.roll(count_);
    wait_for_moment(producer ? producer_row().published : rows()[row].taken);
    std::atomic<pid_t>& orphan = producer ? producer_row().orphan : rows()[row].orphan;
    (producer ? board_->fork : rows()[row].fork).store(true);
    wait_until("a fork", [&] { return orphan.load() != 0; });
    const pid_t child = orphan.load();
    const auto& progress = producer ? board_->producers[generation_ + 1].published : producer_row().published;
    if (producer) {
      kill_producer();
    } else if (consumers_[row]->end()) {
      start_consumer(row);
      ++sums_.consumers_killed;
    }
    const std::uint64_t until = progress.load() + 50;
    wait_until("frames while a child of the dead keeps its descriptors", [&] { return progress.load() >= until; });
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);  // ours: we are its subreaper
    ++sums_.forks;
  }

  const Options& options_;
  Dice& dice_;
  Sums& sums_;
  lane_test::LaneDirectory directory_;
  std::string path_;
  Shared<Board> board_;
  std::size_t count_ = 0;
  std::uint32_t generation_ = 1;
  std::unique_ptr<Process> producer_;
  std::array<std::unique_ptr<Process>, kMostConsumers> consumers_;
};

/// All that is asked for, in the order that the seed gives it.
std::vector<Event> events_of(const Options& options, Dice& dice) {
  std::vector<Event> events(options.consumers_killed, Event::kKillConsumer);
  events.insert(events.end(), options.producers_killed, Event::kKillProducer);
  events.insert(events.end(), options.stops, Event::kStop);
  events.insert(events.end(), options.forks, Event::kFork);
  for (std::size_t i = events.size(); i > 1; --i) std::swap(events[i - 1], events[dice.roll(i)]);
  return events;
}

void run(const Options& options, Sums& sums, std::size_t& done) {
  Dice dice(options.seed);
  const std::vector<Event> events = events_of(options, dice);
  std::unique_ptr<Round> round;
  for (done = 0; done < events.size(); ++done) {
    if (done % kEventsOfARound == 0) {
      if (round != nullptr) round->finish();
      round.reset();
      round = std::make_unique<Round>(options, dice, sums);
    }
    round->happen(events[done]);
    if (done % kEventsBetweenChecks == kEventsBetweenChecks - 1) round->check();
  }
  if (round != nullptr) round->finish();
}

std::string command_of(const Options& options) {
  const auto number = [](const char* name, std::uint64_t value) {
    return std::string(" --") + name + ' ' + std::to_string(value);
  };
  return "lane_kills --transport " + options.transport + number("consumers-killed", options.consumers_killed) +
         number("producers-killed", options.producers_killed) + number("stops", options.stops) +
         number("forks", options.forks) + number("seed", options.seed);
}

int run_and_tell(const Options& options) {
  setenv("FRAMELANE_TEST_TRANSPORT", options.transport.c_str(), 1);
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  std::printf("%s\n", command_of(options).c_str());
  std::fflush(stdout);
  Sums sums;
  std::size_t done = 0;
  const auto start = Clock::now();
  std::string failure;
  try {
    run(options, sums, done);
  } catch (const std::exception& error) {
    failure = error.what();
  }
  const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
  std::printf("%" PRIu64 " consumers and %" PRIu64 " producers killed, %" PRIu64 " stopped, %" PRIu64
              " forked; %" PRIu64 " frames published, %" PRIu64 " demotions, %" PRIu64 " checks, %.1f s\n",
              sums.consumers_killed, sums.producers_killed, sums.stops, sums.forks, sums.published, sums.demotions,
              sums.checks, seconds);
  if (failure.empty()) return 0;
  std::printf("FAILED at event %zu: %s\nagain: %s\n", done, failure.c_str(), command_of(options).c_str());
  return 1;
}

int usage() {
  std::fputs(
      "lane_kills [--transport shm|uds|tcp] [--consumers-killed N] [--producers-killed N] [--stops N] [--forks N]\n"
      "           [--seed S]\n",
      stderr);
  return 2;
}

int options_and_run(int argc, char** argv) {
  Options options;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string_view name = argv[i];
    const std::string value = argv[i + 1];
    const std::uint64_t number = std::strtoull(argv[i + 1], nullptr, 10);
    if (name == "--transport" && (value == "shm" || value == "uds" || value == "tcp")) {
      options.transport = value;
    } else if (name == "--consumers-killed") {
      options.consumers_killed = number;
    } else if (name == "--producers-killed") {
      options.producers_killed = number;
    } else if (name == "--stops") {
      options.stops = number;
    } else if (name == "--forks") {
      options.forks = number;
    } else if (name == "--seed") {
      options.seed = number;
    } else {
      return usage();
    }
  }
  if (argc % 2 == 0) return usage();
  if (options.seed == 0) options.seed = static_cast<std::uint64_t>(Clock::now().time_since_epoch().count());
  return run_and_tell(options);
}

}  // namespace
}  // namespace framelane::fault

int main(int argc, char** argv) {
  using namespace framelane::fault;
  const std::string_view role = argc == 6 && std::string_view(argv[1]) == "--role" ? argv[2] : "";
  const auto number = [&](int i) { return std::strtoul(argv[i], nullptr, 10); };
  if (role == "producer") return produce_until_killed(argv[3], static_cast<std::uint32_t>(number(4)), number(5) != 0);
  if (role == "consumer") return consume_until_killed(argv[3], number(4), number(5));
  return options_and_run(argc, argv);
}
