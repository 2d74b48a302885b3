// SPDX-License-Identifier: MIT
#include <algorithm>
#include <array>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include "support.hpp"
#include "transport/byte_stream.hpp"
#include "transport/frame_stream.hpp"

// What goes through once the handshake is over.

namespace framelane::tls {
namespace {

using Pair = Fds (*)();

class TlsStreams : public ::testing::TestWithParam<Pair> {};
INSTANTIATE_TEST_SUITE_P(Over, TlsStreams, ::testing::Values(&unix_pair, &tcp_pair),
                         [](const auto& test) { return test.param == &tcp_pair ? "Tcp" : "Unix"; });

/// A thread that is joined at the end of the test, whatever happens.
using Thread = std::jthread;

TEST_P(TlsStreams, CarryAnySizeBothWaysAtOnce) {
  Ends ends = shaken(GetParam()());
  for (const std::size_t size : {1u, 2u, 100u, 16'383u, 16'384u, 16'385u, 65'536u, 65'537u, 1u << 20, 8u << 20}) {
    const auto up = random_bytes(size, 1);
    const auto down = random_bytes(size, 2);
    std::vector<std::byte> got_up;
    std::vector<std::byte> got_down;
    {
      const Thread a([&] { EXPECT_TRUE(send_all(*ends.client, up)); });
      const Thread b([&] { EXPECT_TRUE(send_all(*ends.server, down)); });
      const Thread c([&] { got_up = receive_all(*ends.server, size); });
      got_down = receive_all(*ends.client, size);
    }
    ASSERT_TRUE(got_up == up) << size;
    ASSERT_TRUE(got_down == down) << size;
  }
}

TEST_P(TlsStreams, GatherAndScatter) {
  Ends ends = shaken(GetParam()());
  const auto bytes = random_bytes(300'000, 3);
  const std::span all(bytes);
  const std::array<iovec, 6> out{buffer_of(all.first(24)),          buffer_of(all.subspan(24, 0)),
                                 buffer_of(all.subspan(24, 1000)),  buffer_of(all.subspan(1024, 1)),
                                 buffer_of(all.subspan(1025, 100)), buffer_of(all.subspan(1125))};
  std::size_t sent = 0;
  const Thread sender([&] {
    const auto first = ends.client->send(out);
    ASSERT_TRUE(first);
    ASSERT_GT(*first, 1125u);
    sent = *first;
    EXPECT_TRUE(send_all(*ends.client, all.subspan(*first)));
  });
  std::vector<std::byte> got(bytes.size());
  std::size_t have = 0;
  while (have < got.size()) {
    const std::size_t left = got.size() - have;
    const std::array<iovec, 3> in{
        iovec{got.data() + have, std::min<std::size_t>(left, 7)}, iovec{got.data(), 0},
        iovec{got.data() + have + std::min<std::size_t>(left, 7), left - std::min<std::size_t>(left, 7)}};
    const auto received = ends.server->receive(in);
    ASSERT_TRUE(received) << received.error().text;
    have += *received;
    if (*received != 0) continue;
    ASSERT_TRUE(transport::wait_for(ends.server->fd(), POLLIN, -1, soon()));
  }
  EXPECT_TRUE(got == bytes);
}

TEST_P(TlsStreams, NothingIsThereUntilItComes) {
  Ends ends = shaken(GetParam()());
  std::array<std::byte, 16> room{};
  const iovec buffer{room.data(), room.size()};
  EXPECT_EQ(ends.client->receive({&buffer, 1}).value_or(99), 0u);
  EXPECT_EQ(ends.server->receive({&buffer, 1}).value_or(99), 0u);
  EXPECT_EQ(ends.client->send({}).value_or(99), 0u);
  EXPECT_EQ(ends.client->receive({}).value_or(99), 0u);
}

TEST_P(TlsStreams, AReceiverThatPollsMissesNothing) {
  // Pieces that end anywhere in a record, and several records that come at once; the receiver polls only after a 0.
  Ends ends = shaken(GetParam()());
  for (const std::size_t piece : {1u, 1000u, 20'000u, 70'000u}) {
    const auto bytes = random_bytes(3 * piece, 4);
    ASSERT_TRUE(send_all(*ends.client, bytes));
    std::vector<std::byte> got;
    while (got.size() < bytes.size()) {
      auto part = receive_all(*ends.server, piece);
      ASSERT_EQ(part.size(), piece);
      got.insert(got.end(), part.begin(), part.end());
    }
    EXPECT_TRUE(got == bytes);
  }
}

TEST_P(TlsStreams, AFullSocketTakesNoMore) {
  Ends ends = shaken(GetParam()());
  const auto bytes = random_bytes(32u << 20, 5);
  const iovec buffer = buffer_of(bytes);
  const auto sent = ends.client->send({&buffer, 1});
  ASSERT_TRUE(sent);
  ASSERT_LT(*sent, bytes.size());
  const auto rest = std::span(bytes).subspan(*sent);
  const iovec again = buffer_of(rest);
  EXPECT_EQ(ends.client->send({&again, 1}).value_or(99), 0u);
  const Thread sender([&] { EXPECT_TRUE(send_all(*ends.client, rest)); });
  EXPECT_TRUE(receive_all(*ends.server, bytes.size()) == bytes);
}

TEST_P(TlsStreams, WhatWasTakenArrivesWithoutAnotherSend) {
  // A call that took everything leaves nothing in our hands that only another call would send.
  Ends ends = shaken(GetParam()());
  const auto message = random_bytes(60'000, 6);
  const iovec buffer = buffer_of(message);
  std::size_t whole = 0;
  std::size_t part = message.size();
  for (; part == message.size() && whole < 10'000; ++whole) part = ends.client->send({&buffer, 1}).value_or(0);
  ASSERT_LT(part, message.size()) << "the socket is never full";
  for (std::size_t i = 0; i + 1 < whole; ++i) ASSERT_TRUE(receive_all(*ends.server, message.size()) == message) << i;
  // The one that was cut goes on where the call said, or from its start.
  const Thread sender([&] { EXPECT_TRUE(send_all(*ends.client, std::span(message).subspan(part))); });
  EXPECT_TRUE(receive_all(*ends.server, message.size()) == message);
}

TEST_P(TlsStreams, SingleBytesGoThroughAFullSocket) {
  Ends ends = shaken(GetParam()());
  const auto bytes = random_bytes(1u << 20, 7);
  std::size_t sent = 0;
  std::vector<std::byte> got;
  while (sent < 40'000) {
    const iovec buffer = buffer_of(std::span(bytes).subspan(sent, 1));
    const auto taken = ends.client->send({&buffer, 1});
    ASSERT_TRUE(taken) << taken.error().text;
    sent += *taken;
    if (*taken != 0) continue;
    auto part = receive_all(*ends.server, sent - got.size());
    got.insert(got.end(), part.begin(), part.end());
  }
  auto part = receive_all(*ends.server, sent - got.size());
  got.insert(got.end(), part.begin(), part.end());
  EXPECT_TRUE(std::equal(got.begin(), got.end(), bytes.begin()));
  EXPECT_EQ(got.size(), sent);
}

TEST_P(TlsStreams, OtherBytesThanThoseThatWereRefusedAreAnError) {
  Ends ends = shaken(GetParam()());
  const std::vector<std::byte> bytes(32u << 20, std::byte{1});
  const iovec buffer = buffer_of(bytes);
  ASSERT_LT(ends.client->send({&buffer, 1}).value_or(bytes.size()), bytes.size());
  const std::vector<std::byte> other(10, std::byte{2});
  const iovec wrong = buffer_of(other);
  Result<std::size_t> sent = 0;
  std::array<std::byte, 65'536> room;
  const iovec in{room.data(), room.size()};
  while (sent && *sent == 0 && ends.server->receive({&in, 1})) sent = ends.client->send({&wrong, 1});
  ASSERT_FALSE(sent);
  EXPECT_EQ(sent.error().code, Code::kProtocol);
  EXPECT_TRUE(has(sent.error().text, "cut in the middle of a message")) << sent.error().text;
}

/// Keeps the frame that comes.
class KeepFrame final : public transport::FrameReceiver {
 public:
  Result<transport::FrameRoom> room_for(const wire::FrameMessage& frame) override {
    side_data.assign(frame.side_size, std::byte{});
    payload.assign(frame.payload_size, std::byte{});
    return transport::FrameRoom{side_data, payload};
  }
  std::vector<std::byte> side_data;
  std::vector<std::byte> payload;
};

TEST_P(TlsStreams, CarryFrames) {
  Ends ends = shaken(GetParam()());
  const std::vector<std::size_t> sizes{0, 1, 511, 16'384, 65'000, 3'110'400, 8u << 20, 64, 100};
  const Thread producer([&] {
    transport::StreamSender sender(*ends.server, -1);
    for (const std::size_t size : sizes) {
      const auto sent = sender.send_frame({}, random_bytes(size % 300, 1), random_bytes(size, 2), soon());
      ASSERT_TRUE(sent) << sent.error().text;
    }
  });
  KeepFrame frame;
  transport::StreamReceiver receiver(*ends.client, frame, 16u << 20);
  for (const std::size_t size : sizes) {
    const auto got = receiver.receive_until(soon());
    ASSERT_TRUE(got) << got.error().text;
    EXPECT_TRUE(frame.side_data == random_bytes(size % 300, 1)) << size;
    EXPECT_TRUE(frame.payload == random_bytes(size, 2)) << size;
  }
}

TEST_P(TlsStreams, TheEndComesAfterWhatWasSentBefore) {
  Ends ends = shaken(GetParam()());
  const auto bytes = random_bytes(50'000, 8);
  ASSERT_TRUE(send_all(*ends.client, bytes));
  ends.client->shutdown();
  EXPECT_TRUE(receive_all(*ends.server, bytes.size()) == bytes);
  std::byte byte{};
  const iovec buffer{&byte, 1};
  for (int again = 0; again < 2; ++again) {
    const auto got = ends.server->receive({&buffer, 1});
    ASSERT_FALSE(got);
    EXPECT_EQ(got.error().code, Code::kPeerLost);
    EXPECT_TRUE(has(got.error().text, "closed the stream")) << got.error().text;
  }
  EXPECT_EQ(ends.client->send({&buffer, 1}).error().code, Code::kPeerLost);
  EXPECT_EQ(ends.client->receive({&buffer, 1}).error().code, Code::kPeerLost);
  ends.client->shutdown();  // once more does no harm
}

TEST_P(TlsStreams, APeerThatDiesIsLost) {
  Ends ends = shaken(GetParam()());
  ends.server.reset();
  ASSERT_TRUE(transport::wait_for(ends.client->fd(), POLLIN, -1, soon()));
  std::byte byte{};
  const iovec buffer{&byte, 1};
  EXPECT_EQ(ends.client->receive({&buffer, 1}).error().code, Code::kPeerLost);
}

TEST_P(TlsStreams, WhatALeavingPeerSaidIsReadAfterASendFailed) {
  Ends ends = shaken(GetParam()());
  const auto last_words = random_bytes(1000, 9);
  ASSERT_TRUE(send_all(*ends.server, last_words));
  ends.server->shutdown();
  const auto bytes = random_bytes(100'000, 10);
  for (int round = 0; round < 1000 && send_all(*ends.client, bytes); ++round) continue;
  const iovec buffer = buffer_of(bytes);
  EXPECT_EQ(ends.client->send({&buffer, 1}).error().code, Code::kPeerLost);
  EXPECT_TRUE(receive_all(*ends.client, last_words.size()) == last_words);
}

TEST_P(TlsStreams, ShutdownEndsAThreadThatPolls) {
  Ends ends = shaken(GetParam()());
  std::byte byte{};
  const iovec buffer{&byte, 1};
  Result<std::size_t> got = 0;
  {
    const Thread receiver([&] {
      while (got && *got == 0 && transport::wait_for(ends.client->fd(), POLLIN, -1, soon()))
        got = ends.client->receive({&buffer, 1});
    });
    const Thread closer([&] { ends.client->shutdown(); });
  }
  ASSERT_FALSE(got);
  EXPECT_EQ(got.error().code, Code::kPeerLost);
}

TEST(TlsStream, ShutdownEndsAHandshake) {
  Ends ends = ends_of(unix_pair());
  ASSERT_TRUE(ends.client->handshake());
  ends.client->shutdown();
  const auto state = ends.client->handshake();
  ASSERT_FALSE(state);
  EXPECT_EQ(state.error().code, Code::kPeerLost);
  Result<Handshake> server = Handshake::kWantsRead;
  for (int step = 0; step < 5 && server; ++step) server = ends.server->handshake();
  ASSERT_FALSE(server);
  EXPECT_EQ(server.error().code, Code::kPeerLost);
}

/// A stream whose bytes pass a relay after the handshake.
struct Relayed {
  Relay relay;
  Ends ends = ends_of(relay.take_outer());

  Relayed() {
    const Outcome outcome = shake(ends, [&] { return relay.pump(); });
    EXPECT_TRUE(outcome.client && outcome.server);
  }
  /// Passes on what the client sends until the server has an error, or has `size` bytes.
  Result<std::size_t> pass(std::size_t size) {
    std::vector<std::byte> room(size);
    std::size_t have = 0;
    while (have < size) {
      const bool open = relay.pump();
      const iovec buffer{room.data() + have, size - have};
      auto got = ends.server->receive({&buffer, 1});
      if (!got) return got;
      have += *got;
      if (!open && *got == 0) break;
    }
    return have;
  }
};

TEST(TlsStream, ComesThroughInSingleBytes) {
  Relayed relayed;
  relayed.relay.to_server.piece = relayed.relay.to_client.piece = 1;
  const auto bytes = random_bytes(20'000, 11);
  ASSERT_TRUE(send_all(*relayed.ends.client, bytes));
  EXPECT_EQ(relayed.pass(bytes.size()).value_or(0), bytes.size());
}

TEST(TlsStream, AnyChangedByteEndsIt) {
  for (std::size_t at = 0; at < 60; ++at) {
    Relayed relayed;
    relayed.relay.to_server.flip_at = relayed.relay.to_server.passed + at;
    const auto bytes = random_bytes(100, 12);
    ASSERT_TRUE(send_all(*relayed.ends.client, bytes));
    ASSERT_TRUE(send_all(*relayed.ends.client, random_bytes(20'000, 13)));  // a length that grew gets its bytes
    const auto got = relayed.pass(20'100);
    ASSERT_FALSE(got) << at;
    EXPECT_EQ(got.error().code, Code::kProtocol) << at << ": " << got.error().text;
    EXPECT_TRUE(has(got.error().text, "the TLS stream is broken")) << got.error().text;
  }
}

TEST(TlsStream, CutAnywhereItIsLost) {
  for (std::size_t limit = 0; limit < 122; ++limit) {
    Relayed relayed;
    relayed.relay.to_server.limit = relayed.relay.to_server.passed + limit;
    ASSERT_TRUE(send_all(*relayed.ends.client, random_bytes(100, 14)));
    const auto got = relayed.pass(101);
    ASSERT_FALSE(got) << limit;
    EXPECT_EQ(got.error().code, Code::kPeerLost) << limit << ": " << got.error().text;
  }
}

TEST(TlsStream, NothingReadableCrosses) {
  Relayed relayed;
  const std::vector<std::byte> zeros(4096);
  ASSERT_TRUE(send_all(*relayed.ends.client, zeros));
  ASSERT_EQ(relayed.pass(zeros.size()).value_or(0), zeros.size());
  const auto& seen = relayed.relay.to_server.seen;
  const std::vector<std::byte> run(8);
  EXPECT_EQ(std::search(seen.end() - 4096, seen.end(), run.begin(), run.end()), seen.end());
}

}  // namespace
}  // namespace framelane::tls
