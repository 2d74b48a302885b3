// SPDX-License-Identifier: MIT
#include "frame_path_counters.hpp"

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdlib>

#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <ucontext.h>

#include "sanitizers.hpp"

namespace {

std::atomic<std::uint64_t> allocated{0};
thread_local std::size_t refused_from = 0;
thread_local std::uint64_t trapped = 0;
thread_local long last_trapped = -1;

}  // namespace

#if defined(__GLIBC__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define FRAMELANE_OWN_MALLOC 1
namespace {

/// Counts an allocation that is granted.
bool is_refused(std::size_t size) noexcept {
  if (refused_from != 0 && size >= refused_from) return true;
  allocated.fetch_add(1, std::memory_order_relaxed);
  return false;
}

}  // namespace

// The program's own malloc comes before the C library's, also for libstdc++ and for libframelane.
extern "C" {
void* __libc_malloc(std::size_t size);
void* __libc_calloc(std::size_t count, std::size_t size);
void* __libc_realloc(void* memory, std::size_t size);
void* __libc_memalign(std::size_t alignment, std::size_t size);

void* malloc(std::size_t size) {
  if (is_refused(size)) return nullptr;
  return __libc_malloc(size);
}
void* calloc(std::size_t count, std::size_t size) {
  if (is_refused(count * size)) return nullptr;
  return __libc_calloc(count, size);
}
void* realloc(void* memory, std::size_t size) {
  if (is_refused(size)) return nullptr;
  return __libc_realloc(memory, size);
}
void* aligned_alloc(std::size_t alignment, std::size_t size) {
  if (is_refused(size)) return nullptr;
  return __libc_memalign(alignment, size);
}
}
#endif

#if defined(__x86_64__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)

extern "C" {
// The one place whose system calls the filter lets through. The label behind the instruction is the address that
// seccomp sees.
long framelane_let_through(long number, long a, long b, long c, long d, long e, long f);
extern const char framelane_let_through_end[];
}
asm(R"(
  .text
  .globl framelane_let_through
  .type framelane_let_through, @function
framelane_let_through:
  movq %rdi, %rax
  movq %rsi, %rdi
  movq %rdx, %rsi
  movq %rcx, %rdx
  movq %r8, %r10
  movq %r9, %r8
  movq 8(%rsp), %r9
  syscall
  .globl framelane_let_through_end
framelane_let_through_end:
  ret
  .size framelane_let_through, . - framelane_let_through
  .section .note.GNU-stack,"",@progbits
  .text
)");

namespace framelane::support {
namespace {

void on_trap(int /*signal*/, siginfo_t* /*info*/, void* context) {
  auto* const registers = static_cast<ucontext_t*>(context)->uc_mcontext.gregs;
  ++trapped;
  last_trapped = static_cast<long>(registers[REG_RAX]);
  registers[REG_RAX] =
      framelane_let_through(static_cast<long>(registers[REG_RAX]), static_cast<long>(registers[REG_RDI]),
                            static_cast<long>(registers[REG_RSI]), static_cast<long>(registers[REG_RDX]),
                            static_cast<long>(registers[REG_R10]), static_cast<long>(registers[REG_R8]),
                            static_cast<long>(registers[REG_R9]));
}

}  // namespace

bool trap_system_calls() noexcept {
  struct sigaction action {};
  action.sa_sigaction = on_trap;
  action.sa_flags = SA_SIGINFO | SA_NODEFER;
  if (sigaction(SIGSYS, &action, nullptr) != 0) return false;
  const auto end = reinterpret_cast<std::uint64_t>(framelane_let_through_end);
  const auto low = static_cast<std::uint32_t>(end);
  const auto high = static_cast<std::uint32_t>(end >> 32);
  sock_filter code[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_rt_sigreturn, 4, 0),  // the way back from the handler
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, instruction_pointer)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, low, 0, 3),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, instruction_pointer) + 4),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, high, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP),
  };
  const sock_fprog program{static_cast<unsigned short>(sizeof code / sizeof code[0]), code};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return false;
  return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0) == 0;
}

}  // namespace framelane::support

#else

namespace framelane::support {

bool trap_system_calls() noexcept { return false; }

}  // namespace framelane::support

#endif

namespace framelane::support {

bool refuse_allocations(std::size_t from_bytes) noexcept {
  refused_from = from_bytes;
#ifdef FRAMELANE_OWN_MALLOC
  return true;
#else
  return from_bytes == 0;
#endif
}

std::uint64_t allocations() noexcept { return allocated.load(std::memory_order_relaxed); }
std::uint64_t trapped_calls() noexcept { return trapped; }
long last_trapped_call() noexcept { return last_trapped; }

}  // namespace framelane::support
