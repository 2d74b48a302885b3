// SPDX-License-Identifier: MIT
#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include "support.hpp"
#include "transport/byte_stream.hpp"
#include "transport/stream_socket.hpp"
#include "transport/tls_errors.hpp"

// What each end says of the other when they don't come together.

namespace framelane::tls {
namespace {

void expect_error(const Result<Handshake>& result, Code code, const std::string& part) {
  ASSERT_FALSE(result.has_value());
  EXPECT_EQ(to_string(result.error().code), to_string(code)) << result.error().text;
  EXPECT_TRUE(has(result.error().text, part)) << result.error().text;
}

std::vector<std::byte> bytes_of(const std::string& text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

/// What a lane without TLS sends first.
std::vector<std::byte> framelane_bytes() { return bytes_of("FLM1" + std::string(20, '\0')); }

std::vector<std::byte> read_plain(int fd) {
  std::vector<std::byte> bytes(70'000);
  const ssize_t got = recv(fd, bytes.data(), bytes.size(), MSG_DONTWAIT);
  bytes.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
  return bytes;
}

TEST(TlsHandshake, OneKeyBringsBothTogether) {
  for (const std::size_t size : {16, 32, 48, 64}) {
    for (const std::string& identity : {std::string("l"), std::string(128, 'x'), std::string("cam 0@host")}) {
      const Psk key = key_of(identity, 1, size);
      Ends ends = ends_of(tcp_pair(), key, key);
      const Outcome outcome = shake(ends);
      EXPECT_TRUE(outcome.client) << outcome.client.error().text;
      EXPECT_TRUE(outcome.server) << outcome.server.error().text;
    }
  }
}

TEST(TlsHandshake, SaysAtBothEndsThatTheKeyIsAnother) {
  Ends ends = ends_of(tcp_pair(), key_of("lane", 1), key_of("lane", 2));
  const Outcome outcome = shake(ends);
  expect_error(outcome.client, Code::kPermission, "doesn't accept our key: give both ends the same psk-file");
  expect_error(outcome.server, Code::kPermission, "has another key for \"lane\": give both ends the same psk-file");
}

TEST(TlsHandshake, AKeyThatOnlyBeginsAlikeIsAnother) {
  Ends ends = ends_of(tcp_pair(), key_of("lane", 1, 32), key_of("lane", 1, 31));
  const Outcome outcome = shake(ends);
  expect_error(outcome.client, Code::kPermission, "doesn't accept our key");
  expect_error(outcome.server, Code::kPermission, "another key");
}

TEST(TlsHandshake, SaysAtBothEndsThatTheIdentityIsAnother) {
  for (const auto& [client, server] : {std::pair("cam0", "cam1"), std::pair("cam", "cam0"), std::pair("cam0", "cam")}) {
    Ends ends = ends_of(tcp_pair(), key_of(client), key_of(server));
    const Outcome outcome = shake(ends);
    expect_error(outcome.client, Code::kPermission, "doesn't accept our key: give both ends the same psk-file");
    expect_error(outcome.server, Code::kPermission,
                 "has a key for \"" + std::string(client) + "\", and this one for \"" + server + "\": give both ends");
  }
}

TEST(TlsHandshake, AStrangersIdentityTellsNothing) {
  // Wrong identity and wrong key look the same from outside, byte for byte.
  std::vector<std::vector<std::byte>> answers;
  for (const Psk& key : {key_of("cam1", 1), key_of("cam0", 2)}) {
    Relay relay;
    Ends ends = ends_of(relay.take_outer(), key, key_of("cam0", 1));
    static_cast<void>(shake(ends, [&] { return relay.pump(); }));
    answers.push_back(relay.to_client.seen);
  }
  EXPECT_FALSE(answers[0].empty());
  EXPECT_EQ(answers[0], answers[1]);
}

TEST(TlsHandshake, OffersNothingWithoutForwardSecrecy) {
  Fds fds = unix_pair();
  const auto client = secure(std::move(fds.first), TlsSide::kClient);
  ASSERT_TRUE(client->handshake());
  const auto hello = read_plain(fds.second.get());
  // psk_key_exchange_modes (45), 2 bytes: a list of 1, psk_dhe_ke (RFC 8446, 4.2.9)
  const auto modes = bytes_of(std::string("\0\x2d\0\2\1\1", 6));
  EXPECT_NE(std::search(hello.begin(), hello.end(), modes.begin(), modes.end()), hello.end());
}

TEST(TlsHandshake, ServerNamesAPlainClient) {
  Fds fds = tcp_pair();
  const auto server = secure(std::move(fds.second), TlsSide::kServer);
  send_plain(fds.first.get(), framelane_bytes());
  Result<Handshake> state = Handshake::kWantsRead;
  ASSERT_TRUE(transport::wait_for(server->fd(), POLLIN, -1, soon()));
  state = server->handshake();
  expect_error(state, Code::kProtocol, "the other end of the lane doesn't speak TLS: give it the psk-file too");
  expect_error(server->handshake(), Code::kProtocol, "doesn't speak TLS");  // and stays so
  // The plain client is told in words that it understands: a REJECT.
  const auto answer = read_plain(fds.first.get());
  ASSERT_GT(answer.size(), 24u);
  EXPECT_TRUE(std::equal(answer.begin(), answer.begin() + 4, framelane_bytes().begin()));
  EXPECT_EQ(answer[4], std::byte{3});
  const std::string text(reinterpret_cast<const char*>(answer.data()), answer.size());
  EXPECT_TRUE(has(text, "this lane goes through TLS: give the consumer the same psk-file"));
}

TEST(TlsHandshake, ServerNamesOtherProtocols) {
  for (const std::string& text : {std::string("GET / HTTP/1.1\r\n\r\n"), std::string("SSH-2.0-OpenSSH_9.2p1\r\n"),
                                  std::string("\x16\x01garbage")}) {
    Fds fds = unix_pair();
    const auto server = secure(std::move(fds.second), TlsSide::kServer);
    send_plain(fds.first.get(), bytes_of(text));
    expect_error(server->handshake(), Code::kProtocol, "doesn't speak TLS, nor Framelane's protocol (it began with \"");
  }
}

TEST(TlsHandshake, ClientNamesAPlainServer) {
  Fds fds = unix_pair();
  const auto client = secure(std::move(fds.first), TlsSide::kClient);
  ASSERT_TRUE(client->handshake());
  const auto hello = read_plain(fds.second.get());
  EXPECT_TRUE(transport::looks_like_tls(hello));
  EXPECT_EQ(transport::peer_speaks_tls().code, Code::kProtocol);
  EXPECT_TRUE(
      has(transport::peer_speaks_tls().text, "speaks TLS, and this one doesn't: give this end its psk-file too"));
  send_plain(fds.second.get(), framelane_bytes());
  fds.second.reset();
  expect_error(client->handshake(), Code::kProtocol, "doesn't speak TLS: give it the psk-file too");
}

TEST(TlsHandshake, ClientGuessesWhenTheServerCloses) {
  for (const bool reads : {true, false}) {  // without reading, the kernel sends a reset
    Fds fds = tcp_pair();
    const auto client = secure(std::move(fds.first), TlsSide::kClient);
    ASSERT_TRUE(client->handshake());
    ASSERT_TRUE(transport::wait_for(fds.second.get(), POLLIN, -1, soon()));
    if (reads) static_cast<void>(read_plain(fds.second.get()));
    fds.second.reset();
    ASSERT_TRUE(transport::wait_for(client->fd(), POLLIN, -1, soon()));
    expect_error(client->handshake(), Code::kPeerLost,
                 "instead of answering the TLS handshake: if it doesn't speak TLS");
  }
}

TEST(TlsHandshake, ServerSaysThatNobodyBegan) {
  Fds fds = unix_pair();
  const auto server = secure(std::move(fds.second), TlsSide::kServer);
  fds.first.reset();
  expect_error(server->handshake(), Code::kPeerLost, "closed the connection before it began a TLS handshake");
}

TEST(TlsHandshake, NeverWaitsForASilentPeer) {
  Fds fds = tcp_pair();
  const auto client = secure(std::move(fds.first), TlsSide::kClient);
  const auto server = secure(std::move(fds.second), TlsSide::kServer);
  for (int i = 0; i < 3; ++i) {
    const auto state = server->handshake();
    ASSERT_TRUE(state);
    EXPECT_EQ(*state, Handshake::kWantsRead);
  }
  for (int i = 0; i < 3; ++i) {
    const auto state = client->handshake();
    ASSERT_TRUE(state);
    EXPECT_EQ(*state, Handshake::kWantsRead);
  }
}

TEST(TlsHandshake, NeverWaitsForRoomInTheSocket) {
  Fds fds = unix_pair();
  const std::vector<std::byte> filler(4096);
  std::size_t filled = 0;
  for (ssize_t sent = 0; (sent = ::send(fds.first.get(), filler.data(), filler.size(), MSG_DONTWAIT)) > 0;)
    filled += static_cast<std::size_t>(sent);
  const auto client = secure(std::move(fds.first), TlsSide::kClient);
  for (int i = 0; i < 3; ++i) {
    const auto state = client->handshake();
    ASSERT_TRUE(state);
    EXPECT_EQ(*state, Handshake::kWantsWrite);
  }
  std::size_t drained = 0;
  while (drained < filled) drained += read_plain(fds.second.get()).size();
  EXPECT_EQ(*client->handshake(), Handshake::kWantsRead);
  EXPECT_TRUE(transport::looks_like_tls(read_plain(fds.second.get())));
}

TEST(TlsHandshake, ANobodyListensComesThroughAsItIs) {
  std::uint16_t port = 0;
  {
    const Fds fds = tcp_pair();
    port = *transport::local_port(fds.second.get());
  }
  auto fd = transport::begin_tcp("127.0.0.1", port);
  if (!fd) GTEST_SKIP() << "refused at once: " << fd.error().text;
  const auto client = secure(std::move(*fd), TlsSide::kClient);
  ASSERT_TRUE(transport::wait_for(client->fd(), POLLIN | POLLOUT, -1, soon()));
  expect_error(client->handshake(), Code::kNotFound, "no producer can be reached");
}

TEST(TlsHandshake, NothingElseGoesBeforeItIsDone) {
  Ends ends = ends_of(unix_pair());
  std::array<std::byte, 8> room{};
  const iovec buffer{room.data(), room.size()};
  EXPECT_EQ(ends.client->send({&buffer, 1}).error().code, Code::kInvalidArgument);
  EXPECT_EQ(ends.server->receive({&buffer, 1}).error().code, Code::kInvalidArgument);
  const Outcome outcome = shake(ends);
  EXPECT_TRUE(outcome.client && outcome.server);
}

// --- a relay between them

struct Sizes {
  std::size_t to_server = 0;
  std::size_t to_client = 0;
};

/// The bytes of a whole handshake, each way.
Sizes handshake_sizes(std::size_t piece = Relay::kAll) {
  Relay relay;
  relay.to_server.piece = relay.to_client.piece = piece;
  Ends ends = ends_of(relay.take_outer());
  const Outcome outcome = shake(ends, [&] { return relay.pump(); });
  EXPECT_TRUE(outcome.client && outcome.server);
  return {relay.to_server.passed, relay.to_client.passed};
}

TEST(TlsHandshake, ComesThroughInSingleBytes) {
  const Sizes whole = handshake_sizes();
  const Sizes pieces = handshake_sizes(1);
  EXPECT_GT(pieces.to_server, 100u);
  EXPECT_EQ(pieces.to_server, whole.to_server);
  EXPECT_EQ(pieces.to_client, whole.to_client);
}

TEST(TlsHandshake, CutAnywhereItEndsAtBothEnds) {
  const Sizes whole = handshake_sizes();
  for (const bool from_client : {true, false}) {
    const std::size_t size = from_client ? whole.to_server : whole.to_client;
    for (std::size_t limit = 0; limit < size; ++limit) {
      Relay relay;
      (from_client ? relay.to_server : relay.to_client).limit = limit;
      Ends ends = ends_of(relay.take_outer());
      const Outcome outcome = shake(ends, [&] { return relay.pump(); });
      // A client is done with its last bytes, whether they arrive or not; a server never without them.
      ASSERT_FALSE(outcome.server) << limit;
      EXPECT_EQ(outcome.server.error().code, Code::kPeerLost) << limit << ": " << outcome.server.error().text;
      if (!from_client) {
        ASSERT_FALSE(outcome.client) << limit;
        EXPECT_EQ(outcome.client.error().code, Code::kPeerLost) << limit << ": " << outcome.client.error().text;
        EXPECT_TRUE(has(outcome.client.error().text, limit == 0 ? "instead of answering" : "broke off in the middle"));
      } else if (outcome.client) {
        while (relay.pump()) continue;  // the server has left
        std::byte byte{};
        const iovec buffer{&byte, 1};
        const auto got = ends.client->receive({&buffer, 1});
        ASSERT_FALSE(got) << limit;
        EXPECT_EQ(got.error().code, Code::kPeerLost) << limit;
      }
    }
  }
}

TEST(TlsHandshake, ChangedAnywhereItFails) {
  const Sizes whole = handshake_sizes();
  for (const bool from_client : {true, false}) {
    const std::size_t size = from_client ? whole.to_server : whole.to_client;
    for (std::size_t at = 0; at < size; ++at) {
      if (at == 2) continue;  // the record's legacy version, of which no receiver takes notice
      Relay relay;
      auto& way = from_client ? relay.to_server : relay.to_client;
      way.flip_at = at;
      Ends ends = ends_of(relay.take_outer());
      bool cut = false;
      const Outcome outcome = shake(ends, [&] {
        // A length that grew makes the receiver wait for bytes that never come: its owner's patience ends.
        const std::size_t before = relay.to_server.passed + relay.to_client.passed;
        const bool open = relay.pump();
        if (before == relay.to_server.passed + relay.to_client.passed && open && !cut) {
          cut = true;
          relay.to_server.limit = relay.to_server.passed;
          relay.to_client.limit = relay.to_client.passed;
        }
        return open;
      });
      EXPECT_FALSE(outcome.client && outcome.server) << (from_client ? "client's byte " : "server's byte ") << at;
      if (from_client) {
        EXPECT_FALSE(outcome.server) << at;
      } else {
        EXPECT_FALSE(outcome.client) << at;
      }
    }
  }
}

TEST(TlsHandshake, RandomBytesEndInAnError) {
  std::mt19937 random(20261130);
  for (int round = 0; round < 2000; ++round) {
    Fds fds = unix_pair();
    const auto server = secure(std::move(fds.second), TlsSide::kServer);
    auto bytes = random_bytes(1 + random() % 600, static_cast<unsigned>(random()));
    if (round % 2 == 0 && bytes.size() > 9) {  // a client hello's first bytes, with a length that may lie
      const std::array<unsigned char, 6> start{
          0x16, 0x03, 0x01, static_cast<unsigned char>(random() % 3), static_cast<unsigned char>(random()), 0x01};
      std::transform(start.begin(), start.end(), bytes.begin(), [](unsigned char c) { return std::byte{c}; });
    }
    send_plain(fds.first.get(), bytes);
    fds.first.reset();
    Result<Handshake> state = server->handshake();
    for (int step = 0; step < 10 && state; ++step) state = server->handshake();
    ASSERT_FALSE(state) << round;
    ASSERT_TRUE(state.error().code == Code::kProtocol || state.error().code == Code::kPeerLost ||
                state.error().code == Code::kPermission)
        << to_string(state.error().code) << ' ' << state.error().text;
  }
}

TEST(TlsHandshake, AllThatFollowsItShowsAtTheDescriptor) {
  // The client's first message comes with the end of its handshake: the server must not have read it from the socket
  // where a poll doesn't see it.
  Ends ends = ends_of(unix_pair());
  ASSERT_TRUE(ends.client->handshake());
  ASSERT_TRUE(ends.server->handshake());
  ASSERT_EQ(*ends.client->handshake(), Handshake::kDone);
  const auto message = random_bytes(100, 1);
  ASSERT_TRUE(send_all(*ends.client, message));
  ASSERT_EQ(*ends.server->handshake(), Handshake::kDone);
  pollfd wanted{ends.server->fd(), POLLIN, 0};
  EXPECT_EQ(poll(&wanted, 1, 0), 1);
  EXPECT_EQ(receive_all(*ends.server, 100), message);
}

TEST(LooksLikeTls, NeedsTwoBytesOfAHandshakeOrAnAlert) {
  const auto looks = [](const std::string& text) { return transport::looks_like_tls(bytes_of(text)); };
  EXPECT_TRUE(looks("\x16\x03"));
  EXPECT_TRUE(looks("\x16\x03\x01\x02"));
  EXPECT_TRUE(looks("\x15\x03\x03"));
  EXPECT_FALSE(looks(""));
  EXPECT_FALSE(looks("\x16"));
  EXPECT_FALSE(looks("\x17\x03"));
  EXPECT_FALSE(looks("FLM1"));
  EXPECT_FALSE(transport::looks_like_tls(framelane_bytes()));
}

}  // namespace
}  // namespace framelane::tls
