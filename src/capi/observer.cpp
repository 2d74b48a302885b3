// SPDX-License-Identifier: MIT
// What a lane's own producer and those who watch it are told of it.
#include "framelane/lane/observer.hpp"

#include <algorithm>
#include <utility>

#include "capi/handles.hpp"

struct framelane_observer {
  explicit framelane_observer(framelane::Observer&& connected) : observer(std::move(connected)) {}

  framelane::Observer observer;
  framelane::LaneStats told;  // the last ones: their texts are the caller's
};

namespace framelane::capi {

framelane_consumer_info consumer_to_c(const ConsumerInfo& from) noexcept {
  framelane_consumer_info to{};
  to.size = sizeof to;
  to.id = from.id;
  to.pid = from.pid;
  to.uid = from.uid;
  to.transport = transport_number(from.transport);
  to.gating = from.gating ? 1 : 0;
  to.demoted = from.demoted ? 1 : 0;
  to.latest = from.latest ? 1 : 0;
  to.held = from.held;
  to.max_held = from.max_held;
  to.sleeping = from.sleeping ? 1 : 0;
  to.lag = from.lag;
  to.taken = from.taken;
  to.skipped = from.skipped;
  to.copied = from.copied;
  to.sleeps = from.sleeps;
  to.spins = from.spins;
  to.latency = latency_to_c(from.latency);
  copy_text(from.name, to.name);
  copy_text(from.address, to.address);
  return to;
}

framelane_code check_consumers(const framelane_consumer_info* consumers, std::size_t capacity) noexcept {
  return capacity != 0 ? check_struct(consumers, "framelane_consumer_info") : FRAMELANE_OK;
}

void write_consumers(const std::vector<ConsumerInfo>& from, framelane_consumer_info* consumers,
                     std::size_t capacity) noexcept {
  write_each(from.begin(), std::min(capacity, from.size()), consumers, consumer_to_c);
}

namespace {

framelane_found_lane found_to_c(const FoundLane& from) noexcept {
  framelane_found_lane to{};
  to.state = static_cast<std::int32_t>(from.state);
  copy_text(from.name, to.name);
  copy_text(from.path, to.path);
  return to;
}

framelane_lane_stats to_c(const LaneStats& from) noexcept {
  framelane_lane_stats to{};
  to.pid = from.pid;
  to.at_ns = from.at_ns;
  to.opened_ns = from.opened_ns;
  to.slot_size = from.slot_size;
  to.unread = from.unread;
  to.published = from.published;
  to.bytes = from.bytes;
  to.dropped_full = from.dropped_full;
  to.passed_over = from.passed_over;
  to.full_waits = from.full_waits;
  to.wakes = from.wakes;
  to.demotions = from.demotions;
  to.evictions = from.evictions;
  to.copied = from.copied;
  to.ended = from.ended ? 1 : 0;
  to.leaky = static_cast<std::int32_t>(from.leaky);
  to.slots = from.slots;
  to.loans = from.loans;
  to.burst = from.burst;
  to.max_consumers = from.max_consumers;
  to.num_consumers = static_cast<std::uint32_t>(from.consumers.size());
  std::copy(from.instance_id.begin(), from.instance_id.end(), to.instance_id);
  copy_text(from.program, to.program);
  copy_text(from.lane, to.lane);
  to.descriptor = from.descriptor.c_str();
  to.caps = from.caps.c_str();
  return to;
}

}  // namespace
}  // namespace framelane::capi

using namespace framelane;
using namespace framelane::capi;

framelane_code framelane_find_lanes(const char* directory, framelane_found_lane* lanes, size_t capacity,
                                    size_t* count) {
  if (count == nullptr) return missing("count");
  *count = 0;
  if (capacity != 0) {
    if (const auto code = check_struct(lanes, "framelane_found_lane"); code != FRAMELANE_OK) return code;
  }
  return guarded([&] {
    const auto found = find_lanes(or_empty(directory));
    if (!found) return report(found.error());
    *count = found->size();
    write_each(found->begin(), std::min(capacity, found->size()), lanes, found_to_c);
    return FRAMELANE_OK;
  });
}

const char* framelane_lane_state_name(int32_t state) {
  if (state < FRAMELANE_LANE_ALIVE || state > FRAMELANE_LANE_FOREIGN) return "unknown";
  return to_string(static_cast<LaneState>(state)).data();  // of literals
}

framelane_code framelane_observer_open(const char* lane, framelane_observer** observer) {
  if (observer == nullptr) return missing("observer");
  *observer = nullptr;
  if (lane == nullptr) return missing("lane");
  return guarded([&] {
    auto connected = Observer::connect(lane);
    if (!connected) return report(connected.error());
    *observer = new framelane_observer(std::move(*connected));
    return FRAMELANE_OK;
  });
}

void framelane_observer_close(framelane_observer* observer) { delete observer; }

framelane_code framelane_observer_ask(framelane_observer* observer) {
  if (observer == nullptr) return missing("observer");
  return guarded([&] { return code_of(observer->observer.ask()); });
}

framelane_code framelane_observer_stats(framelane_observer* observer, int64_t timeout_ns, framelane_lane_stats* stats,
                                        framelane_consumer_info* consumers, size_t capacity) {
  if (observer == nullptr) return missing("observer");
  if (const auto code = check_struct(stats, "framelane_lane_stats"); code != FRAMELANE_OK) return code;
  if (const auto code = check_consumers(consumers, capacity); code != FRAMELANE_OK) return code;
  return guarded([&] {
    auto told = observer->observer.stats(timeout_of(timeout_ns));
    if (!told) return report(told.error());
    observer->told = std::move(*told);
    write_struct(to_c(observer->told), stats);
    write_consumers(observer->told.consumers, consumers, capacity);
    return FRAMELANE_OK;
  });
}
