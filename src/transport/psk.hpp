// SPDX-License-Identifier: MIT
#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "framelane/base/result.hpp"

namespace framelane::transport {

/// A pre-shared key: who has it may produce and consume. Its memory is wiped when it ends.
///
/// Threads: as an int.
class Psk {
 public:
  static constexpr std::size_t kMinKeyBytes = 16;
  static constexpr std::size_t kMaxKeyBytes = 64;
  static constexpr std::size_t kMaxIdentityBytes = 128;

  /// `identity`: 1 to 128 bytes of printable ASCII, no colon; it names the key, and goes over the network in clear.
  /// `key`: 16 to 64 bytes. Errors: kInvalidArgument; the text never holds the key.
  [[nodiscard]] static Result<Psk> create(std::string_view identity, std::span<const std::byte> key);

  Psk(const Psk&) = default;
  Psk& operator=(const Psk&) = default;
  ~Psk();

  [[nodiscard]] const std::string& identity() const noexcept { return identity_; }
  [[nodiscard]] std::span<const std::byte> key() const noexcept { return std::span(key_).first(size_); }

 private:
  Psk() = default;

  std::string identity_;
  std::array<std::byte, kMaxKeyBytes> key_{};
  std::size_t size_ = 0;
};

/// Reads a key from a file with one line `identity:hex`, as psktool writes it; empty lines and lines that begin with #
/// don't count. The file must be a regular one of ours or root's, which nobody else may read or write.
/// Errors: kNotFound, kPermission (it can't be read, or others could read or change it), kInvalidArgument (names the
///         line), kSystem. Each names the file, and how to make one.
[[nodiscard]] Result<Psk> read_psk(const std::string& path);

}  // namespace framelane::transport
