// SPDX-License-Identifier: MIT
#include "framelane/format/caps.hpp"

#include "format/caps_text.hpp"

namespace framelane::format {

std::optional<double> frame_rate(std::string_view text) {
  const auto caps = Caps::parse(text, "video/x-raw, framerate=(fraction)30/1");
  if (!caps) return std::nullopt;
  const std::string& media_type = caps->media_type();
  // Caps of audio as tensors have the sample rate there, by NNStreamer's habit; it is then what the caps claim.
  const bool paced =
      media_type.starts_with("video/") || media_type.starts_with("image/") || media_type == "other/tensors";
  if (!paced || !caps->has("framerate")) return std::nullopt;
  const auto rate = caps->fraction("framerate");
  if (!rate || rate->n == 0) return std::nullopt;
  return static_cast<double>(rate->n) / rate->d;
}

}  // namespace framelane::format
