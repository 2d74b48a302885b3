// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string_view>
#include <type_traits>
#include <vector>

#include "framelane/base/result.hpp"

// The bytes of a frame's side data as the elements use it, both directions: a magic word, then records, each with its
// kind and size. Little-endian, as all that a lane shares. metas.hpp says what the records mean.
namespace framelane::gst {

/// Numbers keep their meaning for ever; a reader passes over kinds that it doesn't know.
enum class SideKind : std::uint32_t {
  kMemories = 1,       ///< u32 size of each memory
  kVideo = 2,          ///< u32 flags, u32 id of the GstVideoMeta
  kAudio = 3,          ///< u64 samples, u64 offset of each plane
  kReferenceTime = 4,  ///< u64 timestamp, u64 duration, caps text
  kCrop = 5,           ///< u32 x, y, width, height
  kCustom = 6,         ///< u32 bytes of the name, name, structure text
  kSerialised = 7,     ///< u32 bytes of the type's name, name, what gst_meta_serialize() wrote (GStreamer 1.24)
};

/// Writes records into memory that it keeps, so that later frames need no allocation.
class SideWriter {
 public:
  /// At most `room` bytes in all.
  explicit SideWriter(std::size_t room) : room_(room) {}

  void clear() noexcept { bytes_.clear(); }
  void begin(SideKind kind);
  template <class Number>
  void put(Number number) {
    static_assert(std::is_same_v<Number, std::uint32_t> || std::is_same_v<Number, std::uint64_t>);
    put_bytes(&number, sizeof number);
  }
  void put_bytes(const void* data, std::size_t size);
  void put_text(std::string_view text) { put_bytes(text.data(), text.size()); }
  /// False: there is no room for the record, and it is taken out again.
  [[nodiscard]] bool end();

  /// Empty when there are no records.
  [[nodiscard]] std::span<const std::byte> bytes() const noexcept { return bytes_; }

 private:
  std::size_t room_;
  std::size_t start_ = 0;  // of the record that is being written
  std::vector<std::byte> bytes_;
};

/// The fields of a record, read one after the other; a field that isn't there makes ok() false and is 0.
class SideFields {
 public:
  explicit SideFields(std::span<const std::byte> bytes) : left_(bytes) {}

  template <class Number>
  Number get() {
    Number number{};
    if (const auto bytes = take(sizeof number); !bytes.empty()) std::memcpy(&number, bytes.data(), sizeof number);
    return number;
  }
  std::string_view text(std::size_t size) {
    const auto bytes = take(size);
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }
  [[nodiscard]] std::size_t left() const noexcept { return left_.size(); }
  [[nodiscard]] bool ok() const noexcept { return ok_; }

 private:
  std::span<const std::byte> take(std::size_t size) {
    ok_ = ok_ && size <= left_.size();
    if (!ok_) return {};
    const auto bytes = left_.first(size);
    left_ = left_.subspan(size);
    return bytes;
  }

  std::span<const std::byte> left_;
  bool ok_ = true;
};

struct SideRecord {
  SideKind kind;
  std::span<const std::byte> content;
};

/// Reads what a peer wrote: nothing in it is believed. The bytes must not change meanwhile, so not from shared memory.
class SideReader {
 public:
  /// False: another kind of side data, of an application of the C++ API.
  [[nodiscard]] static bool is_ours(std::span<const std::byte> bytes) noexcept;
  explicit SideReader(std::span<const std::byte> bytes) noexcept;

  /// Empty behind the last record. Errors: kProtocol (a record beyond the end).
  [[nodiscard]] Result<std::optional<SideRecord>> next();

 private:
  std::span<const std::byte> left_;
};

}  // namespace framelane::gst
