// SPDX-License-Identifier: MIT
#pragma once

#include <memory>

#include <gst/gst.h>

#include "lane/slots.hpp"

namespace framelane::gst {

/// A pool that hands out raw video buffers in slots: what the sink offers to upstream. Any minimum and maximum will do;
/// a buffer that finds no slot gets memory from the heap instead of waiting. Transfer full.
[[nodiscard]] GstBufferPool* new_slot_pool(std::shared_ptr<Slots> slots, GstAllocator* allocator);

}  // namespace framelane::gst
