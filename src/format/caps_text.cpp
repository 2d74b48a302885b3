// SPDX-License-Identifier: MIT
#include "format/caps_text.hpp"

#include <algorithm>
#include <charconv>
#include <numeric>
#include <optional>

#include "base/text.hpp"
#include "format/caps_parser.hpp"

namespace framelane::format {
namespace {

/// The whole text as a number, decimal or hexadecimal; nothing if it isn't one or doesn't fit.
template <class T>
std::optional<T> number(std::string_view text) noexcept {
  T value{};
  const bool hex = text.starts_with("0x") || text.starts_with("0X");
  if (hex) text.remove_prefix(2);
  const int base = hex ? 16 : 10;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

bool is_one_of(std::string_view word, std::string_view words) {
  return (" " + std::string(words) + " ").find(" " + std::string(word) + " ") != std::string::npos;
}

std::string_view trimmed(std::string_view text) noexcept {
  const std::size_t start = std::min(text.find_first_not_of(' '), text.size());
  return text.substr(start, text.find_last_not_of(' ') + 1 - start);
}

/// "(int)5" without "(int)", if that is one of `types`; else as it is, which is no number then.
std::string_view without_mark(std::string_view item, std::string_view types) {
  const std::size_t end = item.find(')');
  if (!item.starts_with('(') || end == std::string_view::npos) return item;
  return is_one_of(trimmed(item.substr(1, end - 1)), types) ? trimmed(item.substr(end + 1)) : item;
}

}  // namespace

Result<Caps> Caps::parse(std::string_view text, std::string_view example) { return CapsParser(text, example).caps(); }

Result<void> Caps::expect(std::string_view media_type) const {
  if (media_type_ != media_type) {
    return caps_error(Code::kInvalidArgument, 0,
                      "expected " + std::string(media_type) + ", found \"" + base::printable(media_type_) + "\"",
                      example_);
  }
  for (const std::string& feature : features_) {
    // A meta: feature says what travels beside the bytes; all others say where the bytes are.
    if (feature == "memory:SystemMemory" || feature.starts_with("meta:")) continue;
    return caps_error(Code::kUnsupported, media_type_.size(),
                      "frames with the feature " + base::printable(feature) + " are not bytes in system memory",
                      example_);
  }
  return {};
}

const Field* Caps::find(std::string_view name) const noexcept {
  const auto same = [&](const Field& field) { return field.name == name; };
  const auto found = std::find_if(fields_.rbegin(), fields_.rend(), same);  // the last one wins, as in GStreamer
  return found == fields_.rend() ? nullptr : &*found;
}

tl::unexpected<Error> Caps::expected(const Field& field, std::string_view what) const {
  return caps_error(Code::kInvalidArgument, field.at,
                    "expected " + std::string(what) + " for \"" + field.name + "\", found \"" +
                        base::printable(field.value, 32) + "\"",
                    example_);
}

tl::unexpected<Error> Caps::refuse(Code code, std::string_view name, std::string_view sentence) const {
  const Field* field = find(name);
  return caps_error(code, field != nullptr ? field->at : size_, sentence, example_);
}

/// The field, if it has one value of one of these types, or without a mark.
Result<const Field*> Caps::fixed(std::string_view name, std::string_view types) const {
  const Field* field = find(name);
  if (field == nullptr) {
    return caps_error(Code::kInvalidArgument, size_, "\"" + std::string(name) + "\" is missing", example_);
  }
  if (!field->fixed) return expected(*field, "one fixed value");
  if (field->type.empty() || is_one_of(field->type, types)) return field;
  return expected(*field, "the type (" + std::string(types.substr(0, types.find(' '))) + ")");
}

Result<std::string> Caps::string(std::string_view name) const {
  const auto field = fixed(name, "string str s gchararray");
  if (!field) return tl::unexpected(field.error());
  if ((*field)->value.empty()) return expected(**field, "a word");
  return (*field)->value;
}

Result<int> Caps::positive(std::string_view name) const {
  const auto field = fixed(name, "int i gint");
  if (!field) return tl::unexpected(field.error());
  const auto value = number<int>((*field)->value);
  if (!value || *value < 1) return expected(**field, "a whole number from 1 to 2147483647");
  return *value;
}

Result<Fraction> Caps::fraction(std::string_view name) const {
  const auto field = fixed(name, "fraction GstFraction");
  if (!field) return tl::unexpected(field.error());
  const std::string_view text = (*field)->value;
  const std::size_t slash = text.find('/');
  const auto n = number<int>(text.substr(0, slash));
  const auto d = slash == std::string_view::npos ? std::optional(1) : number<int>(text.substr(slash + 1));
  if (!n || !d || *n < 0 || *d < 1) return expected(**field, "a fraction that is not negative");
  const int common = std::gcd(*n, *d);
  return Fraction{*n / common, *d / common};
}

Result<std::uint64_t> Caps::bitmask(std::string_view name) const {
  const auto field = fixed(name, "bitmask GstBitmask");
  if (!field) return tl::unexpected(field.error());
  const auto value = number<std::uint64_t>((*field)->value);
  if (!value) return expected(**field, "a 64-bit mask");
  return *value;
}

Result<std::uint64_t> Caps::unsigned_number(std::string_view name, std::string_view types, std::uint64_t most) const {
  const auto field = fixed(name, types);
  if (!field) return tl::unexpected(field.error());
  const auto value = number<std::uint64_t>((*field)->value);
  if (!value || *value > most) return expected(**field, "a whole number from 0 to " + std::to_string(most));
  return *value;
}

Result<std::vector<std::uint64_t>> Caps::array(std::string_view name, std::string_view types,
                                               std::uint64_t most) const {
  const Field* const field = find(name);
  const auto wrong = [&]() -> tl::unexpected<Error> {
    const std::string what = "an array < > of whole numbers from 0 to " + std::to_string(most);
    if (field != nullptr) return expected(*field, what);
    return caps_error(Code::kInvalidArgument, size_, "\"" + std::string(name) + "\" is missing", example_);
  };
  if (field == nullptr || field->fixed || !field->value.starts_with('<')) return wrong();
  if (!field->type.empty() && !is_one_of(field->type, types)) return wrong();
  std::string_view rest(field->value);
  rest = trimmed(rest.substr(1, rest.size() - 2));
  std::vector<std::uint64_t> numbers;
  for (bool more = !rest.empty(); more;) {
    const std::size_t comma = rest.find(',');
    const auto value = number<std::uint64_t>(without_mark(trimmed(rest.substr(0, comma)), types));
    if (!value || *value > most) return wrong();
    numbers.push_back(*value);
    more = comma != std::string_view::npos;
    if (more) rest.remove_prefix(comma + 1);
  }
  return numbers;
}

std::string caps_value(std::string_view value) {
  if (!value.empty() && std::all_of(value.begin(), value.end(), is_word_char)) return std::string(value);
  std::string out = "\"";
  for (const char c : value) {
    const auto byte = static_cast<unsigned char>(c);
    if (is_word_char(c)) {
      out += c;
    } else if (byte >= 0x20 && byte < 0x7f) {
      out += '\\';
      out += c;
    } else {
      out += '\\';
      for (const int shift : {6, 3, 0}) out += static_cast<char>('0' + (byte >> shift & 7));
    }
  }
  return out + '"';
}

}  // namespace framelane::format
