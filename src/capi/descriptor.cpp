// SPDX-License-Identifier: MIT
#include "framelane/descriptor/descriptor.hpp"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "capi/structs.hpp"

struct framelane_descriptor {
  explicit framelane_descriptor(framelane::descriptor::Descriptor&& from)
      : parsed(std::move(from)), text(parsed.to_string()), socket_path(parsed.socket_path()) {}

  framelane::descriptor::Descriptor parsed;
  std::string text;
  framelane::Result<std::string> socket_path;
};

namespace framelane::capi {
namespace {

using descriptor::Address;
using descriptor::Descriptor;

framelane_code hand_out(Result<Descriptor>&& made, framelane_descriptor** out) {
  if (!made) return report(made.error());
  *out = new framelane_descriptor(std::move(*made));
  return FRAMELANE_OK;
}

/// Reads one of the caller's.
Result<Address> to_address(const framelane_address* given) {
  framelane_address from{};
  auto code = copy_in(given, from, "framelane_address");
  if (code == FRAMELANE_OK) code = check_enum(from.transport, FRAMELANE_TRANSPORT_PIPE, "transport");
  if (code == FRAMELANE_OK && from.port > 65535) {
    code = report(Code::kInvalidArgument, "port is " + std::to_string(from.port) + "; it must be 0 to 65535");
  }
  if (code != FRAMELANE_OK) return last_error();
  Address to;
  to.transport = static_cast<descriptor::Transport>(from.transport);
  to.name = or_empty(from.name);
  to.directory = or_empty(from.directory);
  to.host = or_empty(from.host);
  to.port = static_cast<std::uint16_t>(from.port);
  return to;
}

}  // namespace
}  // namespace framelane::capi

using namespace framelane;
using namespace framelane::capi;

framelane_code framelane_descriptor_parse(const char* text, int32_t side, framelane_descriptor** descriptor) {
  if (descriptor == nullptr) return missing("descriptor");
  *descriptor = nullptr;
  if (text == nullptr) return missing("text");
  if (const auto code = check_enum(side, FRAMELANE_SIDE_CONSUMER, "side"); code != FRAMELANE_OK) return code;
  const auto who = side == FRAMELANE_SIDE_PRODUCER ? descriptor::Side::kProducer : descriptor::Side::kConsumer;
  return guarded([&] { return hand_out(Descriptor::parse(text, who), descriptor); });
}

framelane_code framelane_descriptor_from_addresses(const framelane_address* addresses, size_t count,
                                                   framelane_descriptor** descriptor) {
  if (descriptor == nullptr) return missing("descriptor");
  *descriptor = nullptr;
  if (addresses == nullptr && count != 0) return missing("addresses");
  return guarded([&] {
    std::vector<Address> list;
    for (std::size_t i = 0; i < count; ++i) {
      auto address = to_address(element(addresses, i));
      if (!address) return report(address.error());
      list.push_back(std::move(*address));
    }
    return hand_out(Descriptor::list(std::move(list)), descriptor);
  });
}

void framelane_descriptor_free(framelane_descriptor* descriptor) { delete descriptor; }

const char* framelane_descriptor_text(const framelane_descriptor* descriptor) {
  return descriptor != nullptr ? descriptor->text.c_str() : "";
}

const char* framelane_descriptor_name(const framelane_descriptor* descriptor) {
  return descriptor != nullptr ? descriptor->parsed.name().c_str() : "";
}

size_t framelane_descriptor_num_addresses(const framelane_descriptor* descriptor) {
  return descriptor != nullptr ? descriptor->parsed.addresses().size() : 0;
}

framelane_code framelane_descriptor_get_address(const framelane_descriptor* descriptor, size_t index,
                                                framelane_address* address) {
  if (descriptor == nullptr) return missing("descriptor");
  const auto& all = descriptor->parsed.addresses();
  if (index >= all.size()) return report(Code::kInvalidArgument, "the descriptor has no address of that index");
  const Address& from = all[index];
  framelane_address to{};
  to.transport = static_cast<std::int32_t>(from.transport);
  to.port = from.port;
  to.name = from.name.c_str();
  to.directory = from.directory.c_str();
  to.host = from.host.c_str();
  return copy_out(to, address, "framelane_address");
}

framelane_code framelane_descriptor_socket_path(const framelane_descriptor* descriptor, const char** path) {
  if (path == nullptr) return missing("path");
  *path = nullptr;
  if (descriptor == nullptr) return missing("descriptor");
  if (descriptor->socket_path) *path = descriptor->socket_path->c_str();
  return code_of(descriptor->socket_path);
}

size_t framelane_runtime_dir(char* text, size_t capacity) {
  std::size_t length = print_text("", text, capacity);
  guarded([&] {
    length = print_text(descriptor::runtime_dir(), text, capacity);
    return FRAMELANE_OK;
  });
  return length;
}
