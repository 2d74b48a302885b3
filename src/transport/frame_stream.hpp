// SPDX-License-Identifier: MIT
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "transport/byte_stream.hpp"
#include "wire/control_message.hpp"

// Messages and frames over a byte stream, in order. A message is as on the control socket (wire::encode()); a FRAME
// message is followed by its side data and its payload.

namespace framelane::transport {

/// The sending end.
///
/// Threads:   one at a time.
/// Real time: no allocation once the largest message has been sent; waits for the peer to read, up to the deadline.
class StreamSender {
 public:
  /// Both must outlive the sender. `interrupt_fd`: waits end when it is readable; -1 for none.
  StreamSender(ByteStream& stream, int interrupt_fd) noexcept : stream_(stream), interrupt_fd_(interrupt_fd) {}

  /// Errors: kPeerLost, kTimeout, kInterrupted, kSystem. After any of them the stream may be cut in the middle of a
  /// message, and is good for nothing but to be closed.
  [[nodiscard]] Result<void> send(const wire::Message& message, std::uint64_t number, std::int64_t deadline_ns);
  /// One system call where the socket has room: header, side data and payload go from where they lie. The sizes in
  /// `frame` are set here. Errors: as send().
  [[nodiscard]] Result<void> send_frame(wire::FrameMessage frame, std::span<const std::byte> side_data,
                                        std::span<const std::byte> payload, std::int64_t deadline_ns);
  enum class Sent { kWhole, kPart, kNothing };
  /// The same, in one system call that doesn't wait. Of kPart the rest is kept, and goes before the next message or by
  /// send_rest(). No rest may be there. Errors: kPeerLost, kSystem.
  [[nodiscard]] Result<Sent> send_frame_now(wire::FrameMessage frame, std::span<const std::byte> side_data,
                                            std::span<const std::byte> payload);
  /// The same with an encoded message.
  [[nodiscard]] Result<Sent> send_now(std::span<const std::byte> message);
  [[nodiscard]] bool has_rest() const noexcept { return !rest_.empty(); }
  /// Errors: as send().
  [[nodiscard]] Result<void> send_rest(std::int64_t deadline_ns);
  /// The same without a wait. False: some of it is still there. Errors: kPeerLost, kSystem.
  [[nodiscard]] Result<bool> send_rest_now();

 private:
  [[nodiscard]] std::array<iovec, 3> buffers_of(wire::FrameMessage& frame, std::span<const std::byte> side_data,
                                                std::span<const std::byte> payload);
  [[nodiscard]] Result<Sent> send_once(std::span<iovec> buffers);
  [[nodiscard]] Result<void> wait_for_room(std::int64_t deadline_ns);
  [[nodiscard]] Result<void> send_all(std::span<iovec> buffers, std::int64_t deadline_ns);

  ByteStream& stream_;
  int interrupt_fd_;
  std::vector<std::byte> header_;
  std::vector<std::byte> rest_;  // of what was begun without a wait
};

/// Where the bytes of a frame go.
struct FrameRoom {
  std::span<std::byte> side_data;  ///< of the message's side_size
  std::span<std::byte> payload;    ///< of the message's payload_size
};

/// Gives the receiver room for a frame.
class FrameReceiver {
 public:
  virtual ~FrameReceiver() = default;
  /// The sizes are within the receiver's limits. The room is written until receive() returns this frame, or an error.
  /// Errors: any; ends receive() with it.
  [[nodiscard]] virtual Result<FrameRoom> room_for(const wire::FrameMessage& frame) = 0;
};

/// The receiving end.
///
/// Threads: one at a time.
class StreamReceiver {
 public:
  /// All must outlive the receiver. `max_frame_size`: a larger frame is refused before anything is allocated for it;
  /// `max_message_bytes`: so is a larger message.
  StreamReceiver(ByteStream& stream, FrameReceiver& frames, std::uint64_t max_frame_size,
                 std::size_t max_message_bytes = wire::kMaxMessageBytes);

  /// Goes on with the message that is on its way. Empty: nothing more is there now (poll the stream's fd). A frame is
  /// complete when its FrameMessage is returned.
  /// Errors: kProtocol (names message and field), kTooLarge (a frame beyond max_frame_size), kPeerLost (at a border of
  ///         messages the peer closed, else it broke off; the text says which), kSystem, those of room_for(). None of
  ///         them can be gone on from.
  [[nodiscard]] Result<std::optional<wire::Decoded>> receive();
  /// The same, waiting. Errors: also kTimeout and kInterrupted, after which it can be called again.
  [[nodiscard]] Result<wire::Decoded> receive_until(std::int64_t deadline_ns, int interrupt_fd = -1);

 private:
  enum class Part { kHeader, kBody, kFrame };

  [[nodiscard]] Result<bool> step();
  [[nodiscard]] Result<bool> take_header();
  [[nodiscard]] Result<bool> take_body();
  [[nodiscard]] Result<bool> take_frame();
  [[nodiscard]] Result<bool> fill(std::span<std::byte> first, std::span<std::byte> second);
  [[nodiscard]] std::span<const std::byte> buffered() const noexcept {
    return std::span(buffer_).subspan(begin_, end_ - begin_);
  }
  std::size_t move_buffered(std::span<std::byte> to) noexcept;

  ByteStream& stream_;
  FrameReceiver& frames_;
  std::uint64_t max_frame_size_;
  std::size_t max_message_bytes_;
  std::vector<std::byte> buffer_;  // read ahead, so that a small frame costs one system call
  std::size_t begin_ = 0;
  std::size_t end_ = 0;
  Part part_ = Part::kHeader;
  std::vector<std::byte> message_;  // header and body of the message on its way
  std::size_t body_size_ = 0;
  wire::Decoded decoded_;
  FrameRoom room_;  // what of the frame is still to come
};

}  // namespace framelane::transport
