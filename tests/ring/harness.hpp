// SPDX-License-Identifier: MIT
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "framelane/base/result.hpp"

#include "base/unique_fd.hpp"
#include "ring/reader.hpp"
#include "ring/writer.hpp"

// A lane in one process: Writer and Readers over the real memfds, and a control channel that is a list.
namespace framelane::ring::testing {

inline constexpr std::array<std::uint8_t, 16> kInstance{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16};

/// The value, or a failed test with the error's text.
template <class T>
T must(Result<T> result) {
  if (!result) throw std::runtime_error(std::string(to_string(result.error().code)) + ": " + result.error().text);
  if constexpr (!std::is_void_v<T>) return std::move(*result);
}

/// Fills a payload of whole 8-byte words; each depends on the frame's number and its place.
void fill(std::byte* data, std::size_t size, std::uint64_t number) noexcept;
/// True when every byte is what fill() wrote for `number`.
[[nodiscard]] bool intact(const std::byte* data, std::size_t size, std::uint64_t number) noexcept;

/// A Taken with a place for an inline payload.
struct Got : Taken {
  Got() { inline_words = words.data(); }
  Got(const Got& other) : Taken(other), words(other.words) { inline_words = words.data(); }
  Got& operator=(const Got& other) {
    Taken::operator=(other);
    words = other.words;
    inline_words = words.data();
    return *this;
  }
  std::array<std::uint64_t, kInlineBytes / 8> words{};
};

/// A numbered control message.
struct Message {
  enum Kind { kEvent, kAddSegment, kRetireSegment };
  Kind kind = kEvent;
  std::uint64_t seq = 0;
  int event = 0;
  SegmentSpec spec{};
  std::uint32_t segment_id = 0;
  base::UniqueFd fd;
};

/// Keeps every message, so that readers apply them when they come to their markers. Threads: any.
class FakeControl final : public ControlOut {
 public:
  void add_segment(std::uint64_t number, std::uint64_t seq, const SegmentSpec& spec, int fd) override;
  void retire_segment(std::uint64_t number, std::uint64_t seq, std::uint32_t segment_id) override;
  void demoted(ConsumerId id, bool demoted) override;
  void broke_protocol(ConsumerId id, std::string_view field) override;
  void event(std::uint64_t number, std::uint64_t seq, int event);

  /// Null when it was not sent. Messages stay where they are.
  [[nodiscard]] const Message* message(std::uint64_t number) const;
  [[nodiscard]] std::size_t count() const;
  [[nodiscard]] std::vector<std::pair<ConsumerId, bool>> demotions() const;
  [[nodiscard]] std::vector<std::pair<ConsumerId, std::string>> broken() const;

 private:
  void push(std::uint64_t number, Message message);

  mutable std::mutex mutex_;
  std::vector<std::unique_ptr<const Message>> messages_;  // number - 1 is the index
  std::vector<std::pair<ConsumerId, bool>> demotions_;
  std::vector<std::pair<ConsumerId, std::string>> broken_;
};

/// A Writer and what it says.
class Lane {
 public:
  explicit Lane(WriterSettings settings);

  /// Publish one frame, its number being the count of frames published before; true = in the ring.
  bool send_slot(std::size_t size = 256);
  bool send_inline(std::size_t size = 16, bool wake = true);
  bool send(std::size_t count);  // slot frames; true when all of them are in the ring
  void send_event(int event, Writer::MarkerKind kind = Writer::MarkerKind::kPlain);

  [[nodiscard]] std::uint64_t sent() const noexcept { return sent_; }
  [[nodiscard]] WriterCounters counters() const noexcept { return writer->counters(); }
  void reclaim();
  /// Slots that are free, of those in use, after a reclaim.
  [[nodiscard]] std::pair<std::uint32_t, std::uint32_t> free_slots();
  [[nodiscard]] std::uint32_t loans() const;
  [[nodiscard]] std::shared_ptr<ConsumerLink> link(ConsumerId id) const;

  FakeControl control;
  std::unique_ptr<Writer> writer;

 private:
  std::uint64_t sent_ = 0;
};

struct JoinOptions {
  bool gating = true;
  std::uint32_t max_held = 4;
  bool latest = false;
  SpinKind spin = SpinKind::kOff;
  std::function<void(ReaderSettings&)> lie = {};  // what a hostile producer says instead
};

/// A consumer with its own mappings of the lane's memory.
class TestConsumer final : public ControlIn {
 public:
  TestConsumer(Lane& lane, const JoinOptions& options = {});
  ~TestConsumer() override;
  void leave() noexcept;

  [[nodiscard]] Result<std::uint64_t> apply_up_to(std::uint16_t ctl) override;

  /// The next frame, passing over markers; empty when there is none.
  std::optional<Got> take();
  /// The next entry, marker or frame.
  std::optional<Got> take_entry();
  /// Takes and releases everything that is there; returns the indexes of the frames.
  std::vector<std::uint64_t> take_all();

  [[nodiscard]] Reader& reader() noexcept { return *reader_; }
  [[nodiscard]] ConsumerId id() const noexcept { return id_; }
  /// The page as the consumer maps it, for lies.
  [[nodiscard]] ConsumerPage& page() noexcept { return *page_; }
  [[nodiscard]] std::uint64_t start() const noexcept { return start_; }
  [[nodiscard]] std::uint64_t start_index() const noexcept { return start_index_; }

  std::vector<int> events;  // in the order in which they were applied

 private:
  void welcome(const Writer::Joined& joined, const JoinOptions& options);
  [[nodiscard]] Result<void> apply(const Message& message);

  Lane& lane_;
  ConsumerId id_ = 0;
  std::uint64_t start_ = 0;
  std::uint64_t start_index_ = 0;
  std::uint64_t applied_ = 0;
  ConsumerPage* page_ = nullptr;
  std::unique_ptr<Reader> reader_;
};

[[nodiscard]] bool intact(const Taken& taken, std::uint64_t number) noexcept;

}  // namespace framelane::ring::testing
