// SPDX-License-Identifier: MIT
#pragma once

#include <atomic>

#include <unistd.h>

namespace framelane::transport {

/// One T for each process, made on first use and never destroyed (threads may use it while the process ends). A forked
/// child gets a new one: the parent's may have been locked, or half written, at the moment of the fork. Threads: any; T
/// looks after its own locking.
template <class T>
[[nodiscard]] T& per_process() {
  struct Owned {
    pid_t pid;
    Owned* inherited;  // keeps the parent's reachable, for leak checkers
    T value{};
  };
  static std::atomic<Owned*> current{nullptr};
  const pid_t pid = ::getpid();
  Owned* owned = current.load(std::memory_order_acquire);
  if (owned != nullptr && owned->pid == pid) return owned->value;
  auto* const fresh = new Owned{pid, owned};
  if (current.compare_exchange_strong(owned, fresh, std::memory_order_acq_rel)) return fresh->value;
  delete fresh;  // another thread of this process was faster
  return owned->value;
}

}  // namespace framelane::transport
