// SPDX-License-Identifier: MIT
#pragma once

#include <array>
#include <optional>
#include <string>
#include <vector>

#include <gst/audio/audio.h>
#include <gst/gst.h>
#include <gst/video/video.h>

#include "framelane/base/result.hpp"
#include "framelane/format/event.hpp"

// What the bytes of a frame mean: caps, and for raw video where its planes lie.
namespace framelane::gst {

/// Where the planes of a raw video frame lie. Bytes from the start of the frame.
struct VideoLayout {
  guint planes = 0;
  std::array<gsize, GST_VIDEO_MAX_PLANES> offset{};
  std::array<gint, GST_VIDEO_MAX_PLANES> stride{};
  GstVideoAlignment padding = no_padding();  ///< around the picture, as the writer's pool was told

  [[nodiscard]] static GstVideoAlignment no_padding();
  /// The planes lie in the same places, whatever the padding is said to be.
  [[nodiscard]] bool same_places(const VideoLayout& other) const {
    return planes == other.planes && offset == other.offset && stride == other.stride;
  }
  [[nodiscard]] bool operator==(const VideoLayout& other) const;
};

/// Where the planes of non-interleaved audio lie when they are padded. Bytes from the start of the frame.
struct AudioLayout {
  gsize samples = 0;  ///< of each channel
  std::vector<gsize> offsets;
};

/// Whether planes lie one directly behind the other, as a buffer without offsets has them.
[[nodiscard]] bool is_packed(const GstAudioMeta& meta);

/// Caps, parsed once.
class Media {
 public:
  Media() = default;
  explicit Media(const GstCaps* caps);

  [[nodiscard]] bool is_video() const { return video_.has_value(); }
  [[nodiscard]] const GstVideoInfo& video() const { return *video_; }
  /// Raw audio whose channels don't interleave: GStreamer demands a GstAudioMeta on each buffer.
  [[nodiscard]] bool is_planar_audio() const { return planar_.has_value(); }
  [[nodiscard]] const GstAudioInfo& planar_audio() const { return *planar_; }

  /// The layout that the caps alone imply.
  [[nodiscard]] const VideoLayout& default_layout() const { return default_layout_; }
  /// Whether the planes lie where the caps alone imply.
  [[nodiscard]] bool is_default(const VideoLayout& layout) const { return layout.same_places(default_layout_); }
  /// Bytes that a frame of this layout needs at least.
  [[nodiscard]] gsize needed(const VideoLayout& layout) const;
  /// Whether a lane can say this layout: both ends ask.
  [[nodiscard]] bool can_send(const VideoLayout& layout) const;
  /// The video info with this layout put in.
  [[nodiscard]] GstVideoInfo with_layout(const VideoLayout& layout) const;

  /// The buffer's GstVideoMeta is of a larger picture, of which the caps (and perhaps a GstVideoCropMeta) show a part.
  [[nodiscard]] bool has_other_size(GstBuffer* buffer) const;
  /// Whether padded planes lie in a frame of `size` bytes, apart from each other: the numbers are a peer's.
  [[nodiscard]] bool fits(const AudioLayout& layout, gsize size) const;

  /// The layout by a buffer's GstVideoMeta, else the default one.
  [[nodiscard]] VideoLayout layout_of(GstBuffer* buffer) const;
  GstVideoMeta* add_meta(GstBuffer* buffer, const VideoLayout& layout) const;

 private:
  [[nodiscard]] gsize row_bytes(guint plane) const;

  std::optional<GstVideoInfo> video_;
  std::optional<GstAudioInfo> planar_;
  VideoLayout default_layout_;
};

/// A kState event that says how frames lie from here on. An empty layout means "as the caps imply".
[[nodiscard]] format::Event to_lane(const VideoLayout& layout);
/// Errors: kProtocol.
[[nodiscard]] Result<VideoLayout> layout_of(const format::Event& event);

/// The caps feature that keeps frames out of a lane, or empty: only system memory can be shared.
[[nodiscard]] std::string foreign_feature(const GstCaps* caps);

}  // namespace framelane::gst
