// SPDX-License-Identifier: MIT
#include "descriptor/parser.hpp"

#include <algorithm>
#include <utility>

#include "base/text.hpp"

namespace framelane::descriptor {
namespace {

constexpr std::string_view kNameChars = "a letter, a digit, '_' or '-'";
constexpr std::string_view kExamples = "cam0 or lane.shm:///run/user/1000/framelane/cam0";

int hex_value(char c) noexcept {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

}  // namespace

tl::unexpected<Error> Parser::refuse(Code code, std::string_view sentence) const {
  return fail(code, "descriptor \"" + base::printable(text_) + "\", position " + std::to_string(at_ + 1) + ": " +
                        std::string(sentence) + "; examples: " + std::string(kExamples));
}

tl::unexpected<Error> Parser::expected(std::string_view what) const {
  const std::string found = at_ < text_.size() ? "'" + base::printable(text_.substr(at_, 1)) + "'" : "the end";
  return refuse(Code::kInvalidArgument, "expected " + std::string(what) + ", found " + found);
}

Result<std::vector<Address>> Parser::descriptor() {
  std::vector<Address> addresses;
  std::size_t second = 0;
  while (true) {
    auto next = address();
    if (!next) return tl::unexpected(std::move(next.error()));
    addresses.push_back(std::move(*next));
    if (at_ >= text_.size()) break;
    ++at_;  // the comma
    if (second == 0) second = at_;
  }
  if (addresses.size() == 1) return addresses;
  at_ = second;
  return refuse(Code::kUnsupported, "lists of addresses are not built yet; name one");
}

Result<Address> Parser::address() {
  const auto transport = scheme();
  if (!transport) return tl::unexpected(transport.error());
  Address address;
  address.transport = *transport;
  if (address.transport == Transport::kShm) {
    if (auto done = path(address); !done) return tl::unexpected(std::move(done.error()));
    if (auto socket = address.socket_path(); !socket) return tl::unexpected(std::move(socket.error()));
    return address;
  }
  auto only = name(false);
  if (!only) return tl::unexpected(std::move(only.error()));
  address.name = std::move(*only);
  return address;
}

/// Consumes a scheme. A text without a colon before its first slash has none, and is a bare name.
Result<Transport> Parser::scheme() {
  const std::size_t stop = text_.find_first_of(":/,", at_);
  if (stop == std::string_view::npos || text_[stop] != ':') return Transport::kAny;
  const std::string_view word = text_.substr(at_, stop + 1 - at_);
  const auto* known = std::find_if(std::begin(kSchemes), std::end(kSchemes),
                                   [&](const Scheme& scheme) { return scheme.prefix.substr(0, word.size()) == word; });
  if (known == std::end(kSchemes)) {
    return refuse(Code::kInvalidArgument,
                  "expected a name or one of lane:, lane.shm:, lane.uds:, lane.tcp:, lane.pipe:, found \"" +
                      base::printable(word) + "\"");
  }
  if (!known->built) {
    return refuse(Code::kUnsupported, std::string(word.substr(0, word.size() - 1)) +
                                          " is not built yet; this version has bare names and lane.shm");
  }
  at_ = stop + 1;
  for (const char c : known->prefix.substr(word.size())) {
    if (at_ >= text_.size() || text_[at_] != c) return expected("\"" + std::string(known->prefix) + "\"");
    ++at_;
  }
  return known->transport;
}

bool Parser::is_last_part() const noexcept {
  const std::size_t stop = text_.find_first_of("/,", at_);
  return stop == std::string_view::npos || text_[stop] == ',';
}

Result<void> Parser::path(Address& address) {
  if (at_end() || text_[at_] != '/') return expected("an absolute path, beginning with '/'");
  while (true) {
    ++at_;  // the slash
    if (is_last_part()) break;
    auto folder = part();
    if (!folder) return tl::unexpected(std::move(folder.error()));
    address.directory += "/" + *folder;
  }
  if (address.directory.empty()) address.directory = "/";
  auto last = name(true);
  if (!last) return tl::unexpected(std::move(last.error()));
  address.name = std::move(*last);
  return {};
}

/// A folder's name, up to the slash after it.
Result<std::string> Parser::part() {
  const std::size_t start = at_;
  std::string decoded;
  while (!at_end() && text_[at_] != '/') {
    if (text_[at_] == '%') {
      const auto byte = percent_encoded();
      if (!byte) return tl::unexpected(byte.error());
      decoded += *byte;
    } else if (is_path_char(text_[at_])) {
      decoded += text_[at_++];
    } else {
      return expected("a part of a path (other bytes as %XX, a space as %20)");
    }
  }
  if (!decoded.empty() && decoded != "." && decoded != "..") return decoded;
  at_ = start;
  return expected("a folder's name (no empty parts, no \".\" or \"..\")");
}

/// "%XX". The byte must be one that can stand in a file's name.
Result<char> Parser::percent_encoded() {
  const std::size_t start = at_;
  int value = 0;
  for (int digit = 0; digit < 2; ++digit) {
    ++at_;
    const int hex = at_ < text_.size() ? hex_value(text_[at_]) : -1;
    if (hex < 0) return expected("two hexadecimal digits after '%'");
    value = value * 16 + hex;
  }
  if (value == 0 || value == '/') {
    at_ = start;
    return expected("a byte that a file's name may have (%00 and %2F are none)");
  }
  ++at_;
  return static_cast<char>(value);
}

/// The lane's name, which ends the address.
Result<std::string> Parser::name(bool percent_encoding) {
  std::string decoded;
  while (!at_end()) {
    const std::size_t start = at_;
    char c = text_[at_++];
    if (percent_encoding && c == '%') {
      at_ = start;
      const auto byte = percent_encoded();
      if (!byte) return tl::unexpected(byte.error());
      c = *byte;
    }
    const bool fits = decoded.empty() ? is_letter_or_digit(c) : is_name_char(c);
    if (fits && decoded.size() < kMaxNameLength) {
      decoded += c;
      continue;
    }
    at_ = start;
    if (fits) return expected("the end of the name, which may have at most 64 characters");
    return expected(decoded.empty() ? "a lane's name, beginning with a letter or digit" : kNameChars);
  }
  if (decoded.empty()) return expected("a lane's name, beginning with a letter or digit");
  return decoded;
}

}  // namespace framelane::descriptor
