// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <span>
#include <string>

#include "framelane/lane/consumer.hpp"
#include "framelane/lane/producer.hpp"

// Frames that say which ones they are, and the books that a consumer keeps of them.
namespace framelane::fault {

/// Whose frame it is, and which. `producer` counts the producers of a lane, one after the other.
struct FrameId {
  std::uint32_t producer = 0;
  std::uint64_t number = 0;
  friend bool operator==(const FrameId&, const FrameId&) = default;
};

/// Bytes of frame `number`, where a test wants no others: every fifth is small enough to lie in the ring's entry, the
/// others grow from 320 bytes to 40 KiB, which takes several data segments, and then begin anew.
[[nodiscard]] std::size_t size_of(std::uint64_t number) noexcept;
/// The first word says which frame it is, and all others follow from it, from their place and from the size: each byte
/// is checked, which no checksum does.
void write_frame(std::span<std::byte> bytes, const FrameId& id) noexcept;
/// Empty: it isn't one frame, whole.
[[nodiscard]] std::optional<FrameId> read_frame(std::span<const std::byte> bytes) noexcept;

/// Loans, writes and publishes frame `id`. `size`: a multiple of 8, at least 24.
[[nodiscard]] Result<Published> publish_frame(Producer& producer, const FrameId& id, std::size_t size);

/// What a consumer took of one producer.
struct Run {
  std::uint64_t first = 0;
  std::uint64_t next = 0;  // frame expected next
  std::uint64_t taken = 0;
  std::uint64_t skipped = 0;
  std::uint64_t missed = 0;  // in the gaps that were expected
};

/// A consumer's books. Keeps some of the frames for a while, and looks at them again before it gives them back.
class Account {
 public:
  explicit Account(std::size_t kept) : most_kept_(kept) {}

  void take(Frame frame);
  /// A new connection, or a flush: the next frame may be any that comes later.
  void expect_gap() noexcept { gap_ = true; }
  void release_all();

  [[nodiscard]] const std::map<std::uint32_t, Run>& runs() const noexcept { return runs_; }
  /// The first thing that was wrong; empty: nothing.
  [[nodiscard]] const std::string& fault() const noexcept { return fault_; }

 private:
  void release_one();
  void blame(const std::string& words);

  struct Kept {
    Frame frame;
    FrameId id;
  };
  std::size_t most_kept_;
  std::deque<Kept> kept_;
  std::map<std::uint32_t, Run> runs_;
  bool gap_ = false;
  std::string fault_;
};

}  // namespace framelane::fault
