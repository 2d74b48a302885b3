// SPDX-License-Identifier: MIT
#include "cli/npy.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

#include <fmt/format.h>

#include "base/text.hpp"
#include "cli/raw_frames.hpp"

namespace framelane::cli {
namespace {

using format::TensorType;

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr std::uint64_t kMostHeader = 65536;
constexpr std::size_t kMostAxes = 32;                            // numpy's own limit
constexpr std::uint64_t kMostElements = std::uint64_t{1} << 62;  // so that bytes can't wrap
constexpr std::size_t kAlignment = 64;

struct TypeRow {
  std::string_view descr;  // without the byte order
  TensorType type;
};
constexpr TypeRow kTypes[] = {
    {"u1", TensorType::kUint8},   {"i1", TensorType::kInt8},    {"b1", TensorType::kUint8},
    {"u2", TensorType::kUint16},  {"i2", TensorType::kInt16},   {"u4", TensorType::kUint32},
    {"i4", TensorType::kInt32},   {"u8", TensorType::kUint64},  {"i8", TensorType::kInt64},
    {"f2", TensorType::kFloat16}, {"f4", TensorType::kFloat32}, {"f8", TensorType::kFloat64},
};

Result<TensorType> type_of(std::string_view descr) {
  const std::string shown = base::printable(descr, 40);
  if (descr.find('O') != std::string_view::npos) {
    return fail(Code::kUnsupported, "the array holds pickled Python objects, which are never read: save numbers");
  }
  const auto* row = std::find_if(std::begin(kTypes), std::end(kTypes),
                                 [&](const TypeRow& r) { return descr.size() == 3 && descr.substr(1) == r.descr; });
  if (row == std::end(kTypes)) {
    return fail(Code::kUnsupported, fmt::format("the array's type \"{}\" is none that a tensor can have: convert it to "
                                                "integers or floating point of at most 8 bytes (astype)",
                                                shown));
  }
  if (descr.front() == '>' && descr.back() != '1') {
    return fail(Code::kUnsupported,
                fmt::format("the array is big-endian (\"{}\"): convert it to little-endian, in numpy "
                            "with a.astype(a.dtype.newbyteorder('<'))",
                            shown));
  }
  if (std::string_view("<>=|").find(descr.front()) == std::string_view::npos) {
    return fail(Code::kProtocol, fmt::format("the array's type \"{}\" has no byte order", shown));
  }
  return row->type;
}

std::string descr_of(TensorType type) {
  const auto* row =
      std::find_if(std::begin(kTypes), std::end(kTypes), [&](const TypeRow& r) { return r.type == type; });
  return (row->descr.back() == '1' ? "|" : "<") + std::string(row->descr);
}

/// The little of Python that stands in a header.
class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  Result<NpyHeader> header() {
    if (!take('{')) return wrong("\"{\"");
    while (!take('}')) {
      const auto key = string();
      if (!key) return tl::unexpected(key.error());
      if (!take(':')) return wrong("\":\"");
      if (auto done = value(*key); !done) return tl::unexpected(done.error());
      if (!take(',') && peek() != '}') return wrong("\",\" or \"}\"");
    }
    if (peek() != '\0') return wrong("the end of the header");
    if (!has_descr_ || !has_order_ || !has_shape_) {
      return fail(Code::kProtocol, "the NPY header lacks \"descr\", \"fortran_order\" or \"shape\"");
    }
    return header_;
  }

 private:
  // Past spaces; NUL at the end.
  char peek() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n')) ++at_;
    return at_ < text_.size() ? text_[at_] : '\0';
  }
  bool take(char letter) {
    const bool there = peek() == letter && at_ < text_.size();
    at_ += there ? 1 : 0;
    return there;
  }
  bool take_word(std::string_view word) {
    peek();
    const bool there = text_.substr(at_).starts_with(word);
    at_ += there ? word.size() : 0;
    return there;
  }

  tl::unexpected<Error> wrong(const std::string& expected) {
    return fail(Code::kProtocol, fmt::format("the NPY header has \"{}\" where {} was expected",
                                             base::printable(text_.substr(std::min(at_, text_.size())), 24), expected));
  }

  Result<std::string> string() {
    const char quote = peek();
    if (quote != '\'' && quote != '"') return wrong("a word in quotes");
    const std::size_t end = text_.find(quote, at_ + 1);
    if (end == std::string_view::npos) return wrong("a word in quotes");
    std::string word(text_.substr(at_ + 1, end - at_ - 1));
    at_ = end + 1;
    return word;
  }

  Result<void> value(const std::string& key) {
    if (key == "descr") return descr();
    if (key == "fortran_order") return order();
    if (key == "shape") return shape();
    return fail(Code::kProtocol, "the NPY header has an unknown field \"" + base::printable(key, 40) + "\"");
  }

  Result<void> descr() {
    if (peek() == '[') {
      return fail(Code::kUnsupported, "the array has structured elements: save its fields one by one");
    }
    const auto word = string();
    if (!word) return tl::unexpected(word.error());
    const auto type = type_of(*word);
    if (!type) return tl::unexpected(type.error());
    header_.type = *type;
    has_descr_ = true;
    return {};
  }

  Result<void> order() {
    header_.fortran_order = take_word("True");
    if (!header_.fortran_order && !take_word("False")) return wrong("True or False");
    has_order_ = true;
    return {};
  }

  Result<void> shape() {
    if (!take('(')) return wrong("a shape like (3, 4)");
    header_.shape.clear();
    while (!take(')')) {
      peek();
      const std::size_t end = std::min(text_.find_first_not_of("0123456789", at_), text_.size());
      const auto number = parse_number(text_.substr(at_, end - at_), kMostElements);
      if (!number) return wrong("a number of at most 2^62 in the shape");
      if (header_.shape.size() == kMostAxes) return wrong("a shape of at most 32 numbers");
      at_ = end;
      header_.shape.push_back(*number);
      if (!take(',') && peek() != ')') return wrong("\",\" or \")\"");
    }
    has_shape_ = true;
    return {};
  }

  std::string_view text_;
  std::size_t at_ = 0;
  NpyHeader header_;
  bool has_descr_ = false;
  bool has_order_ = false;
  bool has_shape_ = false;
};

Result<std::string> read_text(ByteSource& source, std::size_t bytes) {
  std::string text(bytes, '\0');
  const auto got = source.read(std::as_writable_bytes(std::span(text)));
  if (!got) return tl::unexpected(got.error());
  if (*got == bytes) return text;
  return fail(Code::kProtocol, fmt::format("{} ends at byte {}, in the NPY header: {} of {} bytes are missing",
                                           source.name(), source.position(), bytes - *got, bytes));
}

Result<NpyHeader> read_header(ByteSource& source) {
  const auto start = read_text(source, 8);
  if (!start) return tl::unexpected(start.error());
  if (!start->starts_with(kMagic))
    return fail(Code::kProtocol, source.name() + " is no NPY: it doesn't start with \\x93NUMPY");
  const int version = static_cast<unsigned char>((*start)[6]);
  if (version < 1 || version > 3) {
    return fail(Code::kUnsupported, fmt::format("{} is NPY of version {}; 1 to 3 are read", source.name(), version));
  }
  const auto length = read_text(source, version == 1 ? 2 : 4);
  if (!length) return tl::unexpected(length.error());
  std::uint64_t bytes = 0;
  for (std::size_t i = 0; i < length->size(); ++i) {
    bytes |= std::uint64_t{static_cast<unsigned char>((*length)[i])} << (8 * i);
  }
  if (bytes > kMostHeader) {
    return fail(Code::kProtocol,
                fmt::format("{} has an NPY header of {} bytes; at most {} can be", source.name(), bytes, kMostHeader));
  }
  const auto text = read_text(source, static_cast<std::size_t>(bytes));
  if (!text) return tl::unexpected(text.error());
  return parse_npy_header(*text);
}

// Axes of one frame, outermost first, as a tensor.
Result<format::Tensor> tensor_of(TensorType type, std::span<const std::uint64_t> axes) {
  format::Tensor tensor{type, {}};
  std::uint64_t elements = 1;
  for (auto axis = axes.rbegin(); axis != axes.rend(); ++axis) {
    if (*axis == 0) return fail(Code::kUnsupported, "the array has an axis of length 0, so there is no frame to send");
    if (*axis > std::numeric_limits<std::uint32_t>::max() || elements > kMostElements / 8 / *axis) {
      return fail(Code::kTooLarge,
                  fmt::format("an axis of length {} makes a frame larger than a lane can carry", *axis));
    }
    elements *= *axis;
    tensor.dimensions.push_back(static_cast<std::uint32_t>(*axis));
  }
  if (tensor.dimensions.empty()) tensor.dimensions.push_back(1);
  if (tensor.dimensions.size() > 16) {
    return fail(Code::kUnsupported, "a frame of more than 16 axes is none that a tensor can have: reshape the array");
  }
  return tensor;
}

class NpyReader final : public FrameReader {
 public:
  NpyReader(ByteSource source, StreamInfo info, std::uint64_t count)
      : FrameReader(std::move(source), std::move(info)), count_(count) {}

  Result<FrameRead> next(std::span<std::byte> into) override {
    if (frames_ == count_) return FrameRead{};
    const auto got = source_.read(into.first(static_cast<std::size_t>(info_.frame_size)));
    if (!got) return tl::unexpected(got.error());
    if (*got != info_.frame_size) {
      return truncated(fmt::format("frame {} of {}", frames_, count_), info_.frame_size - *got, info_.frame_size);
    }
    ++frames_;
    return FrameRead{static_cast<std::size_t>(info_.frame_size), 1};
  }

 private:
  std::uint64_t count_;
};

class NpyWriter final : public FrameWriter {
 public:
  NpyWriter(ByteSink sink, NpyHeader header, std::uint64_t frame_size, bool whole, std::uint64_t promised)
      : FrameWriter(std::move(sink)),
        header_(std::move(header)),
        frame_size_(frame_size),
        whole_(whole),
        promised_(promised) {}

  Result<void> start() { return sink_.write(npy_header(header_)); }

  Result<void> finish() override {
    if (!whole_ && frames_ != promised_) {
      if (!sink_.can_patch()) {
        return fail(
            Code::kProtocol,
            fmt::format("only {} of the {} frames came that the array's header in the pipe says", frames_, promised_));
      }
      header_.shape[0] = frames_;
      const std::string header = npy_header(header_);
      if (auto patched = sink_.patch(0, std::as_bytes(std::span(header))); !patched) return patched;
    }
    return sink_.close();
  }

 private:
  Result<void> put(std::span<const std::byte> frame) override {
    if (frame.size() == frame_size_) return sink_.write(frame);
    return fail(Code::kProtocol,
                fmt::format("a frame of {} bytes doesn't fit its caps, which say {}", frame.size(), frame_size_));
  }

  NpyHeader header_;
  std::uint64_t frame_size_;
  bool whole_;
  std::uint64_t promised_;  // as the header says it now
};

Result<format::Tensor> only_tensor(const std::string& caps) {
  if (!caps.starts_with("other/tensors")) {
    return fail(Code::kUnsupported,
                "NPY holds tensors, and the lane has none: use --format raw, y4m (video) or wav (audio)");
  }
  auto tensors = format::TensorFormat::parse(caps);
  if (!tensors) return tl::unexpected(tensors.error());
  if (tensors->tensors.size() == 1) return std::move(tensors->tensors.front());
  return fail(Code::kUnsupported, fmt::format("NPY holds one tensor a frame, and the lane has {}: use --format raw",
                                              tensors->tensors.size()));
}

}  // namespace

Result<NpyHeader> parse_npy_header(std::string_view text) { return Parser(text).header(); }

std::string npy_header(const NpyHeader& header) {
  std::string shape;
  for (const std::uint64_t axis : header.shape) shape += fmt::format("{}, ", axis);
  if (header.shape.size() > 1) shape.resize(shape.size() - 2);
  if (header.shape.size() == 1) shape.resize(shape.size() - 1);  // Python's tuple of one: (3,)
  std::string text = fmt::format("{{'descr': '{}', 'fortran_order': {}, 'shape': ({}), }}", descr_of(header.type),
                                 header.fortran_order ? "True" : "False", shape);
  // Room for the longest number, so that the frames that are counted at last fit in.
  const std::size_t first = header.shape.empty() ? 0 : std::to_string(header.shape.front()).size();
  const std::size_t start = kMagic.size() + 4;
  const std::size_t longest = start + text.size() + 20 - first + 1;
  const std::size_t whole = (longest + kAlignment - 1) / kAlignment * kAlignment;
  text.resize(whole - start - 1, ' ');
  text += '\n';
  std::string all(kMagic);
  all += '\1';
  all += '\0';
  all += static_cast<char>(text.size() & 0xff);
  all += static_cast<char>(text.size() >> 8);
  return all + text;
}

Result<std::unique_ptr<FrameReader>> open_npy_reader(ByteSource source, const ReadOptions& options) {
  auto header = read_header(source);
  if (!header) return tl::unexpected(header.error());
  if (header->fortran_order && header->shape.size() > 1) {
    return fail(Code::kUnsupported, "the array is in Fortran's order: save numpy.ascontiguousarray() of it");
  }
  const bool one = options.whole || header->shape.empty();
  const std::uint64_t count = one ? 1 : header->shape.front();
  auto tensor = tensor_of(header->type, std::span<const std::uint64_t>(header->shape).subspan(one ? 0 : 1));
  if (!tensor) return tl::unexpected(tensor.error());
  const auto size = tensor->size();
  if (!size) return tl::unexpected(size.error());
  if (auto fits = check_frame_size(*size, options); !fits) return tl::unexpected(fits.error());
  const format::TensorFormat tensors{{std::move(*tensor)}, options.fps.n, options.fps.d};
  return std::make_unique<NpyReader>(std::move(source), StreamInfo{tensors.to_caps(), *size, options.fps, 1}, count);
}

Result<std::unique_ptr<FrameWriter>> open_npy_writer(ByteSink sink, const WriteOptions& options) {
  const auto tensor = only_tensor(options.caps);
  if (!tensor) return tl::unexpected(tensor.error());
  const auto size = tensor->size();
  if (!size) return tl::unexpected(size.error());
  if (!options.whole && options.frames == 0 && !sink.can_patch()) {
    return fail(Code::kUnsupported,
                "an NPY header says how many frames follow, and in a pipe it can't be mended at the "
                "end: use --frames N, or a file");
  }
  NpyHeader header{tensor->type, false, {}};
  if (!options.whole) header.shape.push_back(options.frames);
  for (auto axis = tensor->dimensions.rbegin(); axis != tensor->dimensions.rend(); ++axis)
    header.shape.push_back(*axis);
  auto writer = std::make_unique<NpyWriter>(std::move(sink), std::move(header), *size, options.whole, options.frames);
  if (auto started = writer->start(); !started) return tl::unexpected(started.error());
  return writer;
}

}  // namespace framelane::cli
