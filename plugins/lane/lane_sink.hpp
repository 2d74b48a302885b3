// SPDX-License-Identifier: MIT
#pragma once

#include <memory>

#include <gst/base/gstbasesink.h>

#include "lane/properties.hpp"
#include "lane/sink_session.hpp"

namespace framelane::gst {

/// The sending elements: lanesink (any transport), shmringsink, udslanesink and tcplanesink (one transport each).
/// lane_sink_glue.cpp makes GObjects of it.
///
/// Threads: properties from any; state changes from the application's; event() to render() from the streaming thread.
class LaneSink {
 public:
  using Settings = SinkSettings;

  LaneSink(GstBaseSink* element, Transport transport) : element_(element), transport_(transport) {}
  static LaneSink& of(void* object);
  /// Of the element that has this transport.
  [[nodiscard]] static const PropertyTable<LaneSink>& properties(Transport transport);
  [[nodiscard]] GstElement* gst_element() const noexcept { return GST_ELEMENT_CAST(element_); }

  // GObject and GstElement
  void set_property(guint id, const GValue* value, GParamSpec* spec);
  void get_property(guint id, GValue* value, GParamSpec* spec);
  GstStateChangeReturn change_state(GstStateChange transition);
  gboolean send_event(GstEvent* event);

  // GstBaseSink
  gboolean event(GstEvent* event);
  gboolean set_caps(GstCaps* caps);
  GstFlowReturn wait_event(GstEvent* event);
  GstFlowReturn render(GstBuffer* buffer);
  gboolean propose_allocation(GstQuery* query);
  gboolean unlock();
  gboolean unlock_stop();

  /// Consumers ask for something. On a thread that may push events.
  void on_requests();

  // GstURIHandler
  [[nodiscard]] std::string lane() const;
  void set_lane(std::string lane);

  // what the properties show
  /// Where the lane is served; empty while it isn't.
  [[nodiscard]] std::string descriptor() const;
  [[nodiscard]] GstStructure* stats() const;
  [[nodiscard]] guint num_consumers() const;

 private:
  [[nodiscard]] bool open();
  void close();
  [[nodiscard]] std::shared_ptr<SinkSession> session() const;
  void on_drop();
  void flush_stop();
  [[nodiscard]] bool forward(format::Event event);
  [[nodiscard]] GstFlowReturn get_ready();
  template <class Call>
  [[nodiscard]] GstFlowReturn until_done(Call call);

  GstBaseSink* const element_;
  const Transport transport_;             // kAuto: any
  Settings settings_;                     // OBJECT_LOCK
  std::shared_ptr<SinkSession> session_;  // OBJECT_LOCK; made in READY to PAUSED
  bool drop_warned_ = false;              // streaming thread
};

}  // namespace framelane::gst
