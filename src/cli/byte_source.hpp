// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <sys/uio.h>

#include "framelane/base/result.hpp"

#include "base/unique_fd.hpp"

namespace framelane::cli {

class Interruption;

/// The bytes of a file, a pipe or standard input, read straight to where they are wanted.
///
/// Threads: one thread; with an Interruption, the one that made that. Units: bytes.
class ByteSource {
 public:
  /// "-" is standard input. `interruption` may be null; else it outlives this. Errors: kNotFound, kPermission, kSystem.
  [[nodiscard]] static Result<ByteSource> open(const std::string& path, const Interruption* interruption);
  /// An open file, of which it takes ownership.
  ByteSource(base::UniqueFd fd, std::string name, const Interruption* interruption);

  /// Fills all of it, or as much as there is: less than asked for only at the end. Errors: kInterrupted, kSystem.
  [[nodiscard]] Result<std::uint64_t> read(std::span<std::byte> into);
  /// The same over several pieces, which it changes.
  [[nodiscard]] Result<std::uint64_t> read_pieces(std::span<iovec> pieces);
  /// The next bytes, at most `most`, without taking them; fewer only at the end. Errors: as read().
  [[nodiscard]] Result<std::span<const std::byte>> peek(std::size_t most);
  /// Reads past `count` bytes; how many there were. Errors: as read().
  [[nodiscard]] Result<std::uint64_t> skip(std::uint64_t count);

  /// Of the next byte, from the start of the input.
  [[nodiscard]] std::uint64_t position() const noexcept { return position_; }
  [[nodiscard]] bool can_rewind() const noexcept { return start_.has_value(); }
  /// Back to a position that was read before. Errors: kUnsupported (a pipe or a terminal).
  [[nodiscard]] Result<void> rewind(std::uint64_t position);

  /// As a message names it: the path, or "standard input".
  [[nodiscard]] const std::string& name() const noexcept { return name_; }

 private:
  [[nodiscard]] Result<std::uint64_t> read_some(std::span<iovec> pieces);

  base::UniqueFd fd_;
  std::string name_;
  const Interruption* interruption_;
  std::optional<std::uint64_t> start_;  // of the input in its file; nothing where there is no going back
  std::uint64_t position_ = 0;
  std::vector<std::byte> ahead_;  // peeked at and not yet taken
};

}  // namespace framelane::cli
