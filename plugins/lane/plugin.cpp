// SPDX-License-Identifier: MIT
#include <string>

#include <gst/gst.h>

#include "framelane/base/log.hpp"

#include "lane/debug.hpp"
#include "lane/elements.hpp"

GST_DEBUG_CATEGORY(lane_debug);

namespace {

// The library's own lines, in GStreamer's log.
void log_line(framelane::base::LogLevel level, std::string_view text, void*) {
  using framelane::base::LogLevel;
  GstDebugLevel gst_level = GST_LEVEL_DEBUG;
  if (level == LogLevel::kError) gst_level = GST_LEVEL_ERROR;
  if (level == LogLevel::kWarning) gst_level = GST_LEVEL_WARNING;
  if (level == LogLevel::kInfo) gst_level = GST_LEVEL_INFO;
  GST_CAT_LEVEL_LOG(lane_debug, gst_level, nullptr, "%s", std::string(text).c_str());
}

gboolean plugin_init(GstPlugin* plugin) {
  GST_DEBUG_CATEGORY_INIT(lane_debug, "lane", 0, "frames between processes");
  framelane::base::set_log_hook(log_line, nullptr);
  return framelane::gst::register_sinks(plugin) && framelane::gst::register_sources(plugin) ? TRUE : FALSE;
}

}  // namespace

GST_PLUGIN_DEFINE(GST_VERSION_MAJOR, GST_VERSION_MINOR, framelane, "Frames between processes at memory speed",
                  plugin_init, PACKAGE_VERSION, "MIT/X11", "Framelane", "Unknown package origin")
