// SPDX-License-Identifier: MIT
#include "cli/frame_file.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <cstring>
#include <numeric>

#include <fmt/format.h>

#include "base/text.hpp"
#include "cli/npy.hpp"
#include "cli/raw_frames.hpp"
#include "cli/wav.hpp"
#include "cli/y4m.hpp"

namespace framelane::cli {
namespace {

struct FormatRow {
  FileFormat format;
  std::string_view name;
  std::string_view suffix;
  std::string_view magic;
};
constexpr FormatRow kFormats[] = {
    {FileFormat::kRaw, "raw", ".raw", ""},
    {FileFormat::kY4m, "y4m", ".y4m", "YUV4MPEG2"},
    {FileFormat::kWav, "wav", ".wav", "RIFF"},
    {FileFormat::kNpy, "npy", ".npy", "\x93NUMPY"},
};
// Big-endian and 64-bit relatives: known, so that they are refused by name.
constexpr std::string_view kWavRelatives[] = {"RIFX", "RF64", "BW64"};

std::string_view text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::string_view without_spaces(std::string_view text) {
  return text.substr(std::min(text.find_first_not_of(' '), text.size()));
}

}  // namespace

std::string_view to_string(FileFormat format) noexcept {
  return std::find_if(std::begin(kFormats), std::end(kFormats),
                      [&](const FormatRow& row) { return row.format == format; })
      ->name;
}

std::optional<FileFormat> format_of_name(std::string_view path) {
  std::string lower(path);
  std::transform(lower.begin(), lower.end(), lower.begin(), [](unsigned char c) { return std::tolower(c); });
  for (const FormatRow& row : kFormats) {
    if (lower.ends_with(row.suffix)) return row.format;
  }
  return std::nullopt;
}

FileFormat format_of_content(std::span<const std::byte> start) {
  const std::string_view text = text_of(start);
  for (const FormatRow& row : kFormats) {
    if (!row.magic.empty() && text.starts_with(row.magic)) return row.format;
  }
  const bool relative = std::any_of(std::begin(kWavRelatives), std::end(kWavRelatives),
                                    [&](std::string_view magic) { return text.starts_with(magic); });
  return relative ? FileFormat::kWav : FileFormat::kRaw;
}

std::optional<std::uint64_t> parse_number(std::string_view text, std::uint64_t most) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || error != std::errc{} || end != text.data() + text.size() || value > most) return std::nullopt;
  return value;
}

Result<Rate> parse_rate(const std::string& text) {
  constexpr std::uint64_t kMost = 1'000'000'000;
  const auto wrong =
      fail(Code::kInvalidArgument,
           "'" + base::printable(text) + "' is no rate: expected frames a second, like 30, 29.97 or 30000/1001");
  const std::size_t slash = text.find('/');
  std::optional<std::uint64_t> n;
  std::optional<std::uint64_t> d = 1;
  if (slash != std::string::npos) {
    n = parse_number(std::string_view(text).substr(0, slash), kMost);
    d = parse_number(std::string_view(text).substr(slash + 1), kMost);
  } else if (const std::size_t point = text.find('.'); point == std::string::npos) {
    n = parse_number(text, kMost);
  } else {
    const std::string decimals = text.substr(point + 1);
    if (decimals.empty() || decimals.size() > 3) return wrong;
    n = parse_number(text.substr(0, point) + decimals, kMost);
    d = static_cast<std::uint64_t>(std::pow(10, decimals.size()));
    // What is written 29.97 or 59.94 is meant as the television's rate.
    for (const std::uint64_t base : {24000u, 30000u, 60000u}) {
      if (n && decimals.size() >= 2 &&
          std::llround(static_cast<double>(base) * static_cast<double>(*d) / 1001) == static_cast<long long>(*n)) {
        n = base;
        d = 1001;
      }
    }
  }
  if (!n || !d || *n == 0 || *d == 0) return wrong;
  const std::uint64_t common = std::gcd(*n, *d);
  return Rate{static_cast<int>(*n / common), static_cast<int>(*d / common)};
}

std::uint64_t time_of(std::uint64_t units, Rate rate) noexcept {
  constexpr std::uint64_t kMostSeconds = 4'000'000'000;
  std::uint64_t scaled = 0;
  if (rate.n == 0 || __builtin_mul_overflow(units, static_cast<std::uint64_t>(rate.d), &scaled)) return format::kNoTime;
  const auto n = static_cast<std::uint64_t>(rate.n);
  if (scaled / n > kMostSeconds) return format::kNoTime;
  return scaled / n * 1'000'000'000 + scaled % n * 1'000'000'000 / n;
}

std::string caps_field(std::string_view caps, std::string_view field) {
  std::size_t at = 0;
  while ((at = caps.find(field, at)) != std::string_view::npos) {
    const std::size_t start = at;
    at += field.size();
    if (start == 0 || (caps[start - 1] != ' ' && caps[start - 1] != ',')) continue;
    std::string_view value = without_spaces(caps.substr(at));
    if (!value.starts_with("=")) continue;
    value = without_spaces(value.substr(1));
    if (value.starts_with("(")) {
      value = without_spaces(value.substr(std::min(value.find(')'), value.size() - 1) + 1));
    }
    value = value.substr(0, value.find_first_of(",; "));
    return std::string(value);
  }
  return {};
}

std::span<iovec> pieces_of(const std::byte* frame, const std::vector<Extent>& extents, std::vector<iovec>& pieces) {
  pieces.clear();
  for (const Extent& extent : extents) {
    void* const start = const_cast<std::byte*>(frame) + extent.offset;  // NOLINT: writev only reads it
    pieces.push_back({start, static_cast<std::size_t>(extent.size)});
  }
  return pieces;
}

FrameReader::FrameReader(ByteSource source, StreamInfo info)
    : source_(std::move(source)), info_(std::move(info)), first_(source_.position()) {}

Result<void> FrameReader::rewind() {
  if (auto done = source_.rewind(first_); !done) return done;
  frames_ = 0;
  restart();
  return {};
}

tl::unexpected<Error> FrameReader::truncated(const std::string& in_what, std::uint64_t missing,
                                             std::uint64_t wanted) const {
  return fail(Code::kProtocol, fmt::format("{} ends at byte {}, in {}: {} of its {} bytes are missing", source_.name(),
                                           source_.position(), in_what, missing, wanted));
}

tl::unexpected<Error> FrameReader::damaged(const std::string& what) const {
  return fail(Code::kProtocol, fmt::format("{} is damaged at byte {}: {}", source_.name(), source_.position(), what));
}

Result<void> FrameWriter::write(std::span<const std::byte> frame) {
  const std::uint64_t start = sink_.position();
  auto written = put(frame);
  if (written) {
    ++frames_;
  } else {
    static_cast<void>(sink_.take_back(start));  // the first error says more
  }
  return written;
}

Result<std::unique_ptr<FrameReader>> open_reader(FileFormat format, ByteSource source, const ReadOptions& options) {
  switch (format) {
    case FileFormat::kY4m:
      return open_y4m_reader(std::move(source), options);
    case FileFormat::kWav:
      return open_wav_reader(std::move(source), options);
    case FileFormat::kNpy:
      return open_npy_reader(std::move(source), options);
    case FileFormat::kRaw:
      break;
  }
  return open_raw_reader(std::move(source), options);
}

Result<std::unique_ptr<FrameWriter>> open_writer(FileFormat format, ByteSink sink, const WriteOptions& options) {
  switch (format) {
    case FileFormat::kY4m:
      return open_y4m_writer(std::move(sink), options);
    case FileFormat::kWav:
      return open_wav_writer(std::move(sink), options);
    case FileFormat::kNpy:
      return open_npy_writer(std::move(sink), options);
    case FileFormat::kRaw:
      break;
  }
  return open_raw_writer(std::move(sink));
}

}  // namespace framelane::cli
