// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>

#include <gst/gst.h>

#include "lane/gst_ptr.hpp"
#include "lane/media.hpp"

// Frames brought to the layout that their caps alone imply: what the sink does for layouts that a lane can't say, and
// the source for who doesn't look at GstVideoMeta or GstAudioMeta.
namespace framelane::gst {

/// Bytes of a buffer's frame in the default layout.
[[nodiscard]] gsize packed_size(const Media& media, GstBuffer* buffer);
/// Copies a raw video frame, or planes of audio, by the buffer's metas; of a picture larger than the caps the part that
/// its GstVideoCropMeta shows. False: the metas don't fit the buffer.
[[nodiscard]] bool pack(const Media& media, GstBuffer* buffer, std::byte* to);
/// The same in a new buffer without metas, times or flags.
[[nodiscard]] BufferPtr packed_copy(const Media& media, GstBuffer* buffer);

}  // namespace framelane::gst
