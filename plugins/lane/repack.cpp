// SPDX-License-Identifier: MIT
#include "lane/repack.hpp"

#include <algorithm>
#include <array>
#include <optional>

namespace framelane::gst {
namespace {

// Moves the frame's planes to the pixel where the visible part begins. Formats whose pixels are no whole bytes stay.
void crop(GstVideoFrame& frame, guint x, guint y) {
  const GstVideoFormatInfo* info = frame.info.finfo;
  for (guint plane = 0; plane < GST_VIDEO_FRAME_N_PLANES(&frame); ++plane) {
    gint components[GST_VIDEO_MAX_COMPONENTS];
    gst_video_format_info_component(info, plane, components);
    const gint pixel = GST_VIDEO_FORMAT_INFO_PSTRIDE(info, components[0]);
    const guint column = x >> GST_VIDEO_FORMAT_INFO_W_SUB(info, components[0]);
    const guint row = y >> GST_VIDEO_FORMAT_INFO_H_SUB(info, components[0]);
    frame.data[plane] = static_cast<std::byte*>(frame.data[plane]) +
                        static_cast<gssize>(row) * GST_VIDEO_FRAME_PLANE_STRIDE(&frame, plane) +
                        static_cast<gssize>(column) * pixel;
  }
}

bool copy_picture(const Media& media, GstVideoFrame& from, std::byte* to) {
  const GstVideoInfo& info = media.video();
  const gsize size = GST_VIDEO_INFO_SIZE(&info);
  const BufferPtr packed(gst_buffer_new_wrapped_full(GST_MEMORY_FLAG_NO_SHARE, to, size, 0, size, nullptr, nullptr));
  GstVideoFrame into;
  if (!gst_video_frame_map(&into, &info, packed.get(), GST_MAP_WRITE)) return false;
  const bool copied = gst_video_frame_copy(&into, &from) != FALSE;
  gst_video_frame_unmap(&into);
  return copied;
}

// Where the visible part of a larger picture begins, in pixels; empty when it isn't inside.
std::optional<std::array<guint, 2>> visible_part(const Media& media, GstBuffer* buffer) {
  std::array<guint, 2> begin{};
  if (!media.has_other_size(buffer)) return begin;
  const GstVideoMeta& all = *gst_buffer_get_video_meta(buffer);
  const auto width = static_cast<guint>(GST_VIDEO_INFO_WIDTH(&media.video()));
  const auto height = static_cast<guint>(GST_VIDEO_INFO_HEIGHT(&media.video()));
  if (const GstVideoCropMeta* crop = gst_buffer_get_video_crop_meta(buffer)) begin = {crop->x, crop->y};
  if (all.width < width || all.height < height) return std::nullopt;
  if (begin[0] > all.width - width || begin[1] > all.height - height) return std::nullopt;
  return begin;
}

bool pack_video(const Media& media, GstBuffer* buffer, std::byte* to) {
  const auto begin = visible_part(media, buffer);
  GstVideoFrame from;
  if (!begin || !gst_video_frame_map(&from, &media.video(), buffer, GST_MAP_READ)) return false;
  crop(from, (*begin)[0], (*begin)[1]);
  const bool packed = copy_picture(media, from, to);
  gst_video_frame_unmap(&from);
  return packed;
}

bool pack_audio(const Media& media, GstBuffer* buffer, std::byte* to) {
  GstAudioBuffer from;
  if (!gst_audio_buffer_map(&from, &media.planar_audio(), buffer, GST_MAP_READ)) return false;
  const gsize plane = GST_AUDIO_BUFFER_PLANE_SIZE(&from);
  for (gint i = 0; i < GST_AUDIO_BUFFER_N_PLANES(&from); ++i) {
    std::copy_n(static_cast<const std::byte*>(from.planes[i]), plane, to + static_cast<gsize>(i) * plane);
  }
  gst_audio_buffer_unmap(&from);
  return true;
}

}  // namespace

gsize packed_size(const Media& media, GstBuffer* buffer) {
  if (media.is_video()) return GST_VIDEO_INFO_SIZE(&media.video());
  const GstAudioMeta* meta = gst_buffer_get_audio_meta(buffer);
  if (meta == nullptr) return gst_buffer_get_size(buffer);
  return meta->samples * static_cast<gsize>(GST_AUDIO_INFO_BPF(&meta->info));
}

bool pack(const Media& media, GstBuffer* buffer, std::byte* to) {
  return media.is_video() ? pack_video(media, buffer, to) : pack_audio(media, buffer, to);
}

BufferPtr packed_copy(const Media& media, GstBuffer* buffer) {
  BufferPtr packed(gst_buffer_new_allocate(nullptr, packed_size(media, buffer), nullptr));
  GstMapInfo map;
  if (gst_buffer_map(packed.get(), &map, GST_MAP_WRITE)) {
    static_cast<void>(pack(media, buffer, reinterpret_cast<std::byte*>(map.data)));  // each frame was checked before
    gst_buffer_unmap(packed.get(), &map);
  }
  return packed;
}

}  // namespace framelane::gst
