// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "framelane/base/result.hpp"

namespace framelane::format {

// Caps text as GStreamer prints and reads it:
//
//   caps     = name [ "(" feature *( "," feature ) ")" ] *( "," field ) [ ";" ]
//   field    = name "=" [ "(" type ")" ] value
//   value    = word | quoted string | list, range or array in {} [] <>, nested
//
// with spaces between any two of these. A lane's caps are fixed: several structures are refused, and lists and ranges
// are kept as text, to be refused only where a fixed value is needed.

struct Field {
  std::string name;
  std::string type;    // as written; empty when there is no mark
  std::string value;   // without quotes and escapes; lists, ranges and arrays as they are written
  bool fixed = true;   // not a list, range or array
  std::size_t at = 0;  // where the value begins, counted from 0
};

struct Fraction {
  int n = 0;
  int d = 1;
};

/// One parsed structure, and typed access to its fields. Errors state position and `example`, which must outlive it.
class Caps {
 public:
  [[nodiscard]] static Result<Caps> parse(std::string_view text, std::string_view example);

  [[nodiscard]] const std::string& media_type() const noexcept { return media_type_; }

  /// Errors: kInvalidArgument (another media type), kUnsupported (frames that aren't in system memory).
  [[nodiscard]] Result<void> expect(std::string_view media_type) const;

  [[nodiscard]] bool has(std::string_view name) const noexcept { return find(name) != nullptr; }

  // Each fails with kInvalidArgument when the field is missing, not fixed, marked as another type, or out of range.
  [[nodiscard]] Result<std::string> string(std::string_view name) const;
  [[nodiscard]] Result<int> positive(std::string_view name) const;
  [[nodiscard]] Result<Fraction> fraction(std::string_view name) const;  // n >= 0, d > 0, in lowest terms
  [[nodiscard]] Result<std::uint64_t> bitmask(std::string_view name) const;
  [[nodiscard]] Result<std::uint64_t> unsigned_number(std::string_view name, std::string_view types,
                                                      std::uint64_t most) const;
  // "< 1, 2 >". GStreamer puts the mark before the array or, of old, before each of its items.
  [[nodiscard]] Result<std::vector<std::uint64_t>> array(std::string_view name, std::string_view types,
                                                         std::uint64_t most) const;

  /// An error at the value of a field, which must be there.
  [[nodiscard]] tl::unexpected<Error> refuse(Code code, std::string_view name, std::string_view sentence) const;

 private:
  friend class CapsParser;

  [[nodiscard]] const Field* find(std::string_view name) const noexcept;
  [[nodiscard]] Result<const Field*> fixed(std::string_view name, std::string_view types) const;
  [[nodiscard]] tl::unexpected<Error> expected(const Field& field, std::string_view what) const;

  std::string_view example_;
  std::size_t size_ = 0;  // of the text
  std::string media_type_;
  std::vector<std::string> features_;
  std::vector<Field> fields_;
};

/// The value of a string field: as it is when it is a plain word, else quoted and escaped.
[[nodiscard]] std::string caps_value(std::string_view value);

}  // namespace framelane::format
