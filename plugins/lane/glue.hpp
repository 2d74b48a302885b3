// SPDX-License-Identifier: MIT
#pragma once

#include <string>

#include <gst/gst.h>

// What the GObject glue of both directions shares. It decides nothing.
namespace framelane::gst {

/// An element's instance: GStreamer's part, then ours.
template <class Parent, class Impl>
struct Instance {
  Parent parent;
  Impl* impl;
};

/// An element's class. shm_only is what tells shmringsink from lanesink.
template <class ParentClass>
struct Class {
  ParentClass parent;
  gboolean shm_only;
};

inline constexpr const char* kAuthor = "The Framelane developers";

inline const gchar* const* uri_protocols(GType) {
  static const gchar* const protocols[] = {"lane", "lane.shm", nullptr};
  return protocols;
}

/// A bare name as a URI is lane:NAME; anything else is one already.
inline gchar* uri_of(const std::string& lane) {
  if (lane.empty()) return nullptr;
  const bool bare = lane.find(':') == std::string::npos;
  return g_strdup(bare ? ("lane:" + lane).c_str() : lane.c_str());
}

}  // namespace framelane::gst
