// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <utility>

#include "harness.hpp"
#include "memory/sealed_memory.hpp"
#include "ring/layout.hpp"
#include "ring/reader.hpp"

namespace framelane::ring::testing {

/// The producer's side of a ring and one data segment, written by hand, so that it may say anything. It begins truthful
/// and empty.
class ForgedRing {
 public:
  static constexpr std::uint32_t kEntries = 256;
  static constexpr SegmentSpec kSpec{1, 0, 8, 1024, 4096, 4096, 8192, 8192 + 8 * 4096};

  ForgedRing() { reset(); }
  /// As it was in the beginning.
  void reset() {
    for (const auto* memory : {&ring_, &page_, &data_}) std::memset(memory->mapping.data(), 0, memory->mapping.size());
    header().magic = kRingMagic;
    header().abi_version = kAbiVersion;
    header().byte_order = kByteOrderMark;
    header().header_size = kEntriesOffset;
    header().entry_size = sizeof(Entry);
    header().entry_count = kEntries;
    header().page_size = sizeof(ConsumerPage);
    std::memcpy(header().instance_id, kInstance.data(), kInstance.size());
    header().oldest_live = kEntries;
  }

  [[nodiscard]] RingHeader& header() { return *view_as<RingHeader>(ring_.mapping.data()); }
  [[nodiscard]] ConsumerPage& page() { return *view_as<ConsumerPage>(page_.mapping.data()); }
  [[nodiscard]] Entry& entry(std::uint64_t seq) {
    return view_as<Entry>(ring_.mapping.data() + kEntriesOffset)[seq % kEntries];
  }
  [[nodiscard]] MetaRecord& record(std::uint16_t slot) {
    return *view_as<MetaRecord>(data_.mapping.data() + std::size_t{slot} * kSpec.record_stride);
  }
  [[nodiscard]] std::byte* slot(std::uint16_t slot) {
    return data_.mapping.data() + kSpec.slots_offset + slot * kSpec.slot_stride;
  }
  void publish(std::uint64_t seq, std::uint16_t flags, std::uint32_t size, std::uint16_t slot, std::uint16_t ctl = 0) {
    entry(seq).size_slot = pack_size_slot(size, slot, ctl);
    entry(seq).tag = make_tag(seq, flags);
  }

  /// What a consumer makes of it, which was told to begin at entry kEntries.
  [[nodiscard]] Result<std::unique_ptr<Reader>> greet(bool latest = false) {
    ReaderSettings settings;
    settings.ring = must(memory::map_received(ring_.fd.get(), ring_bytes(kEntries), memory::Sharing::kReadOnly));
    settings.page = must(memory::map_received(page_.fd.get(), sizeof(ConsumerPage), memory::Sharing::kReadWrite));
    settings.instance_id = kInstance;
    settings.entry_count = kEntries;
    settings.start = kEntries;
    settings.latest = latest;
    settings.spin = SpinKind::kOff;
    return Reader::create(std::move(settings));
  }
  /// The data segment as a consumer maps it.
  [[nodiscard]] memory::Mapping data() {
    return must(memory::map_received(data_.fd.get(), kSpec.total_bytes, memory::Sharing::kReadOnly));
  }

 private:
  memory::SealedMemory ring_ = must(memory::create_sealed("ring", ring_bytes(kEntries), memory::Sharing::kReadOnly));
  memory::SealedMemory page_ = must(memory::create_sealed("page", sizeof(ConsumerPage), memory::Sharing::kReadWrite));
  memory::SealedMemory data_ = must(memory::create_sealed("data", kSpec.total_bytes, memory::Sharing::kReadOnly));
};

}  // namespace framelane::ring::testing
