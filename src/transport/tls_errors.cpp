// SPDX-License-Identifier: MIT
#include "transport/tls_errors.hpp"

#include <algorithm>
#include <array>
#include <string>

#include "base/text.hpp"
#include "transport/psk.hpp"
#include "wire/control_message.hpp"

namespace framelane::transport {
namespace {

constexpr char kSameFile[] = ": give both ends the same psk-file (one identity, one key)";

bool begins_like_tls(std::span<const std::byte> bytes) noexcept {
  const bool type = bytes[0] == std::byte{0x15} || bytes[0] == std::byte{0x16};
  return type && (bytes.size() < 2 || bytes[1] == std::byte{0x03});
}

std::string printable(std::span<const std::byte> bytes) {
  return base::printable(std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
}

Error not_tls(std::span<const std::byte> first) {
  if (begins_like_framelane(first))
    return {Code::kProtocol, "the other end of the lane doesn't speak TLS: give it the psk-file too"};
  return {Code::kProtocol, "the other end doesn't speak TLS, nor Framelane's protocol (it began with \"" +
                               printable(first) + "\"): give it the psk-file too, if it is a lane at all"};
}

Error connection_lost(const HandshakeView& view) {
  if (view.broken != nullptr && view.broken->code != Code::kPeerLost) return *view.broken;
  if (!view.first_bytes.empty())
    return {Code::kPeerLost, "the connection broke off in the middle of the TLS handshake"};
  if (view.side == TlsSide::kServer)
    return {Code::kPeerLost, "the other end closed the connection before it began a TLS handshake"};
  return {Code::kPeerLost,
          "the other end of the lane closed the connection instead of answering the TLS handshake: if it doesn't speak "
          "TLS, give it the psk-file too"};
}

}  // namespace

Error handshake_error(const TlsFailure& failure, const HandshakeView& view) {
  if (!view.first_bytes.empty() && !begins_like_tls(view.first_bytes)) return not_tls(view.first_bytes);
  const std::string identity(view.identity);
  const std::string text = base::printable(failure.text_untrusted, Psk::kMaxIdentityBytes);
  switch (failure.trouble) {
    case TlsTrouble::kConnection:
    case TlsTrouble::kClosed:
      return connection_lost(view);
    case TlsTrouble::kOtherKey:
      return {Code::kPermission, "the other end of the lane has another key for \"" + identity + "\"" + kSameFile};
    case TlsTrouble::kOtherIdentity:
      return {Code::kPermission, "the other end of the lane has a key for \"" + text + "\", and this one for \"" +
                                     identity + "\"" + kSameFile};
    case TlsTrouble::kNoKey:
      return {Code::kPermission, std::string("the other end speaks TLS, but not with our key") + kSameFile};
    case TlsTrouble::kRefused:
      return {Code::kPermission, std::string("the other end of the lane doesn't accept our key") + kSameFile};
    case TlsTrouble::kUndecryptable:
      return {Code::kPermission,
              std::string("the other end's TLS handshake can't be decrypted, or was changed on its way") + kSameFile};
    case TlsTrouble::kAlert:
      return {Code::kProtocol, "the other end ended the TLS handshake: " + text};
    case TlsTrouble::kNone:
    case TlsTrouble::kBroken:
      break;
  }
  return {Code::kProtocol, "the other end's TLS handshake doesn't fit, or was broken on its way: " + text};
}

Error stream_error(const TlsFailure& failure, const Error* broken) {
  if (failure.trouble == TlsTrouble::kConnection && broken != nullptr) return *broken;
  if (failure.trouble == TlsTrouble::kClosed || failure.trouble == TlsTrouble::kConnection)
    return {Code::kPeerLost, "the process at the other end of the lane closed the stream"};
  return {Code::kProtocol,
          "the TLS stream is broken (" + base::printable(failure.text_untrusted) + "): was it changed on its way?"};
}

bool begins_like_framelane(std::span<const std::byte> bytes) noexcept {
  const std::array<std::byte, 4> magic{std::byte{wire::kMagic & 0xff}, std::byte{wire::kMagic >> 8 & 0xff},
                                       std::byte{wire::kMagic >> 16 & 0xff}, std::byte{wire::kMagic >> 24}};
  return bytes.size() >= magic.size() && std::equal(magic.begin(), magic.end(), bytes.begin());
}

std::vector<std::byte> plain_refusal() {
  return wire::encode(
      wire::Reject{wire::RejectCode::kPermission, "this lane goes through TLS: give the consumer the same psk-file"},
      0);
}

bool looks_like_tls(std::span<const std::byte> first_bytes) noexcept {
  return first_bytes.size() >= 2 && begins_like_tls(first_bytes);
}

Error peer_speaks_tls() {
  return {Code::kProtocol,
          "the other end of the lane speaks TLS, and this one doesn't: give this end its psk-file too"};
}

}  // namespace framelane::transport
