// SPDX-License-Identifier: MIT
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <span>

#include <openssl/ssl.h>

#include "transport/tls_session.hpp"

namespace framelane::tls {

struct FreeContext {
  void operator()(SSL_CTX* context) const noexcept { SSL_CTX_free(context); }
};
using Context = std::unique_ptr<SSL_CTX, FreeContext>;

struct FreeSsl {
  void operator()(SSL* ssl) const noexcept { SSL_free(ssl); }
};

/// One side of a TLS 1.3 connection with one external pre-shared key and an ephemeral (EC)DH exchange. Everything of it
/// is its own, the context too: nothing is shared with other connections, or with a forked child's.
class Session final : public transport::TlsSession {
 public:
  explicit Session(const transport::TlsSettings& settings) noexcept;
  ~Session() override;

  /// Once, before all else. False: `why` has OpenSSL's words, or none when memory is short.
  [[nodiscard]] bool open(const transport::TlsSettings& settings, transport::TlsFailure& why) noexcept;

  transport::TlsStep handshake() noexcept override;
  bool write(const std::byte* bytes, std::size_t size) noexcept override;
  std::ptrdiff_t read(std::byte* to, std::size_t most) noexcept override;
  void close() noexcept override;
  transport::TlsFailure failure() const noexcept override { return failure_; }

  // For OpenSSL's callbacks.
  [[nodiscard]] bool offer_key(const EVP_MD* hash, const unsigned char** identity, std::size_t* size,
                               SSL_SESSION** session) noexcept;
  [[nodiscard]] bool look_up(std::span<const unsigned char> identity_untrusted, SSL_SESSION** session) noexcept;

 private:
  [[nodiscard]] bool fail(int result) noexcept;
  void forget_key() noexcept;

  Context context_;
  std::unique_ptr<SSL, FreeSsl> ssl_;
  bool is_server_;
  std::uint64_t records_per_key_;
  std::uint64_t records_ = 0;  // encrypted with the present key
  std::array<unsigned char, 128> identity_{};
  std::size_t identity_size_ = 0;
  std::array<unsigned char, 64> key_{};  // until the handshake is over
  std::size_t key_size_ = 0;
  bool is_stranger_ = false;
  std::array<char, 129> stranger_{};  // the identity that a client offered in place of ours, cut; ends with a 0
  transport::TlsFailure failure_;
};

}  // namespace framelane::tls
