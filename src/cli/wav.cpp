// SPDX-License-Identifier: MIT
#include "cli/wav.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <utility>

#include <fmt/format.h>

#include "base/text.hpp"
#include "cli/raw_frames.hpp"

namespace framelane::cli {
namespace {

constexpr std::uint16_t kPcm = 1;
constexpr std::uint16_t kFloat = 3;
constexpr std::uint16_t kExtensible = 0xfffe;
constexpr std::uint32_t kUnknownSize = 0xffffffff;
// What a program says that writes to a pipe: ffmpeg and we, others, GStreamer, SoX.
constexpr std::uint32_t kPipeSizes[] = {kUnknownSize, 0x7fffffff, 0x7fff0000, 0x7ffff000};
constexpr std::uint32_t kMostFormatBytes = 1024;
constexpr std::uint16_t kMostChannels = 1024;
constexpr std::uint32_t kMostRate = 1u << 24;
// What follows the coding in the GUID of WAVE_FORMAT_EXTENSIBLE.
constexpr std::array<std::uint8_t, 14> kGuidTail{0, 0, 0, 0, 0x10, 0, 0x80, 0, 0, 0xaa, 0, 0x38, 0x9b, 0x71};

struct Coding {
  std::uint16_t tag;
  std::uint16_t bits;
  std::string_view gst;
};
constexpr Coding kCodings[] = {{kPcm, 8, "U8"},     {kPcm, 16, "S16LE"},   {kPcm, 24, "S24LE"},
                               {kPcm, 32, "S32LE"}, {kFloat, 32, "F32LE"}, {kFloat, 64, "F64LE"}};

/// A lane's (GStreamer's) speaker positions by WAV's bit, as far as both have them in the same order.
constexpr std::array<std::uint8_t, 11> kPositions{0, 1, 2, 3, 4, 5, 6, 7, 8, 10, 11};

std::uint64_t mask_to_caps(std::uint32_t wav) {
  std::uint64_t caps = 0;
  for (std::size_t bit = 0; bit < 32; ++bit) {
    if ((wav >> bit & 1) == 0) continue;
    if (bit >= kPositions.size()) return 0;  // speakers that would have to change places
    caps |= std::uint64_t{1} << kPositions[bit];
  }
  return caps;
}

std::uint32_t mask_to_wav(std::uint64_t caps) {
  std::uint32_t wav = 0;
  for (std::size_t bit = 0; bit < kPositions.size(); ++bit) {
    if ((caps >> kPositions[bit] & 1) != 0) wav |= 1u << bit;
  }
  return mask_to_caps(wav) == caps ? wav : 0;
}

template <class Number>
Number number_at(std::span<const std::byte> bytes, std::size_t at) {
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < sizeof(Number); ++i) value |= std::to_integer<std::uint64_t>(bytes[at + i]) << (8 * i);
  return static_cast<Number>(value);
}

template <class Number>
void put(std::vector<std::byte>& bytes, Number value) {
  for (std::size_t i = 0; i < sizeof(Number); ++i) {
    bytes.push_back(static_cast<std::byte>(static_cast<std::uint64_t>(value) >> (8 * i)));
  }
}

void put_text(std::vector<std::byte>& bytes, std::string_view text) {
  for (const char letter : text) bytes.push_back(static_cast<std::byte>(letter));
}

std::string text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// The coding within WAVE_FORMAT_EXTENSIBLE.
Result<std::uint16_t> inner_tag(std::span<const std::byte> chunk) {
  if (chunk.size() < 40) return fail(Code::kProtocol, "the WAV header's extensible format is too short");
  for (std::size_t i = 0; i < kGuidTail.size(); ++i) {
    if (std::to_integer<std::uint8_t>(chunk[26 + i]) != kGuidTail[i]) {
      return fail(Code::kUnsupported, "the WAV file has audio of a coding that isn't Microsoft's: convert it to PCM");
    }
  }
  return number_at<std::uint16_t>(chunk, 24);
}

Result<void> check_numbers(const format::AudioFormat& audio, std::uint16_t bits, std::uint16_t alignment) {
  if (audio.channels < 1 || audio.channels > kMostChannels) {
    return fail(Code::kProtocol,
                fmt::format("the WAV header says {} channels; 1 to {} can be", audio.channels, kMostChannels));
  }
  if (audio.rate < 1 || audio.rate > static_cast<int>(kMostRate)) {
    return fail(Code::kProtocol, fmt::format("the WAV header says {} samples a second; 1 to {} can be",
                                             static_cast<std::uint32_t>(audio.rate), kMostRate));
  }
  const std::uint64_t wanted = static_cast<std::uint64_t>(audio.channels) * (bits / 8u);
  if (alignment == wanted) return {};
  return fail(Code::kProtocol, fmt::format("the WAV header says {} bytes for {} channels of {} bits; {} are needed",
                                           alignment, audio.channels, bits, wanted));
}

const Coding* coding_of(const format::AudioFormat& audio) {
  const auto* found =
      std::find_if(std::begin(kCodings), std::end(kCodings), [&](const Coding& c) { return c.gst == audio.format; });
  return found == std::end(kCodings) ? nullptr : found;
}

/// What stands before the samples.
struct Header {
  format::AudioFormat audio;
  std::optional<std::uint64_t> data_bytes;  // nothing: up to the end of the file
};

class HeaderReader {
 public:
  explicit HeaderReader(ByteSource& source) : source_(source) {}

  Result<Header> read() {
    if (auto done = riff(); !done) return tl::unexpected(done.error());
    for (;;) {
      const auto chunk = bytes(8, "a chunk's header");
      if (!chunk) return tl::unexpected(chunk.error());
      const std::string id = text_of(std::span(*chunk).first(4));
      const auto size = number_at<std::uint32_t>(*chunk, 4);
      if (id == "data") return data(size);
      auto done = id == "fmt " ? format_chunk(size) : skip(size);
      if (!done) return tl::unexpected(done.error());
    }
  }

 private:
  Result<std::vector<std::byte>> bytes(std::size_t count, const char* what) {
    std::vector<std::byte> read(count);
    const auto got = source_.read(read);
    if (!got) return tl::unexpected(got.error());
    if (*got == count) return read;
    return fail(Code::kProtocol, fmt::format("{} ends at byte {}, in {}: {} of its {} bytes are missing",
                                             source_.name(), source_.position(), what, count - *got, count));
  }

  Result<void> riff() {
    const auto start = bytes(12, "the WAV header");
    if (!start) return tl::unexpected(start.error());
    const std::string magic = text_of(std::span(*start).first(4));
    if (magic == "RIFX" || magic == "RF64" || magic == "BW64") {
      return fail(Code::kUnsupported,
                  fmt::format("{} is WAV of the kind {}: only RIFF is read, convert it", source_.name(), magic));
    }
    if (magic != "RIFF" || text_of(std::span(*start).subspan(8)) != "WAVE") {
      return fail(Code::kProtocol, source_.name() + " is no WAV: it doesn't start with RIFF and WAVE");
    }
    riff_bytes_ = number_at<std::uint32_t>(*start, 4);
    return {};
  }

  Result<void> format_chunk(std::uint32_t size) {
    if (size < 16 || size > kMostFormatBytes) {
      return fail(Code::kProtocol,
                  fmt::format("{} has a format of {} bytes; 16 to {} can be", source_.name(), size, kMostFormatBytes));
    }
    const auto chunk = bytes(size + size % 2, "the WAV header's format");
    if (!chunk) return tl::unexpected(chunk.error());
    auto audio = wav_format(std::span(*chunk).first(size));
    if (!audio) return tl::unexpected(audio.error());
    audio_ = std::move(*audio);
    return {};
  }

  Result<void> skip(std::uint32_t size) {
    const std::uint64_t all = std::uint64_t{size} + size % 2;
    const auto got = source_.skip(all);
    if (!got) return tl::unexpected(got.error());
    if (*got == all) return {};
    return fail(Code::kProtocol,
                fmt::format("{} ends at byte {}, before its samples begin", source_.name(), source_.position()));
  }

  Result<Header> data(std::uint32_t size) {
    if (!audio_) return fail(Code::kProtocol, source_.name() + " has its samples before their format");
    // Written to a pipe, the sizes stay as they were at first: very large, or nothing.
    const bool large = std::find(std::begin(kPipeSizes), std::end(kPipeSizes), size) != std::end(kPipeSizes);
    const bool open_end = large || (size == 0 && (riff_bytes_ == 0 || riff_bytes_ == kUnknownSize ||
                                                  riff_bytes_ + std::uint64_t{8} <= source_.position()));
    return Header{*audio_, open_end ? std::nullopt : std::optional<std::uint64_t>(size)};
  }

  ByteSource& source_;
  std::uint32_t riff_bytes_ = 0;
  std::optional<format::AudioFormat> audio_;
};

class WavReader final : public FrameReader {
 public:
  WavReader(ByteSource source, StreamInfo info, std::optional<std::uint64_t> data_bytes)
      : FrameReader(std::move(source), std::move(info)),
        sample_(info_.frame_size / info_.frame_units),
        all_(data_bytes),
        left_(data_bytes.value_or(std::numeric_limits<std::uint64_t>::max())) {}

  Result<FrameRead> next(std::span<std::byte> into) override {
    if (broken_ != 0) return broken_sample();
    const std::uint64_t wanted = std::min(info_.frame_size, left_);
    if (wanted == 0) return FrameRead{};
    const auto got = source_.read(into.first(static_cast<std::size_t>(wanted)));
    if (!got) return tl::unexpected(got.error());
    const std::uint64_t whole = *got / sample_ * sample_;
    left_ -= *got;
    if (*got < wanted && !all_) left_ = 0;
    if (left_ == 0) broken_ = *got - whole;
    if (whole != 0) {
      ++frames_;
      return FrameRead{static_cast<std::size_t>(whole), static_cast<std::uint32_t>(whole / sample_)};
    }
    if (left_ != 0) return truncated("the samples", left_, *all_);
    return broken_ != 0 ? next(into) : FrameRead{};
  }

 private:
  [[nodiscard]] tl::unexpected<Error> broken_sample() const {
    if (!all_) return truncated("a sample", sample_ - broken_, sample_);
    return damaged(fmt::format("its {} bytes of samples aren't whole samples of {} bytes", *all_, sample_));
  }

  void restart() override {
    left_ = all_.value_or(std::numeric_limits<std::uint64_t>::max());
    broken_ = 0;
  }

  std::uint64_t sample_;  // bytes of all channels
  std::optional<std::uint64_t> all_;
  std::uint64_t left_;
  std::uint64_t broken_ = 0;  // bytes of a sample at the end, which is told of at the next call
};

class WavWriter final : public FrameWriter {
 public:
  WavWriter(ByteSink sink, format::AudioFormat audio) : FrameWriter(std::move(sink)), audio_(std::move(audio)) {}

  Result<void> start() {
    const auto header = wav_header(audio_, std::nullopt);
    if (!header) return tl::unexpected(header.error());
    header_bytes_ = header->size();
    return sink_.write(*header);
  }

  Result<void> finish() override {
    const std::uint64_t bytes = sink_.position() - header_bytes_;
    if (sink_.can_patch()) {
      const auto header = wav_header(audio_, bytes);
      if (!header) return tl::unexpected(header.error());
      if (auto patched = sink_.patch(0, *header); !patched) return patched;
    }
    return sink_.close();
  }

 private:
  Result<void> put(std::span<const std::byte> frame) override {
    const std::uint64_t sample = audio_.bytes_per_sample().value_or(1);
    if (frame.size() % sample == 0) return sink_.write(frame);
    return fail(Code::kProtocol,
                fmt::format("a frame of {} bytes isn't whole samples of {} bytes", frame.size(), sample));
  }

  format::AudioFormat audio_;
  std::uint64_t header_bytes_ = 0;
};

}  // namespace

Result<format::AudioFormat> wav_format(std::span<const std::byte> chunk) {
  if (chunk.size() < 16) return fail(Code::kProtocol, "the WAV header's format is too short");
  auto tag = number_at<std::uint16_t>(chunk, 0);
  const auto bits = number_at<std::uint16_t>(chunk, 14);
  format::AudioFormat audio;
  audio.channels = number_at<std::uint16_t>(chunk, 2);
  audio.rate = static_cast<int>(number_at<std::uint32_t>(chunk, 4));
  if (audio.channels > 2) audio.channel_mask = 0;
  if (tag == kExtensible) {
    const auto inner = inner_tag(chunk);
    if (!inner) return tl::unexpected(inner.error());
    tag = *inner;
    if (audio.channels > 2) audio.channel_mask = mask_to_caps(number_at<std::uint32_t>(chunk, 20));
  }
  const auto* coding = std::find_if(std::begin(kCodings), std::end(kCodings),
                                    [&](const Coding& c) { return c.tag == tag && c.bits == bits; });
  if (coding == std::end(kCodings)) {
    return fail(Code::kUnsupported,
                fmt::format("the WAV file has audio of coding {} with {} bits; PCM of 8, 16, 24 or 32 "
                            "bits and floating point of 32 or 64 are read",
                            tag, bits));
  }
  audio.format = std::string(coding->gst);
  if (auto right = check_numbers(audio, bits, number_at<std::uint16_t>(chunk, 12)); !right) {
    return tl::unexpected(right.error());
  }
  return audio;
}

Result<std::vector<std::byte>> wav_header(const format::AudioFormat& audio, std::optional<std::uint64_t> data_bytes) {
  const Coding* const coding = coding_of(audio);
  if (coding == nullptr || (!audio.interleaved && audio.channels > 1)) {
    return fail(Code::kUnsupported,
                fmt::format("WAV has no {}audio in the format \"{}\": convert it to interleaved U8, "
                            "S16LE, S24LE, S32LE, F32LE or F64LE (audioconvert), or use --format raw",
                            audio.interleaved ? "" : "planar ", base::printable(audio.format)));
  }
  if (audio.channels > kMostChannels) {
    return fail(Code::kUnsupported, fmt::format("WAV is written with at most {} channels", kMostChannels));
  }
  const bool extensible = audio.channels > 2;
  const auto alignment = static_cast<std::uint32_t>(audio.channels) * (coding->bits / 8u);
  std::vector<std::byte> bytes;
  put_text(bytes, "RIFF");
  put<std::uint32_t>(bytes, kUnknownSize);
  put_text(bytes, "WAVEfmt ");
  put<std::uint32_t>(bytes, extensible ? 40 : 16);
  put<std::uint16_t>(bytes, extensible ? kExtensible : coding->tag);
  put<std::uint16_t>(bytes, static_cast<std::uint16_t>(audio.channels));
  put<std::uint32_t>(bytes, static_cast<std::uint32_t>(audio.rate));
  put<std::uint32_t>(bytes, static_cast<std::uint32_t>(audio.rate) * alignment);
  put<std::uint16_t>(bytes, static_cast<std::uint16_t>(alignment));
  put<std::uint16_t>(bytes, coding->bits);
  if (extensible) {
    put<std::uint16_t>(bytes, 22);
    put<std::uint16_t>(bytes, coding->bits);
    put<std::uint32_t>(bytes, mask_to_wav(audio.channel_mask.value_or(0)));
    put<std::uint16_t>(bytes, coding->tag);
    for (const std::uint8_t byte : kGuidTail) bytes.push_back(static_cast<std::byte>(byte));
  }
  put_text(bytes, "data");
  put<std::uint32_t>(bytes, kUnknownSize);
  // A last chunk of odd size isn't padded: GStreamer's wavparse (1.22) finds nothing in a file that ends with the
  // padding byte, and no reader misses it.
  const std::uint64_t riff = bytes.size() - 8 + data_bytes.value_or(0);
  // Beyond 4 GiB a RIFF can't say its size; readers take it as a pipe's.
  if (!data_bytes || riff >= kUnknownSize) return bytes;
  std::vector<std::byte> sizes;
  put<std::uint32_t>(sizes, static_cast<std::uint32_t>(riff));
  put<std::uint32_t>(sizes, static_cast<std::uint32_t>(*data_bytes));
  std::copy_n(sizes.begin(), 4, bytes.begin() + 4);
  std::copy_n(sizes.begin() + 4, 4, bytes.end() - 4);
  return bytes;
}

Result<std::unique_ptr<FrameReader>> open_wav_reader(ByteSource source, const ReadOptions& options) {
  const auto header = HeaderReader(source).read();
  if (!header) return tl::unexpected(header.error());
  const auto sample = header->audio.bytes_per_sample();
  if (!sample) return tl::unexpected(sample.error());
  const std::uint64_t size = *sample * options.block;
  if (auto fits = check_frame_size(size, options); !fits) return tl::unexpected(fits.error());
  StreamInfo info{header->audio.to_caps(), size, Rate{header->audio.rate, 1}, options.block};
  return std::make_unique<WavReader>(std::move(source), std::move(info), header->data_bytes);
}

Result<std::unique_ptr<FrameWriter>> open_wav_writer(ByteSink sink, const WriteOptions& options) {
  auto audio = format::AudioFormat::parse(options.caps);
  if (!audio) return tl::unexpected(audio.error());
  auto writer = std::make_unique<WavWriter>(std::move(sink), std::move(*audio));
  if (auto started = writer->start(); !started) return tl::unexpected(started.error());
  return writer;
}

}  // namespace framelane::cli
