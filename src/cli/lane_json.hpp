// SPDX-License-Identifier: MIT
#pragma once

#include <nlohmann/json.hpp>

#include "cli/lane_rows.hpp"

namespace framelane::cli {

/// {"name":…, "state":"live", "format":…, "producer":{…}, … "consumers":[…]}; with rates where they are known (null
/// elsewhere). Of a lane that isn't live name, path, state and problem alone.
[[nodiscard]] nlohmann::ordered_json lane_json(const LaneRow& row);

}  // namespace framelane::cli
