// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/unique_fd.hpp"
#include "transport/secure_stream.hpp"

namespace framelane::tls {

using transport::ByteStream;
using transport::Handshake;
using transport::Psk;
using transport::SecureStream;
using transport::TlsSide;

using Fds = std::pair<base::UniqueFd, base::UniqueFd>;

/// Connected, non-blocking.
[[nodiscard]] Fds unix_pair();
[[nodiscard]] Fds tcp_pair();

[[nodiscard]] Psk key_of(const std::string& identity = "lane", unsigned char fill = 0x5a, std::size_t size = 32);
[[nodiscard]] std::unique_ptr<SecureStream> secure(base::UniqueFd fd, TlsSide side, const Psk& psk = key_of());

/// 60 s from now, ns of CLOCK_MONOTONIC.
[[nodiscard]] std::int64_t soon();

struct Ends {
  std::unique_ptr<SecureStream> client;
  std::unique_ptr<SecureStream> server;
};
[[nodiscard]] Ends ends_of(Fds fds, const Psk& client_key = key_of(), const Psk& server_key = key_of());

struct Outcome {
  Result<Handshake> client = Handshake::kWantsRead;
  Result<Handshake> server = Handshake::kWantsRead;
};
/// Both handshakes, step by step on this thread, until each is done or failed. An end that fails is closed, as its
/// owner would. `between` runs after each step and says whether anything may still come; when it says no, open ends are
/// left as they are.
Outcome shake(
    Ends& ends, const std::function<bool()>& between = [] { return true; });
/// The same, expecting both to succeed.
[[nodiscard]] Ends shaken(Fds fds);

/// Carries bytes between two connections on the calling thread, so that tests say exactly what passes.
class Relay {
 public:
  /// The client gets one end of a connection, the server one of another.
  Relay();
  [[nodiscard]] Fds take_outer() { return std::move(outer_); }

  static constexpr std::size_t kAll = SIZE_MAX;
  struct Way {
    std::size_t piece = kAll;  ///< most bytes of one pump()
    std::size_t limit = kAll;  ///< closes after so many bytes
    std::size_t passed = 0;
    std::size_t flip_at = kAll;  ///< index of a byte that gets another value
    std::vector<std::byte> seen;
    bool closed = false;
  };
  Way to_server;
  Way to_client;

  /// Moves what is there, both ways; false when both ways are closed.
  bool pump();

 private:
  void pump(Way& way, int from, int to);

  Fds outer_;
  base::UniqueFd client_side_;
  base::UniqueFd server_side_;
};

[[nodiscard]] std::vector<std::byte> random_bytes(std::size_t size, unsigned seed);
[[nodiscard]] iovec buffer_of(std::span<const std::byte> bytes);

/// Sends all, waiting for room; false on an error or after soon().
bool send_all(ByteStream& stream, std::span<const std::byte> bytes);
/// Receives `size` bytes, waiting for them; fewer on an error or after soon(). Polls only when receive() returned 0.
[[nodiscard]] std::vector<std::byte> receive_all(ByteStream& stream, std::size_t size);

[[nodiscard]] inline bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

/// Plain bytes on a connection, as an end without TLS would send them.
void send_plain(int fd, std::span<const std::byte> bytes);

}  // namespace framelane::tls
