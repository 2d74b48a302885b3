// SPDX-License-Identifier: MIT
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <optional>

#include <gst/gst.h>

#include "framelane/base/result.hpp"
#include "framelane/format/event.hpp"

#include "lane/gst_ptr.hpp"

// GStreamer's upstream events in a lane, both directions.
namespace framelane::gst {

/// Numbers of RequestType::kCustom.
enum class CustomRequest : std::uint32_t {
  kUpstream = 1,  ///< GST_EVENT_CUSTOM_UPSTREAM
  kBoth = 2,      ///< GST_EVENT_CUSTOM_BOTH
  kBothOob = 3,   ///< GST_EVENT_CUSTOM_BOTH_OOB
};

/// The request for an event of the consumer's pipeline; empty if this one doesn't cross. `offset` is D: what is added
/// to the producer's running times; empty if they can't be compared.
[[nodiscard]] std::optional<format::Request> to_request(GstEvent* event, std::optional<std::int64_t> offset);

/// The event for the producer's pipeline. Errors: kProtocol (the text doesn't parse, a number has no meaning).
[[nodiscard]] Result<EventPtr> to_gst(const format::Request& request_untrusted);

/// The wish for a key unit that upstream hasn't been told of: one, however many ask for it, and not too often.
///
/// Threads: any.
class KeyUnitWish {
 public:
  /// Somebody can't go on without one, if the stream has delta units at all.
  void need() noexcept;
  /// A consumer asks for one.
  void ask(const format::Request& request) noexcept;
  /// The stream has delta units.
  void delta_seen() noexcept;
  /// A frame that stands alone goes out: whoever waits for one has it.
  void key_unit_sent() noexcept;
  /// The wish, if it is time to tell upstream; then it is forgotten.
  [[nodiscard]] std::optional<format::Request> take() noexcept;

 private:
  std::atomic<bool> pending_{false};  // so that a frame costs no lock
  std::mutex mutex_;
  std::optional<format::Request> asked_;
  bool needed_ = false;
  bool has_deltas_ = false;
  std::int64_t told_ns_ = 0;
};

}  // namespace framelane::gst
