// SPDX-License-Identifier: MIT
// Takes the frames of a lane with no more rights than that needs: once connected it becomes another user, if one is
// given (root's to do), and then gives up nearly all of the kernel.    sandboxed_consumer [LANE [UID]]
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include <grp.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "framelane/lane/consumer.hpp"

namespace {

#if defined(__x86_64__)
constexpr unsigned kArchitecture = AUDIT_ARCH_X86_64;
#elif defined(__aarch64__)
constexpr unsigned kArchitecture = AUDIT_ARCH_AARCH64;
#elif defined(__i386__)
constexpr unsigned kArchitecture = AUDIT_ARCH_I386;
#else
constexpr unsigned kArchitecture = AUDIT_ARCH_ARM;
#endif

/// What a connected consumer asks of the kernel. It opens nothing, connects to nothing, starts and signals nobody.
std::vector<unsigned> allowed_calls() {
  return {// Waiting for a frame and for news: the lane's thread waits in epoll, take() on a futex.
          SYS_futex, SYS_epoll_pwait, SYS_epoll_ctl, SYS_ppoll, SYS_clock_nanosleep, SYS_sched_yield, SYS_getcpu,
#ifdef SYS_epoll_wait
          SYS_epoll_wait,
#endif
#ifdef SYS_poll
          SYS_poll,
#endif
#ifdef SYS_futex_time64  // those of 32-bit machines
          SYS_futex_time64, SYS_clock_nanosleep_time64, SYS_ppoll_time64, SYS_clock_gettime64, SYS_mmap2, SYS_fcntl64,
#endif
          // Control messages, and the lane's own wake-ups.
          SYS_recvmsg, SYS_sendmsg, SYS_read, SYS_write, SYS_writev, SYS_shutdown, SYS_getsockopt,
          // A new segment: seals and size are checked, then it is mapped. Also the allocator's.
          SYS_fcntl, SYS_fstat, SYS_fstatfs,
#ifdef SYS_newfstatat
          SYS_newfstatat,  // the C library's fstat(); it can stat by name, too, and read nothing
#endif
#ifdef SYS_fstat64
          SYS_fstat64, SYS_fstatfs64,
#endif
#ifdef SYS_mmap
          SYS_mmap,
#endif
          SYS_munmap, SYS_mprotect, SYS_madvise, SYS_brk, SYS_close,
          // The clock where the vDSO can't tell it; a thread's first steps and its end, the process's end.
          SYS_clock_gettime, SYS_rt_sigprocmask, SYS_rt_sigreturn, SYS_rseq, SYS_set_robust_list, SYS_prctl, SYS_getpid,
          SYS_exit, SYS_exit_group};
}

/// Any other system call ends the process.
std::vector<sock_filter> filter() {
  std::vector<sock_filter> program{
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, arch)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, kArchitecture, 1, 0),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
  };
  for (const unsigned call : allowed_calls()) {
    program.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, call, 0, 1));
    program.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
  }
  program.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS));
  return program;
}

/// All threads of the process, also the lane's.
bool enter_sandbox() {
  auto program = filter();
  const sock_fprog all{static_cast<unsigned short>(program.size()), program.data()};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &all) == 0;
}

bool become(const char* user) {
  const auto id = static_cast<uid_t>(std::atoi(user));
  return setgroups(0, nullptr) == 0 && setgid(id) == 0 && setuid(id) == 0 && setuid(0) != 0;
}

int complain(const char* what, const char* why) {
  std::fprintf(stderr, "sandboxed_consumer: %s: %s\n", what, why);
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  framelane::ConsumerSettings settings;
  settings.lane = argc > 1 ? argv[1] : "plain";
  auto consumer = framelane::Consumer::open(settings);
  if (!consumer) return complain("open", consumer.error().text.c_str());
  if (auto connected = consumer->connect(std::chrono::seconds(30)); !connected)
    return complain("connect", connected.error().text.c_str());
  if (argc > 2 && !become(argv[2])) return complain("another user", std::strerror(errno));
  if (!enter_sandbox()) return complain("seccomp", std::strerror(errno));

  unsigned long frames = 0;
  unsigned long long sum = 0;
  while (true) {
    const auto frame = consumer->take();
    if (!frame && frame.error().code == framelane::Code::kEndOfStream) break;
    if (!frame) return complain("take", frame.error().text.c_str());
    ++frames;
    for (std::size_t i = 0; i < frame->size(); ++i) sum += static_cast<unsigned char>(frame->data()[i]);
  }
  std::printf("%lu frames, all bytes add up to %llu\n", frames, sum);
  return 0;
}
