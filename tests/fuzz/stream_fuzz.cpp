// SPDX-License-Identifier: MIT
// Any bytes, in pieces of any size, are refused with a sentence, or are messages and frames: room is asked for within
// the limits, each byte of it is written, and nothing is returned that wasn't sent.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "fuzz/property.hpp"
#include "transport/frame_stream.hpp"

namespace {

using namespace framelane;
using fuzz::require;

constexpr std::uint64_t kMaxFrameSize = 1u << 20;
constexpr std::size_t kMaxMessageBytes = 4096;

/// What a peer sent: `piece` bytes at a time, then the end.
class SentBytes final : public transport::ByteStream {
 public:
  SentBytes(std::span<const std::byte> bytes, std::size_t piece) : bytes_(bytes), piece_(piece) {}

  Result<std::size_t> send(std::span<const iovec>) noexcept override { return fail(Code::kPeerLost); }
  Result<std::size_t> receive(std::span<const iovec> buffers) noexcept override {
    if (bytes_.empty()) return fail(Code::kPeerLost);
    std::size_t done = 0;
    for (const iovec& buffer : buffers) {
      const std::size_t size = std::min({buffer.iov_len, bytes_.size(), piece_ - done});
      if (size != 0) std::memcpy(buffer.iov_base, bytes_.data(), size);
      bytes_ = bytes_.subspan(size);
      done += size;
    }
    return done;
  }
  void finish() noexcept override {}
  void shutdown() noexcept override {}
  int fd() const noexcept override { return -1; }
  std::size_t left() const noexcept { return bytes_.size(); }

 private:
  std::span<const std::byte> bytes_;
  std::size_t piece_;
};

class Room final : public transport::FrameReceiver {
 public:
  Result<transport::FrameRoom> room_for(const wire::FrameMessage& frame) override {
    require(frame.payload_size <= kMaxFrameSize && frame.side_size <= wire::kMaxSideBytes);
    side_data_.resize(static_cast<std::size_t>(frame.side_size));
    payload_.resize(static_cast<std::size_t>(frame.payload_size));
    return transport::FrameRoom{side_data_, payload_};
  }

 private:
  std::vector<std::byte> side_data_, payload_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  SentBytes stream(std::as_bytes(std::span(data + 1, size - 1)), std::size_t{1} + data[0]);
  Room room;
  transport::StreamReceiver receiver(stream, room, kMaxFrameSize, kMaxMessageBytes);
  for (std::size_t messages = 0;; ++messages) {
    require(messages <= size / wire::kHeaderBytes);
    const auto received = receiver.receive();
    if (!received) {
      require(received.error().code != Code::kPeerLost || stream.left() == 0);
      break;
    }
    if (!*received) continue;
    const auto bytes = wire::encode((*received)->message, (*received)->number);
    const auto again = wire::decode(bytes);
    require(again.has_value() && again->number == (*received)->number);
  }
  return 0;
}
