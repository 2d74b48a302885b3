// SPDX-License-Identifier: MIT
#include "lane/errors.hpp"

namespace framelane::gst {
namespace {

struct GstCode {
  GQuark domain;
  gint code;
};

GstCode gst_code(Code code) {
  const GQuark resource = GST_RESOURCE_ERROR;
  switch (code) {
    case Code::kInvalidArgument:
    case Code::kTooLarge:  // both are cured by another property value
      return {resource, GST_RESOURCE_ERROR_SETTINGS};
    case Code::kNotFound:
    case Code::kTimeout:
      return {resource, GST_RESOURCE_ERROR_NOT_FOUND};
    case Code::kInUse:
    case Code::kFull:
      return {resource, GST_RESOURCE_ERROR_BUSY};
    case Code::kPermission:
    case Code::kRefused:
      return {resource, GST_RESOURCE_ERROR_NOT_AUTHORIZED};
    case Code::kNoMemory:
      return {resource, GST_RESOURCE_ERROR_NO_SPACE_LEFT};
    case Code::kPeerLost:
      return {resource, GST_RESOURCE_ERROR_READ};
    case Code::kProtocol:
      return {GST_STREAM_ERROR, GST_STREAM_ERROR_FORMAT};
    case Code::kEndOfStream:
    case Code::kInterrupted:
    case Code::kUnsupported:
    case Code::kSystem:
      break;
  }
  return {resource, GST_RESOURCE_ERROR_FAILED};
}

void post(GstElement* element, GstMessageType type, const Error& error, const std::string& debug) {
  std::string details = std::string(to_string(error.code));
  if (!debug.empty()) details += ": " + debug;
  // A person reads this one: a capital letter and a full stop, as GStreamer's own messages have.
  std::string sentence = error.text.empty() ? std::string(to_string(error.code)) : error.text;
  sentence[0] = g_ascii_toupper(sentence[0]);
  if (sentence.back() != '.') sentence += '.';
  const auto [domain, code] = gst_code(error.code);
  gst_element_message_full(element, type, domain, code, g_strdup(sentence.c_str()), g_strdup(details.c_str()), __FILE__,
                           GST_FUNCTION, __LINE__);
}

}  // namespace

void post_error(GstElement* element, const Error& error, const std::string& debug) {
  post(element, GST_MESSAGE_ERROR, error, debug);
}

void post_warning(GstElement* element, const Error& error, const std::string& debug) {
  post(element, GST_MESSAGE_WARNING, error, debug);
}

}  // namespace framelane::gst
