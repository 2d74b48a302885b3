// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "framelane/lane/observer.hpp"

// Numbers and formats in few columns, for `framelane ls` and `top`. Any number is allowed: they come from others.
namespace framelane::cli {

/// What the terminal can show.
struct Glyphs {
  bool utf8 = true;
  /// As the locale says, which must have been set.
  [[nodiscard]] static Glyphs of_locale();
  [[nodiscard]] std::string_view micro() const noexcept { return utf8 ? "µ" : "u"; }
};

/// Columns that a text takes: its code points.
[[nodiscard]] std::size_t width_of(std::string_view text) noexcept;
/// Exactly `width` columns: cut (the last one then is '~'), or filled with spaces.
[[nodiscard]] std::string left(std::string_view text, std::size_t width);
[[nodiscard]] std::string right(std::string_view text, std::size_t width);

/// "0", "12345", "1.23M", "18.4E": at most 5 columns.
[[nodiscard]] std::string count_text(std::uint64_t count);
/// "0", "0.5", "29.97", "1200", "1.23M": at most 5 columns.
[[nodiscard]] std::string rate_text(double per_second);
/// Of bytes a second, in MB/s: "0.00", "186.6", "12.3k".
[[nodiscard]] std::string megabytes_text(double bytes_per_second);
/// "3.11 MB", "32 B".
[[nodiscard]] std::string bytes_text(std::uint64_t bytes);
/// "-" when 0, "340ns", "1.2µs", "12ms", "3.4s": at most 6 columns.
[[nodiscard]] std::string latency_text(std::uint64_t ns, const Glyphs& glyphs);
/// `width` columns, filled by that share (0 to 1); anything above 0 shows.
[[nodiscard]] std::string bar(double share, std::size_t width, const Glyphs& glyphs);

/// The main things that caps say: "RGB 1920x1080 30/1", "S16LE 48000 Hz 2 ch", "float32 80:100", else the caps.
[[nodiscard]] std::string format_text(std::string_view caps);
/// The transports that a descriptor names: "shm uds".
[[nodiscard]] std::string transports_text(std::string_view descriptor);

}  // namespace framelane::cli
