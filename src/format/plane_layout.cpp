// SPDX-License-Identifier: MIT
#include "framelane/format/plane_layout.hpp"

#include <string>
#include <utility>

#include "format/caps_text.hpp"

namespace framelane::format {
namespace {

constexpr std::string_view kName = "framelane-layout";
constexpr std::string_view kExample = "framelane-layout, offset=(guint64)< 0, 4096 >, stride=(int)< 64, 32 >";
// Beyond these the sum of an offset and of all rows could wrap.
constexpr std::uint64_t kMostOffset = 0xffffffff;
constexpr std::uint64_t kMostStride = 1u << 24;
constexpr std::uint64_t kMostPadding = (1u << 14) - 1;

tl::unexpected<Error> wrong(const std::string& why) {
  return fail(Code::kProtocol, "the producer sent a layout of planes that can't be read: " + why);
}

Result<void> read_padding(const Caps& fields, std::string_view name, std::uint32_t& to) {
  if (!fields.has(name)) return {};
  const auto value = fields.unsigned_number(name, "uint guint u", kMostPadding);
  if (!value) return wrong("its padding: " + value.error().text);
  to = static_cast<std::uint32_t>(*value);
  return {};
}

Result<void> read_alignment(const Caps& fields, PlaneLayout& layout) {
  for (std::size_t i = 0; i < layout.places.size(); ++i) {
    std::uint32_t& mask = layout.stride_align[i];
    auto read = read_padding(fields, "align" + std::to_string(i), mask);
    if (!read) return read;
    // Who pads by a mask that no stride can fulfil never comes to an end.
    if ((mask & (mask + 1)) != 0) return wrong("its padding: an alignment must be a power of two less 1");
  }
  return {};
}

}  // namespace

Result<PlaneLayout> PlaneLayout::parse(std::string_view text_untrusted) {
  const auto fields = Caps::parse(text_untrusted, kExample);
  if (!fields) return wrong(fields.error().text);
  if (auto named = fields->expect(kName); !named) return wrong(named.error().text);
  const auto offsets = fields->array("offset", "guint64 uint64", kMostOffset);
  if (!offsets) return wrong(offsets.error().text);
  const auto strides = fields->array("stride", "int gint i", kMostStride);
  if (!strides) return wrong(strides.error().text);
  if (offsets->size() != strides->size()) return wrong("it has not as many offsets as strides");
  if (offsets->size() > kMaxPlanes) return wrong("a frame has at most 4 planes");
  PlaneLayout layout;
  for (std::size_t i = 0; i < offsets->size(); ++i) {
    if ((*strides)[i] == 0) return wrong("a stride is at least 1");
    layout.places.push_back({(*offsets)[i], static_cast<std::uint32_t>((*strides)[i])});
  }
  Result<void> read = read_padding(*fields, "top", layout.top);
  if (read) read = read_padding(*fields, "bottom", layout.bottom);
  if (read) read = read_padding(*fields, "left", layout.left);
  if (read) read = read_padding(*fields, "right", layout.right);
  if (read) read = read_alignment(*fields, layout);
  if (!read) return tl::unexpected(std::move(read.error()));
  return layout;
}

}  // namespace framelane::format
