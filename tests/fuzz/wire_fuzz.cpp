// SPDX-License-Identifier: MIT
// Any bytes are refused with a sentence, or are a control message that is encoded to the same message again.
#include <cstddef>
#include <cstdint>
#include <span>

#include "fuzz/property.hpp"
#include "wire/control_message.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace framelane;
  const auto decoded = wire::decode(std::as_bytes(std::span(data, size)));
  if (!decoded) {
    fuzz::require(!decoded.error().text.empty());
    return 0;
  }
  const auto bytes = wire::encode(decoded->message, decoded->number);
  const auto again = wire::decode(bytes);
  fuzz::require(again.has_value() && again->number == decoded->number);
  fuzz::require(wire::encode(again->message, again->number) == bytes);
  return 0;
}
