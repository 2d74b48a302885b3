// SPDX-License-Identifier: MIT
// `framelane send`: frames from a file or a pipe into a lane, read straight into its slots.
#include <cerrno>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <time.h>

#include "framelane/lane/producer.hpp"

#include "base/clock.hpp"
#include "cli/command.hpp"
#include "cli/frame_file.hpp"
#include "cli/interruption.hpp"
#include "cli/lane_options.hpp"
#include "cli/lane_text.hpp"
#include "cli/progress.hpp"

namespace framelane::cli {
namespace {

constexpr const char* kFooter =
    "FILE is a path, or - for standard input, which it is when none is given. Its\n"
    "format is told by its first bytes, then by its name; what is neither Y4M, WAV\n"
    "nor NPY is raw, and then --caps or --frame-size says what a frame is. Raw video\n"
    "has rows padded to 4 bytes, as GStreamer writes it. An array's first axis counts\n"
    "the frames. Times follow from the rate.\n"
    "\n"
    "Waits for one consumer (--wait), then for whoever is slow (--leaky), and ends\n"
    "the stream at the end of the file. Of a file that ends too early, the whole\n"
    "frames are sent, and the exit code is 3.\n"
    "\n"
    "Examples:\n"
    "  framelane send cam0 video.y4m --realtime --loop\n"
    "  framelane send mic speech.wav --block 480\n"
    "  framelane send feat mel.npy --fps 100\n"
    "  ffmpeg -i film.mkv -f yuv4mpegpipe - | framelane send cam0\n"
    "  framelane send cam0 --caps video/x-raw,format=RGB,width=64,height=48 < frames";

constexpr auto kDrainLimit = std::chrono::seconds(10);   // for consumers that stand still at the end
constexpr auto kHurriedDrain = std::chrono::seconds(1);  // after a signal

struct Options {
  ProducerSettings settings;
  std::string file = "-";
  std::optional<FileFormat> format;
  ReadOptions read;
  std::string fps;
  bool realtime = false;
  bool loop = false;
  std::uint32_t wait = 1;
  std::chrono::nanoseconds timeout = kForever;
  bool quiet = false;
  bool json = false;
};

int code_of(const Error& error) {
  switch (error.code) {
    case Code::kInterrupted:
      return kInterrupted;
    case Code::kInvalidArgument:
      return kUsage;
    case Code::kProtocol:
    case Code::kUnsupported:
    case Code::kTooLarge:
      return kBadInput;
    default:
      return kFailed;
  }
}

class Sending {
 public:
  explicit Sending(const Options& options) : options_(options), progress_(options.quiet || options.json) {}
  ~Sending() { interruption_.on_interrupt({}); }
  Sending(const Sending&) = delete;
  Sending& operator=(const Sending&) = delete;

  int run() {
    if (const int code = open(); code != kOk) return code;
    int code = wait();
    if (code == kOk) code = send_all();
    return end(code);
  }

 private:
  int open();
  int wait();
  int send_all();
  int send_frames();
  int end(int code);
  void summarize(int code);
  Result<FrameRead> send_one();
  [[nodiscard]] format::FrameInfo times(std::uint32_t units);
  void pace(std::int64_t until) const;
  int failed(const Error& error, int code);

  const Options& options_;
  Interruption interruption_;
  Progress progress_;
  std::unique_ptr<FrameReader> reader_;
  std::optional<Producer> producer_;
  FileFormat format_ = FileFormat::kRaw;
  std::string end_ = "end-of-file";
  Moved moved_;
  std::uint64_t units_ = 0;    // sent so far, all rounds of --loop together
  std::int64_t start_ns_ = 0;  // of the pacing
};

int Sending::failed(const Error& error, int code) {
  if (code == kInterrupted) return code;
  progress_.clear();
  end_ = code == kBadInput ? "damaged" : "failed";
  fmt::print(stderr, "framelane send: {}\n", error.text);
  return code;
}

int Sending::open() {
  auto source = ByteSource::open(options_.file, &interruption_);
  if (!source) return failed(source.error(), source.error().code == Code::kInterrupted ? kInterrupted : kFailed);
  if (options_.loop && !source->can_rewind()) {
    return failed({Code::kUnsupported, "--loop is for files, and " + source->name() + " is a pipe or a terminal"},
                  kUsage);
  }
  if (options_.format) {
    format_ = *options_.format;
  } else {
    const auto start = source->peek(kMagicBytes);
    if (!start) return failed(start.error(), code_of(start.error()));
    format_ = format_of_content(*start);
    if (format_ == FileFormat::kRaw) format_ = format_of_name(options_.file).value_or(FileFormat::kRaw);
  }
  auto reader = open_reader(format_, std::move(*source), options_.read);
  if (!reader) return failed(reader.error(), code_of(reader.error()));
  reader_ = std::move(*reader);
  if (options_.realtime && reader_->info().units.n == 0) {
    return failed({Code::kInvalidArgument, "--realtime needs a rate, and the input has none: use --fps"}, kUsage);
  }
  if (const auto key = check_key_file(options_.settings.psk_file); !key) return failed(key.error(), kFailed);
  auto producer = Producer::open(options_.settings);
  if (!producer) return failed(producer.error(), producer.error().code == Code::kInvalidArgument ? kUsage : kFailed);
  producer_.emplace(std::move(*producer));
  interruption_.on_interrupt([this] { producer_->interrupt(); });
  const StreamInfo& info = reader_->info();
  auto ready = info.caps.empty() ? Result<void>() : producer_->set_caps(info.caps);
  if (ready) ready = producer_->reserve(static_cast<std::size_t>(info.frame_size));
  if (!ready) return failed(ready.error(), ready.error().code == Code::kInterrupted ? kInterrupted : kFailed);
  return kOk;
}

int Sending::wait() {
  if (options_.wait == 0) return kOk;
  progress_.say(fmt::format("{}: waiting for {}", producer_->descriptor(),
                            options_.wait == 1 ? "a consumer" : fmt::format("{} consumers", options_.wait)));
  const auto came = producer_->wait_for_consumers(options_.wait, options_.timeout);
  if (came) return kOk;
  if (came.error().code == Code::kInterrupted) return kInterrupted;
  end_ = "timeout";
  progress_.clear();
  fmt::print(stderr, "framelane send: {} of {} consumers came within {:.3g} s\n", producer_->num_consumers(),
             options_.wait, static_cast<double>(options_.timeout.count()) / 1e9);
  return kNothingCame;
}

format::FrameInfo Sending::times(std::uint32_t units) {
  format::FrameInfo info;
  info.offset = units_;
  info.offset_end = units_ + units;
  const Rate rate = reader_->info().units;
  info.pts = time_of(units_, rate);
  const std::uint64_t end = time_of(units_ + units, rate);
  if (end != format::kNoTime) info.duration = end - info.pts;
  if (moved_.frames == 0) info.flags = format::kDiscont;
  units_ += units;
  return info;
}

// Until then, or until a signal.
void Sending::pace(std::int64_t until) const {
  const timespec when{static_cast<time_t>(until / 1'000'000'000), static_cast<long>(until % 1'000'000'000)};
  while (!interruption_.came() && clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &when, nullptr) == EINTR) {
  }
}

// What was read; nothing at the end of the file.
Result<FrameRead> Sending::send_one() {
  auto loan = producer_->loan(static_cast<std::size_t>(reader_->info().frame_size));
  if (!loan) return tl::unexpected(loan.error());
  const auto read = reader_->next(loan->bytes());
  if (!read || !*read) return read;
  format::FrameInfo info = times(read->units);
  if (options_.realtime && info.pts != format::kNoTime) {
    if (start_ns_ == 0) start_ns_ = base::monotonic_ns() - static_cast<std::int64_t>(info.pts);
    info.due_ns = start_ns_ + static_cast<std::int64_t>(info.pts);
    pace(info.due_ns);
  }
  const auto published = producer_->publish(std::move(*loan), read->size, info);
  if (!published) return tl::unexpected(published.error());
  ++moved_.frames;
  moved_.bytes += read->size;
  moved_.lost += *published == Published::kDropped ? 1 : 0;
  return read;
}

int Sending::send_frames() {
  for (;;) {
    if (interruption_.came()) return kInterrupted;
    const auto sent = send_one();
    if (!sent) return failed(sent.error(), code_of(sent.error()));
    if (!*sent) return kOk;
    progress_.show(moved_);
  }
}

int Sending::send_all() {
  for (;;) {
    const std::uint64_t before = moved_.frames;
    const int code = send_frames();
    if (code != kOk || !options_.loop) return code;
    if (moved_.frames == before) {
      return failed({Code::kProtocol, "the input holds no frame, so there is nothing to --loop"}, kBadInput);
    }
    if (auto again = reader_->rewind(); !again) return failed(again.error(), kFailed);
  }
}

int Sending::end(int code) {
  if (code == kInterrupted) end_ = "interrupted";
  producer_->resume();
  const auto ended = producer_->end_of_stream();
  const auto drained = ended ? producer_->drain(code == kInterrupted ? kHurriedDrain : kDrainLimit) : ended;
  if (!drained && code == kOk) {
    const bool slow = drained.error().code == Code::kTimeout;
    code = failed({Code::kTimeout, slow ? fmt::format("a consumer still hasn't taken all frames {} s after the end",
                                                      kDrainLimit.count())
                                        : drained.error().text},
                  interruption_.came() ? kInterrupted : kFailed);
  }
  summarize(code);
  producer_->close();
  return code;
}

void Sending::summarize(int code) {
  const double seconds = progress_.seconds();
  progress_.clear();
  if (options_.json) {
    nlohmann::ordered_json json{{"lane", producer_->descriptor()},
                                {"file", options_.file},
                                {"format", to_string(format_)},
                                {"caps", reader_->info().caps},
                                {"frames", moved_.frames},
                                {"bytes", moved_.bytes},
                                {"dropped", moved_.lost},
                                {"seconds", seconds},
                                {"consumers", producer_->num_consumers()},
                                {"end", end_},
                                {"exit_code", code}};
    fmt::print("{}\n", json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace));
  } else if (!options_.quiet) {
    fmt::print(stderr, "framelane send: {} frames, {} in {:.1f} s{}\n", moved_.frames, bytes_text(moved_.bytes),
               seconds, moved_.lost == 0 ? "" : fmt::format(", {} of them dropped", moved_.lost));
  }
}

int run(Options options) {
  if (!options.fps.empty()) {
    const auto rate = parse_rate(options.fps);
    if (!rate) {
      fmt::print(stderr, "framelane send: {}\n", rate.error().text);
      return kUsage;
    }
    options.read.fps = *rate;
  }
  options.read.max_frame_size = options.settings.max_frame_size;
  return Sending(options).run();
}

}  // namespace

void add_send(CLI::App& app, Action& chosen) {
  auto options = std::make_shared<Options>();
  options->settings.full_timeout = kForever;
  options->settings.stall_timeout = kForever;
  CLI::App& command = *app.add_subcommand("send", "Frames from a file or a pipe into a lane");
  command.footer(kFooter);
  add_ends_options(command, options->settings);
  command.add_option("FILE", options->file, "What to send (standard input)")->type_name("");
  add_format_option(command, options->format, "Of the input (auto)");
  command.add_option("--caps", options->read.caps, "Raw: what the frames are")->type_name("CAPS");
  command.add_option("--frame-size", options->read.frame_size, "Raw: bytes of a frame")
      ->type_name("B")
      ->check(CLI::Range(std::uint64_t{1}, std::uint64_t{1} << 31));
  command.add_option("--block", options->read.block, "Audio: samples of each channel in a frame (1024)")
      ->type_name("N")
      ->check(CLI::Range(1, 1 << 24));
  command.add_flag("--whole", options->read.whole, "NPY: the array is one frame");
  command.add_option("--fps", options->fps, "Frames a second, as 30 or 30000/1001 (the input's)")->type_name("RATE");
  command.add_flag("--realtime", options->realtime, "One frame after the other at the stream's rate");
  command.add_flag("--loop", options->loop, "Again from the start at the end of a file");
  command.add_option("--wait", options->wait, "Consumers to wait for before the first frame (1)")
      ->type_name("N")
      ->check(CLI::Range(0, 32));
  add_duration(command, "--timeout", options->timeout, "Of that wait (none)", true);
  add_producer_options(command, options->settings);
  command.add_flag("--quiet", options->quiet, "Only errors on standard error");
  command.add_flag("--json", options->json, "At the end, one JSON object on standard output");
  command.callback([options, &chosen] { chosen = [options] { return run(*options); }; });
}

}  // namespace framelane::cli
