// SPDX-License-Identifier: MIT
#pragma once

#include <array>
#include <optional>
#include <string>

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

  friend bool operator==(const VideoLayout&, const VideoLayout&) = default;
};

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
  /// Bytes that a frame of this layout needs at least.
  [[nodiscard]] gsize needed(const VideoLayout& layout) const;
  /// Whether a lane can say this layout: both ends ask.
  [[nodiscard]] bool can_send(const VideoLayout& layout) const;
  /// The video info with this layout put in.
  [[nodiscard]] GstVideoInfo with_layout(const VideoLayout& layout) const;

  /// The layout by a buffer's GstVideoMeta, else the default one.
  [[nodiscard]] VideoLayout layout_of(GstBuffer* buffer) const;
  void add_meta(GstBuffer* buffer, const VideoLayout& layout) const;

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
