// SPDX-License-Identifier: MIT
#include "wire/archive.hpp"

#include <algorithm>

namespace framelane::wire {

bool Decoder::need(std::string_view name, std::size_t size) {
  if (!ok()) return false;
  if (left_.size() >= size) return true;
  reject(name, std::to_string(size) + " bytes needed, " + std::to_string(left_.size()) + " left");
  return false;
}

void Decoder::reject(std::string_view name, const std::string& fault) {
  problem_ = prefix_ + std::string(name) + ": " + fault;
}

void Decoder::flag(std::string_view name, bool& value) {
  std::uint8_t read_untrusted = 0;
  if (!get(name, read_untrusted)) return;
  if (read_untrusted > 1) return reject(name, std::to_string(read_untrusted) + " is neither 0 nor 1");
  value = read_untrusted == 1;
}

void Decoder::rate(std::string_view name, double& value) {
  std::uint64_t bits_untrusted = 0;
  if (!get(name, bits_untrusted)) return;
  const auto read_untrusted = std::bit_cast<double>(bits_untrusted);
  if (!std::isfinite(read_untrusted) || read_untrusted == 0.0) {
    return reject(name, std::to_string(read_untrusted) + " is no rate");
  }
  value = read_untrusted;
}

void Decoder::share(std::string_view name, double& value) {
  std::uint64_t bits_untrusted = 0;
  if (!get(name, bits_untrusted)) return;
  const auto read_untrusted = std::bit_cast<double>(bits_untrusted);
  if (!std::isfinite(read_untrusted) || read_untrusted < 0.0) {
    return reject(name, std::to_string(read_untrusted) + " is no share");
  }
  value = read_untrusted;
}

void Decoder::difference(std::string_view name, std::int64_t& value) {
  std::uint64_t read = 0;
  if (get(name, read)) value = static_cast<std::int64_t>(read);
}

void Decoder::text(std::string_view name, std::string& value, std::size_t most) {
  std::uint32_t size_untrusted = 0;
  if (!get(name, size_untrusted)) return;
  if (size_untrusted > left_.size()) {
    return reject(name, std::to_string(size_untrusted) + " bytes announced, " + std::to_string(left_.size()) + " left");
  }
  if (size_untrusted > most) {
    return reject(name, std::to_string(size_untrusted) + " bytes are more than " + std::to_string(most));
  }
  value.assign(reinterpret_cast<const char*>(left_.data()), size_untrusted);
  left_ = left_.subspan(size_untrusted);
}

void Decoder::label(std::string_view name, std::string& value, std::size_t most) {
  text(name, value, most);
  std::replace_if(
      value.begin(), value.end(), [](char c) { return c < 0x20 || c > 0x7e; }, '?');
}

}  // namespace framelane::wire
