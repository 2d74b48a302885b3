// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace framelane::fuzz {

/// The fuzzer's bytes, read as numbers one after the other. At the end come zeros.
class Input {
 public:
  Input(const std::uint8_t* data, std::size_t size) noexcept : data_(data), left_(size) {}

  [[nodiscard]] bool empty() const noexcept { return left_ == 0; }
  template <class T>
  T number() noexcept {
    T value{};
    const std::size_t size = std::min(sizeof value, left_);
    if (size != 0) std::memcpy(&value, data_, size);
    data_ += size;
    left_ -= size;
    return value;
  }

 private:
  const std::uint8_t* data_;
  std::size_t left_;
};

/// Writes any word anywhere into `size` bytes that another process may be reading.
inline void scribble(Input& input, void* bytes, std::size_t size) noexcept {
  const std::size_t at = input.number<std::uint32_t>() % (size / 8);
  __atomic_store_n(static_cast<std::uint64_t*>(bytes) + at, input.number<std::uint64_t>(), __ATOMIC_RELAXED);
}

}  // namespace framelane::fuzz
