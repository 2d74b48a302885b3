// SPDX-License-Identifier: MIT
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "memory/sealed_memory.hpp"
#include "ring/layout.hpp"

namespace framelane::ring {

using ConsumerId = std::uint32_t;

/// Takes what a consumer in this process would be woken for, in its place.
class StandIn {
 public:
  virtual ~StandIn() = default;
  /// The consumer sleeps, and an entry is there. True: it may sleep on. Never waits. The publishing thread, or one
  /// under the Writer's mutex: must not call the Writer.
  [[nodiscard]] virtual bool serve() noexcept = 0;
};

/// What the producer keeps, privately, of one consumer. All members but the atomics, and those that never change, are
/// guarded by the Writer's mutex.
struct ConsumerLink {
  ConsumerId id = 0;
  std::uint32_t colour = 0;
  std::uint32_t max_held = 0;
  bool may_gate = false;           // granted when it joined
  std::atomic<bool> gates{false};  // the producer waits for it now; changed under the mutex, like the next
  std::atomic<bool> demoted{false};
  bool broken = false;       // broke the protocol: cursor and hold bits are ignored
  std::uint64_t cursor = 0;  // as last read and checked
  std::uint64_t start = 0;
  std::int64_t waited_since = 0;  // when the producer first waited for it at `cursor`; 0 = it doesn't
  memory::SealedMemory memory;
  ConsumerPage* page = nullptr;
  std::shared_ptr<StandIn> stand_in;           // null: none
  std::atomic<std::uint32_t> woken_ticket{0};  // the last ticket that got its wake
  std::atomic<bool> gone{false};               // left or leaving: nobody may wait for it

  [[nodiscard]] std::atomic<std::uint32_t>& ticket() const noexcept { return page->waiting[colour].ticket; }
  [[nodiscard]] bool holds(std::uint16_t slot) const noexcept {
    // SYNC REUSE (acquire side): the consumer's last read of the slot comes before our next write to it. relaxed would
    // let us write into a frame that is still being read.
    return (page->holds[slot / 32].load(std::memory_order_acquire) >> (slot % 32) & 1) != 0;
  }
  /// Bits that are set, for statistics: of a consumer at work no two are read at the same moment.
  [[nodiscard]] std::uint32_t held_count() const noexcept;
  /// More bits are set than the consumer may hold, and one more while it copies. Under the Writer's mutex.
  [[nodiscard]] bool holds_too_many() const noexcept;
};

/// The consumers of a lane, as the publishing thread sees them: an immutable array behind one atomic pointer, replaced
/// as a whole.
///
/// Threads: changes and wake_sleepers() under the Writer's mutex; begin_publish() and finish_publish() without it, from
///          the publishing thread.
class ConsumerTable {
 public:
  ConsumerTable();
  ~ConsumerTable();
  ConsumerTable(const ConsumerTable&) = delete;
  ConsumerTable& operator=(const ConsumerTable&) = delete;

  [[nodiscard]] const std::vector<std::shared_ptr<ConsumerLink>>& links() const noexcept { return links_; }
  [[nodiscard]] std::shared_ptr<ConsumerLink> find(ConsumerId id) const noexcept;
  [[nodiscard]] std::uint32_t free_colour() const noexcept;
  void add(std::shared_ptr<ConsumerLink> link);
  /// Takes a link out and wakes a producer that waits for it. Its page is unmapped when no publish can still see it:
  /// now, or by a later purge().
  std::shared_ptr<ConsumerLink> remove(ConsumerId id);

  /// Frees what earlier removals left, if no publish can still see it; true when nothing is left.
  bool purge() noexcept;

  /// P5 is begin_publish (before the entry's tag is stored) and finish_publish: a full fence, then the table, then each
  /// ticket.
  void begin_publish() noexcept { epoch_.store(epoch_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed); }
  /// Wakes every sleeper once per ticket if `wake`; returns how many.
  std::uint32_t finish_publish(bool wake) noexcept;
  /// Wakes sleepers from any thread, under the Writer's mutex.
  std::uint32_t wake_sleepers() noexcept;

 private:
  struct Snapshot {
    std::uint32_t count = 0;
    ConsumerLink* links[kMaxConsumers] = {};
  };
  struct Removed {
    std::unique_ptr<const Snapshot> snapshot;
    std::shared_ptr<ConsumerLink> link;
    std::uint64_t epoch;
  };

  static std::uint32_t wake_all(const Snapshot& table) noexcept;
  void replace(std::shared_ptr<ConsumerLink> removed);
  std::vector<std::shared_ptr<ConsumerLink>> links_;
  std::unique_ptr<const Snapshot> current_;
  std::atomic<const Snapshot*> published_;
  std::atomic<std::uint64_t> epoch_{0};  // odd while a publish may look at a snapshot
  std::vector<Removed> removed_;
};

}  // namespace framelane::ring
