// SPDX-License-Identifier: MIT
#include "ring/consumer_table.hpp"

#include <algorithm>
#include <array>
#include <bit>

#include "base/crash_point.hpp"
#include "base/fence.hpp"
#include "base/futex.hpp"

namespace framelane::ring {

std::uint32_t ConsumerLink::held_count() const noexcept {
  std::uint32_t count = 0;
  for (const auto& word : page->holds)
    count += static_cast<std::uint32_t>(std::popcount(word.load(std::memory_order_relaxed)));
  return count;
}

bool ConsumerLink::holds_too_many() const noexcept {
  // While we have the mutex no slot is published twice, so a bit is set once and cleared once. What is set at one look
  // and at the next was set all the time between them: those bits really are held together. One look alone would count
  // the holds of different moments, and evict an honest consumer when we are preempted in the middle of it. The third
  // look is for a torn take (T4), which sets a stray bit for a moment.
  constexpr int kLooks = 3;
  std::array<std::uint32_t, kMaxSlots / 32> held;
  held.fill(~0u);
  for (int look = 0; look < kLooks; ++look) {
    std::uint32_t count = 0;
    for (std::size_t i = 0; i < held.size(); ++i) {
      held[i] &= page->holds[i].load(std::memory_order_acquire);
      count += static_cast<std::uint32_t>(std::popcount(held[i]));
    }
    if (count <= max_held + 1) return false;
  }
  return true;
}

ConsumerTable::ConsumerTable() : current_(std::make_unique<Snapshot>()), published_(current_.get()) {}

ConsumerTable::~ConsumerTable() = default;

std::shared_ptr<ConsumerLink> ConsumerTable::find(ConsumerId id) const noexcept {
  for (const auto& link : links_) {
    if (link->id == id) return link;
  }
  return nullptr;
}

std::uint32_t ConsumerTable::free_colour() const noexcept {
  std::uint32_t used = 0;
  for (const auto& link : links_) used |= 1u << link->colour;
  return static_cast<std::uint32_t>(std::countr_one(used));
}

void ConsumerTable::add(std::shared_ptr<ConsumerLink> link) {
  links_.push_back(std::move(link));
  replace(nullptr);
}

std::shared_ptr<ConsumerLink> ConsumerTable::remove(ConsumerId id) {
  const auto found = std::find_if(links_.begin(), links_.end(), [id](const auto& link) { return link->id == id; });
  if (found == links_.end()) return nullptr;
  std::shared_ptr<ConsumerLink> link = *found;
  links_.erase(found);
  replace(link);
  FRAMELANE_CRASH_POINT("leave: new table, before the page is given up");
  link->gone.store(true, std::memory_order_seq_cst);
  link->page->producer_waiting.store(0, std::memory_order_seq_cst);
  base::futex_wake(link->page->producer_waiting, 1);
  return link;
}

void ConsumerTable::replace(std::shared_ptr<ConsumerLink> removed) {
  auto next = std::make_unique<Snapshot>();
  for (const auto& link : links_) next->links[next->count++] = link.get();
  FRAMELANE_CRASH_POINT("join: before the table is published");
  // SYNC JOIN (release side): met by the load after the fence in finish_publish. A publish that misses this table
  // stored its tag before our store, so the joiner's look at the tag before its first sleep finds it; anything weaker
  // loses that wake.
  published_.store(next.get(), std::memory_order_seq_cst);
  FRAMELANE_CRASH_POINT("join: table published, before the fence");
  base::full_fence();
  removed_.push_back(
      {std::exchange(current_, std::move(next)), std::move(removed), epoch_.load(std::memory_order_acquire)});
  purge();
}

bool ConsumerTable::purge() noexcept {
  // The publisher makes the epoch odd, fences, and then loads the table (the other side of the fence in replace): an
  // even epoch, or a later one than at the removal, means that no publish can see the old table any more.
  const std::uint64_t now = epoch_.load(std::memory_order_acquire);
  std::erase_if(removed_, [now](const Removed& entry) { return entry.epoch % 2 == 0 || entry.epoch != now; });
  return removed_.empty();
}

std::uint32_t ConsumerTable::finish_publish(bool wake) noexcept {
  std::uint32_t woken = 0;
  if (wake) {
    // SYNC WAKE (producer side): the tag must be visible before we look for sleepers; the consumer stores its ticket
    // and looks at the tag again. Without a full fence on both sides each can miss the other, and the consumer sleeps
    // on a published frame. SYNC JOIN (acquire side): the table after the fence, too.
    base::full_fence();
    woken = wake_all(*published_.load(std::memory_order_seq_cst));
  } else {
    // SYNC LAPPED (release side): each publish has a fence between its look at `oldest` (P1) and the words of the next
    // entry (P3). A reader that copies a word of the next frame then finds the old entry's tag retired.
    base::release_fence();
  }
  epoch_.store(epoch_.load(std::memory_order_relaxed) + 1, std::memory_order_release);
  return woken;
}

std::uint32_t ConsumerTable::wake_sleepers() noexcept {
  base::full_fence();
  return wake_all(*current_);
}

std::uint32_t ConsumerTable::wake_all(const Snapshot& table) noexcept {
  std::uint32_t woken = 0;
  for (std::uint32_t i = 0; i < table.count; ++i) {
    ConsumerLink& link = *table.links[i];
    const std::uint32_t ticket = link.ticket().load(std::memory_order_relaxed);
    // One wake per ticket, remembered here: a flag that only the consumer clears would cost a wake per frame of a
    // burst.
    if (ticket == 0 || link.woken_ticket.load(std::memory_order_relaxed) == ticket) continue;
    if (link.stand_in != nullptr && link.stand_in->serve()) continue;
    if (link.woken_ticket.exchange(ticket, std::memory_order_relaxed) == ticket) continue;
    FRAMELANE_CRASH_POINT("wake: ticket seen");
    link.page->wake_word.fetch_add(1, std::memory_order_release);
    FRAMELANE_CRASH_POINT("wake: word changed, before the call");
    base::futex_wake(link.page->wake_word, 1);
    ++woken;
  }
  return woken;
}

}  // namespace framelane::ring
