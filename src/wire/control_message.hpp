// SPDX-License-Identifier: MIT
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "framelane/base/result.hpp"
#include "framelane/format/event.hpp"
#include "framelane/measure/latency.hpp"

// What the two ends of a control socket say to each other: bytes to structs and back, no I/O. A message is a header of
// kHeaderBytes and a payload, all little-endian and packed:
//
//   u32 magic | u16 type | u16 flags | u64 number | u32 payload size | u32 reserved (0)
//
// The layout of each payload stands once, in control_message.cpp, for writing and for reading. HELLO and REJECT may
// grow at their end and readers pass over what they don't know, so that a version can still tell a newer one that they
// don't match, and so may STATS, so that an older observer can watch; every other payload has exactly the fields of the
// negotiated version.
namespace framelane::wire {

inline constexpr std::uint32_t kMagic = 0x314d4c46;  // "FLM1"
inline constexpr std::size_t kHeaderBytes = 24;
/// Versions of this protocol that this build speaks.
inline constexpr std::uint32_t kVersionMin = 1;
inline constexpr std::uint32_t kVersionMax = 1;

/// Header flag: the payload lies in the sealed memfd that comes as the last descriptor, not after the header.
inline constexpr std::uint16_t kFlagPayloadInMemfd = 1;

/// Header and payload up to this many bytes travel in the datagram; larger payloads in a sealed memfd.
inline constexpr std::size_t kMaxInlineBytes = std::size_t{64} << 10;
inline constexpr std::size_t kMaxNameBytes = 64;
inline constexpr std::size_t kMaxSentenceBytes = 1024;
inline constexpr std::size_t kMaxServedBytes = 4096;
inline constexpr std::size_t kMaxTextBytes = std::size_t{8} << 20;     ///< of one event
inline constexpr std::size_t kMaxStateBytes = std::size_t{256} << 10;  ///< text of one kState event
// Of a STATS.
inline constexpr std::size_t kMaxStatsCapsBytes = 4096;
inline constexpr std::size_t kMaxAddressBytes = 128;
inline constexpr std::size_t kMaxWatched = 32;  ///< consumers
/// Of a WELCOME: stream start, caps, segment, two scopes of tags, an end, and the states.
inline constexpr std::size_t kMaxStickyEvents = 6 + format::kMaxStates;
inline constexpr std::size_t kMaxSegments = 8;
inline constexpr std::size_t kMaxMessageBytes = std::size_t{64} << 20;
static_assert(6 * (kMaxTextBytes + 4096) + format::kMaxStates * (kMaxStateBytes + 4096) < kMaxMessageBytes,
              "a WELCOME must always fit");
/// Descriptors of one message: ring, page, segments, and the memfd of a large payload.
inline constexpr std::size_t kMaxFds = 2 + kMaxSegments + 1;
/// Of one frame on a stream: payload, and what goes with it beside its FrameInfo.
inline constexpr std::uint64_t kMaxFrameBytes = std::uint64_t{1} << 30;
inline constexpr std::uint32_t kMaxSideBytes = std::uint32_t{64} << 10;
/// Sequence numbers have 48 bits.
inline constexpr std::uint64_t kMaxSeq = (std::uint64_t{1} << 48) - 1;
/// A clock's readings, ns: what is more (146 years) is none.
inline constexpr std::uint64_t kMaxClockNs = std::uint64_t{1} << 62;

enum class MessageType : std::uint16_t {
  kHello = 1,
  kWelcome = 2,
  kReject = 3,
  kEvent = 4,
  kAddSegment = 5,
  kRetireSegment = 6,
  kFlushStart = 7,
  kFlushStop = 8,
  kDemoted = 9,
  // 10 was LATENCY: it is a kState event, which late joiners get, too
  kStatsRequest = 11,
  kStats = 12,
  kLeave = 13,
  kRequest = 14,
  kFrame = 15,
  kClock = 16,
};

/// "WELCOME" and so on; "unknown" for a number that names no message.
[[nodiscard]] std::string_view to_string(MessageType type) noexcept;

enum class Role : std::uint8_t {
  kConsumer = 1,
  kObserver = 2,  ///< asks for statistics; gets no WELCOME and no shared memory, only STATS or REJECT
  kSignals = 3,   ///< a stream for what has to overtake the frames, which come on another one
};

enum class Mode : std::uint8_t {
  kEvery = 1,
  kLatest = 2,
};

/// Byte order of a process's shared memory. (The messages themselves are little-endian everywhere.)
enum class ByteOrder : std::uint8_t {
  kLittle = 1,
  kBig = 2,
};
inline constexpr ByteOrder kNativeByteOrder =
    std::endian::native == std::endian::little ? ByteOrder::kLittle : ByteOrder::kBig;

/// Bits of Hello::transports.
enum Transport : std::uint32_t {
  kTransportShm = 1u << 0,
  kTransportUds = 1u << 1,
  kTransportTcp = 1u << 2,
};

/// Why a producer says no. Numbers that this build doesn't know are kept as they come.
enum class RejectCode : std::uint32_t {
  kBadHello = 1,      ///< the HELLO could not be read; the sentence names the field
  kVersion = 2,       ///< no common version of protocol or ABI
  kByteOrder = 3,     ///< shared memory of the other byte order
  kPermission = 4,    ///< this user may not read the lane
  kTooMany = 5,       ///< max-consumers are connected
  kFrameSize = 6,     ///< the lane's frames are larger than the consumer's max-frame-size
  kClosing = 7,       ///< the producer is going away
  kNoResources = 8,   ///< memory or descriptors ran out at the producer
  kUnsupported = 9,   ///< no common transport
  kUnknownLane = 10,  ///< another lane is served here
};
/// Whether trying again later can help.
[[nodiscard]] constexpr bool is_passing(RejectCode code) noexcept {
  return code == RejectCode::kTooMany || code == RejectCode::kClosing || code == RejectCode::kNoResources;
}

/// Where a consumer stopped that had to leave: it takes up the lane there, if that is possible.
struct Resume {
  std::array<std::uint8_t, 16> instance_id{};  ///< of the producer; nothing, if it is another one
  std::uint64_t entry = 0;                     ///< sequence number of the entry that it hasn't taken; 0 = nothing

  friend bool operator==(const Resume&, const Resume&) = default;
};

/// First message of a connection, from the consumer or observer.
struct Hello {
  static constexpr MessageType kType = MessageType::kHello;

  std::uint32_t version_min = kVersionMin;
  std::uint32_t version_max = kVersionMax;
  ByteOrder byte_order = kNativeByteOrder;
  Role role = Role::kConsumer;
  Mode mode = Mode::kEvery;
  bool gating = true;          ///< wish
  std::uint32_t max_held = 0;  ///< wish, frames
  std::uint32_t abi_version = 0;
  std::uint32_t transports = 0;      ///< Transport bits that the sender can use; unknown bits are kept
  std::uint64_t max_frame_size = 0;  ///< bytes
  std::string name;  ///< the sender's process name; cut to kMaxNameBytes, and what isn't printable is read as '?'
  std::string lane;  ///< that it wants; cut to kMaxNameBytes
  std::uint64_t token = 0;  ///< on streams: random, the same for a consumer's signals and frames
  Resume resume;

  friend bool operator==(const Hello&, const Hello&) = default;
};

/// One data segment. Mirrors ring::SegmentSpec; only the ring knows what numbers are possible, so nothing is checked
/// here.
struct SegmentNotice {
  std::uint32_t id = 0;
  std::uint32_t first_slot = 0;
  std::uint32_t slot_count = 0;
  std::uint32_t record_stride = 0;  ///< bytes, like all that follow
  std::uint64_t slot_size = 0;
  std::uint64_t slot_stride = 0;
  std::uint64_t slots_offset = 0;
  std::uint64_t total_bytes = 0;

  friend bool operator==(const SegmentNotice&, const SegmentNotice&) = default;
};

/// Answer to a consumer's HELLO. Descriptors: ring, page, then one for each segment, in their order; on a stream none,
/// and no segments and sticky events: those follow as messages.
struct Welcome {
  static constexpr MessageType kType = MessageType::kWelcome;

  std::uint32_t version = kVersionMax;
  std::uint32_t abi_version = 0;
  std::array<std::uint8_t, 16> instance_id{};
  std::uint32_t consumer_id = 0;
  std::uint32_t colour = 0;       ///< waiting line of the page
  std::uint64_t start = 0;        ///< sequence number of the first entry to take; on a stream, of the first frame
  std::uint64_t last_number = 0;  ///< number of the last control message before start
  std::uint32_t entry_count = 0;
  std::uint32_t page_size = 0;             ///< bytes
  std::uint32_t max_held = 0;              ///< granted, frames
  bool gating = false;                     ///< granted
  bool unsealed = false;                   ///< the kernel can't seal, and the producer allows that
  std::array<std::uint8_t, 16> boot_id{};  ///< of the producer's host, 0 = unknown: hosts that differ share no clock
  std::uint64_t time_namespace = 0;        ///< of the producer, 0 = unknown: those that differ share none, either
  std::uint64_t clock_ns = 0;              ///< CLOCK_MONOTONIC of the producer as it wrote this, at most kMaxClockNs
  std::string served;                      ///< descriptor with all places where the lane is served
  std::vector<SegmentNotice> segments;     ///< live ones, at most kMaxSegments
  std::vector<format::Event> sticky;       ///< state of the stream at start, at most kMaxStickyEvents

  friend bool operator==(const Welcome&, const Welcome&) = default;
};

/// The producer doesn't take this connection, and closes it.
struct Reject {
  static constexpr MessageType kType = MessageType::kReject;

  RejectCode code = RejectCode::kBadHello;
  std::string sentence;  ///< for people: what is wrong and what to do; cut to kMaxSentenceBytes

  friend bool operator==(const Reject&, const Reject&) = default;
};

/// An event of the stream. Numbered.
struct EventMessage {
  static constexpr MessageType kType = MessageType::kEvent;

  format::Event event;    ///< text of at most kMaxTextBytes
  std::uint64_t seq = 0;  ///< sequence number of its marker; on a stream, of the next frame

  friend bool operator==(const EventMessage&, const EventMessage&) = default;
};

/// A data segment is there. Numbered. Descriptors: the segment.
struct AddSegment {
  static constexpr MessageType kType = MessageType::kAddSegment;

  SegmentNotice segment;

  friend bool operator==(const AddSegment&, const AddSegment&) = default;
};

/// No frame after this one lies in the segment: unmap it when the last Frame in it is gone. Numbered.
struct RetireSegment {
  static constexpr MessageType kType = MessageType::kRetireSegment;

  std::uint32_t id = 0;

  friend bool operator==(const RetireSegment&, const RetireSegment&) = default;
};

/// Every frame that the consumer hasn't taken is dropped, until the FLUSH_STOP. Overtakes the frames: a stream's
/// consumer gets it twice, as a signal and in order.
struct FlushStart {
  static constexpr MessageType kType = MessageType::kFlushStart;

  std::uint32_t count = 0;  ///< on a stream: flushes begun since the consumer joined, this one included

  friend bool operator==(const FlushStart&, const FlushStart&) = default;
};

/// Ends the flush that the last FLUSH_START began. Numbered.
struct FlushStop {
  static constexpr MessageType kType = MessageType::kFlushStop;

  std::uint64_t first_seq = 0;  ///< of its marker (on a stream, of the next frame): what comes before is dropped
  std::uint32_t count = 0;      ///< on a stream: flushes ended since the consumer joined, this one included

  friend bool operator==(const FlushStop&, const FlushStop&) = default;
};

struct Demoted {
  static constexpr MessageType kType = MessageType::kDemoted;

  bool demoted = false;  ///< false: gates again

  friend bool operator==(const Demoted&, const Demoted&) = default;
};

/// From an observer: a copy of the statistics, please.
struct StatsRequest {
  static constexpr MessageType kType = MessageType::kStatsRequest;

  friend bool operator==(const StatsRequest&, const StatsRequest&) = default;
};

/// How a consumer's frames travel.
enum class Via : std::uint8_t { kShm = 1, kUds = 2, kTcp = 3 };

/// What a producer does when its ring is full.
enum class FullPolicy : std::uint8_t { kWait = 1, kDropNew = 2, kPassOver = 3 };

/// A consumer in a STATS. Counts are frames since it joined. Names and addresses are cut, and made printable as they
/// are read.
struct WatchedConsumer {
  std::uint32_t id = 0;
  std::uint32_t pid = 0;
  std::uint32_t uid = 0;
  std::string name;
  Via via = Via::kShm;
  std::string address;  ///< with kTcp: host and port
  bool latest = false;
  bool gating = false;  ///< the producer waits for it now
  bool demoted = false;
  bool sleeping = false;  ///< waits for a frame in the kernel
  std::uint32_t max_held = 0;
  std::uint32_t held = 0;
  std::uint64_t lag = 0;
  std::uint64_t taken = 0;
  std::uint64_t skipped = 0;
  std::uint64_t copied = 0;
  std::uint64_t sleeps = 0;
  std::uint64_t spins = 0;
  measure::LatencySummary latency;  ///< publish to take, ns

  friend bool operator==(const WatchedConsumer&, const WatchedConsumer&) = default;
};

/// Answer to a StatsRequest: the statistics as they were at `at_ns`. Counts are since the producer was opened.
struct Stats {
  static constexpr MessageType kType = MessageType::kStats;

  std::uint64_t at_ns = 0;      ///< CLOCK_MONOTONIC of the producer, like opened_ns
  std::uint64_t opened_ns = 0;  ///< when it began
  std::array<std::uint8_t, 16> instance_id{};
  std::uint32_t pid = 0;
  std::string program;  ///< its process's name
  std::string lane;
  std::string served;  ///< descriptor with all places where the lane is served
  std::string caps;    ///< cut to kMaxStatsCapsBytes
  bool ended = false;  ///< the stream has ended
  FullPolicy when_full = FullPolicy::kWait;
  std::uint64_t slot_size = 0;  ///< bytes
  std::uint32_t slots = 0;
  std::uint32_t loans = 0;
  std::uint32_t burst = 0;  ///< frames
  std::uint32_t max_consumers = 0;
  std::uint64_t published = 0;  ///< frames
  std::uint64_t bytes = 0;      ///< of their payloads
  std::uint64_t dropped_full = 0;
  std::uint64_t passed_over = 0;
  std::uint64_t full_waits = 0;
  std::uint64_t wakes = 0;
  std::uint64_t demotions = 0;
  std::uint64_t evictions = 0;
  std::uint64_t copied = 0;
  std::vector<WatchedConsumer> consumers;  ///< at most kMaxWatched

  friend bool operator==(const Stats&, const Stats&) = default;
};

/// From a consumer: it takes no more. From a producer: the lane ends.
struct Leave {
  static constexpr MessageType kType = MessageType::kLeave;

  friend bool operator==(const Leave&, const Leave&) = default;
};

/// From a consumer: what it asks of the producer.
struct RequestMessage {
  static constexpr MessageType kType = MessageType::kRequest;

  format::Request request;  ///< text of at most format::kMaxRequestText

  friend bool operator==(const RequestMessage&, const RequestMessage&) = default;
};

/// A frame, on a stream only. `side_size` bytes of side data and `payload_size` bytes of payload follow the message.
struct FrameMessage {
  static constexpr MessageType kType = MessageType::kFrame;

  std::uint64_t index = 0;      ///< frames before it in the lane's life, lost ones included
  std::int64_t publish_ns = 0;  ///< CLOCK_MONOTONIC of the producer; 0 = not stamped
  format::FrameInfo info;
  std::uint32_t side_size = 0;     ///< bytes, at most kMaxSideBytes
  std::uint64_t payload_size = 0;  ///< bytes, at most kMaxFrameBytes

  friend bool operator==(const FrameMessage&, const FrameMessage&) = default;
};

/// On a stream of signals. From a consumer: what does the producer's clock say? From the producer: the answer.
struct Clock {
  static constexpr MessageType kType = MessageType::kClock;

  std::uint64_t asked_ns = 0;   ///< when the consumer asked, by its clock; the answer repeats it. At most kMaxClockNs
  std::uint64_t answer_ns = 0;  ///< of an answer: CLOCK_MONOTONIC of the producer. At most kMaxClockNs

  friend bool operator==(const Clock&, const Clock&) = default;
};

using Message = std::variant<Hello, Welcome, Reject, EventMessage, AddSegment, RetireSegment, FlushStart, FlushStop,
                             Demoted, StatsRequest, Stats, Leave, RequestMessage, FrameMessage, Clock>;

[[nodiscard]] MessageType type_of(const Message& message) noexcept;

/// How many descriptors go with a message, without the memfd of a large payload.
[[nodiscard]] std::size_t fd_count(const Message& message) noexcept;

/// Whether an event can be sent: a receiver takes it for a broken protocol otherwise. Check what applications hand in.
/// Errors: kTooLarge (text), kInvalidArgument (type, or a segment's format or rates; the text names the field).
[[nodiscard]] Result<void> check_event(const format::Event& event);
/// The same for a request. Errors: as check_event().
[[nodiscard]] Result<void> check_request(const format::Request& request);

/// Bytes of a message: header and payload in one piece, however large (the transport moves a large payload into a
/// memfd). `number` is the place among the numbered messages; 0 = unnumbered. Texts and lists must be within the limits
/// above (the caller checks, only names and sentences are cut).
[[nodiscard]] std::vector<std::byte> encode(const Message& message, std::uint64_t number);

/// The same into a buffer that is used again, so that a stream of frames allocates nothing. Replaces what is in `out`.
void encode_into(std::vector<std::byte>& out, const Message& message, std::uint64_t number);

struct Decoded {
  std::uint64_t number = 0;
  Message message;
};

/// Reads one message, header and payload in one piece. Any bytes are allowed: what isn't a message is an error, and
/// nothing is allocated beyond a small multiple of the input's size. Errors: kProtocol (the text names the message and
/// the field).
[[nodiscard]] Result<Decoded> decode(std::span<const std::byte> bytes);

/// The header alone, for the transport.
struct Header {
  MessageType type{};
  std::uint16_t flags = 0;
  std::uint64_t number = 0;
  std::uint32_t payload_size = 0;  ///< bytes, at most kMaxMessageBytes
};

/// Errors: kProtocol (too short, or a field of the header is wrong; the text names it).
[[nodiscard]] Result<Header> decode_header(std::span<const std::byte> bytes);

/// Sets the flags of an encoded message.
void set_flags(std::span<std::byte> bytes, std::uint16_t flags) noexcept;

}  // namespace framelane::wire
