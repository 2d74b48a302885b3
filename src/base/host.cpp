// SPDX-License-Identifier: MIT
#include "base/host.hpp"

#include <cstddef>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/unique_fd.hpp"

namespace framelane::base {
namespace {

int digit_of(char c) noexcept {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return -1;
}

std::array<std::uint8_t, 16> read_boot_id() noexcept {
  const UniqueFd file(open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC));
  char text[64];
  const ssize_t size = file.valid() ? read(file.get(), text, sizeof text) : 0;
  std::array<std::uint8_t, 16> id{};
  std::size_t digits = 0;
  for (ssize_t i = 0; i < size && digits < 2 * id.size(); ++i) {
    const int digit = digit_of(text[i]);
    if (digit < 0) continue;  // the dashes
    id[digits / 2] = static_cast<std::uint8_t>(id[digits / 2] << 4 | digit);
    ++digits;
  }
  return digits == 2 * id.size() ? id : std::array<std::uint8_t, 16>{};
}

}  // namespace

std::array<std::uint8_t, 16> boot_id() noexcept {
  static const std::array<std::uint8_t, 16> id = read_boot_id();
  return id;
}

std::uint64_t time_namespace() noexcept {
  struct stat status {};
  return stat("/proc/self/ns/time", &status) == 0 ? status.st_ino : 0;
}

}  // namespace framelane::base
