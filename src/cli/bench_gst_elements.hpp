// SPDX-License-Identifier: MIT
#pragma once

#include <span>

#include <gst/gst.h>

#include "cli/bench_gst.hpp"

// The two ends of `bench gst` as elements: they behave as real ones (a source that takes the pool or the allocator that
// it is offered, a sink that maps what it gets), so that what is between them is measured as it is used.
namespace framelane::cli::bench_gst {

/// Writes the job's frames, each whole, with the time at which that was done in its first 8 bytes. After the last one
/// it waits for the record's `done`, so that nothing is cut off. Transfer floating. `job` and `record` outlive it.
[[nodiscard]] GstElement* new_source(const Job& job, Record& record);

/// Reads when each frame was written, then a byte of every 4 KiB, and checks both. Posts an application message when it
/// has had the last one. Transfer floating.
[[nodiscard]] GstElement* new_sink(const Job& job, Record& record, std::span<std::uint32_t> samples);

}  // namespace framelane::cli::bench_gst
