// SPDX-License-Identifier: MIT
#include <array>
#include <charconv>
#include <utility>

#include "framelane/format/caps.hpp"

#include "base/text.hpp"
#include "format/caps_text.hpp"

namespace framelane::format {
namespace {

constexpr std::string_view kExample =
    "audio/x-raw, format=(string)S16LE, layout=(string)interleaved, rate=(int)48000, channels=(int)2";

struct SampleSize {
  std::string_view format;  // without the byte order
  std::uint32_t bytes;
  bool ordered;  // has a byte order
};
constexpr SampleSize kSampleSizes[] = {
    {"S8", 1, false}, {"U8", 1, false}, {"S16", 2, true}, {"U16", 2, true}, {"S18", 3, true},    {"U18", 3, true},
    {"S20", 3, true}, {"U20", 3, true}, {"S24", 3, true}, {"U24", 3, true}, {"S24_32", 4, true}, {"U24_32", 4, true},
    {"S32", 4, true}, {"U32", 4, true}, {"F32", 4, true}, {"F64", 8, true},
};

/// 16 digits, as GStreamer prints masks.
std::string hex_mask(std::uint64_t mask) {
  std::array<char, 16> digits{};
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), mask, 16).ptr;
  const auto count = static_cast<std::size_t>(end - digits.data());
  return "0x" + std::string(16 - count, '0') + std::string(digits.data(), count);
}

}  // namespace

Result<AudioFormat> AudioFormat::parse(std::string_view text) {
  const auto caps = Caps::parse(text, kExample);
  if (!caps) return tl::unexpected(caps.error());
  if (auto done = caps->expect("audio/x-raw"); !done) return tl::unexpected(std::move(done.error()));
  auto format = caps->string("format");
  if (!format) return tl::unexpected(std::move(format.error()));
  const auto rate = caps->positive("rate");
  if (!rate) return tl::unexpected(rate.error());
  const auto channels = caps->positive("channels");
  if (!channels) return tl::unexpected(channels.error());
  AudioFormat audio{std::move(*format), *rate, *channels, true, {}};
  if (caps->has("layout")) {
    const auto layout = caps->string("layout");
    if (!layout) return tl::unexpected(layout.error());
    if (*layout != "interleaved" && *layout != "non-interleaved") {
      return caps->refuse(Code::kInvalidArgument, "layout",
                          "expected \"interleaved\" or \"non-interleaved\" for \"layout\"");
    }
    audio.interleaved = *layout == "interleaved";
  }
  if (caps->has("channel-mask")) {
    const auto mask = caps->bitmask("channel-mask");
    if (!mask) return tl::unexpected(mask.error());
    audio.channel_mask = *mask;
  }
  return audio;
}

std::string AudioFormat::to_caps() const {
  std::string text = "audio/x-raw, format=(string)" + caps_value(format) + ", layout=(string)" +
                     (interleaved ? "interleaved" : "non-interleaved") + ", rate=(int)" + std::to_string(rate) +
                     ", channels=(int)" + std::to_string(channels);
  if (channel_mask) text += ", channel-mask=(bitmask)" + hex_mask(*channel_mask);
  return text;
}

Result<std::uint32_t> AudioFormat::sample_size() const {
  for (const SampleSize& row : kSampleSizes) {
    if (!row.ordered && format == row.format) return row.bytes;
    if (!row.ordered || format.size() != row.format.size() + 2) continue;
    const bool order = format.ends_with("LE") || format.ends_with("BE");
    if (order && format.starts_with(row.format)) return row.bytes;
  }
  return fail(Code::kUnsupported, "the size of audio in the format \"" + base::printable(format) + "\" is not known");
}

Result<std::uint64_t> AudioFormat::bytes_per_sample() const {
  const auto size = sample_size();
  if (!size) return tl::unexpected(size.error());
  if (channels < 1) return fail(Code::kInvalidArgument, "audio needs at least one channel");
  return std::uint64_t{*size} * static_cast<std::uint64_t>(channels);
}

}  // namespace framelane::format
