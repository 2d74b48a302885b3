// SPDX-License-Identifier: MIT
// What `framelane ls` and `top` make of statistics: rates, order, lines and keys, without a terminal.
#include <limits>

#include <gtest/gtest.h>

#include "cli/lane_json.hpp"
#include "cli/lane_rows.hpp"
#include "cli/lane_text.hpp"
#include "cli/top_screen.hpp"

namespace framelane::cli {
namespace {

constexpr std::int64_t kSecond = 1'000'000'000;
constexpr auto kMost = std::numeric_limits<std::uint64_t>::max();

ConsumerInfo consumer(std::uint32_t id = 1) {
  ConsumerInfo info;
  info.id = id;
  info.pid = 4321;
  info.name = "viewer";
  info.gating = true;
  info.max_held = 4;
  return info;
}

LaneStats lane_stats() {
  LaneStats stats;
  stats.at_ns = 100 * kSecond;
  stats.pid = 1234;
  stats.program = "camera";
  stats.lane = "cam0";
  stats.descriptor = "lane.shm:///run/cam0,lane.uds:///run/cam0,lane.tcp://127.0.0.1:7411/cam0";
  stats.caps = "video/x-raw, format=(string)RGB, width=(int)1920, height=(int)1080, framerate=(fraction)30/1";
  stats.burst = 8;
  stats.slots = 40;
  stats.slot_size = 6'220'800;
  return stats;
}

LaneSample sample(const std::string& name, LaneStats stats = lane_stats()) {
  return {name, "/run/" + name, LaneSample::State::kLive, {}, std::move(stats)};
}

LaneSample dead(const std::string& name) {
  return {name, "/run/" + name, LaneSample::State::kStale, "stale: its producer is gone", {}};
}

// --- rates

TEST(LaneRows, RatesAreDifferencesOverTheProducersOwnTime) {
  LaneStats before = lane_stats();
  before.published = 1000;
  before.bytes = 1'000'000;
  before.dropped_full = 5;
  before.consumers = {consumer()};
  before.consumers[0].taken = 900;
  before.consumers[0].sleeps = 100;
  LaneStats now = before;
  now.at_ns += 2 * kSecond;
  now.published += 60;
  now.bytes += 12'000'000;
  now.dropped_full += 2;
  now.passed_over += 2;
  now.consumers[0].taken += 50;
  now.consumers[0].sleeps += 45;
  now.consumers[0].spins += 5;
  const LaneRow row = row_of(sample("cam0", now), &before);
  EXPECT_TRUE(row.has_rates);
  EXPECT_DOUBLE_EQ(row.fps, 30);
  EXPECT_DOUBLE_EQ(row.bytes_per_s, 6e6);
  EXPECT_DOUBLE_EQ(row.drops_per_s, 2);
  EXPECT_EQ(row.drops, 9u);
  ASSERT_EQ(row.consumers.size(), 1u);
  EXPECT_DOUBLE_EQ(row.consumers[0].fps, 25);
  EXPECT_EQ(row.consumers[0].wake, "futex");
}

TEST(LaneRows, NoRatesAcrossProducersOrBackInTime) {
  LaneStats before = lane_stats();
  before.published = 1000;
  LaneStats now = lane_stats();
  now.published = 2000;
  EXPECT_FALSE(row_of(sample("cam0", now), &before).has_rates) << "no time has passed";
  now.at_ns += kSecond;
  EXPECT_TRUE(row_of(sample("cam0", now), &before).has_rates);
  now.instance_id[3] = 1;
  EXPECT_FALSE(row_of(sample("cam0", now), &before).has_rates) << "another producer";
  EXPECT_FALSE(row_of(sample("cam0", now), nullptr).has_rates);
}

TEST(LaneRows, CountsThatRunBackwardsAreNoRates) {
  LaneStats before = lane_stats();
  before.published = kMost;
  LaneStats now = lane_stats();
  now.at_ns += kSecond;
  EXPECT_DOUBLE_EQ(row_of(sample("cam0", now), &before).fps, 0);
}

TEST(LaneRows, AConsumerWithTheIdOfAnotherOneOnlyIsNew) {
  LaneStats before = lane_stats();
  before.consumers = {consumer(1)};
  LaneStats now = before;
  now.at_ns += kSecond;
  now.consumers = {consumer(2)};
  now.consumers[0].taken = 500;
  EXPECT_DOUBLE_EQ(row_of(sample("cam0", now), &before).consumers[0].fps, 0);
}

TEST(LaneRows, StatesAndWakesInWords) {
  LaneStats stats = lane_stats();
  stats.consumers.assign(5, consumer());
  stats.consumers[1].sleeping = true;
  stats.consumers[1].sleeps = 10;
  stats.consumers[2].held = 4;
  stats.consumers[2].spins = 10;
  stats.consumers[3].demoted = true;
  stats.consumers[3].spins = stats.consumers[3].sleeps = 10;
  stats.consumers[4].max_held = 0;
  const LaneRow row = row_of(sample("cam0", stats), nullptr);
  std::string words;
  for (const ConsumerRow& each : row.consumers) words += std::string(each.state) + ' ' + std::string(each.wake) + ' ';
  EXPECT_EQ(words, "ok - sleeps futex full spin demoted mixed ok - ");
}

TEST(LaneRows, TheSlowestConsumersLatencyIsTheLanes) {
  LaneStats stats = lane_stats();
  stats.consumers.assign(3, consumer());
  stats.consumers[0].latency.p99_ns = 10;
  stats.consumers[1].latency.p99_ns = 3000;
  stats.consumers[1].latency.p50_ns = 7;
  EXPECT_EQ(row_of(sample("cam0", stats), nullptr).latency.p50_ns, 7u);
}

TEST(LaneRows, HistoryFollowsALaneByItsPath) {
  LaneHistory history;
  LaneStats stats = lane_stats();
  EXPECT_FALSE(history.rows_of({sample("cam0", stats)})[0].has_rates);
  stats.at_ns += kSecond;
  stats.published = 25;
  EXPECT_DOUBLE_EQ(history.rows_of({sample("cam0", stats)})[0].fps, 25);
  EXPECT_FALSE(history.rows_of({dead("cam0")})[0].live());
  stats.at_ns += kSecond;
  EXPECT_FALSE(history.rows_of({sample("cam0", stats)})[0].has_rates) << "it was gone between";
}

// --- order

std::string order(std::vector<LaneRow> rows, SortKey key, bool reversed = false) {
  sort_rows(rows, key, reversed);
  std::string names;
  for (const LaneRow& row : rows) names += row.sample.name;
  return names;
}

TEST(LaneRows, AreSortedByEachKeyAndDeadOnesComeLast) {
  std::vector<LaneRow> rows;
  for (const char* const name : {"c", "a", "b"}) rows.push_back(row_of(sample(name), nullptr));
  rows.push_back(row_of(dead("0"), nullptr));
  rows[0].fps = 3;
  rows[1].bytes_per_s = 4;
  rows[2].sample.stats->unread = 5;
  rows[0].drops = 9;
  rows[1].consumers.resize(2);
  rows[2].latency.p99_ns = 8;
  EXPECT_EQ(order(rows, SortKey::kName), "abc0");
  EXPECT_EQ(order(rows, SortKey::kName, true), "cba0");
  EXPECT_EQ(order(rows, SortKey::kFps), "cab0");
  EXPECT_EQ(order(rows, SortKey::kFps, true), "abc0");
  EXPECT_EQ(order(rows, SortKey::kRate), "abc0");
  EXPECT_EQ(order(rows, SortKey::kUnread), "bac0");
  EXPECT_EQ(order(rows, SortKey::kDrops), "cab0");
  EXPECT_EQ(order(rows, SortKey::kConsumers), "abc0");
  EXPECT_EQ(order(rows, SortKey::kLatency), "bac0");
}

TEST(LaneRows, NumbersInNamesCountAsNumbers) {
  std::vector<LaneRow> rows;
  for (const char* const name : {"cam10-", "cam2-", "cam02-", "cam-", "cam1b10-", "cam1b9-", "10-", "9-", "dog1-"})
    rows.push_back(row_of(dead(name), nullptr));
  EXPECT_EQ(order(rows, SortKey::kName), "9-10-cam-cam1b9-cam1b10-cam02-cam2-cam10-dog1-");
  EXPECT_EQ(order(rows, SortKey::kName, true), "dog1-cam10-cam2-cam02-cam1b10-cam1b9-cam-10-9-");
  EXPECT_EQ(order(rows, SortKey::kFps), order(rows, SortKey::kName));
  EXPECT_TRUE(name_before("cam99999999999999999998", "cam99999999999999999999")) << "beyond 64 bits";
  EXPECT_TRUE(name_before("cam1", "cam1b"));
  EXPECT_FALSE(name_before("cam1", "cam1"));
}

// --- texts

TEST(LaneText, FitsItsColumnsWhateverTheNumber) {
  for (const std::uint64_t number : {std::uint64_t{0}, std::uint64_t{7}, std::uint64_t{99'999}, std::uint64_t{100'000},
                                     std::uint64_t{999'500}, std::uint64_t{12'345'678}, kMost}) {
    EXPECT_LE(width_of(count_text(number)), 5u) << number;
    EXPECT_LE(width_of(rate_text(static_cast<double>(number))), 5u) << number;
    EXPECT_LE(width_of(megabytes_text(static_cast<double>(number))), 6u) << number;
    EXPECT_LE(width_of(latency_text(number, {true})), 6u) << number;
    EXPECT_LE(width_of(latency_text(number, {false})), 6u) << number;
  }
}

TEST(LaneText, NumbersReadWell) {
  EXPECT_EQ(count_text(99'999), "99999");
  EXPECT_EQ(count_text(1'234'567), "1.23M");
  EXPECT_EQ(rate_text(29.97), "29.97");
  EXPECT_EQ(rate_text(1234.4), "1234");
  EXPECT_EQ(megabytes_text(186.6e6), "186.6");
  EXPECT_EQ(bytes_text(3'110'400), "3.11 MB");
  EXPECT_EQ(bytes_text(32), "32 B");
  EXPECT_EQ(latency_text(340, {true}), "340ns");
  EXPECT_EQ(latency_text(1234, {true}), "1.23µs");
  EXPECT_EQ(latency_text(12'345'678, {false}), "12.3ms");
  EXPECT_EQ(latency_text(1234, {false}), "1.23us");
  EXPECT_EQ(latency_text(0, {true}), "-");
}

TEST(LaneText, CutsAndFillsByColumns) {
  EXPECT_EQ(left("ab", 4), "ab  ");
  EXPECT_EQ(right("ab", 4), "  ab");
  EXPECT_EQ(left("abcdef", 4), "abc~");
  EXPECT_EQ(right("µs", 3), " µs");
  EXPECT_EQ(left("µµµµ", 3), "µµ~");
  EXPECT_EQ(left("abc", 0), "");
}

TEST(LaneText, BarsShowWhatIsThere) {
  EXPECT_EQ(bar(0, 4, {false}), "....");
  EXPECT_EQ(bar(0.01, 4, {false}), "#...");
  EXPECT_EQ(bar(0.5, 4, {false}), "##..");
  EXPECT_EQ(bar(17, 4, {false}), "####");
  EXPECT_EQ(width_of(bar(0.5, 8, {true})), 8u);
}

TEST(LaneText, FormatsInShort) {
  EXPECT_EQ(format_text(lane_stats().caps), "RGB 1920x1080 30/1");
  EXPECT_EQ(format_text("audio/x-raw, format=S16LE, rate=48000, channels=2, layout=interleaved"),
            "S16LE 48000 Hz 2 ch");
  EXPECT_EQ(format_text(""), "-");
  EXPECT_EQ(format_text("no caps at all ("), "no caps at all (");
  EXPECT_EQ(transports_text(lane_stats().descriptor), "shm uds tcp");
  EXPECT_EQ(transports_text("rubbish://"), "?");
}

// --- the screen

std::string screen_text(const TopView& view, ScreenSize size, Glyphs glyphs = {true}) {
  std::string text;
  const auto lines = draw(view, size, glyphs, "every 1 s, /run");
  EXPECT_LE(lines.size(), size.rows);
  for (const Line& line : lines) {
    EXPECT_LE(width_of(text_of(line)), size.columns) << text_of(line);
    text += text_of(line) + '\n';
  }
  return text;
}

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

std::vector<LaneRow> many(std::size_t count) {
  std::vector<LaneRow> rows;
  for (std::size_t i = 0; i < count; ++i) {
    std::string name = "lane";
    name += static_cast<char>('0' + i / 10);
    name += static_cast<char>('0' + i % 10);
    LaneStats stats = lane_stats();
    stats.consumers.assign(i % 33, consumer());
    rows.push_back(row_of(sample(name, stats), nullptr));
  }
  return rows;
}

TEST(TopScreen, FitsAnySize) {
  TopView view;
  for (const std::size_t lanes : {std::size_t{0}, std::size_t{1}, std::size_t{40}}) {
    view.show(many(lanes));
    for (const std::size_t columns : {1, 39, 40, 79, 80, 120, 200, 500}) {
      for (const std::size_t rows : {1, 5, 6, 10, 24, 50}) {
        for (const bool utf8 : {true, false}) {
          const ScreenSize size{rows, columns};
          static_cast<void>(screen_text(view, size, {utf8}));
          view.press(TopView::Key::kEnd);
          view.press(TopView::Key::kOpen);
          static_cast<void>(screen_text(view, size, {utf8}));
          view.press('h');
          static_cast<void>(screen_text(view, size, {utf8}));
          view.press('h');
          view.press(TopView::Key::kBack);
        }
      }
    }
  }
}

TEST(TopScreen, ShowsAllColumnsAt80) {
  LaneStats stats = lane_stats();
  stats.consumers = {consumer()};
  TopView view;
  view.show({row_of(sample("cam0", stats), nullptr)});
  const std::string lanes = screen_text(view, {24, 80});
  for (const char* const word : {"LANE", "FPS", "MB/s", "UNREAD", "DROPS", "CONS", "P50", "P99", "MAX", "cam0", "0/8"})
    EXPECT_TRUE(has(lanes, word)) << word << '\n' << lanes;
  view.press(TopView::Key::kOpen);
  const std::string opened = screen_text(view, {24, 80});
  for (const char* const word : {"CONSUMER", "VIA", "LAG", "HELD", "DROPS", "WAKE", "P50", "P99", "MAX", "STATE",
                                 "viewer", "4321", "0/4", "camera (1234)", "RGB 1920x1080"})
    EXPECT_TRUE(has(opened, word)) << word << '\n' << opened;
  EXPECT_TRUE(has(screen_text(view, {50, 200}), "ADDRESS"));
}

TEST(TopScreen, WithoutUtf8EverythingIsAscii) {
  TopView view;
  view.show(many(3));
  for (const char c : screen_text(view, {24, 200}, {false})) EXPECT_TRUE(c == '\n' || (c >= ' ' && c <= '~'));
}

TEST(TopScreen, TheSelectedLaneStaysInSight) {
  TopView view;
  view.show(many(40));
  EXPECT_TRUE(has(screen_text(view, {24, 80}), "1 to 19 of 40"));
  view.press(TopView::Key::kEnd);
  EXPECT_TRUE(has(screen_text(view, {24, 80}), "lane39"));
  view.press(TopView::Key::kHome);
  EXPECT_TRUE(has(screen_text(view, {24, 80}), "lane00"));
  for (int i = 0; i < 25; ++i) view.press('j');
  EXPECT_EQ(view.selected(), 25u);
  EXPECT_TRUE(has(screen_text(view, {24, 80}), "lane25"));
}

TEST(TopScreen, TheSelectionFollowsItsLane) {
  TopView view;
  view.show(many(5));
  view.press(TopView::Key::kDown);
  view.press(TopView::Key::kDown);
  EXPECT_EQ(view.rows()[view.selected()].sample.name, "lane02");
  view.press('r');
  EXPECT_EQ(view.rows()[view.selected()].sample.name, "lane02");
  view.press('c');
  EXPECT_EQ(view.sort, SortKey::kConsumers);
  EXPECT_EQ(view.rows()[view.selected()].sample.name, "lane02");
  view.show(many(1));
  EXPECT_EQ(view.selected(), 0u);
  view.show({});
  view.press(TopView::Key::kDown);
  view.press(TopView::Key::kOpen);
  EXPECT_TRUE(has(screen_text(view, {24, 80}), "No lanes here"));
}

TEST(TopScreen, AnOpenedLaneThatDiesSaysSo) {
  TopView view;
  view.show(many(2));
  view.press(TopView::Key::kOpen);
  EXPECT_EQ(view.opened(), "lane00");
  view.show({row_of(dead("lane00"), nullptr)});
  EXPECT_TRUE(has(screen_text(view, {24, 80}), "its producer is gone"));
  view.show({});
  EXPECT_TRUE(has(screen_text(view, {24, 80}), "It is gone"));
  view.show(many(2));
  EXPECT_TRUE(has(screen_text(view, {24, 80}), "camera (1234)")) << "it came back";
}

TEST(TopScreen, KeysWithoutAMeaningChangeNothing) {
  TopView view;
  view.show(many(2));
  const std::string before = screen_text(view, {24, 80});
  for (const char c : {'x', 'z', '1', '%'}) EXPECT_FALSE(view.press(c));
  EXPECT_EQ(screen_text(view, {24, 80}), before);
}

TEST(TopScreen, AsTextEveryConsumerIsThere) {
  LaneStats stats = lane_stats();
  stats.consumers.assign(32, consumer());
  const auto lines = draw_all({row_of(sample("cam0", stats), nullptr), row_of(dead("old"), nullptr)}, 120, {true});
  std::string text;
  for (const Line& line : lines) text += text_of(line) + '\n';
  EXPECT_TRUE(has(text, "old            stale") || has(text, "stale: its producer is gone")) << text;
  std::size_t viewers = 0;
  for (std::size_t at = text.find("viewer"); at != std::string::npos; at = text.find("viewer", at + 1)) ++viewers;
  EXPECT_EQ(viewers, 32u);
}

// --- JSON

TEST(LaneJson, SaysWhatIsKnownAndNullForTheRest) {
  LaneStats stats = lane_stats();
  stats.consumers = {consumer()};
  const auto json = lane_json(row_of(sample("cam0", stats), nullptr));
  EXPECT_EQ(json["name"], "cam0");
  EXPECT_EQ(json["state"], "live");
  EXPECT_TRUE(json["fps"].is_null());
  EXPECT_EQ(json["consumers"][0]["name"], "viewer");
  EXPECT_EQ(json["producer"]["pid"], 1234);
  const auto gone = lane_json(row_of(dead("old"), nullptr));
  EXPECT_EQ(gone["state"], "stale");
  EXPECT_EQ(gone.size(), 4u);
}

}  // namespace
}  // namespace framelane::cli
