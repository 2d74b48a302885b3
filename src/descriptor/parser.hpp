// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "framelane/descriptor/descriptor.hpp"

namespace framelane::descriptor {

// The grammar. Every byte that is none of it must be percent-encoded, so that no two spellings of a path differ only in
// what a shell, a list or a URI library does to them.
//
//   descriptor = address *( "," address )
//   address    = name | "lane:" name | "lane.shm://" path | "lane.uds://" path
//              | "lane.tcp://" host ":" port "/" name | "lane.pipe://" ( "." | host-name ) "/" name
//   path       = 1*( "/" part )                                  the last part is the name
//   part       = 1*( letter | digit | one of -._~!$&'()*+;=:@ | "%" hex hex )      not "." or ".."
//   name       = ( letter | digit ) 0*63( letter | digit | "_" | "-" )
//   host       = host-name | IPv4 | "[" IPv6 [ "%25" zone ] "]"
//   host-name  = label *( "." label )                            at most 253 characters; not all digits
//   label      = 1*63( letter | digit | "_" | "-" )              no "-" at its ends
//   zone       = 1*15( letter | digit | one of -._ )
//   port       = 1*5digit                                        1 to 65535, no 0 in front; 0 for a producer
[[nodiscard]] constexpr bool is_digit(char c) noexcept { return c >= '0' && c <= '9'; }
[[nodiscard]] constexpr bool is_letter_or_digit(char c) noexcept {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || is_digit(c);
}
[[nodiscard]] constexpr bool is_name_char(char c) noexcept { return is_letter_or_digit(c) || c == '_' || c == '-'; }
[[nodiscard]] constexpr bool is_path_char(char c) noexcept {
  return is_letter_or_digit(c) || std::string_view("-._~!$&'()*+;=:@").find(c) != std::string_view::npos;
}

inline constexpr std::size_t kMaxNameLength = 64;
inline constexpr std::size_t kMaxHostLength = 253;
inline constexpr std::size_t kMaxLabelLength = 63;
inline constexpr std::size_t kMaxZoneLength = 15;  // of a network interface's name

/// One row per scheme; the list is closed.
struct Scheme {
  std::string_view prefix;  // as printed, up to where the address's own text begins
  Transport transport;
};
inline constexpr Scheme kSchemes[] = {
    {"lane:", Transport::kAny},       {"lane.shm://", Transport::kShm},   {"lane.uds://", Transport::kUds},
    {"lane.tcp://", Transport::kTcp}, {"lane.pipe://", Transport::kPipe},
};

/// Recursive descent over one text; `at_` is what the next error points to.
class Parser {
 public:
  Parser(std::string_view text, Side side) noexcept : text_(text), side_(side) {}

  [[nodiscard]] Result<std::vector<Address>> descriptor();

 private:
  [[nodiscard]] Result<Address> address();
  [[nodiscard]] Result<Transport> scheme();
  [[nodiscard]] Result<void> path(Address& address);
  [[nodiscard]] Result<void> authority(Address& address);
  [[nodiscard]] Result<void> server(Address& address);
  [[nodiscard]] Result<std::string> host_name();
  [[nodiscard]] Result<std::string> ip6_literal();
  [[nodiscard]] Result<std::string> zone();
  [[nodiscard]] Result<std::uint16_t> port();
  [[nodiscard]] Result<std::string> part();
  [[nodiscard]] Result<char> percent_encoded();
  [[nodiscard]] Result<std::string> name(bool percent_encoding);

  [[nodiscard]] bool at_end() const noexcept { return at_ >= text_.size() || text_[at_] == ','; }
  [[nodiscard]] bool is_at(char c) const noexcept { return at_ < text_.size() && text_[at_] == c; }
  [[nodiscard]] Result<void> skip(char c, std::string_view what);
  [[nodiscard]] bool is_last_part() const noexcept;
  [[nodiscard]] tl::unexpected<Error> expected(std::string_view what) const;
  [[nodiscard]] tl::unexpected<Error> refuse(Code code, std::string_view sentence) const;

  std::string_view text_;
  Side side_;
  std::size_t at_ = 0;
};

}  // namespace framelane::descriptor
