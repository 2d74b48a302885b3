// SPDX-License-Identifier: MIT
// Any caps text is refused with a sentence, or is a format that is printed and read as the same one. The sizes that it
// leads to hold all of its planes.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "framelane/format/caps.hpp"

#include "fuzz/property.hpp"

namespace {

using framelane::Result;
using framelane::format::AudioFormat;
using framelane::format::TensorFormat;
using framelane::format::VideoFormat;
using framelane::fuzz::require;

template <class T>
bool said_why(const Result<T>& refused) {
  return !refused.error().text.empty();
}

template <class Format>
Result<Format> round_trip(std::string_view caps) {
  auto format = Format::parse(caps);
  if (!format) {
    require(said_why(format));
    return format;
  }
  const auto again = Format::parse(format->to_caps());
  require(again.has_value() && *again == *format && again->to_caps() == format->to_caps());
  return format;
}

void video(std::string_view caps) {
  const auto format = round_trip<VideoFormat>(caps);
  if (!format) return;
  const auto planes = format->planes();
  const auto size = format->frame_size();
  const auto samples = format->samples();
  require(planes.has_value() == size.has_value() && planes.has_value() == samples.has_value());
  if (!planes) return require(said_why(planes));
  require(samples->size() == planes->size());
  for (const auto& plane : *planes) require(plane.offset + std::uint64_t{plane.stride} * plane.rows <= *size);
}

void audio(std::string_view caps) {
  const auto format = round_trip<AudioFormat>(caps);
  if (!format) return;
  const auto sample = format->sample_size();
  const auto all = format->bytes_per_sample();
  if (sample && all) require(*all == std::uint64_t{*sample} * static_cast<std::uint64_t>(format->channels));
}

void tensors(std::string_view caps) {
  const auto format = round_trip<TensorFormat>(caps);
  if (!format) return;
  const auto size = format->frame_size();
  if (!size) return require(said_why(size));
  std::uint64_t sum = 0;
  for (const auto& tensor : format->tensors) sum += tensor.size().value();
  require(*size == sum);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view caps(reinterpret_cast<const char*>(data), size);
  video(caps);
  audio(caps);
  tensors(caps);
  const auto rate = framelane::format::frame_rate(caps);
  require(!rate || *rate > 0);
  return 0;
}
