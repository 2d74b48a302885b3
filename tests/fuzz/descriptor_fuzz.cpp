// SPDX-License-Identifier: MIT
// Any text is refused with a sentence, or is a descriptor whose printed form is the same one.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "framelane/descriptor/descriptor.hpp"

#include "fuzz/property.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using framelane::descriptor::Descriptor;
  using framelane::descriptor::Side;
  if (size == 0) return 0;
  const Side side = data[0] % 2 == 0 ? Side::kConsumer : Side::kProducer;
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  const auto parsed = Descriptor::parse(text, side);
  if (!parsed) {
    framelane::fuzz::require(!parsed.error().text.empty() && parsed.error().text.size() < 1000);
    return 0;
  }
  const auto again = Descriptor::parse(parsed->to_string(), side);
  framelane::fuzz::require(again.has_value() && *again == *parsed && again->to_string() == parsed->to_string());
  return 0;
}
