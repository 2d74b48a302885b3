// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include <sys/uio.h>

#include "framelane/base/result.hpp"

#include "base/unique_fd.hpp"

namespace framelane::cli {

class Interruption;

/// Where the bytes of a stream go: a file, a pipe or standard output, written straight from where they lie.
///
/// Threads: one thread; with an Interruption, the one that made that. Units: bytes.
class ByteSink {
 public:
  /// "-" is standard output; a file is made where there is none, and keeps what it holds until the first write() or
  /// close(). `interruption` may be null; else it outlives this.
  /// Errors: kNotFound (no such directory), kPermission, kSystem.
  [[nodiscard]] static Result<ByteSink> open(const std::string& path, const Interruption* interruption);

  /// Writes all of it. After a signal a pipe gets one second more, so that it may end with a whole frame.
  /// Errors: kPeerLost (who read it has gone), kInterrupted (nobody reads on), kSystem.
  [[nodiscard]] Result<void> write(std::span<const std::byte> bytes);
  [[nodiscard]] Result<void> write(std::string_view text) { return write(std::as_bytes(std::span(text))); }
  /// The same from several pieces, which it changes.
  [[nodiscard]] Result<void> write_pieces(std::span<iovec> pieces);

  /// Whether what is written can be changed.
  [[nodiscard]] bool can_patch() const noexcept { return start_.has_value(); }
  /// Writes over bytes that are there already, `offset` from the first. Errors: kSystem.
  [[nodiscard]] Result<void> patch(std::uint64_t offset, std::span<const std::byte> bytes);
  /// Takes back what was written since position() was `position`, if it can be changed. Errors: kSystem.
  [[nodiscard]] Result<void> take_back(std::uint64_t position);
  /// A full disk may show only here. Errors: kSystem.
  [[nodiscard]] Result<void> close();

  /// Bytes written.
  [[nodiscard]] std::uint64_t position() const noexcept { return position_; }
  [[nodiscard]] const std::string& name() const noexcept { return name_; }

 private:
  ByteSink(base::UniqueFd fd, std::string name, const Interruption* interruption);
  [[nodiscard]] tl::unexpected<Error> cannot_write(int error) const;
  [[nodiscard]] bool gave_up();
  [[nodiscard]] Result<void> empty_first();

  base::UniqueFd fd_;
  std::string name_;
  const Interruption* interruption_;
  std::optional<std::uint64_t> start_;  // of our bytes in the file; nothing in a pipe or a file that only grows
  bool emptied_ = true;                 // the file holds nothing of others
  std::uint64_t position_ = 0;
  std::int64_t give_up_ns_ = 0;  // CLOCK_MONOTONIC; 0: nobody asked us to end
};

}  // namespace framelane::cli
