// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "cli/lane_rows.hpp"
#include "cli/lane_text.hpp"

// What `framelane top` looks like, line by line, and what its keys do. No terminal in here.
namespace framelane::cli {

enum class Style { kPlain, kHeading, kSelected, kDim, kGood, kWarning, kBad };

struct Span {
  std::string text;
  Style style = Style::kPlain;
};
using Line = std::vector<Span>;

struct ScreenSize {
  std::size_t rows = 24;
  std::size_t columns = 80;
};

/// What somebody who looks at it has chosen.
class TopView {
 public:
  enum class Key { kUp, kDown, kPageUp, kPageDown, kHome, kEnd, kOpen, kBack };

  SortKey sort = SortKey::kName;
  bool reversed = false;
  bool help = false;

  /// New rows, in any order. The selection stays with its lane; an opened lane that has gone stays open, and says so.
  void show(std::vector<LaneRow> rows);
  /// Once more, after `sort` or `reversed` has changed.
  void sort_again();
  void press(Key key);
  /// A letter; false when it has no meaning.
  bool press(char letter);

  [[nodiscard]] const std::vector<LaneRow>& rows() const noexcept { return rows_; }
  [[nodiscard]] std::size_t selected() const noexcept { return selected_; }
  /// Empty: none is open.
  [[nodiscard]] const std::string& opened() const noexcept { return opened_; }
  [[nodiscard]] const LaneRow* opened_row() const noexcept;

 private:
  void select(std::size_t index);

  std::vector<LaneRow> rows_;
  std::size_t selected_ = 0;
  std::string selected_name_;
  std::string opened_;
};

/// The screen: at most size.rows lines of at most size.columns columns. `about` is said at the top: where, how often.
[[nodiscard]] std::vector<Line> draw(const TopView& view, ScreenSize size, const Glyphs& glyphs,
                                     std::string_view about);

/// The same tables for scripts and pipes: all lanes, each with its consumers, however many.
[[nodiscard]] std::vector<Line> draw_all(const std::vector<LaneRow>& rows, std::size_t columns, const Glyphs& glyphs);

/// One lane in full.
[[nodiscard]] std::vector<Line> draw_one(const LaneRow& row, std::size_t columns, const Glyphs& glyphs);

/// Without spaces at its end.
[[nodiscard]] std::string text_of(const Line& line);

}  // namespace framelane::cli
