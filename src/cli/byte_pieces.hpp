// SPDX-License-Identifier: MIT
#pragma once

#include <cerrno>
#include <cstddef>
#include <span>
#include <string>

#include <sys/uio.h>

#include "framelane/base/result.hpp"

#include "base/text.hpp"

// What reading and writing bytes have in common.
namespace framelane::cli {

inline constexpr int kPipeBytes = 1 << 20;  // what an unprivileged process may ask for: fewer and larger calls

/// "cannot read 'a.y4m': ...". Of errno's meaning.
[[nodiscard]] inline tl::unexpected<Error> cannot(const std::string& verb, const std::string& name, int error) {
  const Code code = error == ENOENT   ? Code::kNotFound
                    : error == EACCES ? Code::kPermission
                    : error == EINTR  ? Code::kInterrupted
                                      : Code::kSystem;
  return fail(code, "cannot " + verb + " " + name + ": " + base::system_words(error));
}

/// Takes `count` bytes off the front of the pieces; returns the first one that has any left.
[[nodiscard]] inline std::span<iovec> pieces_after(std::span<iovec> pieces, std::size_t count) {
  while (!pieces.empty() && count >= pieces.front().iov_len) {
    count -= pieces.front().iov_len;
    pieces = pieces.subspan(1);
  }
  if (!pieces.empty() && count > 0) {
    pieces.front().iov_base = static_cast<std::byte*>(pieces.front().iov_base) + count;
    pieces.front().iov_len -= count;
  }
  return pieces;
}

}  // namespace framelane::cli
