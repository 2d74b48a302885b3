// SPDX-License-Identifier: MIT
#pragma once

#include <gst/gst.h>

// The category of all lane elements: GST_DEBUG=lane:5. Every file that logs says `#define GST_CAT_DEFAULT lane_debug`.
GST_DEBUG_CATEGORY_EXTERN(lane_debug);
