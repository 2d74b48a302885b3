// SPDX-License-Identifier: MIT
#include "memory/memory_room.hpp"

#include <algorithm>
#include <fstream>
#include <limits>
#include <optional>
#include <sstream>
#include <string_view>

namespace framelane::memory {
namespace {

constexpr std::uint64_t kUnlimited = std::numeric_limits<std::uint64_t>::max();

/// What the files of one cgroup version are called.
struct CgroupFiles {
  const char* mount;
  const char* limit;
  const char* usage;
  const char* inactive_cache;
  const char* active_cache;
};
constexpr CgroupFiles kVersion1{"/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes",
                                "total_inactive_file", "total_active_file"};
constexpr CgroupFiles kVersion2{"/sys/fs/cgroup", "memory.max", "memory.current", "inactive_file", "active_file"};

std::optional<std::uint64_t> read_number(const std::string& path) {
  std::ifstream file(path);
  std::uint64_t value = 0;
  if (file >> value) return value;  // "max", the word for no limit, fails here
  return std::nullopt;
}

/// The number after `key` in a file of "key number" lines.
std::uint64_t read_field(const std::string& path, std::string_view key) {
  std::ifstream file(path);
  std::string line;
  while (std::getline(file, line)) {
    std::istringstream words(line);
    std::string name;
    std::uint64_t value = 0;
    if (words >> name >> value && name == key) return value;
  }
  return 0;
}

std::uint64_t room_of(const std::string& directory, const CgroupFiles& files) {
  const auto limit = read_number(directory + "/" + files.limit);
  const auto usage = read_number(directory + "/" + files.usage);
  if (!limit || !usage) return kUnlimited;
  const std::string stat = directory + "/memory.stat";
  const std::uint64_t cache = read_field(stat, files.inactive_cache) + read_field(stat, files.active_cache);
  const std::uint64_t used = *usage - std::min(*usage, cache);
  return *limit - std::min(*limit, used);
}

/// The least room of a cgroup and all its parents. In a container the path may be the host's and not exist here; then
/// its parents don't either, and the mount itself is the container's group.
std::uint64_t room_up_from(const std::string& root, std::string path, const CgroupFiles& files) {
  std::uint64_t least = kUnlimited;
  while (true) {
    least = std::min(least, room_of(root + files.mount + path, files));
    const std::size_t slash = path.rfind('/');
    if (slash == std::string::npos) return least;
    path.resize(slash);
  }
}

/// Lines are "number:controllers:path"; version 2 has number 0 and no controllers.
std::uint64_t cgroup_room(const std::string& root) {
  std::ifstream file(root + "/proc/self/cgroup");
  std::uint64_t least = kUnlimited;
  std::string line;
  while (std::getline(file, line)) {
    const std::size_t first = line.find(':');
    const std::size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",";
    std::string path = line.substr(second + 1);
    if (path.find("..") != std::string::npos) path.clear();  // a group outside of our namespace
    if (controllers == ",,") {
      least = std::min(least, room_up_from(root, path, kVersion2));
    } else if (controllers.find(",memory,") != std::string::npos) {
      least = std::min(least, room_up_from(root, path, kVersion1));
    }
  }
  return least;
}

}  // namespace

std::uint64_t memory_room(const std::string& root) {
  const std::uint64_t available_kib = read_field(root + "/proc/meminfo", "MemAvailable:");
  const std::uint64_t machine = available_kib == 0 ? kUnlimited : available_kib * 1024;
  return std::min(machine, cgroup_room(root));
}

}  // namespace framelane::memory
