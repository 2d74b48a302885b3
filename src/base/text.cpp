// SPDX-License-Identifier: MIT
#include "base/text.hpp"

#include <cerrno>
#include <system_error>

namespace framelane::base {

std::string printable(std::string_view text, std::size_t most) {
  static constexpr char kHex[] = "0123456789abcdef";
  std::string out;
  for (const char c : text.substr(0, most)) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte >= 0x20 && byte < 0x7f) {
      out += c;
    } else {
      out += "\\x";
      out += kHex[byte >> 4];
      out += kHex[byte & 15];
    }
  }
  if (text.size() > most) out += "...";
  return out;
}

std::string quoted(std::string_view path) { return '\'' + printable(path, 200) + '\''; }

std::string system_words(int error) {
  std::string words = std::generic_category().message(error);
  if (error == EMFILE) words += " in this process; raise ulimit -n";
  if (error == ENFILE) words += " in the whole system; raise fs.file-max";
  return words;
}

}  // namespace framelane::base
