// SPDX-License-Identifier: MIT
#include "lane/settings_check.hpp"

#include <algorithm>
#include <cmath>

#include "base/clock.hpp"

namespace framelane::lane {
namespace {

constexpr std::uint64_t kMostFrameBytes = std::uint64_t{1} << 30;
constexpr double kMostFramesPerSecond = 1000;  // that a burst-time is made ready for before the caps are known

Result<void> in_range(const char* name, std::uint64_t value, std::uint64_t low, std::uint64_t high) {
  if (value >= low && value <= high) return {};
  return fail(Code::kInvalidArgument, std::string(name) + " is " + std::to_string(value) + "; it must be " +
                                          std::to_string(low) + " to " + std::to_string(high));
}

Result<void> not_negative(const char* name, std::chrono::nanoseconds value) {
  if (value.count() >= 0) return {};
  return fail(Code::kInvalidArgument,
              std::string(name) + " is " + std::to_string(value.count()) + " ns; it must not be negative");
}

Result<void> share(const char* name, double value) {
  if (value >= 0.0 && value <= 1.0) return {};
  return fail(Code::kInvalidArgument, std::string(name) + " is a share of one CPU; it must be 0 to 1");
}

Result<void> first_error(std::initializer_list<Result<void>> checks) {
  for (const auto& one : checks) {
    if (!one) return one;
  }
  return {};
}

}  // namespace

Result<void> check(const ProducerSettings& settings) {
  return first_error(
      {in_range("burst", settings.burst, 1, 4096), in_range("history", settings.history, 0, 4096),
       in_range("max-loans", settings.max_loans, 1, 1024), in_range("max-held", settings.max_held, 1, 1024),
       in_range("max-consumers", settings.max_consumers, 1, ring::kMaxConsumers),
       in_range("max-frame-size", settings.max_frame_size, 1, kMostFrameBytes),
       in_range("max-side-data", settings.max_side_data, 0, ring::kMaxSideData),
       share("spin-budget", settings.spin_budget), not_negative("burst-time", settings.burst_time),
       not_negative("full-timeout", settings.full_timeout), not_negative("stall-timeout", settings.stall_timeout),
       not_negative("linger", settings.linger), not_negative("handshake-timeout", settings.handshake_timeout)});
}

Result<void> check(const ConsumerSettings& settings) {
  return first_error({in_range("max-held", settings.max_held, 1, 1024),
                      in_range("max-frame-size", settings.max_frame_size, 1, kMostFrameBytes),
                      share("spin-budget", settings.spin_budget),
                      not_negative("connect-timeout", settings.connect_timeout)});
}

ring::SpinKind spin_kind(Spin spin) noexcept {
  switch (spin) {
    case Spin::kBusy:
      return ring::SpinKind::kBusy;
    case Spin::kOff:
      return ring::SpinKind::kOff;
    case Spin::kAdaptive:
      break;
  }
  return ring::SpinKind::kAdaptive;
}

ring::WhenFull when_full(Leaky leaky) noexcept {
  switch (leaky) {
    case Leaky::kUpstream:
      return ring::WhenFull::kDropNew;
    case Leaky::kDownstream:
      return ring::WhenFull::kPassOver;
    case Leaky::kNo:
      break;
  }
  return ring::WhenFull::kWait;
}

ring::WriterSettings writer_settings(const ProducerSettings& settings, std::string name) {
  ring::WriterSettings writer;
  writer.name = std::move(name);
  writer.sizes = {settings.burst,    settings.history,       settings.max_loans,
                  settings.max_held, settings.max_consumers, settings.max_side_data};
  const double most = std::ceil(std::chrono::duration<double>(settings.burst_time).count() * kMostFramesPerSecond);
  writer.most_burst = static_cast<std::uint32_t>(std::clamp(most, 0.0, 4096.0));
  writer.max_frame_size = settings.max_frame_size;
  writer.when_full = when_full(settings.leaky);
  writer.full_timeout_ns = settings.full_timeout.count();  // nanoseconds::max() is base::kForever
  writer.stall_timeout_ns = settings.stall_timeout.count();
  writer.stamps = settings.stamps == Stamps::kAuto ? ring::StampKind::kAuto
                  : settings.stamps == Stamps::kOn ? ring::StampKind::kOn
                                                   : ring::StampKind::kOff;
  writer.spin = spin_kind(settings.spin);
  writer.spin_budget = settings.spin_budget;
  writer.allow_unsealed = settings.unsealed;
  return writer;
}

}  // namespace framelane::lane
