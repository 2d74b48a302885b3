// SPDX-License-Identifier: MIT
#include <algorithm>
#include <charconv>
#include <optional>
#include <utility>

#include "framelane/format/caps.hpp"

#include "base/text.hpp"
#include "format/caps_text.hpp"

namespace framelane::format {
namespace {

constexpr std::string_view kExample =
    "other/tensors, format=(string)static, num_tensors=(int)1, types=(string)float32, dimensions=(string)3:640:480, "
    "framerate=(fraction)30/1";
constexpr std::size_t kMaxTensors = 256;  // NNStreamer's limits
constexpr std::size_t kMaxRank = 16;
constexpr std::size_t kMaxName = 63;
constexpr std::uint64_t kMaxBytes = std::uint64_t{1} << 63;

struct TypeRow {
  std::string_view name;
  std::uint32_t bytes;
};
// Indexed by TensorType.
constexpr TypeRow kTypes[] = {{"int32", 4},   {"uint32", 4},  {"int16", 2}, {"uint16", 2}, {"int8", 1},   {"uint8", 1},
                              {"float64", 8}, {"float32", 4}, {"int64", 8}, {"uint64", 8}, {"float16", 2}};

/// The parts of a list, empty ones too.
std::vector<std::string_view> split(std::string_view text, std::string_view separators) {
  std::vector<std::string_view> parts;
  while (true) {
    const std::size_t end = text.find_first_of(separators);
    std::string_view part = text.substr(0, end);
    while (!part.empty() && part.front() == ' ') part.remove_prefix(1);
    while (!part.empty() && part.back() == ' ') part.remove_suffix(1);
    parts.push_back(part);
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

std::optional<TensorType> type_of(std::string_view name) noexcept {
  const auto* row =
      std::find_if(std::begin(kTypes), std::end(kTypes), [&](const TypeRow& r) { return r.name == name; });
  if (row == std::end(kTypes)) return std::nullopt;
  return static_cast<TensorType>(row - std::begin(kTypes));
}

/// "3:640:480"; empty when it is not that.
std::vector<std::uint32_t> dimensions_of(std::string_view text) {
  std::vector<std::uint32_t> dimensions;
  for (const std::string_view part : split(text, ":")) {
    std::uint32_t value = 0;
    const auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), value);
    const bool whole = error == std::errc{} && end == part.data() + part.size();
    if (!whole || value == 0 || dimensions.size() == kMaxRank) return {};
    dimensions.push_back(value);
  }
  return dimensions;
}

Result<std::vector<TensorType>> parse_types(const Caps& caps) {
  const auto text = caps.string("types");
  if (!text) return tl::unexpected(text.error());
  std::vector<TensorType> types;
  for (const std::string_view name : split(*text, ",.")) {
    const auto type = type_of(name);
    if (!type) {
      return caps.refuse(
          Code::kInvalidArgument, "types",
          "expected element types such as uint8 or float32, found \"" + base::printable(name, 32) + "\"");
    }
    types.push_back(*type);
  }
  if (types.size() <= kMaxTensors) return types;
  return caps.refuse(Code::kInvalidArgument, "types", "expected at most 256 tensors");
}

Result<std::vector<Tensor>> parse_tensors(const Caps& caps) {
  const auto types = parse_types(caps);
  if (!types) return tl::unexpected(types.error());
  const auto text = caps.string("dimensions");
  if (!text) return tl::unexpected(text.error());
  const auto parts = split(*text, ",.");
  if (parts.size() != types->size()) {
    return caps.refuse(
        Code::kInvalidArgument, "dimensions",
        "expected the dimensions of " + std::to_string(types->size()) + " tensors, as many as \"types\" has");
  }
  std::vector<Tensor> tensors;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    auto dimensions = dimensions_of(parts[i]);
    if (dimensions.empty()) {
      return caps.refuse(
          Code::kInvalidArgument, "dimensions",
          "expected 1 to 16 numbers from 1 on such as 3:640:480, found \"" + base::printable(parts[i], 32) + "\"");
    }
    tensors.push_back({(*types)[i], std::move(dimensions)});
  }
  return tensors;
}

bool is_name(std::string_view text) noexcept {
  const auto fits = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
  };
  return text.size() <= kMaxName && std::all_of(text.begin(), text.end(), fits);
}

/// A field of ours, which NNStreamer doesn't have: tensors may be found by name.
Result<void> parse_names(const Caps& caps, std::vector<Tensor>& tensors) {
  if (!caps.has("names")) return {};
  const auto text = caps.string("names");
  if (!text) return tl::unexpected(text.error());
  const auto names = split(*text, ",.");
  if (names.size() != tensors.size()) {
    return caps.refuse(
        Code::kInvalidArgument, "names",
        "expected the names of " + std::to_string(tensors.size()) + " tensors, as many as \"types\" has");
  }
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (!is_name(names[i])) {
      return caps.refuse(
          Code::kInvalidArgument, "names",
          "expected names of at most 63 letters, digits, _ and -, found \"" + base::printable(names[i], 32) + "\"");
    }
    tensors[i].name = names[i];
  }
  return {};
}

Result<void> check_kind(const Caps& caps) {
  if (auto done = caps.expect("other/tensors"); !done) return done;
  if (!caps.has("format")) return {};  // static is NNStreamer's default
  const auto format = caps.string("format");
  if (!format) return tl::unexpected(format.error());
  if (*format == "static") return {};
  if (*format == "flexible" || *format == "sparse") {
    return caps.refuse(Code::kUnsupported, "format", "the sizes of " + *format + " tensors are not in their caps");
  }
  return caps.refuse(Code::kInvalidArgument, "format", "expected \"static\" for \"format\"");
}

}  // namespace

std::string_view to_string(TensorType type) noexcept {
  const auto index = static_cast<std::size_t>(type);
  return index < std::size(kTypes) ? kTypes[index].name : "unknown";
}

std::uint32_t size_of(TensorType type) noexcept {
  const auto index = static_cast<std::size_t>(type);
  return index < std::size(kTypes) ? kTypes[index].bytes : 0;
}

Result<std::uint64_t> Tensor::size() const {
  if (dimensions.empty() || size_of(type) == 0) {
    return fail(Code::kInvalidArgument, "a tensor needs a type and at least one dimension");
  }
  std::uint64_t bytes = size_of(type);
  for (const std::uint32_t dimension : dimensions) {
    if (dimension == 0) return fail(Code::kInvalidArgument, "a tensor's dimensions are numbers from 1 on");
    if (bytes > kMaxBytes / dimension) return fail(Code::kTooLarge, "a tensor has more than 2^63 bytes");
    bytes *= dimension;
  }
  return bytes;
}

Result<TensorFormat> TensorFormat::parse(std::string_view text) {
  const auto caps = Caps::parse(text, kExample);
  if (!caps) return tl::unexpected(caps.error());
  if (auto done = check_kind(*caps); !done) return tl::unexpected(std::move(done.error()));
  auto tensors = parse_tensors(*caps);
  if (!tensors) return tl::unexpected(std::move(tensors.error()));
  if (caps->has("num_tensors")) {
    const auto count = caps->positive("num_tensors");
    if (!count) return tl::unexpected(count.error());
    if (static_cast<std::size_t>(*count) != tensors->size()) {
      return caps->refuse(Code::kInvalidArgument, "num_tensors",
                          "expected " + std::to_string(tensors->size()) + ", as many as \"types\" has");
    }
  }
  if (auto done = parse_names(*caps, *tensors); !done) return tl::unexpected(std::move(done.error()));
  const auto rate = caps->fraction("framerate");
  if (!rate) return tl::unexpected(rate.error());
  return TensorFormat{std::move(*tensors), rate->n, rate->d};
}

std::string TensorFormat::to_caps() const {
  std::string types;
  std::string dimensions;
  std::string names;
  bool named = false;
  for (const Tensor& tensor : tensors) {
    if (&tensor != tensors.data()) names += ',';
    names += tensor.name;
    named = named || !tensor.name.empty();
    if (!types.empty()) types += ',';
    types += to_string(tensor.type);
    if (!dimensions.empty()) dimensions += ',';
    for (std::size_t i = 0; i < tensor.dimensions.size(); ++i) {
      dimensions += (i == 0 ? "" : ":") + std::to_string(tensor.dimensions[i]);
    }
  }
  return "other/tensors, format=(string)static, num_tensors=(int)" + std::to_string(tensors.size()) +
         ", types=(string)" + caps_value(types) + ", dimensions=(string)" + caps_value(dimensions) +
         (named ? ", names=(string)" + caps_value(names) : "") + ", framerate=(fraction)" + std::to_string(fps_n) +
         "/" + std::to_string(fps_d);
}

Result<std::uint64_t> TensorFormat::frame_size() const {
  if (tensors.empty()) return fail(Code::kInvalidArgument, "a tensor frame needs at least one tensor");
  std::uint64_t total = 0;
  for (const Tensor& tensor : tensors) {
    const auto size = tensor.size();
    if (!size) return size;
    if (*size > kMaxBytes - total) return fail(Code::kTooLarge, "a tensor frame has more than 2^63 bytes");
    total += *size;
  }
  return total;
}

}  // namespace framelane::format
