// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string_view>
#include <type_traits>

#include "framelane/framelane.h"
#include "framelane/lane/settings.hpp"

#include "capi/error.hpp"

namespace framelane::capi {

// Sized structs: T as this library knows it, and the caller's of another version, whose first member says its size.

inline constexpr std::size_t kLeastStruct = 8;     // its size and one member
inline constexpr std::size_t kMostStruct = 16384;  // beyond it: nobody has set the size

/// FRAMELANE_OK, or the error that says which struct it is.
framelane_code check_struct(const void* given, const char* name) noexcept;

/// The size that a struct states. It may lie at the end of what can be read, so only these bytes are.
inline std::size_t stated_size(const void* given) noexcept {
  std::uint32_t size = 0;
  std::memcpy(&size, given, sizeof size);
  return size;
}

/// FRAMELANE_UNSUPPORTED when the caller's struct sets members that this library doesn't know.
framelane_code check_surplus(const void* given, std::size_t known, const char* name) noexcept;

/// Puts the caller's members over the defaults in `full`.
template <class T>
framelane_code copy_in(const void* given, T& full, const char* name) noexcept {
  static_assert(std::is_trivially_copyable_v<T>);
  if (const auto code = check_struct(given, name); code != FRAMELANE_OK) return code;
  if (const auto code = check_surplus(given, sizeof full, name); code != FRAMELANE_OK) return code;
  std::memcpy(&full, given, std::min(stated_size(given), sizeof full));
  return FRAMELANE_OK;
}

/// Writes the members that the caller's struct has, and 0 to those that this library doesn't know.
template <class T>
void write_struct(T full, void* given) noexcept {
  static_assert(std::is_trivially_copyable_v<T>);
  const std::size_t size = stated_size(given);
  full.size = static_cast<std::uint32_t>(size);
  std::memcpy(given, &full, std::min(size, sizeof full));
  if (size > sizeof full) std::memset(static_cast<char*>(given) + sizeof full, 0, size - sizeof full);
}
template <class T>
framelane_code copy_out(const T& full, void* given, const char* name) noexcept {
  if (const auto code = check_struct(given, name); code != FRAMELANE_OK) return code;
  write_struct(full, given);
  return FRAMELANE_OK;
}

/// Element `index` of the caller's array of sized structs.
template <class T>
T* element(T* first, std::size_t index) noexcept {
  using Byte = std::conditional_t<std::is_const_v<T>, const std::byte, std::byte>;
  using Any = std::conditional_t<std::is_const_v<T>, const void, void>;
  Any* const at = reinterpret_cast<Byte*>(first) + index * stated_size(first);
  return static_cast<T*>(at);
}

/// Writes `count` results to the caller's array, whose first element states the size of each.
template <class From, class To, class Convert>
void write_each(From from, std::size_t count, To* to, Convert convert) noexcept {
  const std::size_t size = count != 0 ? stated_size(to) : 0;
  for (std::size_t i = 0; i < count; ++i, ++from) {
    To* const one = element(to, i);
    one->size = static_cast<std::uint32_t>(size);
    write_struct(convert(*from), one);
  }
}

/// What an ..._init function does; nothing where `size` can't be.
template <class T>
void init_struct(const T& defaults, T* given, std::size_t size) noexcept {
  if (given == nullptr || size < kLeastStruct || size > kMostStruct) return;
  given->size = static_cast<std::uint32_t>(size);
  write_struct(defaults, given);
}

/// Cuts `text` to what fits with its NUL.
template <std::size_t kSize>
void copy_text(std::string_view text, char (&to)[kSize]) noexcept {
  const std::size_t size = std::min(text.size(), kSize - 1);
  std::memcpy(to, text.data(), size);
  std::memset(to + size, 0, kSize - size);
}

/// As snprintf does: at most `capacity` bytes with the NUL; returns the length of the whole.
std::size_t print_text(std::string_view text, char* to, std::size_t capacity) noexcept;

/// "" for NULL.
inline const char* or_empty(const char* text) noexcept { return text != nullptr ? text : ""; }

/// A timeout of a call.
inline std::chrono::nanoseconds timeout_of(std::int64_t ns) noexcept {
  return std::chrono::nanoseconds(std::max<std::int64_t>(ns, 0));  // FRAMELANE_FOREVER is nanoseconds::max()
}

/// Bytes that a caller wants. More than a process can have stays too much.
inline std::size_t bytes_of(std::uint64_t value) noexcept {
  return static_cast<std::size_t>(std::min<std::uint64_t>(value, std::numeric_limits<std::size_t>::max()));
}

/// Whether `value` is one of an enum's 0 .. last; else the error names the member.
framelane_code check_enum(std::int32_t value, std::int32_t last, const char* name) noexcept;

/// Settings and back: see settings.cpp.
Result<ProducerSettings> to_settings(const char* lane, const framelane_producer_settings* given);
Result<ConsumerSettings> to_settings(const char* lane, const framelane_consumer_settings* given);
Result<framelane_rpc_settings> to_settings(const framelane_rpc_settings* given);

[[nodiscard]] framelane_upstream default_upstream() noexcept;

inline std::int32_t transport_number(Transport transport) noexcept { return static_cast<std::int32_t>(transport); }

}  // namespace framelane::capi
