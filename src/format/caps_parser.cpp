// SPDX-License-Identifier: MIT
#include "format/caps_parser.hpp"

#include <utility>

#include "base/text.hpp"

namespace framelane::format {
namespace {

bool is_letter(char c) noexcept { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
bool is_octal(char c) noexcept { return c >= '0' && c <= '7'; }

/// The bracket that ends what this one begins; 0 for all else.
char closing(char c) noexcept {
  switch (c) {
    case '{':
      return '}';
    case '[':
      return ']';
    case '<':
      return '>';
    default:
      return 0;
  }
}

}  // namespace

bool is_word_char(char c) noexcept {
  return is_letter(c) || (c >= '0' && c <= '9') ||
         (c != 0 && std::string_view("_-+/:.").find(c) != std::string_view::npos);
}

tl::unexpected<Error> caps_error(Code code, std::size_t at, std::string_view sentence, std::string_view example) {
  return fail(code, "caps, position " + std::to_string(at + 1) + ": " + std::string(sentence) +
                        "; example: " + std::string(example));
}

tl::unexpected<Error> CapsParser::expected(std::string_view what) const {
  const std::string found = at_ < text_.size() ? "\"" + base::printable(text_.substr(at_), 16) + "\"" : "the end";
  return caps_error(Code::kInvalidArgument, at_, "expected " + std::string(what) + ", found " + found, example_);
}

void CapsParser::skip_spaces() noexcept {
  while (at_ < text_.size() && std::string_view(" \t\n\r\f\v").find(text_[at_]) != std::string_view::npos) ++at_;
}

bool CapsParser::skip(char c) noexcept {
  skip_spaces();
  if (!at(c)) return false;
  ++at_;
  skip_spaces();
  return true;
}

Result<std::string> CapsParser::word(std::string_view what) {
  const std::size_t start = at_;
  while (at_ < text_.size() && is_word_char(text_[at_])) ++at_;
  if (at_ == start) return expected(what);
  return std::string(text_.substr(start, at_ - start));
}

Result<Caps> CapsParser::caps() {
  Caps caps;
  caps.example_ = example_;
  caps.size_ = text_.size();
  skip_spaces();
  auto media_type = word("a media type");
  if (!media_type) return tl::unexpected(std::move(media_type.error()));
  caps.media_type_ = std::move(*media_type);
  if (skip('(')) {
    if (auto done = features(caps); !done) return tl::unexpected(std::move(done.error()));
  }
  while (skip(',')) {
    auto next = field();
    if (!next) return tl::unexpected(std::move(next.error()));
    caps.fields_.push_back(std::move(*next));
  }
  const bool semicolon = skip(';');
  if (at_ < text_.size()) return expected(semicolon ? "the end, since a frame has one format" : "','");
  return caps;
}

Result<void> CapsParser::features(Caps& caps) {
  do {
    auto feature = word("a feature such as memory:SystemMemory");
    if (!feature) return tl::unexpected(std::move(feature.error()));
    caps.features_.push_back(std::move(*feature));
  } while (skip(','));
  if (!skip(')')) return expected("')'");
  return {};
}

Result<Field> CapsParser::field() {
  Field field;
  if (at_ >= text_.size() || !is_letter(text_[at_])) return expected("a field's name");
  auto name = word("a field's name");
  if (!name) return tl::unexpected(std::move(name.error()));
  field.name = std::move(*name);
  if (!skip('=')) return expected("'='");
  if (skip('(')) {
    auto type = type_mark();
    if (!type) return tl::unexpected(std::move(type.error()));
    field.type = std::move(*type);
  }
  if (auto done = value(field); !done) return tl::unexpected(std::move(done.error()));
  return field;
}

Result<std::string> CapsParser::type_mark() {
  auto type = word("a type such as int");
  if (type && !skip(')')) return expected("')'");
  return type;
}

Result<void> CapsParser::value(Field& field) {
  field.at = at_;
  field.fixed = at_ >= text_.size() || closing(text_[at_]) == 0;
  auto value = !field.fixed ? nested() : at('"') ? quoted_string() : word("a value");
  if (!value) return tl::unexpected(std::move(value.error()));
  field.value = std::move(*value);
  return {};
}

Result<std::string> CapsParser::quoted_string() {
  std::string decoded;
  for (++at_; at_ < text_.size(); ++at_) {
    if (at('"')) {
      ++at_;
      return decoded;
    }
    if (!at('\\')) {
      decoded += text_[at_];
      continue;
    }
    const std::string_view rest = text_.substr(++at_);
    if (rest.empty()) break;
    if (rest.size() >= 3 && rest[0] <= '3' && is_octal(rest[0]) && is_octal(rest[1]) && is_octal(rest[2])) {
      decoded += static_cast<char>((rest[0] - '0') * 64 + (rest[1] - '0') * 8 + (rest[2] - '0'));
      at_ += 2;
    } else {
      decoded += rest[0];
    }
  }
  return expected("'\"'");
}

/// A list, range or array, kept as text. Not by recursion, so that no text can exhaust the stack.
Result<std::string> CapsParser::nested() {
  const std::size_t start = at_;
  std::string open;  // the closing brackets that are due, innermost last
  while (at_ < text_.size()) {
    const char c = text_[at_];
    if (c == '"') {
      if (auto skipped = quoted_string(); !skipped) return skipped;
      continue;
    }
    ++at_;
    if (closing(c) != 0) open += closing(c);
    if (c != '}' && c != ']' && c != '>') continue;
    if (c != open.back()) {
      --at_;
      return expected(std::string("'") + open.back() + "'");
    }
    open.pop_back();
    if (open.empty()) return std::string(text_.substr(start, at_ - start));
  }
  return expected(std::string("'") + open.back() + "'");
}

}  // namespace framelane::format
