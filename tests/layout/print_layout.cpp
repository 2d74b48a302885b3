// SPDX-License-Identifier: MIT
// Prints every number of the shared-memory ABI, one a line, as this compiler lays it out. check_layout.py compares the
// output of builds.
#include <cstddef>
#include <cstdio>

#include "ring/layout.hpp"

namespace framelane::ring {
namespace {

void constant(const char* name, unsigned long long value) { std::printf("%s = %llu\n", name, value); }

void type(const char* name, std::size_t size, std::size_t alignment) {
  std::printf("\n%s: size %zu, alignment %zu\n", name, size, alignment);
}

void field(const char* name, std::size_t offset, std::size_t size) {
  std::printf("  %zu %s: size %zu\n", offset, name, size);
}

#define CONSTANT(name) constant(#name, name)
#define TYPE(name) type(#name, sizeof(name), alignof(name))
#define FIELD(struct_name, name) field(#name, offsetof(struct_name, name), sizeof(struct_name::name))

void print_constants() {
  CONSTANT(kRingMagic);
  CONSTANT(kAbiVersion);
  CONSTANT(kByteOrderMark);
  CONSTANT(kCacheLine);
  CONSTANT(kMaxConsumers);
  CONSTANT(kMaxSlots);
  CONSTANT(kInlineBytes);
  CONSTANT(kSpareEntries);
  CONSTANT(kRetireAhead);
  CONSTANT(kMaxEntries);
  CONSTANT(kSeqMask);
  CONSTANT(kTagInline);
  CONSTANT(kTagMarker);
  CONSTANT(kTagRetired);
  CONSTANT(kTagSideData);
  CONSTANT(kEntriesOffset);
  CONSTANT(kRecordStride);
  CONSTANT(kMaxRecordStride);
  CONSTANT(kDefaultSideData);
  CONSTANT(kMaxSideData);
  CONSTANT(measure::kSubBuckets);
  CONSTANT(measure::kOctaves);
  CONSTANT(measure::kBuckets);
  constant("ring_bytes(256)", ring_bytes(256));
  constant("make_tag(0x123456789abc, kTagInline)", make_tag(0x123456789abc, kTagInline));
  constant("pack_size_slot(0x01020304, 0x0506, 0x0708)", pack_size_slot(0x01020304, 0x0506, 0x0708));
}

void print_ring_segment() {
  TYPE(RingHeader);
  FIELD(RingHeader, magic);
  FIELD(RingHeader, abi_version);
  FIELD(RingHeader, byte_order);
  FIELD(RingHeader, header_size);
  FIELD(RingHeader, entry_size);
  FIELD(RingHeader, entry_count);
  FIELD(RingHeader, page_size);
  FIELD(RingHeader, instance_id);
  FIELD(RingHeader, reserved);
  FIELD(RingHeader, oldest_live);
  FIELD(RingHeader, padding);
  TYPE(Entry);
  FIELD(Entry, tag);
  FIELD(Entry, size_slot);
  FIELD(Entry, due_ns);
  FIELD(Entry, publish_ns);
  FIELD(Entry, inline_words);
}

void print_data_segment() {
  TYPE(SegmentSpec);
  FIELD(SegmentSpec, id);
  FIELD(SegmentSpec, first_slot);
  FIELD(SegmentSpec, slot_count);
  FIELD(SegmentSpec, record_stride);
  FIELD(SegmentSpec, slot_size);
  FIELD(SegmentSpec, slot_stride);
  FIELD(SegmentSpec, slots_offset);
  FIELD(SegmentSpec, total_bytes);
  TYPE(MetaRecord);
  FIELD(MetaRecord, pts);
  FIELD(MetaRecord, dts);
  FIELD(MetaRecord, duration);
  FIELD(MetaRecord, offset);
  FIELD(MetaRecord, offset_end);
  FIELD(MetaRecord, flags);
  FIELD(MetaRecord, type_id);
  FIELD(MetaRecord, capture_ns);
  FIELD(MetaRecord, extra_size);
  FIELD(MetaRecord, reserved);
}

void print_consumer_page() {
  TYPE(ConsumerPage);
  FIELD(ConsumerPage, cursor);
  FIELD(ConsumerPage, wake_word);
  FIELD(ConsumerPage, producer_waiting);
  FIELD(ConsumerPage, taken);
  FIELD(ConsumerPage, skipped);
  FIELD(ConsumerPage, copied);
  FIELD(ConsumerPage, sleeps);
  FIELD(ConsumerPage, spins);
  FIELD(ConsumerPage, holds);
  FIELD(ConsumerPage, waiting);
  FIELD(ConsumerPage, latency);
  TYPE(ConsumerPage::Waiting);
  FIELD(ConsumerPage::Waiting, ticket);
  TYPE(measure::HistogramCells);
  FIELD(measure::HistogramCells, max_ns);
  FIELD(measure::HistogramCells, min_ns_plus_1);
  FIELD(measure::HistogramCells, counts);
}

}  // namespace
}  // namespace framelane::ring

int main() {
  using namespace framelane::ring;
  print_constants();
  print_ring_segment();
  print_data_segment();
  print_consumer_page();
  return 0;
}
