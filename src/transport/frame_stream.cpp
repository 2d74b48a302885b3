// SPDX-License-Identifier: MIT
#include "transport/frame_stream.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include <poll.h>

#include "base/clock.hpp"
#include "base/crash_point.hpp"
#include "transport/tls_errors.hpp"

namespace framelane::transport {
namespace {

constexpr std::int64_t kLookNs = 5'000'000;  // for room that isn't told of
constexpr std::size_t kReadAhead = std::size_t{16} << 10;

iovec buffer_of(std::span<const std::byte> bytes) noexcept {
  return {const_cast<std::byte*>(bytes.data()), bytes.size()};
}

/// Takes the first `size` bytes off.
std::span<iovec> after(std::span<iovec> buffers, std::size_t size) noexcept {
  for (iovec& buffer : buffers) {
    const std::size_t done = std::min(size, buffer.iov_len);
    buffer.iov_base = static_cast<std::byte*>(buffer.iov_base) + done;
    buffer.iov_len -= done;
    size -= done;
  }
  while (!buffers.empty() && buffers.front().iov_len == 0) buffers = buffers.subspan(1);
  return buffers;
}

}  // namespace

// --- sending

Result<void> StreamSender::send(const wire::Message& message, std::uint64_t number, std::int64_t deadline_ns) {
  if (auto sent = send_rest(deadline_ns); !sent) return sent;
  wire::encode_into(header_, message, number);
  std::array<iovec, 1> buffers{buffer_of(header_)};
  return send_all(buffers, deadline_ns);
}

Result<void> StreamSender::send_frame(wire::FrameMessage frame, std::span<const std::byte> side_data,
                                      std::span<const std::byte> payload, std::int64_t deadline_ns) {
  if (auto sent = send_rest(deadline_ns); !sent) return sent;
  auto buffers = buffers_of(frame, side_data, payload);
  return send_all(buffers, deadline_ns);
}

std::array<iovec, 3> StreamSender::buffers_of(wire::FrameMessage& frame, std::span<const std::byte> side_data,
                                              std::span<const std::byte> payload) {
  frame.side_size = static_cast<std::uint32_t>(side_data.size());
  frame.payload_size = payload.size();
  wire::encode_into(header_, frame, 0);
  return {buffer_of(header_), buffer_of(side_data), buffer_of(payload)};
}

Result<StreamSender::Sent> StreamSender::send_frame_now(wire::FrameMessage frame, std::span<const std::byte> side_data,
                                                        std::span<const std::byte> payload) {
  auto buffers = buffers_of(frame, side_data, payload);
  return send_once(buffers);
}

Result<StreamSender::Sent> StreamSender::send_now(std::span<const std::byte> message) {
  std::array<iovec, 1> buffers{buffer_of(message)};
  return send_once(buffers);
}

Result<StreamSender::Sent> StreamSender::send_once(std::span<iovec> buffers) {
  auto sent = stream_.send(buffers);
  if (!sent) return tl::unexpected(std::move(sent.error()));
  if (*sent == 0) return Sent::kNothing;
  FRAMELANE_CRASH_POINT("stream: some or all sent, before the rest is kept");
  for (const iovec& left : after(buffers, *sent)) {
    const auto* const bytes = static_cast<const std::byte*>(left.iov_base);
    rest_.insert(rest_.end(), bytes, bytes + left.iov_len);
  }
  if (rest_.empty()) return Sent::kWhole;
  FRAMELANE_CRASH_POINT("stream: rest of a frame kept");
  return Sent::kPart;
}

Result<void> StreamSender::send_rest(std::int64_t deadline_ns) {
  if (rest_.empty()) return {};
  const std::vector<std::byte> rest = std::exchange(rest_, {});
  std::array<iovec, 1> buffers{buffer_of(rest)};
  return send_all(buffers, deadline_ns);
}

Result<bool> StreamSender::send_rest_now() {
  if (rest_.empty()) return true;
  const std::array<iovec, 1> buffer{buffer_of(rest_)};
  auto sent = stream_.send(buffer);
  if (!sent) return tl::unexpected(std::move(sent.error()));
  rest_.erase(rest_.begin(), rest_.begin() + static_cast<std::ptrdiff_t>(*sent));
  return rest_.empty();
}

/// Returns at the latest after kLookNs: a socket says that it is writable only when a good part of its buffer is free,
/// but takes bytes before. A peer that reads little by little would seem to stand still.
Result<void> StreamSender::wait_for_room(std::int64_t deadline_ns) {
  const std::int64_t now = base::monotonic_ns();
  auto room = wait_for(stream_.fd(), POLLOUT, interrupt_fd_, std::min(deadline_ns, now + kLookNs));
  const bool look_again = !room && room.error().code == Code::kTimeout && now + kLookNs < deadline_ns;
  return look_again ? Result<void>() : room;
}

Result<void> StreamSender::send_all(std::span<iovec> buffers, std::int64_t deadline_ns) {
  for (buffers = after(buffers, 0); !buffers.empty();) {
    auto sent = stream_.send(buffers);
    if (!sent) return tl::unexpected(std::move(sent.error()));
    if (*sent == 0) {
      if (auto room = wait_for_room(deadline_ns); !room) return room;
      continue;
    }
    buffers = after(buffers, *sent);
    if (!buffers.empty()) FRAMELANE_CRASH_POINT("stream: part of a frame sent");
  }
  return {};
}

// --- receiving

StreamReceiver::StreamReceiver(ByteStream& stream, FrameReceiver& frames, std::uint64_t max_frame_size,
                               std::size_t max_message_bytes)
    : stream_(stream),
      frames_(frames),
      max_frame_size_(std::min(max_frame_size, wire::kMaxFrameBytes)),
      max_message_bytes_(max_message_bytes),
      buffer_(kReadAhead) {}

Result<std::optional<wire::Decoded>> StreamReceiver::receive() {
  while (true) {
    auto moved = step();
    if (!moved) return tl::unexpected(std::move(moved.error()));
    if (!*moved) return std::optional<wire::Decoded>();
    if (part_ == Part::kHeader) return std::optional(std::move(decoded_));
  }
}

Result<wire::Decoded> StreamReceiver::receive_until(std::int64_t deadline_ns, int interrupt_fd) {
  while (true) {
    auto received = receive();
    if (!received) return tl::unexpected(std::move(received.error()));
    if (*received) return std::move(**received);
    if (auto more = wait_for(stream_.fd(), POLLIN, interrupt_fd, deadline_ns); !more)
      return tl::unexpected(std::move(more.error()));
  }
}

/// One part of a message. False: its bytes aren't all there yet. Back at kHeader, the message is complete.
Result<bool> StreamReceiver::step() {
  switch (part_) {
    case Part::kHeader:
      return take_header();
    case Part::kBody:
      return take_body();
    case Part::kFrame:
      break;
  }
  return take_frame();
}

Result<bool> StreamReceiver::take_header() {
  while (end_ - begin_ < wire::kHeaderBytes) {
    auto more = fill({}, {});
    if (!more || !*more) return more;
  }
  const auto bytes = buffered().first(wire::kHeaderBytes);
  const auto header = wire::decode_header(bytes);
  if (!header && looks_like_tls(bytes)) return tl::unexpected(peer_speaks_tls());
  if (!header) return tl::unexpected(header.error());
  if (header->flags != 0) return fail(Code::kProtocol, "the peer sent a broken message header: field flags");
  if (header->payload_size > max_message_bytes_ - wire::kHeaderBytes) {
    return fail(Code::kProtocol, "the peer sent a broken message header: field payload_size: " +
                                     std::to_string(header->payload_size) + " bytes are too many");
  }
  body_size_ = header->payload_size;
  message_.assign(bytes.begin(), bytes.end());
  begin_ += wire::kHeaderBytes;
  part_ = Part::kBody;
  return true;
}

Result<bool> StreamReceiver::take_body() {
  const std::size_t whole = wire::kHeaderBytes + body_size_;
  while (message_.size() < whole) {
    // Memory only for what is there: a peer's number may be anything.
    const auto there = buffered().first(std::min(whole - message_.size(), end_ - begin_));
    message_.insert(message_.end(), there.begin(), there.end());
    begin_ += there.size();
    if (message_.size() == whole) break;
    auto more = fill({}, {});
    if (!more || !*more) return more;
  }
  auto decoded = wire::decode(message_);
  if (!decoded) return tl::unexpected(std::move(decoded.error()));
  decoded_ = std::move(*decoded);
  part_ = Part::kHeader;
  const auto* const frame = std::get_if<wire::FrameMessage>(&decoded_.message);
  if (frame == nullptr) return true;
  if (frame->payload_size > max_frame_size_) {
    return fail(Code::kTooLarge, "a frame of " + std::to_string(frame->payload_size) +
                                     " bytes is larger than max-frame-size (" + std::to_string(max_frame_size_) +
                                     "); raise it");
  }
  FRAMELANE_CRASH_POINT("stream: header of a frame received");
  auto room = frames_.room_for(*frame);
  if (!room) return tl::unexpected(std::move(room.error()));
  room_ = *room;
  part_ = Part::kFrame;
  return true;
}

Result<bool> StreamReceiver::take_frame() {
  while (true) {
    room_.side_data = room_.side_data.subspan(move_buffered(room_.side_data));
    if (room_.side_data.empty()) room_.payload = room_.payload.subspan(move_buffered(room_.payload));
    if (room_.side_data.empty() && room_.payload.empty()) break;
    // Straight to where they belong; what comes after them, into the buffer.
    auto more = fill(room_.side_data, room_.payload);
    if (!more || !*more) return more;
    FRAMELANE_CRASH_POINT("stream: part of a frame received");
  }
  part_ = Part::kHeader;
  return true;
}

std::size_t StreamReceiver::move_buffered(std::span<std::byte> to) noexcept {
  const std::size_t size = std::min(to.size(), end_ - begin_);
  if (size != 0) std::memcpy(to.data(), buffer_.data() + begin_, size);
  begin_ += size;
  return size;
}

/// Receives into the frame's room, `first` before `second`, and then into the buffer. False: nothing is there.
Result<bool> StreamReceiver::fill(std::span<std::byte> first, std::span<std::byte> second) {
  if (begin_ != 0) {
    std::memmove(buffer_.data(), buffer_.data() + begin_, end_ - begin_);
    end_ -= begin_;
    begin_ = 0;
  }
  const std::array<iovec, 3> buffers{buffer_of(first), buffer_of(second), buffer_of(std::span(buffer_).subspan(end_))};
  auto received = stream_.receive(buffers);
  if (!received) {
    const bool amid = part_ != Part::kHeader || end_ != 0;
    if (received.error().code == Code::kPeerLost && amid)
      return fail(Code::kPeerLost, "the process at the other end of the lane broke off in the middle of a message");
    return tl::unexpected(std::move(received.error()));
  }
  std::size_t left = *received;
  const std::size_t in_first = std::min(left, first.size());
  const std::size_t in_second = std::min(left - in_first, second.size());
  if (in_first != 0) room_.side_data = room_.side_data.subspan(in_first);
  if (in_second != 0) room_.payload = room_.payload.subspan(in_second);
  left -= in_first + in_second;
  end_ += left;
  return *received != 0;
}

}  // namespace framelane::transport
