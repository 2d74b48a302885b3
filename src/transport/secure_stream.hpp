// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "framelane/base/result.hpp"

#include "base/unique_fd.hpp"
#include "transport/byte_stream.hpp"
#include "transport/psk.hpp"
#include "transport/tls_session.hpp"

// A byte stream through TLS 1.3 with a pre-shared key: nobody without the key reads, changes or joins it. src/tls has
// the reasons.

namespace framelane::transport {

enum class Handshake : std::uint8_t {
  kDone,
  kWantsRead,   ///< call again when fd() has something to read
  kWantsWrite,  ///< call again when fd() takes bytes
};

/// Beyond what ByteStream says:
/// - What send() took may wait in here for room in the socket, but never all of a call's bytes: while send() doesn't
///   report the last one, the caller has a reason to come back. So what was reported as not taken must come next, or
///   nothing any more; a call of one byte that returned 0 may have been encrypted already, and must be repeated.
/// - After receive() returned 0, or handshake() kDone, everything that comes shows at fd().
///
/// Threads: as ByteStream; handshake() in place of both.
class SecureStream : public ByteStream {
 public:
  /// Goes on with the handshake as far as it goes without waiting; who must wait polls fd(). Until kDone, send() and
  /// receive() are errors. The caller bounds the time that it grants a silent peer.
  /// Errors: kPermission (the ends have different keys), kProtocol (the peer doesn't speak TLS, or another one),
  ///         kPeerLost, kNotFound (a connection on its way was refused), kSystem. The stream is of no more use. The
  ///         peer has been told: by an alert, or a REJECT where it speaks Framelane's protocol without TLS.
  [[nodiscard]] virtual Result<Handshake> handshake() noexcept = 0;
};

/// `fd`: a TCP (or Unix stream) socket, connected or on its way, which becomes non-blocking. The first call of a
/// process loads libframelane-tls.so. Errors: kUnsupported (it isn't there; says what to install), kNoMemory, kSystem.
[[nodiscard]] Result<std::unique_ptr<SecureStream>> make_secure(base::UniqueFd fd, TlsSide side, const Psk& psk);

/// A stream, and what it is where it has a handshake of its own.
struct OpenStream {
  std::unique_ptr<ByteStream> stream;
  SecureStream* secure = nullptr;
};

/// Plain without a key. Errors: as make_secure().
[[nodiscard]] Result<OpenStream> open_stream(base::UniqueFd fd, TlsSide side, const Psk* psk);

}  // namespace framelane::transport
