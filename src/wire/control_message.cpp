// SPDX-License-Identifier: MIT
#include "wire/control_message.hpp"

#include <cmath>
#include <limits>
#include <optional>
#include <type_traits>
#include <utility>

#include "wire/archive.hpp"

// The fields of each message, in their order on the wire. A change here is a new protocol version, except for fields
// that are added at the end of HELLO, REJECT or STATS. (Not in an unnamed namespace: Encoder::list() couldn't find them
// there.)
namespace framelane::wire {

/// A time of CLOCK_MONOTONIC is never negative.
inline constexpr std::uint64_t kMostTimeNs = std::numeric_limits<std::int64_t>::max();

template <class Archive, Either<Hello> T>
void visit_fields(Archive& archive, T& hello) {
  archive.number("version_min", hello.version_min);
  archive.number("version_max", hello.version_max);
  archive.choice("byte_order", hello.byte_order, ByteOrder::kLittle, ByteOrder::kBig);
  archive.choice("role", hello.role, Role::kConsumer, Role::kSignals);
  archive.choice("mode", hello.mode, Mode::kEvery, Mode::kLatest);
  archive.flag("gating", hello.gating);
  archive.number("max_held", hello.max_held);
  archive.number("abi_version", hello.abi_version);
  archive.number("transports", hello.transports);
  archive.number("max_frame_size", hello.max_frame_size);
  archive.label("name", hello.name, kMaxNameBytes);
  archive.label("lane", hello.lane, kMaxNameBytes);
  archive.number("token", hello.token);
  archive.bytes("resume.instance_id", hello.resume.instance_id);
  archive.number("resume.entry", hello.resume.entry, kMaxSeq);
}

template <class Archive, Either<SegmentNotice> T>
void visit_fields(Archive& archive, T& segment) {
  archive.number("id", segment.id);
  archive.number("first_slot", segment.first_slot);
  archive.number("slot_count", segment.slot_count);
  archive.number("record_stride", segment.record_stride);
  archive.number("slot_size", segment.slot_size);
  archive.number("slot_stride", segment.slot_stride);
  archive.number("slots_offset", segment.slots_offset);
  archive.number("total_bytes", segment.total_bytes);
}

template <class Archive, Either<format::Event> T>
void visit_fields(Archive& archive, T& event) {
  archive.choice("type", event.type, format::EventType::kStreamStart, format::EventType::kState);
  archive.number("number", event.number);
  archive.number("group", event.group);
  archive.text("text", event.text, event.type == format::EventType::kState ? kMaxStateBytes : kMaxTextBytes);
  auto& segment = event.segment;
  archive.choice("segment.format", segment.format, format::SegmentFormat::kUndefined, format::SegmentFormat::kTime);
  archive.number("segment.flags", segment.flags);
  archive.rate("segment.rate", segment.rate);
  archive.rate("segment.applied_rate", segment.applied_rate);
  archive.number("segment.base", segment.base);
  archive.number("segment.offset", segment.offset);
  archive.number("segment.start", segment.start);
  archive.number("segment.stop", segment.stop);
  archive.number("segment.time", segment.time);
  archive.number("segment.position", segment.position);
  archive.number("segment.duration", segment.duration);
  archive.number("pts", event.pts);
  archive.number("duration", event.duration);
}

template <class Archive, Either<Welcome> T>
void visit_fields(Archive& archive, T& welcome) {
  archive.number("version", welcome.version);
  archive.number("abi_version", welcome.abi_version);
  archive.bytes("instance_id", welcome.instance_id);
  archive.number("consumer_id", welcome.consumer_id);
  archive.number("colour", welcome.colour);
  archive.number("start", welcome.start, kMaxSeq);
  archive.number("last_number", welcome.last_number);
  archive.number("entry_count", welcome.entry_count);
  archive.number("page_size", welcome.page_size);
  archive.number("max_held", welcome.max_held);
  archive.flag("gating", welcome.gating);
  archive.flag("unsealed", welcome.unsealed);
  archive.bytes("boot_id", welcome.boot_id);
  archive.number("time_namespace", welcome.time_namespace);
  archive.number("clock_ns", welcome.clock_ns, kMaxClockNs);
  archive.text("served", welcome.served, kMaxServedBytes);
  archive.list("segments", welcome.segments, kMaxSegments);
  archive.list("sticky", welcome.sticky, kMaxStickyEvents);
}

template <class Archive, Either<Reject> T>
void visit_fields(Archive& archive, T& reject) {
  // Any number: a newer producer may have reasons that we don't know.
  archive.choice("code", reject.code, RejectCode{0}, RejectCode{std::numeric_limits<std::uint32_t>::max()});
  archive.label("sentence", reject.sentence, kMaxSentenceBytes);
}

template <class Archive, Either<EventMessage> T>
void visit_fields(Archive& archive, T& message) {
  visit_fields(archive, message.event);
  archive.number("seq", message.seq, kMaxSeq);
}

template <class Archive, Either<AddSegment> T>
void visit_fields(Archive& archive, T& message) {
  visit_fields(archive, message.segment);
}

template <class Archive, Either<RetireSegment> T>
void visit_fields(Archive& archive, T& message) {
  archive.number("id", message.id);
}

template <class Archive, Either<FlushStart> T>
void visit_fields(Archive& archive, T& message) {
  archive.number("count", message.count);
}

template <class Archive, Either<FlushStop> T>
void visit_fields(Archive& archive, T& message) {
  archive.number("first_seq", message.first_seq, kMaxSeq);
  archive.number("count", message.count);
}

template <class Archive, Either<Demoted> T>
void visit_fields(Archive& archive, T& message) {
  archive.flag("demoted", message.demoted);
}

template <class Archive, Either<StatsRequest> T>
void visit_fields(Archive&, T&) {}

template <class Archive, Either<measure::LatencySummary> T>
void visit_fields(Archive& archive, T& latency) {
  archive.number("latency.count", latency.count);
  archive.number("latency.min_ns", latency.min_ns);
  archive.number("latency.p50_ns", latency.p50_ns);
  archive.number("latency.p90_ns", latency.p90_ns);
  archive.number("latency.p99_ns", latency.p99_ns);
  archive.number("latency.p999_ns", latency.p999_ns);
  archive.number("latency.p9999_ns", latency.p9999_ns);
  archive.number("latency.max_ns", latency.max_ns);
}

template <class Archive, Either<WatchedConsumer> T>
void visit_fields(Archive& archive, T& consumer) {
  archive.number("id", consumer.id);
  archive.number("pid", consumer.pid);
  archive.number("uid", consumer.uid);
  archive.label("name", consumer.name, kMaxNameBytes);
  archive.choice("via", consumer.via, Via::kShm, Via::kTcp);
  archive.label("address", consumer.address, kMaxAddressBytes);
  archive.flag("latest", consumer.latest);
  archive.flag("gating", consumer.gating);
  archive.flag("demoted", consumer.demoted);
  archive.flag("sleeping", consumer.sleeping);
  archive.number("max_held", consumer.max_held);
  archive.number("held", consumer.held);
  archive.number("lag", consumer.lag);
  archive.number("taken", consumer.taken);
  archive.number("skipped", consumer.skipped);
  archive.number("copied", consumer.copied);
  archive.number("sleeps", consumer.sleeps);
  archive.number("spins", consumer.spins);
  visit_fields(archive, consumer.latency);
}

template <class Archive, Either<Stats> T>
void visit_fields(Archive& archive, T& stats) {
  archive.number("at_ns", stats.at_ns, kMostTimeNs);
  archive.number("opened_ns", stats.opened_ns, kMostTimeNs);
  archive.bytes("instance_id", stats.instance_id);
  archive.number("pid", stats.pid);
  archive.label("program", stats.program, kMaxNameBytes);
  archive.label("lane", stats.lane, kMaxNameBytes);
  archive.label("served", stats.served, kMaxServedBytes);
  archive.label("caps", stats.caps, kMaxStatsCapsBytes);
  archive.flag("ended", stats.ended);
  archive.choice("when_full", stats.when_full, FullPolicy::kWait, FullPolicy::kPassOver);
  archive.number("slot_size", stats.slot_size);
  archive.number("slots", stats.slots);
  archive.number("loans", stats.loans);
  archive.number("burst", stats.burst);
  archive.number("max_consumers", stats.max_consumers);
  archive.number("published", stats.published);
  archive.number("bytes", stats.bytes);
  archive.number("dropped_full", stats.dropped_full);
  archive.number("passed_over", stats.passed_over);
  archive.number("full_waits", stats.full_waits);
  archive.number("wakes", stats.wakes);
  archive.number("demotions", stats.demotions);
  archive.number("evictions", stats.evictions);
  archive.number("copied", stats.copied);
  archive.list("consumers", stats.consumers, kMaxWatched);
}

template <class Archive, Either<Leave> T>
void visit_fields(Archive&, T&) {}

template <class Archive, Either<format::Request> T>
void visit_fields(Archive& archive, T& request) {
  archive.choice("type", request.type, format::RequestType::kKeyUnit, format::RequestType::kQos);
  archive.number("number", request.number);
  archive.flag("headers", request.headers);
  archive.number("time", request.time);
  archive.share("proportion", request.proportion);
  archive.difference("jitter", request.jitter_ns);
  archive.text("text", request.text, format::kMaxRequestText);
}

template <class Archive, Either<RequestMessage> T>
void visit_fields(Archive& archive, T& message) {
  visit_fields(archive, message.request);
}

template <class Archive, Either<FrameMessage> T>
void visit_fields(Archive& archive, T& frame) {
  archive.number("index", frame.index);
  archive.difference("publish_ns", frame.publish_ns);
  archive.number("pts", frame.info.pts);
  archive.number("dts", frame.info.dts);
  archive.number("duration", frame.info.duration);
  archive.number("offset", frame.info.offset);
  archive.number("offset_end", frame.info.offset_end);
  archive.number("flags", frame.info.flags);
  archive.number("type_id", frame.info.type_id);
  archive.difference("due_ns", frame.info.due_ns);
  archive.difference("capture_ns", frame.info.capture_ns);
  archive.number("side_size", frame.side_size, kMaxSideBytes);
  archive.number("payload_size", frame.payload_size, kMaxFrameBytes);
}

template <class Archive, Either<Clock> T>
void visit_fields(Archive& archive, T& clock) {
  archive.number("asked_ns", clock.asked_ns, kMaxClockNs);
  archive.number("answer_ns", clock.answer_ns, kMaxClockNs);
}

namespace {

struct RawHeader {
  std::uint32_t magic = kMagic;
  std::uint16_t type = 0;
  std::uint16_t flags = 0;
  std::uint64_t number = 0;
  std::uint32_t payload_size = 0;
  std::uint32_t reserved = 0;
};
constexpr std::size_t kFlagsOffset = 6;
constexpr std::size_t kPayloadSizeOffset = 16;

template <class Archive, Either<RawHeader> T>
void visit_fields(Archive& archive, T& header) {
  archive.number("magic", header.magic);
  archive.number("type", header.type);
  archive.number("flags", header.flags);
  archive.number("number", header.number);
  archive.number("payload_size", header.payload_size);
  archive.number("reserved", header.reserved);
}

tl::unexpected<Error> broken(std::string_view what, const std::string& problem) {
  return fail(Code::kProtocol, "the peer sent a broken " + std::string(what) + ": field " + problem);
}

/// Messages that a newer version may have made longer.
template <class T>
constexpr bool kMayGrow = std::is_same_v<T, Hello> || std::is_same_v<T, Reject> || std::is_same_v<T, Stats>;

template <class T>
Result<Decoded> decode_payload(std::uint64_t number, std::span<const std::byte> payload) {
  Decoder decoder(payload);
  T message;
  visit_fields(decoder, message);
  const std::string what = std::string(to_string(T::kType)) + " message";
  if (!decoder.ok()) return broken(what, decoder.problem());
  if (!kMayGrow<T> && decoder.left() != 0) {
    return broken(what, "payload_size: " + std::to_string(decoder.left()) + " bytes too many");
  }
  if constexpr (std::is_same_v<T, Hello>) {
    if (message.version_max < message.version_min) {
      return broken(what, "version_max: " + std::to_string(message.version_max) + " is less than version_min");
    }
  }
  return Decoded{number, std::move(message)};
}

/// Tries the alternatives of Message one after the other.
template <std::size_t I = 0>
Result<Decoded> decode_type(const Header& header, std::span<const std::byte> payload) {
  if constexpr (I == std::variant_size_v<Message>) {
    return broken("message", "type: " + std::to_string(static_cast<unsigned>(header.type)) + " has no meaning");
  } else {
    using T = std::variant_alternative_t<I, Message>;
    if (header.type == T::kType) return decode_payload<T>(header.number, payload);
    return decode_type<I + 1>(header, payload);
  }
}

tl::unexpected<Error> too_long(const std::string& what, std::size_t size, std::size_t most) {
  return fail(Code::kTooLarge, "the " + what + "'s text has " + std::to_string(size) + " bytes, and " +
                                   std::to_string(most) + " are the most that a lane carries");
}

/// Whatever the receiver would refuse: its own check.
template <class T>
Result<void> check_fields(const std::string& what, const T& thing) {
  std::vector<std::byte> bytes;
  Encoder encoder(bytes);
  visit_fields(encoder, thing);
  Decoder decoder(bytes);
  T read;
  visit_fields(decoder, read);
  if (decoder.ok()) return {};
  return fail(Code::kInvalidArgument, "this " + what + " can't be sent: field " + decoder.problem());
}

}  // namespace

std::string_view to_string(MessageType type) noexcept {
  static constexpr std::string_view kNames[] = {"unknown",     "HELLO",          "WELCOME",     "REJECT",     "EVENT",
                                                "ADD_SEGMENT", "RETIRE_SEGMENT", "FLUSH_START", "FLUSH_STOP", "DEMOTED",
                                                "unknown",     "STATS_REQUEST",  "STATS",       "LEAVE",      "REQUEST",
                                                "FRAME",       "CLOCK"};
  const auto index = static_cast<std::size_t>(type);
  return index < std::size(kNames) ? kNames[index] : kNames[0];
}

MessageType type_of(const Message& message) noexcept {
  return std::visit([](const auto& m) { return std::decay_t<decltype(m)>::kType; }, message);
}

std::size_t fd_count(const Message& message) noexcept {
  if (const auto* welcome = std::get_if<Welcome>(&message)) return 2 + welcome->segments.size();
  return std::holds_alternative<AddSegment>(message) ? 1 : 0;
}

Result<void> check_event(const format::Event& event) {
  const std::size_t most = event.type == format::EventType::kState ? kMaxStateBytes : kMaxTextBytes;
  if (event.text.size() > most) return too_long("event", event.text.size(), most);
  // Without its text, which may be large.
  return check_fields(
      "event", format::Event{event.type, event.number, event.group, {}, event.segment, event.pts, event.duration});
}

Result<void> check_request(const format::Request& request) {
  if (request.text.size() > format::kMaxRequestText)
    return too_long("request", request.text.size(), format::kMaxRequestText);
  return check_fields("request", request);
}

std::vector<std::byte> encode(const Message& message, std::uint64_t number) {
  std::vector<std::byte> bytes;
  encode_into(bytes, message, number);
  return bytes;
}

void encode_into(std::vector<std::byte>& out, const Message& message, std::uint64_t number) {
  out.clear();
  Encoder encoder(out);
  RawHeader header;
  header.type = static_cast<std::uint16_t>(type_of(message));
  header.number = number;
  visit_fields(encoder, std::as_const(header));
  std::visit([&](const auto& m) { visit_fields(encoder, m); }, message);
  const auto payload_size = static_cast<std::uint32_t>(out.size() - kHeaderBytes);
  for (std::size_t i = 0; i < sizeof payload_size; ++i)
    out[kPayloadSizeOffset + i] = static_cast<std::byte>(payload_size >> (8 * i) & 0xff);
}

Result<Header> decode_header(std::span<const std::byte> bytes) {
  constexpr std::string_view kWhat = "message header";
  Decoder decoder(bytes);
  RawHeader raw_untrusted;
  visit_fields(decoder, raw_untrusted);
  if (!decoder.ok()) return broken(kWhat, decoder.problem());
  if (raw_untrusted.magic == __builtin_bswap32(kMagic)) return broken(kWhat, "magic: it has the other byte order");
  if (raw_untrusted.magic != kMagic) return broken(kWhat, "magic: this is not Framelane's control protocol");
  if ((raw_untrusted.flags & ~kFlagPayloadInMemfd) != 0) return broken(kWhat, "flags: unknown bits are set");
  if (raw_untrusted.reserved != 0) return broken(kWhat, "reserved: it is not 0");
  if (raw_untrusted.payload_size > kMaxMessageBytes - kHeaderBytes) {
    return broken(kWhat, "payload_size: " + std::to_string(raw_untrusted.payload_size) + " bytes are too many");
  }
  return Header{static_cast<MessageType>(raw_untrusted.type), raw_untrusted.flags, raw_untrusted.number,
                raw_untrusted.payload_size};
}

Result<Decoded> decode(std::span<const std::byte> bytes) {
  const Result<Header> header = decode_header(bytes);
  if (!header) return tl::unexpected(header.error());
  const auto payload = bytes.subspan(kHeaderBytes);
  if (header->flags != 0) return broken("message header", "flags: the payload is elsewhere");
  if (header->payload_size != payload.size()) {
    return broken("message header", "payload_size: " + std::to_string(header->payload_size) + " bytes announced, " +
                                        std::to_string(payload.size()) + " came");
  }
  return decode_type(*header, payload);
}

void set_flags(std::span<std::byte> bytes, std::uint16_t flags) noexcept {
  if (bytes.size() < kHeaderBytes) return;
  bytes[kFlagsOffset] = static_cast<std::byte>(flags & 0xff);
  bytes[kFlagsOffset + 1] = static_cast<std::byte>(flags >> 8);
}

}  // namespace framelane::wire
