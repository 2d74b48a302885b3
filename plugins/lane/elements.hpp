// SPDX-License-Identifier: MIT
#pragma once

#include <gst/gst.h>

namespace framelane::gst {

/// Registers lanesink and shmringsink, lanesrc and shmringsrc.
[[nodiscard]] bool register_sinks(GstPlugin* plugin);
[[nodiscard]] bool register_sources(GstPlugin* plugin);

}  // namespace framelane::gst
