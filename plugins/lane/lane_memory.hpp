// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <memory>
#include <variant>

#include <gst/gst.h>

#include "framelane/lane/frame.hpp"
#include "framelane/lane/producer.hpp"

namespace framelane::gst {

class Slots;

/// A slot as GstMemory: lent for writing (Loan) or received, read-only (Frame). The slot goes back when the memory is
/// freed, on any thread, also when the element is gone.
struct LaneMemory {
  GstMemory base;
  std::byte* data = nullptr;
  std::variant<std::monostate, Loan, Frame> owner;  // empty in a sub-memory, whose parent has it
  bool published = false;                           // guarded by the mutex of Slots
};

/// Allocator of one running element: memory from `slots`, or from the heap when there is none to give. Without slots it
/// only wraps frames. Transfer full.
[[nodiscard]] GstAllocator* new_lane_allocator(std::shared_ptr<Slots> slots);

/// The memory if `allocator` made it, else null.
[[nodiscard]] LaneMemory* lane_memory(GstMemory* memory, const GstAllocator* allocator);

/// A slot of at least `size` bytes, or null when none is to be had without waiting. Any thread.
[[nodiscard]] GstMemory* allocate_slot(GstAllocator* allocator, gsize size);

/// Memory from the heap in a slot's place, counted.
[[nodiscard]] GstMemory* allocate_overflow(GstAllocator* allocator, gsize size, const GstAllocationParams* params);
/// The slot that such a memory should have been, bytes; 0 for any other memory.
[[nodiscard]] gsize overflow_size(GstMemory* memory);

/// Wraps the first `size` bytes of a frame, read-only.
[[nodiscard]] GstMemory* wrap_frame(GstAllocator* allocator, Frame&& frame, gsize size);
/// Gives the frame of such a memory back, and puts another into it. Only for who alone has the memory.
void empty(GstMemory* memory) noexcept;
void fill(GstMemory* memory, Frame&& frame, gsize size) noexcept;

}  // namespace framelane::gst
