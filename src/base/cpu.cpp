// SPDX-License-Identifier: MIT
#include "base/cpu.hpp"

#include <algorithm>
#include <cerrno>
#include <string>

#include <sched.h>
#include <unistd.h>

#include "base/text.hpp"

namespace framelane::base {

int online_cpus() noexcept {
  static const int count = static_cast<int>(std::max(1L, sysconf(_SC_NPROCESSORS_ONLN)));
  return count;
}

Result<void> pin_this_thread(int cpu) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(static_cast<unsigned>(cpu), &set);
  if (sched_setaffinity(0, sizeof set, &set) == 0) return {};
  return fail(Code::kSystem, "cannot run on CPU " + std::to_string(cpu) + ": " + system_words(errno));
}

}  // namespace framelane::base
