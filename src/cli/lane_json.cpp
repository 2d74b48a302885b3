// SPDX-License-Identifier: MIT
#include "cli/lane_json.hpp"

#include <fmt/format.h>

#include "cli/lane_text.hpp"
#include "cli/percentiles.hpp"

namespace framelane::cli {
namespace {

using Json = nlohmann::ordered_json;

Json rate_json(bool known, double rate) { return known ? Json(rate) : Json(nullptr); }

std::string_view leaky_text(Leaky leaky) noexcept {
  return leaky == Leaky::kUpstream ? "upstream" : leaky == Leaky::kDownstream ? "downstream" : "no";
}

std::string hex(const std::array<std::uint8_t, 16>& id) {
  std::string text;
  for (const std::uint8_t byte : id) text += fmt::format("{:02x}", byte);
  return text;
}

Json consumer_json(const ConsumerRow& row, bool has_rates) {
  const ConsumerInfo& info = row.info;
  return {{"id", info.id},
          {"pid", info.pid},
          {"uid", info.uid},
          {"name", info.name},
          {"transport", to_string(info.transport)},
          {"address", info.address},
          {"mode", info.latest ? "latest" : "every"},
          {"gating", info.gating},
          {"state", row.state},
          {"fps", rate_json(has_rates, row.fps)},
          {"lag", info.lag},
          {"held", info.held},
          {"max_held", info.max_held},
          {"taken", info.taken},
          {"skipped", info.skipped},
          {"copied", info.copied},
          {"wake", row.wake},
          {"sleeps", info.sleeps},
          {"spins", info.spins},
          {"latency", to_json(info.latency)}};
}

}  // namespace

Json lane_json(const LaneRow& row) {
  Json json{{"name", row.sample.name}, {"path", row.sample.path}, {"state", to_string(row.sample.state)}};
  if (!row.live()) {
    json["problem"] = row.sample.problem;
    return json;
  }
  const LaneStats& stats = *row.sample.stats;
  json.update({{"descriptor", stats.descriptor},
               {"caps", stats.caps},
               {"producer", {{"pid", stats.pid}, {"program", stats.program}, {"instance", hex(stats.instance_id)}}},
               {"at_ns", stats.at_ns},
               {"opened_ns", stats.opened_ns},
               {"ended", stats.ended},
               {"leaky", leaky_text(stats.leaky)},
               {"slot_size", stats.slot_size},
               {"slots", stats.slots},
               {"loans", stats.loans},
               {"burst", stats.burst},
               {"max_consumers", stats.max_consumers},
               {"unread", stats.unread},
               {"published", stats.published},
               {"bytes", stats.bytes},
               {"fps", rate_json(row.has_rates, row.fps)},
               {"bytes_per_s", rate_json(row.has_rates, row.bytes_per_s)},
               {"drops_per_s", rate_json(row.has_rates, row.drops_per_s)},
               {"dropped_full", stats.dropped_full},
               {"passed_over", stats.passed_over},
               {"full_waits", stats.full_waits},
               {"wakes", stats.wakes},
               {"demotions", stats.demotions},
               {"evictions", stats.evictions},
               {"copied", stats.copied}});
  json["consumers"] = Json::array();
  for (const ConsumerRow& consumer : row.consumers) json["consumers"].push_back(consumer_json(consumer, row.has_rates));
  return json;
}

}  // namespace framelane::cli
