// SPDX-License-Identifier: MIT
#pragma once

#include <gst/gst.h>

#include "framelane/lane/producer.hpp"

namespace framelane::gst {

/// Adds the signals consumer-added(id, info) and consumer-removed(id, info, reason) to a class.
void install_consumer_signals(GType type);

/// Emits them, and notifies num-consumers, on the lane's monitor thread, for as long as the element lives.
void announce_consumers(GstElement* element, Producer& producer);

}  // namespace framelane::gst
