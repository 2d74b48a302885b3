// SPDX-License-Identifier: MIT
#pragma once

#include <optional>

#include <gst/gst.h>

#include "framelane/lane/frame.hpp"

#include "lane/gst_ptr.hpp"
#include "lane/media.hpp"

namespace framelane::gst {

/// Received frames as buffers: READONLY memory in the lane's slots. A buffer that comes back gives its slot back at
/// once and is used again with its memory and its GstVideoMeta, so that a frame costs no allocation. It may come back
/// on any thread, also when this object is gone.
class FrameBuffers {
 public:
  FrameBuffers();

  /// Buffers made from here on have a GstVideoMeta of this layout, or none.
  void set_layout(const Media& media, const std::optional<VideoLayout>& layout);

  /// The first `size` bytes of a frame.
  [[nodiscard]] BufferPtr wrap(Frame&& frame, gsize size);
  /// The same as several memories; their sum is the frame's size.
  [[nodiscard]] BufferPtr wrap(Frame&& frame, const std::vector<gsize>& memories);

 private:
  AllocatorPtr allocator_;
  ObjectPtr pool_;
};

}  // namespace framelane::gst
