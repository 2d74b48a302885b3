// SPDX-License-Identifier: MIT
// The full screen of `framelane top`: puts lines on a terminal and reads keys. What the lines say is in top_screen.cpp.
#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <utility>

#include <curses.h>
#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include "base/clock.hpp"
#include "cli/child_process.hpp"
#include "cli/command.hpp"
#include "cli/top_terminal.hpp"

namespace framelane::cli {
namespace {

constexpr int kEscapeDelayMs = 25;
constexpr int kEscape = 27;
constexpr int kCtrlL = 'L' - '@';

/// The terminal in full screen while it lives.
class Screen {
 public:
  Screen() : screen_(newterm(nullptr, stdout, stdin)) {
    if (screen_ != nullptr && !moves_the_cursor()) leave();
    if (screen_ == nullptr) return;
    cbreak();
    noecho();
    nonl();
    keypad(stdscr, TRUE);
    nodelay(stdscr, TRUE);
    set_escdelay(kEscapeDelayMs);
    curs_set(0);
    // $NO_COLOR, as https://no-color.org has it.
    const char* const no_color = std::getenv("NO_COLOR");
    colours_ = (no_color == nullptr || *no_color == 0) && has_colors() && start_color() == OK;
    if (!colours_) return;
    use_default_colors();
    init_pair(1, COLOR_GREEN, -1);
    init_pair(2, COLOR_YELLOW, -1);
    init_pair(3, COLOR_RED, -1);
  }
  ~Screen() {
    if (screen_ != nullptr) leave();
  }
  Screen(const Screen&) = delete;
  Screen& operator=(const Screen&) = delete;

  [[nodiscard]] bool ready() const noexcept { return screen_ != nullptr; }
  [[nodiscard]] static ScreenSize size() noexcept {
    return {static_cast<std::size_t>(std::max(getmaxy(stdscr), 0)),
            static_cast<std::size_t>(std::max(getmaxx(stdscr), 0))};
  }

  void show(const std::vector<Line>& lines) const {
    erase();
    int row = 0;
    for (const Line& line : lines) {
      move(row++, 0);
      for (const Span& span : line) {
        const attr_t look = look_of(span.style);
        attron(look);
        addstr(span.text.c_str());
        attroff(look);
      }
    }
    refresh();
  }

 private:
  /// A terminal that can't ("dumb") would get every line over the last one.
  [[nodiscard]] static bool moves_the_cursor() noexcept {
    const char* const how = tigetstr("cup");
    return how != nullptr && reinterpret_cast<std::intptr_t>(how) != -1;  // -1: no name of a text
  }
  void leave() noexcept {
    endwin();
    delscreen(screen_);
    screen_ = nullptr;
  }
  [[nodiscard]] attr_t look_of(Style style) const noexcept {
    switch (style) {
      case Style::kHeading:
        return A_BOLD;
      case Style::kSelected:
        return A_REVERSE;
      case Style::kDim:
        return A_DIM;
      case Style::kGood:
        return colours_ ? COLOR_PAIR(1) : A_NORMAL;
      case Style::kWarning:
        return colours_ ? COLOR_PAIR(2) : A_BOLD;
      case Style::kBad:
        return colours_ ? COLOR_PAIR(3) | A_BOLD : A_BOLD;
      case Style::kPlain:
        break;
    }
    return A_NORMAL;
  }

  SCREEN* screen_;
  bool colours_ = false;
};

std::optional<TopView::Key> key_of(int code) noexcept {
  using Key = TopView::Key;
  static constexpr std::pair<int, Key> kKeys[] = {
      {KEY_UP, Key::kUp},     {KEY_DOWN, Key::kDown},  {KEY_PPAGE, Key::kPageUp}, {KEY_NPAGE, Key::kPageDown},
      {KEY_HOME, Key::kHome}, {KEY_END, Key::kEnd},    {KEY_ENTER, Key::kOpen},   {'\r', Key::kOpen},
      {'\n', Key::kOpen},     {KEY_RIGHT, Key::kOpen}, {KEY_LEFT, Key::kBack},    {KEY_BACKSPACE, Key::kBack},
      {kEscape, Key::kBack},  {127, Key::kBack},       {'\b', Key::kBack}};
  const auto* const found =
      std::find_if(std::begin(kKeys), std::end(kKeys), [code](const auto& pair) { return pair.first == code; });
  return found == std::end(kKeys) ? std::nullopt : std::optional(found->second);
}

/// Takes all keys that were pressed; Ctrl-L draws all anew. False: quit.
bool read_keys(TopView& view) {
  for (int code = getch(); code != ERR; code = getch()) {
    if (code == 'q' || code == 'Q') return false;
    if (code == kCtrlL) {
      clearok(curscr, TRUE);
    } else if (const auto key = key_of(code)) {
      view.press(*key);
    } else if (code > ' ' && code < 127) {
      static_cast<void>(view.press(static_cast<char>(code)));
    }
  }
  return true;
}

/// Waits for a key, a signal, or until it is time to look again. False: standard input is gone.
bool wait_for_something(int signals, std::int64_t until_ns) {
  const std::int64_t left = std::max<std::int64_t>(until_ns - base::monotonic_ns(), 0);
  pollfd fds[] = {{STDIN_FILENO, POLLIN, 0}, {signals, POLLIN, 0}};
  // A resize ends it, too: its signal is ncurses' own, and getch() then says KEY_RESIZE.
  const int ready = poll(fds, 2, static_cast<int>(left / 1'000'000 + 1));
  return ready <= 0 || (fds[0].revents & (POLLHUP | POLLERR | POLLNVAL)) == 0;
}

}  // namespace

int run_full_screen(TopView& view, std::chrono::milliseconds interval, const LookAgain& look,
                    const std::string& about) {
  TerminationSignals signals;
  std::string problem;
  {
    const Screen screen;
    if (!screen.ready()) {
      const char* const term = std::getenv("TERM");
      fmt::print(stderr, "framelane top: the terminal \"{}\" ($TERM) can't show a full screen; use --once\n",
                 term != nullptr ? term : "");
      return kFailed;
    }
    const Glyphs glyphs = Glyphs::of_locale();
    std::int64_t next_look = 0;
    while (problem.empty()) {
      if (signals.came()) return kInterrupted;
      if (base::monotonic_ns() >= next_look) {
        next_look = base::deadline_after(interval);
        auto rows = look();
        if (rows) view.show(std::move(*rows));
        if (!rows) problem = rows.error().text;
      }
      if (!read_keys(view)) return kOk;
      screen.show(draw(view, Screen::size(), glyphs, about));
      if (wait_for_something(signals.fd(), next_look)) continue;
      static_cast<void>(
          signals.came());  // the SIGHUP that goes with it must not end us before the terminal is restored
      return kInterrupted;
    }
  }
  fmt::print(stderr, "framelane top: {}\n", problem);
  return kFailed;
}

}  // namespace framelane::cli
