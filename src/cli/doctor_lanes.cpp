// SPDX-License-Identifier: MIT
#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "framelane/lane/consumer.hpp"
#include "framelane/lane/observer.hpp"
#include "framelane/lane/producer.hpp"

#include "base/clock.hpp"
#include "base/futex.hpp"
#include "base/text.hpp"
#include "base/unique_fd.hpp"
#include "cli/build_tree.hpp"
#include "cli/doctor.hpp"
#include "cli/temp_dir.hpp"

namespace framelane::cli {
namespace {

namespace fs = std::filesystem;

Finding fatal(std::string found, std::string means, std::string change) {
  return {Verdict::kProblem, std::move(found), std::move(means), std::move(change), true};
}

// --- the directory of lanes

// The environment may say anything, and this goes to a terminal.
std::string shown(const std::string& path) { return base::printable(path, 200); }

// Of a directory that isn't there yet: whether it can be made.
Finding absent_directory(const std::string& path) {
  std::string parent = fs::path(path).parent_path();
  if (access(parent.c_str(), W_OK | X_OK) == 0) return fine(shown(path) + ", made by the first producer");
  return fatal(fmt::format("{}: {}", shown(path), base::system_words(errno)), "no lane with a bare name can be made",
               "export FRAMELANE_DIR=/run/user/$(id -u)/framelane, or another directory of your own");
}

Finding directory(const System& system) {
  const std::string& path = system.lanes_dir;
  if (path.empty() || path.front() != '/') {
    return fatal("'" + shown(path) + "'", "FRAMELANE_DIR must be an absolute path", "export FRAMELANE_DIR=/tmp/lanes");
  }
  struct stat status {};
  if (lstat(path.c_str(), &status) != 0) return absent_directory(path);
  if (!S_ISDIR(status.st_mode)) {
    return fatal(shown(path) + " is no directory", "lanes with bare names can't be made",
                 "remove it, or set FRAMELANE_DIR");
  }
  const std::string found = fmt::format("{}, mode {:04o}, uid {}", shown(path), status.st_mode & 07777, status.st_uid);
  const std::string remedy = "chmod 700 '" + shown(path) + "'";
  if (status.st_uid != geteuid()) {
    return fatal(found, "it belongs to another user, so lanes aren't made in it",
                 "set FRAMELANE_DIR to one of your own");
  }
  if ((status.st_mode & 077) != 0) {
    return fatal(found, "others could take part in lanes", remedy);
  }
  if (access(path.c_str(), W_OK | X_OK) != 0) {
    return fatal(found, "no lane can be made in it: " + base::system_words(errno), remedy);
  }
  struct statvfs space {};
  if (statvfs(path.c_str(), &space) == 0 && space.f_files != 0 && space.f_favail == 0) {
    return fatal(found, "its file system has no room for one more socket", "remove files from it");
  }
  return fine(found);
}

Finding stale_files(const System& system) {
  const auto lanes = find_lanes(system.lanes_dir);
  if (!lanes) return fine("not looked for: the directory can't be used");
  std::vector<std::string> stale;
  std::size_t used = 0;
  for (const FoundLane& lane : *lanes) {
    if (lane.state == LaneState::kStale) stale.push_back(lane.name);
    used += lane.state == LaneState::kAlive || lane.state == LaneState::kBusy ? 1 : 0;
  }
  if (stale.empty()) return fine(fmt::format("none; {} lane{} in use", used, used == 1 ? "" : "s"));
  return fine(fmt::format("{} socket{} of dead producers ({}{}); {} in use", stale.size(), stale.size() == 1 ? "" : "s",
                          stale.front(), stale.size() == 1 ? "" : ", ...", used),
              "the next producer of the name replaces it");
}

// --- a lane, in a directory of its own

Result<void> carry_a_frame(const std::string& descriptor) {
  ProducerSettings producing;
  producing.lane = descriptor;
  producing.burst = 2;
  producing.max_loans = 2;
  producing.max_consumers = 1;
  producing.linger = std::chrono::milliseconds(100);
  auto producer = Producer::open(producing);
  if (!producer) return tl::unexpected(producer.error());
  ConsumerSettings consuming;
  consuming.lane = producer->descriptor();
  consuming.connect_timeout = std::chrono::seconds(2);
  consuming.reconnect = false;
  auto consumer = Consumer::open(consuming);
  if (!consumer) return tl::unexpected(consumer.error());
  if (auto connected = consumer->connect(std::chrono::seconds(2)); !connected) return connected;
  const std::array<std::byte, 4096> sent{std::byte{1}, std::byte{2}};
  if (auto published = producer->publish_copy(sent); !published) return tl::unexpected(published.error());
  const auto frame = consumer->take(std::chrono::seconds(2));
  if (!frame) return tl::unexpected(frame.error());
  if (std::equal(sent.begin(), sent.end(), frame->bytes().begin(), frame->bytes().end())) return {};
  return fail(Code::kProtocol, "the frame arrived with other bytes");
}

Finding try_lane(const std::string& transport, const char* means, bool counts) {
  auto directory = TempDir::create();
  if (!directory) {
    return {Verdict::kProblem, directory.error().text, "it can't be tried", "set TMPDIR", false};
  }
  const auto carried = carry_a_frame("lane." + transport + "://" + directory->path() + "/doctor");
  if (carried) return fine("carries a frame");
  return {Verdict::kProblem, carried.error().text, means, "see the problems above", counts};
}

Finding shared_memory(const System&) { return try_lane("shm", "lanes need it, whatever carries their frames", true); }
Finding unix_socket(const System&) {
  return try_lane("uds", "consumers that can't have shared memory get no frames", false);
}
Finding loopback(const System&) {
  const auto carried = carry_a_frame("lane.tcp://127.0.0.1:0/doctor");
  if (carried) return fine("carries a frame");
  return {Verdict::kNote, carried.error().text, "lanes over TCP don't work, others do", "ip link set lo up", false};
}

Finding tls(const System&) {
  auto directory = TempDir::create();
  if (!directory) return {Verdict::kNote, directory.error().text, "it can't be tried", "set TMPDIR", false};
  const std::string file = directory->path() + "/key";
  const base::UniqueFd fd(open(file.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
  constexpr std::string_view kKey = "doctor:000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f\n";
  if (write(fd.get(), kKey.data(), kKey.size()) != static_cast<ssize_t>(kKey.size())) {
    return {Verdict::kNote, base::system_words(errno), "it can't be tried", "set TMPDIR", false};
  }
  ProducerSettings settings;
  settings.lane = "lane.tcp://127.0.0.1:0/doctor";
  settings.psk_file = file;
  const auto producer = Producer::open(settings);
  if (producer) return fine("found, with OpenSSL");
  return {Verdict::kNote, producer.error().text, "TCP between machines can't be encrypted",
          "install libframelane-tls.so.0 and libssl3, or build with -Dtls=enabled", false};
}

// --- a wake

/// Two threads: one sleeps in a futex, as a consumer does, the other wakes it.
class WakeTest {
 public:
  // Sorted, ns.
  std::vector<std::int64_t> run() {
    std::thread sleeper([this] { sleep(); });
    const std::int64_t stop = base::monotonic_ns() + kLimit;
    for (std::uint32_t round = 1; round <= kRounds && base::monotonic_ns() < stop; ++round) {
      std::this_thread::sleep_for(std::chrono::microseconds(500));  // until it sleeps
      woken_at_.store(base::monotonic_ns());
      word_.store(round);
      base::futex_wake(word_, 1);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    word_.store(kEnd);
    base::futex_wake(word_, 1);
    sleeper.join();
    std::sort(samples_.begin(), samples_.end());
    return samples_;
  }

 private:
  static constexpr std::uint32_t kRounds = 400;
  static constexpr std::uint32_t kEnd = ~0u;
  static constexpr std::int64_t kLimit = 800'000'000;

  void sleep() {
    std::uint32_t seen = 0;
    while (seen != kEnd) {
      base::futex_wait(word_, seen, base::monotonic_ns() + kLimit);
      const std::uint32_t now = word_.load();
      if (now != seen && now != kEnd) samples_.push_back(base::monotonic_ns() - woken_at_.load());
      seen = now;
    }
  }

  std::atomic<std::uint32_t> word_{0};
  std::atomic<std::int64_t> woken_at_{0};
  std::vector<std::int64_t> samples_;
};

Finding wake(const System&) {
  const std::vector<std::int64_t> samples = WakeTest().run();
  if (samples.empty()) {
    return {Verdict::kProblem, "nobody woke", "sleeping ends of a lane can't be woken in time", "look at the load",
            false};
  }
  const double p50 = static_cast<double>(samples[samples.size() / 2]) / 1000;
  const double p99 = static_cast<double>(samples[samples.size() * 99 / 100]) / 1000;
  const std::string found = fmt::format("p50 {:.1f} µs, p99 {:.1f} µs", p50, p99);
  if (p99 < 500) return fine(found, "what a frame costs an end that sleeps; --spin busy avoids it");
  return {Verdict::kNote, found, "a frame that meets a sleeping end waits so long",
          "stop other work on these CPUs, or spin (--spin busy) on ones of its own", false};
}

// --- GStreamer

std::vector<std::string> plugin_folders() {
  std::vector<std::string> folders;
  for (const char* name :
       {"GST_PLUGIN_PATH_1_0", "GST_PLUGIN_PATH", "GST_PLUGIN_SYSTEM_PATH_1_0", "GST_PLUGIN_SYSTEM_PATH"}) {
    const char* const list = std::getenv(name);
    std::string rest = list == nullptr ? "" : list;
    while (!rest.empty()) {
      const std::size_t colon = std::min(rest.find(':'), rest.size());
      folders.push_back(rest.substr(0, colon));
      rest.erase(0, colon + 1);
    }
  }
  if (const auto build = build_tree_plugin_path()) folders.push_back(build->substr(0, build->find(':')));
  if (const char* const home = std::getenv("HOME")) {
    folders.push_back(std::string(home) + "/.local/share/gstreamer-1.0/plugins");
  }
  for (const char* prefix : {"/usr/lib", "/usr/local/lib", "/usr/lib64", "/usr/local/lib64"}) {
    folders.push_back(std::string(prefix) + "/gstreamer-1.0");
    std::error_code error;
    // Debian's folders for each kind of machine.
    for (fs::directory_iterator entry(prefix, error), end; !error && entry != end; entry.increment(error)) {
      if (entry->path().filename().string().find("-linux-gnu") == std::string::npos) continue;
      folders.push_back(entry->path().string() + "/gstreamer-1.0");
    }
  }
  return folders;
}

Finding plugin(const System&) {
  for (const std::string& folder : plugin_folders()) {
    const std::string file = folder + "/libgstframelane.so";
    if (access(file.c_str(), R_OK) == 0) return fine(shown(file));
  }
  return fine("not found", "gst-launch-1.0 has no lanesink and lanesrc", "install it, or set GST_PLUGIN_PATH");
}

constexpr std::array kProbes{
    Probe{"lanes", "directory", directory},          Probe{"lanes", "stale files", stale_files},
    Probe{"lanes", "shared memory", shared_memory},  Probe{"lanes", "Unix domain socket", unix_socket},
    Probe{"lanes", "TCP on the loopback", loopback}, Probe{"lanes", "TLS", tls},
    Probe{"lanes", "wake of a sleeper", wake},       Probe{"lanes", "GStreamer elements", plugin}};

}  // namespace

std::span<const Probe> lane_probes() { return kProbes; }

}  // namespace framelane::cli
