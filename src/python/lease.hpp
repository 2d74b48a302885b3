// SPDX-License-Identifier: MIT
// Who keeps a slot: every frame, view, buffer and DLPack capsule that reads or writes it.
#pragma once

#include <atomic>

#include "object.hpp"

namespace framelane::python {

/// A handle of the library with its own count of users, apart from Python's: the last one may go on any thread, without
/// the GIL, also when there is no interpreter any more (a DLPack consumer that outlives it).
///
/// Threads: any.
class Lease {
 public:
  using GiveBack = void (*)(void* handle);

  /// With one user. nullptr: no memory; then the handle is given back.
  static Lease* make(void* handle, GiveBack give_back) noexcept;

  void use() noexcept { users_.fetch_add(1, std::memory_order_relaxed); }
  /// One user less; the last one gives the handle back and ends this.
  void unuse() noexcept;
  /// Whether somebody but the caller, who is a user, has it.
  [[nodiscard]] bool is_shared() const noexcept { return users_.load(std::memory_order_acquire) > 1; }

  [[nodiscard]] void* handle() const noexcept { return handle_; }
  /// The handle is used up: there is nothing to give back any more.
  void forget() noexcept { handle_ = nullptr; }
  /// See fork_generation().
  [[nodiscard]] unsigned made_in() const noexcept { return made_in_; }

 private:
  Lease(void* handle, GiveBack give_back) noexcept
      : handle_(handle), give_back_(give_back), made_in_(fork_generation()) {}

  std::atomic<unsigned> users_ = 1;
  void* handle_;
  GiveBack give_back_;
  unsigned made_in_;
};

/// Gives up a user's pointer to it, if there is one.
inline void drop(Lease*& lease) noexcept {
  if (Lease* const old = std::exchange(lease, nullptr)) old->unuse();
}

}  // namespace framelane::python
