// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>

#include <gst/gst.h>

#include "framelane/lane/settings.hpp"

// What the GObject glue of both directions shares. It decides nothing.
namespace framelane::gst {

/// An element's instance: GStreamer's part, then ours.
template <class Parent, class Impl>
struct Instance {
  Parent parent;
  Impl* impl;
};

/// What tells the elements of one direction apart.
struct Variant {
  const char* element;
  const char* type;
  Transport transport;
  const char* long_name;
  const char* description;
};

/// An element's class.
template <class ParentClass>
struct Class {
  ParentClass parent;
  const Variant* variant;
};

inline constexpr const char* kAuthor = "The Framelane developers";

inline const gchar* const* uri_protocols(GType) {
  static const gchar* const protocols[] = {"lane", "lane.shm", "lane.uds", "lane.tcp", nullptr};
  return protocols;
}

/// Registers the elements of a direction. `type_of` makes a type; the one of any transport handles the lanes' URIs.
template <std::size_t Count>
[[nodiscard]] bool register_all(GstPlugin* plugin, const Variant (&variants)[Count], GType (*type_of)(const Variant&),
                                GInterfaceInitFunc uri_init) {
  bool all = true;
  for (const Variant& variant : variants) {
    const GType type = type_of(variant);
    // The look-up by URI takes the first handler whatever its rank, so there must be only one.
    const GInterfaceInfo uri = {uri_init, nullptr, nullptr};
    if (variant.transport == Transport::kAuto) g_type_add_interface_static(type, GST_TYPE_URI_HANDLER, &uri);
    all = gst_element_register(plugin, variant.element, GST_RANK_NONE, type) != FALSE && all;
  }
  return all;
}

}  // namespace framelane::gst
