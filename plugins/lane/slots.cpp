// SPDX-License-Identifier: MIT
#include "lane/slots.hpp"

#include <algorithm>

#define GST_CAT_DEFAULT lane_debug
#include "lane/debug.hpp"

namespace framelane::gst {
namespace {

// A frame of up to 32 bytes would be lent inside the Loan, to travel inside its ring entry; but frames with timestamps
// never travel there, so it would be copied into a slot after all.
constexpr gsize kLeastSlot = 64;

// From this size on, a slot that is still in the cache saves more than looking for one costs (0.2 µs). A loan looks by
// itself; of slots that were published in place only this class knows when they may be written again.
constexpr gsize kReuseHotFrom = 32 << 10;

}  // namespace

Result<std::shared_ptr<Slots>> Slots::open(const ProducerSettings& settings) {
  ProducerSettings own = settings;
  own.max_loans += 1;  // for the sink's own copies
  auto producer = Producer::open(own);
  if (!producer) return tl::unexpected(producer.error());
  return std::make_shared<Slots>(std::move(*producer), settings);
}

Slots::Slots(Producer producer, const ProducerSettings& settings)
    : producer_(std::move(producer)), max_loans_(settings.max_loans) {
  reclaimed_.reserve(kept_.size());
}

std::optional<Loan> Slots::lend(gsize size) {
  {
    const std::lock_guard lock(mutex_);
    if (closed_ || lent_ >= max_loans_) return std::nullopt;
    ++lent_;
  }
  if (auto loan = lend_at_once(size)) return loan;
  const std::lock_guard lock(mutex_);
  --lent_;
  return std::nullopt;
}

// Slots larger than there are come with the sink's next frame: making them may wait for readers of the old ones.
std::optional<Loan> Slots::lend_at_once(gsize size) {
  if (size >= kReuseHotFrom) reclaim();
  constexpr int kTries = 3;  // it is empty, too, when another thread is in there
  for (int i = 0; i < kTries; ++i) {
    auto loan = producer_.try_loan(std::max(size, kLeastSlot));
    if (loan && *loan) return std::move(*loan);
  }
  reclaim();
  auto loan = producer_.try_loan(std::max(size, kLeastSlot));
  return loan ? std::move(*loan) : std::nullopt;
}

Result<Loan> Slots::lend_to_sink(gsize size) {
  auto loan = producer_.loan(std::max(size, kLeastSlot));
  if (loan || loan.error().code != Code::kFull) return loan;
  // Reclaiming one by one costs more than it gives, so it waits until slots run out.
  reclaim();
  return producer_.loan(std::max(size, kLeastSlot));
}

void Slots::reserve(gsize size) {
  if (auto done = producer_.reserve(std::max(size, kLeastSlot)); !done) {
    // The frame itself will fail with the same words, if it ever comes.
    GST_INFO("no room ahead for frames of %" G_GSIZE_FORMAT " bytes: %s", size, done.error().text.c_str());
  }
}

Slots::Reason Slots::why_not_in_place(GstBuffer* buffer, const GstAllocator* allocator) {
  if (gst_buffer_n_memory(buffer) != 1) return Reason::kSeveralMemories;
  GstMemory* const memory = gst_buffer_peek_memory(buffer, 0);
  const LaneMemory* const ours = lane_memory(memory, allocator);
  if (ours == nullptr) {
    if (overflow_size(memory) != 0) return Reason::kOverflow;
    return gst_memory_is_type(memory, "dmabuf") ? Reason::kDmabuf : Reason::kForeign;
  }
  if (memory->parent != nullptr || memory->offset != 0) return Reason::kPart;
  const std::lock_guard lock(mutex_);
  return ours->published ? Reason::kRepeated : Reason::kNone;
}

void Slots::set_published(LaneMemory& memory, bool published) {
  const std::lock_guard lock(mutex_);
  memory.published = published;
  kept_[static_cast<std::size_t>(std::get<Loan>(memory.owner).slot())] = published ? &memory : nullptr;
  lent_ += published ? -1u : 1u;
}

std::optional<Result<Published>> Slots::publish_in_place(LaneMemory& memory, gsize size, const format::FrameInfo& info,
                                                         std::span<const std::byte> side_data) {
  // The lock keeps everybody from writing under the readers, also a tee's other branch that has the memory in a buffer
  // of its own.
  if (!gst_memory_lock(&memory.base, GST_LOCK_FLAG_EXCLUSIVE)) return std::nullopt;
  gst_memory_ref(&memory.base);
  set_published(memory, true);  // before: once it is in the ring, any thread may find it reclaimed
  auto result = producer_.publish_kept(std::get<Loan>(memory.owner), size, info, Wake::kNow, side_data);
  if (!result || *result == Published::kDropped) {
    set_published(memory, false);
    gst_memory_unlock(&memory.base, GST_LOCK_FLAG_EXCLUSIVE);
    gst_memory_unref(&memory.base);
  }
  return result;
}

void Slots::reclaim() {
  std::vector<LaneMemory*> done;
  {
    const std::lock_guard lock(mutex_);
    reclaimed_.clear();
    producer_.reclaimed(reclaimed_);
    for (const std::uint16_t slot : reclaimed_) {
      LaneMemory* const memory = std::exchange(kept_[slot], nullptr);
      if (memory == nullptr) continue;
      memory->published = false;
      ++lent_;
      done.push_back(memory);
    }
  }
  for (LaneMemory* memory : done) {  // not under the mutex: freeing comes back through forget()
    gst_memory_unlock(&memory->base, GST_LOCK_FLAG_EXCLUSIVE);
    gst_memory_unref(&memory->base);
  }
}

void Slots::forget(const LaneMemory&) noexcept {
  const std::lock_guard lock(mutex_);
  if (!closed_) --lent_;
}

void Slots::close() noexcept {
  {
    const std::lock_guard lock(mutex_);
    closed_ = true;
  }
  producer_.close();
  std::vector<LaneMemory*> kept;
  {
    const std::lock_guard lock(mutex_);
    for (LaneMemory*& memory : kept_) {
      if (memory != nullptr) kept.push_back(std::exchange(memory, nullptr));
    }
  }
  // The exclusive lock stays: consumers may still read, so whoever else has the memory must copy before writing.
  for (LaneMemory* memory : kept) gst_memory_unref(&memory->base);
}

}  // namespace framelane::gst
