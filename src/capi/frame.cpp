// SPDX-License-Identifier: MIT
// Frames and loans.
#include "framelane/lane/frame.hpp"

#include <atomic>
#include <new>

#include "capi/handles.hpp"

namespace framelane::capi {

Caps::Caps(const std::string& text, const std::string& layout) : text_(text), layout_(layout) {
  static std::atomic<std::uint64_t> last{0};
  id_ = last.fetch_add(1, std::memory_order_relaxed) + 1;
}

Caps::~Caps() {
  if (format_ && *format_) framelane_format_unref(**format_);
}

Caps* Caps::create(const std::string& text, const std::string& layout) noexcept {
  try {
    return new Caps(text, layout);
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}

Result<framelane_format*> Caps::format() {
  const std::lock_guard lock(mutex_);
  if (!format_) format_ = parse_format(text_.c_str(), layout_);
  if (*format_) framelane_format_ref(**format_);
  return *format_;
}

framelane_code lend(Loan&& loan, HandlePool<framelane_loan>* pool, framelane_loan** out) noexcept {
  framelane_loan* const handle = pool->get();
  if (handle == nullptr) return report(Code::kNoMemory, "no memory for the handle of a loan");
  handle->loan = std::move(loan);
  *out = handle;
  return FRAMELANE_OK;
}

namespace {

format::FrameInfo info_of(const framelane_frame* frame) noexcept {
  return frame != nullptr ? frame->frame.info() : format::FrameInfo();
}

}  // namespace
}  // namespace framelane::capi

using namespace framelane;
using namespace framelane::capi;

framelane_frame* framelane_frame_ref(framelane_frame* frame) {
  if (frame != nullptr) frame->refs.fetch_add(1, std::memory_order_relaxed);
  return frame;
}

void framelane_frame_unref(framelane_frame* frame) {
  // acq_rel: the slot goes back after what every thread read of it.
  if (frame == nullptr || frame->refs.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
  frame->frame.release();
  if (frame->caps != nullptr) std::exchange(frame->caps, nullptr)->unref();
  frame->pool->put(frame);
}

const void* framelane_frame_data(const framelane_frame* frame) {
  return frame != nullptr ? frame->frame.data() : nullptr;
}

size_t framelane_frame_size(const framelane_frame* frame) { return frame != nullptr ? frame->frame.size() : 0; }
uint64_t framelane_frame_seq(const framelane_frame* frame) { return frame != nullptr ? frame->frame.seq() : 0; }

uint64_t framelane_frame_skipped(const framelane_frame* frame) { return frame != nullptr ? frame->frame.skipped() : 0; }

uint64_t framelane_frame_pts(const framelane_frame* frame) { return info_of(frame).pts; }
uint64_t framelane_frame_dts(const framelane_frame* frame) { return info_of(frame).dts; }
uint64_t framelane_frame_duration(const framelane_frame* frame) { return info_of(frame).duration; }
uint32_t framelane_frame_flags(const framelane_frame* frame) { return info_of(frame).flags; }
uint32_t framelane_frame_type_id(const framelane_frame* frame) { return info_of(frame).type_id; }

int64_t framelane_frame_due(const framelane_frame* frame) {
  return frame != nullptr ? frame->frame.due() : FRAMELANE_NO_CLOCK_TIME;
}

int64_t framelane_frame_published(const framelane_frame* frame) {
  return frame != nullptr ? frame->frame.published() : 0;
}

int64_t framelane_frame_latency(const framelane_frame* frame) {
  if (frame == nullptr || frame->frame.published() == 0) return -1;
  return std::max<std::int64_t>(frame->taken_ns - frame->frame.published(), 0);
}

framelane_code framelane_frame_get_info(const framelane_frame* frame, framelane_frame_info* info) {
  if (frame == nullptr) return missing("frame");
  const format::FrameInfo from = frame->frame.info();
  framelane_frame_info to{};
  to.flags = from.flags;
  to.pts = from.pts;
  to.dts = from.dts;
  to.duration = from.duration;
  to.offset = from.offset;
  to.offset_end = from.offset_end;
  to.due_ns = from.due_ns;
  to.capture_ns = from.capture_ns;
  to.type_id = from.type_id;
  return copy_out(to, info, "framelane_frame_info");
}

const void* framelane_frame_side_data(const framelane_frame* frame, size_t* size) {
  const auto bytes = frame != nullptr ? frame->frame.side_data() : std::span<const std::byte>();
  if (size != nullptr) *size = bytes.size();
  return bytes.empty() ? nullptr : bytes.data();
}

int32_t framelane_frame_slot(const framelane_frame* frame) { return frame != nullptr ? frame->frame.slot() : -1; }

int32_t framelane_frame_is_copy(const framelane_frame* frame) {
  return frame != nullptr && frame->frame.is_copy() ? 1 : 0;
}

int32_t framelane_frame_is_inline(const framelane_frame* frame) {
  return frame != nullptr && frame->frame.is_inline() ? 1 : 0;
}

const char* framelane_frame_caps(const framelane_frame* frame) {
  return frame != nullptr && frame->caps != nullptr ? frame->caps->text().c_str() : "";
}

uint64_t framelane_frame_caps_id(const framelane_frame* frame) {
  return frame != nullptr && frame->caps != nullptr ? frame->caps->id() : 0;
}

framelane_code framelane_frame_get_format(const framelane_frame* frame, framelane_format** format) {
  if (format == nullptr) return missing("format");
  *format = nullptr;
  if (frame == nullptr) return missing("frame");
  if (frame->caps == nullptr) return report(Code::kNotFound, "the producer has said no caps for this frame");
  return guarded([&] {
    const auto parsed = frame->caps->format();
    if (parsed) *format = *parsed;
    return code_of(parsed);
  });
}

void* framelane_loan_data(framelane_loan* loan) { return loan != nullptr ? loan->loan.data() : nullptr; }
size_t framelane_loan_capacity(const framelane_loan* loan) { return loan != nullptr ? loan->loan.capacity() : 0; }
int32_t framelane_loan_slot(const framelane_loan* loan) { return loan != nullptr ? loan->loan.slot() : -1; }

void framelane_loan_discard(framelane_loan* loan) {
  if (loan == nullptr) return;
  loan->loan = Loan();
  loan->pool->put(loan);
}
