// SPDX-License-Identifier: MIT
#pragma once

#include <memory>
#include <string>

#include <gst/base/gstbasesrc.h>

#include "lane/properties.hpp"
#include "lane/src_session.hpp"

namespace framelane::gst {

/// The receiving elements: lanesrc (any transport), shmringsrc, udslanesrc and tcplanesrc (one transport each).
/// lane_src_glue.cpp makes GObjects of it.
///
/// Threads: properties from any; state changes from the application's; create() to decide_allocation() from the
///          streaming thread.
class LaneSrc {
 public:
  using Settings = SrcSettings;

  LaneSrc(GstBaseSrc* element, Transport transport);
  static LaneSrc& of(void* object);
  /// Of the element that has this transport.
  [[nodiscard]] static const PropertyTable<LaneSrc>& properties(Transport transport);
  [[nodiscard]] GstElement* gst_element() const noexcept { return GST_ELEMENT_CAST(element_); }

  // GObject and GstElement
  void set_property(guint id, const GValue* value, GParamSpec* spec);
  void get_property(guint id, GValue* value, GParamSpec* spec);
  GstStateChangeReturn change_state(GstStateChange transition);
  gboolean send_event(GstEvent* event);

  // GstBaseSrc
  GstFlowReturn create(guint64 offset, guint size, GstBuffer** buffer);
  gboolean negotiate();
  gboolean decide_allocation(GstQuery* query);
  GstCaps* get_caps(GstCaps* filter);
  gboolean event(GstEvent* event);
  gboolean query(GstQuery* query);
  gboolean unlock();
  gboolean unlock_stop();

  /// Of the source pad's events: whether this one goes on.
  [[nodiscard]] bool let_through(GstEvent* event);

  /// A flush of the lane begins. On a thread that may push events.
  void on_flush();

  // GstURIHandler
  [[nodiscard]] std::string lane() const;
  void set_lane(std::string lane);

  // what the properties show
  [[nodiscard]] std::string transport() const;
  [[nodiscard]] std::string transport_reason() const;
  [[nodiscard]] GstStructure* stats() const;
  [[nodiscard]] bool connected() const;

 private:
  [[nodiscard]] bool open();
  void close();
  [[nodiscard]] std::shared_ptr<SrcSession> session() const;

  GstBaseSrc* const element_;
  const Transport transport_;            // kAuto: any
  Settings settings_;                    // OBJECT_LOCK
  std::shared_ptr<SrcSession> session_;  // OBJECT_LOCK; made in READY to PAUSED
};

}  // namespace framelane::gst
