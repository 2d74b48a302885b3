// SPDX-License-Identifier: MIT
#pragma once

#include <array>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>
#include <sys/mman.h>

#include "framelane/base/result.hpp"
#include "framelane/lane/settings.hpp"

#include "base/text.hpp"
#include "cli/child_process.hpp"

namespace framelane::cli {

/// Zeroed memory that this process and its forks share: `count` objects of T. It needs no file and goes with them.
template <class T>
class SharedArray {
 public:
  /// Errors: kNoMemory.
  [[nodiscard]] static Result<SharedArray> create(std::size_t count) {
    static_assert(std::is_trivially_destructible_v<T>);
    void* memory = ::mmap(nullptr, count * sizeof(T), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) {
      return fail(Code::kNoMemory, std::string("cannot share memory with the measuring processes: ") +
                                       base::system_words(errno) + "; ask for fewer samples");
    }
    return SharedArray(static_cast<T*>(memory), count);
  }
  SharedArray(SharedArray&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), count_(std::exchange(other.count_, 0)) {}
  SharedArray& operator=(SharedArray&&) = delete;
  ~SharedArray() {
    if (data_ != nullptr) ::munmap(data_, count_ * sizeof(T));
  }

  [[nodiscard]] T& operator[](std::size_t index) noexcept { return data_[index]; }
  [[nodiscard]] std::span<T> all() noexcept { return {data_, count_}; }

 private:
  SharedArray(T* data, std::size_t count) noexcept : data_(data), count_(count) {}
  T* data_ = nullptr;
  std::size_t count_ = 0;
};

/// The two CPUs that a pair of processes is bound to.
using CpuPair = std::array<int, 2>;

/// The first two CPUs that this process may use, of different cores if there are such: two threads of one core share
/// its caches and its speed, and no lane runs like that by choice. Errors: kUnsupported (only one CPU).
[[nodiscard]] Result<CpuPair> choose_cpus();

/// Adds `--spin` and `--stamps`, with the words that the elements use, too.
void add_spin_option(CLI::App& command, Spin& spin);
void add_stamps_option(CLI::App& command, Stamps& stamps);
[[nodiscard]] std::string_view to_string(Spin spin) noexcept;
[[nodiscard]] std::string_view to_string(Stamps stamps) noexcept;

/// What one reading of the clock adds to each sample, ns: the median difference of two readings in a row.
[[nodiscard]] double clock_cost_ns();

/// {"cpu":…, "kernel":…, "compiler":…, "version":…}: what a kept result has to name.
[[nodiscard]] nlohmann::ordered_json machine_json();

/// "framelane bench: TEXT" on standard error; returns kFailed.
int report_failure(std::string_view text);

/// What a process of a bench runs, and its name in messages.
using Body = std::pair<std::string, std::function<int()>>;

/// How the processes of a bench ended, and in words why not well.
struct BodiesEnd {
  GroupEnd end = GroupEnd::kOneFailed;
  std::string why;
};

/// Runs bodies in processes of their own until all return 0, and leaves none behind. With `progress`, `limit` is how
/// long its value may stand still.
[[nodiscard]] BodiesEnd run_bodies(std::span<const Body> bodies, std::chrono::seconds limit,
                                   const std::function<std::uint64_t()>& progress = {});

/// Says why on standard error, and returns the exit code: kOk, kFailed or kInterrupted.
[[nodiscard]] int report_end(const BodiesEnd& end);

/// Runs bodies in processes of their own until all return 0, each with FRAMELANE_DIR in a new private directory, and
/// leaves nothing behind: returns kOk, kFailed or kInterrupted, having said why.
[[nodiscard]] int run_privately(std::span<const Body> bodies, std::chrono::seconds limit);
[[nodiscard]] inline int run_pair(const std::array<Body, 2>& bodies, std::chrono::seconds limit) {
  return run_privately(bodies, limit);
}

}  // namespace framelane::cli
