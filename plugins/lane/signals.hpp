// SPDX-License-Identifier: MIT
#pragma once

#include <memory>

#include <gst/gst.h>

#include "framelane/lane/consumer.hpp"

#include "lane/sink_session.hpp"

namespace framelane::gst {

/// Adds the signals consumer-added(id, info) and consumer-removed(id, info, reason) to a class.
void install_consumer_signals(GType type);

/// Emits them, notifies num-consumers and asks for a key unit when somebody joins: on the lane's monitor thread, for as
/// long as the element and the session live. Has consumers' requests handed to the element, on a thread of GStreamer's.
void announce_consumers(GstElement* element, const std::shared_ptr<SinkSession>& session);

/// Has flushes that begin handed to a source, on a thread of GStreamer's that may push events.
void watch_flushes(GstElement* source, Consumer& consumer);

}  // namespace framelane::gst
