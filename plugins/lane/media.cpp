// SPDX-License-Identifier: MIT
#include "lane/media.hpp"

#include <algorithm>
#include <cstdlib>

#include "framelane/format/plane_layout.hpp"

#include "lane/events.hpp"
#include "lane/gst_ptr.hpp"

namespace framelane::gst {
namespace {

static_assert(static_cast<std::uint32_t>(StateKind::kLayout) == format::kLayoutState);
static_assert(GST_VIDEO_MAX_PLANES == format::kMaxPlanes);

VideoLayout layout_from(const GstVideoInfo& info) {
  VideoLayout layout;
  layout.planes = GST_VIDEO_INFO_N_PLANES(&info);
  for (guint i = 0; i < layout.planes; ++i) {
    layout.offset[i] = info.offset[i];
    layout.stride[i] = info.stride[i];
  }
  return layout;
}

void append(GstStructure* structure, const char* field, GType type, const VideoLayout& layout) {
  GValue list = G_VALUE_INIT;
  g_value_init(&list, GST_TYPE_ARRAY);
  for (guint i = 0; i < layout.planes; ++i) {
    GValue item = G_VALUE_INIT;
    g_value_init(&item, type);
    if (type == G_TYPE_INT) {
      g_value_set_int(&item, layout.stride[i]);
    } else {
      g_value_set_uint64(&item, layout.offset[i]);
    }
    gst_value_array_append_and_take_value(&list, &item);
  }
  gst_structure_take_value(structure, field, &list);
}

constexpr const char* kAlignFields[GST_VIDEO_MAX_PLANES] = {"align0", "align1", "align2", "align3"};

// GStreamer never comes back from a stride mask that no stride can fulfil.
bool can_be(const GstVideoAlignment& padding) {
  constexpr guint kMost = 1u << 14;
  const bool masks = std::all_of(std::begin(padding.stride_align), std::end(padding.stride_align),
                                 [](guint mask) { return mask < kMost && (mask & (mask + 1)) == 0; });
  return masks && padding.padding_top < kMost && padding.padding_bottom < kMost && padding.padding_left < kMost &&
         padding.padding_right < kMost;
}

}  // namespace

GstVideoAlignment VideoLayout::no_padding() {
  GstVideoAlignment none;
  gst_video_alignment_reset(&none);
  return none;
}

bool VideoLayout::operator==(const VideoLayout& other) const {
  const GstVideoAlignment& a = padding;
  const GstVideoAlignment& b = other.padding;
  return same_places(other) && a.padding_top == b.padding_top && a.padding_bottom == b.padding_bottom &&
         a.padding_left == b.padding_left && a.padding_right == b.padding_right &&
         std::equal(std::begin(a.stride_align), std::end(a.stride_align), b.stride_align);
}

bool is_packed(const GstAudioMeta& meta) {
  const gsize plane = meta.samples * static_cast<gsize>(GST_AUDIO_INFO_BPS(&meta.info));
  for (gint i = 0; i < GST_AUDIO_INFO_CHANNELS(&meta.info); ++i) {
    if (meta.offsets != nullptr && meta.offsets[i] != static_cast<gsize>(i) * plane) return false;
  }
  return true;
}

Media::Media(const GstCaps* caps) {
  const GstStructure* structure = gst_caps_get_structure(caps, 0);
  GstVideoInfo video;
  GstAudioInfo audio;
  if (gst_structure_has_name(structure, "video/x-raw") && gst_video_info_from_caps(&video, caps) &&
      GST_VIDEO_INFO_FORMAT(&video) != GST_VIDEO_FORMAT_ENCODED) {
    video_ = video;
    default_layout_ = layout_from(video);
  } else if (gst_structure_has_name(structure, "audio/x-raw") && gst_audio_info_from_caps(&audio, caps) &&
             GST_AUDIO_INFO_LAYOUT(&audio) == GST_AUDIO_LAYOUT_NON_INTERLEAVED) {
    planar_ = audio;
  }
}

gsize Media::row_bytes(guint plane) const {
  const GstVideoFormatInfo* info = video_->finfo;
  gint components[GST_VIDEO_MAX_COMPONENTS];
  gst_video_format_info_component(info, plane, components);
  const gint pixel_stride = GST_VIDEO_FORMAT_INFO_PSTRIDE(info, components[0]);
  // Formats that pack pixels into words (v210) have none.
  if (pixel_stride == 0) return static_cast<gsize>(std::abs(video_->stride[plane]));
  return static_cast<gsize>(GST_VIDEO_FORMAT_INFO_SCALE_WIDTH(info, components[0], GST_VIDEO_INFO_WIDTH(&*video_)) *
                            pixel_stride);
}

gsize Media::needed(const VideoLayout& layout) const {
  const GstVideoFormatInfo* info = video_->finfo;
  if (is_default(layout)) return GST_VIDEO_INFO_SIZE(&*video_);
  gsize needed = 0;
  for (guint plane = 0; plane < layout.planes; ++plane) {
    gint components[GST_VIDEO_MAX_COMPONENTS];
    gst_video_format_info_component(info, plane, components);
    const auto rows = static_cast<gsize>(
        GST_VIDEO_FORMAT_INFO_SCALE_HEIGHT(info, components[0], GST_VIDEO_INFO_FIELD_HEIGHT(&*video_)));
    // The last row ends where its pixels end; padding behind it needn't be there.
    const gsize bytes = (std::max<gsize>(rows, 1) - 1) * static_cast<gsize>(layout.stride[plane]) + row_bytes(plane);
    needed = std::max(needed, layout.offset[plane] + bytes);
  }
  return needed;
}

bool Media::can_send(const VideoLayout& layout) const {
  if (is_default(layout)) return true;
  // Strides of tiled formats count tiles, negative ones walk towards the frame's start: not worth a rule on both sides.
  if (GST_VIDEO_FORMAT_INFO_IS_TILED(video_->finfo)) return false;
  return layout.planes == default_layout_.planes &&
         std::all_of(layout.stride.begin(), layout.stride.begin() + layout.planes,
                     [](gint stride) { return stride > 0; });
}

GstVideoInfo Media::with_layout(const VideoLayout& layout) const {
  GstVideoInfo info = *video_;
  for (guint i = 0; i < layout.planes; ++i) {
    info.offset[i] = layout.offset[i];
    info.stride[i] = layout.stride[i];
  }
  return info;
}

bool Media::has_other_size(GstBuffer* buffer) const {
  const GstVideoMeta* meta = gst_buffer_get_video_meta(buffer);
  return meta != nullptr && (meta->width != static_cast<guint>(GST_VIDEO_INFO_WIDTH(&*video_)) ||
                             meta->height != static_cast<guint>(GST_VIDEO_INFO_HEIGHT(&*video_)));
}

bool Media::fits(const AudioLayout& layout, gsize size) const {
  const auto sample = static_cast<gsize>(GST_AUDIO_INFO_BPS(&*planar_));
  if (layout.offsets.size() != static_cast<std::size_t>(GST_AUDIO_INFO_CHANNELS(&*planar_))) return false;
  if (layout.samples > size / sample) return false;
  const gsize plane = layout.samples * sample;
  std::vector<gsize> sorted = layout.offsets;
  std::sort(sorted.begin(), sorted.end());
  for (std::size_t i = 0; i < sorted.size(); ++i) {
    const gsize end = i + 1 < sorted.size() ? sorted[i + 1] : size;
    if (sorted[i] > end || end - sorted[i] < plane) return false;
  }
  return true;
}

VideoLayout Media::layout_of(GstBuffer* buffer) const {
  const GstVideoMeta* meta = gst_buffer_get_video_meta(buffer);
  if (meta == nullptr || meta->n_planes != default_layout_.planes) return default_layout_;
  VideoLayout layout;
  layout.planes = meta->n_planes;
  std::copy_n(meta->offset, layout.planes, layout.offset.begin());
  std::copy_n(meta->stride, layout.planes, layout.stride.begin());
  if (can_be(meta->alignment)) layout.padding = meta->alignment;
  return layout;
}

GstVideoMeta* Media::add_meta(GstBuffer* buffer, const VideoLayout& layout) const {
  std::array<gsize, GST_VIDEO_MAX_PLANES> offset = layout.offset;
  std::array<gint, GST_VIDEO_MAX_PLANES> stride = layout.stride;
  GstVideoMeta* const meta = gst_buffer_add_video_meta_full(
      buffer, GST_VIDEO_FRAME_FLAG_NONE, GST_VIDEO_INFO_FORMAT(&*video_),
      static_cast<guint>(GST_VIDEO_INFO_WIDTH(&*video_)), static_cast<guint>(GST_VIDEO_INFO_HEIGHT(&*video_)),
      layout.planes, offset.data(), stride.data());
  // Padding that doesn't make these strides is left out: it only tells what could be reused.
  gst_video_meta_set_alignment(meta, layout.padding);
  return meta;
}

format::Event to_lane(const VideoLayout& layout) {
  const StructurePtr structure(gst_structure_new_empty("framelane-layout"));
  append(structure.get(), "offset", G_TYPE_UINT64, layout);
  append(structure.get(), "stride", G_TYPE_INT, layout);
  const GstVideoAlignment& padding = layout.padding;
  gst_structure_set(structure.get(), "top", G_TYPE_UINT, padding.padding_top, "bottom", G_TYPE_UINT,
                    padding.padding_bottom, "left", G_TYPE_UINT, padding.padding_left, "right", G_TYPE_UINT,
                    padding.padding_right, nullptr);
  for (guint i = 0; i < layout.planes; ++i) {
    gst_structure_set(structure.get(), kAlignFields[i], G_TYPE_UINT, padding.stride_align[i], nullptr);
  }
  const StringPtr text(gst_structure_to_string(structure.get()));
  return make_event(format::EventType::kState, text.get(), static_cast<std::uint32_t>(StateKind::kLayout));
}

Result<VideoLayout> layout_of(const format::Event& event) {
  const auto said = format::PlaneLayout::parse(event.text);
  if (!said) return tl::unexpected(said.error());
  VideoLayout layout;
  layout.planes = static_cast<guint>(said->places.size());
  for (guint i = 0; i < layout.planes; ++i) {
    layout.offset[i] = static_cast<gsize>(said->places[i].offset);
    layout.stride[i] = static_cast<gint>(said->places[i].stride);
    layout.padding.stride_align[i] = said->stride_align[i];
  }
  layout.padding.padding_top = said->top;
  layout.padding.padding_bottom = said->bottom;
  layout.padding.padding_left = said->left;
  layout.padding.padding_right = said->right;
  return layout;
}

std::string foreign_feature(const GstCaps* caps) {
  for (guint i = 0; i < gst_caps_get_size(caps); ++i) {
    const GstCapsFeatures* features = gst_caps_get_features(caps, i);
    if (features == nullptr) continue;
    for (guint k = 0; k < gst_caps_features_get_size(features); ++k) {
      const char* feature = gst_caps_features_get_nth(features, k);
      if (g_strcmp0(feature, GST_CAPS_FEATURE_MEMORY_SYSTEM_MEMORY) != 0) return feature;
    }
  }
  return {};
}

}  // namespace framelane::gst
