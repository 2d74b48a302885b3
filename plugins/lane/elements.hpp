// SPDX-License-Identifier: MIT
#pragma once

#include <gst/gst.h>

namespace framelane::gst {

/// Registers the elements of each direction: lane*, shmring*, udslane*, tcplane*.
[[nodiscard]] bool register_sinks(GstPlugin* plugin);
[[nodiscard]] bool register_sources(GstPlugin* plugin);

}  // namespace framelane::gst
