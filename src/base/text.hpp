// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace framelane::base {

/// Text from outside as a terminal or log may show it: bytes that aren't printable ASCII as \xNN, and "..." in place of
/// what comes after the first `most` bytes.
[[nodiscard]] std::string printable(std::string_view text, std::size_t most = 80);

/// A file's path in a sentence: 'printable, and whole if it isn't longer than 200 bytes'.
[[nodiscard]] std::string quoted(std::string_view path);

/// What the system says of `error` (errno's meaning), and what helps where something does.
[[nodiscard]] std::string system_words(int error);

}  // namespace framelane::base
