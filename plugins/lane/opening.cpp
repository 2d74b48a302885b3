// SPDX-License-Identifier: MIT
#include "lane/opening.hpp"

#include <string_view>

namespace framelane::gst {
namespace {

using descriptor::Address;
using descriptor::Descriptor;
using Kind = descriptor::Transport;

// A name alone is in the file system, where shared memory and Unix domain sockets are.
bool reaches(Transport transport, const Descriptor& descriptor) {
  switch (transport) {
    case Transport::kShm:
      return descriptor.names(Kind::kShm) || descriptor.names(Kind::kAny);
    case Transport::kUds:
      return descriptor.names(Kind::kUds) || descriptor.names(Kind::kAny);
    case Transport::kTcp:
      return descriptor.names(Kind::kTcp);
    case Transport::kAuto:
      break;
  }
  return true;
}

const char* in_words(Transport transport) {
  switch (transport) {
    case Transport::kShm:
      return "shared memory";
    case Transport::kUds:
      return "Unix domain sockets";
    default:
      return "TCP";
  }
}

bool is_name(const Descriptor& descriptor) {
  return !descriptor.is_list() && descriptor.addresses().front().transport == Kind::kAny;
}

}  // namespace

Result<std::string> lane_at(const std::string& lane, Transport transport, const TcpPlace& tcp, descriptor::Side side,
                            const char* any_transport) {
  if (lane.empty()) return fail(Code::kInvalidArgument, "no lane: set the property lane, for example lane=cam0");
  auto parsed = Descriptor::parse(lane, side);
  if (parsed && transport == Transport::kTcp && is_name(*parsed)) {
    auto at_host = Descriptor::tcp(tcp.host, static_cast<std::uint16_t>(tcp.port), parsed->name());
    // Again, since only a producer may leave the port to the system.
    parsed = at_host ? Descriptor::parse(at_host->to_string(), side) : std::move(at_host);
  }
  if (!parsed) return tl::unexpected(parsed.error());
  if (reaches(transport, *parsed)) return parsed->to_string();
  return fail(Code::kInvalidArgument, "this element knows " + std::string(in_words(transport)) + " only, and \"" +
                                          lane + "\" is something else; use " + any_transport + ", or a name like " +
                                          parsed->name());
}

bool check_uri(GstElement* element, const gchar* uri, descriptor::Side side, GError** error) {
  GST_OBJECT_LOCK(element);
  const bool idle = GST_STATE(element) <= GST_STATE_READY;
  GST_OBJECT_UNLOCK(element);
  if (!idle) {
    g_set_error_literal(error, GST_URI_ERROR, GST_URI_ERROR_BAD_STATE,
                        "The lane of an element can't change while it runs; bring it to READY first.");
    return false;
  }
  const auto parsed = Descriptor::parse(uri, side);
  if (!parsed) g_set_error_literal(error, GST_URI_ERROR, GST_URI_ERROR_BAD_URI, parsed.error().text.c_str());
  return parsed.has_value();
}

gchar* uri_of(const std::string& lane) {
  if (lane.empty()) return nullptr;
  const bool bare = lane.find(':') == std::string::npos;
  return g_strdup(bare ? ("lane:" + lane).c_str() : lane.c_str());
}

}  // namespace framelane::gst
