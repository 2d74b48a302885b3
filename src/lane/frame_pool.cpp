// SPDX-License-Identifier: MIT
#include "lane/frame_pool.hpp"

#include <cstdlib>
#include <cstring>
#include <utility>

#include "memory/sealed_memory.hpp"

namespace framelane::lane {
namespace {

constexpr std::size_t kPage = 4096;

}  // namespace

FrameLayout::FrameLayout(std::size_t side_data, std::size_t payload) noexcept
    : head(memory::round_up(sizeof(ring::MetaRecord) + side_data, payload >= kPage ? kPage : ring::kCacheLine)),
      bytes(memory::round_up(head + payload, kPage)) {}

std::byte* FrameLayout::allocate() const noexcept { return static_cast<std::byte*>(std::aligned_alloc(kPage, bytes)); }

FramePool::Slot::~Slot() { std::free(memory); }

FramePool::~FramePool() { std::free(own_); }

void FramePool::prepare(std::uint32_t max_held) {
  count_ = max_held;
  slots_ = std::make_unique<Slot[]>(count_);
}

FramePool::Slot* FramePool::free_slot() noexcept {
  for (std::uint32_t i = 0; i < count_; ++i) {
    if (!slots_[i].used.load(std::memory_order_acquire)) return &slots_[i];
  }
  return nullptr;
}

Result<transport::FrameRoom> FramePool::room_for(const wire::FrameMessage& frame) {
  if (slots_ == nullptr) return fail(Code::kProtocol, "the peer sent a frame before the connection was made");
  const FrameLayout layout(frame.side_size, static_cast<std::size_t>(frame.payload_size));
  coming_ = free_slot();
  if (coming_ != nullptr && coming_->bytes < layout.bytes) {
    std::free(coming_->memory);
    coming_->memory = layout.allocate();
    coming_->bytes = coming_->memory != nullptr ? layout.bytes : 0;
  }
  if (coming_ == nullptr) own_ = layout.allocate();
  std::byte* const memory = coming_ != nullptr ? coming_->memory : own_;
  if (memory == nullptr)
    return fail(Code::kNoMemory, "no memory for a frame of " + std::to_string(frame.payload_size) + " bytes");
  return transport::FrameRoom{{memory + sizeof(ring::MetaRecord), frame.side_size},
                              {memory + layout.head, static_cast<std::size_t>(frame.payload_size)}};
}

FramePool::Complete FramePool::complete(const wire::FrameMessage& frame) noexcept {
  Complete complete;
  complete.is_copy = coming_ == nullptr;
  std::byte* const memory = coming_ != nullptr ? coming_->memory : std::exchange(own_, nullptr);
  ring::MetaRecord record{};
  record.pts = frame.info.pts;
  record.dts = frame.info.dts;
  record.duration = frame.info.duration;
  record.offset = frame.info.offset;
  record.offset_end = frame.info.offset_end;
  record.flags = frame.info.flags;
  record.type_id = frame.info.type_id;
  record.capture_ns = frame.info.capture_ns;
  record.extra_size = frame.side_size;
  std::memcpy(memory, &record, sizeof record);
  ring::Taken& taken = complete.taken;
  if (coming_ != nullptr) {
    coming_->used.store(true, std::memory_order_relaxed);  // only this thread looks for free ones
    taken.slot = static_cast<std::uint16_t>(std::exchange(coming_, nullptr) - slots_.get());
  }
  taken.size = static_cast<std::uint32_t>(frame.payload_size);
  taken.index = frame.index;
  taken.due_ns = frame.info.due_ns;
  taken.publish_ns = frame.publish_ns;
  taken.record = memory;
  taken.side_data = frame.side_size;
  taken.data = memory + FrameLayout(frame.side_size, taken.size).head;
  return complete;
}

}  // namespace framelane::lane
