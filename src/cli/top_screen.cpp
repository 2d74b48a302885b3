// SPDX-License-Identifier: MIT
#include "cli/top_screen.hpp"

#include <algorithm>
#include <functional>
#include <utility>

#include <fmt/format.h>

namespace framelane::cli {
namespace {

constexpr std::size_t kLeastRows = 6;
constexpr std::size_t kLeastColumns = 40;
constexpr std::size_t kPage = 10;
constexpr double kNearlyFull = 0.75;

// --- tables

/// A column: its heading, how wide it is, which rows say what.
template <class Row>
struct Column {
  std::string heading;
  std::size_t width;
  bool at_left;
  std::function<Span(const Row&)> cell;
};
template <class Row>
using Columns = std::vector<Column<Row>>;

std::string placed(std::string_view text, std::size_t width, bool at_left) {
  return at_left ? left(text, width) : right(text, width);
}

template <class Row>
Line heading_of(const Columns<Row>& columns) {
  std::string text;
  for (const auto& column : columns)
    text += (text.empty() ? "" : " ") + placed(column.heading, column.width, column.at_left);
  return {{text, Style::kHeading}};
}

template <class Row>
Line line_of(const Columns<Row>& columns, const Row& row) {
  Line line;
  for (const auto& column : columns) {
    if (!line.empty()) line.push_back({" ", Style::kPlain});
    Span cell = column.cell(row);
    cell.text = placed(cell.text, column.width, column.at_left);
    line.push_back(std::move(cell));
  }
  return line;
}

template <class Row>
std::size_t total_width(const Columns<Row>& columns) {
  std::size_t width = columns.empty() ? 0 : columns.size() - 1;
  for (const auto& column : columns) width += column.width;
  return width;
}

/// The columns of `wide` that still fit, in their order, behind those that are always there; the first one gets what is
/// left, up to `most_first`.
template <class Row>
Columns<Row> fitted(Columns<Row> columns, Columns<Row> wide, std::size_t room, std::size_t most_first) {
  for (auto& column : wide) {
    if (total_width(columns) + 1 + column.width <= room) columns.push_back(std::move(column));
  }
  const std::size_t used = total_width(columns);
  if (used < room) columns[0].width = std::min(most_first, columns[0].width + room - used);
  return columns;
}

Span plain(std::string text) { return {std::move(text), Style::kPlain}; }

Span when_not_zero(std::string text, std::uint64_t count, Style style) {
  return {std::move(text), count == 0 ? Style::kPlain : style};
}

Style fill_style(double fill) noexcept {
  if (fill <= 0) return Style::kDim;
  return fill >= 1 ? Style::kBad : fill >= kNearlyFull ? Style::kWarning : Style::kGood;
}

std::string unread_text(const LaneRow& row) {
  return fmt::format("{}/{}", count_text(row.sample.stats->unread), count_text(row.sample.stats->burst));
}

std::string process_text(const LaneStats& stats) { return fmt::format("{} ({})", stats.program, stats.pid); }

Columns<LaneRow> lane_columns(std::size_t room, const Glyphs& glyphs) {
  const auto latency = [glyphs](std::uint64_t measure::LatencySummary::*which) {
    return [glyphs, which](const LaneRow& row) { return plain(latency_text(row.latency.*which, glyphs)); };
  };
  const auto rate = [](double LaneRow::*which, std::string (*text)(double)) {
    return [which, text](const LaneRow& row) { return plain(row.has_rates ? text(row.*which) : "-"); };
  };
  Columns<LaneRow> always{
      {"LANE", 14, true, [](const LaneRow& row) { return plain(row.sample.name); }},
      {"FPS", 6, false, rate(&LaneRow::fps, rate_text)},
      {"MB/s", 6, false, rate(&LaneRow::bytes_per_s, megabytes_text)},
      {"UNREAD", 8, true,
       [glyphs](const LaneRow& row) {
         return Span{bar(row.fill(), 8, glyphs), fill_style(row.fill())};
       }},
      {"", 7, true, [](const LaneRow& row) { return plain(unread_text(row)); }},
      {"DROPS", 6, false,
       [](const LaneRow& row) { return when_not_zero(count_text(row.drops), row.drops, Style::kBad); }},
      {"CONS", 4, false, [](const LaneRow& row) { return plain(std::to_string(row.consumers.size())); }},
      {"P50", 6, false, latency(&measure::LatencySummary::p50_ns)},
      {"P99", 6, false, latency(&measure::LatencySummary::p99_ns)},
      {"MAX", 6, false, latency(&measure::LatencySummary::max_ns)}};
  Columns<LaneRow> wide{
      {"PRODUCER", 24, true, [](const LaneRow& row) { return plain(process_text(*row.sample.stats)); }},
      {"FORMAT", 32, true, [](const LaneRow& row) { return plain(format_text(row.sample.stats->caps)); }},
      {"DROPS/s", 7, false, rate(&LaneRow::drops_per_s, rate_text)},
      {"SLOTS", 5, false, [](const LaneRow& row) { return plain(count_text(row.sample.stats->slots)); }},
      {"SIZE", 8, false, [](const LaneRow& row) { return plain(bytes_text(row.sample.stats->slot_size)); }}};
  return fitted(std::move(always), std::move(wide), room, 40);
}

Span state_span(const ConsumerRow& row) {
  const Style style = row.info.demoted        ? Style::kBad
                      : row.state == "full"   ? Style::kWarning
                      : row.state == "sleeps" ? Style::kDim
                                              : Style::kPlain;
  return {std::string(row.state), style};
}

Columns<ConsumerRow> consumer_columns(std::size_t room, const Glyphs& glyphs) {
  const auto latency = [glyphs](std::uint64_t measure::LatencySummary::*which) {
    return [glyphs, which](const ConsumerRow& row) { return plain(latency_text(row.info.latency.*which, glyphs)); };
  };
  Columns<ConsumerRow> always{
      {"CONSUMER", 8, true, [](const ConsumerRow& row) { return plain(row.info.name); }},
      {"PID", 7, false, [](const ConsumerRow& row) { return plain(std::to_string(row.info.pid)); }},
      {"VIA", 3, true, [](const ConsumerRow& row) { return plain(std::string(to_string(row.info.transport))); }},
      {"FPS", 6, false, [](const ConsumerRow& row) { return plain(rate_text(row.fps)); }},
      {"LAG", 5, false, [](const ConsumerRow& row) { return plain(count_text(row.info.lag)); }},
      {"HELD", 5, false,
       [](const ConsumerRow& row) { return plain(fmt::format("{}/{}", row.info.held, row.info.max_held)); }},
      {"DROPS", 5, false,
       [](const ConsumerRow& row) {
         // One that wants the latest frame skips the others on purpose.
         return when_not_zero(count_text(row.info.skipped), row.info.latest ? 0 : row.info.skipped, Style::kBad);
       }},
      {"WAKE", 5, true, [](const ConsumerRow& row) { return plain(std::string(row.wake)); }},
      {"P50", 6, false, latency(&measure::LatencySummary::p50_ns)},
      {"P99", 6, false, latency(&measure::LatencySummary::p99_ns)},
      {"MAX", 6, false, latency(&measure::LatencySummary::max_ns)},
      {"STATE", 7, true, state_span}};
  Columns<ConsumerRow> wide{
      {"MODE", 6, true, [](const ConsumerRow& row) { return plain(row.info.latest ? "latest" : "every"); }},
      {"GATES", 5, true, [](const ConsumerRow& row) { return plain(row.info.gating ? "yes" : "no"); }},
      {"SLEEPS/s", 8, false, [](const ConsumerRow& row) { return plain(rate_text(row.sleeps_per_s)); }},
      {"SPINS/s", 7, false, [](const ConsumerRow& row) { return plain(rate_text(row.spins_per_s)); }},
      {"COPIED", 6, false, [](const ConsumerRow& row) { return plain(count_text(row.info.copied)); }},
      {"TAKEN", 6, false, [](const ConsumerRow& row) { return plain(count_text(row.info.taken)); }},
      {"ADDRESS", 24, true, [](const ConsumerRow& row) { return plain(row.info.address); }}};
  return fitted(std::move(always), std::move(wide), room, 32);
}

/// A lane that isn't live has words in place of numbers.
Line lane_line(const Columns<LaneRow>& columns, const LaneRow& row, std::size_t room) {
  if (row.live()) return line_of(columns, row);
  const std::size_t name = columns[0].width;
  return {{left(row.sample.name, name) + ' ', Style::kPlain},
          {left(row.sample.problem, room > name + 1 ? room - name - 1 : 0), Style::kWarning}};
}

Line cut_to(Line line, std::size_t room) {
  std::size_t used = 0;
  for (Span& span : line) {
    const std::size_t width = width_of(span.text);
    if (used + width > room) span.text = left(span.text, room - std::min(room, used));
    used += width_of(span.text);
  }
  return line;
}

Line selected_line(const Line& line, std::size_t room) { return {{left(text_of(line), room), Style::kSelected}}; }

// --- screens

struct Canvas {
  ScreenSize size;
  const Glyphs& glyphs;
  std::vector<Line> lines;

  void add(Line line) { lines.push_back(cut_to(std::move(line), size.columns)); }
  void add(std::string text, Style style = Style::kPlain) { add(Line{{std::move(text), style}}); }
  /// Rows left above the bottom line.
  [[nodiscard]] std::size_t room() const noexcept {
    return size.rows > lines.size() + 1 ? size.rows - lines.size() - 1 : 0;
  }
  /// Keys, in the last row.
  void finish(const std::string& keys) {
    while (lines.size() + 1 < size.rows) lines.emplace_back();
    lines.resize(size.rows - 1);
    add(left(keys, size.columns), Style::kDim);
  }
};

std::string plural(std::size_t count, std::string_view what) {
  return fmt::format("{} {}{}", count, what, count == 1 ? "" : "s");
}

void draw_title(Canvas& canvas, const TopView& view, std::string_view about) {
  std::size_t consumers = 0;
  for (const LaneRow& row : view.rows()) consumers += row.consumers.size();
  canvas.add({{"framelane top", Style::kHeading},
              {fmt::format("  {}, {}, by {}{}  {}", plural(view.rows().size(), "lane"), plural(consumers, "consumer"),
                           name_of(view.sort), view.reversed ? " reversed" : "", about),
               Style::kPlain}});
}

void draw_lanes(Canvas& canvas, const TopView& view, std::string_view about) {
  draw_title(canvas, view, about);
  canvas.add("");
  if (view.rows().empty()) {
    canvas.add("No lanes here. One appears as soon as its producer starts.");
    canvas.add("(One that is only served over TCP has no file here, and can't be found.)", Style::kDim);
    return;
  }
  const auto columns = lane_columns(canvas.size.columns, canvas.glyphs);
  canvas.add(heading_of(columns));
  const std::size_t rows = view.rows().size();
  const bool all = rows <= canvas.room();
  const std::size_t shown = all ? rows : std::max<std::size_t>(canvas.room(), 2) - 1;
  const std::size_t first = view.selected() < shown ? 0 : view.selected() + 1 - shown;
  for (std::size_t i = first; i < std::min(rows, first + shown); ++i) {
    Line line = lane_line(columns, view.rows()[i], canvas.size.columns);
    canvas.add(i == view.selected() ? selected_line(line, canvas.size.columns) : std::move(line));
  }
  if (!all) canvas.add(fmt::format("{} to {} of {}", first + 1, first + shown, rows), Style::kDim);
}

std::string_view policy_text(Leaky leaky) noexcept {
  switch (leaky) {
    case Leaky::kUpstream:
      return "upstream (drops new ones)";
    case Leaky::kDownstream:
      return "downstream (passes over)";
    case Leaky::kNo:
      break;
  }
  return "no (waits)";
}

void draw_facts(Canvas& canvas, const LaneRow& row) {
  const LaneStats& stats = *row.sample.stats;
  canvas.add(fmt::format("producer  {}{}", process_text(stats), stats.ended ? ", the stream has ended" : ""));
  canvas.add(fmt::format("format    {}", format_text(stats.caps)));
  canvas.add(fmt::format("served    {}", stats.descriptor));
  canvas.add(fmt::format("ring      burst {}, {} slots of {}, {} on loan, leaky={}", stats.burst, stats.slots,
                         bytes_text(stats.slot_size), stats.loans, policy_text(stats.leaky)));
  canvas.add(
      {{fmt::format("frames    {} published, {} fps, {} MB/s, unread ", count_text(stats.published),
                    row.has_rates ? rate_text(row.fps) : "-", row.has_rates ? megabytes_text(row.bytes_per_s) : "-"),
        Style::kPlain},
       {bar(row.fill(), 8, canvas.glyphs), fill_style(row.fill())},
       {' ' + unread_text(row), Style::kPlain}});
  canvas.add({{"drops     ", Style::kPlain},
              {fmt::format("{} of a full ring, {} passed over; {} waits, {} demotions, {} evictions",
                           count_text(stats.dropped_full), count_text(stats.passed_over), count_text(stats.full_waits),
                           count_text(stats.demotions), count_text(stats.evictions)),
               row.drops == 0 ? Style::kPlain : Style::kBad}});
}

void draw_consumers(Canvas& canvas, const LaneRow& row, std::size_t most) {
  if (row.consumers.empty()) return canvas.add("No consumers.", Style::kDim);
  const auto columns = consumer_columns(canvas.size.columns, canvas.glyphs);
  canvas.add(heading_of(columns));
  for (std::size_t i = 0; i < row.consumers.size(); ++i) {
    if (i + 1 == most && i + 1 < row.consumers.size())
      return canvas.add(fmt::format("and {} more", row.consumers.size() - i), Style::kDim);
    canvas.add(line_of(columns, row.consumers[i]));
  }
}

void draw_opened(Canvas& canvas, const TopView& view) {
  const LaneRow* const row = view.opened_row();
  canvas.add({{"framelane top", Style::kHeading}, {"  lane ", Style::kPlain}, {view.opened(), Style::kHeading}});
  canvas.add("");
  if (row == nullptr)
    return canvas.add("It is gone. When its producer comes back, it shows here again.", Style::kWarning);
  if (!row->live()) return canvas.add(row->sample.problem, Style::kWarning);
  draw_facts(canvas, *row);
  canvas.add("");
  draw_consumers(canvas, *row, canvas.room() > 1 ? canvas.room() - 1 : 1);
}

void draw_help(Canvas& canvas) {
  for (const char* const line : {"framelane top: the lanes of this user, on this host", "",
                                 "FPS, MB/s    what the producer published since the last look",
                                 "UNREAD       frames that the slowest gating consumer has to take, of the burst",
                                 "DROPS        frames lost: to a full ring; by a consumer, those it skipped",
                                 "P50 P99 MAX  from publish to take, of the slowest consumer, since it joined",
                                 "LAG, HELD    frames behind; slots that it reads, of those that it may hold",
                                 "WAKE         how it waited: spin, futex (sleeps in the kernel), mixed",
                                 "STATE        sleeps: waits for a frame     full: holds all it may, takes copies",
                                 "             demoted: stood still, isn't waited for until it catches up", "",
                                 "n f m u d c l  sort by name, fps, MB/s, unread, drops, consumers, latency",
                                 "r  the other way round      Up Down PgUp PgDn  select      Enter  open a lane",
                                 "Esc  back                   h  this page                   q  quit"})
    canvas.add(line);
}

}  // namespace

// --- the view

void TopView::show(std::vector<LaneRow> rows) {
  rows_ = std::move(rows);
  sort_again();
}

void TopView::sort_again() {
  sort_rows(rows_, sort, reversed);
  const auto found = std::find_if(rows_.begin(), rows_.end(),
                                  [this](const LaneRow& row) { return row.sample.name == selected_name_; });
  select(found != rows_.end() ? static_cast<std::size_t>(found - rows_.begin()) : selected_);
}

void TopView::select(std::size_t index) {
  selected_ = rows_.empty() ? 0 : std::min(index, rows_.size() - 1);
  selected_name_ = rows_.empty() ? std::string() : rows_[selected_].sample.name;
}

const LaneRow* TopView::opened_row() const noexcept {
  const auto found =
      std::find_if(rows_.begin(), rows_.end(), [this](const LaneRow& row) { return row.sample.name == opened_; });
  return found == rows_.end() ? nullptr : &*found;
}

void TopView::press(Key key) {
  if (std::exchange(help, false)) return;
  if (key == Key::kBack) return opened_.clear();
  if (!opened_.empty()) return;
  switch (key) {
    case Key::kUp:
      return select(selected_ == 0 ? 0 : selected_ - 1);
    case Key::kDown:
      return select(selected_ + 1);
    case Key::kPageUp:
      return select(selected_ < kPage ? 0 : selected_ - kPage);
    case Key::kPageDown:
      return select(selected_ + kPage);
    case Key::kHome:
      return select(0);
    case Key::kEnd:
      return select(rows_.size());
    default:
      opened_ = selected_name_;
  }
}

bool TopView::press(char letter) {
  static constexpr std::pair<char, SortKey> kSorts[] = {
      {'n', SortKey::kName},  {'f', SortKey::kFps},       {'m', SortKey::kRate},   {'u', SortKey::kUnread},
      {'d', SortKey::kDrops}, {'c', SortKey::kConsumers}, {'l', SortKey::kLatency}};
  if (letter == 'h' || letter == '?') return help = !help, true;
  if (help) return help = false, true;
  if (letter == 'j' || letter == 'k') return press(letter == 'j' ? Key::kDown : Key::kUp), true;
  if (letter == 'r') reversed = !reversed;
  const auto* const found =
      std::find_if(std::begin(kSorts), std::end(kSorts), [letter](const auto& pair) { return pair.first == letter; });
  if (found != std::end(kSorts)) sort = found->second;
  if (letter != 'r' && found == std::end(kSorts)) return false;
  sort_again();
  return true;
}

// --- drawing

std::vector<Line> draw(const TopView& view, ScreenSize size, const Glyphs& glyphs, std::string_view about) {
  Canvas canvas{size, glyphs, {}};
  if (size.rows < kLeastRows || size.columns < kLeastColumns) {
    canvas.add(fmt::format("{}x{} is too small", size.columns, size.rows));
    canvas.lines.resize(std::min<std::size_t>(canvas.lines.size(), size.rows));
    return canvas.lines;
  }
  if (view.help) {
    draw_help(canvas);
    canvas.finish("any key: back");
  } else if (!view.opened().empty()) {
    draw_opened(canvas, view);
    canvas.finish("q quit  Esc back  h help");
  } else {
    draw_lanes(canvas, view, about);
    canvas.finish("q quit  Up/Down select  Enter open  sort: n f m u d c l  r reverse  h help");
  }
  return canvas.lines;
}

std::vector<Line> draw_all(const std::vector<LaneRow>& rows, std::size_t columns, const Glyphs& glyphs) {
  Canvas canvas{{0, columns}, glyphs, {}};
  if (rows.empty()) {
    canvas.add("no lanes");
    return canvas.lines;
  }
  const auto lanes = lane_columns(columns, glyphs);
  canvas.add(heading_of(lanes));
  for (const LaneRow& row : rows) canvas.add(lane_line(lanes, row, columns));
  for (const LaneRow& row : rows) {
    if (row.consumers.empty()) continue;
    canvas.add("");
    canvas.add("lane " + row.sample.name, Style::kHeading);
    draw_consumers(canvas, row, row.consumers.size() + 1);
  }
  return canvas.lines;
}

std::vector<Line> draw_one(const LaneRow& row, std::size_t columns, const Glyphs& glyphs) {
  Canvas canvas{{0, columns}, glyphs, {}};
  canvas.add("lane      " + row.sample.name, Style::kHeading);
  draw_facts(canvas, row);
  canvas.add("");
  draw_consumers(canvas, row, row.consumers.size() + 1);
  return canvas.lines;
}

std::string text_of(const Line& line) {
  std::string text;
  for (const Span& span : line) text += span.text;
  return text.erase(text.find_last_not_of(' ') + 1);
}

}  // namespace framelane::cli
