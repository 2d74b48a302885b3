// SPDX-License-Identifier: MIT
#include "lease.hpp"

#include <new>

namespace framelane::python {

Lease* Lease::make(void* handle, GiveBack give_back) noexcept {
  auto* const lease = new (std::nothrow) Lease(handle, give_back);
  if (lease == nullptr) give_back(handle);
  return lease;
}

void Lease::unuse() noexcept {
  // acq_rel: what other users read comes before the slot is given back.
  if (users_.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
  // In a child after fork() the lane isn't ours, and its memory isn't there.
  if (handle_ != nullptr && made_in_ == fork_generation()) give_back_(handle_);
  delete this;
}

}  // namespace framelane::python
