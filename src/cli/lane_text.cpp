// SPDX-License-Identifier: MIT
#include "cli/lane_text.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include <fmt/format.h>
#include <langinfo.h>

#include "framelane/descriptor/descriptor.hpp"
#include "framelane/format/caps.hpp"

namespace framelane::cli {
namespace {

bool begins_code_point(char c) noexcept { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; }

/// Three digits that count and a letter, e.g. "1.23M"; of numbers from 1000 on.
std::string with_prefix(double value) {
  static constexpr std::string_view kPrefixes = "kMGTPEZY";
  std::size_t prefix = 0;
  value /= 1000;
  for (; value >= 999.5 && prefix + 1 < kPrefixes.size(); ++prefix) value /= 1000;
  const int digits = value < 9.995 ? 2 : value < 99.95 ? 1 : 0;
  return fmt::format("{:.{}f}{}", value, digits, kPrefixes[prefix]);
}

std::string frame_rate_text(int numerator, int denominator) {
  return numerator == 0 ? std::string() : fmt::format(" {}/{}", numerator, denominator);
}

std::string tensors_text(const format::TensorFormat& format) {
  std::string text;
  for (const format::Tensor& tensor : format.tensors) {
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", format::to_string(tensor.type),
                        fmt::join(tensor.dimensions, ":"));
  }
  return text + frame_rate_text(format.fps_n, format.fps_d);
}

std::string_view transport_name(descriptor::Transport transport) noexcept {
  switch (transport) {
    case descriptor::Transport::kUds:
      return "uds";
    case descriptor::Transport::kTcp:
      return "tcp";
    case descriptor::Transport::kPipe:
      return "pipe";
    default:
      return "shm";
  }
}

}  // namespace

Glyphs Glyphs::of_locale() { return {std::string_view(nl_langinfo(CODESET)) == "UTF-8"}; }

std::size_t width_of(std::string_view text) noexcept {
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), begins_code_point));
}

std::string left(std::string_view text, std::size_t width) {
  const std::size_t columns = width_of(text);
  if (columns <= width) return std::string(text).append(width - columns, ' ');
  std::string cut;
  std::size_t kept = 0;
  for (const char c : text) {
    if (begins_code_point(c) && ++kept >= width) break;
    cut += c;
  }
  return width == 0 ? std::string() : cut + '~';
}

std::string right(std::string_view text, std::size_t width) {
  const std::size_t columns = width_of(text);
  return columns > width ? left(text, width) : std::string(width - columns, ' ').append(text);
}

std::string count_text(std::uint64_t count) {
  return count < 100'000 ? std::to_string(count) : with_prefix(static_cast<double>(count));
}

std::string rate_text(double per_second) {
  if (per_second <= 0) return "0";
  if (per_second >= 99'999.5) return with_prefix(per_second);
  return fmt::format("{:.{}f}", per_second, per_second < 99.995 ? 2 : per_second < 999.95 ? 1 : 0);
}

std::string megabytes_text(double bytes_per_second) {
  const double megabytes = bytes_per_second / 1e6;
  if (megabytes <= 0) return "0";
  if (megabytes >= 9999.5) return with_prefix(megabytes);
  return fmt::format("{:.{}f}", megabytes, megabytes < 9.995 ? 2 : megabytes < 999.95 ? 1 : 0);
}

std::string bytes_text(std::uint64_t bytes) {
  if (bytes < 1000) return fmt::format("{} B", bytes);
  std::string text = with_prefix(static_cast<double>(bytes));
  text.insert(text.size() - 1, " ");
  return text + 'B';
}

std::string latency_text(std::uint64_t ns, const Glyphs& glyphs) {
  if (ns == 0) return "-";
  if (ns < 1000) return fmt::format("{}ns", ns);
  double value = static_cast<double>(ns) / 1000;
  const std::array<std::string, 2> units{std::string(glyphs.micro()) + 's', "ms"};
  for (const std::string& unit : units) {
    if (value < 999.5) return fmt::format("{:.{}f}{}", value, value < 9.995 ? 2 : value < 99.95 ? 1 : 0, unit);
    value /= 1000;
  }
  return value < 9999.5 ? fmt::format("{:.{}f}s", value, value < 99.95 ? 1 : 0) : with_prefix(value) + 's';
}

std::string bar(double share, std::size_t width, const Glyphs& glyphs) {
  const double clamped = std::clamp(share, 0.0, 1.0);
  auto filled = static_cast<std::size_t>(std::lround(clamped * static_cast<double>(width)));
  if (filled == 0 && clamped > 0 && width > 0) filled = 1;
  std::string text;
  for (std::size_t i = 0; i < width; ++i) text += glyphs.utf8 ? (i < filled ? "█" : "░") : (i < filled ? "#" : ".");
  return text;
}

std::string format_text(std::string_view caps) {
  if (caps.empty()) return "-";
  if (const auto video = format::VideoFormat::parse(caps)) {
    return fmt::format("{} {}x{}{}", video->format, video->width, video->height,
                       frame_rate_text(video->fps_n, video->fps_d));
  }
  if (const auto audio = format::AudioFormat::parse(caps))
    return fmt::format("{} {} Hz {} ch", audio->format, audio->rate, audio->channels);
  if (const auto tensors = format::TensorFormat::parse(caps)) return tensors_text(*tensors);
  return std::string(caps);
}

std::string transports_text(std::string_view descriptor) {
  const auto parsed = descriptor::Descriptor::parse(descriptor);
  if (!parsed) return "?";
  std::string text;
  for (const descriptor::Address& address : parsed->addresses()) {
    const std::string_view name = transport_name(address.transport);
    if (text.find(name) == std::string::npos) text += (text.empty() ? "" : " ") + std::string(name);
  }
  return text;
}

}  // namespace framelane::cli
