// SPDX-License-Identifier: MIT
// The picture of a camera that isn't there: both programs know it, so that the viewer can check what it sees.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>

namespace camera {

inline constexpr int kWidth = 640;
inline constexpr int kHeight = 480;
inline constexpr int kFramesPerSecond = 30;
inline constexpr std::chrono::nanoseconds kInterval = std::chrono::nanoseconds(1'000'000'000 / kFramesPerSecond);
inline constexpr const char* kCaps =
    "video/x-raw, format=(string)NV12, width=(int)640, height=(int)480, framerate=(fraction)30/1";
inline constexpr std::size_t kLumaBytes = std::size_t{kWidth} * kHeight;
inline constexpr std::size_t kFrameBytes = kLumaBytes + kLumaBytes / 2;

/// Brightness in column `x` of picture `number`: a ramp that moves four pixels to the left with each picture.
inline std::byte luma(std::uint64_t number, int x) {
  return static_cast<std::byte>(static_cast<std::uint64_t>(x) + 4 * number);
}

/// NV12, shape [3/2 * kHeight, kWidth]: the luma plane, then the interleaved chroma.
inline void paint(std::uint64_t number, std::span<std::byte> picture) {
  for (int y = 0; y < kHeight; ++y) {
    const auto row = picture.subspan(static_cast<std::size_t>(y) * kWidth, kWidth);
    for (int x = 0; x < kWidth; ++x) row[static_cast<std::size_t>(x)] = luma(number, x);
  }
  const auto chroma = picture.subspan(kLumaBytes, kLumaBytes / 2);
  for (std::size_t i = 0; i < chroma.size(); ++i) chroma[i] = static_cast<std::byte>(i % 2 == 0 ? 0x60 : 0xa0);
}

}  // namespace camera
