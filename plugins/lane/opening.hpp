// SPDX-License-Identifier: MIT
#pragma once

#include <string>

#include <gst/gst.h>

#include "framelane/base/result.hpp"
#include "framelane/descriptor/descriptor.hpp"
#include "framelane/lane/settings.hpp"

// Where an element's lane is: what the properties lane, host and port and a URI make together.
namespace framelane::gst {

/// Properties `host` and `port` of the elements that know TCP alone: where a lane is that is given by its name.
struct TcpPlace {
  std::string host = "127.0.0.1";
  guint port = 7411;
};

/// The lane as the API takes it, for an element that has this transport (kAuto: any).
/// Errors: kInvalidArgument and kTooLarge (no lane, the descriptor parser's sentence, or a lane that this transport
///         doesn't reach; names `any_transport`, the element that would do).
[[nodiscard]] Result<std::string> lane_at(const std::string& lane, Transport transport, const TcpPlace& tcp,
                                          descriptor::Side side, const char* any_transport);

/// Whether the element may take this URI now. False: `error` says why, with the descriptor parser's sentence.
[[nodiscard]] bool check_uri(GstElement* element, const gchar* uri, descriptor::Side side, GError** error);

/// As GstURIHandler::get_uri gives it: null without a lane. Transfer full.
[[nodiscard]] gchar* uri_of(const std::string& lane);

}  // namespace framelane::gst
