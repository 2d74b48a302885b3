// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "framelane/descriptor/descriptor.hpp"

namespace framelane::descriptor {

// The grammar. Every byte that is none of it must be percent-encoded, so that no two spellings of a path differ only in
// what a shell, a list or a URI library does to them.
//
//   descriptor = address *( "," address )
//   address    = name | "lane:" name | "lane.shm://" path        (and the schemes that aren't built yet)
//   path       = 1*( "/" part )                                  the last part is the name
//   part       = 1*( letter | digit | one of -._~!$&'()*+;=:@ | "%" hex hex )      not "." or ".."
//   name       = ( letter | digit ) 0*63( letter | digit | "_" | "-" )
[[nodiscard]] constexpr bool is_letter_or_digit(char c) noexcept {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}
[[nodiscard]] constexpr bool is_name_char(char c) noexcept { return is_letter_or_digit(c) || c == '_' || c == '-'; }
[[nodiscard]] constexpr bool is_path_char(char c) noexcept {
  return is_letter_or_digit(c) || std::string_view("-._~!$&'()*+;=:@").find(c) != std::string_view::npos;
}

inline constexpr std::size_t kMaxNameLength = 64;

/// One row per scheme; the list is closed.
struct Scheme {
  std::string_view prefix;  // as printed, up to where the address's own text begins
  Transport transport;
  bool built;
};
inline constexpr Scheme kSchemes[] = {
    {"lane:", Transport::kAny, true},          {"lane.shm://", Transport::kShm, true},
    {"lane.uds://", Transport::kUds, false},   {"lane.tcp://", Transport::kTcp, false},
    {"lane.pipe://", Transport::kPipe, false},
};

/// Recursive descent over one text; `at_` is what the next error points to.
class Parser {
 public:
  explicit Parser(std::string_view text) noexcept : text_(text) {}

  [[nodiscard]] Result<std::vector<Address>> descriptor();

 private:
  [[nodiscard]] Result<Address> address();
  [[nodiscard]] Result<Transport> scheme();
  [[nodiscard]] Result<void> path(Address& address);
  [[nodiscard]] Result<std::string> part();
  [[nodiscard]] Result<char> percent_encoded();
  [[nodiscard]] Result<std::string> name(bool percent_encoding);

  [[nodiscard]] bool at_end() const noexcept { return at_ >= text_.size() || text_[at_] == ','; }
  [[nodiscard]] bool is_last_part() const noexcept;
  [[nodiscard]] tl::unexpected<Error> expected(std::string_view what) const;
  [[nodiscard]] tl::unexpected<Error> refuse(Code code, std::string_view sentence) const;

  std::string_view text_;
  std::size_t at_ = 0;
};

}  // namespace framelane::descriptor
