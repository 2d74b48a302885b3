// SPDX-License-Identifier: MIT
#include "cli/y4m.hpp"

#include <algorithm>
#include <array>
#include <numeric>
#include <utility>

#include <fmt/format.h>

#include "base/text.hpp"
#include "cli/raw_frames.hpp"

namespace framelane::cli {
namespace {

constexpr std::string_view kMagic = "YUV4MPEG2";
constexpr std::size_t kLongestHeader = 4096;
constexpr std::size_t kLongestFrameLine = 256;
constexpr std::uint64_t kMostPixels = 65536;  // on a side
constexpr std::uint64_t kMostRate = 1'000'000'000;

/// A colour space, GStreamer's name of it, and how its second and third plane sample the picture.
struct Space {
  std::string_view y4m;
  std::string_view gst;
  std::uint8_t planes;
  std::uint8_t h;  // chroma: one point for 2^h x 2^v pixels
  std::uint8_t v;
  std::uint8_t bytes;  // of a point
  std::string_view chroma_site;
};
// The first one of a GStreamer format is the one that is written.
constexpr Space kSpaces[] = {
    {"420", "I420", 3, 1, 1, 1, ""},           {"420jpeg", "I420", 3, 1, 1, 1, "jpeg"},
    {"420mpeg2", "I420", 3, 1, 1, 1, "mpeg2"}, {"420paldv", "I420", 3, 1, 1, 1, "dv"},
    {"411", "Y41B", 3, 2, 0, 1, ""},           {"422", "Y42B", 3, 1, 0, 1, ""},
    {"444", "Y444", 3, 0, 0, 1, ""},           {"mono", "GRAY8", 1, 0, 0, 1, ""},
    {"mono16", "GRAY16_LE", 1, 0, 0, 2, ""},   {"420p10", "I420_10LE", 3, 1, 1, 2, ""},
    {"422p10", "I422_10LE", 3, 1, 0, 2, ""},   {"444p10", "Y444_10LE", 3, 0, 0, 2, ""},
    {"420p12", "I420_12LE", 3, 1, 1, 2, ""},   {"422p12", "I422_12LE", 3, 1, 0, 2, ""},
    {"444p12", "Y444_12LE", 3, 0, 0, 2, ""},
};

const Space* space_of_gst(std::string_view gst) {
  const auto* found =
      std::find_if(std::begin(kSpaces), std::end(kSpaces), [&](const Space& s) { return s.gst == gst; });
  return found == std::end(kSpaces) ? nullptr : found;
}

const Space* space_of_y4m(std::string_view y4m) {
  const auto* found =
      std::find_if(std::begin(kSpaces), std::end(kSpaces), [&](const Space& s) { return s.y4m == y4m; });
  return found == std::end(kSpaces) ? nullptr : found;
}

tl::unexpected<Error> not_in_y4m(const std::string& format) {
  return fail(Code::kUnsupported,
              "Y4M has no video in the format \"" + base::printable(format) +
                  "\": convert it to I420, Y42B, Y444 or GRAY8 (videoconvert), or use --format raw");
}

tl::unexpected<Error> wrong_header(std::string_view field, std::string_view expected) {
  return fail(Code::kProtocol,
              fmt::format("the Y4M header has \"{}\" where {} was expected", base::printable(field, 40), expected));
}

void add_extent(std::vector<Extent>& extents, std::uint64_t offset, std::uint64_t size) {
  if (!extents.empty() && extents.back().offset + extents.back().size == offset) {
    extents.back().size += size;
  } else {
    extents.push_back({offset, size});
  }
}

std::uint64_t total(const std::vector<Extent>& extents) {
  return std::accumulate(extents.begin(), extents.end(), std::uint64_t{0},
                         [](std::uint64_t sum, const Extent& extent) { return sum + extent.size; });
}

std::uint64_t end_of(const std::vector<Extent>& extents) {
  std::uint64_t end = 0;
  for (const Extent& extent : extents) end = std::max(end, extent.offset + extent.size);
  return end;
}

/// The fields of a header, as far as a lane wants them.
struct Header {
  std::uint64_t width = 0;
  std::uint64_t height = 0;
  Rate rate;
  Rate aspect;
  char interlacing = 'p';
  const Space* space = space_of_y4m("420jpeg");
};

// "30:1"; 0:0 is nothing known.
Result<Rate> ratio_of(std::string_view field) {
  const std::string_view text = field.substr(1);
  const std::size_t colon = text.find(':');
  if (colon == std::string_view::npos) return wrong_header(field, "a ratio like F30:1");
  const auto n = parse_number(text.substr(0, colon), kMostRate);
  const auto d = parse_number(text.substr(colon + 1), kMostRate);
  if (!n || !d || (*n != 0 && *d == 0)) return wrong_header(field, "a ratio like F30:1");
  if (*n == 0) return Rate{};
  const std::uint64_t common = std::gcd(*n, *d);
  return Rate{static_cast<int>(*n / common), static_cast<int>(*d / common)};
}

Result<void> take_side(std::string_view field, std::uint64_t& side) {
  const auto value = parse_number(field.substr(1), kMostPixels);
  if (!value || *value == 0) return wrong_header(field, fmt::format("a size from 1 to {}", kMostPixels));
  side = *value;
  return {};
}

Result<void> take_ratio(std::string_view field, Rate& into) {
  const auto ratio = ratio_of(field);
  if (!ratio) return tl::unexpected(ratio.error());
  into = *ratio;
  return {};
}

Result<void> take_field(std::string_view field, Header& header) {
  switch (field.front()) {
    case 'W':
      return take_side(field, header.width);
    case 'H':
      return take_side(field, header.height);
    case 'F':
      return take_ratio(field, header.rate);
    case 'A':
      return take_ratio(field, header.aspect);
    case 'I':
      header.interlacing = field.size() == 2 ? field[1] : ' ';
      if (std::string_view("ptbm?").find(header.interlacing) == std::string_view::npos) {
        return wrong_header(field, "Ip, It, Ib, Im or I?");
      }
      return {};
    case 'C':
      header.space = space_of_y4m(field.substr(1));
      if (header.space != nullptr) return {};
      return fail(Code::kUnsupported, fmt::format("the Y4M header names the colour space \"{}\", which no lane's caps "
                                                  "can name; convert it to 420, 422, 444 or mono",
                                                  base::printable(field.substr(1), 40)));
    default:
      return {};  // X: comments of applications
  }
}

Result<Header> parse_header(std::string_view line) {
  Header header;
  line.remove_prefix(std::min(line.size(), kMagic.size()));
  while (!line.empty()) {
    line.remove_prefix(std::min(line.find_first_not_of(' '), line.size()));
    const std::string_view field = line.substr(0, line.find(' '));
    line.remove_prefix(field.size());
    if (field.empty()) continue;
    if (auto taken = take_field(field, header); !taken) return tl::unexpected(taken.error());
  }
  if (header.width == 0 || header.height == 0) {
    return fail(Code::kProtocol, "the Y4M header lacks the width (W…) or the height (H…)");
  }
  return header;
}

std::string caps_of(const Header& header) {
  format::VideoFormat video;
  video.format = std::string(header.space->gst);
  video.width = static_cast<int>(header.width);
  video.height = static_cast<int>(header.height);
  video.fps_n = header.rate.n;
  video.fps_d = header.rate.d;
  const bool fields = header.interlacing == 't' || header.interlacing == 'b';
  if (fields) video.interlace_mode = "interleaved";
  if (header.interlacing == 'm') video.interlace_mode = "mixed";
  std::string caps = video.to_caps();
  if (fields) {
    caps += fmt::format(", field-order=(string){}-field-first", header.interlacing == 't' ? "top" : "bottom");
  }
  if (header.aspect.n != 0) {
    caps += fmt::format(", pixel-aspect-ratio=(fraction){}/{}", header.aspect.n, header.aspect.d);
  }
  if (!header.space->chroma_site.empty()) caps += fmt::format(", chroma-site=(string){}", header.space->chroma_site);
  return caps;
}

// Up to the end of the line, which is taken but not returned; what came instead when it is too long or ends.
Result<std::string> read_line(ByteSource& source, std::size_t most) {
  std::string line;
  while (line.size() <= most) {
    std::byte letter{};
    const auto got = source.read({&letter, 1});
    if (!got) return tl::unexpected(got.error());
    if (*got == 0)
      return fail(Code::kProtocol,
                  fmt::format("{} ends at byte {}, in a line of Y4M's", source.name(), source.position()));
    if (letter == std::byte{'\n'}) return line;
    line += static_cast<char>(letter);
  }
  return fail(Code::kProtocol, fmt::format("{} has a line of more than {} bytes before byte {}, too long for Y4M",
                                           source.name(), most, source.position()));
}

class Y4mReader final : public FrameReader {
 public:
  Y4mReader(ByteSource source, StreamInfo info, std::vector<Extent> extents)
      : FrameReader(std::move(source), std::move(info)), extents_(std::move(extents)), bytes_(total(extents_)) {}

  Result<FrameRead> next(std::span<std::byte> into) override {
    const auto there = read_frame_line();
    if (!there) return tl::unexpected(there.error());
    if (!*there) return FrameRead{};
    const auto got = source_.read_pieces(pieces_of(into.data(), extents_, pieces_));
    if (!got) return tl::unexpected(got.error());
    if (*got != bytes_) return truncated(fmt::format("frame {}", frames_), bytes_ - *got, bytes_);
    ++frames_;
    return FrameRead{static_cast<std::size_t>(info_.frame_size), 1};
  }

 private:
  // False at the end of the file.
  Result<bool> read_frame_line() {
    std::array<char, 6> start{};
    const auto got = source_.read(std::as_writable_bytes(std::span(start)));
    if (!got) return tl::unexpected(got.error());
    const std::string_view text(start.data(), static_cast<std::size_t>(*got));
    if (text.empty()) return false;
    if (!std::string_view("FRAME").starts_with(text.substr(0, 5))) {
      return damaged(fmt::format("expected the word FRAME before frame {}", frames_));
    }
    if (text.size() < start.size()) return truncated(fmt::format("the line before frame {}", frames_), 6 - *got, 6);
    if (text.back() == '\n') return true;
    if (text.back() != ' ') return damaged(fmt::format("expected the word FRAME before frame {}", frames_));
    const auto rest = read_line(source_, kLongestFrameLine);
    if (!rest) return tl::unexpected(rest.error());
    return true;
  }

  std::vector<Extent> extents_;
  std::uint64_t bytes_;  // of a frame in the file
  std::vector<iovec> pieces_;
};

class Y4mWriter final : public FrameWriter {
 public:
  Y4mWriter(ByteSink sink, format::VideoFormat video) : FrameWriter(std::move(sink)), video_(std::move(video)) {}

  Result<void> start(const std::string& header) { return sink_.write(header); }

  Result<void> set_layout(const format::PlaneLayout& layout) override {
    auto extents = picture_extents(video_, layout);
    if (!extents) return tl::unexpected(extents.error());
    extents_ = std::move(*extents);
    needed_ = end_of(extents_);
    return {};
  }

 private:
  Result<void> put(std::span<const std::byte> frame) override {
    if (frame.size() < needed_) {
      return fail(Code::kProtocol,
                  fmt::format("a frame of {} bytes is too small for its caps, which need {}", frame.size(), needed_));
    }
    static constexpr char kLine[] = {'F', 'R', 'A', 'M', 'E', '\n'};
    static_cast<void>(pieces_of(frame.data(), extents_, pieces_));
    pieces_.insert(pieces_.begin(), {const_cast<char*>(kLine), sizeof kLine});  // NOLINT: writev only reads it
    return sink_.write_pieces(pieces_);
  }

  format::VideoFormat video_;
  std::vector<Extent> extents_;
  std::uint64_t needed_ = 0;  // bytes of a frame in the lane
  std::vector<iovec> pieces_;
};

}  // namespace

Result<std::vector<Extent>> picture_extents(const format::VideoFormat& video, const format::PlaneLayout& layout) {
  const Space* const space = space_of_gst(video.format);
  if (space == nullptr) return not_in_y4m(video.format);
  // An extent a row; a lane's caps may say any height.
  if (static_cast<std::uint64_t>(video.height) > kMostPixels) {
    return fail(Code::kUnsupported,
                fmt::format("Y4M is written with at most {} rows, and the video has {}: use --format raw", kMostPixels,
                            video.height));
  }
  const auto planes = format::planes(video, layout);
  if (!planes) return tl::unexpected(planes.error());
  std::vector<Extent> extents;
  for (std::size_t plane = 0; plane < space->planes; ++plane) {
    const unsigned h = plane == 0 ? 0 : space->h;
    const unsigned v = plane == 0 ? 0 : space->v;
    const std::uint64_t row = ((static_cast<std::uint64_t>(video.width) + (1u << h) - 1) >> h) * space->bytes;
    const std::uint64_t rows = (static_cast<std::uint64_t>(video.height) + (1u << v) - 1) >> v;
    const auto [offset, stride, all_rows] = (*planes)[plane];
    if (stride < row) return fail(Code::kProtocol, "the producer described rows that overlap");
    for (std::uint64_t y = 0; y < rows; ++y) add_extent(extents, offset + y * stride, row);
  }
  return extents;
}

Result<std::string> y4m_caps(std::string_view header) {
  const auto parsed = parse_header(header);
  if (!parsed) return tl::unexpected(parsed.error());
  return caps_of(*parsed);
}

Result<std::string> y4m_header(std::string_view caps) {
  const auto video = format::VideoFormat::parse(caps);
  if (!video) return tl::unexpected(video.error());
  const Space* space = space_of_gst(video->format);
  if (space == nullptr) return not_in_y4m(video->format);
  const std::string site = caps_field(caps, "chroma-site");
  for (const Space& other : kSpaces) {
    if (other.gst == video->format && !site.empty() && other.chroma_site == site) space = &other;
  }
  char interlacing = 'p';
  if (video->interlace_mode == "interleaved") {
    interlacing = caps_field(caps, "field-order") == "bottom-field-first" ? 'b' : 't';
  } else if (!video->interlace_mode.empty()) {
    interlacing = 'm';
  }
  std::string aspect = caps_field(caps, "pixel-aspect-ratio");
  std::replace(aspect.begin(), aspect.end(), '/', ':');
  if (aspect.empty() || aspect.find_first_not_of("0123456789:") != std::string::npos) aspect = "0:0";
  return fmt::format("{} W{} H{} F{}:{} I{} A{} C{}\n", kMagic, video->width, video->height, video->fps_n,
                     video->fps_n == 0 ? 0 : video->fps_d, interlacing, aspect, space->y4m);
}

Result<std::unique_ptr<FrameReader>> open_y4m_reader(ByteSource source, const ReadOptions& options) {
  const auto line = read_line(source, kLongestHeader);
  if (!line) return tl::unexpected(line.error());
  if (!line->starts_with(kMagic)) {
    return fail(Code::kProtocol, source.name() + " is no Y4M: it doesn't start with YUV4MPEG2");
  }
  auto header = parse_header(*line);
  if (!header) return tl::unexpected(header.error());
  if (options.fps.n != 0) header->rate = options.fps;
  const std::string caps = caps_of(*header);
  const auto video = format::VideoFormat::parse(caps);
  if (!video) return tl::unexpected(video.error());
  const auto size = video->frame_size();
  if (!size) return tl::unexpected(size.error());
  if (auto fits = check_frame_size(*size, options); !fits) return tl::unexpected(fits.error());
  auto extents = picture_extents(*video, {});
  if (!extents) return tl::unexpected(extents.error());
  return std::make_unique<Y4mReader>(std::move(source), StreamInfo{caps, *size, header->rate, 1}, std::move(*extents));
}

Result<std::unique_ptr<FrameWriter>> open_y4m_writer(ByteSink sink, const WriteOptions& options) {
  const auto header = y4m_header(options.caps);
  if (!header) return tl::unexpected(header.error());
  auto video = format::VideoFormat::parse(options.caps);
  if (!video) return tl::unexpected(video.error());
  auto writer = std::make_unique<Y4mWriter>(std::move(sink), std::move(*video));
  if (auto known = writer->set_layout(options.layout); !known) return tl::unexpected(known.error());
  if (auto started = writer->start(*header); !started) return tl::unexpected(started.error());
  return writer;
}

}  // namespace framelane::cli
