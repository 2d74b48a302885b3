// SPDX-License-Identifier: MIT
#include "cli/raw_frames.hpp"

#include <utility>

#include <fmt/format.h>

#include "base/text.hpp"

namespace framelane::cli {
namespace {

class RawReader final : public FrameReader {
 public:
  RawReader(ByteSource source, StreamInfo info, std::uint64_t unit_size)
      : FrameReader(std::move(source), std::move(info)), unit_size_(unit_size) {}

  Result<FrameRead> next(std::span<std::byte> into) override {
    if (left_over_ != 0) return truncated(fmt::format("frame {}", frames_), unit_size_ - left_over_, unit_size_);
    const auto got = source_.read(into.first(static_cast<std::size_t>(info_.frame_size)));
    if (!got) return tl::unexpected(got.error());
    const std::uint64_t whole = *got / unit_size_ * unit_size_;
    left_over_ = *got - whole;
    if (whole == 0 && left_over_ != 0) return next(into);
    if (whole != 0) ++frames_;
    return FrameRead{static_cast<std::size_t>(whole), static_cast<std::uint32_t>(whole / unit_size_)};
  }

 private:
  void restart() override { left_over_ = 0; }

  std::uint64_t unit_size_;      // a frame, or a sample of all channels
  std::uint64_t left_over_ = 0;  // bytes of a broken unit at the end, which is told of at the next call
};

class RawWriter final : public FrameWriter {
 public:
  explicit RawWriter(ByteSink sink) : FrameWriter(std::move(sink)) {}

 private:
  Result<void> put(std::span<const std::byte> frame) override { return sink_.write(frame); }
};

Result<StreamInfo> video_stream(const ReadOptions& options) {
  auto video = format::VideoFormat::parse(options.caps);
  if (!video) return tl::unexpected(video.error());
  const auto size = video->frame_size();
  if (!size) return tl::unexpected(size.error());
  const Rate rate = options.fps.n != 0 ? options.fps : Rate{video->fps_n, video->fps_d};
  return StreamInfo{options.caps, *size, rate, 1};
}

Result<StreamInfo> audio_stream(const ReadOptions& options) {
  auto audio = format::AudioFormat::parse(options.caps);
  if (!audio) return tl::unexpected(audio.error());
  const auto bytes = audio->bytes_per_sample();
  if (!bytes) return tl::unexpected(bytes.error());
  return StreamInfo{options.caps, *bytes * options.block, Rate{audio->rate, 1}, options.block};
}

Result<StreamInfo> tensor_stream(const ReadOptions& options) {
  auto tensors = format::TensorFormat::parse(options.caps);
  if (!tensors) return tl::unexpected(tensors.error());
  const auto size = tensors->frame_size();
  if (!size) return tl::unexpected(size.error());
  const Rate rate = options.fps.n != 0 ? options.fps : Rate{tensors->fps_n, tensors->fps_d};
  return StreamInfo{options.caps, *size, rate, 1};
}

// Bytes of a frame of these caps, as the lane holds it, and its time.
Result<StreamInfo> stream_of_caps(const ReadOptions& options) {
  if (options.caps.empty()) {
    return fail(
        Code::kInvalidArgument,
        "raw frames need --caps or --frame-size, for example --caps video/x-raw,format=RGB,width=640,height=480");
  }
  if (options.caps.starts_with("video/x-raw")) return video_stream(options);
  if (options.caps.starts_with("audio/x-raw")) return audio_stream(options);
  if (options.caps.starts_with("other/tensors")) return tensor_stream(options);
  return fail(Code::kInvalidArgument,
              "the size of a frame doesn't follow from these caps: use --frame-size BYTES, too");
}

// What a raw file can't say itself. With a frame size, the caps are the user's and may be anything.
Result<StreamInfo> raw_stream(const ReadOptions& options) {
  if (options.frame_size == 0) return stream_of_caps(options);
  Rate units = options.fps;
  if (units.n == 0 && format::frame_rate(options.caps)) {
    if (const auto parsed = parse_rate(caps_field(options.caps, "framerate"))) units = *parsed;
  }
  return StreamInfo{options.caps, options.frame_size, units, 1};
}

}  // namespace

Result<void> check_frame_size(std::uint64_t size, const ReadOptions& options) {
  if (size <= options.max_frame_size) return {};
  return fail(Code::kTooLarge,
              fmt::format("a frame of {} bytes is beyond --max-frame-size, {}", size, options.max_frame_size));
}

Result<std::unique_ptr<FrameReader>> open_raw_reader(ByteSource source, const ReadOptions& options) {
  auto info = raw_stream(options);
  if (!info) return tl::unexpected(info.error());
  if (auto fits = check_frame_size(info->frame_size, options); !fits) return tl::unexpected(fits.error());
  const std::uint64_t unit = info->frame_size / info->frame_units;
  return std::make_unique<RawReader>(std::move(source), std::move(*info), unit);
}

Result<std::unique_ptr<FrameWriter>> open_raw_writer(ByteSink sink) {
  return std::make_unique<RawWriter>(std::move(sink));
}

}  // namespace framelane::cli
