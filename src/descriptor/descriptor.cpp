// SPDX-License-Identifier: MIT
#include "framelane/descriptor/descriptor.hpp"

#include <algorithm>
#include <cstdlib>
#include <utility>

#include <unistd.h>

#include "descriptor/parser.hpp"

namespace framelane::descriptor {
namespace {

std::string joined(const std::string& directory, const std::string& name) {
  return directory == "/" ? "/" + name : directory + "/" + name;
}

std::string percent_encode(std::string_view path) {
  static constexpr char kHex[] = "0123456789ABCDEF";
  std::string out;
  for (const char c : path) {
    if (c == '/' || is_path_char(c)) {
      out += c;
      continue;
    }
    const auto byte = static_cast<unsigned char>(c);
    out += '%';
    out += kHex[byte >> 4];
    out += kHex[byte & 15];
  }
  return out;
}

std::string print(const Address& address) {
  if (address.transport == Transport::kAny) return address.name;
  const auto* scheme = std::find_if(std::begin(kSchemes), std::end(kSchemes),
                                    [&](const Scheme& row) { return row.transport == address.transport; });
  return std::string(scheme->prefix) + percent_encode(joined(address.directory, address.name));
}

std::string without_end_slashes(std::string path) {
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  return path;
}

}  // namespace

Result<std::string> Address::socket_path() const {
  if (transport != Transport::kAny && transport != Transport::kShm && transport != Transport::kUds) {
    return fail(Code::kUnsupported, "lane \"" + name + "\": its transport has no socket path");
  }
  const std::string where = directory.empty() ? runtime_dir() : directory;
  if (where.front() != '/') {
    return fail(Code::kInvalidArgument,
                "FRAMELANE_DIR is \"" + where + "\": it must be an absolute path, for example /tmp/lanes");
  }
  std::string path = joined(where, name);
  if (path.size() <= kMaxSocketPath) return path;
  return fail(Code::kTooLarge, "the lane's socket path " + path + " has " + std::to_string(path.size()) +
                                   " bytes, at most " + std::to_string(kMaxSocketPath) +
                                   " are possible; use a shorter directory (FRAMELANE_DIR) or name");
}

Result<Descriptor> Descriptor::parse(std::string_view text) {
  auto addresses = Parser(text).descriptor();
  if (!addresses) return tl::unexpected(std::move(addresses.error()));
  return Descriptor(std::move(*addresses));
}

std::string Descriptor::to_string() const {
  std::string text;
  for (const Address& address : addresses_) {
    if (!text.empty()) text += ',';
    text += print(address);
  }
  return text;
}

std::string runtime_dir() {
  if (const char* own = std::getenv("FRAMELANE_DIR"); own != nullptr && *own != '\0') return without_end_slashes(own);
  if (const char* session = std::getenv("XDG_RUNTIME_DIR"); session != nullptr && *session == '/') {
    return joined(without_end_slashes(session), "framelane");
  }
  return "/tmp/framelane-" + std::to_string(geteuid());
}

}  // namespace framelane::descriptor
