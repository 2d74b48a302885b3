// SPDX-License-Identifier: MIT
#include "transport/secure_stream.hpp"

#include <algorithm>
#include <array>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "transport/tls_errors.hpp"
#include "transport/tls_library.hpp"

namespace framelane::transport {
namespace {

/// Of plain bytes, before a system call: four records.
constexpr std::size_t kBatchBytes = std::size_t{64} << 10;
/// A batch, its records' headers and tags, a change of keys, and answers to a peer's changes of keys.
constexpr std::size_t kOutboxBytes = kBatchBytes + (std::size_t{8} << 10);
/// What a peer sent after what broke the handshake: read before we close, or a reset overtakes our alert.
constexpr std::size_t kLeftoverBytes = std::size_t{64} << 10;
constexpr std::size_t kFirstBytes = 8;

/// The connection below a session: a socket, and what waits for room in it. Not locked: the stream's lock is enough.
class Pipe final : public TlsPipe {
 public:
  explicit Pipe(base::UniqueFd fd) : socket_(std::move(fd)) { outbox_.reserve(kOutboxBytes); }

  bool write(const std::byte* bytes, std::size_t size) noexcept override {
    if (!error_ && size > kOutboxBytes - outbox_.size())
      error_ = {Code::kProtocol, "the other end of the lane asks for new keys, and doesn't read what answers it"};
    if (error_) return false;
    outbox_.insert(outbox_.end(), bytes, bytes + size);  // within the capacity: no allocation
    return true;
  }

  std::ptrdiff_t read(std::byte* to, std::size_t most) noexcept override {
    const iovec buffer{to, most};
    auto got = socket_.receive({&buffer, 1});
    if (!got) {
      error_ = std::move(got.error());
      return -1;
    }
    const std::size_t first = std::min(*got, kFirstBytes - first_size_);
    std::copy_n(to, first, first_.begin() + static_cast<std::ptrdiff_t>(first_size_));
    first_size_ += first;
    return static_cast<std::ptrdiff_t>(*got);
  }

  /// Sends these bytes, in place of what waits.
  void say_instead(std::span<const std::byte> bytes) noexcept {
    outbox_.clear();
    sent_ = 0;
    static_cast<void>(write(bytes.data(), bytes.size()));
  }

  /// Sends what waits, as far as the socket takes it; true when nothing is left. Errors: as ByteStream::send().
  Result<bool> flush() noexcept {
    while (sent_ != outbox_.size()) {
      const iovec rest{outbox_.data() + sent_, outbox_.size() - sent_};
      const auto sent = socket_.send({&rest, 1});
      if (!sent) return tl::unexpected(sent.error());
      if (*sent == 0) return false;
      sent_ += *sent;
    }
    outbox_.clear();
    sent_ = 0;
    return true;
  }

  /// Reads and forgets what is there.
  void drain() noexcept {
    std::array<std::byte, 4096> room;
    const iovec buffer{room.data(), room.size()};
    for (std::size_t drained = 0; drained < kLeftoverBytes;) {
      const auto got = socket_.receive({&buffer, 1});
      if (!got || *got == 0) return;
      drained += *got;
    }
  }

  [[nodiscard]] SocketStream& socket() noexcept { return socket_; }
  [[nodiscard]] int fd() const noexcept { return socket_.fd(); }
  /// Why read() returned -1 or write() false.
  [[nodiscard]] const Error* error() const noexcept { return error_ ? &*error_ : nullptr; }
  [[nodiscard]] std::span<const std::byte> first_bytes() const noexcept { return std::span(first_).first(first_size_); }

 private:
  SocketStream socket_;
  std::vector<std::byte> outbox_;
  std::size_t sent_ = 0;  // of the outbox
  std::optional<Error> error_;
  std::array<std::byte, kFirstBytes> first_{};
  std::size_t first_size_ = 0;
};

// --- sending

/// The caller's buffers as one row of bytes.
class Source {
 public:
  explicit Source(std::span<const iovec> buffers) noexcept : buffers_(buffers) {}

  /// The next bytes, up to `most`; none: that was all. Small buffers are gathered in `scratch`, of `most` bytes, so
  /// that a header and what follows it make one record.
  std::span<const std::byte> next(std::size_t most, std::vector<std::byte>& scratch) noexcept {
    skip_empty();
    if (buffers_.empty()) return {};
    if (left() >= most || buffers_.size() == 1) {
      const auto bytes = here().first(std::min(most, left()));
      offset_ += bytes.size();
      return bytes;
    }
    std::size_t size = 0;
    for (; size < most && !buffers_.empty(); skip_empty()) {
      const auto bytes = here().first(std::min(most - size, left()));
      std::copy(bytes.begin(), bytes.end(), scratch.begin() + static_cast<std::ptrdiff_t>(size));
      size += bytes.size();
      offset_ += bytes.size();
    }
    return std::span(scratch).first(size);
  }

 private:
  [[nodiscard]] std::size_t left() const noexcept { return buffers_.front().iov_len - offset_; }
  [[nodiscard]] std::span<const std::byte> here() const noexcept {
    return {static_cast<const std::byte*>(buffers_.front().iov_base) + offset_, left()};
  }
  void skip_empty() noexcept {
    while (!buffers_.empty() && left() == 0) {
      buffers_ = buffers_.subspan(1);
      offset_ = 0;
    }
  }

  std::span<const iovec> buffers_;
  std::size_t offset_ = 0;  // in the first one
};

class TlsStream final : public SecureStream {
 public:
  TlsStream(base::UniqueFd fd, TlsSide side, std::string identity)
      : pipe_(std::move(fd)), side_(side), identity_(std::move(identity)), scratch_(kBatchBytes) {}

  Result<void> open(const TlsLibrary& library, const Psk& psk) {
    TlsSettings settings;
    settings.side = side_;
    settings.identity = identity_.c_str();
    settings.key = psk.key().data();
    settings.key_size = psk.key().size();
    settings.pipe = &pipe_;
    auto session = library.open(settings);
    if (!session) return tl::unexpected(std::move(session.error()));
    session_ = std::move(*session);
    return {};
  }

  Result<Handshake> handshake() noexcept override;
  Result<std::size_t> send(std::span<const iovec> buffers) noexcept override;
  Result<std::size_t> receive(std::span<const iovec> buffers) noexcept override;
  void finish() noexcept override;
  void shutdown() noexcept override;
  int fd() const noexcept override { return pipe_.fd(); }

 private:
  [[nodiscard]] HandshakeView view() const noexcept { return {pipe_.first_bytes(), pipe_.error(), side_, identity_}; }
  void say_goodbye() noexcept;
  [[nodiscard]] Result<void> usable() const;
  [[nodiscard]] tl::unexpected<Error> give_up(Error error);
  [[nodiscard]] Result<bool> flush();
  [[nodiscard]] Result<std::size_t> claim_withheld(Source& source);
  [[nodiscard]] Result<std::size_t> send_batch(Source& source);
  [[nodiscard]] Result<std::size_t> receive_into(const iovec& buffer, std::size_t offset);

  // The session and the pipe have no locks of their own, and OpenSSL forbids two threads in one session, even if one
  // reads and the other writes.
  std::mutex mutex_;
  Pipe pipe_;
  TlsSide side_;
  std::string identity_;
  std::unique_ptr<TlsSession> session_;  // after the pipe, which it uses
  bool done_ = false;                    // the handshake
  bool finished_ = false;                // by finish() or shutdown(): the peer was told
  bool closed_ = false;                  // by shutdown()
  std::optional<Error> error_;           // what ended the stream; all later calls return it, too
  std::optional<Error> send_error_;      // what ended sending: what the peer said before it left can still be read
  /// The last byte of a batch that the socket hasn't taken as a whole: encrypted, but not reported as taken yet, so
  /// that the caller comes back.
  std::optional<std::byte> withheld_;
  std::vector<std::byte> scratch_;
};

Result<void> TlsStream::usable() const {
  if (error_) return tl::unexpected(*error_);
  if (closed_) return fail(Code::kPeerLost, "this end of the lane closed the stream");
  if (!done_) return fail(Code::kInvalidArgument, "the TLS handshake isn't over: call handshake() until it is done");
  return {};
}

tl::unexpected<Error> TlsStream::give_up(Error error) {
  error_ = std::move(error);
  return tl::unexpected(*error_);
}

/// Errors: as ByteStream::send(), and again at each later call.
Result<bool> TlsStream::flush() {
  if (send_error_) return tl::unexpected(*send_error_);
  auto flushed = pipe_.flush();
  if (!flushed) send_error_ = flushed.error();
  return flushed;
}

Result<Handshake> TlsStream::handshake() noexcept {
  const std::lock_guard lock(mutex_);
  if (error_) return tl::unexpected(*error_);
  const TlsStep step = done_ ? TlsStep::kDone : session_->handshake();
  if (step == TlsStep::kFailed && side_ == TlsSide::kServer && begins_like_framelane(pipe_.first_bytes()))
    pipe_.say_instead(plain_refusal());
  const auto flushed = pipe_.flush();
  if (step == TlsStep::kFailed) {
    pipe_.drain();
    return give_up(handshake_error(session_->failure(), view()));
  }
  if (!flushed) {
    // The peer may have said why before it closed: the next step reads that.
    if (flushed.error().code != Code::kPeerLost || step == TlsStep::kDone) return give_up(flushed.error());
    const TlsStep last = session_->handshake();
    TlsFailure failure = session_->failure();
    if (last != TlsStep::kFailed) failure.trouble = TlsTrouble::kConnection;
    return give_up(handshake_error(failure, view()));
  }
  done_ = step == TlsStep::kDone;
  if (!*flushed) return Handshake::kWantsWrite;
  return done_ ? Handshake::kDone : Handshake::kWantsRead;
}

Result<std::size_t> TlsStream::send(std::span<const iovec> buffers) noexcept {
  Source source(buffers);
  std::size_t taken = 0;
  while (true) {
    const std::lock_guard lock(mutex_);  // for each batch, so that a thread that receives gets its turns
    if (auto can = usable(); !can) return tl::unexpected(std::move(can.error()));
    const auto flushed = flush();
    if (!flushed) return tl::unexpected(flushed.error());
    if (!*flushed) return taken;
    const auto claimed = claim_withheld(source);
    if (!claimed) return claimed;
    taken += *claimed;
    const auto batch = send_batch(source);
    if (!batch) return batch;
    taken += *batch;
    if (*batch == 0 || withheld_) return taken;
  }
}

/// The byte that an earlier call didn't report: it comes again, and has been sent.
Result<std::size_t> TlsStream::claim_withheld(Source& source) {
  if (!withheld_) return 0;
  std::vector<std::byte> none;
  const auto first = source.next(1, none);
  if (first.empty()) return 0;
  if (first[0] != *withheld_) {
    return give_up({Code::kProtocol,
                    "other bytes were sent than those that an earlier call could not take: the stream "
                    "was cut in the middle of a message, and can only be closed"});
  }
  withheld_.reset();
  return 1;
}

/// Encrypts and sends some of what is left; returns how many bytes the caller may count as taken.
Result<std::size_t> TlsStream::send_batch(Source& source) {
  const auto bytes = source.next(kBatchBytes, scratch_);
  if (bytes.empty()) return 0;
  if (!session_->write(bytes.data(), bytes.size())) return give_up(stream_error(session_->failure(), pipe_.error()));
  const auto flushed = flush();
  if (!flushed) return tl::unexpected(flushed.error());
  if (*flushed) return bytes.size();
  withheld_ = bytes.back();
  return bytes.size() - 1;
}

Result<std::size_t> TlsStream::receive(std::span<const iovec> buffers) noexcept {
  std::size_t received = 0;
  for (const iovec& buffer : buffers) {
    for (std::size_t filled = 0; filled < buffer.iov_len;) {
      const auto got = receive_into(buffer, filled);
      if (!got && received == 0) return got;
      if (!got || *got == 0) return received;  // an error comes again
      filled += *got;
      received += *got;
    }
  }
  return received;
}

Result<std::size_t> TlsStream::receive_into(const iovec& buffer, std::size_t offset) {
  const std::lock_guard lock(mutex_);
  if (auto can = usable(); !can) return tl::unexpected(std::move(can.error()));
  const std::ptrdiff_t got = session_->read(static_cast<std::byte*>(buffer.iov_base) + offset, buffer.iov_len - offset);
  if (got > 0) return static_cast<std::size_t>(got);
  if (got < 0) return give_up(stream_error(session_->failure(), pipe_.error()));
  // An answer to a change of keys waits for nobody's reply: what the socket doesn't take goes before the next bytes.
  static_cast<void>(flush());
  return 0;
}

void TlsStream::say_goodbye() noexcept {
  if (!done_ || finished_ || error_) return;
  finished_ = true;
  session_->close();
  static_cast<void>(pipe_.flush());  // a courtesy: the peer sees the end anyway
}

void TlsStream::finish() noexcept {
  const std::lock_guard lock(mutex_);
  say_goodbye();
  pipe_.socket().finish();
}

void TlsStream::shutdown() noexcept {
  const std::lock_guard lock(mutex_);
  say_goodbye();
  closed_ = true;
  pipe_.socket().shutdown();
}

}  // namespace

Result<std::unique_ptr<SecureStream>> make_secure(base::UniqueFd fd, TlsSide side, const Psk& psk) {
  const auto library = TlsLibrary::get();
  if (!library) return tl::unexpected(library.error());
  auto stream = std::make_unique<TlsStream>(std::move(fd), side, psk.identity());
  if (auto opened = stream->open(**library, psk); !opened) return tl::unexpected(std::move(opened.error()));
  return stream;
}

Result<OpenStream> open_stream(base::UniqueFd fd, TlsSide side, const Psk* psk) {
  if (psk == nullptr) return OpenStream{std::make_unique<SocketStream>(std::move(fd)), nullptr};
  auto stream = make_secure(std::move(fd), side, *psk);
  if (!stream) return tl::unexpected(std::move(stream.error()));
  SecureStream* const secure = stream->get();
  return OpenStream{std::move(*stream), secure};
}

}  // namespace framelane::transport
