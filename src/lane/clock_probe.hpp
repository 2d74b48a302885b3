// SPDX-License-Identifier: MIT
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>

#include "measure/clock_filter.hpp"
#include "transport/byte_stream.hpp"
#include "transport/monitor.hpp"
#include "wire/control_message.hpp"

namespace framelane::lane {

/// Keeps a consumer's estimate of how far the clock of a producer on another host is from ours: asks over the stream of
/// the signals, so no question is ever in a frame's way, a few times soon and then every other second.
///
/// Threads: start(), on_answer() and stop() as said there; the rest any.
class ClockProbe {
 public:
  /// `greeted`: what the greeting told, at least one exchange. `signals` must outlive it.
  ClockProbe(transport::ByteStream& signals, const measure::ClockFilter& greeted) noexcept;

  /// Begins to ask.
  void start(transport::Monitor& monitor);
  /// The monitor's thread. False: nothing that was asked is answered so.
  [[nodiscard]] bool on_answer(const wire::Clock& answer_untrusted);
  /// Asks no more. Not where the monitor's callbacks may wait for the caller.
  void stop() noexcept { timer_.reset(); }

  /// Their clock minus ours, ns. Cheap: on a frame's way.
  [[nodiscard]] std::int64_t offset_ns() const noexcept { return offset_ns_.load(std::memory_order_relaxed); }
  /// The offset, and by how much it may be wrong now.
  [[nodiscard]] measure::ClockFilter::Estimate estimate() const;

 private:
  void ask();

  transport::ByteStream& signals_;
  transport::Monitor* monitor_ = nullptr;
  mutable std::mutex mutex_;
  measure::ClockFilter filter_;          // mutex_
  std::atomic<std::int64_t> offset_ns_;  // of the filter's estimate
  // The monitor's.
  std::uint64_t asked_ns_ = 0;  // of the question that has no answer yet; 0: there is none
  std::uint32_t answers_ = 0;
  transport::Watch timer_;
};

}  // namespace framelane::lane
