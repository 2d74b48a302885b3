// SPDX-License-Identifier: MIT
#include "lane/enums.hpp"

#include "framelane/lane/settings.hpp"

namespace framelane::gst {
namespace {

template <class Enum>
constexpr gint value_of(Enum value) {
  return static_cast<gint>(value);
}

}  // namespace

GType leaky_type() {
  static const GEnumValue values[] = {
      {value_of(LeakyChoice::kAuto), "downstream when upstream is live, else no", "auto"},
      {value_of(LeakyChoice::kNo), "waits for gating consumers up to full-timeout, then drops the new frame", "no"},
      {value_of(LeakyChoice::kUpstream), "drops the new frame", "upstream"},
      {value_of(LeakyChoice::kDownstream), "slow consumers lose their oldest frame", "downstream"},
      {0, nullptr, nullptr}};
  static const GType type = g_enum_register_static("FramelaneLeaky", values);
  return type;
}

GType mode_type() {
  static const GEnumValue values[] = {{value_of(Mode::kEvery), "every frame, in order", "every"},
                                      {value_of(Mode::kLatest), "always the newest frame; never waited for", "latest"},
                                      {0, nullptr, nullptr}};
  static const GType type = g_enum_register_static("FramelaneMode", values);
  return type;
}

GType spin_type() {
  static const GEnumValue values[] = {{value_of(Spin::kAdaptive), "a spin within spin-budget, then sleep", "adaptive"},
                                      {value_of(Spin::kBusy), "never sleeps: lowest latency, one whole CPU", "busy"},
                                      {value_of(Spin::kOff), "sleeps at once", "off"},
                                      {0, nullptr, nullptr}};
  static const GType type = g_enum_register_static("FramelaneSpin", values);
  return type;
}

GType stamps_type() {
  static const GEnumValue values[] = {
      {value_of(Stamps::kAuto), "every frame up to 20,000 a second, then every 16th", "auto"},
      {value_of(Stamps::kOn), "every frame", "on"},
      {value_of(Stamps::kOff), "no frame; no latency is measured", "off"},
      {0, nullptr, nullptr}};
  static const GType type = g_enum_register_static("FramelaneStamps", values);
  return type;
}

GType timestamp_mode_type() {
  static const GEnumValue values[] = {
      {value_of(TimestampMode::kAuto), "clock when the producer's upstream is live, else first", "auto"},
      {value_of(TimestampMode::kClock), "frames are due when they were due at the producer", "clock"},
      {value_of(TimestampMode::kFirst), "the first frame is due now; lanes of one producer stay in step", "first"},
      {value_of(TimestampMode::kProducer), "the producer's segment, unchanged", "producer"},
      {value_of(TimestampMode::kArrival), "new timestamps: when each frame arrived", "arrival"},
      {0, nullptr, nullptr}};
  static const GType type = g_enum_register_static("FramelaneTimestampMode", values);
  return type;
}

}  // namespace framelane::gst
