// SPDX-License-Identifier: MIT
#include "framelane/descriptor/descriptor.hpp"

#include <algorithm>
#include <cstdlib>
#include <utility>

#include <unistd.h>

#include "base/text.hpp"
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

std::string print_host(const std::string& host) {
  if (host.find(':') == std::string::npos) return host;
  std::string literal = host;
  if (const std::size_t zone = literal.find('%'); zone != std::string::npos) literal.replace(zone, 1, "%25");
  return "[" + literal + "]";
}

std::string print(const Address& address) {
  const auto* scheme = std::find_if(std::begin(kSchemes), std::end(kSchemes),
                                    [&](const Scheme& row) { return row.transport == address.transport; });
  const std::string prefix(scheme->prefix);
  switch (address.transport) {
    case Transport::kAny:
      break;
    case Transport::kShm:
    case Transport::kUds:
      return prefix + percent_encode(joined(address.directory, address.name));
    case Transport::kTcp:
      return prefix + print_host(address.host) + ":" + std::to_string(address.port) + "/" + address.name;
    case Transport::kPipe:
      return prefix + address.host + "/" + address.name;
  }
  return address.name;
}

std::string without_end_slashes(std::string path) {
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  return path;
}

}  // namespace

Result<std::string> Address::socket_path() const {
  if (!is_path()) return fail(Code::kUnsupported, "lane \"" + name + "\": its transport has no socket path");
  const std::string where = directory.empty() ? runtime_dir() : directory;
  if (where.front() != '/') {
    return fail(Code::kInvalidArgument, "FRAMELANE_DIR is \"" + base::printable(where, 200) +
                                            "\": it must be an absolute path, for example /tmp/lanes");
  }
  std::string path = joined(where, name);
  if (path.size() <= kMaxSocketPath) return path;
  return fail(Code::kTooLarge, "the lane's socket path " + base::printable(path, 200) + " has " +
                                   std::to_string(path.size()) + " bytes, at most " + std::to_string(kMaxSocketPath) +
                                   " are possible; use a shorter directory (FRAMELANE_DIR) or name");
}

Result<std::string> Address::pipe_path() const {
  if (transport == Transport::kPipe) return "\\\\" + host + "\\pipe\\" + name;
  return fail(Code::kUnsupported, "lane \"" + name + "\": its transport has no named pipe");
}

Result<Descriptor> Descriptor::parse(std::string_view text, Side side) {
  auto addresses = Parser(text, side).descriptor();
  if (!addresses) return tl::unexpected(std::move(addresses.error()));
  return Descriptor(std::move(*addresses));
}

Result<Descriptor> Descriptor::named(const std::string& name) { return list({{Transport::kAny, name, "", "", 0}}); }

Result<Descriptor> Descriptor::shm(const std::string& directory, const std::string& name) {
  return list({{Transport::kShm, name, directory, "", 0}});
}

Result<Descriptor> Descriptor::uds(const std::string& directory, const std::string& name) {
  return list({{Transport::kUds, name, directory, "", 0}});
}

Result<Descriptor> Descriptor::tcp(const std::string& host, std::uint16_t port, const std::string& name) {
  return list({{Transport::kTcp, name, "", host, port}});
}

Result<Descriptor> Descriptor::pipe(const std::string& server, const std::string& name) {
  return list({{Transport::kPipe, name, "", server, 0}});
}

// Printed and parsed, so that there is one set of rules.
Result<Descriptor> Descriptor::list(std::vector<Address> addresses) {
  if (addresses.empty()) return fail(Code::kInvalidArgument, "a descriptor needs at least one address");
  const Descriptor wanted(std::move(addresses));
  auto parsed = parse(wanted.to_string(), Side::kProducer);
  if (!parsed) return parsed;
  // A part may have been text for another one: a name with a comma, a host with a port. Hosts have their own spellings.
  const auto as_meant = [](Address meant, const Address& got) {
    meant.host = got.host;
    return meant == got;
  };
  if (std::equal(wanted.addresses_.begin(), wanted.addresses_.end(), parsed->addresses_.begin(),
                 parsed->addresses_.end(), as_meant)) {
    return parsed;
  }
  return fail(Code::kInvalidArgument,
              "\"" + base::printable(wanted.to_string()) +
                  "\" is another descriptor than its parts say; check directory, name and host");
}

bool Descriptor::names(Transport transport) const noexcept {
  return std::any_of(addresses_.begin(), addresses_.end(),
                     [transport](const Address& address) { return address.transport == transport; });
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
