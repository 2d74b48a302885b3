// SPDX-License-Identifier: MIT
#pragma once

#include <memory>

#include <gst/gst.h>

namespace framelane::gst {

/// Gives up a reference (or frees) whatever GStreamer hands out.
struct Release {
  void operator()(GstCaps* caps) const noexcept { gst_caps_unref(caps); }
  void operator()(GstBuffer* buffer) const noexcept { gst_buffer_unref(buffer); }
  void operator()(GstEvent* event) const noexcept { gst_event_unref(event); }
  void operator()(GstQuery* query) const noexcept { gst_query_unref(query); }
  void operator()(GstStructure* structure) const noexcept { gst_structure_free(structure); }
  void operator()(GstObject* object) const noexcept { gst_object_unref(object); }
  void operator()(GstAllocator* allocator) const noexcept { gst_object_unref(allocator); }
  void operator()(char* text) const noexcept { g_free(text); }
};

using CapsPtr = std::unique_ptr<GstCaps, Release>;
using BufferPtr = std::unique_ptr<GstBuffer, Release>;
using EventPtr = std::unique_ptr<GstEvent, Release>;
using QueryPtr = std::unique_ptr<GstQuery, Release>;
using StructurePtr = std::unique_ptr<GstStructure, Release>;
using ObjectPtr = std::unique_ptr<GstObject, Release>;
using AllocatorPtr = std::unique_ptr<GstAllocator, Release>;
using StringPtr = std::unique_ptr<char, Release>;

}  // namespace framelane::gst
