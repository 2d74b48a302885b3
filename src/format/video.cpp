// SPDX-License-Identifier: MIT
#include <algorithm>
#include <array>
#include <utility>

#include "framelane/format/caps.hpp"
#include "framelane/format/plane_layout.hpp"

#include "base/text.hpp"
#include "format/caps_text.hpp"

namespace framelane::format {
namespace {

constexpr std::string_view kExample =
    "video/x-raw, format=(string)I420, width=(int)640, height=(int)480, framerate=(fraction)30/1";

// So that no product below leaves 64 bits. GStreamer's own limit, an int of bytes per frame, is far below.
constexpr int kMaxSide = 1 << 24;
constexpr std::uint64_t kRowAlignment = 4;

/// How a plane samples the picture: one point of `bytes` for 2^h x 2^v pixels.
struct PlaneShape {
  std::uint8_t h;
  std::uint8_t v;
  std::uint8_t bytes;  // 0 = no such plane
};

/// How GStreamer counts the rows of a plane.
enum class Rows : std::uint8_t {
  kAsIs,
  kEven,        // the picture counts as having an even number of rows
  kFieldPairs,  // and chroma, too, when it is shared by two fields
};

struct Layout {
  std::string_view formats;  // GStreamer's names, with a space around each
  Rows rows;
  std::uint8_t sample;  // bytes of one; 0 = packed: several share bytes
  std::array<PlaneShape, 4> planes;
};

constexpr PlaneShape kNone{0, 0, 0};
constexpr Layout kLayouts[] = {
    {" I420 YV12 ", Rows::kFieldPairs, 1, {{{0, 0, 1}, {1, 1, 1}, {1, 1, 1}, kNone}}},
    {" A420 ", Rows::kFieldPairs, 1, {{{0, 0, 1}, {1, 1, 1}, {1, 1, 1}, {0, 0, 1}}}},
    {" NV12 NV21 ", Rows::kFieldPairs, 1, {{{0, 0, 1}, {1, 1, 2}, kNone, kNone}}},
    {" NV16 NV61 ", Rows::kAsIs, 1, {{{0, 0, 1}, {1, 0, 2}, kNone, kNone}}},
    {" NV24 ", Rows::kAsIs, 1, {{{0, 0, 1}, {0, 0, 2}, kNone, kNone}}},
    {" Y41B ", Rows::kAsIs, 1, {{{0, 0, 1}, {2, 0, 1}, {2, 0, 1}, kNone}}},
    {" Y42B ", Rows::kAsIs, 1, {{{0, 0, 1}, {1, 0, 1}, {1, 0, 1}, kNone}}},
    {" Y444 GBR RGBP BGRP ", Rows::kAsIs, 1, {{{0, 0, 1}, {0, 0, 1}, {0, 0, 1}, kNone}}},
    {" GBRA ", Rows::kAsIs, 1, {{{0, 0, 1}, {0, 0, 1}, {0, 0, 1}, {0, 0, 1}}}},
    {" YUY2 YVYU UYVY VYUY ", Rows::kAsIs, 1, {{{1, 0, 4}, kNone, kNone, kNone}}},
    {" GRAY8 ", Rows::kAsIs, 1, {{{0, 0, 1}, kNone, kNone, kNone}}},
    {" GRAY16_LE GRAY16_BE ", Rows::kAsIs, 2, {{{0, 0, 2}, kNone, kNone, kNone}}},
    {" RGB16 BGR16 RGB15 BGR15 ", Rows::kAsIs, 0, {{{0, 0, 2}, kNone, kNone, kNone}}},
    {" BGR10A2_LE RGB10A2_LE r210 Y410 ", Rows::kAsIs, 0, {{{0, 0, 4}, kNone, kNone, kNone}}},
    {" RGB BGR v308 IYU2 ", Rows::kAsIs, 1, {{{0, 0, 3}, kNone, kNone, kNone}}},
    {" RGBA BGRA ARGB ABGR RGBx BGRx xRGB xBGR AYUV VUYA ", Rows::kAsIs, 1, {{{0, 0, 4}, kNone, kNone, kNone}}},
    {" ARGB64 AYUV64 ARGB64_LE ARGB64_BE RGBA64_LE RGBA64_BE BGRA64_LE BGRA64_BE ABGR64_LE ABGR64_BE ",
     Rows::kAsIs,
     2,
     {{{0, 0, 8}, kNone, kNone, kNone}}},
    {" P010_10LE P010_10BE P012_LE P012_BE P016_LE P016_BE ", Rows::kEven, 2, {{{0, 0, 2}, {1, 1, 4}, kNone, kNone}}},
    {" I420_10LE I420_10BE I420_12LE I420_12BE ", Rows::kFieldPairs, 2, {{{0, 0, 2}, {1, 1, 2}, {1, 1, 2}, kNone}}},
    {" I422_10LE I422_10BE I422_12LE I422_12BE ", Rows::kEven, 2, {{{0, 0, 2}, {1, 0, 2}, {1, 0, 2}, kNone}}},
    {" Y444_10LE Y444_10BE Y444_12LE Y444_12BE Y444_16LE Y444_16BE GBR_10LE GBR_10BE GBR_12LE GBR_12BE ",
     Rows::kAsIs,
     2,
     {{{0, 0, 2}, {0, 0, 2}, {0, 0, 2}, kNone}}},
};

const Layout* layout_of(const std::string& format) {
  if (format.find(' ') != std::string::npos) return nullptr;
  const std::string word = " " + format + " ";
  const auto* found = std::find_if(std::begin(kLayouts), std::end(kLayouts), [&](const Layout& layout) {
    return layout.formats.find(word) != std::string_view::npos;
  });
  return found == std::end(kLayouts) ? nullptr : found;
}

constexpr std::uint64_t up_to_multiple(std::uint64_t value, std::uint64_t of) noexcept {
  return (value + of - 1) / of * of;
}

std::uint64_t points_of(const PlaneShape& shape, int width) noexcept {
  return up_to_multiple(static_cast<std::uint64_t>(width), 1u << shape.h) >> shape.h;
}

std::uint64_t rows_of(const PlaneShape& shape, Rows rule, bool interlaced, std::uint64_t height) noexcept {
  const std::uint64_t picture = rule == Rows::kAsIs ? height : up_to_multiple(height, 2);
  const std::uint64_t rows = picture >> shape.v;
  return rule == Rows::kFieldPairs && interlaced ? up_to_multiple(rows, 2) : rows;
}

Result<void> check_size(const VideoFormat& video) {
  if (video.width < 1 || video.height < 1) {
    return fail(Code::kInvalidArgument, "a video frame needs a width and a height of at least 1 pixel");
  }
  if (video.width <= kMaxSide && video.height <= kMaxSide) return {};
  return fail(Code::kTooLarge, "a video frame may have at most " + std::to_string(kMaxSide) + " pixels on each side");
}

}  // namespace

Result<VideoFormat> VideoFormat::parse(std::string_view text) {
  const auto caps = Caps::parse(text, kExample);
  if (!caps) return tl::unexpected(caps.error());
  if (auto done = caps->expect("video/x-raw"); !done) return tl::unexpected(std::move(done.error()));
  auto format = caps->string("format");
  if (!format) return tl::unexpected(std::move(format.error()));
  const auto width = caps->positive("width");
  if (!width) return tl::unexpected(width.error());
  const auto height = caps->positive("height");
  if (!height) return tl::unexpected(height.error());
  VideoFormat video{std::move(*format), *width, *height, 0, 1, {}};
  if (caps->has("framerate")) {
    const auto rate = caps->fraction("framerate");
    if (!rate) return tl::unexpected(rate.error());
    video.fps_n = rate->n;
    video.fps_d = rate->d;
  }
  if (caps->has("interlace-mode")) {
    auto mode = caps->string("interlace-mode");
    if (!mode) return tl::unexpected(std::move(mode.error()));
    if (*mode != "progressive") video.interlace_mode = std::move(*mode);
  }
  return video;
}

std::string VideoFormat::to_caps() const {
  std::string text = "video/x-raw, format=(string)" + caps_value(format) + ", width=(int)" + std::to_string(width) +
                     ", height=(int)" + std::to_string(height) + ", framerate=(fraction)" + std::to_string(fps_n) +
                     "/" + std::to_string(fps_d);
  if (!interlace_mode.empty()) text += ", interlace-mode=(string)" + caps_value(interlace_mode);
  return text;
}

Result<std::vector<Plane>> VideoFormat::planes() const {
  if (auto checked = check_size(*this); !checked) return tl::unexpected(std::move(checked.error()));
  const Layout* layout = layout_of(format);
  if (layout == nullptr) {
    return fail(Code::kUnsupported, "the size of video in the format \"" + base::printable(format) + "\" is not known");
  }
  const bool interlaced = interlace_mode == "interleaved" || interlace_mode == "mixed";
  if (!interlaced && !interlace_mode.empty() && interlace_mode != "progressive") {
    return fail(Code::kUnsupported,
                "the size of video with interlace-mode \"" + base::printable(interlace_mode) + "\" is not known");
  }
  std::vector<Plane> planes;
  std::uint64_t offset = 0;
  for (const PlaneShape& shape : layout->planes) {
    if (shape.bytes == 0) break;
    const std::uint64_t stride = up_to_multiple(points_of(shape, width) * shape.bytes, kRowAlignment);
    const std::uint64_t rows = rows_of(shape, layout->rows, interlaced, static_cast<std::uint64_t>(height));
    planes.push_back({offset, static_cast<std::uint32_t>(stride), static_cast<std::uint32_t>(rows)});
    offset += stride * rows;
  }
  return planes;
}

Result<std::vector<PlaneSamples>> VideoFormat::samples() const {
  const auto all = planes();
  if (!all) return tl::unexpected(all.error());
  const Layout& layout = *layout_of(format);
  std::vector<PlaneSamples> samples;
  for (std::size_t i = 0; i < all->size(); ++i) {
    const PlaneShape& shape = layout.planes[i];
    const std::uint32_t sample = layout.sample;
    samples.push_back({static_cast<std::uint32_t>(points_of(shape, width)), sample != 0 ? shape.bytes / sample : 0,
                       sample != 0 ? sample : shape.bytes});
  }
  return samples;
}

Result<std::uint64_t> VideoFormat::frame_size() const {
  const auto all = planes();
  if (!all) return tl::unexpected(all.error());
  const Plane& last = all->back();
  return last.offset + std::uint64_t{last.stride} * last.rows;
}

Result<std::vector<Plane>> planes(const VideoFormat& video, const PlaneLayout& layout) {
  auto all = video.planes();
  if (!all || layout.places.empty()) return all;
  if (all->size() != layout.places.size()) {
    return fail(Code::kProtocol, "the producer sent a layout of " + std::to_string(layout.places.size()) +
                                     " planes, and a frame of these caps has " + std::to_string(all->size()));
  }
  const Layout& known = *layout_of(video.format);
  for (std::size_t i = 0; i < all->size(); ++i) {
    const std::uint64_t rows = up_to_multiple(static_cast<std::uint64_t>(video.height), 1u << known.planes[i].v);
    (*all)[i] = {layout.places[i].offset, layout.places[i].stride,
                 static_cast<std::uint32_t>(rows >> known.planes[i].v)};
  }
  return all;
}

Result<std::uint64_t> frame_size(const VideoFormat& video, const PlaneLayout& layout) {
  const auto all = planes(video, layout);
  if (!all || layout.places.empty()) return all ? video.frame_size() : tl::unexpected(all.error());
  const Layout& known = *layout_of(video.format);
  std::uint64_t size = 0;
  for (std::size_t i = 0; i < all->size(); ++i) {
    const Plane& plane = (*all)[i];
    const std::uint64_t row = points_of(known.planes[i], video.width) * known.planes[i].bytes;
    size = std::max(size, plane.offset + std::uint64_t{plane.stride} * (plane.rows - 1) + row);
  }
  return size;
}

}  // namespace framelane::format
