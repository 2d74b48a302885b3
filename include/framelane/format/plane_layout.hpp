// SPDX-License-Identifier: MIT
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "framelane/base/result.hpp"
#include "framelane/format/caps.hpp"

namespace framelane::format {

/// Number of the kState event that carries a PlaneLayout: it holds for the frames behind it, until the next one or
/// until new caps.
inline constexpr std::uint32_t kLayoutState = 0;
inline constexpr std::size_t kMaxPlanes = 4;

/// Where the planes of raw video lie when that isn't where the caps alone put them: what lanesink says of padded
/// frames, "framelane-layout, offset=(guint64)< 0, 4096 >, stride=(int)< 64, 32 >, top=(uint)0, ...".
struct PlaneLayout {
  struct Place {
    std::uint64_t offset = 0;  ///< of the first row, bytes from the start of the frame; at most 2^32 - 1
    std::uint32_t stride = 0;  ///< bytes from one row to the next; 1 to 2^24

    friend bool operator==(const Place&, const Place&) = default;
  };

  std::vector<Place> places;  ///< at most kMaxPlanes, in the order of the caps' planes; empty: as the caps imply
  // Rows and points around the picture, and masks of the strides' alignment, as the writer's pool was told; each below
  // 2^14. They only tell what could be reused.
  std::uint32_t top = 0;
  std::uint32_t bottom = 0;
  std::uint32_t left = 0;
  std::uint32_t right = 0;
  std::array<std::uint32_t, kMaxPlanes> stride_align{};

  /// Reads what a producer sent. Errors: kProtocol (anything but such a structure with numbers that can be).
  [[nodiscard]] static Result<PlaneLayout> parse(std::string_view text_untrusted);

  friend bool operator==(const PlaneLayout&, const PlaneLayout&) = default;
};

/// The planes of `video` where `layout` puts them, without rows that only pad an odd height: there may be none.
/// Errors: as VideoFormat::planes(), and kProtocol (a layout of another number of planes).
[[nodiscard]] Result<std::vector<Plane>> planes(const VideoFormat& video, const PlaneLayout& layout);

/// Bytes that a frame with these planes has at least: up to the last point of each. Errors: as planes().
[[nodiscard]] Result<std::uint64_t> frame_size(const VideoFormat& video, const PlaneLayout& layout);

}  // namespace framelane::format
