// SPDX-License-Identifier: MIT
#include <array>
#include <cerrno>
#include <cstdint>

#include <fcntl.h>
#include <linux/futex.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/text.hpp"
#include "base/unique_fd.hpp"
#include "cli/doctor.hpp"

// Newer than some of the headers that this is built with; numbers of the kernel never change.
#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 0x0008U
#endif
#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010
#endif
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif
#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77
#endif
#ifndef SYS_pidfd_open
#define SYS_pidfd_open 434
#endif

namespace framelane::cli {
namespace {

constexpr std::size_t kPage = 4096;
constexpr const char* kFilter =
    "allow the call in the container's seccomp profile (docker run --security-opt seccomp=unconfined shows whether it "
    "is that), or use a newer kernel";

Finding missing(Verdict verdict, const char* means, const char* change, bool fatal) {
  return {verdict, "no: " + base::system_words(errno), means, change, fatal};
}

Finding sealed_memory(const System&) {
  const base::UniqueFd fd(memfd_create("framelane-doctor", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (fd.valid()) return fine("yes");
  return missing(Verdict::kProblem, "frames lie in such memory: no lane can be made", kFilter, true);
}

Finding noexec_seal(const System&) {
  const base::UniqueFd fd(memfd_create("framelane-doctor", MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_NOEXEC_SEAL));
  if (fd.valid()) return fine("yes");
  return fine("no (before Linux 6.3)", "lanes do without it");
}

Finding future_write(const System&) {
  const base::UniqueFd fd(memfd_create("framelane-doctor", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd.valid() || ftruncate(fd.get(), kPage) != 0 ||
      fcntl(fd.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE | F_SEAL_SEAL) != 0) {
    return missing(Verdict::kProblem,
                   "consumers could write into frames, so lanes go over sockets instead of shared memory",
                   "use Linux 5.1 or newer", false);
  }
  void* const writable = mmap(nullptr, kPage, PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0);
  if (writable == MAP_FAILED) return fine("yes, and it holds");
  munmap(writable, kPage);
  return {Verdict::kProblem, "accepted, but writing is still allowed", "consumers could write into frames",
          "this is no Linux kernel as it should be: report it to who made it", false};
}

Finding populate(const System&) {
  void* const page = mmap(nullptr, kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED) {
    return missing(Verdict::kProblem, "there is no memory for frames", "raise the limit (ulimit -v)", true);
  }
  const bool works = madvise(page, kPage, MADV_POPULATE_WRITE) == 0;
  munmap(page, kPage);
  if (works) return fine("yes");
  return {Verdict::kNote, "no (before Linux 5.14)", "a lane starts a little slower: each page is touched by hand",
          "use Linux 5.14 or newer", false};
}

Finding futex(const System&) {
  std::uint32_t word = 0;
  if (syscall(SYS_futex, &word, FUTEX_WAKE, 1, nullptr, nullptr, 0) == 0) return fine("yes");
  return missing(Verdict::kProblem, "sleeping ends of a lane couldn't be woken", kFilter, true);
}

Finding pidfd(const System&) {
  const base::UniqueFd fd(static_cast<int>(syscall(SYS_pidfd_open, getpid(), 0)));
  if (fd.valid()) return fine("yes");
  return missing(Verdict::kNote, "a dead peer is noticed by its socket only, not when a child of it keeps that open",
                 kFilter, false);
}

Finding peer_pidfd(const System&) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) {
    return missing(Verdict::kProblem, "both ends of a lane meet over such sockets", kFilter, true);
  }
  const base::UniqueFd one(ends[0]);
  const base::UniqueFd other(ends[1]);
  int pidfd = -1;
  socklen_t size = sizeof pidfd;
  if (getsockopt(one.get(), SOL_SOCKET, SO_PEERPIDFD, &pidfd, &size) == 0) {
    const base::UniqueFd closes(pidfd);
    return fine("yes");
  }
  return fine("no (before Linux 6.5)", "lanes use pidfd_open instead");
}

Finding event_fd(const System&) {
  const base::UniqueFd fd(eventfd(0, EFD_CLOEXEC));
  if (fd.valid()) return fine("yes");
  return missing(Verdict::kProblem, "the threads that watch a lane's sockets can't be woken", kFilter, true);
}

constexpr std::array kProbes{Probe{"kernel", "memfd with seals", sealed_memory},
                             Probe{"kernel", "MFD_NOEXEC_SEAL", noexec_seal},
                             Probe{"kernel", "F_SEAL_FUTURE_WRITE", future_write},
                             Probe{"kernel", "MADV_POPULATE_WRITE", populate},
                             Probe{"kernel", "futex", futex},
                             Probe{"kernel", "pidfd_open", pidfd},
                             Probe{"kernel", "SO_PEERPIDFD", peer_pidfd},
                             Probe{"kernel", "eventfd", event_fd}};

}  // namespace

std::span<const Probe> kernel_probes() { return kProbes; }

}  // namespace framelane::cli
