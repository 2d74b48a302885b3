// SPDX-License-Identifier: MIT
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <utility>

#include "wire/control_message.hpp"

namespace framelane::wire {

/// Makes any message that can be sent, with a taste for the edges of each field. The same seed makes the same messages.
class RandomMessages {
 public:
  explicit RandomMessages(std::uint64_t seed) : random_(seed) {}

  Message next() {
    return make(below(std::variant_size_v<Message>), std::make_index_sequence<std::variant_size_v<Message>>());
  }

  std::uint64_t number() { return edge(std::numeric_limits<std::uint64_t>::max()); }
  std::size_t below(std::size_t limit) { return static_cast<std::size_t>(random_() % limit); }

 private:
  template <std::size_t... I>
  Message make(std::size_t index, std::index_sequence<I...>) {
    Message message;
    (void)((index == I ? (message = fill(std::variant_alternative_t<I, Message>{}), true) : false) || ...);
    return message;
  }

  std::uint64_t edge(std::uint64_t most) {
    switch (below(4)) {
      case 0:
        return 0;
      case 1:
        return most;
      default:
        return most == std::numeric_limits<std::uint64_t>::max() ? random_() : random_() % (most + 1);
    }
  }
  std::uint32_t word() { return static_cast<std::uint32_t>(edge(std::numeric_limits<std::uint32_t>::max())); }
  bool coin() { return below(2) == 1; }

  std::string text(std::size_t most, char first, char last) {
    std::string made(below(8) == 0 ? most : below(most + 1), '\0');
    for (char& c : made)
      c = static_cast<char>(first + static_cast<int>(below(static_cast<std::size_t>(last - first + 1))));
    return made;
  }
  std::string any_text() { return text(200, std::numeric_limits<char>::min(), std::numeric_limits<char>::max()); }
  std::string printable(std::size_t most) { return text(most, 0x20, 0x7e); }

  double rate() {
    const double made = std::ldexp(static_cast<double>(random_()) - 9e18, static_cast<int>(below(200)) - 100);
    return made == 0.0 ? 1.0 : made;
  }

  format::Event event() {
    format::Event made;
    made.type = static_cast<format::EventType>(1 + below(static_cast<std::size_t>(format::EventType::kState)));
    made.number = word();
    made.group = word();
    made.text = any_text();
    made.segment = {static_cast<format::SegmentFormat>(below(4)),
                    word(),
                    rate(),
                    rate(),
                    number(),
                    number(),
                    number(),
                    number(),
                    number(),
                    number(),
                    number()};
    made.pts = number();
    made.duration = number();
    return made;
  }

  SegmentNotice segment() { return {word(), word(), word(), word(), number(), number(), number(), number()}; }

  Hello fill(Hello made) {
    made.version_min = word();
    made.version_max = made.version_min +
                       static_cast<std::uint32_t>(edge(std::numeric_limits<std::uint32_t>::max() - made.version_min));
    made.byte_order = coin() ? ByteOrder::kBig : ByteOrder::kLittle;
    made.role = static_cast<Role>(1 + below(3));
    made.mode = coin() ? Mode::kEvery : Mode::kLatest;
    made.gating = coin();
    made.max_held = word();
    made.abi_version = word();
    made.transports = word();
    made.max_frame_size = number();
    made.name = printable(kMaxNameBytes);
    made.lane = printable(kMaxNameBytes);
    made.token = number();
    for (auto& byte : made.resume.instance_id) byte = static_cast<std::uint8_t>(random_());
    made.resume.entry = edge(kMaxSeq);
    return made;
  }
  Welcome fill(Welcome made) {
    made.version = word();
    made.abi_version = word();
    for (auto& byte : made.instance_id) byte = static_cast<std::uint8_t>(random_());
    made.consumer_id = word();
    made.colour = word();
    made.start = edge(kMaxSeq);
    made.last_number = number();
    made.entry_count = word();
    made.page_size = word();
    made.max_held = word();
    made.gating = coin();
    made.unsealed = coin();
    for (auto& byte : made.boot_id) byte = static_cast<std::uint8_t>(random_());
    made.time_namespace = number();
    made.clock_ns = edge(kMaxClockNs);
    made.served = any_text();
    for (std::size_t i = below(kMaxSegments + 1); i > 0; --i) made.segments.push_back(segment());
    for (std::size_t i = below(kMaxStickyEvents + 1); i > 0; --i) made.sticky.push_back(event());
    return made;
  }
  Reject fill(Reject made) {
    made.code = static_cast<RejectCode>(word());
    made.sentence = printable(kMaxSentenceBytes);
    return made;
  }
  EventMessage fill(EventMessage) { return {event(), edge(kMaxSeq)}; }
  AddSegment fill(AddSegment) { return {segment()}; }
  RetireSegment fill(RetireSegment) { return {word()}; }
  FlushStart fill(FlushStart) { return {word()}; }
  FlushStop fill(FlushStop) { return {edge(kMaxSeq), word()}; }
  Demoted fill(Demoted) { return {coin()}; }
  StatsRequest fill(StatsRequest) { return {}; }
  measure::LatencySummary latency() {
    return {number(), number(), number(), number(), number(), number(), number(), number()};
  }
  WatchedConsumer consumer() {
    WatchedConsumer made;
    made.id = word();
    made.pid = word();
    made.uid = word();
    made.name = printable(kMaxNameBytes);
    made.via = static_cast<Via>(1 + below(3));
    made.address = printable(kMaxAddressBytes);
    made.latest = coin();
    made.gating = coin();
    made.demoted = coin();
    made.sleeping = coin();
    made.max_held = word();
    made.held = word();
    for (auto* count : {&made.lag, &made.taken, &made.skipped, &made.copied, &made.sleeps, &made.spins})
      *count = number();
    made.latency = latency();
    return made;
  }
  Stats fill(Stats made) {
    made.at_ns = edge(std::numeric_limits<std::int64_t>::max());
    made.opened_ns = edge(std::numeric_limits<std::int64_t>::max());
    for (auto& byte : made.instance_id) byte = static_cast<std::uint8_t>(random_());
    made.pid = word();
    made.program = printable(kMaxNameBytes);
    made.lane = printable(kMaxNameBytes);
    made.served = printable(kMaxServedBytes);
    made.caps = printable(kMaxStatsCapsBytes);
    made.ended = coin();
    made.when_full = static_cast<FullPolicy>(1 + below(3));
    made.slot_size = number();
    for (auto* few : {&made.slots, &made.loans, &made.burst, &made.max_consumers}) *few = word();
    for (auto* count : {&made.published, &made.bytes, &made.dropped_full, &made.passed_over, &made.full_waits,
                        &made.wakes, &made.demotions, &made.evictions, &made.copied})
      *count = number();
    for (std::size_t i = below(4); i > 0; --i) made.consumers.push_back(consumer());
    return made;
  }
  Leave fill(Leave) { return {}; }
  RequestMessage fill(RequestMessage) {
    format::Request made;
    made.type = static_cast<format::RequestType>(1 + below(3));
    made.number = word();
    made.headers = coin();
    made.time = number();
    made.proportion = std::fabs(rate());
    made.jitter_ns = static_cast<std::int64_t>(number());
    made.text = any_text();
    return {made};
  }

  FrameMessage fill(FrameMessage made) {
    made.index = number();
    made.publish_ns = static_cast<std::int64_t>(number());
    made.info.pts = number();
    made.info.dts = number();
    made.info.duration = number();
    made.info.offset = number();
    made.info.offset_end = number();
    made.info.flags = word();
    made.info.type_id = word();
    made.info.due_ns = static_cast<std::int64_t>(number());
    made.info.capture_ns = static_cast<std::int64_t>(number());
    made.side_size = static_cast<std::uint32_t>(edge(kMaxSideBytes));
    made.payload_size = edge(kMaxFrameBytes);
    return made;
  }

  Clock fill(Clock) { return {edge(kMaxClockNs), edge(kMaxClockNs)}; }

  std::mt19937_64 random_;
};

}  // namespace framelane::wire
