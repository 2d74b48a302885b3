// SPDX-License-Identifier: MIT
#include "wire/control_message.hpp"

#include <atomic>
#include <cstdlib>
#include <limits>
#include <new>
#include <set>

#include <gtest/gtest.h>

#include "random_message.hpp"

namespace {

std::atomic<std::size_t> largest_allocation{0};

}  // namespace

// The tests of lying lengths look at what decode() asks for, not at what the system would have given.
// noinline: else g++ takes a malloc and a delete, one of them inlined, for a mismatch.
[[gnu::noinline]] void* operator new(std::size_t size) {
  std::size_t largest = largest_allocation.load();
  while (size > largest && !largest_allocation.compare_exchange_weak(largest, size)) {
  }
  if (void* const memory = std::malloc(size != 0 ? size : 1)) return memory;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

namespace framelane::wire {
namespace {

using Bytes = std::vector<std::byte>;

Bytes bytes_of(std::initializer_list<int> values) {
  Bytes bytes;
  for (const int value : values) bytes.push_back(static_cast<std::byte>(value));
  return bytes;
}

void put_u32(Bytes& bytes, std::size_t at, std::uint32_t value) {
  for (std::size_t i = 0; i < 4; ++i) bytes[at + i] = static_cast<std::byte>(value >> (8 * i) & 0xff);
}

/// Makes the header tell the truth about the payload's size.
void fix_payload_size(Bytes& bytes) { put_u32(bytes, 16, static_cast<std::uint32_t>(bytes.size() - kHeaderBytes)); }

Hello small_hello() {
  Hello hello;
  hello.max_held = 4;
  hello.abi_version = 1;
  hello.transports = kTransportShm;
  hello.max_frame_size = 0x1122334455667788;
  hello.name = "cam";
  hello.lane = "cam0";
  hello.token = 9;
  return hello;
}

format::Event caps_event() {
  format::Event event;
  event.type = format::EventType::kCaps;
  event.text = "video/x-raw";
  return event;
}

std::string error_of(const Bytes& bytes) {
  const auto decoded = decode(bytes);
  if (decoded) return "no error";
  EXPECT_EQ(decoded.error().code, Code::kProtocol);
  return decoded.error().text;
}

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

TEST(ControlMessage, EveryMessageSurvivesTheWire) {
  RandomMessages random(1);
  std::set<MessageType> seen;
  for (int i = 0; i < 20'000; ++i) {
    const Message message = random.next();
    const std::uint64_t number = random.number();
    const auto decoded = decode(encode(message, number));
    ASSERT_TRUE(decoded.has_value()) << decoded.error().text;
    EXPECT_EQ(decoded->number, number);
    ASSERT_EQ(decoded->message, message) << to_string(type_of(message));
    seen.insert(type_of(message));
  }
  EXPECT_EQ(seen.size(), std::variant_size_v<Message>);
}

TEST(ControlMessage, TheBytesAreTheSameOnEveryMachine) {
  const Bytes expected =
      bytes_of({0x46, 0x4c, 0x4d, 0x31, 8, 0, 0,    0,    0x0d, 0x0c, 0x0b, 0x0a, 4, 3, 2, 1, 12, 0,
                0,    0,    0,    0,    0, 0, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11, 0, 0, 3, 0, 0,  0});
  EXPECT_EQ(encode(FlushStop{0x112233445566, 3}, 0x010203040a0b0c0d), expected);

  const Bytes hello = encode(small_hello(), 0);
  const Bytes payload(hello.begin() + kHeaderBytes, hello.end());
  EXPECT_EQ(payload, bytes_of({1, 0, 0, 0, 1, 0, 0, 0, 1, 1, 1, 1, 4, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 0x88, 0x77, 0x66,
                               0x55, 0x44, 0x33, 0x22, 0x11, 3, 0, 0, 0, 'c', 'a', 'm', 4, 0, 0, 0, 'c', 'a', 'm', '0',
                               9, 0, 0, 0, 0, 0, 0, 0,
                               // resume: no instance, no entry
                               0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}));
}

TEST(ControlMessage, ACutMessageIsNeverTaken) {
  RandomMessages random(2);
  for (int i = 0; i < 300; ++i) {
    const Message message = random.next();
    const Bytes whole = encode(message, 1);
    for (std::size_t size = 0; size < whole.size(); ++size) {
      Bytes cut(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size));
      EXPECT_TRUE(has(error_of(cut), "field ")) << to_string(type_of(message)) << " of " << size;
      if (size < kHeaderBytes) continue;
      fix_payload_size(cut);
      const std::string error = error_of(cut);
      EXPECT_TRUE(has(error, std::string(to_string(type_of(message))) + " message: field ")) << error;
    }
  }
}

TEST(ControlMessage, WhateverIsTakenFromDamagedBytesCanBeSentAgain) {
  RandomMessages random(3);
  int taken = 0;
  for (int i = 0; i < 60'000; ++i) {
    Bytes bytes = encode(random.next(), random.number());
    for (std::size_t hits = 1 + random.below(4); hits > 0; --hits) {
      bytes[random.below(bytes.size())] = static_cast<std::byte>(random.below(256));
    }
    const auto decoded = decode(bytes);
    if (!decoded) {
      ASSERT_EQ(decoded.error().code, Code::kProtocol);
      continue;
    }
    ++taken;
    const auto again = decode(encode(decoded->message, decoded->number));
    ASSERT_TRUE(again.has_value()) << again.error().text;
    EXPECT_EQ(again->message, decoded->message);
  }
  EXPECT_GT(taken, 1000);  // else the damage only ever hit the header
}

TEST(ControlMessage, NoiseIsAnError) {
  RandomMessages random(4);
  for (int i = 0; i < 20'000; ++i) {
    Bytes bytes(random.below(300));
    for (std::byte& byte : bytes) byte = static_cast<std::byte>(random.below(256));
    EXPECT_TRUE(has(error_of(bytes), "field "));
    if (bytes.size() < kHeaderBytes) continue;
    // With a good header the noise reaches the fields. What it says may by chance mean something.
    put_u32(bytes, 0, kMagic);
    put_u32(bytes, 4, static_cast<std::uint32_t>(random.below(15)));
    put_u32(bytes, 20, 0);
    fix_payload_size(bytes);
    const auto decoded = decode(bytes);
    EXPECT_TRUE(decoded.has_value() || decoded.error().code == Code::kProtocol);
  }
}

TEST(ControlMessage, ALengthThatLiesAllocatesNothing) {
  RandomMessages random(5);
  for (int i = 0; i < 200; ++i) {
    const Bytes whole = encode(random.next(), 1);
    for (std::size_t at = kHeaderBytes; at + 4 <= whole.size(); ++at) {
      Bytes bytes = whole;
      const std::uint32_t lies[] = {std::numeric_limits<std::uint32_t>::max(), 0x7fffffff,
                                    static_cast<std::uint32_t>(bytes.size()), kMaxTextBytes, kMaxSegments};
      put_u32(bytes, at, lies[random.below(std::size(lies))]);
      largest_allocation = 0;
      const auto decoded = decode(bytes);
      // A vector's growth and the error's sentence are the overhead.
      EXPECT_LE(largest_allocation.load(), 4 * whole.size() + 2048) << "at " << at;
    }
  }
}

TEST(ControlMessage, TheErrorNamesTheField) {
  Bytes hello = encode(small_hello(), 0);
  hello[kHeaderBytes + 9] = std::byte{7};
  EXPECT_TRUE(has(error_of(hello), "HELLO message: field role: 7 has no meaning"));

  Bytes flag = encode(Demoted{true}, 0);
  flag[kHeaderBytes] = std::byte{2};
  EXPECT_TRUE(has(error_of(flag), "DEMOTED message: field demoted: 2 is neither 0 nor 1"));

  EXPECT_TRUE(has(error_of(encode(FlushStop{kMaxSeq + 1}, 0)), "FLUSH_STOP message: field first_seq: "));

  Welcome welcome;
  welcome.sticky = {caps_event(), caps_event()};
  welcome.sticky[1].segment.rate = std::numeric_limits<double>::quiet_NaN();
  EXPECT_TRUE(has(error_of(encode(welcome, 0)), "WELCOME message: field sticky[1].segment.rate: "));

  welcome.sticky.assign(kMaxStickyEvents + 1, caps_event());
  EXPECT_TRUE(has(error_of(encode(welcome, 0)), "WELCOME message: field sticky: 23 elements are more than 22"));

  Hello reversed = small_hello();
  reversed.version_min = 3;
  reversed.version_max = 2;
  EXPECT_TRUE(has(error_of(encode(reversed, 0)), "HELLO message: field version_max: "));

  EventMessage long_event{caps_event(), 0};
  long_event.event.text.assign(kMaxTextBytes + 1, 'x');
  EXPECT_TRUE(has(error_of(encode(long_event, 0)), "EVENT message: field text: 8388609 bytes are more than 8388608"));

  Stats stats;
  stats.consumers.resize(2);
  stats.consumers[1].via = static_cast<Via>(7);
  EXPECT_TRUE(has(error_of(encode(stats, 0)), "STATS message: field consumers[1].via: 7 has no meaning"));
  stats.consumers.assign(kMaxWatched + 1, {});
  EXPECT_TRUE(has(error_of(encode(stats, 0)), "STATS message: field consumers: 33 elements are more than 32"));
}

Stats largest_stats() {
  Stats stats;
  stats.program.assign(2 * kMaxNameBytes, 'p');
  stats.lane.assign(2 * kMaxNameBytes, 'l');
  stats.served.assign(2 * kMaxServedBytes, 's');
  stats.caps.assign(2 * kMaxStatsCapsBytes, 'c');
  WatchedConsumer consumer;
  consumer.name.assign(2 * kMaxNameBytes, 'n');
  consumer.address.assign(2 * kMaxAddressBytes, 'a');
  stats.consumers.assign(kMaxWatched, consumer);
  return stats;
}

TEST(ControlMessage, StatsOfAFullLaneTravelInOneDatagram) {
  const Bytes bytes = encode(largest_stats(), 0);
  EXPECT_LE(bytes.size(), kMaxInlineBytes);
  const auto decoded = decode(bytes);
  ASSERT_TRUE(decoded.has_value()) << decoded.error().text;
  const auto& stats = std::get<Stats>(decoded->message);
  EXPECT_EQ(stats.consumers.size(), kMaxWatched);
  EXPECT_EQ(stats.caps, std::string(kMaxStatsCapsBytes, 'c')) << "cut, not refused";
}

TEST(ControlMessage, StatsShowNothingThatATerminalWouldObey) {
  Stats stats;
  stats.program = "cam\x1b[2J\x07";
  stats.lane = stats.served = stats.caps =
      "a\nb\x9b"
      "c\x7f";
  stats.consumers.resize(1);
  stats.consumers[0].name = "\x1b]0;owned\x07";
  stats.consumers[0].address = "\r\x1b[31m";
  const auto decoded = decode(encode(stats, 0));
  ASSERT_TRUE(decoded.has_value()) << decoded.error().text;
  const auto& read = std::get<Stats>(decoded->message);
  EXPECT_EQ(read.program, "cam?[2J?");
  EXPECT_EQ(read.lane, "a?b?c?");
  EXPECT_EQ(read.served, "a?b?c?");
  EXPECT_EQ(read.caps, "a?b?c?");
  EXPECT_EQ(read.consumers[0].name, "?]0;owned?");
  EXPECT_EQ(read.consumers[0].address, "??[31m");
}

TEST(ControlMessage, ALaterReleaseMayTellAnObserverMore) {
  Bytes bytes = encode(largest_stats(), 0);
  bytes.resize(bytes.size() + 100);
  fix_payload_size(bytes);
  EXPECT_TRUE(decode(bytes).has_value());
}

TEST(ControlMessage, TheErrorNamesTheFieldOfTheHeader) {
  const Bytes good = encode(Leave{}, 0);
  const auto damaged = [&](std::size_t at, int value) {
    Bytes bytes = good;
    bytes[at] = static_cast<std::byte>(value);
    return error_of(bytes);
  };
  EXPECT_TRUE(has(damaged(0, 0), "field magic: this is not"));
  EXPECT_TRUE(has(damaged(4, 99), "field type: 99 has no meaning"));
  EXPECT_TRUE(has(damaged(6, 2), "field flags: unknown bits"));
  EXPECT_TRUE(has(damaged(6, kFlagPayloadInMemfd), "field flags: the payload is elsewhere"));
  EXPECT_TRUE(has(damaged(16, 1), "field payload_size: 1 bytes announced, 0 came"));
  EXPECT_TRUE(has(damaged(19, 0x80), "field payload_size: 2147483648 bytes are too many"));
  EXPECT_TRUE(has(damaged(20, 1), "field reserved: it is not 0"));
  Bytes swapped = good;
  put_u32(swapped, 0, __builtin_bswap32(kMagic));
  EXPECT_TRUE(has(error_of(swapped), "field magic: it has the other byte order"));
}

TEST(ControlMessage, ANewerHelloOrRejectMayBeLongerAndNothingElse) {
  for (const Message& message : {Message(small_hello()), Message(Reject{RejectCode{4711}, "no"})}) {
    Bytes bytes = encode(message, 0);
    bytes.insert(bytes.end(), 10, std::byte{0xff});
    fix_payload_size(bytes);
    const auto decoded = decode(bytes);
    ASSERT_TRUE(decoded.has_value()) << decoded.error().text;
    EXPECT_EQ(decoded->message, message);
  }
  Bytes leave = encode(Leave{}, 0);
  leave.push_back(std::byte{0});
  fix_payload_size(leave);
  EXPECT_TRUE(has(error_of(leave), "LEAVE message: field payload_size: 1 bytes too many"));
}

TEST(ControlMessage, NamesAndSentencesAreSafeToPrint) {
  Hello hello = small_hello();
  hello.name = "a\x1b[31m\n\xff" + std::string(100, 'b');
  const auto decoded = decode(encode(hello, 0));
  ASSERT_TRUE(decoded.has_value());
  EXPECT_EQ(std::get<Hello>(decoded->message).name, ("a?[31m??" + std::string(100, 'b')).substr(0, kMaxNameBytes));
}

TEST(ControlMessage, SaysHowManyDescriptorsGoWithIt) {
  Welcome welcome;
  welcome.segments.resize(3);
  EXPECT_EQ(fd_count(welcome), 5u);
  EXPECT_EQ(fd_count(AddSegment{}), 1u);
  EXPECT_EQ(fd_count(RetireSegment{}), 0u);
  welcome.segments.resize(kMaxSegments);
  EXPECT_LT(fd_count(welcome), kMaxFds) << "one more is for the payload";
}

TEST(ControlMessage, AnEventThatReceiversWouldRefuseIsFoundBeforeItIsSent) {
  EXPECT_TRUE(check_event(caps_event()).has_value());

  format::Event still = caps_event();
  still.segment.applied_rate = 0;
  EXPECT_EQ(check_event(still).error().code, Code::kInvalidArgument);
  EXPECT_TRUE(has(check_event(still).error().text, "segment.applied_rate"));

  format::Event unknown = caps_event();
  unknown.type = format::EventType{99};
  EXPECT_EQ(check_event(unknown).error().code, Code::kInvalidArgument);

  format::Event large = caps_event();
  large.text.assign(kMaxTextBytes, 'x');
  EXPECT_TRUE(check_event(large).has_value());
  EXPECT_TRUE(decode(encode(EventMessage{large, 1}, 1)).has_value());
  large.text += 'x';
  EXPECT_EQ(check_event(large).error().code, Code::kTooLarge);

  format::Event flush;
  flush.type = format::EventType::kFlushStop;  // has messages of its own
  EXPECT_EQ(check_event(flush).error().code, Code::kInvalidArgument);
}

TEST(ControlMessage, RequestsThatCannotBeAreRefusedByBothSides) {
  format::Request request;
  request.proportion = -0.5;
  EXPECT_EQ(check_request(request).error().code, Code::kInvalidArgument);
  EXPECT_TRUE(has(error_of(encode(RequestMessage{request}, 0)), "REQUEST message: field proportion"));
  request = {};
  request.type = format::RequestType{9};
  EXPECT_TRUE(has(check_request(request).error().text, "type"));
  request = {};
  request.text.assign(format::kMaxRequestText, 'x');
  EXPECT_TRUE(check_request(request).has_value());
  request.text += 'x';
  EXPECT_EQ(check_request(request).error().code, Code::kTooLarge);
  EXPECT_TRUE(has(error_of(encode(RequestMessage{request}, 0)), "REQUEST message: field text"));
}

TEST(ControlMessage, TheLargestWelcomeStillFits) {
  Welcome welcome;
  welcome.segments.resize(kMaxSegments);
  welcome.sticky.assign(kMaxStickyEvents, caps_event());
  for (std::size_t i = 0; i < welcome.sticky.size(); ++i) {
    const bool state = i < format::kMaxStates;
    if (state) welcome.sticky[i].type = format::EventType::kState;
    welcome.sticky[i].text.assign(state ? kMaxStateBytes : kMaxTextBytes, 't');
  }
  const Bytes bytes = encode(welcome, 0);
  EXPECT_LE(bytes.size(), kMaxMessageBytes);
  const auto decoded = decode(bytes);
  ASSERT_TRUE(decoded.has_value()) << decoded.error().text;
  EXPECT_EQ(std::get<Welcome>(decoded->message).sticky.size(), kMaxStickyEvents);
}

}  // namespace
}  // namespace framelane::wire
