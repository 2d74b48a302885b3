// SPDX-License-Identifier: MIT
#pragma once

#include "ring/layout.hpp"
#include "wire/control_message.hpp"

// The ring and the wire know nothing of each other; here their words for a data segment meet.
namespace framelane::lane {

[[nodiscard]] inline wire::SegmentNotice notice_of(const ring::SegmentSpec& spec) noexcept {
  return {spec.id,        spec.first_slot,  spec.slot_count,   spec.record_stride,
          spec.slot_size, spec.slot_stride, spec.slots_offset, spec.total_bytes};
}

[[nodiscard]] inline ring::SegmentSpec spec_from(const wire::SegmentNotice& notice) noexcept {
  return {notice.id,        notice.first_slot,  notice.slot_count,   notice.record_stride,
          notice.slot_size, notice.slot_stride, notice.slots_offset, notice.total_bytes};
}

}  // namespace framelane::lane
