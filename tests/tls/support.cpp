// SPDX-License-Identifier: MIT
#include "support.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <stdexcept>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include "base/clock.hpp"
#include "transport/byte_stream.hpp"
#include "transport/stream_socket.hpp"

namespace framelane::tls {

Fds unix_pair() {
  int ends[2] = {-1, -1};
  EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends), 0);
  return {base::UniqueFd(ends[0]), base::UniqueFd(ends[1])};
}

Fds tcp_pair() {
  const auto listener = transport::listen_tcp("127.0.0.1", 0);
  if (!listener) {
    ADD_FAILURE() << listener.error().text;
    return {};
  }
  auto client = transport::begin_tcp("127.0.0.1", transport::local_port(listener->get()).value_or(0));
  EXPECT_TRUE(client && transport::wait_for(listener->get(), POLLIN, -1, soon()));
  base::UniqueFd server(accept4(listener->get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  EXPECT_TRUE(server.valid());
  return {client ? std::move(*client) : base::UniqueFd(), std::move(server)};
}

Psk key_of(const std::string& identity, unsigned char fill, std::size_t size) {
  const std::vector<std::byte> key(size, std::byte{fill});
  auto psk = Psk::create(identity, key);
  EXPECT_TRUE(psk) << psk.error().text;
  return *psk;
}

std::unique_ptr<SecureStream> secure(base::UniqueFd fd, TlsSide side, const Psk& psk) {
  auto stream = transport::make_secure(std::move(fd), side, psk);
  if (!stream) throw std::runtime_error(stream.error().text);  // the test fails with this
  return std::move(*stream);
}

std::int64_t soon() { return base::deadline_after(std::chrono::seconds(60)); }

Ends ends_of(Fds fds, const Psk& client_key, const Psk& server_key) {
  return {secure(std::move(fds.first), TlsSide::kClient, client_key),
          secure(std::move(fds.second), TlsSide::kServer, server_key)};
}

namespace {

bool is_over(const Result<Handshake>& state) { return !state || *state == Handshake::kDone; }

void step(std::unique_ptr<SecureStream>& end, Result<Handshake>& state) {
  if (is_over(state)) return;
  state = end->handshake();
  if (!state) end.reset();
}

}  // namespace

Outcome shake(Ends& ends, const std::function<bool()>& between) {
  Outcome outcome;
  const std::int64_t deadline = soon();
  bool more = true;
  while (true) {
    step(ends.client, outcome.client);
    step(ends.server, outcome.server);
    if ((is_over(outcome.client) && is_over(outcome.server)) || !more) return outcome;
    more = between();
    if (base::monotonic_ns() > deadline) {
      ADD_FAILURE() << "the handshake doesn't end";
      return outcome;
    }
  }
}

Ends shaken(Fds fds) {
  Ends ends = ends_of(std::move(fds));
  const Outcome outcome = shake(ends);
  EXPECT_TRUE(outcome.client) << outcome.client.error().text;
  EXPECT_TRUE(outcome.server) << outcome.server.error().text;
  return ends;
}

Relay::Relay() {
  Fds one = unix_pair();
  Fds other = unix_pair();
  outer_ = {std::move(one.first), std::move(other.first)};
  client_side_ = std::move(one.second);
  server_side_ = std::move(other.second);
}

bool Relay::pump() {
  pump(to_server, client_side_.get(), server_side_.get());
  pump(to_client, server_side_.get(), client_side_.get());
  return !(to_server.closed && to_client.closed);
}

void Relay::pump(Way& way, int from, int to) {
  if (way.closed) return;
  std::array<std::byte, 4096> room;
  const std::size_t most = std::min({room.size(), way.piece, way.limit - way.passed});
  const ssize_t got = most == 0 ? 0 : recv(from, room.data(), most, 0);
  if (got < 0 && errno == EAGAIN) return;
  if (got > 0) {
    const auto size = static_cast<std::size_t>(got);
    if (way.flip_at >= way.passed && way.flip_at < way.passed + size) room[way.flip_at - way.passed] ^= std::byte{0x41};
    way.seen.insert(way.seen.end(), room.begin(), room.begin() + got);
    way.passed += size;
    static_cast<void>(::send(to, room.data(), size, MSG_NOSIGNAL));  // small enough; the receiver may have closed
    if (way.passed < way.limit) return;
  }
  // Cut: nothing more comes from here, nor goes there.
  shutdown(to, SHUT_WR);
  shutdown(from, SHUT_RD);
  way.closed = true;
}

std::vector<std::byte> random_bytes(std::size_t size, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<std::byte> bytes(size);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
  return bytes;
}

iovec buffer_of(std::span<const std::byte> bytes) { return {const_cast<std::byte*>(bytes.data()), bytes.size()}; }

bool send_all(ByteStream& stream, std::span<const std::byte> bytes) {
  const std::int64_t deadline = soon();
  while (!bytes.empty()) {
    const iovec buffer = buffer_of(bytes);
    const auto sent = stream.send({&buffer, 1});
    if (!sent) return false;
    bytes = bytes.subspan(*sent);
    if (*sent == 0 && !transport::wait_for(stream.fd(), POLLOUT, -1, deadline)) return false;
  }
  return true;
}

std::vector<std::byte> receive_all(ByteStream& stream, std::size_t size) {
  const std::int64_t deadline = soon();
  std::vector<std::byte> bytes(size);
  std::size_t have = 0;
  while (have < size) {
    const iovec buffer{bytes.data() + have, size - have};
    const auto got = stream.receive({&buffer, 1});
    if (!got) break;
    have += *got;
    if (*got == 0 && !transport::wait_for(stream.fd(), POLLIN, -1, deadline)) break;
  }
  bytes.resize(have);
  return bytes;
}

void send_plain(int fd, std::span<const std::byte> bytes) {
  EXPECT_EQ(::send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL), static_cast<ssize_t>(bytes.size()));
}

}  // namespace framelane::tls
