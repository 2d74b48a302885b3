// SPDX-License-Identifier: MIT
#pragma once

#include <string>

#include <gst/gst.h>

#include "framelane/base/result.hpp"

namespace framelane::gst {

/// Posts one error message with the Error's sentence. Never call it under a lock: a synchronous bus handler may call
/// back.
void post_error(GstElement* element, const Error& error, const std::string& debug = {});

/// The same as a warning: the stream goes on.
void post_warning(GstElement* element, const Error& error, const std::string& debug = {});

}  // namespace framelane::gst
