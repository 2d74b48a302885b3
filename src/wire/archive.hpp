// SPDX-License-Identifier: MIT
#pragma once

#include <array>
#include <bit>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

// Encoder and Decoder have the same functions, so that one list of a message's fields serves both and the two can't
// drift apart. Each function takes the field's name (for the Decoder's error) and the field. A list of fields is a
// function
//
//   template <class Archive, Either<Thing> T> void visit_fields(Archive& archive, T& thing)
namespace framelane::wire {

/// T is U or const U.
template <class T, class U>
concept Either = std::same_as<std::remove_const_t<T>, U>;

/// Appends fields to a buffer: little-endian, packed.
class Encoder {
 public:
  explicit Encoder(std::vector<std::byte>& out) noexcept : out_(out) {}

  template <std::unsigned_integral T>
  void number(std::string_view /*name*/, T value, T /*most*/ = std::numeric_limits<T>::max()) {
    put(value);
  }

  template <class E>
  requires std::is_enum_v<E>
  void choice(std::string_view /*name*/, E value, E /*first*/, E /*last*/) {
    put(static_cast<std::make_unsigned_t<std::underlying_type_t<E>>>(value));
  }

  void flag(std::string_view /*name*/, bool value) { put(static_cast<std::uint8_t>(value)); }

  void rate(std::string_view /*name*/, double value) { put(std::bit_cast<std::uint64_t>(value)); }
  void share(std::string_view name, double value) { rate(name, value); }
  void difference(std::string_view /*name*/, std::int64_t value) { put(static_cast<std::uint64_t>(value)); }

  template <std::size_t N>
  void bytes(std::string_view /*name*/, const std::array<std::uint8_t, N>& value) {
    append(std::as_bytes(std::span(value)));
  }

  void text(std::string_view /*name*/, std::string_view value, std::size_t /*most*/) {
    put(static_cast<std::uint32_t>(value.size()));
    append(std::as_bytes(std::span(value)));
  }

  void label(std::string_view name, std::string_view value, std::size_t most) {
    text(name, value.substr(0, most), most);
  }

  template <class T>
  void list(std::string_view /*name*/, const std::vector<T>& values, std::size_t /*most*/) {
    put(static_cast<std::uint32_t>(values.size()));
    for (const T& value : values) visit_fields(*this, value);
  }

 private:
  template <std::unsigned_integral T>
  void put(T value) {
    for (std::size_t i = 0; i < sizeof(T); ++i) out_.push_back(static_cast<std::byte>(value >> (8 * i) & 0xff));
  }
  void append(std::span<const std::byte> bytes) { out_.insert(out_.end(), bytes.begin(), bytes.end()); }

  std::vector<std::byte>& out_;
};

/// Reads fields from bytes that a peer wrote. The first field that is wrong stops it: later ones are left alone, and
/// problem() says what was wrong. Nothing is allocated for bytes that aren't there.
class Decoder {
 public:
  explicit Decoder(std::span<const std::byte> bytes_untrusted) noexcept : left_(bytes_untrusted) {}

  [[nodiscard]] bool ok() const noexcept { return problem_.empty(); }
  [[nodiscard]] std::size_t left() const noexcept { return left_.size(); }
  /// Field and fault, e.g. "sticky[2].text: 4294967295 bytes announced, 12 left".
  [[nodiscard]] const std::string& problem() const noexcept { return problem_; }

  template <std::unsigned_integral T>
  void number(std::string_view name, T& value, T most = std::numeric_limits<T>::max()) {
    T read_untrusted{};
    if (!get(name, read_untrusted)) return;
    if (read_untrusted > most) {
      return reject(name, std::to_string(read_untrusted) + " is more than " + std::to_string(most));
    }
    value = read_untrusted;
  }

  template <class E>
  requires std::is_enum_v<E>
  void choice(std::string_view name, E& value, E first, E last) {
    using Number = std::make_unsigned_t<std::underlying_type_t<E>>;
    Number read_untrusted{};
    if (!get(name, read_untrusted)) return;
    if (read_untrusted < static_cast<Number>(first) || read_untrusted > static_cast<Number>(last)) {
      return reject(name, std::to_string(read_untrusted) + " has no meaning");
    }
    value = static_cast<E>(read_untrusted);
  }

  void flag(std::string_view name, bool& value);
  /// A playback rate: finite and not 0, as every use of it multiplies or divides.
  void rate(std::string_view name, double& value);
  /// Finite and not negative.
  void share(std::string_view name, double& value);
  /// Any signed number.
  void difference(std::string_view name, std::int64_t& value);

  template <std::size_t N>
  void bytes(std::string_view name, std::array<std::uint8_t, N>& value) {
    if (!need(name, N)) return;
    for (std::uint8_t& byte : value) {
      byte = static_cast<std::uint8_t>(left_.front());
      left_ = left_.subspan(1);
    }
  }

  void text(std::string_view name, std::string& value, std::size_t most);
  /// A text for logs and terminals: what isn't printable ASCII becomes '?'.
  void label(std::string_view name, std::string& value, std::size_t most);

  template <class T>
  void list(std::string_view name, std::vector<T>& values, std::size_t most) {
    std::uint32_t count_untrusted = 0;
    if (!get(name, count_untrusted)) return;
    if (count_untrusted > most) {
      return reject(name, std::to_string(count_untrusted) + " elements are more than " + std::to_string(most));
    }
    const std::string outer = prefix_;
    for (std::uint32_t i = 0; i < count_untrusted && ok(); ++i) {
      prefix_ = outer + std::string(name) + '[' + std::to_string(i) + "].";
      visit_fields(*this, values.emplace_back());
    }
    prefix_ = outer;
  }

 private:
  bool need(std::string_view name, std::size_t size);
  void reject(std::string_view name, const std::string& fault);

  template <std::unsigned_integral T>
  bool get(std::string_view name, T& value) {
    if (!need(name, sizeof(T))) return false;
    value = 0;
    for (std::size_t i = 0; i < sizeof(T); ++i) {
      value = static_cast<T>(value | static_cast<T>(static_cast<T>(left_[i]) << (8 * i)));
    }
    left_ = left_.subspan(sizeof(T));
    return true;
  }

  std::span<const std::byte> left_;
  std::string prefix_;
  std::string problem_;
};

}  // namespace framelane::wire
