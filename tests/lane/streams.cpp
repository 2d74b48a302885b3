// SPDX-License-Identifier: MIT
#include "streams.hpp"

#include <array>
#include <cerrno>
#include <filesystem>

#include <fcntl.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/time.h>

#include "framelane/descriptor/descriptor.hpp"

#include "base/clock.hpp"
#include "base/host.hpp"
#include "ring/layout.hpp"
#include "transport/byte_stream.hpp"
#include "transport/stream_socket.hpp"

namespace framelane::lane_test {
namespace {

constexpr int kPatienceMs = 20'000;

/// Blocking, but for 20 s at most.
void make_patient(int fd) {
  fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) & ~O_NONBLOCK);
  const timeval time{kPatienceMs / 1000, 0};
  setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &time, sizeof time);
  setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &time, sizeof time);
}

std::size_t entries(const char* directory) {
  const std::filesystem::directory_iterator all(directory);
  return static_cast<std::size_t>(std::distance(begin(all), end(all)));
}

template <class T>
T value_or_throw(Result<T> result) {
  if (!result) throw std::runtime_error(result.error().text);
  return std::move(*result);
}

bool receive_all(int fd, std::span<std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t got = recv(fd, bytes.data(), bytes.size(), 0);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    bytes = bytes.subspan(static_cast<std::size_t>(got));
  }
  return true;
}

}  // namespace

// --- raw ends

base::UniqueFd connect_raw(const std::string& descriptor) {
  const auto parsed = value_or_throw(descriptor::Descriptor::parse(descriptor));
  const auto& address = parsed.addresses().front();
  auto fd = address.transport == descriptor::Transport::kTcp
                ? value_or_throw(transport::begin_tcp(address.host, address.port))
                : value_or_throw(transport::connect_uds(value_or_throw(address.socket_path()) + ".stream"));
  static_cast<void>(transport::wait_for(fd.get(), POLLOUT, -1, base::deadline_after(kPatience)));
  make_patient(fd.get());
  return fd;
}

bool send_raw(int fd, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) return false;
    bytes = bytes.subspan(static_cast<std::size_t>(sent));
  }
  return true;
}

bool send_raw(int fd, const wire::Message& message) { return send_raw(fd, wire::encode(message, 0)); }

bool is_cut_off(int fd) {
  std::array<std::byte, 4096> ignored;
  for (;;) {
    const ssize_t got = recv(fd, ignored.data(), ignored.size(), 0);
    if (got == 0) return true;
    if (got < 0 && errno != EINTR) return errno == ECONNRESET;
  }
}

std::optional<wire::Message> receive_message(int fd) {
  Bytes bytes(wire::kHeaderBytes);
  if (!receive_all(fd, bytes)) return std::nullopt;
  const auto header = wire::decode_header(bytes);
  if (!header) return std::nullopt;
  bytes.resize(wire::kHeaderBytes + header->payload_size);
  if (!receive_all(fd, std::span(bytes).subspan(wire::kHeaderBytes))) return std::nullopt;
  auto decoded = wire::decode(bytes);
  if (!decoded) return std::nullopt;
  return std::move(decoded->message);
}

wire::Hello stream_hello(const std::string& lane) {
  wire::Hello hello;
  hello.max_held = 4;
  hello.abi_version = ring::kAbiVersion;
  hello.transports = wire::kTransportUds | wire::kTransportTcp;
  hello.max_frame_size = 256u << 20;
  hello.name = "raw";
  hello.lane = lane;
  return hello;
}

wire::Welcome good_welcome() {
  wire::Welcome welcome;
  welcome.instance_id = {1, 2, 3};
  welcome.consumer_id = 1;
  welcome.max_held = 4;
  welcome.boot_id = base::boot_id();
  return welcome;
}

// --- what a process has

Resources resources() { return {entries("/proc/self/fd"), entries("/proc/self/task")}; }

::testing::AssertionResult nothing_is_left(const Resources& before) {
  Resources now;
  const bool fine = eventually([&] {
    now = resources();
    return now.fds <= before.fds && now.threads <= before.threads;
  });
  if (fine) return ::testing::AssertionSuccess();
  auto failure = ::testing::AssertionFailure()
                 << now.fds << " descriptors and " << now.threads << " threads are there, and " << before.fds << " and "
                 << before.threads << " were:";
  for (const auto& fd : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code gone;
    failure << ' ' << fd.path().filename().string() << '=' << std::filesystem::read_symlink(fd.path(), gone).string();
  }
  return failure;
}

LogCapture::LogCapture() : lines_(std::make_shared<Lines>()) {
  // A line on its way may still reach this hook after the test: what it writes to lives on.
  static auto* const kept = new std::vector<std::shared_ptr<Lines>>;
  kept->push_back(lines_);
  base::set_log_hook(
      [](base::LogLevel, std::string_view text, void* user) {
        auto& lines = *static_cast<Lines*>(user);
        const std::lock_guard lock(lines.mutex);
        lines.text.append(text).append("\n");
      },
      lines_.get());
}

LogCapture::~LogCapture() { base::set_log_hook(nullptr, nullptr); }

std::string LogCapture::text() const {
  const std::lock_guard lock(lines_->mutex);
  return lines_->text;
}

bool LogCapture::has(const std::string& words) const { return text().find(words) != std::string::npos; }

// --- listening

Listener::Listener(Transport transport, const std::string& directory)
    : stop_fd_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (transport == Transport::kTcp) {
    fd_ = value_or_throw(transport::listen_tcp("127.0.0.1", 0));
    descriptor_ = "lane.tcp://127.0.0.1:" + std::to_string(value_or_throw(transport::local_port(fd_.get()))) + "/lane";
  } else {
    // A directory of its own, since another producer may have the lane's name in the test's.
    const std::string own = directory + "/listener";
    std::filesystem::create_directory(own);
    std::filesystem::permissions(own, std::filesystem::perms::owner_all);
    fd_ = value_or_throw(transport::listen_uds(own + "/lane.stream"));
    descriptor_ = "lane.uds://" + own + "/lane";
  }
}

base::UniqueFd Listener::accept() {
  for (;;) {
    if (stopped_) return {};
    if (!transport::wait_for(fd_.get(), POLLIN, stop_fd_.get(), base::deadline_after(kPatience))) return {};
    base::UniqueFd fd(accept4(fd_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (!fd.valid()) continue;
    make_patient(fd.get());
    return fd;
  }
}

void Listener::stop() noexcept {
  stopped_ = true;
  eventfd_write(stop_fd_.get(), 1);
}

// --- a producer that says anything

FakeProducer::FakeProducer(Transport transport, const std::string& directory, Bytes says, Then then)
    : listener_(transport, directory),
      signals_say_(wire::encode(good_welcome(), 0)),
      says_(std::move(says)),
      then_(then),
      thread_([this] { run(); }) {}

FakeProducer::FakeProducer(Transport transport, const std::string& directory, const wire::Welcome& welcome)
    : listener_(transport, directory),
      signals_say_(wire::encode(welcome, 0)),
      says_(signals_say_),
      then_(Then::kStays),
      thread_([this] { run(); }) {}

FakeProducer::~FakeProducer() {
  listener_.stop();
  thread_.join();
}

void FakeProducer::run() {
  std::vector<base::UniqueFd> kept;
  for (auto fd = listener_.accept(); fd.valid(); fd = listener_.accept()) {
    const auto message = receive_message(fd.get());
    const auto* const hello = message ? std::get_if<wire::Hello>(&*message) : nullptr;
    if (hello == nullptr) continue;
    const bool signals = hello->role == wire::Role::kSignals;
    if (!signals) ++streams_;
    static_cast<void>(send_raw(fd.get(), signals ? signals_say_ : says_));
    if (signals || then_ != Then::kCloses) kept.push_back(std::move(fd));
    fd.reset();  // not when the next one has come
    if (!signals && then_ == Then::kPours) pour(kept.back().get());
  }
}

void FakeProducer::pour(int fd) {
  constexpr std::size_t kAtOnce = 1000;
  const auto one = wire::encode(wire::FrameMessage{}, 0);
  Bytes many;
  for (std::size_t i = 0; i < kAtOnce; ++i) many.insert(many.end(), one.begin(), one.end());
  std::uint64_t index = 0;
  do {
    // Only the first field changes: encoding each anew takes longer than reading them.
    for (std::size_t i = 0; i < kAtOnce; ++i, ++index) {
      for (std::size_t byte = 0; byte < 8; ++byte)
        many[i * one.size() + wire::kHeaderBytes + byte] = static_cast<std::byte>(index >> (8 * byte));
    }
  } while (send_raw(fd, many));
}

// --- pieces

Proxy::Proxy(Transport transport, const std::string& directory, std::string descriptor, Piece piece)
    : listener_(transport, directory),
      producer_(std::move(descriptor)),
      piece_(std::move(piece)),
      thread_([this] { run(); }) {}

Proxy::~Proxy() {
  listener_.stop();
  thread_.join();
  for (std::thread& carrier : carriers_) carrier.join();
}

void Proxy::run() {
  for (auto fd = listener_.accept(); fd.valid(); fd = listener_.accept())
    carriers_.emplace_back([this, consumer = std::move(fd)]() mutable { carry(std::move(consumer)); });
}

void Proxy::carry(base::UniqueFd consumer) {
  const base::UniqueFd producer = connect_raw(producer_);
  const int one = 1;
  for (const int fd : {consumer.get(), producer.get()}) setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
  std::vector<std::byte> bytes(std::size_t{256} << 10);
  const auto carry_some = [&](int from, int to) {
    const ssize_t got = recv(from, bytes.data(), bytes.size(), 0);
    if (got < 0 && errno == EINTR) return true;
    if (got <= 0) return false;
    auto left = std::span<const std::byte>(bytes).first(static_cast<std::size_t>(got));
    while (!left.empty()) {
      const auto piece = left.first(std::min(left.size(), piece_()));
      if (!send_raw(to, piece)) return false;
      left = left.subspan(piece.size());
    }
    return true;
  };
  std::array<pollfd, 2> fds{{{consumer.get(), POLLIN, 0}, {producer.get(), POLLIN, 0}}};
  while (!listener_.stopped()) {
    if (poll(fds.data(), fds.size(), 100) <= 0) continue;
    if (fds[0].revents != 0 && !carry_some(consumer.get(), producer.get())) return;
    if (fds[1].revents != 0 && !carry_some(producer.get(), consumer.get())) return;
  }
}

}  // namespace framelane::lane_test
