// SPDX-License-Identifier: MIT
#include "base/cpu.hpp"

#include <sched.h>

#include <cstring>

namespace framelane::base {

int usable_cpus() noexcept {
  static const int count = [] {
    cpu_set_t set;
    CPU_ZERO(&set);
    if (sched_getaffinity(0, sizeof set, &set) != 0) return 1;
    return CPU_COUNT(&set) > 0 ? CPU_COUNT(&set) : 1;
  }();
  return count;
}

Result<void> pin_this_thread(int cpu) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(static_cast<unsigned>(cpu), &set);
  if (sched_setaffinity(0, sizeof set, &set) == 0) return {};
  return fail(Code::kSystem, "cannot run on CPU " + std::to_string(cpu) + ": " + std::strerror(errno));
}

}  // namespace framelane::base
