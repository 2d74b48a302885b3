// SPDX-License-Identifier: MIT
#include "lane/clock_probe.hpp"

#include <chrono>

#include "base/clock.hpp"

namespace framelane::lane {
namespace {

constexpr std::uint32_t kSoonAnswers = 8;  // as many as the filter keeps
constexpr std::chrono::milliseconds kSoon{10};
constexpr std::chrono::seconds kNowAndThen{2};

}  // namespace

ClockProbe::ClockProbe(transport::ByteStream& signals, const measure::ClockFilter& greeted) noexcept
    : signals_(signals), filter_(greeted), offset_ns_(greeted.estimate(base::monotonic_ns()).offset_ns) {}

void ClockProbe::start(transport::Monitor& monitor) {
  monitor_ = &monitor;
  timer_ = monitor_->after(kSoon, [this] { ask(); });
}

/// A question without an answer is the last one: the stream keeps its order, so no later one would be answered, either.
void ClockProbe::ask() {
  asked_ns_ = static_cast<std::uint64_t>(base::monotonic_ns());
  const auto bytes = wire::encode(wire::Clock{asked_ns_, 0}, 0);
  const iovec buffer{const_cast<std::byte*>(bytes.data()), bytes.size()};
  const auto sent = signals_.send({&buffer, 1});
  // A peer that doesn't read its signals is asked no more. Half a message would break the stream.
  if (sent && *sent != 0 && *sent != bytes.size()) signals_.shutdown();
}

bool ClockProbe::on_answer(const wire::Clock& answer_untrusted) {
  if (asked_ns_ == 0 || answer_untrusted.asked_ns != asked_ns_) return false;
  const std::int64_t now = base::monotonic_ns();
  {
    const std::lock_guard lock(mutex_);
    filter_.add(static_cast<std::int64_t>(asked_ns_), static_cast<std::int64_t>(answer_untrusted.answer_ns), now);
    offset_ns_.store(filter_.estimate(now).offset_ns, std::memory_order_relaxed);
  }
  asked_ns_ = 0;
  ++answers_;
  const std::chrono::nanoseconds pause = answers_ < kSoonAnswers ? std::chrono::nanoseconds(kSoon) : kNowAndThen;
  timer_ = monitor_->after(pause, [this] { ask(); });
  return true;
}

measure::ClockFilter::Estimate ClockProbe::estimate() const {
  const std::lock_guard lock(mutex_);
  return filter_.estimate(base::monotonic_ns());
}

}  // namespace framelane::lane
