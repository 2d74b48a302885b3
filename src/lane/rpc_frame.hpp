// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <type_traits>

// What Client and Server write into the frames of their two lanes. Both ends of the protocol are here.
//
//   frame = payload, then a Trailer of 16 bytes, unaligned
//
// Behind the payload, so that this stays aligned as the lane aligns it; in the frame, not in FrameInfo, as metadata
// takes a slot: with the trailer a payload of up to 16 bytes still travels in the ring's entry, and the metadata record
// of a larger one needn't be read.
//
//   client                                  server
//   kHello    Terms            ─────────▶   do the settings suit each other?
//                              ◀─────────   kWelcome, or kError
//   kRequest… payload          ─────────▶
//                              ◀─────────   kAnswer payload, or kError text
//
// Every request gets exactly one answer, also a dropped one, so both sides know how many are under way, and no ring
// runs full. A cancellation goes over the response lane's control socket (format::Request, kCancelKind): it arrives
// while the server is busy, and overtakes.

namespace framelane::lane {

enum class FrameKind : std::uint8_t {
  kHello = 1,      ///< payload: Terms; time: kRpcVersion; id: of the session
  kWelcome,        ///< id: of the hello
  kRequest,        ///< no deadline
  kRequestUntil,   ///< time: deadline, ns of the CLOCK_MONOTONIC that both ends have
  kRequestWithin,  ///< time: ns that were left when it was sent, to an end with another clock
  kAnswer,         ///< id: of the request
  kError,          ///< payload: text; time: Code; id: of the request or of the hello
};

inline constexpr std::int64_t kRpcVersion = 1;
inline constexpr std::uint32_t kCancelKind = 0x63616e63;  ///< format::Request::number; its time is the request's id

/// The end of each frame. Ids are the client's: 56 bits, random at first, so that an answer to an earlier client can't
/// be taken for one to this.
struct Trailer {
  std::uint64_t kind_and_id;  ///< kind << 56 | id
  std::int64_t time;

  [[nodiscard]] FrameKind kind() const noexcept { return static_cast<FrameKind>(kind_and_id >> 56); }
  [[nodiscard]] std::uint64_t id() const noexcept { return kind_and_id & kMostId; }
  static constexpr std::uint64_t kMostId = (std::uint64_t{1} << 56) - 1;
};
inline constexpr std::size_t kTrailerBytes = 16;
static_assert(sizeof(Trailer) == kTrailerBytes && std::is_trivially_copyable_v<Trailer>);

/// Payload of a kHello: what the client wants; with the trailer it still fits an entry of the ring.
struct Terms {
  std::uint32_t burst;
  std::uint32_t max_request_size;
  std::uint32_t max_response_size;
  std::uint32_t reserved;
};
static_assert(sizeof(Terms) == 16 && std::is_trivially_copyable_v<Terms>);

inline void write_trailer(std::byte* behind_payload, FrameKind kind, std::uint64_t id, std::int64_t time) noexcept {
  const Trailer trailer{static_cast<std::uint64_t>(kind) << 56 | id, time};
  std::memcpy(behind_payload, &trailer, sizeof trailer);
}

/// Empty when the frame is too short to have one.
[[nodiscard]] inline std::optional<Trailer> read_trailer(std::span<const std::byte> frame) noexcept {
  if (frame.size() < kTrailerBytes) return std::nullopt;
  Trailer trailer;
  std::memcpy(&trailer, frame.data() + frame.size() - kTrailerBytes, sizeof trailer);
  return trailer;
}

}  // namespace framelane::lane
