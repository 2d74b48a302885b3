// SPDX-License-Identifier: MIT
#pragma once

#include <gst/gst.h>

#include "framelane/lane/stats.hpp"

#include "lane/gst_ptr.hpp"

namespace framelane::gst {

/// Fields are the members' names in kebab-case, with a list `consumers` of structures. Times in ns.
void add_producer_stats(GstStructure* structure, const ProducerStats& stats);
void add_consumer_stats(GstStructure* structure, const ConsumerStats& stats);
[[nodiscard]] StructurePtr structure_of(const ConsumerInfo& info);

}  // namespace framelane::gst
