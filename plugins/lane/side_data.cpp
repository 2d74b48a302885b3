// SPDX-License-Identifier: MIT
#include "lane/side_data.hpp"

#include <algorithm>

namespace framelane::gst {
namespace {

constexpr std::uint32_t kMagic = 0x31545347;  // "GST1"

struct Head {
  std::uint32_t kind;
  std::uint32_t size;  // of what follows
};

}  // namespace

void SideWriter::begin(SideKind kind) {
  start_ = bytes_.size();
  if (bytes_.empty()) put(kMagic);
  const Head head{static_cast<std::uint32_t>(kind), 0};
  put_bytes(&head, sizeof head);
}

void SideWriter::put_bytes(const void* data, std::size_t size) {
  const auto* const bytes = static_cast<const std::byte*>(data);
  bytes_.insert(bytes_.end(), bytes, bytes + size);
}

bool SideWriter::end() {
  if (bytes_.size() > room_) {
    bytes_.resize(start_);
    return false;
  }
  const std::size_t head = start_ == 0 ? sizeof kMagic : start_;
  const auto size = static_cast<std::uint32_t>(bytes_.size() - head - sizeof(Head));
  std::memcpy(bytes_.data() + head + offsetof(Head, size), &size, sizeof size);
  return true;
}

bool SideReader::is_ours(std::span<const std::byte> bytes) noexcept {
  return SideFields(bytes).get<std::uint32_t>() == kMagic;
}

SideReader::SideReader(std::span<const std::byte> bytes) noexcept
    : left_(bytes.subspan(std::min(bytes.size(), sizeof kMagic))) {}

Result<std::optional<SideRecord>> SideReader::next() {
  if (left_.empty()) return std::optional<SideRecord>();
  SideFields fields(left_);
  const auto kind = fields.get<std::uint32_t>();
  const auto size_untrusted = fields.get<std::uint32_t>();
  if (!fields.ok() || size_untrusted > fields.left())
    return fail(Code::kProtocol, "the producer sent side data whose record is longer than the side data");
  const auto content = left_.subspan(sizeof(Head), size_untrusted);
  left_ = left_.subspan(sizeof(Head) + size_untrusted);
  return SideRecord{static_cast<SideKind>(kind), content};
}

}  // namespace framelane::gst
