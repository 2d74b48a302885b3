// SPDX-License-Identifier: MIT
// Linked with --wrap: all mappings of one memfd are one mapping, so that ThreadSanitizer sees the accesses of the
// producer and of the consumers at the same addresses. The last one that unmaps it, unmaps it.
#include <cerrno>
#include <map>
#include <mutex>
#include <tuple>

#include <sys/mman.h>
#include <sys/stat.h>

namespace {

struct Shared {
  std::size_t size = 0;
  int users = 0;
};

std::mutex mutex;

// Never destroyed: mappings end after main(), too.
std::map<std::pair<dev_t, ino_t>, void*>& of_file() {
  static auto* const map = new std::map<std::pair<dev_t, ino_t>, void*>;
  return *map;
}
std::map<void*, Shared>& of_address() {
  static auto* const map = new std::map<void*, Shared>;
  return *map;
}

using Map = void* (*)(void*, size_t, int, int, int, off_t);

void* map_once(Map real, void* address, size_t size, int protection, int flags, int fd, off_t offset) {
  struct stat status {};
  if (fd < 0 || flags != MAP_SHARED || fstat(fd, &status) != 0)
    return real(address, size, protection, flags, fd, offset);
  const std::lock_guard lock(mutex);
  const auto found = of_file().find({status.st_dev, status.st_ino});
  if (found != of_file().end()) {
    Shared& shared = of_address()[found->second];
    if (shared.size != size) {
      errno = EINVAL;
      return MAP_FAILED;
    }
    ++shared.users;
    return found->second;
  }
  void* const base = real(address, size, protection, flags, fd, offset);
  if (base == MAP_FAILED) return base;
  of_file()[{status.st_dev, status.st_ino}] = base;
  of_address()[base] = {size, 1};
  return base;
}

}  // namespace

extern "C" {

void* __real_mmap(void*, size_t, int, int, int, off_t);
void* __wrap_mmap(void* address, size_t size, int protection, int flags, int fd, off_t offset) {
  return map_once(__real_mmap, address, size, protection, flags, fd, offset);
}

void* __real_mmap64(void*, size_t, int, int, int, off_t);
void* __wrap_mmap64(void* address, size_t size, int protection, int flags, int fd, off_t offset) {
  return map_once(__real_mmap64, address, size, protection, flags, fd, offset);
}

int __real_munmap(void*, size_t);
int __wrap_munmap(void* address, size_t size) {
  const std::lock_guard lock(mutex);
  const auto found = of_address().find(address);
  if (found == of_address().end()) return __real_munmap(address, size);
  if (--found->second.users != 0) return 0;
  of_address().erase(found);
  std::erase_if(of_file(), [address](const auto& entry) { return entry.second == address; });
  return __real_munmap(address, size);
}

}  // extern "C"
