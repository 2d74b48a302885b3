// SPDX-License-Identifier: MIT
// `framelane recv`: frames out of a lane into a file or a pipe, written from where they lie.
#include <algorithm>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <poll.h>
#include <unistd.h>

#include "framelane/format/plane_layout.hpp"
#include "framelane/lane/consumer.hpp"

#include "base/clock.hpp"
#include "base/text.hpp"
#include "cli/command.hpp"
#include "cli/frame_file.hpp"
#include "cli/interruption.hpp"
#include "cli/lane_options.hpp"
#include "cli/lane_text.hpp"
#include "cli/progress.hpp"

namespace framelane::cli {
namespace {

constexpr const char* kFooter =
    "FILE is a path, or - for standard output, which it is when none is given. Its\n"
    "format follows from its name (.y4m, .wav, .npy), else it is raw: the frames'\n"
    "bytes as they are. Y4M holds raw video (padded rows are packed), WAV audio, NPY\n"
    "tensors: one array with a first axis that counts the frames; to a pipe that\n"
    "needs --frames, since its header comes first.\n"
    "\n"
    "Ends with the stream, after --frames, or on Ctrl-C, always with a whole file.\n"
    "When the producer goes without an end, the file is whole up to there and the\n"
    "exit code is 1. When whoever reads the output closes it, 141. --json writes to\n"
    "standard output, and to standard error when the frames go there.\n"
    "\n"
    "Examples:\n"
    "  framelane recv cam0 video.y4m --frames 300\n"
    "  framelane recv cam0 --format y4m | ffplay -\n"
    "  framelane recv feat mel.npy --timeout 5 --json\n"
    "  framelane recv cam0 picture-%04d.raw --split --mode latest";

constexpr auto kLookEvery = std::chrono::milliseconds(250);  // whether somebody still reads the output

const std::map<std::string, Mode> kModes{{"every", Mode::kEvery}, {"latest", Mode::kLatest}};

struct Options {
  ConsumerSettings settings;
  std::string file = "-";
  std::optional<FileFormat> format;
  std::uint64_t frames = 0;  // 0: until the end
  std::chrono::nanoseconds timeout = kForever;
  bool no_gating = false;
  bool split = false;
  bool quiet = false;
  bool json = false;
};

/// A name with one %d, or %0Nd, in it.
struct Pattern {
  std::string before;
  std::size_t digits = 0;
  std::string after;

  [[nodiscard]] static std::optional<Pattern> parse(const std::string& text) {
    const std::size_t start = text.find('%');
    if (start == std::string::npos) return std::nullopt;
    const std::size_t end = text.find('d', start);
    if (end == std::string::npos || text.find('%', end) != std::string::npos) return std::nullopt;
    const std::string digits = text.substr(start + 1, end - start - 1);
    const auto count = digits.empty() ? std::optional<std::uint64_t>(0) : parse_number(digits, 18);
    if (!count || (!digits.empty() && digits.front() != '0')) return std::nullopt;
    return Pattern{text.substr(0, start), static_cast<std::size_t>(*count), text.substr(end + 1)};
  }
  [[nodiscard]] std::string name(std::uint64_t number) const {
    return before + fmt::format("{:0{}}", number, digits) + after;
  }
};

class Receiving {
 public:
  explicit Receiving(const Options& options) : options_(options), progress_(options.quiet || options.json) {}
  ~Receiving() { interruption_.on_interrupt({}); }
  Receiving(const Receiving&) = delete;
  Receiving& operator=(const Receiving&) = delete;

  int run() {
    if (const int code = open(); code != kOk) return code;
    int code = receive_all();
    code = finish(code);
    summarize(code);
    return code;
  }

 private:
  int open();
  int receive_all();
  int take_item(Item item);
  int take_event(const format::Event& event);
  int set_layout(format::PlaneLayout layout);
  int write(const Frame& frame);
  int open_file();
  int close_file();
  int no_more(const Error& error);
  int finish(int code);
  void summarize(int code);
  int failed(const std::string& text, int code);
  int failed_to_write(const Error& error);
  [[nodiscard]] bool done() const { return options_.frames != 0 && moved_.frames >= options_.frames; }
  [[nodiscard]] bool output_closed() const;

  const Options& options_;
  Interruption interruption_;
  Progress progress_;
  FileFormat format_ = FileFormat::kRaw;
  std::optional<Pattern> pattern_;
  std::optional<Consumer> consumer_;
  std::unique_ptr<FrameWriter> writer_;
  std::string caps_;  // of the file that is open
  format::PlaneLayout layout_;
  std::string end_ = "frames";
  Moved moved_;
};

int Receiving::failed(const std::string& text, int code) {
  progress_.clear();
  if (code == kInterrupted) {
    end_ = "interrupted";
  } else {
    end_ = code == kOutputClosed ? "output-closed" : "failed";
    fmt::print(stderr, "framelane recv: {}\n", text);
  }
  return code;
}

int Receiving::failed_to_write(const Error& error) {
  if (error.code == Code::kPeerLost) return failed(error.text, kOutputClosed);
  return failed(error.text, error.code == Code::kInterrupted ? kInterrupted : kFailed);
}

int Receiving::open() {
  if (options_.split) {
    pattern_ = Pattern::parse(options_.file);
    if (!pattern_) return failed("--split needs a FILE with one %d (or %04d) in it, where the numbers go", kUsage);
  }
  format_ = options_.format.value_or(format_of_name(options_.file).value_or(FileFormat::kRaw));
  if (options_.file == "-" && isatty(STDOUT_FILENO) != 0) {
    return failed("standard output is a terminal: name a FILE, or a program that reads frames (| ...)", kUsage);
  }
  if (const auto key = check_key_file(options_.settings.psk_file); !key) return failed(key.error().text, kFailed);
  auto consumer = Consumer::open(options_.settings);
  if (!consumer)
    return failed(consumer.error().text, consumer.error().code == Code::kInvalidArgument ? kUsage : kFailed);
  consumer_.emplace(std::move(*consumer));
  interruption_.on_interrupt([this] { consumer_->interrupt(); });
  progress_.say(fmt::format("{}: waiting for frames", consumer_->descriptor()));
  return kOk;
}

bool Receiving::output_closed() const {
  pollfd output{STDOUT_FILENO, 0, 0};
  return options_.file == "-" && poll(&output, 1, 0) > 0 && (output.revents & POLLERR) != 0;
}

int Receiving::receive_all() {
  std::int64_t deadline = base::deadline_after(options_.timeout);
  while (!done()) {
    if (interruption_.came()) return failed({}, kInterrupted);
    const std::int64_t left = deadline == base::kForever ? base::kForever : deadline - base::monotonic_ns();
    const auto slice =
        std::min(std::chrono::nanoseconds(std::max<std::int64_t>(left, 0)), std::chrono::nanoseconds(kLookEvery));
    auto item = consumer_->take_item(slice);
    if (item) {
      if (const int code = take_item(std::move(*item)); code != kOk) return code;
      deadline = base::deadline_after(options_.timeout);
      progress_.show(moved_);
      continue;
    }
    const bool out_of_time = base::monotonic_ns() >= deadline;
    if (item.error().code != Code::kTimeout || out_of_time) {
      return item.error().code == Code::kEndOfStream ? (end_ = "end-of-stream", int{kOk}) : no_more(item.error());
    }
    if (output_closed()) return failed("whoever read standard output has closed it", kOutputClosed);
  }
  return kOk;
}

// The library's advice names its setting, which is an option here.
std::string in_own_words(std::string text) {
  constexpr std::string_view kSetting = "raise connect-timeout";
  if (!text.ends_with(kSetting)) return text;
  return text.substr(0, text.size() - kSetting.size()) + "raise --timeout";
}

// Why nothing comes any more, but for the end of the stream.
int Receiving::no_more(const Error& error) {
  const std::string why = in_own_words(error.text);
  const double seconds = static_cast<double>(options_.timeout.count()) / 1e9;
  switch (error.code) {
    case Code::kInterrupted:
      return failed({}, kInterrupted);
    case Code::kTimeout: {
      const int code = failed(fmt::format("no frame came within {:.3g} s", seconds), kNothingCame);
      end_ = "timeout";
      return code;
    }
    case Code::kNotFound: {
      const int code = failed(why, kNothingCame);
      end_ = "timeout";
      return code;
    }
    case Code::kPeerLost:
      return failed(why + "; what came before is written", kFailed);
    default:
      return failed(why, kFailed);
  }
}

int Receiving::take_item(Item item) {
  if (const auto* event = std::get_if<format::Event>(&item)) return take_event(*event);
  return write(std::get<Frame>(item));
}

int Receiving::take_event(const format::Event& event) {
  // Caps come before their layout, which a producer says where it isn't the one that they imply; also another producer.
  if (event.type == format::EventType::kCaps) return set_layout({});
  if (event.type != format::EventType::kState || event.number != format::kLayoutState) return kOk;
  auto layout = format::PlaneLayout::parse(event.text);
  return layout ? set_layout(std::move(*layout)) : failed(layout.error().text, kFailed);
}

int Receiving::set_layout(format::PlaneLayout layout) {
  layout_ = std::move(layout);
  // The file that is open is of other caps.
  if (writer_ == nullptr || consumer_->caps() != caps_) return kOk;
  const auto known = writer_->set_layout(layout_);
  return known ? int{kOk} : failed(known.error().text, kFailed);
}

int Receiving::open_file() {
  caps_ = consumer_->caps();
  auto sink = ByteSink::open(pattern_ ? pattern_->name(moved_.frames) : options_.file, &interruption_);
  if (!sink) return failed_to_write(sink.error());
  WriteOptions how;
  how.caps = caps_;
  how.layout = layout_;
  how.frames = options_.frames;
  how.whole = options_.split;
  auto writer = open_writer(format_, std::move(*sink), how);
  if (!writer) return failed_to_write(writer.error());
  writer_ = std::move(*writer);
  return kOk;
}

int Receiving::close_file() {
  const auto finished = writer_->finish();
  writer_.reset();
  return finished ? int{kOk} : failed_to_write(finished.error());
}

int Receiving::write(const Frame& frame) {
  if (writer_ != nullptr && consumer_->caps() != caps_) {
    return failed(
        fmt::format("the format changed after frame {}, from \"{}\" to \"{}\"; the file holds what came before "
                    "(--split writes each frame to a file of its own)",
                    moved_.frames, base::printable(caps_, 300), base::printable(consumer_->caps(), 300)),
        kFailed);
  }
  if (writer_ == nullptr) {
    if (const int code = open_file(); code != kOk) return code;
  }
  if (const auto written = writer_->write(frame.bytes()); !written) return failed_to_write(written.error());
  ++moved_.frames;
  moved_.bytes += frame.size();
  moved_.lost += frame.skipped();
  return options_.split ? close_file() : int{kOk};
}

int Receiving::finish(int code) {
  // A stream without a frame still makes a file, if it is known what it would hold.
  if (writer_ == nullptr && moved_.frames == 0 && code == kOk && !options_.split &&
      (format_ == FileFormat::kRaw || !consumer_->caps().empty())) {
    code = open_file();
  }
  if (writer_ == nullptr) return code;
  const std::string end = end_;
  const int closed = code == kOutputClosed ? code : close_file();
  if (code == kOk) return closed;
  end_ = end;
  return code;
}

void Receiving::summarize(int code) {
  const double seconds = progress_.seconds();
  progress_.clear();
  std::FILE* const where = options_.file == "-" ? stderr : stdout;
  if (options_.json) {
    nlohmann::ordered_json json{{"lane", consumer_->descriptor()},
                                {"file", options_.file},
                                {"format", to_string(format_)},
                                {"caps", consumer_->caps()},
                                {"transport", consumer_->transport()},
                                {"frames", moved_.frames},
                                {"bytes", moved_.bytes},
                                {"skipped", moved_.lost},
                                {"seconds", seconds},
                                {"end", end_},
                                {"exit_code", code}};
    fmt::print(where, "{}\n", json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace));
  } else if (!options_.quiet && code != kOutputClosed) {
    fmt::print(stderr, "framelane recv: {} frames, {} in {:.1f} s{}\n", moved_.frames, bytes_text(moved_.bytes),
               seconds, moved_.lost == 0 ? "" : fmt::format(", {} skipped", moved_.lost));
  }
}

int run(Options options) {
  options.settings.gating = !options.no_gating;
  return Receiving(options).run();
}

}  // namespace

void add_recv(CLI::App& app, Action& chosen) {
  auto options = std::make_shared<Options>();
  options->settings.reconnect = false;
  CLI::App& command = *app.add_subcommand("recv", "Frames out of a lane into a file or a pipe");
  command.footer(kFooter);
  add_ends_options(command, options->settings);
  command.add_option("FILE", options->file, "Where they go (standard output)")->type_name("");
  add_format_option(command, options->format, "Of the output (auto)");
  command.add_option("--frames", options->frames, "Ends after so many (the end of the stream)")
      ->type_name("N")
      ->check(CLI::Range(std::uint64_t{1}, std::uint64_t{1} << 62));
  command.add_flag("--split", options->split, "Each frame to a file of its own: FILE has %d, or %04d");
  add_choice(command, "--mode", options->settings.mode, kModes, "every|latest",
             "Every frame in order, or always the newest (every)");
  command.add_flag("--no-gating", options->no_gating, "The producer doesn't wait for us: we may skip frames");
  command.add_flag("--reconnect", options->settings.reconnect, "Waits on when a producer goes without an end");
  const CLI::Option* const timeout =
      add_duration(command, "--timeout", options->timeout, "Gives up: no producer (10), or no frame (none)", true);
  command.add_flag("--quiet", options->quiet, "Only errors on standard error");
  command.add_flag("--json", options->json, "At the end, one JSON object, where no frames go");
  command.callback([options, timeout, &chosen] {
    if (timeout->count() != 0) options->settings.connect_timeout = options->timeout;
    chosen = [options] { return run(*options); };
  });
}

}  // namespace framelane::cli
