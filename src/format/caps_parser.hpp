// SPDX-License-Identifier: MIT
#pragma once

#include "format/caps_text.hpp"

namespace framelane::format {

/// Recursive descent over caps text (the grammar is in caps_text.hpp); `at_` is what the next error points to.
class CapsParser {
 public:
  CapsParser(std::string_view text, std::string_view example) noexcept : text_(text), example_(example) {}

  [[nodiscard]] Result<Caps> caps();

 private:
  [[nodiscard]] Result<void> features(Caps& caps);
  [[nodiscard]] Result<Field> field();
  [[nodiscard]] Result<std::string> type_mark();
  [[nodiscard]] Result<void> value(Field& field);
  [[nodiscard]] Result<std::string> quoted_string();
  [[nodiscard]] Result<std::string> nested();
  [[nodiscard]] Result<std::string> word(std::string_view what);

  [[nodiscard]] bool skip(char c) noexcept;  // spaces, and then c if it is there
  [[nodiscard]] bool at(char c) const noexcept { return at_ < text_.size() && text_[at_] == c; }
  void skip_spaces() noexcept;
  [[nodiscard]] tl::unexpected<Error> expected(std::string_view what) const;

  std::string_view text_;
  std::string_view example_;
  std::size_t at_ = 0;
};

/// GStreamer's set of characters that need no quotes.
[[nodiscard]] bool is_word_char(char c) noexcept;

/// The one form of this room's errors. `at` counts from 0, the text from 1.
[[nodiscard]] tl::unexpected<Error> caps_error(Code code, std::size_t at, std::string_view sentence,
                                               std::string_view example);

}  // namespace framelane::format
