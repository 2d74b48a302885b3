// SPDX-License-Identifier: MIT
#include "lane/profile.hpp"

#include <array>
#include <cstdlib>

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/unique_fd.hpp"

namespace framelane::lane {
namespace {

constexpr std::size_t kMostBytes = 512;  // a host's name has 64 at most

/// A program with more rights than its user doesn't go by that user's environment. Empty: there is none.
std::string profile_path() {
  constexpr const char* kFile = "/framelane/transports.profile";
  const char* const cache = ::secure_getenv("XDG_CACHE_HOME");
  if (cache != nullptr && *cache == '/') return std::string(cache) + kFile;
  const char* const home = ::secure_getenv("HOME");
  return home != nullptr && *home == '/' ? std::string(home) + "/.cache" + kFile : std::string();
}

bool is_ours(int fd) noexcept {
  struct stat status {};
  return fstat(fd, &status) == 0 && S_ISREG(status.st_mode) && status.st_uid == geteuid() &&
         (status.st_mode & (S_IWGRP | S_IWOTH)) == 0;
}

}  // namespace

std::optional<Transport> faster_stream_in(std::string_view text, std::string_view host) {
  const std::string start = "framelane-transports 1 " + std::string(host) + " ";
  if (text == start + "uds tcp\n") return Transport::kUds;
  if (text == start + "tcp uds\n") return Transport::kTcp;
  return std::nullopt;
}

std::optional<Transport> faster_stream() {
  const std::string path = profile_path();
  if (path.empty()) return std::nullopt;
  const base::UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));  // a FIFO must not keep us
  if (!fd.valid() || !is_ours(fd.get())) return std::nullopt;
  std::array<char, kMostBytes> text;
  const ssize_t size = read(fd.get(), text.data(), text.size());
  utsname system{};
  if (size <= 0 || uname(&system) != 0) return std::nullopt;
  return faster_stream_in({text.data(), static_cast<std::size_t>(size)}, system.nodename);
}

}  // namespace framelane::lane
