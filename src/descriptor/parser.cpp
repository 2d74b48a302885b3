// SPDX-License-Identifier: MIT
#include "descriptor/parser.hpp"

#include <algorithm>
#include <utility>

#include <arpa/inet.h>

#include "base/text.hpp"

namespace framelane::descriptor {
namespace {

constexpr std::string_view kNameChars = "a letter, a digit, '_' or '-'";
constexpr std::string_view kExamples =
    "cam0, lane.shm:///run/user/1000/framelane/cam0 or lane.tcp://192.0.2.7:7411/cam0";

constexpr std::string_view kHosts = "a host's name, an IPv4 address, or an IPv6 address in brackets";
constexpr std::string_view kLabelChars = "a letter, a digit or '_' of a host's name";

bool is_number(std::string_view label) noexcept {
  return std::all_of(label.begin(), label.end(), is_digit) || label.substr(0, 2) == "0x";
}

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
  while (true) {
    auto next = address();
    if (!next) return tl::unexpected(std::move(next.error()));
    addresses.push_back(std::move(*next));
    if (at_ >= text_.size()) return addresses;
    ++at_;  // the comma
  }
}

Result<Address> Parser::address() {
  const std::size_t start = at_;
  const auto transport = scheme();
  if (!transport) return tl::unexpected(transport.error());
  Address address;
  address.transport = *transport;
  Result<void> where;
  if (address.transport == Transport::kShm || address.transport == Transport::kUds) where = path(address);
  if (address.transport == Transport::kTcp) where = authority(address);
  if (address.transport == Transport::kPipe) where = server(address);
  if (!where) return tl::unexpected(std::move(where.error()));
  auto last = name(address.transport != Transport::kAny);
  if (!last) return tl::unexpected(std::move(last.error()));
  address.name = std::move(*last);
  if (address.directory.empty()) return address;
  if (auto socket = address.socket_path(); !socket) {
    at_ = start;
    return refuse(socket.error().code, socket.error().text);
  }
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

Result<void> Parser::skip(char c, std::string_view what) {
  if (!is_at(c)) return expected(what);
  ++at_;
  return {};
}

/// The folders of a path and the slash before the lane's name.
Result<void> Parser::path(Address& address) {
  if (!is_at('/')) return expected("an absolute path, beginning with '/'");
  while (true) {
    ++at_;  // the slash
    if (is_last_part()) break;
    auto folder = part();
    if (!folder) return tl::unexpected(std::move(folder.error()));
    address.directory += "/" + *folder;
  }
  if (address.directory.empty()) address.directory = "/";
  return {};
}

/// Host, port and the slash before the lane's name.
Result<void> Parser::authority(Address& address) {
  auto host = is_at('[') ? ip6_literal() : host_name();
  if (!host) return tl::unexpected(std::move(host.error()));
  address.host = std::move(*host);
  if (auto colon = skip(':', "':' and a port"); !colon) return colon;
  auto number = port();
  if (!number) return tl::unexpected(std::move(number.error()));
  address.port = *number;
  return skip('/', "'/' and the lane's name");
}

/// The server of a named pipe, "." for this one, and the slash before the lane's name.
Result<void> Parser::server(Address& address) {
  const bool here = is_at('.');
  auto host = here ? Result<std::string>(".") : host_name();
  if (!host) return tl::unexpected(std::move(host.error()));
  if (here) ++at_;
  address.host = std::move(*host);
  return skip('/', "'/' and the lane's name");
}

/// A host's name or IPv4 address, in small letters.
Result<std::string> Parser::host_name() {
  const std::size_t start = at_;
  std::size_t label = at_;
  std::string host;
  for (; at_ < text_.size() && (is_name_char(text_[at_]) || text_[at_] == '.'); ++at_) {
    const char c = text_[at_];
    if (at_ == label ? !is_name_char(c) || c == '-' : c == '.' && text_[at_ - 1] == '-') return expected(kLabelChars);
    if (at_ - start == kMaxHostLength || (c != '.' && at_ - label == kMaxLabelLength))
      return expected("the end of a host's name, which may have at most 253 characters, 63 between dots");
    if (c == '.') label = at_ + 1;
    host += c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  }
  if (host.empty()) return expected(kHosts);
  if (at_ == label || text_[at_ - 1] == '-') return expected(kLabelChars);
  if (is_at('@')) return expected("a host without a user");
  // Libraries read such a name as an address, in whatever way they like: only the plain one is.
  in_addr ip4{};
  if (!is_number(std::string_view(host).substr(label - start)) || inet_pton(AF_INET, host.c_str(), &ip4) == 1)
    return host;
  at_ = start;
  return expected(kHosts);
}

/// "[...]", without its brackets and in its canonical form.
Result<std::string> Parser::ip6_literal() {
  const std::size_t start = ++at_;
  while (at_ < text_.size() && (text_[at_] == ':' || text_[at_] == '.' || is_letter_or_digit(text_[at_]))) ++at_;
  const std::string digits(text_.substr(start, at_ - start));
  in6_addr ip6{};
  if (inet_pton(AF_INET6, digits.c_str(), &ip6) != 1) {
    if (!digits.empty() && at_ < text_.size() && text_[at_] != ']' && text_[at_] != '%') return expected("']'");
    at_ = start;
    return expected("an IPv6 address, like ::1");
  }
  char canonical[INET6_ADDRSTRLEN];
  std::string host = inet_ntop(AF_INET6, &ip6, canonical, sizeof canonical);
  if (is_at('%')) {
    auto interface = zone();
    if (!interface) return interface;
    host += "%" + *interface;
  }
  if (auto closed = skip(']', "']' after an IPv6 address"); !closed) return tl::unexpected(std::move(closed.error()));
  return host;
}

/// "%25" and the network interface of a link-local address.
Result<std::string> Parser::zone() {
  constexpr std::string_view kWhat = "\"%25\" and a network interface, like %25eth0";
  if (text_.substr(at_, 3) != "%25") return expected(kWhat);
  at_ += 3;
  const std::size_t start = at_;
  while (at_ < text_.size() && (is_name_char(text_[at_]) || text_[at_] == '.')) ++at_;
  const std::size_t length = at_ - start;
  if (length >= 1 && length <= kMaxZoneLength) return std::string(text_.substr(start, length));
  at_ = start;
  return expected(kWhat);
}

Result<std::uint16_t> Parser::port() {
  const std::string_view what =
      side_ == Side::kProducer ? "a port from 1 to 65535, or 0 for any" : "a port from 1 to 65535";
  const std::size_t start = at_;
  std::uint32_t value = 0;
  for (; at_ < text_.size() && is_digit(text_[at_]) && value <= 65535; ++at_) value = value * 10 + (text_[at_] - '0');
  const std::size_t digits = at_ - start;
  const bool written_plainly = digits == 1 || (digits > 1 && text_[start] != '0');
  if (digits != 0 && (!written_plainly || value > 65535 || (value == 0 && side_ == Side::kConsumer))) at_ = start;
  if (is_at(':')) return expected(std::string(what) + " (an IPv6 address stands in brackets)");
  if (digits == 0 || at_ == start) return expected(what);
  return static_cast<std::uint16_t>(value);
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
