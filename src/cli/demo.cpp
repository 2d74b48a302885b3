// SPDX-License-Identifier: MIT
// The main job in a few seconds: a video file from one gst-launch process to two consumers, one of which is killed.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <fcntl.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <poll.h>
#include <unistd.h>

#include "base/clock.hpp"
#include "base/unique_fd.hpp"
#include "cli/build_tree.hpp"
#include "cli/child_process.hpp"
#include "cli/command.hpp"
#include "cli/demo_report.hpp"
#include "cli/demo_table.hpp"
#include "cli/percentiles.hpp"
#include "cli/temp_dir.hpp"

namespace framelane::cli {
namespace {

namespace fs = std::filesystem;
using std::chrono::milliseconds;

constexpr const char* kVideo = "display-dual-monitors.webm";
constexpr const char* kHelpRoot = "/usr/share/help";
constexpr std::int64_t kSecond = 1'000'000'000;
constexpr std::int64_t kStartLimit = 15 * kSecond;  // the first gst-launch of a fresh system scans all plugins
constexpr std::int64_t kSlotsLimit = 4 * kSecond;
constexpr std::int64_t kEndLimit = 4 * kSecond;

struct Options {
  double seconds = 10;  // from the first frame; the kill is in the middle
  bool json = false;
};

// In every language that is installed; "C" is the original.
std::optional<fs::path> find_video() {
  const fs::path inside = fs::path("gnome-help") / "figures" / kVideo;
  std::error_code error;
  if (const fs::path original = fs::path(kHelpRoot) / "C" / inside; fs::exists(original, error)) return original;
  for (const fs::directory_entry& language : fs::directory_iterator(kHelpRoot, error)) {
    if (fs::exists(language.path() / inside, error)) return language.path() / inside;
  }
  return std::nullopt;
}

std::vector<std::string> producer_command(const std::optional<fs::path>& video) {
  std::string line = "gst-launch-1.0 -q -e ";
  if (video.has_value()) {
    // Twice the file's own 15 frames a second: its 37 s become 18. No queue, so that the end comes at once when asked
    // for.
    line += "filesrc location=" + video->string() +
            " ! matroskademux ! vp8dec ! videoconvert ! videorate rate=2 ! video/x-raw,framerate=30/1";
  } else {
    line += "videotestsrc pattern=ball ! video/x-raw,format=I420,width=1024,height=768,framerate=30/1";
  }
  line += " ! lanesink lane=demo sync=true wait-for-consumers=2";
  std::vector<std::string> words;
  std::size_t at = 0;
  for (std::size_t space; (space = line.find(' ', at)) != std::string::npos; at = space + 1) {
    words.push_back(line.substr(at, space - at));
  }
  words.push_back(line.substr(at));
  return words;
}

// A command line over as many lines as 78 columns need, each element with the "!" before it.
std::string wrapped(const std::vector<std::string>& words) {
  std::string text = "  ";
  std::size_t column = 2;
  std::string unit;
  for (const std::string& word : words) {
    unit += (unit.empty() ? "" : " ") + word;
    if (word == "!") continue;
    if (column + 1 + unit.size() > 76) {
      text += " \\\n     ";
      column = 5;
    }
    text += (column == 2 ? "" : " ") + unit;
    column += 1 + unit.size();
    unit.clear();
  }
  return text;
}

// "video/x-raw, format=(string)I420" -> "video/x-raw, format=I420"
std::string without_types(const std::string& caps) {
  std::string text;
  bool inside = false;
  for (const char letter : caps) {
    inside = inside || letter == '(';
    if (!inside) text += letter;
    inside = inside && letter != ')';
  }
  return text;
}

std::string last_lines(const std::string& path, std::size_t count) {
  std::ifstream file(path);
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) lines.push_back(line);
  std::string text;
  for (std::size_t i = lines.size() > count ? lines.size() - count : 0; i < lines.size(); ++i) {
    text += "    " + lines[i] + "\n";
  }
  return text;
}

std::optional<std::uint64_t> last_frame_in(const DemoReport& report, int slot) {
  const auto found = report.slots.find(slot);
  return found == report.slots.end() ? std::nullopt : std::optional(found->second);
}

// A consumer's process and what it said last.
struct DemoPeer {
  explicit DemoPeer(ChildProcess started) : process(std::move(started)) {
    fcntl(process.output_fd(), F_SETFL, O_NONBLOCK);
  }

  // Takes in what it wrote since the last time; false if that makes no sense.
  bool read_reports() {
    char buffer[16384];
    for (ssize_t got; (got = read(process.output_fd(), buffer, sizeof buffer)) > 0;) {
      pending.append(buffer, static_cast<std::size_t>(got));
    }
    for (std::size_t end; (end = pending.find('\n')) != std::string::npos; pending.erase(0, end + 1)) {
      const auto json = nlohmann::json::parse(pending.begin(), pending.begin() + static_cast<std::ptrdiff_t>(end),
                                              nullptr, /*allow_exceptions=*/false);
      if (json.is_discarded()) return false;
      report = json.get<DemoReport>();
      pictures.insert(report.pictures.begin(), report.pictures.end());
    }
    return true;
  }

  ChildProcess process;
  DemoReport report;
  std::string state;  // what we know better than its report: killed
  std::map<std::uint64_t, std::uint64_t> pictures;
  std::string pending;
};

/// What is told to people goes to standard error while it lives.
class TextToErrors {
 public:
  TextToErrors() {
    std::fflush(stdout);
    output_.reset(fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3));
    dup2(STDERR_FILENO, STDOUT_FILENO);
  }
  ~TextToErrors() {
    std::fflush(stdout);
    dup2(output_.get(), STDOUT_FILENO);
  }
  TextToErrors(const TextToErrors&) = delete;
  TextToErrors& operator=(const TextToErrors&) = delete;

 private:
  base::UniqueFd output_;
};

class Demo {
 public:
  explicit Demo(const Options& options) : options_(options), table_(isatty(STDOUT_FILENO) != 0) {}

  int run() {
    if (!start()) return kFailed;
    const bool good = wait_for_frames() && show_both() && kill_one() && show_survivor() && end();
    if (signals_.came()) {
      table_.note("Interrupted; all processes are ended.");
      return kInterrupted;
    }
    return good && summary() ? kOk : kFailed;
  }

  /// What summary() found, and the exit code.
  [[nodiscard]] nlohmann::ordered_json json(int code) const {
    nlohmann::ordered_json all = figures_;
    all["exit_code"] = code;
    return all;
  }

 private:
  // The steps. Each returns false after it has said why, or when a signal came.
  bool start();
  bool wait_for_frames();
  bool show_both();
  bool kill_one();
  bool show_survivor();
  bool end();
  bool summary();

  bool start_consumer(const char* name, std::uint32_t keep);
  // Reads reports and redraws once a second until `done` says so or `deadline` has come. False: failed or interrupted.
  template <class Done>
  bool watch_until(std::int64_t deadline, const Done& done);
  void wait_for_input(std::int64_t until);
  bool all_well();
  void draw();
  bool failed(const std::string& text);
  [[nodiscard]] std::size_t slots_back() const;
  [[nodiscard]] std::int64_t half() const { return static_cast<std::int64_t>(options_.seconds / 2 * kSecond); }

  Options options_;
  TerminationSignals signals_;
  std::optional<TempDir> directory_;
  std::string log_;
  DemoTable table_;
  std::vector<DemoPeer> consumers_;  // the one that stays, the one that is killed
  std::optional<ChildProcess> producer_;
  std::int64_t flowing_since_ = 0;
  std::int64_t next_draw_ = 0;
  std::map<int, std::uint64_t> kept_by_dead_;  // slot -> frame number
  std::uint64_t frames_before_kill_ = 0;
  bool ending_ = false;
  nlohmann::ordered_json figures_ = nlohmann::ordered_json::object();
};

bool Demo::failed(const std::string& text) {
  std::fflush(stdout);
  fmt::print(stderr, "framelane demo: {}\n", text);
  const std::string log = last_lines(log_, 8);
  if (!log.empty()) fmt::print(stderr, "  What the processes wrote:\n{}", log);
  if (log.find("no element \"lanesink\"") != std::string::npos) {
    fmt::print(stderr, "  GStreamer doesn't find Framelane's elements: install them, or use ./quickstart shell.\n");
  }
  return false;
}

bool Demo::start_consumer(const char* name, std::uint32_t keep) {
  Spawn what;
  what.name = name;
  what.command = {own_path().string(), "demo-consumer", "--lane", "demo", "--keep", std::to_string(keep)};
  what.environment = {{"FRAMELANE_DIR", directory_->path()}};
  what.log_file = log_;
  what.read_output = true;
  auto child = ChildProcess::spawn(what);
  if (!child) return failed(child.error().text);
  consumers_.emplace_back(std::move(*child));
  return true;
}

bool Demo::start() {
  auto directory = TempDir::create();
  if (!directory) return failed(directory.error().text);
  directory_.emplace(std::move(*directory));
  log_ = directory_->path() + "/log";
  const std::optional<fs::path> video = find_video();
  Spawn what;
  what.name = "producer";
  what.command = producer_command(video);
  if (const auto plugins = build_tree_plugin_path()) what.environment = {{"GST_PLUGIN_PATH", *plugins}};
  what.environment.emplace_back("FRAMELANE_DIR", directory_->path());
  what.log_file = log_;
  fmt::print("One process sends {}{},\ntwo others take its frames where they lie:\n\n{}\n\n", video ? "the video " : "",
             video ? kVideo : "a test pattern", wrapped(what.command));
  if (!video) fmt::print("(No real video: the package gnome-user-docs, which has one, isn't installed.)\n\n");
  std::fflush(stdout);
  if (!start_consumer("steady", 0) || !start_consumer("keeper", kDemoKept)) return false;
  auto producer = ChildProcess::spawn(what);
  if (!producer) {
    const bool missing = producer.error().code == Code::kNotFound;
    return failed(producer.error().text + (missing ? "; install the package gstreamer1.0-tools" : ""));
  }
  producer_.emplace(std::move(*producer));
  return true;
}

// Says what is wrong with the processes, if anything is.
bool Demo::all_well() {
  for (DemoPeer& peer : consumers_) {
    if (!peer.read_reports()) return failed(fmt::format("the consumer {} wrote something odd", peer.process.name()));
    if (peer.report.state == "failed") return failed(fmt::format("{}: {}", peer.process.name(), peer.report.error));
    if (peer.state.empty() && !ending_ && !peer.process.running()) {
      return failed(fmt::format("the consumer {} {}", peer.process.name(), peer.process.end_text()));
    }
  }
  if (!producer_->running() && !(ending_ && producer_->succeeded())) {
    return failed(fmt::format("the producer {}", producer_->end_text()));
  }
  return true;
}

void Demo::draw() {
  std::vector<DemoRow> rows;
  for (const DemoPeer& peer : consumers_) {
    rows.push_back({peer.process.name(), peer.process.pid(), peer.state, &peer.report});
  }
  table_.draw(static_cast<double>(base::monotonic_ns() - flowing_since_) / kSecond, rows);
}

void Demo::wait_for_input(std::int64_t until) {
  std::vector<pollfd> fds{{signals_.fd(), POLLIN, 0}};
  for (const DemoPeer& peer : consumers_) {
    // A dead one's pipe would be readable for ever.
    if (peer.state.empty() && peer.report.state != "ended") fds.push_back({peer.process.output_fd(), POLLIN, 0});
  }
  const std::int64_t left_ms = (until - base::monotonic_ns()) / 1'000'000 + 1;
  poll(fds.data(), fds.size(), static_cast<int>(std::clamp<std::int64_t>(left_ms, 0, 1000)));
}

template <class Done>
bool Demo::watch_until(std::int64_t deadline, const Done& done) {
  for (;;) {
    if (signals_.came() || !all_well()) return false;
    const std::int64_t now = base::monotonic_ns();
    if (flowing_since_ != 0 && now >= next_draw_) {
      draw();
      next_draw_ += kSecond;
    }
    if (done() || now >= deadline) return true;
    wait_for_input(flowing_since_ != 0 ? std::min(deadline, next_draw_) : deadline);
  }
}

bool Demo::wait_for_frames() {
  const auto both_flow = [&] {
    return std::all_of(consumers_.begin(), consumers_.end(),
                       [](const DemoPeer& peer) { return peer.report.frames > kDemoKept; });
  };
  if (!watch_until(base::monotonic_ns() + kStartLimit, both_flow)) return false;
  if (!both_flow()) return failed(fmt::format("no frame came within {} s", kStartLimit / kSecond));
  table_.note(fmt::format("The format came with them: {:.50}…\n", without_types(consumers_[0].report.caps)));
  flowing_since_ = base::monotonic_ns();
  next_draw_ = flowing_since_;
  return true;
}

bool Demo::show_both() {
  return watch_until(flowing_since_ + half(), [] { return false; });
}

bool Demo::kill_one() {
  DemoPeer& steady = consumers_[0];
  DemoPeer& keeper = consumers_[1];
  kept_by_dead_ = keeper.report.kept;
  if (kept_by_dead_.size() != kDemoKept) return failed("the keeper holds no slots; there is nothing to show");
  std::string slots;
  for (const auto& [slot, frame] : kept_by_dead_) {
    if (last_frame_in(steady.report, slot) != frame) {
      return failed(fmt::format("slot {} was reused while it was held", slot));
    }
    slots += fmt::format("{}{}", slots.empty() ? "" : ", ", slot);
  }
  keeper.process.kill();
  keeper.read_reports();
  keeper.state = "KILLED";
  keeper.report.fps = 0;
  keeper.report.held = 0;
  draw();
  table_.note(
      fmt::format("\nkill -9 {}: the keeper is gone, and it held the slots {}.\n", keeper.process.pid(), slots));
  return true;
}

// Of the slots that the dead one held: those in which the survivor got a newer frame.
std::size_t Demo::slots_back() const {
  return static_cast<std::size_t>(std::count_if(kept_by_dead_.begin(), kept_by_dead_.end(), [&](const auto& kept) {
    return last_frame_in(consumers_[0].report, kept.first) > kept.second;
  }));
}

bool Demo::show_survivor() {
  // Counted from a report that was written after the kill.
  const std::uint64_t reported = consumers_[0].report.frames;
  const auto next_report = [&] { return consumers_[0].report.frames > reported; };
  if (!watch_until(flowing_since_ + 2 * half(), next_report)) return false;
  frames_before_kill_ = consumers_[0].report.frames;
  // The lane writes into the slots that it got back last, as many as it needs. When the survivor keeps some itself, it
  // needs those of the dead one.
  table_.note("From now on, the survivor keeps as many frames itself.\n");
  consumers_[0].process.signal(SIGUSR1);
  if (!watch_until(flowing_since_ + 2 * half(), [] { return false; })) return false;
  return watch_until(base::monotonic_ns() + kSlotsLimit, [&] { return slots_back() == kept_by_dead_.size(); });
}

// The producer sends end-of-stream on SIGINT, so the survivor ends by itself and has had the last frame.
bool Demo::end() {
  ending_ = true;
  producer_->signal(SIGINT);
  const auto over = [&] { return consumers_[0].report.state == "ended" && !producer_->running(); };
  if (!watch_until(base::monotonic_ns() + kEndLimit, over)) return false;
  if (!over()) return failed("the end of the stream did not arrive");
  draw();
  return true;
}

bool Demo::summary() {
  const DemoPeer& steady = consumers_[0];
  const DemoPeer& keeper = consumers_[1];
  const DemoReport& report = steady.report;
  const std::size_t back = slots_back();
  std::size_t compared = 0;
  std::size_t different = 0;
  for (const auto& [number, sum] : keeper.pictures) {
    const auto ours = steady.pictures.find(number);
    if (ours == steady.pictures.end()) continue;
    ++compared;
    different += ours->second != sum ? 1 : 0;
  }
  fmt::print("\nThe survivor took {} frames, {} of them after the kill, and lost {}.\n", report.frames,
             report.frames - frames_before_kill_, report.lost);
  fmt::print("Latency, publish to take: p50 {:.1f}, p99 {:.1f}, max {:.1f} µs.\n",
             static_cast<double>(report.latency.p50_ns) / 1000, static_cast<double>(report.latency.p99_ns) / 1000,
             static_cast<double>(report.latency.max_ns) / 1000);
  fmt::print("{} of the {} slots that the dead one held are in use again.\n", back, kept_by_dead_.size());
  fmt::print("{} pictures were compared between the two: {} differ.\n", compared, different);
  figures_ = {{"frames", report.frames},
              {"frames_after_the_kill", report.frames - frames_before_kill_},
              {"lost", report.lost},
              {"latency", to_json(report.latency)},
              {"slots_that_the_dead_one_held", kept_by_dead_.size()},
              {"slots_in_use_again", back},
              {"pictures_compared", compared},
              {"pictures_that_differ", different}};
  const bool good = report.frames > frames_before_kill_ && report.lost == 0 && back == kept_by_dead_.size() &&
                    compared > 0 && different == 0;
  if (!good) return failed("this is not how it should be: see the lines above");
  fmt::print(
      "\nNext, in ./quickstart shell (or any shell, once installed):\n"
      "  gst-launch-1.0 videotestsrc is-live=true ! lanesink lane=cam0 &\n"
      "  gst-launch-1.0 lanesrc lane=cam0 ! videoconvert ! autovideosink\n"
      "  framelane bench rtt\n");
  return true;
}

int run(const Options& options) {
  if (!options.json) return Demo(options).run();
  nlohmann::ordered_json json;
  int code = kFailed;
  {
    const TextToErrors redirected;
    Demo demo(options);
    code = demo.run();
    json = demo.json(code);
  }
  fmt::print("{}\n", json.dump(2));
  return code;
}

}  // namespace

void add_demo(CLI::App& app, Action& chosen) {
  auto options = std::make_shared<Options>();
  CLI::App& command = *app.add_subcommand("demo", "A video to two consumers, one of which is killed");
  command.footer(
      "Starts gst-launch-1.0 with a real video and two consumers in processes of\n"
      "their own, shows what flows once a second, kills one consumer with SIGKILL and\n"
      "checks that the other loses nothing. Exit code 0 only if all of that held.\n"
      "Ctrl-C ends everything.\n"
      "\n"
      "Example:\n"
      "  framelane demo\n"
      "  framelane demo --json 2>/dev/null");
  command.add_option("--seconds", options->seconds)->check(CLI::Range(1.0, 16.0))->group("");
  command.add_flag("--json", options->json, "At the end, one JSON object; the rest on standard error");
  command.callback([options, &chosen] { chosen = [options] { return run(*options); }; });
}

}  // namespace framelane::cli
