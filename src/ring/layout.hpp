// SPDX-License-Identifier: MIT
#pragma once

#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "measure/histogram.hpp"

// The bytes that processes share. This file is the whole ABI of shared memory: every field, who writes it, where it
// lies. It is the same for 32- and 64-bit builds and for x86 and Arm; ABI.md says when kAbiVersion changes.
//
//   ring segment (read-only for consumers)          consumer page (one per consumer, writable by it)
//   +---------------------------+ 0                 +--------------------------+ 0
//   | RingHeader                |                   | cursor                   |  a line each
//   |   ... oldest_live         |                   | wake word                |
//   +---------------------------+ kEntriesOffset    | producer-waiting         |
//   | Entry 0 (64 bytes)        |                   | counters                 |
//   | Entry 1                   |                   | hold bits                |
//   | ...                       |                   | 32 lines: waiting ticket |  coloured
//   | Entry entry_count - 1     |                   | latency histogram        |
//   +---------------------------+                   +--------------------------+ sizeof(ConsumerPage)
//
//   data segment (read-only for consumers; the ADD_SEGMENT message says all its numbers)
//   | records: slot_count x record_stride | slots: slot_count x slot_stride |
namespace framelane::ring {

static_assert(std::endian::native == std::endian::little,
              "Framelane's shared memory is little-endian; this machine is not supported");
static_assert(std::atomic<std::uint64_t>::is_always_lock_free, "64-bit atomics must be lock-free in shared memory");
static_assert(std::atomic<std::uint32_t>::is_always_lock_free);

inline constexpr std::uint64_t kRingMagic = 0x31454e414c4d5246;  // "FRMLANE1"
inline constexpr std::uint32_t kAbiVersion = 1;
inline constexpr std::uint32_t kByteOrderMark = 0x01020304;
inline constexpr std::size_t kCacheLine = 64;

inline constexpr std::uint32_t kMaxConsumers = 32;
inline constexpr std::uint32_t kMaxSlots = 4096;    // hold bits of a consumer: 512 bytes
inline constexpr std::uint32_t kInlineBytes = 32;   // what is left of a line beside the fields of an entry
inline constexpr std::uint32_t kSpareEntries = 64;  // for markers, so that events never compete with frames
inline constexpr std::uint32_t kRetireAhead = 8;    // an entry is retired this many publishes before it is overwritten
inline constexpr std::uint32_t kMaxEntries = 1u << 20;

// --- sequence numbers and tags

inline constexpr std::uint64_t kSeqMask = (std::uint64_t{1} << 48) - 1;

enum TagFlag : std::uint16_t {
  kTagInline = 1,    // the payload lies in the entry
  kTagMarker = 2,    // no frame: the place of control message `ctl`
  kTagRetired = 4,   // the slot may be reused at any time; skip
  kTagSideData = 8,  // extra_size bytes follow the slot's record; without it nobody looks at the record's line for them
};

[[nodiscard]] constexpr std::uint64_t make_tag(std::uint64_t seq, std::uint16_t flags) noexcept {
  return seq << 16 | flags;
}
[[nodiscard]] constexpr std::uint64_t tag_seq(std::uint64_t tag) noexcept { return tag >> 16; }
[[nodiscard]] constexpr std::uint16_t tag_flags(std::uint64_t tag) noexcept { return static_cast<std::uint16_t>(tag); }

/// a - b of two 48-bit sequence numbers, signed: right as long as they are less than 2^47 apart.
[[nodiscard]] constexpr std::int64_t seq_diff(std::uint64_t a, std::uint64_t b) noexcept {
  return static_cast<std::int64_t>((a - b) << 16) >> 16;
}

// --- ring segment

/// Written by the producer; all but oldest_live before the segment is sent.
struct RingHeader {
  std::uint64_t magic;           // kRingMagic
  std::uint32_t abi_version;     // kAbiVersion
  std::uint32_t byte_order;      // kByteOrderMark as the producer stores it
  std::uint32_t header_size;     // kEntriesOffset
  std::uint32_t entry_size;      // sizeof(Entry)
  std::uint32_t entry_count;     // E, a power of two
  std::uint32_t page_size;       // sizeof(ConsumerPage)
  std::uint8_t instance_id[16];  // random, new for each Producer
  std::uint8_t reserved[80];
  // Sequence number of the oldest entry not retired. Its own line: written at each reclaim, read only by consumers that
  // were lapped. producer
  alignas(kCacheLine) std::atomic<std::uint64_t> oldest_live;
  std::uint8_t padding[56];
};
static_assert(offsetof(RingHeader, instance_id) == 32);
static_assert(offsetof(RingHeader, oldest_live) == 128);
static_assert(sizeof(RingHeader) == 192);

inline constexpr std::size_t kEntriesOffset = 256;

/// One cache line: a consumer polls `tag`, and the same line describes the frame. Written by the producer.
/// All words but the tag are relaxed atomics, so that a late reader's torn read is defined, and thrown away.
struct alignas(kCacheLine) Entry {
  std::atomic<std::uint64_t> tag;        // sequence number << 16 | TagFlag bits; stored last
  std::atomic<std::uint64_t> size_slot;  // size (32) | slot (16) << 32 | ctl (16) << 48: one word, one store
  std::atomic<std::int64_t> due_ns;      // CLOCK_MONOTONIC; INT64_MIN = none
  std::atomic<std::int64_t> publish_ns;  // CLOCK_MONOTONIC; 0 = not stamped
  std::atomic<std::uint64_t> inline_words[kInlineBytes / 8];
};
static_assert(sizeof(Entry) == 64);
static_assert(offsetof(Entry, size_slot) == 8);
static_assert(offsetof(Entry, due_ns) == 16);
static_assert(offsetof(Entry, publish_ns) == 24);
static_assert(offsetof(Entry, inline_words) == 32);

[[nodiscard]] constexpr std::uint64_t pack_size_slot(std::uint32_t size, std::uint16_t slot,
                                                     std::uint16_t ctl) noexcept {
  return size | std::uint64_t{slot} << 32 | std::uint64_t{ctl} << 48;
}

[[nodiscard]] constexpr std::size_t ring_bytes(std::uint32_t entry_count) noexcept {
  return kEntriesOffset + std::size_t{entry_count} * sizeof(Entry);
}

// --- data segments

/// What the ADD_SEGMENT message tells of a data segment. Everything is checked before it is used (valid_segment()).
struct alignas(8) SegmentSpec {
  std::uint32_t id;          // counts up in the life of a lane
  std::uint32_t first_slot;  // slot ids are first_slot .. first_slot + slot_count - 1, unique among live segments
  std::uint32_t slot_count;
  std::uint32_t record_stride;  // bytes, a multiple of 64, at least sizeof(MetaRecord)
  std::uint64_t slot_size;      // bytes that a frame may have
  std::uint64_t slot_stride;    // bytes, a multiple of 64; page-aligned from 4 KiB on
  std::uint64_t slots_offset;   // bytes, page-aligned; the records start at 0
  std::uint64_t total_bytes;    // size of the memfd
  friend bool operator==(const SegmentSpec&, const SegmentSpec&) = default;
};

/// The largest slot, in bytes, that a producer makes for a frame of `size` bytes when frames grow. Encoded ones creep
/// up, and without head room each larger one would cost a segment.
[[nodiscard]] constexpr std::uint64_t slot_size_with_room(std::uint64_t size) noexcept {
  constexpr std::uint64_t kMostRoom = 1u << 20;
  const std::uint64_t room = size < kMostRoom ? size : kMostRoom;
  return size + (room < ~size ? room : ~size);  // a peer's number may be anything
}

/// Metadata of the frame in a slot; read by those who ask. Written by the producer while the slot is on loan.
struct alignas(8) MetaRecord {
  std::uint64_t pts;  // the next five: UINT64_MAX = none
  std::uint64_t dts;
  std::uint64_t duration;
  std::uint64_t offset;
  std::uint64_t offset_end;
  std::uint32_t flags;  // format::FrameFlag
  std::uint32_t type_id;
  std::int64_t capture_ns;   // CLOCK_MONOTONIC; INT64_MIN = none
  std::uint32_t extra_size;  // bytes of side data after this record: 1 to record_stride - 64 with kTagSideData, else 0
  std::uint32_t reserved;
};
static_assert(sizeof(MetaRecord) == 64);
static_assert(offsetof(MetaRecord, flags) == 40);
static_assert(offsetof(MetaRecord, capture_ns) == 48);
inline constexpr std::uint32_t kRecordStride = 1024;      // unless asked for more: some metas and a hop trace
inline constexpr std::uint32_t kMaxRecordStride = 65536;  // what a consumer believes
inline constexpr std::uint32_t kDefaultSideData = kRecordStride - sizeof(MetaRecord);
inline constexpr std::uint32_t kMaxSideData = kMaxRecordStride - sizeof(MetaRecord);

// --- consumer page

/// One line per writer and purpose. "producer" below never reads back what it wrote here.
struct ConsumerPage {
  // next sequence number to take. consumer (the producer once, before it sends the page)
  alignas(kCacheLine) std::atomic<std::uint64_t> cursor;
  std::uint8_t pad0[56];

  // Futex that a sleeping consumer waits on. producer, monitor and consumer add 1.
  alignas(kCacheLine) std::atomic<std::uint32_t> wake_word;
  std::uint8_t pad1[60];

  // 1 while the producer waits for this consumer, on this futex. producer sets, both clear.
  alignas(kCacheLine) std::atomic<std::uint32_t> producer_waiting;
  std::uint8_t pad2[60];

  // Counters for the producer's statistics. consumer
  alignas(kCacheLine) std::atomic<std::uint64_t> taken;
  std::atomic<std::uint64_t> skipped;
  std::atomic<std::uint64_t> copied;
  std::atomic<std::uint64_t> sleeps;
  std::atomic<std::uint64_t> spins;  // 0 also: a consumer that doesn't tell
  std::uint8_t pad3[24];

  // Bit s of the lane's slots: the consumer reads it. consumer
  alignas(kCacheLine) std::atomic<std::uint32_t> holds[kMaxSlots / 32];

  // The waiting ticket lies in line `colour` of these, so that the pages of 32 consumers don't compete for one cache
  // set (a scan of 32 took 56 ns at one offset, 18 ns coloured). consumer
  struct alignas(kCacheLine) Waiting {
    std::atomic<std::uint32_t> ticket;  // 0 = awake
    std::uint8_t pad[60];
  };
  Waiting waiting[kMaxConsumers];

  // publish -> take, ns. consumer
  alignas(kCacheLine) measure::HistogramCells latency;
};
static_assert(offsetof(ConsumerPage, wake_word) == 64);
static_assert(offsetof(ConsumerPage, producer_waiting) == 128);
static_assert(offsetof(ConsumerPage, taken) == 192);
static_assert(offsetof(ConsumerPage, skipped) == 200);
static_assert(offsetof(ConsumerPage, copied) == 208);
static_assert(offsetof(ConsumerPage, sleeps) == 216);
static_assert(offsetof(ConsumerPage, spins) == 224);
static_assert(offsetof(ConsumerPage, holds) == 256);
static_assert(offsetof(ConsumerPage, waiting) == 768);
static_assert(offsetof(ConsumerPage, latency) == 2816);
static_assert(sizeof(ConsumerPage) == 24384);

/// What lies at these bytes of a mapping. They are aligned enough: mappings are by pages, what lies in them by lines.
template <class T>
[[nodiscard]] T* view_as(std::byte* bytes) noexcept {
  return static_cast<T*>(static_cast<void*>(bytes));
}
template <class T>
[[nodiscard]] const T* view_as(const std::byte* bytes) noexcept {
  return static_cast<const T*>(static_cast<const void*>(bytes));
}

}  // namespace framelane::ring
