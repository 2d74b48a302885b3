// SPDX-License-Identifier: MIT
// A producer that writes anything anywhere into its ring, its records and the consumer's page, between the takes: the
// consumer gets frames that lie within the segment, or one error that says what is wrong. No take goes on for ever.
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "fuzz/input.hpp"
#include "fuzz/property.hpp"
#include "ring/forged_ring.hpp"

namespace {

using namespace framelane;
using namespace framelane::ring;
using fuzz::Input;
using fuzz::require;
using fuzz::scribble;
using Forged = ring::testing::ForgedRing;

class AnyNumber final : public ControlIn {
 public:
  Result<std::uint64_t> apply_up_to(std::uint16_t ctl) override {
    if (ctl >= 0x8000) return fail(Code::kProtocol, "a control message didn't come");
    return ctl;
  }
};

/// Consumer of a forged ring.
class Victim {
 public:
  Victim(Forged& forged, bool latest) : reader_(testing::must(forged.greet(latest))) {
    auto mapping = forged.data();
    begin_ = mapping.data();
    testing::must(reader_->add_segment(Forged::kSpec, std::move(mapping)));
  }

  /// False after the error that ends a connection.
  bool take() {
    testing::Got taken;
    const auto polled = reader_->poll(taken, control_);
    if (!polled) {
      require(!polled.error().text.empty());
      return false;
    }
    if (*polled == Reader::Step::kTaken && !taken.marker) check(taken);
    return true;
  }
  void release_oldest() {
    if (held_.empty()) return;
    reader_->release(held_.front());
    held_.erase(held_.begin());
  }
  void leave() {
    while (!held_.empty()) release_oldest();
    require(reader_->held() == 0);
    require(reader_->leave());
  }

 private:
  void check(const testing::Got& taken) {
    require(taken.index < reader_->next_index());
    if (taken.is_inline) return require(taken.size <= kInlineBytes);
    require(taken.slot < Forged::kSpec.slot_count && taken.size <= Forged::kSpec.slot_size);
    require(taken.data == begin_ + Forged::kSpec.slots_offset + taken.slot * Forged::kSpec.slot_stride);
    require(taken.side_data <= Forged::kSpec.record_stride - sizeof(MetaRecord));
    for (const std::uint16_t slot : held_) require(slot != taken.slot);
    held_.push_back(taken.slot);
    require(reader_->held() == held_.size());
  }

  AnyNumber control_;
  std::unique_ptr<Reader> reader_;
  const std::byte* begin_ = nullptr;  // of the data segment
  std::vector<std::uint16_t> held_;
};

void act(Input& input, Forged& forged, std::uint64_t& seq) {
  switch (input.number<std::uint8_t>() % 6) {
    case 0:  // what a producer would do
      forged.publish(seq++, kTagInline, 8, 0);
      break;
    case 1:
      forged.publish(seq++, 0, input.number<std::uint16_t>() % 5000, input.number<std::uint8_t>() % 10);
      break;
    case 2: {
      const auto flags = input.number<std::uint16_t>();
      const auto size = input.number<std::uint32_t>();
      const auto slot = input.number<std::uint16_t>();
      forged.publish(seq + input.number<std::int8_t>(), flags, size, slot, input.number<std::uint16_t>());
      break;
    }
    case 3:
      scribble(input, &forged.header(), ring_bytes(Forged::kEntries));
      break;
    case 4:
      forged.record(input.number<std::uint8_t>() % 8).extra_size = input.number<std::uint32_t>();
      break;
    default:
      scribble(input, &forged.page(), sizeof(ConsumerPage));
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static Forged forged;
  forged.reset();
  Input input(data, size);
  Victim victim(forged, input.number<std::uint8_t>() % 2 == 1);
  std::uint64_t seq = Forged::kEntries;
  while (!input.empty()) {
    act(input, forged, seq);
    if (!victim.take()) break;
    if (input.number<std::uint8_t>() % 3 == 0) victim.release_oldest();
  }
  victim.leave();
  return 0;
}
