// SPDX-License-Identifier: MIT
#pragma once

#include <gst/gst.h>

#include <memory>

namespace framelane::gst {

template <auto Free>
struct FreeWith {
  template <class T>
  void operator()(T* object) const noexcept {
    Free(object);
  }
};

using CapsPtr = std::unique_ptr<GstCaps, FreeWith<&gst_caps_unref>>;
using StructurePtr = std::unique_ptr<GstStructure, FreeWith<&gst_structure_free>>;
using BufferPtr = std::unique_ptr<GstBuffer, FreeWith<&gst_buffer_unref>>;
using EventPtr = std::unique_ptr<GstEvent, FreeWith<&gst_event_unref>>;
using QueryPtr = std::unique_ptr<GstQuery, FreeWith<&gst_query_unref>>;
using StringPtr = std::unique_ptr<char, FreeWith<&g_free>>;
using ObjectPtr = std::unique_ptr<GstObject, FreeWith<&gst_object_unref>>;

}  // namespace framelane::gst
