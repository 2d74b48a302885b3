// SPDX-License-Identifier: MIT
#pragma once

#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <new>

namespace framelane::capi {

/// Handles that come and go with frames, used again: no allocation once as many exist as are out at a time. A `Handle`
/// has members `pool`, `index` and `next`, which are the pool's. It lives until its owner leaves and all of them are
/// back.
///
/// Threads:   any, but leave(): once.
/// Real time: get() and put() make no system call and wait for nobody, but for a get() that makes handles.
template <class Handle>
class HandlePool {
 public:
  /// With one use, the caller's. Null: no memory.
  [[nodiscard]] static HandlePool* create() noexcept { return new (std::nothrow) HandlePool; }

  HandlePool(const HandlePool&) = delete;
  HandlePool& operator=(const HandlePool&) = delete;

  /// A handle as the last put() left it. Null: no memory.
  [[nodiscard]] Handle* get() noexcept {
    Handle* handle = pop();
    if (handle == nullptr) handle = make();
    if (handle != nullptr) uses_.fetch_add(1, std::memory_order_relaxed);
    return handle;
  }
  void put(Handle* handle) noexcept {
    push(handle);
    leave();
  }

  /// Another use, for who calls get() after the owner may have left.
  void join() noexcept { uses_.fetch_add(1, std::memory_order_relaxed); }
  /// Gives a use back.
  void leave() noexcept {
    // acq_rel: the last one frees what the others wrote.
    if (uses_.fetch_sub(1, std::memory_order_acq_rel) == 1) delete this;
  }

 private:
  static constexpr std::uint32_t kFirstChunk = 16;
  static constexpr std::size_t kChunks = 24;  // twice as large each: 2^28 handles

  HandlePool() = default;
  ~HandlePool() {
    for (auto& chunk : chunks_) delete[] chunk.load(std::memory_order_relaxed);
  }

  // The list of handles that are not out: index + 1 of the first in the lower half, and a number that changes with each
  // change in the upper one, so that a pop doesn't mistake a list that has come back to the same first for the one that
  // it looked at.
  [[nodiscard]] static constexpr std::uint64_t head_of(std::uint64_t before, std::uint32_t first) noexcept {
    return (((before >> 32) + 1) << 32) | first;
  }
  [[nodiscard]] Handle* pop() noexcept {
    std::uint64_t head = head_.load(std::memory_order_acquire);
    for (;;) {
      const auto first = static_cast<std::uint32_t>(head);
      if (first == 0) return nullptr;
      Handle* const handle = at(first - 1);
      // It may be out again meanwhile, and its `next` another one's: then the exchange fails.
      const std::uint32_t next = handle->next.load(std::memory_order_relaxed);
      if (head_.compare_exchange_weak(head, head_of(head, next), std::memory_order_acquire)) return handle;
    }
  }
  void push(Handle* handle) noexcept {
    std::uint64_t head = head_.load(std::memory_order_relaxed);
    do {
      handle->next.store(static_cast<std::uint32_t>(head), std::memory_order_relaxed);
      // SYNC HANDLE: what the last owner wrote comes before the next one's get().
    } while (!head_.compare_exchange_weak(head, head_of(head, handle->index + 1), std::memory_order_release,
                                          std::memory_order_relaxed));
  }

  [[nodiscard]] Handle* at(std::uint32_t index) const noexcept {
    const std::size_t chunk = chunk_of(index);
    return chunks_[chunk].load(std::memory_order_acquire) + (index - first_of(chunk));
  }
  [[nodiscard]] static constexpr std::size_t chunk_of(std::uint32_t index) noexcept {
    return static_cast<std::size_t>(std::bit_width(index / kFirstChunk + 1)) - 1;
  }
  [[nodiscard]] static constexpr std::uint32_t first_of(std::size_t chunk) noexcept {
    return kFirstChunk * ((1u << chunk) - 1);
  }

  [[nodiscard]] Handle* make() noexcept {
    const std::lock_guard lock(mutex_);
    const std::size_t chunk = chunk_of(made_);
    if (chunk >= kChunks) return nullptr;
    if (made_ == first_of(chunk)) {
      auto* const handles = new (std::nothrow) Handle[kFirstChunk << chunk];
      if (handles == nullptr) return nullptr;
      chunks_[chunk].store(handles, std::memory_order_release);
    }
    Handle* const handle = at(made_);
    handle->pool = this;
    handle->index = made_++;
    return handle;
  }

  std::atomic<std::uint64_t> head_{0};
  std::atomic<std::uint32_t> uses_{1};
  std::atomic<Handle*> chunks_[kChunks] = {};
  std::mutex mutex_;        // makes handles
  std::uint32_t made_ = 0;  // mutex_
};

/// An owner's use of a pool.
template <class Handle>
class PoolUse {
 public:
  PoolUse() noexcept : pool_(HandlePool<Handle>::create()) {}
  ~PoolUse() {
    if (pool_ != nullptr) pool_->leave();
  }
  PoolUse(const PoolUse&) = delete;
  PoolUse& operator=(const PoolUse&) = delete;

  [[nodiscard]] Handle* get() const noexcept { return pool_ != nullptr ? pool_->get() : nullptr; }
  [[nodiscard]] HandlePool<Handle>* pool() const noexcept { return pool_; }

 private:
  HandlePool<Handle>* pool_;
};

}  // namespace framelane::capi
