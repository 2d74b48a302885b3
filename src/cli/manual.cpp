// SPDX-License-Identifier: MIT
#include <cstdint>

#include <fmt/format.h>

#include "cli/command.hpp"
#include "cli/command_tree.hpp"

namespace framelane::cli {
namespace {

constexpr const char* kAbout = R"(.SH DESCRIPTION
A lane is a named stream of frames: one producer, up to 32 consumers. On one machine its frames are written once, into
shared memory, and read where they lie; else they travel over Unix domain sockets or TCP. This command sends files into
lanes and receives them, measures, and says what a machine lacks. A lane is named by a bare name
.RB ( cam0 )
or by a descriptor that says how to reach it
.RB ( lane.tcp://192.0.2.7:7411/cam0 ).
)";

constexpr const char* kEnvironment = R"(.SH ENVIRONMENT
.TP
.B FRAMELANE_DIR
The directory of lanes with bare names, an absolute path.
.TP
.B XDG_RUNTIME_DIR
Without the former, they are in its directory
.BR framelane ;
without both in /tmp/framelane\-UID.
.TP
.B XDG_CACHE_HOME
Where the figures of bench transports are kept.
.SH SEE ALSO
.BR gst\-launch\-1.0 (1),
.BR ffmpeg (1)
)";

// The next code point of UTF-8; a broken byte counts as itself.
std::uint32_t next_point(const std::string& text, std::size_t& at) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(i < text.size() ? text[i] : 0); };
  const unsigned char first = byte(at);
  const std::size_t more = first >= 0xf0 ? 3 : first >= 0xe0 ? 2 : first >= 0xc0 ? 1 : 0;
  std::uint32_t point = more == 0 ? first : first & (0x3fu >> more);
  for (std::size_t i = 1; i <= more; ++i) point = point << 6 | (byte(at + i) & 0x3fu);
  at += more + 1;
  return point;
}

// Text that roff prints as it is.
std::string plain(const std::string& text) {
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    const std::uint32_t point = next_point(text, at);
    const bool line_start = out.empty() || out.back() == '\n';
    if (point == '\\') {
      out += "\\e";
    } else if (point == '-') {
      out += "\\-";
    } else if (line_start && (point == '.' || point == '\'')) {
      out += fmt::format("\\&{}", static_cast<char>(point));
    } else if (point >= 0x80) {
      out += fmt::format("\\[u{:04X}]", point);
    } else {
      out += static_cast<char>(point);
    }
  }
  return out;
}

std::string italic(const std::string& text) { return "\\fI" + plain(text) + "\\fR"; }

std::string synopsis(const CommandText& command) {
  std::string text = "\\fB" + plain(command.path) + "\\fR [" + italic("OPTION") + "]...";
  if (!command.commands.empty()) text += " " + italic("SUBCOMMAND");
  for (const OptionText& option : command.options) {
    if (!option.positional) continue;
    text += option.required ? " " + italic(option.names.front()) : " [" + italic(option.names.front()) + "]";
  }
  return text;
}

std::string options(const CommandText& command) {
  std::string text;
  for (const OptionText& option : command.options) {
    std::string names;
    for (const std::string& name : option.names) {
      names += (names.empty() ? "" : ", ") + (option.positional ? italic(name) : "\\fB" + plain(name) + "\\fR");
    }
    const std::string value = option.value.empty() || option.positional ? "" : " " + italic(option.value);
    text += ".TP\n" + names + value + "\n" + plain(option.description) + "\n";
  }
  return text;
}

// The help's lines as they stand: they are set by hand.
std::string verbatim(const std::string& text) { return text.empty() ? "" : ".PP\n.nf\n" + plain(text) + "\n.fi\n"; }

void add_command(std::string& page, const CommandText& command) {
  page += ".SS " + synopsis(command) + "\n" + plain(command.description) + ".\n" + options(command) +
          verbatim(command.footer);
  for (const CommandText& below : command.commands) add_command(page, below);
}

}  // namespace

std::string manual_page(const CommandText& command) {
  std::string page = ".TH FRAMELANE 1 \"\" \"framelane " FRAMELANE_VERSION "\" \"Framelane\"\n";
  page += ".SH NAME\nframelane \\- frames of video, audio and tensors between processes\n";
  page += ".SH SYNOPSIS\n" + synopsis(command) + "\n" + kAbout;
  page += ".SH OPTIONS\n" + options(command) + ".SH SUBCOMMANDS\n";
  for (const CommandText& below : command.commands) add_command(page, below);
  return page + ".SH EXIT STATUS\n" + verbatim(kExitCodes) + kEnvironment;
}

}  // namespace framelane::cli
