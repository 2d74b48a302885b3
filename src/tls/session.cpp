// SPDX-License-Identifier: MIT
#include "tls/session.hpp"

#include <algorithm>
#include <cstdio>
#include <cstring>

#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/rand.h>

namespace framelane::tls {
namespace {

using transport::TlsFailure;
using transport::TlsPipe;
using transport::TlsSettings;
using transport::TlsSide;
using transport::TlsStep;
using transport::TlsTrouble;

constexpr std::size_t kRecordBytes = SSL3_RT_MAX_PLAIN_LENGTH;
/// Four records to a system call.
constexpr std::size_t kReadAheadBytes = 4 * (kRecordBytes + 256);
/// A pre-shared key goes with one hash, by default SHA-256 (RFC 8446, 4.2.11), so AES-256-GCM-SHA384 is out of reach.
constexpr char kSuites[] = "TLS_AES_128_GCM_SHA256:TLS_CHACHA20_POLY1305_SHA256";
constexpr unsigned char kSha256Suite[] = {0x13, 0x01};  // TLS_AES_128_GCM_SHA256 stands for the hash

Session& session_of(const SSL* ssl) noexcept { return *static_cast<Session*>(SSL_get_app_data(ssl)); }

// --- OpenSSL's way to the pipe

int pipe_write(BIO* bio, const char* bytes, int size) noexcept {
  auto& pipe = *static_cast<TlsPipe*>(BIO_get_data(bio));
  BIO_clear_retry_flags(bio);
  return pipe.write(reinterpret_cast<const std::byte*>(bytes), static_cast<std::size_t>(size)) ? size : -1;
}

int pipe_read(BIO* bio, char* to, int most) noexcept {
  auto& pipe = *static_cast<TlsPipe*>(BIO_get_data(bio));
  BIO_clear_retry_flags(bio);
  const std::ptrdiff_t got = pipe.read(reinterpret_cast<std::byte*>(to), static_cast<std::size_t>(most));
  if (got == 0) BIO_set_retry_read(bio);
  return got > 0 ? static_cast<int>(got) : -1;
}

long pipe_control(BIO* /*bio*/, int command, long /*number*/, void* /*pointer*/) noexcept {
  return command == BIO_CTRL_FLUSH ? 1 : 0;
}

BIO_METHOD* make_pipe_method() noexcept {
  BIO_METHOD* const method = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "lane");
  if (method == nullptr) return nullptr;
  BIO_meth_set_write(method, pipe_write);
  BIO_meth_set_read(method, pipe_read);
  BIO_meth_set_ctrl(method, pipe_control);
  return method;
}

BIO* make_pipe_bio(TlsPipe* pipe) noexcept {
  static BIO_METHOD* const method = make_pipe_method();  // for good: connections may outlive static objects
  BIO* const bio = method != nullptr ? BIO_new(method) : nullptr;
  if (bio == nullptr) return nullptr;
  BIO_set_data(bio, pipe);
  BIO_set_init(bio, 1);
  return bio;
}

// --- the key

SSL_SESSION* session_with(SSL* ssl, const unsigned char* key, std::size_t size) noexcept {
  const SSL_CIPHER* const suite = SSL_CIPHER_find(ssl, kSha256Suite);
  SSL_SESSION* const session = suite != nullptr ? SSL_SESSION_new() : nullptr;
  if (session == nullptr) return nullptr;
  if (SSL_SESSION_set1_master_key(session, key, size) == 1 && SSL_SESSION_set_cipher(session, suite) == 1 &&
      SSL_SESSION_set_protocol_version(session, TLS1_3_VERSION) == 1) {
    return session;
  }
  SSL_SESSION_free(session);
  return nullptr;
}

int use_key(SSL* ssl, const EVP_MD* hash, const unsigned char** identity, std::size_t* size,
            SSL_SESSION** session) noexcept {
  return session_of(ssl).offer_key(hash, identity, size, session) ? 1 : 0;
}

int find_key(SSL* ssl, const unsigned char* identity, std::size_t size, SSL_SESSION** session) noexcept {
  return session_of(ssl).look_up({identity, size}, session) ? 1 : 0;
}

/// What both sides agree on without asking the system's configuration.
bool restrict_context(SSL_CTX* context) noexcept {
  SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
  // No tickets: a resumed session is one more way in, and a message after the handshake. Changing the cipher for old
  // middleboxes is for the web.
  SSL_CTX_set_options(context, SSL_OP_NO_TICKET | SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
  SSL_CTX_clear_options(context, SSL_OP_ENABLE_MIDDLEBOX_COMPAT | SSL_OP_ALLOW_NO_DHE_KEX);
  SSL_CTX_set_default_read_buffer_len(context, kReadAheadBytes);
  SSL_CTX_set_mode(context, SSL_MODE_AUTO_RETRY);
  return SSL_CTX_set_min_proto_version(context, TLS1_3_VERSION) == 1 &&
         SSL_CTX_set_max_proto_version(context, TLS1_3_VERSION) == 1 &&
         SSL_CTX_set_ciphersuites(context, kSuites) == 1 && SSL_CTX_set_num_tickets(context, 0) == 1 &&
         SSL_CTX_set_max_early_data(context, 0) == 1;
}

Context make_context(TlsSide side) noexcept {
  Context context(SSL_CTX_new(side == TlsSide::kServer ? TLS_server_method() : TLS_client_method()));
  if (!context || !restrict_context(context.get())) return nullptr;
  if (side == TlsSide::kServer) {
    SSL_CTX_set_psk_find_session_callback(context.get(), find_key);
  } else {
    SSL_CTX_set_psk_use_session_callback(context.get(), use_key);
    // A server without our key shows a certificate, which is worth nothing: no authority is trusted.
    SSL_CTX_set_verify(context.get(), SSL_VERIFY_PEER, nullptr);
  }
  return context;
}

// --- what went wrong

void set_text(TlsFailure& failure, const char* text) noexcept {
  std::snprintf(failure.text_untrusted, sizeof failure.text_untrusted, "%s", text);
}

void set_reason(TlsFailure& failure, unsigned long error) noexcept {
  const char* const words = ERR_reason_error_string(error);
  set_text(failure, words != nullptr ? words : "an error without a name");
}

/// What an alert of the peer means.
TlsTrouble trouble_of_alert(int alert) noexcept {
  switch (alert) {
    case SSL_AD_BAD_RECORD_MAC:
    case SSL_AD_HANDSHAKE_FAILURE:
    case SSL_AD_ILLEGAL_PARAMETER:  // what OpenSSL says when the proof of the key is wrong
    case SSL_AD_UNKNOWN_CA:         // of a client to which we would have shown a certificate
    case SSL_AD_ACCESS_DENIED:
    case SSL_AD_DECRYPT_ERROR:
    case SSL_AD_UNKNOWN_PSK_IDENTITY:
      return TlsTrouble::kRefused;
    default:
      return TlsTrouble::kAlert;
  }
}

TlsTrouble trouble_of(unsigned long error) noexcept {
  const int reason = ERR_GET_REASON(error);
  if (ERR_GET_LIB(error) != ERR_LIB_SSL) return TlsTrouble::kBroken;
  if (reason > SSL_AD_REASON_OFFSET) return trouble_of_alert(reason - SSL_AD_REASON_OFFSET);
  switch (reason) {
    case SSL_R_BINDER_DOES_NOT_VERIFY:
      return TlsTrouble::kOtherKey;
    case SSL_R_NO_SUITABLE_SIGNATURE_ALGORITHM:  // the server would have to show a certificate
    case SSL_R_NO_SHARED_CIPHER:
    case SSL_R_CERTIFICATE_VERIFY_FAILED:
      return TlsTrouble::kNoKey;
    case SSL_R_DECRYPTION_FAILED_OR_BAD_RECORD_MAC:
    case SSL_R_DIGEST_CHECK_FAILED:
      return TlsTrouble::kUndecryptable;
    default:
      return TlsTrouble::kBroken;
  }
}

}  // namespace

Session::Session(const TlsSettings& settings) noexcept
    : is_server_(settings.side == TlsSide::kServer), records_per_key_(settings.records_per_key) {
  identity_size_ = std::min(std::strlen(settings.identity), identity_.size());
  std::memcpy(identity_.data(), settings.identity, identity_size_);
  key_size_ = std::min(settings.key_size, key_.size());
  std::memcpy(key_.data(), settings.key, key_size_);
}

Session::~Session() { forget_key(); }

bool Session::open(const TlsSettings& settings, TlsFailure& why) noexcept {
  ERR_clear_error();
  context_ = make_context(settings.side);
  if (context_) ssl_.reset(SSL_new(context_.get()));
  BIO* const bio = ssl_ ? make_pipe_bio(settings.pipe) : nullptr;
  if (bio == nullptr) {
    if (const unsigned long error = ERR_peek_error(); ERR_GET_REASON(error) != ERR_R_MALLOC_FAILURE)
      set_reason(why, error);
    return false;
  }
  SSL_set_bio(ssl_.get(), bio, bio);  // takes it
  SSL_set_app_data(ssl_.get(), this);
  if (is_server_) {
    SSL_set_accept_state(ssl_.get());
  } else {
    SSL_set_connect_state(ssl_.get());
  }
  return true;
}

TlsStep Session::handshake() noexcept {
  ERR_clear_error();
  const int result = SSL_do_handshake(ssl_.get());
  if (result != 1) return fail(result) ? TlsStep::kFailed : TlsStep::kWantsRead;
  forget_key();
  if (SSL_session_reused(ssl_.get()) != 1) {  // that is, with the key: nothing else was on offer
    failure_.trouble = TlsTrouble::kNoKey;
    return TlsStep::kFailed;
  }
  // From now on several records for one system call. Before, it would have taken bytes from the socket that nobody
  // misses until more come.
  SSL_set_read_ahead(ssl_.get(), 1);
  return TlsStep::kDone;
}

bool Session::write(const std::byte* bytes, std::size_t size) noexcept {
  ERR_clear_error();
  while (size != 0) {
    const std::size_t part = std::min(size, kRecordBytes);
    if (++records_ > records_per_key_) {  // the peer needs not answer that
      records_ = 1;
      static_cast<void>(SSL_key_update(ssl_.get(), SSL_KEY_UPDATE_NOT_REQUESTED));
    }
    std::size_t written = 0;
    const int result = SSL_write_ex(ssl_.get(), bytes, part, &written);
    if (result != 1) {
      if (!fail(result)) failure_.trouble = TlsTrouble::kBroken;  // the pipe takes all or nothing
      return false;
    }
    bytes += written;
    size -= written;
  }
  return true;
}

std::ptrdiff_t Session::read(std::byte* to, std::size_t most) noexcept {
  ERR_clear_error();
  std::size_t got = 0;
  const int result = SSL_read_ex(ssl_.get(), to, most, &got);
  if (result == 1) return static_cast<std::ptrdiff_t>(got);
  return fail(result) ? -1 : 0;
}

void Session::close() noexcept {
  ERR_clear_error();
  static_cast<void>(SSL_shutdown(ssl_.get()));
}

/// Notes why a call of OpenSSL's returned `result`; false when it only wants more bytes.
bool Session::fail(int result) noexcept {
  const int kind = SSL_get_error(ssl_.get(), result);
  if (kind == SSL_ERROR_WANT_READ) return false;
  const unsigned long error = ERR_peek_error();  // the first one is the cause
  if (kind == SSL_ERROR_ZERO_RETURN) {
    failure_.trouble = TlsTrouble::kClosed;
  } else if (kind == SSL_ERROR_SYSCALL || error == 0) {
    failure_.trouble = TlsTrouble::kConnection;
  } else {
    failure_.trouble = trouble_of(error);
    set_reason(failure_, error);
    if (failure_.trouble == TlsTrouble::kOtherKey && is_stranger_) {
      failure_.trouble = TlsTrouble::kOtherIdentity;
      std::copy(stranger_.begin(), stranger_.end(), failure_.text_untrusted);
    }
  }
  return true;
}

bool Session::offer_key(const EVP_MD* hash, const unsigned char** identity, std::size_t* size,
                        SSL_SESSION** session) noexcept {
  // After a server's request to try again the hash is settled; ours is the only one on offer.
  if (hash != nullptr && EVP_MD_get_type(hash) != NID_sha256) return false;
  *session = session_with(ssl_.get(), key_.data(), key_size_);
  *identity = identity_.data();
  *size = identity_size_;
  return *session != nullptr;
}

bool Session::look_up(std::span<const unsigned char> identity, SSL_SESSION** session) noexcept {
  const bool known =
      identity.size() == identity_size_ && CRYPTO_memcmp(identity.data(), identity_.data(), identity_size_) == 0;
  if (known) {
    *session = session_with(ssl_.get(), key_.data(), key_size_);
    return *session != nullptr;
  }
  is_stranger_ = true;
  const std::size_t shown = std::min(identity.size(), stranger_.size() - 1);
  std::copy_n(identity.begin(), shown, stranger_.begin());
  // A key that nobody has: who doesn't know the identity learns no more than who doesn't know the key.
  std::array<unsigned char, 32> nobodys{};
  if (RAND_bytes(nobodys.data(), static_cast<int>(nobodys.size())) != 1) return false;
  *session = session_with(ssl_.get(), nobodys.data(), nobodys.size());
  return *session != nullptr;
}

void Session::forget_key() noexcept {
  OPENSSL_cleanse(key_.data(), key_.size());
  key_size_ = 0;
}

}  // namespace framelane::tls

extern "C" {

// The names of kTlsVersionSymbol and kTlsOpenSymbol.
__attribute__((visibility("default"))) extern const char framelane_tls_version[];
const char framelane_tls_version[] = FRAMELANE_VERSION;

__attribute__((visibility("default"))) framelane::transport::TlsSession* framelane_tls_open(
    const framelane::transport::TlsSettings* settings, framelane::transport::TlsFailure* why) noexcept;
framelane::transport::TlsSession* framelane_tls_open(const framelane::transport::TlsSettings* settings,
                                                     framelane::transport::TlsFailure* why) noexcept {
  auto* const session = new (std::nothrow) framelane::tls::Session(*settings);
  if (session == nullptr || session->open(*settings, *why)) return session;
  delete session;
  return nullptr;
}

}  // extern "C"
