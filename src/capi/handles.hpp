// SPDX-License-Identifier: MIT
// What stands behind the handles of framelane.h that several files see.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "framelane/framelane.h"
#include "framelane/lane/consumer.hpp"
#include "framelane/lane/producer.hpp"

#include "capi/handle_pool.hpp"
#include "capi/structs.hpp"

namespace framelane::capi {

/// Caps text that frames share, where planes lie if the stream says it, and what was made of both. Counted; the
/// consumer has one reference, each frame another.
class Caps {
 public:
  /// Null: no memory. With one reference.
  [[nodiscard]] static Caps* create(const std::string& text, const std::string& layout) noexcept;
  void ref() noexcept { refs_.fetch_add(1, std::memory_order_relaxed); }
  void unref() noexcept {
    if (refs_.fetch_sub(1, std::memory_order_acq_rel) == 1) delete this;
  }

  [[nodiscard]] const std::string& text() const noexcept { return text_; }
  [[nodiscard]] bool is(const std::string& text, const std::string& layout) const noexcept {
    return text_ == text && layout_ == layout;
  }
  [[nodiscard]] std::uint64_t id() const noexcept { return id_; }
  /// Parses at the first call. The reference is the caller's. Any thread.
  [[nodiscard]] Result<framelane_format*> format();

 private:
  Caps(const std::string& text, const std::string& layout);
  ~Caps();

  std::atomic<std::uint32_t> refs_{1};
  std::string text_;
  std::string layout_;
  std::uint64_t id_;
  std::mutex mutex_;
  std::optional<Result<framelane_format*>> format_;  // mutex_
};

/// `layout`: of the planes of raw video, as a producer says it; empty: as the caps imply. Errors: as
/// framelane_format_parse(), and kProtocol for a layout that can't be, or not of these caps. The reference is the
/// caller's.
[[nodiscard]] Result<framelane_format*> parse_format(const char* text, const std::string& layout);

/// An event as C sees it; the text is event's.
[[nodiscard]] framelane_event event_to_c(const format::Event& event) noexcept;

[[nodiscard]] inline framelane_latency latency_to_c(const measure::LatencySummary& from) noexcept {
  return {from.count, from.min_ns, from.p50_ns, from.p90_ns, from.p99_ns, from.p999_ns, from.p9999_ns, from.max_ns};
}

[[nodiscard]] framelane_consumer_info consumer_to_c(const ConsumerInfo& from) noexcept;
/// The caller's array for consumers; NULL is fine when `capacity` is 0.
framelane_code check_consumers(const framelane_consumer_info* consumers, std::size_t capacity) noexcept;
void write_consumers(const std::vector<ConsumerInfo>& from, framelane_consumer_info* consumers,
                     std::size_t capacity) noexcept;

/// Reads `info` (may be NULL) and `options` (may be NULL).
struct PublishArguments {
  framelane_code read(const framelane_frame_info* given_info, const framelane_publish_options* given_options) noexcept;

  format::FrameInfo info;
  Wake wake = Wake::kNow;
  std::span<const std::byte> side_data;
};

/// Lends `loan` to C. Errors: kNoMemory.
framelane_code lend(Loan&& loan, HandlePool<framelane_loan>* pool, framelane_loan** out) noexcept;

}  // namespace framelane::capi

struct framelane_loan {
  framelane::capi::HandlePool<framelane_loan>* pool = nullptr;
  std::uint32_t index = 0;
  std::atomic<std::uint32_t> next{0};
  framelane::Loan loan;
};

struct framelane_frame {
  framelane::capi::HandlePool<framelane_frame>* pool = nullptr;
  std::uint32_t index = 0;
  std::atomic<std::uint32_t> next{0};
  std::atomic<std::uint32_t> refs{0};
  std::int64_t taken_ns = 0;  // of a stamped one
  framelane::capi::Caps* caps = nullptr;
  framelane::Frame frame;
};
