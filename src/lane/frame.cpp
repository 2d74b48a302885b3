// SPDX-License-Identifier: MIT
#include "framelane/lane/frame.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <utility>

#include "lane/connection.hpp"
#include "ring/layout.hpp"

namespace framelane {

Frame::Frame(Frame&& other) noexcept { *this = std::move(other); }

Frame& Frame::operator=(Frame&& other) noexcept {
  if (this == &other) return *this;
  release();
  kind_ = std::exchange(other.kind_, Kind::kEmpty);
  slot_ = other.slot_;
  size_ = std::exchange(other.size_, 0);
  side_size_ = std::exchange(other.side_size_, 0);
  seq_ = other.seq_;
  skipped_ = other.skipped_;
  due_ns_ = other.due_ns_;
  publish_ns_ = other.publish_ns_;
  data_ = std::exchange(other.data_, nullptr);
  record_ = std::exchange(other.record_, nullptr);
  connection_ = std::exchange(other.connection_, nullptr);
  if (kind_ == Kind::kInline) std::copy(std::begin(other.inline_words_), std::end(other.inline_words_), inline_words_);
  return *this;
}

std::span<const std::byte> Frame::side_data() const noexcept {
  if (side_size_ == 0) return {};
  return {record_ + sizeof(ring::MetaRecord), side_size_};
}

format::FrameInfo Frame::info() const noexcept {
  format::FrameInfo info;
  info.due_ns = due_ns_;
  if (record_ != nullptr) {
    ring::MetaRecord record;
    std::memcpy(&record, record_, sizeof record);
    info.pts = record.pts;
    info.dts = record.dts;
    info.duration = record.duration;
    info.offset = record.offset;
    info.offset_end = record.offset_end;
    info.flags = record.flags;
    info.type_id = record.type_id;
    info.capture_ns = record.capture_ns;
  }
  if (skipped_ != 0) info.flags |= format::kDiscont;
  return info;
}

void Frame::release() noexcept {
  switch (std::exchange(kind_, Kind::kEmpty)) {
    case Kind::kSlot:
      std::exchange(connection_, nullptr)->release(slot_);
      break;
    case Kind::kCopy:
      std::free(const_cast<std::byte*>(record_));
      break;
    case Kind::kInline:
    case Kind::kEmpty:
      break;
  }
  size_ = 0;
  side_size_ = 0;
  data_ = nullptr;
  record_ = nullptr;
}

}  // namespace framelane
