// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>

// What the core and the library libframelane-tls say to each other; both ends of it are built from this file. The
// library is loaded with dlopen(), so only plain types cross, and nothing throws or waits.

namespace framelane::transport {

enum class TlsSide : std::uint8_t {
  kServer,  ///< accepted the connection
  kClient,  ///< asked for it
};

/// Bytes to and from the connection; the core's end.
class TlsPipe {
 public:
  /// Takes all bytes. False: the connection is gone, or too much waits to be sent.
  [[nodiscard]] virtual bool write(const std::byte* bytes, std::size_t size) noexcept = 0;
  /// Up to `most` bytes of what came; 0 when there is nothing now; -1: the connection is gone.
  [[nodiscard]] virtual std::ptrdiff_t read(std::byte* to, std::size_t most) noexcept = 0;

 protected:
  ~TlsPipe() = default;
};

enum class TlsStep : std::uint8_t {
  kDone,
  kWantsRead,  ///< goes on when more bytes came
  kFailed,     ///< see failure()
};

/// Why a session is over.
enum class TlsTrouble : std::uint8_t {
  kNone,
  kConnection,     ///< the pipe said so
  kClosed,         ///< the peer ended the session in good order
  kOtherKey,       ///< the peer has another key for our identity
  kOtherIdentity,  ///< the peer's identity isn't ours; `text` is its own
  kNoKey,          ///< the peer speaks TLS, but not with our key
  kRefused,        ///< the peer's alert says that it doesn't accept our key
  kAlert,          ///< another alert of the peer, named in `text`
  kUndecryptable,  ///< what came was encrypted with another key, or was changed on its way
  kBroken,         ///< anything else, in OpenSSL's words in `text`
};

struct TlsFailure {
  static constexpr std::size_t kTextBytes = 160;

  TlsTrouble trouble = TlsTrouble::kNone;
  char text_untrusted[kTextBytes] = {};  ///< ends with a 0; may hold what the peer sent
};

/// One TLS session; the library's end.
///
/// Threads: one at a time.
class TlsSession {
 public:
  TlsSession() = default;
  TlsSession(const TlsSession&) = delete;
  TlsSession& operator=(const TlsSession&) = delete;
  virtual ~TlsSession() = default;

  /// Goes on with the handshake. Reads from the pipe what belongs to the handshake and nothing after it.
  [[nodiscard]] virtual TlsStep handshake() noexcept = 0;
  /// Encrypts `size` bytes (not 0) into records and writes them to the pipe. After the handshake only.
  [[nodiscard]] virtual bool write(const std::byte* bytes, std::size_t size) noexcept = 0;
  /// Up to `most` decrypted bytes; 0 when the pipe had nothing and no whole record is left; -1: see failure(). After
  /// the handshake only.
  [[nodiscard]] virtual std::ptrdiff_t read(std::byte* to, std::size_t most) noexcept = 0;
  /// Tells the peer that nothing more comes. After the handshake only, once.
  virtual void close() noexcept = 0;
  [[nodiscard]] virtual TlsFailure failure() const noexcept = 0;
};

struct TlsSettings {
  /// Records (of at most 16 KiB) that are encrypted with one key before the next one is derived. AES-GCM bears 2^24.5
  /// (RFC 8446, 5.5).
  static constexpr std::uint64_t kRecordsPerKey = std::uint64_t{1} << 22;

  TlsSide side = TlsSide::kServer;
  const char* identity = nullptr;
  const std::byte* key = nullptr;  ///< copied; both need to live only while framelane_tls_open() runs
  std::size_t key_size = 0;
  TlsPipe* pipe = nullptr;  ///< outlives the session
  std::uint64_t records_per_key = kRecordsPerKey;
};

/// Symbols of the library. The version (a string, the project's) must be the core's own: they are built together.
inline constexpr char kTlsVersionSymbol[] = "framelane_tls_version";
inline constexpr char kTlsOpenSymbol[] = "framelane_tls_open";
/// Null when memory is short or OpenSSL refuses (`why` gets its words).
using TlsOpen = TlsSession* (*)(const TlsSettings* settings, TlsFailure* why) noexcept;

}  // namespace framelane::transport
