// SPDX-License-Identifier: MIT
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>

#include "framelane/base/result.hpp"

#include "base/unique_fd.hpp"

namespace framelane::memory {

/// Who may write through other mappings than the creator's.
enum class Sharing {
  kReadOnly,   ///< nobody: sealed against growing, shrinking and every future writable mapping
  kReadWrite,  ///< the receiver too, but it can't change the size
};

/// A mapped range, unmapped when destroyed.
class Mapping {
 public:
  Mapping() = default;
  Mapping(void* base, std::size_t size) noexcept : base_(static_cast<std::byte*>(base)), size_(size) {}
  Mapping(Mapping&& other) noexcept;
  Mapping& operator=(Mapping&& other) noexcept;
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;
  ~Mapping() { reset(); }

  [[nodiscard]] std::byte* data() const noexcept { return base_; }
  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  void reset() noexcept;

 private:
  std::byte* base_ = nullptr;
  std::size_t size_ = 0;
};

/// A sealed memfd and the creator's writable mapping of it.
struct SealedMemory {
  base::UniqueFd fd;
  Mapping mapping;
};

/// Creates `size` bytes (rounded up to pages) of zeroed shared memory: maps them writable for us, and only then seals,
/// so that our mapping is the only writable one there can be (kReadOnly). Not inherited by fork (MADV_DONTFORK). Pages
/// are not allocated yet: see prefault(). `name` is what /proc/PID/maps shows.
/// Errors: kNoMemory (memory, address space or RLIMIT_FSIZE/RLIMIT_AS; says which), kInvalidArgument (size 0),
///         kUnsupported (no sealing; `allow_unsealed` passes over a missing F_SEAL_FUTURE_WRITE), kSystem.
[[nodiscard]] Result<SealedMemory> create_sealed(const std::string& name, std::size_t size, Sharing sharing,
                                                 bool allow_unsealed = false);

/// Maps memory that a peer sent. Checks type, seals and size first, so that reading it can never fault.
/// kReadOnly maps it read-only; kReadWrite writable (a consumer page). `expected_size` is rounded up to pages.
/// `allow_unsealed` passes over a missing F_SEAL_FUTURE_WRITE, never over the seals that fix the size.
/// Errors: kProtocol (not a sealed memfd, wrong size; the text names what), kNoMemory, kSystem.
[[nodiscard]] Result<Mapping> map_received(int fd, std::size_t expected_size, Sharing sharing,
                                           bool allow_unsealed = false);

/// Allocates the pages of [offset, offset + size) of a writable mapping, so that the first frame doesn't pay for it.
/// The bytes keep their values. Advisory: looks at the machine's and the memory cgroup's room first and does nothing if
/// it would not fit, because the alternative is the out-of-memory killer. Returns whether all of it was done.
bool prefault(const Mapping& mapping, std::size_t offset, std::size_t size) noexcept;

[[nodiscard]] std::size_t page_size() noexcept;
/// In the type of `value`: a size that a lane states may be beyond what this process can address.
template <std::unsigned_integral T>
[[nodiscard]] constexpr T round_up(T value, std::type_identity_t<T> to) noexcept {
  return (value + to - 1) / to * to;
}
static_assert(round_up(std::uint64_t{0x1'0000'0001}, 4096) == 0x1'0000'1000);  // on 32 bit, too

}  // namespace framelane::memory
