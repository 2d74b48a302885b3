// SPDX-License-Identifier: MIT
#include "stats.hpp"

#include <cstring>
#include <vector>

namespace framelane::python {
namespace {

/// Builds a dict value by value; what fails once fails the whole.
class Builder {
 public:
  Builder() : dict_(PyDict_New()), fine_(static_cast<bool>(dict_)) {}

  Builder& number(const char* key, std::uint64_t value) { return add(key, PyLong_FromUnsignedLongLong(value)); }
  Builder& signed_number(const char* key, std::int64_t value) { return add(key, PyLong_FromLongLong(value)); }
  Builder& truth(const char* key, std::int32_t value) { return add(key, PyBool_FromLong(value)); }
  Builder& text(const char* key, const char* value) {
    return add(key, PyUnicode_DecodeUTF8(value, static_cast<Py_ssize_t>(std::strlen(value)), "replace"));
  }
  Builder& add(const char* key, PyObject* value) {
    fine_ = fine_ && put(dict_.get(), key, value);
    return *this;
  }
  [[nodiscard]] PyObject* done() { return fine_ ? dict_.release() : nullptr; }

 private:
  Ref dict_;
  bool fine_;
};

PyObject* latency(const framelane_latency& latency) {
  return Builder()
      .number("count", latency.count)
      .number("min_ns", latency.min_ns)
      .number("p50_ns", latency.p50_ns)
      .number("p90_ns", latency.p90_ns)
      .number("p99_ns", latency.p99_ns)
      .number("p999_ns", latency.p999_ns)
      .number("p9999_ns", latency.p9999_ns)
      .number("max_ns", latency.max_ns)
      .done();
}

const char* transport_name(std::int32_t transport) {
  const char* const names[] = {"", "shm", "uds", "tcp"};
  return transport >= 0 && transport < 4 ? names[transport] : "";
}

PyObject* one_consumer(const framelane_consumer_info& info) {
  return Builder()
      .number("id", info.id)
      .signed_number("pid", info.pid)
      .number("uid", info.uid)
      .text("name", info.name)
      .text("transport", transport_name(info.transport))
      .text("address", info.address)
      .truth("gating", info.gating)
      .truth("demoted", info.demoted)
      .truth("latest", info.latest)
      .number("lag", info.lag)
      .number("held", info.held)
      .number("max_held", info.max_held)
      .truth("sleeping", info.sleeping)
      .number("taken", info.taken)
      .number("skipped", info.skipped)
      .number("copied", info.copied)
      .number("sleeps", info.sleeps)
      .number("spins", info.spins)
      .add("latency", latency(info.latency))
      .done();
}

PyObject* consumers_list(const std::vector<framelane_consumer_info>& consumers, std::size_t count) {
  Ref list(PyList_New(0));
  for (std::size_t i = 0; i < count && i < consumers.size() && list; ++i) {
    const Ref one(one_consumer(consumers[i]));
    if (!one || PyList_Append(list.get(), one.get()) != 0) return nullptr;
  }
  return list.release();
}

}  // namespace

PyObject* consumer_stats(const framelane_consumer* consumer) {
  framelane_consumer_stats stats{};
  stats.size = sizeof stats;
  if (const framelane_code code = framelane_consumer_get_stats(consumer, &stats); code != FRAMELANE_OK) {
    return raise(code);
  }
  char reason[1024] = "";
  framelane_consumer_transport_reason(consumer, reason, sizeof reason);
  return Builder()
      .number("taken", stats.taken)
      .number("skipped", stats.skipped)
      .number("copied", stats.copied)
      .number("held", stats.held)
      .number("sleeps", stats.sleeps)
      .number("spins", stats.spins)
      .number("connections", stats.connections)
      .truth("connected", stats.connected)
      .truth("gating", stats.gating)
      .truth("demoted", stats.demoted)
      .text("transport", framelane_consumer_transport(consumer))
      .text("transport_reason", reason)
      .add("latency", latency(stats.latency))
      .signed_number("clock_offset_error_ns", stats.clock_offset_error_ns)
      .done();
}

PyObject* producer_stats(const framelane_producer* producer) {
  framelane_producer_stats stats{};
  stats.size = sizeof stats;
  std::vector<framelane_consumer_info> consumers(32);
  for (framelane_consumer_info& info : consumers) info.size = sizeof info;
  const framelane_code code = framelane_producer_get_stats(producer, &stats, consumers.data(), consumers.size());
  if (code != FRAMELANE_OK) return raise(code);
  return Builder()
      .number("published", stats.published)
      .number("bytes", stats.bytes)
      .number("dropped_full", stats.dropped_full)
      .number("passed_over", stats.passed_over)
      .number("full_waits", stats.full_waits)
      .number("wakes", stats.wakes)
      .number("demotions", stats.demotions)
      .number("evictions", stats.evictions)
      .number("copied", stats.copied)
      .number("loans", stats.loans)
      .number("slots", stats.slots)
      .number("free_slots", stats.free_slots)
      .add("consumers", consumers_list(consumers, stats.num_consumers))
      .done();
}

PyObject* client_stats(const framelane_client* client) {
  framelane_client_stats stats{};
  stats.size = sizeof stats;
  if (const framelane_code code = framelane_client_get_stats(client, &stats); code != FRAMELANE_OK) return raise(code);
  return Builder()
      .number("sent", stats.sent)
      .number("answered", stats.answered)
      .number("late", stats.late)
      .number("lost", stats.lost)
      .number("sessions", stats.sessions)
      .number("in_flight", stats.in_flight)
      .done();
}

PyObject* server_stats(const framelane_server* server) {
  framelane_server_stats stats{};
  stats.size = sizeof stats;
  if (const framelane_code code = framelane_server_get_stats(server, &stats); code != FRAMELANE_OK) return raise(code);
  return Builder()
      .number("taken", stats.taken)
      .number("answered", stats.answered)
      .number("expired", stats.expired)
      .number("cancelled", stats.cancelled)
      .number("sessions", stats.sessions)
      .number("open", stats.open)
      .done();
}

}  // namespace framelane::python
