// SPDX-License-Identifier: MIT
// One consumer of the demo, in a process of its own. Hidden: `framelane demo` starts it, twice.
#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <deque>
#include <memory>
#include <span>
#include <vector>

#include "framelane/lane/consumer.hpp"

#include "base/clock.hpp"
#include "cli/command.hpp"
#include "cli/demo_report.hpp"

namespace framelane::cli {
namespace {

constexpr std::int64_t kReportEvery = 200'000'000;  // ns
constexpr std::int64_t kSecond = 1'000'000'000;

struct Options {
  std::string lane;
  std::uint32_t keep = 0;  // the first frames are kept for ever; on SIGUSR1, the next kDemoKept
};

volatile std::sig_atomic_t keep_from_now_on = 0;

// FNV-1a over 8-byte words: reads the picture where it lies, as a real consumer would.
std::uint64_t checksum(std::span<const std::byte> bytes) {
  std::uint64_t sum = 0xcbf29ce484222325;
  for (std::size_t at = 0; at + 8 <= bytes.size(); at += 8) {
    std::uint64_t word = 0;
    std::memcpy(&word, bytes.data() + at, sizeof word);
    sum = (sum ^ word) * 0x100000001b3;
  }
  return sum;
}

class DemoConsumer {
 public:
  DemoConsumer(Consumer consumer, std::uint32_t keep) : consumer_(std::move(consumer)), keep_(keep) {}

  int run() {
    report_.state = "waiting";
    std::signal(SIGUSR1, [](int) { keep_from_now_on = 1; });  // from the demo
    for (;;) {
      if (keep_from_now_on != 0) keep_ = kDemoKept;
      auto frame = consumer_.take(std::chrono::milliseconds(100));
      if (frame) {
        account(std::move(*frame));
      } else if (frame.error().code != Code::kTimeout) {
        return finish(frame.error());
      }
      if (base::monotonic_ns() >= next_report_ && !send_report()) return kFailed;  // nobody reads: our parent is gone
    }
  }

 private:
  void account(Frame frame) {
    report_.state = "flowing";
    report_.caps = consumer_.caps();
    taken_at_.push_back(base::monotonic_ns());
    ++report_.frames;
    // Two countings, neither of which trusts the other: the lane's, and the pictures as the decoder numbered them. A
    // frame that the producer dropped has no number in the lane, but leaves a hole among the pictures.
    const std::uint64_t offset = frame.info().offset;
    const std::uint64_t last = offset == format::kNoTime ? frame.seq() : std::max(frame.seq(), offset);
    report_.lost = last + 1 - std::min(report_.frames, last + 1);
    if (frame.slot() >= 0) report_.slots[frame.slot()] = frame.seq();
    report_.pictures[frame.seq()] = checksum(frame.bytes());
    if (kept_.size() < keep_) {
      if (frame.slot() >= 0) report_.kept[frame.slot()] = frame.seq();
      kept_.push_back(std::move(frame));
    }
  }

  int finish(const Error& error) {
    report_.state = error.code == Code::kEndOfStream ? "ended" : "failed";
    if (error.code != Code::kEndOfStream) report_.error = error.text;
    send_report();
    return error.code == Code::kEndOfStream ? kOk : kFailed;
  }

  bool send_report() {
    const std::int64_t now = base::monotonic_ns();
    while (!taken_at_.empty() && taken_at_.front() <= now - kSecond) taken_at_.pop_front();
    report_.fps = static_cast<double>(taken_at_.size());
    const ConsumerStats stats = consumer_.stats();
    report_.latency = stats.latency;
    report_.copied = stats.copied;
    report_.held = stats.held;
    const std::string line = nlohmann::json(report_).dump() + "\n";
    report_.pictures.clear();
    next_report_ = now + kReportEvery;
    return std::fwrite(line.data(), 1, line.size(), stdout) == line.size() && std::fflush(stdout) == 0;
  }

  Consumer consumer_;
  std::uint32_t keep_;
  std::vector<Frame> kept_;
  DemoReport report_;
  std::deque<std::int64_t> taken_at_;  // of the last second
  std::int64_t next_report_ = 0;
};

int run(const Options& options) {
  ConsumerSettings settings;
  settings.lane = options.lane;
  settings.connect_timeout = std::chrono::seconds(30);  // our parent decides when it has been too long
  auto consumer = Consumer::open(std::move(settings));
  if (!consumer) {
    std::fprintf(stderr, "framelane demo: %s\n", consumer.error().text.c_str());
    return kFailed;
  }
  return DemoConsumer(std::move(*consumer), options.keep).run();
}

}  // namespace

void add_demo_consumer(CLI::App& app, Action& chosen) {
  auto options = std::make_shared<Options>();
  CLI::App& command = *app.add_subcommand("demo-consumer", "One consumer of the demo");
  command.group("");  // not in the help
  command.add_option("--lane", options->lane)->required();
  command.add_option("--keep", options->keep);
  command.callback([options, &chosen] { chosen = [options] { return run(*options); }; });
}

}  // namespace framelane::cli
