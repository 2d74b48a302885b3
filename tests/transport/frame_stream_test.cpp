// SPDX-License-Identifier: MIT
#include "transport/frame_stream.hpp"

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstring>
#include <random>
#include <thread>

#include <gtest/gtest.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include "base/clock.hpp"
#include "support.hpp"

namespace framelane::transport {
namespace {

using Bytes = std::vector<std::byte>;

Bytes pattern(std::size_t size, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  Bytes bytes(size);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
  return bytes;
}

struct Sockets {
  base::UniqueFd one;
  base::UniqueFd other;
};

Sockets socket_pair() {
  int fds[2];
  EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
  return {base::UniqueFd(fds[0]), base::UniqueFd(fds[1])};
}

/// Passes on what it gets in pieces of the given sizes, in turns.
class Pieces : public ByteStream {
 public:
  Pieces(ByteStream& inner, std::vector<std::size_t> sizes) : inner_(inner), sizes_(std::move(sizes)) {}

  Result<std::size_t> send(std::span<const iovec> buffers) noexcept override { return inner_.send(cut(buffers)); }
  Result<std::size_t> receive(std::span<const iovec> buffers) noexcept override { return inner_.receive(cut(buffers)); }
  void finish() noexcept override { inner_.finish(); }
  void shutdown() noexcept override { inner_.shutdown(); }
  int fd() const noexcept override { return inner_.fd(); }

 private:
  std::span<const iovec> cut(std::span<const iovec> buffers) {
    std::size_t left = sizes_[turn_++ % sizes_.size()];
    cut_.clear();
    for (iovec buffer : buffers) {
      buffer.iov_len = std::min(buffer.iov_len, left);
      left -= buffer.iov_len;
      if (buffer.iov_len != 0) cut_.push_back(buffer);
    }
    return cut_;
  }

  ByteStream& inner_;
  std::vector<std::size_t> sizes_;
  std::size_t turn_ = 0;
  std::vector<iovec> cut_;
};

class Frames : public FrameReceiver {
 public:
  Result<FrameRoom> room_for(const wire::FrameMessage& frame) override {
    ++asked;
    side_data.assign(frame.side_size, std::byte{0xee});
    payload.assign(frame.payload_size, std::byte{0xee});
    return FrameRoom{side_data, payload};
  }

  int asked = 0;
  Bytes side_data;
  Bytes payload;
};

wire::FrameMessage frame_number(std::uint64_t index) {
  wire::FrameMessage frame;
  frame.index = index;
  frame.info.pts = index * 1000;
  return frame;
}

wire::EventMessage tag_event(std::size_t size) {
  wire::EventMessage message;
  message.event.type = format::EventType::kTag;
  message.event.text = std::string(size, 't');
  return message;
}

/// Sends frames of many sizes with events between them through `sending`, and takes them from `receiving`.
void exchange(ByteStream& sending, ByteStream& receiving, const std::vector<std::size_t>& sizes) {
  std::thread sender([&] {
    StreamSender out(sending, -1);
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      ASSERT_TRUE(out.send_frame(frame_number(i), pattern(i % 5 * 7, i + 1), pattern(sizes[i], i), soon()));
      ASSERT_TRUE(out.send(tag_event(i * 3), i + 1, soon()));
    }
  });
  Frames frames;
  StreamReceiver in(receiving, frames, wire::kMaxFrameBytes);
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    const auto frame = in.receive_until(soon());
    ASSERT_TRUE(frame) << frame.error().text;
    wire::FrameMessage expected = frame_number(i);
    expected.side_size = static_cast<std::uint32_t>(i % 5 * 7);
    expected.payload_size = sizes[i];
    EXPECT_EQ(frame->message, wire::Message(expected));
    EXPECT_EQ(frames.payload, pattern(sizes[i], i)) << i;
    EXPECT_EQ(frames.side_data, pattern(i % 5 * 7, i + 1)) << i;
    const auto event = in.receive_until(soon());
    ASSERT_TRUE(event) << event.error().text;
    EXPECT_EQ(event->number, i + 1);
    EXPECT_EQ(event->message, wire::Message(tag_event(i * 3)));
  }
  sender.join();
  EXPECT_EQ(frames.asked, static_cast<int>(sizes.size()));
}

const std::vector<std::size_t> kSizes = {0, 1, 32, 33, 512, 4096, 16383, 16384, 16385, 100'000, 0, 3'110'400, 7};

TEST(FrameStream, CarriesFramesAndEventsInOrder) {
  auto sockets = socket_pair();
  SocketStream one(std::move(sockets.one));
  SocketStream other(std::move(sockets.other));
  exchange(one, other, kSizes);
}

/// Receives a frame and checks that it is number `index` with these bytes.
void expect_frame(StreamReceiver& receiver, const Frames& frames, std::uint64_t index, const Bytes& payload) {
  auto received = receiver.receive_until(base::deadline_after(std::chrono::seconds(20)));
  ASSERT_TRUE(received) << received.error().text;
  const auto* const frame = std::get_if<wire::FrameMessage>(&received->message);
  ASSERT_NE(frame, nullptr);
  EXPECT_EQ(frame->index, index);
  EXPECT_EQ(frames.payload, payload);
}

TEST(SendFrameNow, KeepsTheRestOfAFrameThatDoesNotFit) {
  auto sockets = socket_pair();
  SocketStream one(std::move(sockets.one));
  SocketStream other(std::move(sockets.other));
  Frames frames;
  StreamReceiver receiver(other, frames, 1 << 20);
  const Bytes payload = pattern(5000, 1);
  for (const std::size_t first : {std::size_t{1}, std::size_t{30}, std::size_t{300}, std::size_t{4999}}) {
    Pieces cut(one, {first, 1 << 20});
    StreamSender sender(cut, -1);
    auto sent = sender.send_frame_now(frame_number(1), {}, payload);
    ASSERT_TRUE(sent);
    EXPECT_EQ(*sent, StreamSender::Sent::kPart);
    EXPECT_TRUE(sender.has_rest());
    ASSERT_TRUE(sender.send_frame(frame_number(2), {}, pattern(10, 2), base::kForever));  // behind the rest
    EXPECT_FALSE(sender.has_rest());
    expect_frame(receiver, frames, 1, payload);
    expect_frame(receiver, frames, 2, pattern(10, 2));
  }
}

TEST(SendFrameNow, SendsNothingIntoAFullSocket) {
  auto sockets = socket_pair();
  SocketStream one(std::move(sockets.one));
  SocketStream other(std::move(sockets.other));
  StreamSender sender(one, -1);
  Frames frames;
  StreamReceiver receiver(other, frames, 1 << 20);
  const Bytes payload = pattern(3000, 1);
  using Sent = StreamSender::Sent;
  std::uint64_t whole = 0;
  Sent last = Sent::kWhole;
  while (last == Sent::kWhole) {
    auto sent = sender.send_frame_now(frame_number(whole), {}, payload);
    ASSERT_TRUE(sent);
    last = *sent;
    whole += last == Sent::kWhole ? 1 : 0;
    ASSERT_LT(whole, 1'000'000u);
  }
  ASSERT_GT(whole, 0u);
  EXPECT_EQ(sender.has_rest(), last == Sent::kPart);
  for (std::uint64_t frame = 0; frame < whole; ++frame) expect_frame(receiver, frames, frame, payload);
  ASSERT_TRUE(sender.send_rest(base::kForever));
  if (last == Sent::kNothing) {
    ASSERT_TRUE(sender.send_frame(frame_number(whole), {}, payload, base::kForever));
  }
  expect_frame(receiver, frames, whole, payload);
}

class InPieces : public testing::TestWithParam<std::vector<std::size_t>> {};

TEST_P(InPieces, NothingChanges) {
  auto sockets = socket_pair();
  SocketStream one(std::move(sockets.one));
  SocketStream other(std::move(sockets.other));
  Pieces sending(one, GetParam());
  Pieces receiving(other, GetParam());
  exchange(sending, receiving, {0, 1, 32, 33, 512, 4096, 20'000, 7});
}

INSTANTIATE_TEST_SUITE_P(Sizes, InPieces,
                         testing::Values(std::vector<std::size_t>{1}, std::vector<std::size_t>{7},
                                         std::vector<std::size_t>{1, 4000, 13, 24, 100'000, 2, 23}));

extern "C" void ignore_signal(int /*signal*/) {}

TEST(FrameStream, SignalsDontBreakIt) {
  struct sigaction action {};
  action.sa_handler = ignore_signal;  // without SA_RESTART: calls end with EINTR
  ASSERT_EQ(sigaction(SIGUSR1, &action, nullptr), 0);
  auto sockets = socket_pair();
  SocketStream one(std::move(sockets.one));
  SocketStream other(std::move(sockets.other));
  std::atomic<bool> done{false};
  const pthread_t self = pthread_self();
  std::thread storm([&] {
    while (!done) {
      pthread_kill(self, SIGUSR1);
      std::this_thread::sleep_for(std::chrono::microseconds(50));
    }
  });
  exchange(one, other, kSizes);
  done = true;
  storm.join();
}

class HostileStream : public testing::Test {
 protected:
  HostileStream() {
    auto sockets = socket_pair();
    peer_ = std::move(sockets.one);
    stream_ = std::make_unique<SocketStream>(std::move(sockets.other));
    receiver_ = std::make_unique<StreamReceiver>(*stream_, frames_, 1'000'000);
  }

  void write(const Bytes& bytes) { ASSERT_EQ(::write(peer_.get(), bytes.data(), bytes.size()), ssize_t(bytes.size())); }
  Error error() {
    const auto received = receiver_->receive_until(soon());
    EXPECT_FALSE(received);
    return received ? Error{Code::kSystem, "no error"} : received.error();
  }

  base::UniqueFd peer_;
  std::unique_ptr<SocketStream> stream_;
  Frames frames_;
  std::unique_ptr<StreamReceiver> receiver_;
};

TEST_F(HostileStream, APeerThatClosesBetweenMessagesIsLost) {
  peer_.reset();
  const Error lost = error();
  EXPECT_EQ(lost.code, Code::kPeerLost);
  EXPECT_FALSE(has(lost.text, "in the middle")) << lost.text;
}

TEST_F(HostileStream, APeerMayCloseAtAnyByte) {
  wire::FrameMessage frame = frame_number(1);
  frame.side_size = 5;
  frame.payload_size = 40;
  Bytes whole = wire::encode(frame, 0);
  whole.resize(whole.size() + 45);
  for (std::size_t size = 1; size < whole.size(); ++size) {
    auto sockets = socket_pair();
    SocketStream stream(std::move(sockets.other));
    StreamReceiver receiver(stream, frames_, 1000);
    ASSERT_EQ(::write(sockets.one.get(), whole.data(), size), ssize_t(size));
    sockets.one.reset();
    const auto received = receiver.receive_until(soon());
    ASSERT_FALSE(received) << size;
    EXPECT_EQ(received.error().code, Code::kPeerLost);
    EXPECT_TRUE(has(received.error().text, "in the middle")) << size;
  }
}

TEST_F(HostileStream, GarbageIsAProtocolError) {
  write(pattern(100, 1));
  EXPECT_EQ(error().code, Code::kProtocol);
}

TEST_F(HostileStream, AFrameBeyondTheLimitIsRefusedBeforeRoomIsMade) {
  wire::FrameMessage frame = frame_number(1);
  frame.payload_size = 1'000'001;
  write(wire::encode(frame, 0));
  const Error refused = error();
  EXPECT_EQ(refused.code, Code::kTooLarge);
  EXPECT_TRUE(has(refused.text, "max-frame-size")) << refused.text;
  EXPECT_EQ(frames_.asked, 0);
}

TEST_F(HostileStream, SizesBeyondTheProtocolNameTheField) {
  wire::FrameMessage frame = frame_number(1);
  frame.payload_size = wire::kMaxFrameBytes + 1;
  write(wire::encode(frame, 0));
  const Error refused = error();
  EXPECT_EQ(refused.code, Code::kProtocol);
  EXPECT_TRUE(has(refused.text, "payload_size")) << refused.text;
}

TEST_F(HostileStream, ALargeAnnouncementAloneTakesNoMemory) {
  Bytes header = wire::encode(tag_event(0), 1);
  header.resize(wire::kHeaderBytes);
  const std::uint32_t announced = wire::kMaxMessageBytes - wire::kHeaderBytes;
  std::memcpy(header.data() + 16, &announced, sizeof announced);
  write(header);
  const auto received = receiver_->receive();
  ASSERT_TRUE(received) << received.error().text;
  EXPECT_FALSE(received->has_value());
}

TEST_F(HostileStream, WaitsEndInTimeAndWhenInterrupted) {
  EXPECT_EQ(receiver_->receive_until(base::monotonic_ns() + 20'000'000).error().code, Code::kTimeout);
  const base::UniqueFd interrupt(eventfd(1, EFD_CLOEXEC));
  EXPECT_EQ(receiver_->receive_until(soon(), interrupt.get()).error().code, Code::kInterrupted);
  // A peer that doesn't read: the sender gives up.
  StreamSender sender(*stream_, -1);
  const auto sent = sender.send_frame(frame_number(0), {}, pattern(4'000'000, 1), base::monotonic_ns() + 20'000'000);
  EXPECT_EQ(sent.error().code, Code::kTimeout);
}

TEST_F(HostileStream, SendingToAPeerThatIsGoneIsAnError) {
  peer_.reset();
  StreamSender sender(*stream_, -1);
  EXPECT_EQ(sender.send_frame(frame_number(0), {}, pattern(10, 1), soon()).error().code, Code::kPeerLost);
}

}  // namespace
}  // namespace framelane::transport
