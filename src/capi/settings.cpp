// SPDX-License-Identifier: MIT
// Sized structs: defaults, checks, and the C++ settings that they mean.
#include <cstdio>
#include <string>

#include "framelane/lane/client.hpp"
#include "framelane/lane/consumer.hpp"
#include "framelane/lane/producer.hpp"

#include "capi/handles.hpp"
#include "capi/structs.hpp"

namespace framelane::capi {
namespace {

std::chrono::nanoseconds ns(std::int64_t value) noexcept { return std::chrono::nanoseconds(value); }

/// Each of the enums that three kinds of settings have.
framelane_code check_ways(std::int32_t spin, std::int32_t transport) noexcept {
  if (const auto code = check_enum(spin, FRAMELANE_SPIN_OFF, "spin"); code != FRAMELANE_OK) return code;
  return check_enum(transport, FRAMELANE_TRANSPORT_TCP, "transport");
}

framelane_producer_settings default_producer() {
  const ProducerSettings from;
  framelane_producer_settings to{};
  to.burst = from.burst;
  to.burst_time_ns = from.burst_time.count();
  to.full_timeout_ns = from.full_timeout.count();
  to.stall_timeout_ns = from.stall_timeout.count();
  to.linger_ns = from.linger.count();
  to.handshake_timeout_ns = from.handshake_timeout.count();
  to.max_frame_size = from.max_frame_size;
  to.spin_budget = from.spin_budget;
  to.leaky = static_cast<std::int32_t>(from.leaky);
  to.stamps = static_cast<std::int32_t>(from.stamps);
  to.spin = static_cast<std::int32_t>(from.spin);
  to.transport = static_cast<std::int32_t>(from.transport);
  to.history = from.history;
  to.max_loans = from.max_loans;
  to.max_held = from.max_held;
  to.max_consumers = from.max_consumers;
  to.max_side_data = from.max_side_data;
  return to;
}

framelane_consumer_settings default_consumer() {
  const ConsumerSettings from;
  framelane_consumer_settings to{};
  to.mode = static_cast<std::int32_t>(from.mode);
  to.gating = from.gating ? 1 : 0;
  to.reconnect = from.reconnect ? 1 : 0;
  to.max_held = from.max_held;
  to.spin = static_cast<std::int32_t>(from.spin);
  to.transport = static_cast<std::int32_t>(from.transport);
  to.connect_timeout_ns = from.connect_timeout.count();
  to.max_frame_size = from.max_frame_size;
  to.spin_budget = from.spin_budget;
  return to;
}

framelane_rpc_settings default_rpc() {
  const ClientSettings from;
  framelane_rpc_settings to{};
  to.burst = from.burst;
  to.max_request_size = from.max_request_size;
  to.max_response_size = from.max_response_size;
  to.connect_timeout_ns = from.connect_timeout.count();
  to.spin_budget = from.spin_budget;
  to.spin = static_cast<std::int32_t>(from.spin);
  return to;
}

framelane_frame_info default_info() noexcept {
  framelane_frame_info to{};
  to.pts = to.dts = to.duration = to.offset = to.offset_end = FRAMELANE_NO_TIME;
  to.due_ns = to.capture_ns = FRAMELANE_NO_CLOCK_TIME;
  return to;
}

/// The answer of the caller's function, as the C++ one's.
std::function<Admission(const PeerInfo&)> authorizer(framelane_authorize_fn ask, void* user) {
  if (ask == nullptr) return {};
  return [ask, user](const PeerInfo& peer) {
    framelane_peer_info info{};
    info.size = sizeof info;
    info.transport = transport_number(peer.transport);
    info.pid = peer.pid;
    info.uid = peer.uid;
    info.name = peer.name.c_str();
    info.address = peer.address.c_str();
    switch (ask(&info, user)) {
      case FRAMELANE_ADMIT_GATING:
        return Admission::kGating;
      case FRAMELANE_ADMIT_NO_GATING:
        return Admission::kNoGating;
      default:
        return Admission::kRefused;
    }
  };
}

}  // namespace

framelane_upstream default_upstream() noexcept {
  framelane_upstream to{};
  to.type = FRAMELANE_UPSTREAM_KEY_UNIT;
  to.time = FRAMELANE_NO_TIME;
  to.proportion = 1.0;
  return to;
}

framelane_code check_struct(const void* given, const char* name) noexcept {
  if (given == nullptr) return missing(name);
  const std::size_t size = stated_size(given);
  if (size >= kLeastStruct && size <= kMostStruct) return FRAMELANE_OK;
  char text[160];
  std::snprintf(text, sizeof text,
                "%s says that its size is %zu; set .size = sizeof (%s), or call its ..._init function", name, size,
                name);
  return report(Code::kInvalidArgument, text);
}

framelane_code check_surplus(const void* given, std::size_t known, const char* name) noexcept {
  const auto* const bytes = static_cast<const unsigned char*>(given);
  const std::size_t size = stated_size(given);
  if (size <= known || std::all_of(bytes + known, bytes + size, [](unsigned char byte) { return byte == 0; }))
    return FRAMELANE_OK;
  char text[200];
  std::snprintf(text, sizeof text,
                "%s sets members that libframelane %s doesn't know; leave them 0, or install a newer library", name,
                framelane_version());
  return report(Code::kUnsupported, text);
}

framelane_code check_enum(std::int32_t value, std::int32_t last, const char* name) noexcept {
  if (value >= 0 && value <= last) return FRAMELANE_OK;
  char text[96];
  std::snprintf(text, sizeof text, "%s is %d; framelane.h names its values, from 0 to %d", name, value, last);
  return report(Code::kInvalidArgument, text);
}

std::size_t print_text(std::string_view text, char* to, std::size_t capacity) noexcept {
  if (to != nullptr && capacity > 0) {
    const std::size_t size = std::min(text.size(), capacity - 1);
    std::memcpy(to, text.data(), size);
    to[size] = '\0';
  }
  return text.size();
}

Result<ProducerSettings> to_settings(const char* lane, const framelane_producer_settings* given) {
  framelane_producer_settings from = default_producer();
  auto code = lane != nullptr ? FRAMELANE_OK : missing("lane");
  if (code == FRAMELANE_OK && given != nullptr) code = copy_in(given, from, "framelane_producer_settings");
  if (code == FRAMELANE_OK) code = check_ways(from.spin, from.transport);
  if (code == FRAMELANE_OK) code = check_enum(from.leaky, FRAMELANE_LEAKY_DOWNSTREAM, "leaky");
  if (code == FRAMELANE_OK) code = check_enum(from.stamps, FRAMELANE_STAMPS_OFF, "stamps");
  if (code != FRAMELANE_OK) return last_error();
  ProducerSettings to;
  to.lane = lane;
  to.burst = from.burst;
  to.burst_time = ns(from.burst_time_ns);
  to.leaky = static_cast<Leaky>(from.leaky);
  to.full_timeout = ns(from.full_timeout_ns);
  to.stall_timeout = ns(from.stall_timeout_ns);
  to.history = from.history;
  to.max_loans = from.max_loans;
  to.max_held = from.max_held;
  to.max_consumers = from.max_consumers;
  to.max_frame_size = bytes_of(from.max_frame_size);
  to.max_side_data = from.max_side_data;
  to.stamps = static_cast<Stamps>(from.stamps);
  to.spin = static_cast<Spin>(from.spin);
  to.spin_budget = from.spin_budget;
  to.linger = ns(from.linger_ns);
  to.transport = static_cast<Transport>(from.transport);
  to.insecure = from.insecure != 0;
  to.psk_file = or_empty(from.psk_file);
  to.handshake_timeout = ns(from.handshake_timeout_ns);
  to.authorize = authorizer(from.authorize, from.authorize_user);
  to.unsealed = from.unsealed != 0;
  return to;
}

Result<ConsumerSettings> to_settings(const char* lane, const framelane_consumer_settings* given) {
  framelane_consumer_settings from = default_consumer();
  auto code = lane != nullptr ? FRAMELANE_OK : missing("lane");
  if (code == FRAMELANE_OK && given != nullptr) code = copy_in(given, from, "framelane_consumer_settings");
  if (code == FRAMELANE_OK) code = check_ways(from.spin, from.transport);
  if (code == FRAMELANE_OK) code = check_enum(from.mode, FRAMELANE_MODE_LATEST, "mode");
  if (code != FRAMELANE_OK) return last_error();
  ConsumerSettings to;
  to.lane = lane;
  to.mode = static_cast<Mode>(from.mode);
  to.gating = from.gating != 0;
  to.max_held = from.max_held;
  to.reconnect = from.reconnect != 0;
  to.connect_timeout = ns(from.connect_timeout_ns);
  to.max_frame_size = bytes_of(from.max_frame_size);
  to.spin = static_cast<Spin>(from.spin);
  to.spin_budget = from.spin_budget;
  to.transport = static_cast<Transport>(from.transport);
  to.psk_file = or_empty(from.psk_file);
  return to;
}

Result<framelane_rpc_settings> to_settings(const framelane_rpc_settings* given) {
  framelane_rpc_settings from = default_rpc();
  auto code = given != nullptr ? copy_in(given, from, "framelane_rpc_settings") : FRAMELANE_OK;
  if (code == FRAMELANE_OK) code = check_ways(from.spin, FRAMELANE_TRANSPORT_AUTO);
  if (code != FRAMELANE_OK) return last_error();
  return from;
}

framelane_code PublishArguments::read(const framelane_frame_info* given_info,
                                      const framelane_publish_options* given_options) noexcept {
  if (given_info != nullptr) {
    framelane_frame_info from = default_info();
    if (const auto code = copy_in(given_info, from, "framelane_frame_info"); code != FRAMELANE_OK) return code;
    info = {from.pts,   from.dts,     from.duration, from.offset,    from.offset_end,
            from.flags, from.type_id, from.due_ns,   from.capture_ns};
  }
  if (given_options == nullptr) return FRAMELANE_OK;
  framelane_publish_options from{};
  if (const auto code = copy_in(given_options, from, "framelane_publish_options"); code != FRAMELANE_OK) return code;
  if (const auto code = check_enum(from.wake, FRAMELANE_WAKE_LATER, "wake"); code != FRAMELANE_OK) return code;
  if (from.side_data == nullptr && from.side_data_size != 0) return missing("side_data");
  wake = static_cast<Wake>(from.wake);
  side_data = {static_cast<const std::byte*>(from.side_data), from.side_data_size};
  return FRAMELANE_OK;
}

}  // namespace framelane::capi

using namespace framelane::capi;

void framelane_producer_settings_init(framelane_producer_settings* settings, size_t size) {
  init_struct(default_producer(), settings, size);
}

void framelane_consumer_settings_init(framelane_consumer_settings* settings, size_t size) {
  init_struct(default_consumer(), settings, size);
}

void framelane_rpc_settings_init(framelane_rpc_settings* settings, size_t size) {
  init_struct(default_rpc(), settings, size);
}

void framelane_frame_info_init(framelane_frame_info* info, size_t size) { init_struct(default_info(), info, size); }

void framelane_publish_options_init(framelane_publish_options* options, size_t size) {
  init_struct(framelane_publish_options{}, options, size);
}

void framelane_event_init(framelane_event* event, size_t size) {
  framelane::format::Event custom;
  framelane_event to = event_to_c(custom);
  to.text = nullptr;
  init_struct(to, event, size);
}

void framelane_upstream_init(framelane_upstream* upstream, size_t size) {
  init_struct(default_upstream(), upstream, size);
}
