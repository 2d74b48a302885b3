// SPDX-License-Identifier: MIT
#include "lane/stats.hpp"

#include <string>

namespace framelane::gst {
namespace {

void add_latency(GstStructure* structure, const measure::LatencySummary& latency) {
  gst_structure_set(structure, "latency-count", G_TYPE_UINT64, latency.count, "latency-p50", G_TYPE_UINT64,
                    latency.p50_ns, "latency-p99", G_TYPE_UINT64, latency.p99_ns, "latency-max", G_TYPE_UINT64,
                    latency.max_ns, nullptr);
}

}  // namespace

StructurePtr structure_of(const ConsumerInfo& info) {
  StructurePtr structure(gst_structure_new(
      "consumer", "id", G_TYPE_UINT, info.id, "pid", G_TYPE_INT, info.pid, "uid", G_TYPE_UINT, info.uid, "name",
      G_TYPE_STRING, info.name.c_str(), "transport", G_TYPE_STRING, std::string(to_string(info.transport)).c_str(),
      "address", G_TYPE_STRING, info.address.c_str(), "gating", G_TYPE_BOOLEAN, gboolean{info.gating}, "demoted",
      G_TYPE_BOOLEAN, gboolean{info.demoted}, "latest", G_TYPE_BOOLEAN, gboolean{info.latest}, "lag", G_TYPE_UINT64,
      info.lag, "held", G_TYPE_UINT, info.held, "taken", G_TYPE_UINT64, info.taken, "skipped", G_TYPE_UINT64,
      info.skipped, "copied", G_TYPE_UINT64, info.copied, nullptr));
  add_latency(structure.get(), info.latency);
  return structure;
}

void add_producer_stats(GstStructure* structure, const ProducerStats& stats) {
  gst_structure_set(structure, "published", G_TYPE_UINT64, stats.published, "dropped-full", G_TYPE_UINT64,
                    stats.dropped_full, "passed-over", G_TYPE_UINT64, stats.passed_over, "full-waits", G_TYPE_UINT64,
                    stats.full_waits, "wakes", G_TYPE_UINT64, stats.wakes, "demotions", G_TYPE_UINT64, stats.demotions,
                    "evictions", G_TYPE_UINT64, stats.evictions, "loans", G_TYPE_UINT, stats.loans, "slots",
                    G_TYPE_UINT, stats.slots, "free-slots", G_TYPE_UINT, stats.free_slots, nullptr);
  GValue list = G_VALUE_INIT;
  g_value_init(&list, GST_TYPE_LIST);
  for (const ConsumerInfo& info : stats.consumers) {
    GValue item = G_VALUE_INIT;
    g_value_init(&item, GST_TYPE_STRUCTURE);
    g_value_take_boxed(&item, structure_of(info).release());
    gst_value_list_append_and_take_value(&list, &item);
  }
  gst_structure_take_value(structure, "consumers", &list);
}

void add_consumer_stats(GstStructure* structure, const ConsumerStats& stats) {
  gst_structure_set(structure, "taken", G_TYPE_UINT64, stats.taken, "skipped", G_TYPE_UINT64, stats.skipped, "copied",
                    G_TYPE_UINT64, stats.copied, "sleeps", G_TYPE_UINT64, stats.sleeps, "spins", G_TYPE_UINT64,
                    stats.spins, "connections", G_TYPE_UINT64, stats.connections, "held", G_TYPE_UINT, stats.held,
                    "connected", G_TYPE_BOOLEAN, gboolean{stats.connected}, "gating", G_TYPE_BOOLEAN,
                    gboolean{stats.gating}, "demoted", G_TYPE_BOOLEAN, gboolean{stats.demoted}, "transport",
                    G_TYPE_STRING, stats.transport.c_str(), "transport-reason", G_TYPE_STRING,
                    stats.transport_reason.c_str(), nullptr);
  add_latency(structure, stats.latency);
}

}  // namespace framelane::gst
