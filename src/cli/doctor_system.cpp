// SPDX-License-Identifier: MIT
#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <fstream>
#include <limits>
#include <sstream>
#include <vector>

#include <fmt/format.h>
#include <pthread.h>
#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/clock.hpp"
#include "base/cpu.hpp"
#include "base/text.hpp"
#include "cli/doctor.hpp"

namespace framelane::cli {
namespace {

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;

std::optional<std::uint64_t> number_of(const std::optional<std::string>& text) {
  if (!text) return std::nullopt;
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), value);
  return error == std::errc{} && end != text->data() ? std::optional(value) : std::nullopt;
}

std::string mebibytes(std::uint64_t bytes) { return fmt::format("{} MiB", bytes / kMiB); }

// --- limits

// glibc gives the enumeration a type of its own in C++.
rlimit limit_of(decltype(RLIMIT_NOFILE) what) {
  rlimit limit{RLIM_INFINITY, RLIM_INFINITY};
  getrlimit(what, &limit);
  return limit;
}

std::string limit_text(rlim_t value, bool bytes) {
  if (value == RLIM_INFINITY) return "no limit";
  return bytes ? mebibytes(value) : std::to_string(value);
}

Finding open_files(const System&) {
  const rlim_t soft = limit_of(RLIMIT_NOFILE).rlim_cur;
  if (soft == RLIM_INFINITY || soft >= 256) return fine(limit_text(soft, false));
  return {soft < 32 ? Verdict::kProblem : Verdict::kNote, limit_text(soft, false),
          "each consumer takes some four of the producer's descriptors; beyond the limit it is refused",
          "ulimit -n 1024, or LimitNOFILE=1024 in the unit", false};
}

Finding locked_memory(const System&) {
  const rlim_t soft = limit_of(RLIMIT_MEMLOCK).rlim_cur;
  if (soft == RLIM_INFINITY || soft >= 64 * kMiB) return fine(limit_text(soft, true));
  return {Verdict::kNote, limit_text(soft, true),
          "a program can't lock its frames: under memory pressure they may be slow",
          "ulimit -l unlimited, or LimitMEMLOCK=infinity in the unit", false};
}

Finding file_size(const System&) {
  const rlim_t soft = limit_of(RLIMIT_FSIZE).rlim_cur;
  if (soft == RLIM_INFINITY || soft >= 1024 * kMiB) return fine(limit_text(soft, true));
  return {Verdict::kNote, limit_text(soft, true), "it counts for the memory of frames, too: larger lanes can't be made",
          "ulimit -f unlimited", false};
}

Finding address_space(const System&) {
  const rlim_t soft = limit_of(RLIMIT_AS).rlim_cur;
  if (soft == RLIM_INFINITY || soft >= 1024 * kMiB) return fine(limit_text(soft, true));
  return {Verdict::kNote, limit_text(soft, true), "a lane of large frames needs more: slots are address space first",
          "ulimit -v unlimited", false};
}

// The group's own directory, or the one that a container shows as its root. v2 has an empty controller list.
std::vector<std::pair<std::string, std::string>> memory_files(const System& system) {
  std::vector<std::pair<std::string, std::string>> files;
  std::istringstream lines(system.read("/proc/self/cgroup").value_or(""));
  for (std::string line; std::getline(lines, line);) {
    const std::size_t first = line.find(':');
    const std::size_t second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",";
    const std::string path = line.substr(second + 1) == "/" ? "" : line.substr(second + 1);
    for (const std::string& group : {path, std::string()}) {
      if (controllers == ",,") {
        files.emplace_back("/sys/fs/cgroup" + group + "/memory.max", "/sys/fs/cgroup" + group + "/memory.current");
      } else if (controllers.find(",memory,") != std::string::npos) {
        const std::string base = "/sys/fs/cgroup/memory" + group;
        files.emplace_back(base + "/memory.limit_in_bytes", base + "/memory.usage_in_bytes");
      }
    }
  }
  return files;
}

Finding cgroup_memory(const System& system) {
  for (const auto& [limit_file, usage_file] : memory_files(system)) {
    const auto limit = number_of(system.read(limit_file));
    const auto usage = number_of(system.read(usage_file));
    if (!limit || !usage || *limit > (std::uint64_t{1} << 60)) continue;  // "max", or v1's largest number
    const std::uint64_t left = *limit - std::min(*limit, *usage);
    const std::string found = fmt::format("{} of {} left", mebibytes(left), mebibytes(*limit));
    if (left >= 256 * kMiB) return fine(found);
    return {left < 32 * kMiB ? Verdict::kProblem : Verdict::kNote, found,
            "frames count as memory of this group: a lane that doesn't fit gets its process killed",
            "systemctl set-property UNIT MemoryMax=..., or docker run --memory", false};
  }
  return fine("no limit");
}

// --- time and CPUs

double clock_read_ns() {
  constexpr int kReads = 2000;
  const std::int64_t start = base::monotonic_ns();
  std::int64_t last = start;
  for (int i = 0; i < kReads; ++i) last = base::monotonic_ns();
  return static_cast<double>(last - start) / kReads;
}

Finding clock_source(const System& system) {
  const auto source = system.read("/sys/devices/system/clocksource/clocksource0/current_clocksource");
  return clock_finding(source.value_or("not known"), clock_read_ns());
}

Finding governor(const System& system) {
  const auto word = system.read("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor");
  if (!word) return fine("none (fixed, or a virtual machine)");
  if (*word == "performance") return fine(*word);
  return {Verdict::kNote, *word, "a CPU that slept is slow for the first tens of microseconds after a wake",
          "cpupower frequency-set -g performance", false};
}

Finding cpus(const System& system) {
  const auto online = system.read("/sys/devices/system/cpu/online");
  const std::string siblings = system.read("/sys/devices/system/cpu/cpu0/topology/thread_siblings_list").value_or("0");
  const bool threads = siblings.find_first_of(",-") != std::string::npos;
  const std::string found =
      fmt::format("{}{}", online ? "CPUs " + *online : fmt::format("{} CPUs", base::online_cpus()),
                  threads ? ", two threads a core" : "");
  if (base::online_cpus() == 1) {
    return {Verdict::kNote, found, "nobody can spin for a frame: each one costs a wake, 50 µs and more",
            "give the machine a second CPU", false};
  }
  if (!threads) return fine(found);
  return fine(found, "ends that spin are best on different cores: CPUs " + siblings + " are one");
}

Finding isolated(const System& system) {
  const std::string list = system.read("/sys/devices/system/cpu/isolated").value_or("");
  if (!list.empty()) return fine("CPUs " + list, "bind the ends of a lane to them (taskset)");
  return fine("none", "other work can delay a spinning end by a time slice",
              "for steady latency: isolcpus=2,3 nohz_full=2,3 on the kernel's command line");
}

// In a thread of its own, which takes the right with it.
void* try_fifo(void* result) {
  sched_param parameter{};
  parameter.sched_priority = sched_get_priority_min(SCHED_FIFO);
  *static_cast<int*>(result) = pthread_setschedparam(pthread_self(), SCHED_FIFO, &parameter);
  return nullptr;
}

Finding real_time(const System&) {
  int error = EAGAIN;
  pthread_t thread{};
  if (pthread_create(&thread, nullptr, try_fifo, &error) == 0) pthread_join(thread, nullptr);
  const std::string limit = limit_text(limit_of(RLIMIT_RTPRIO).rlim_cur, false);
  if (error == 0) return fine(fmt::format("SCHED_FIFO is allowed (RTPRIO {})", limit));
  return {Verdict::kNote, fmt::format("SCHED_FIFO is refused (RTPRIO {})", limit),
          "audio callbacks and other hard deadlines compete with everything else",
          "add \"@audio - rtprio 95\" to /etc/security/limits.d/audio.conf and yourself to that group", false};
}

// --- sockets and pages

Finding socket_buffer(const System& system, const char* file, const char* name) {
  constexpr std::uint64_t kWanted = 4 * kMiB;
  const auto most = number_of(system.read(std::string("/proc/sys/net/core/") + file));
  if (!most) return fine("not known");
  if (*most >= kWanted) return fine(fmt::format("{} KiB", *most / 1024));
  return {Verdict::kNote, fmt::format("{} KiB", *most / 1024),
          "frames larger than that need several wakes over UDS and TCP (shared memory doesn't care)",
          fmt::format("sysctl -w net.core.{}={}", name, kWanted), false};
}

Finding send_buffer(const System& system) { return socket_buffer(system, "wmem_max", "wmem_max"); }
Finding receive_buffer(const System& system) { return socket_buffer(system, "rmem_max", "rmem_max"); }

// "always [madvise] never" -> "madvise"
std::string chosen_word(const std::string& text) {
  const std::size_t start = text.find('[');
  const std::size_t end = text.find(']', std::min(start, text.size()));
  return end == std::string::npos ? "not known" : text.substr(start + 1, end - start - 1);
}

Finding huge_pages(const System& system) {
  const std::string memory = chosen_word(system.read("/sys/kernel/mm/transparent_hugepage/shmem_enabled").value_or(""));
  std::string reserved = "0";
  std::istringstream lines(system.read("/proc/meminfo").value_or(""));
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("HugePages_Total:")) reserved = line.substr(line.find_last_of(' ') + 1);
  }
  const std::string found = fmt::format("shared memory: {}; reserved: {}", memory, reserved);
  if (memory != "never" && memory != "not known") return fine(found);
  return fine(found, "the first touch of a very large frame costs some hundred page faults",
              "echo advise > /sys/kernel/mm/transparent_hugepage/shmem_enabled");
}

Finding container(const System& system) {
  const std::string status = system.read("/proc/self/status").value_or("");
  const std::size_t line = status.find("\nSeccomp:");
  const std::size_t mode = line == std::string::npos ? line : status.find_first_not_of(" \t", line + 9);
  const bool filtered = mode != std::string::npos && status[mode] == '2';
  std::string found =
      system.exists("/.dockerenv") || system.exists("/run/.containerenv") ? "in a container" : "no container";
  found += filtered ? ", system calls are filtered" : "";
  if (found == "no container") return fine(found);
  return fine(found, "lanes to other containers need a directory that both mount, and one pid namespace or uid",
              "docker run -v /run/lanes:/run/lanes -e FRAMELANE_DIR=/run/lanes --pid host");
}

constexpr std::array kProbes{Probe{"limits", "open files", open_files},
                             Probe{"limits", "locked memory", locked_memory},
                             Probe{"limits", "file size", file_size},
                             Probe{"limits", "address space", address_space},
                             Probe{"limits", "control group's memory", cgroup_memory},
                             Probe{"time", "clock source", clock_source},
                             Probe{"CPUs", "governor", governor},
                             Probe{"CPUs", "CPUs", cpus},
                             Probe{"CPUs", "isolated", isolated},
                             Probe{"CPUs", "real-time rights", real_time},
                             Probe{"sockets", "send buffer", send_buffer},
                             Probe{"sockets", "receive buffer", receive_buffer},
                             Probe{"memory", "huge pages", huge_pages},
                             Probe{"container", "container", container}};

}  // namespace

std::string_view to_string(Verdict verdict) noexcept {
  constexpr std::array<std::string_view, 3> words{"ok", "note", "PROBLEM"};
  return words[static_cast<std::size_t>(verdict)];
}

std::optional<std::string> System::read(const std::string& path) const {
  std::ifstream file(root + path, std::ios::binary);
  std::string text(65536, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (file.gcount() == 0 && !file.eof()) return std::nullopt;
  text.resize(static_cast<std::size_t>(file.gcount()));
  while (!text.empty() && text.back() == '\n') text.pop_back();
  return text;
}

bool System::exists(const std::string& path) const { return access((root + path).c_str(), F_OK) == 0; }

Finding clock_finding(const std::string& source, double read_ns) {
  const std::string found = fmt::format("{}, {:.0f} ns a reading", source, read_ns);
  if (read_ns < 150) return fine(found);
  return {Verdict::kNote, found, "each time stamp of a frame costs that much: the clock is read by a system call",
          "boot with clocksource=tsc if the CPU's is stable, or produce without stamps (lanesink stamps=off)", false};
}

std::span<const Probe> system_probes() { return kProbes; }

}  // namespace framelane::cli
