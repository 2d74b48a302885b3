// SPDX-License-Identifier: MIT
#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <poll.h>

#include "support.hpp"
#include "transport/byte_stream.hpp"
#include "transport/tls_library.hpp"

// Peers that use OpenSSL as anybody else would: what we accept of them, and what they see of us.

namespace framelane::tls {
namespace {

template <auto free_function>
struct Free {
  template <class T>
  void operator()(T* object) const noexcept {
    free_function(object);
  }
};

/// What the peer's callbacks saw.
struct Seen {
  std::vector<unsigned char> key = std::vector<unsigned char>(32, 0x5a);
  int tickets = 0;
  int key_updates = 0;
};

unsigned give_key(SSL* ssl, unsigned char* key, unsigned most) {
  const auto& seen = *static_cast<Seen*>(SSL_get_app_data(ssl));
  if (seen.key.size() > most) return 0;
  std::copy(seen.key.begin(), seen.key.end(), key);
  return static_cast<unsigned>(seen.key.size());
}

unsigned client_key(SSL* ssl, const char* /*hint*/, char* identity, unsigned most, unsigned char* key, unsigned size) {
  std::strncpy(identity, "lane", most);
  return give_key(ssl, key, size);
}

unsigned server_key(SSL* ssl, const char* identity, unsigned char* key, unsigned size) {
  return std::strcmp(identity, "lane") == 0 ? give_key(ssl, key, size) : 0;
}

void watch_messages(int is_sent, int /*version*/, int type, const void* bytes, std::size_t size, SSL* ssl, void*) {
  if (is_sent != 0 || type != SSL3_RT_HANDSHAKE || size == 0) return;
  auto& seen = *static_cast<Seen*>(SSL_get_app_data(ssl));
  const unsigned char message = *static_cast<const unsigned char*>(bytes);
  if (message == SSL3_MT_NEWSESSION_TICKET) ++seen.tickets;
  if (message == SSL3_MT_KEY_UPDATE) ++seen.key_updates;
}

/// A peer on a non-blocking descriptor.
class Peer {
 public:
  Peer(base::UniqueFd fd, TlsSide side) : fd_(std::move(fd)), side_(side) {
    context_.reset(SSL_CTX_new(side == TlsSide::kServer ? TLS_server_method() : TLS_client_method()));
    SSL_CTX_set_msg_callback(context_.get(), watch_messages);
  }

  [[nodiscard]] SSL_CTX* context() const { return context_.get(); }
  [[nodiscard]] SSL* ssl() const { return ssl_.get(); }
  Seen seen;

  void use_key() {
    SSL_CTX_set_psk_client_callback(context(), client_key);
    SSL_CTX_set_psk_server_callback(context(), server_key);
  }
  /// A certificate that it signed itself, and that says whatever it likes.
  void use_certificate();

  /// One step; done or not.
  bool handshake() {
    if (!ssl_) open();
    ERR_clear_error();
    return SSL_do_handshake(ssl()) == 1;
  }
  void close() {
    ssl_.reset();
    fd_.reset();
  }

 private:
  void open() {
    ssl_.reset(SSL_new(context()));
    SSL_set_app_data(ssl(), &seen);
    SSL_set_fd(ssl(), fd_.get());
    side_ == TlsSide::kServer ? SSL_set_accept_state(ssl()) : SSL_set_connect_state(ssl());
  }

  base::UniqueFd fd_;
  TlsSide side_;
  std::unique_ptr<SSL_CTX, Free<SSL_CTX_free>> context_;
  std::unique_ptr<SSL, Free<SSL_free>> ssl_;
};

void Peer::use_certificate() {
  const std::unique_ptr<EVP_PKEY, Free<EVP_PKEY_free>> key(EVP_EC_gen("P-256"));
  const std::unique_ptr<X509, Free<X509_free>> certificate(X509_new());
  ASSERT_TRUE(key && certificate);
  X509_gmtime_adj(X509_getm_notBefore(certificate.get()), -3600);
  X509_gmtime_adj(X509_getm_notAfter(certificate.get()), 3600);
  X509_set_pubkey(certificate.get(), key.get());
  X509_NAME* const name = X509_get_subject_name(certificate.get());
  X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC, reinterpret_cast<const unsigned char*>("lane"), -1, -1, 0);
  X509_set_issuer_name(certificate.get(), name);
  ASSERT_GT(X509_sign(certificate.get(), key.get(), EVP_sha256()), 0);
  ASSERT_EQ(SSL_CTX_use_certificate(context(), certificate.get()), 1);
  ASSERT_EQ(SSL_CTX_use_PrivateKey(context(), key.get()), 1);
}

struct Meeting {
  Result<Handshake> ours = Handshake::kWantsRead;
  bool theirs = false;
};

Meeting meet(std::unique_ptr<SecureStream>& stream, Peer& peer) {
  Meeting meeting;
  for (int step = 0; step < 1000; ++step) {
    meeting.theirs = peer.handshake();
    if (meeting.ours && *meeting.ours != Handshake::kDone) meeting.ours = stream->handshake();
    if (!meeting.ours || (meeting.theirs && *meeting.ours == Handshake::kDone)) break;
  }
  return meeting;
}

void expect_error(const Meeting& meeting, Code code, const std::string& part) {
  ASSERT_FALSE(meeting.ours && *meeting.ours == Handshake::kDone);
  ASSERT_FALSE(meeting.ours.has_value());
  EXPECT_EQ(to_string(meeting.ours.error().code), to_string(code)) << meeting.ours.error().text;
  EXPECT_TRUE(has(meeting.ours.error().text, part)) << meeting.ours.error().text;
}

TEST(TlsPeer, WithOurKeyIsServedWithForwardSecrecy) {
  Fds fds = unix_pair();
  auto server = secure(std::move(fds.second), TlsSide::kServer);
  Peer client(std::move(fds.first), TlsSide::kClient);
  client.use_key();
  SSL_CTX_set_options(client.context(), SSL_OP_ALLOW_NO_DHE_KEX);  // offers both; we choose
  const Meeting meeting = meet(server, client);
  ASSERT_TRUE(meeting.ours) << meeting.ours.error().text;
  ASSERT_TRUE(meeting.theirs);
  EXPECT_EQ(SSL_version(client.ssl()), TLS1_3_VERSION);
  EXPECT_EQ(SSL_session_reused(client.ssl()), 1);  // with the key
  EVP_PKEY* theirs = nullptr;
  EXPECT_EQ(SSL_get_peer_tmp_key(client.ssl(), &theirs), 1) << "no ephemeral exchange";
  EVP_PKEY_free(theirs);
  EXPECT_EQ(SSL_get0_peer_certificate(client.ssl()), nullptr);
  const auto bytes = random_bytes(100, 1);
  ASSERT_TRUE(send_all(*server, bytes));
  std::array<std::byte, 100> got{};
  EXPECT_EQ(SSL_read(client.ssl(), got.data(), 100), 100);
  EXPECT_TRUE(std::equal(got.begin(), got.end(), bytes.begin()));
  EXPECT_EQ(client.seen.tickets, 0);
}

TEST(TlsPeer, WithoutAKeyIsRefused) {
  Fds fds = unix_pair();
  auto server = secure(std::move(fds.second), TlsSide::kServer);
  Peer client(std::move(fds.first), TlsSide::kClient);
  expect_error(meet(server, client), Code::kPermission, "speaks TLS, but not with our key: give both ends the same");
}

TEST(TlsPeer, OfTls12IsRefused) {
  Fds fds = unix_pair();
  auto server = secure(std::move(fds.second), TlsSide::kServer);
  Peer client(std::move(fds.first), TlsSide::kClient);
  client.use_key();
  SSL_CTX_set_max_proto_version(client.context(), TLS1_2_VERSION);
  expect_error(meet(server, client), Code::kProtocol, "unsupported protocol");
}

TEST(TlsPeer, WithACertificateInPlaceOfTheKeyIsRefused) {
  Fds fds = unix_pair();
  auto client = secure(std::move(fds.first), TlsSide::kClient);
  Peer server(std::move(fds.second), TlsSide::kServer);
  server.use_certificate();
  expect_error(meet(client, server), Code::kPermission, "speaks TLS, but not with our key");
}

TEST(TlsPeer, ThatServesWithOurKeyIsAccepted) {
  Fds fds = unix_pair();
  auto client = secure(std::move(fds.first), TlsSide::kClient);
  Peer server(std::move(fds.second), TlsSide::kServer);
  server.use_key();
  const Meeting meeting = meet(client, server);
  ASSERT_TRUE(meeting.ours) << meeting.ours.error().text;
  ASSERT_TRUE(meeting.theirs);
  // This server has sent tickets: they are passed over, and hold nothing up.
  const std::string words = "frames";
  ASSERT_EQ(SSL_write(server.ssl(), words.data(), static_cast<int>(words.size())), static_cast<int>(words.size()));
  EXPECT_EQ(receive_all(*client, words.size()).size(), words.size());
}

TEST(TlsPeer, ThatAsksForAnotherGroupGetsIt) {
  Fds fds = unix_pair();
  auto client = secure(std::move(fds.first), TlsSide::kClient);
  Peer server(std::move(fds.second), TlsSide::kServer);
  server.use_key();
  ASSERT_EQ(SSL_CTX_set1_groups_list(server.context(), "P-384"), 1);  // we begin with others: a second hello
  const Meeting meeting = meet(client, server);
  EXPECT_TRUE(meeting.ours) << meeting.ours.error().text;
  EXPECT_TRUE(meeting.theirs);
}

TEST(TlsPeer, ThatAsksForNewKeysIsAnswered) {
  Fds fds = unix_pair();
  auto server = secure(std::move(fds.second), TlsSide::kServer);
  Peer client(std::move(fds.first), TlsSide::kClient);
  client.use_key();
  const Meeting meeting = meet(server, client);
  ASSERT_TRUE(meeting.ours && meeting.theirs);
  for (int round = 0; round < 100; ++round) {
    ASSERT_EQ(SSL_key_update(client.ssl(), SSL_KEY_UPDATE_REQUESTED), 1);
    ASSERT_EQ(SSL_write(client.ssl(), "question", 8), 8);
    ASSERT_EQ(receive_all(*server, 8).size(), 8u);
    ASSERT_TRUE(send_all(*server, random_bytes(6, 1)));
    std::array<char, 6> got{};
    ASSERT_EQ(SSL_read(client.ssl(), got.data(), 6), 6);
  }
  EXPECT_EQ(client.seen.key_updates, 100);
}

TEST(TlsPeer, ThatAsksForNewKeysAndReadsNothingIsCutOff) {
  Fds fds = unix_pair();
  auto server = secure(std::move(fds.second), TlsSide::kServer);
  Peer client(std::move(fds.first), TlsSide::kClient);
  client.use_key();
  const Meeting meeting = meet(server, client);
  ASSERT_TRUE(meeting.ours && meeting.theirs);
  const auto filler = random_bytes(32u << 20, 2);
  const iovec buffer = buffer_of(filler);
  ASSERT_LT(server->send({&buffer, 1}).value_or(filler.size()), filler.size());
  Result<std::size_t> got = 0;
  std::byte byte{};
  const iovec in{&byte, 1};
  for (int round = 0; round < 100'000 && got; ++round) {
    SSL_key_update(client.ssl(), SSL_KEY_UPDATE_REQUESTED);
    if (SSL_write(client.ssl(), "x", 1) != 1) break;
    got = server->receive({&in, 1});
  }
  ASSERT_FALSE(got);
  EXPECT_EQ(got.error().code, Code::kProtocol) << got.error().text;
}

// --- below the stream

/// A pipe of the test's own, to a descriptor.
class FdPipe final : public transport::TlsPipe {
 public:
  explicit FdPipe(base::UniqueFd fd) : socket_(std::move(fd)) {}
  bool write(const std::byte* bytes, std::size_t size) noexcept override { return send_all(socket_, {bytes, size}); }
  std::ptrdiff_t read(std::byte* to, std::size_t most) noexcept override {
    const iovec buffer{to, most};
    const auto got = socket_.receive({&buffer, 1});
    return got ? static_cast<std::ptrdiff_t>(*got) : -1;
  }

 private:
  transport::SocketStream socket_;
};

TEST(TlsSession, ChangesItsKeyBeforeItIsWornOut) {
  const auto library = transport::TlsLibrary::get();
  ASSERT_TRUE(library) << library.error().text;
  Fds fds = unix_pair();
  FdPipe pipe(std::move(fds.second));
  Peer client(std::move(fds.first), TlsSide::kClient);
  client.use_key();
  const std::vector<std::byte> key(32, std::byte{0x5a});
  transport::TlsSettings settings;
  settings.identity = "lane";
  settings.key = key.data();
  settings.key_size = key.size();
  settings.pipe = &pipe;
  settings.records_per_key = 3;
  const auto session = (*library)->open(settings);
  ASSERT_TRUE(session) << session.error().text;
  auto step = transport::TlsStep::kWantsRead;
  for (int i = 0; i < 100 && !(client.handshake() && step == transport::TlsStep::kDone); ++i) {
    if (step == transport::TlsStep::kWantsRead) step = (*session)->handshake();
  }
  ASSERT_EQ(step, transport::TlsStep::kDone);
  const auto bytes = random_bytes(16'384, 3);
  for (int record = 0; record < 300; ++record) {
    ASSERT_TRUE((*session)->write(bytes.data(), bytes.size()));
    std::array<std::byte, 16'384> got{};
    ASSERT_EQ(SSL_read(client.ssl(), got.data(), static_cast<int>(got.size())), static_cast<int>(got.size()));
    ASSERT_TRUE(std::equal(got.begin(), got.end(), bytes.begin()));
  }
  EXPECT_EQ(client.seen.key_updates, 99);
}

}  // namespace
}  // namespace framelane::tls
