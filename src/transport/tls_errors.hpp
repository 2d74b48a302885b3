// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

#include "framelane/base/result.hpp"

#include "transport/tls_session.hpp"

// What two ends say when they don't come together through TLS: each of them one sentence.

namespace framelane::transport {

/// What a handshake has seen of its peer.
struct HandshakeView {
  std::span<const std::byte> first_bytes;  ///< up to 8 that the peer sent
  const Error* broken;                     ///< why the connection is gone; null while it stands
  TlsSide side;                            ///< ours
  std::string_view identity;               ///< ours
};

/// kPermission, kProtocol, kPeerLost, or the connection's own error.
[[nodiscard]] Error handshake_error(const TlsFailure& failure, const HandshakeView& view);
/// Of a stream after its handshake. kProtocol, kPeerLost, or the connection's own error.
[[nodiscard]] Error stream_error(const TlsFailure& failure, const Error* broken);

/// Whether a peer's first bytes begin a TLS record of a handshake (a client's first) or an alert (what a TLS server
/// answers to anything else). At least 2 bytes; fewer are no.
[[nodiscard]] bool looks_like_tls(std::span<const std::byte> first_bytes) noexcept;
/// The error of an end without a psk-file whose peer sent what looks_like_tls(). kProtocol.
[[nodiscard]] Error peer_speaks_tls();

/// Whether a peer's first bytes begin a message of Framelane's protocol. At least 4 bytes; fewer are no.
[[nodiscard]] bool begins_like_framelane(std::span<const std::byte> first_bytes) noexcept;
/// What a TLS server answers to them: a REJECT, since an alert wouldn't tell such a peer anything.
[[nodiscard]] std::vector<std::byte> plain_refusal();

}  // namespace framelane::transport
