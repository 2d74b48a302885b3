// SPDX-License-Identifier: MIT
#include "memory/sealed_memory.hpp"

#include <algorithm>
#include <cerrno>
#include <exception>
#include <limits>
#include <optional>
#include <utility>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/text.hpp"
#include "memory/memory_room.hpp"

// Newer than the oldest headers that we build with; the kernel is asked by trying.
#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 0x0008U
#endif
#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010
#endif
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

namespace framelane::memory {
namespace {

constexpr std::size_t kMaxName = 200;                // the kernel refuses more than 249 bytes
constexpr std::uint64_t kReserve = 32u << 20;        // room that prefault() leaves to the rest of the process
constexpr std::uint32_t kHugetlbMagic = 0x958458f6;  // HUGETLBFS_MAGIC of linux/magic.h
constexpr std::size_t kMaxSize = std::numeric_limits<std::size_t>::max() / 2;  // fits off_t and ptrdiff_t

int required_seals(Sharing sharing, bool allow_unsealed) noexcept {
  const int fixed_size = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
  if (sharing == Sharing::kReadWrite || allow_unsealed) return fixed_size;
  return fixed_size | F_SEAL_FUTURE_WRITE;
}

/// The first missing seal, by the name that fcntl(2) gives it.
const char* first_missing(int required, int present) noexcept {
  static constexpr std::pair<int, const char*> kNames[] = {{F_SEAL_SHRINK, "F_SEAL_SHRINK"},
                                                           {F_SEAL_GROW, "F_SEAL_GROW"},
                                                           {F_SEAL_FUTURE_WRITE, "F_SEAL_FUTURE_WRITE"},
                                                           {F_SEAL_SEAL, "F_SEAL_SEAL"}};
  for (const auto& [seal, name] : kNames) {
    if ((required & seal) != 0 && (present & seal) == 0) return name;
  }
  return nullptr;
}

/// The soft limit, nothing when there is none.
std::optional<std::uint64_t> limit_of(int resource) noexcept {
  rlimit limit{};
  if (getrlimit(resource, &limit) != 0) return std::nullopt;
  if (limit.rlim_cur == RLIM_INFINITY) return std::nullopt;
  return limit.rlim_cur;
}

Result<base::UniqueFd> open_memfd(const std::string& name) {
  const std::string shown = name.substr(0, kMaxName);
  const unsigned flags = MFD_CLOEXEC | MFD_ALLOW_SEALING;
  int fd = memfd_create(shown.c_str(), flags | MFD_NOEXEC_SEAL);
  if (fd < 0 && errno == EINVAL) fd = memfd_create(shown.c_str(), flags);  // before Linux 6.3
  if (fd >= 0) return base::UniqueFd(fd);
  if (errno == ENOSYS) {
    return fail(Code::kUnsupported, "this kernel has no memfd_create (Linux 3.17 or newer is needed)");
  }
  if (errno == ENOMEM) return fail(Code::kNoMemory, "the kernel has no memory for another memfd");
  return fail(Code::kSystem, "memfd_create failed: " + base::system_words(errno));
}

Result<void> set_size(int fd, std::size_t size) {
  // ftruncate beyond the limit sends SIGXFSZ, which kills by default: it must not be called.
  if (const auto limit = limit_of(RLIMIT_FSIZE); limit && size > *limit) {
    return fail(Code::kNoMemory, "cannot create " + std::to_string(size) +
                                     " bytes of shared memory: the limit of file sizes (RLIMIT_FSIZE, ulimit -f) is " +
                                     std::to_string(*limit) + " bytes; raise it or ask for smaller or fewer frames");
  }
  int rc = 0;
  do {
    rc = ftruncate(fd, static_cast<off_t>(size));
  } while (rc != 0 && errno == EINTR);
  if (rc == 0) return {};
  const Code code = errno == ENOMEM || errno == ENOSPC || errno == EFBIG ? Code::kNoMemory : Code::kSystem;
  return fail(code, "cannot create " + std::to_string(size) + " bytes of shared memory: " + base::system_words(errno));
}

/// The sentence for a failed mmap. errno is mmap's.
tl::unexpected<Error> mapping_failed(std::size_t size) {
  const std::string what = "cannot map " + std::to_string(size) + " bytes of shared memory: ";
  if (errno == EAGAIN) {
    return fail(Code::kNoMemory, what + "the limit of locked memory (RLIMIT_MEMLOCK, ulimit -l) is too low");
  }
  if (errno != ENOMEM) return fail(Code::kSystem, what + base::system_words(errno));
  if (const auto limit = limit_of(RLIMIT_AS)) {
    return fail(Code::kNoMemory, what + "no address space is left; its limit (RLIMIT_AS, ulimit -v) is " +
                                     std::to_string(*limit) +
                                     " bytes; raise it, or lower burst, max-loans, max-held or max-consumers");
  }
  return fail(Code::kNoMemory, what + "no memory or address space is left");
}

Result<Mapping> map_pages(int fd, std::size_t size, int protection) {
  void* const base = mmap(nullptr, size, protection, MAP_SHARED, fd, 0);
  if (base == MAP_FAILED) return mapping_failed(size);
  Mapping mapping(base, size);
  if (madvise(base, size, MADV_DONTFORK) != 0) {
    return fail(Code::kSystem, "cannot keep shared memory from being inherited by fork: " + base::system_words(errno));
  }
  return mapping;
}

Result<void> seal(int fd, Sharing sharing, bool allow_unsealed) {
  if (fcntl(fd, F_ADD_SEALS, required_seals(sharing, false)) == 0) return {};
  if (sharing == Sharing::kReadWrite) {
    return fail(Code::kUnsupported, "this kernel cannot seal shared memory: " + base::system_words(errno));
  }
  if (allow_unsealed && fcntl(fd, F_ADD_SEALS, required_seals(sharing, true)) == 0) return {};
  return fail(Code::kUnsupported,
              "this kernel cannot seal shared memory against writers (F_SEAL_FUTURE_WRITE, Linux 5.1): " +
                  base::system_words(errno) +
                  "; set unsealed to share it all the same with consumers that could then write");
}

/// Reading a page of hugetlb memory that isn't there is SIGBUS, so every page must be, and must stay.
Result<void> check_huge_pages(int fd, const struct stat& status, int seals) {
  struct statfs filesystem {};
  if (fstatfs(fd, &filesystem) != 0)
    return fail(Code::kSystem, "fstatfs of received memory failed: " + base::system_words(errno));
  if (static_cast<std::uint32_t>(filesystem.f_type) != kHugetlbMagic) return {};
  if ((seals & F_SEAL_FUTURE_WRITE) == 0) {
    return fail(Code::kProtocol, "received memory: huge pages without the seal F_SEAL_FUTURE_WRITE");
  }
  const auto allocated = static_cast<std::uint64_t>(status.st_blocks) * 512;
  if (allocated >= static_cast<std::uint64_t>(status.st_size)) return {};
  return fail(Code::kProtocol, "received memory: huge pages with holes (" + std::to_string(allocated) + " of " +
                                   std::to_string(status.st_size) + " bytes are allocated)");
}

Result<void> check_seals(int seals, Sharing sharing, bool allow_unsealed) {
  if (const char* missing = first_missing(required_seals(sharing, allow_unsealed), seals); missing != nullptr) {
    return fail(Code::kProtocol, std::string("received memory: the seal ") + missing + " is missing");
  }
  if (sharing == Sharing::kReadWrite && (seals & (F_SEAL_WRITE | F_SEAL_FUTURE_WRITE)) != 0) {
    return fail(Code::kProtocol, "received memory: a seal forbids writing to memory that is ours to write");
  }
  return {};
}

Result<void> check_received(int fd, std::size_t size, Sharing sharing, bool allow_unsealed) {
  struct stat status {};
  if (fstat(fd, &status) != 0)
    return fail(Code::kProtocol, "received memory: not a descriptor: " + base::system_words(errno));
  if (!S_ISREG(status.st_mode)) return fail(Code::kProtocol, "received memory: the descriptor is not of a memfd");
  const int seals = fcntl(fd, F_GET_SEALS);
  if (seals < 0)
    return fail(Code::kProtocol, "received memory: the descriptor has no seals: " + base::system_words(errno));
  if (auto checked = check_seals(seals, sharing, allow_unsealed); !checked) return checked;
  // The size only after the seals: without SHRINK and GROW it could still change.
  if (fstat(fd, &status) != 0)
    return fail(Code::kSystem, "fstat of received memory failed: " + base::system_words(errno));
  if (static_cast<std::uint64_t>(status.st_size) != size) {
    return fail(Code::kProtocol, "received memory: its size is " + std::to_string(status.st_size) + " bytes, not " +
                                     std::to_string(size));
  }
  const int access = fcntl(fd, F_GETFL) & O_ACCMODE;
  if (access != O_RDWR && !(access == O_RDONLY && sharing == Sharing::kReadOnly)) {
    return fail(Code::kProtocol, "received memory: the descriptor is not open for what it was sent for");
  }
  return check_huge_pages(fd, status, seals);
}

}  // namespace

Mapping::Mapping(Mapping&& other) noexcept
    : base_(std::exchange(other.base_, nullptr)), size_(std::exchange(other.size_, 0)) {}

Mapping& Mapping::operator=(Mapping&& other) noexcept {
  if (this == &other) return *this;
  reset();
  base_ = std::exchange(other.base_, nullptr);
  size_ = std::exchange(other.size_, 0);
  return *this;
}

void Mapping::reset() noexcept {
  if (base_ != nullptr) munmap(base_, size_);
  base_ = nullptr;
  size_ = 0;
}

Result<SealedMemory> create_sealed(const std::string& name, std::size_t size, Sharing sharing, bool allow_unsealed) {
  if (size == 0) return fail(Code::kInvalidArgument, "shared memory needs a size of at least one byte");
  if (size > kMaxSize - page_size()) {
    return fail(Code::kNoMemory, "cannot create " + std::to_string(size) + " bytes of shared memory: no address space");
  }
  const std::size_t bytes = round_up(size, page_size());
  auto fd = open_memfd(name);
  if (!fd) return tl::unexpected(std::move(fd.error()));
  if (auto sized = set_size(fd->get(), bytes); !sized) return tl::unexpected(std::move(sized.error()));
  auto mapping = map_pages(fd->get(), bytes, PROT_READ | PROT_WRITE);
  if (!mapping) return tl::unexpected(std::move(mapping.error()));
  // Last, since FUTURE_WRITE would refuse our own mapping, too.
  if (auto sealed = seal(fd->get(), sharing, allow_unsealed); !sealed) {
    return tl::unexpected(std::move(sealed.error()));
  }
  return SealedMemory{std::move(*fd), std::move(*mapping)};
}

Result<Mapping> map_received(int fd, std::size_t expected_size, Sharing sharing, bool allow_unsealed) {
  if (expected_size == 0 || expected_size > kMaxSize - page_size()) {
    return fail(Code::kProtocol, "received memory: its size can't be " + std::to_string(expected_size) + " bytes");
  }
  const std::size_t size = round_up(expected_size, page_size());
  if (auto checked = check_received(fd, size, sharing, allow_unsealed); !checked) {
    return tl::unexpected(std::move(checked.error()));
  }
  return map_pages(fd, size, sharing == Sharing::kReadOnly ? PROT_READ : PROT_READ | PROT_WRITE);
}

bool prefault(const Mapping& mapping, std::size_t offset, std::size_t size) noexcept {
  if (offset > mapping.size() || size > mapping.size() - offset) return false;
  if (size == 0) return true;
  try {
    if (memory_room() < std::uint64_t{size} + kReserve) return false;
  } catch (const std::exception&) {
    return false;
  }
  const std::size_t first = offset / page_size() * page_size();
  const std::size_t end = std::min(round_up(offset + size, page_size()), mapping.size());
  int rc = 0;
  do {
    rc = madvise(mapping.data() + first, end - first, MADV_POPULATE_WRITE);
  } while (rc != 0 && errno == EINTR);
  return rc == 0;  // EINVAL before Linux 5.14: the pages come with the first write
}

std::size_t page_size() noexcept {
  static const auto size = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  return size;
}

}  // namespace framelane::memory
