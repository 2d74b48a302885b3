// SPDX-License-Identifier: MIT
#include "transport/psk.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>
#include <utility>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/text.hpp"
#include "base/unique_fd.hpp"

namespace framelane::transport {
namespace {

/// A line of the longest identity and key has 257 bytes; the rest is for comments.
constexpr std::size_t kMaxFileBytes = 4096;

/// Bytes that may hold a key, wiped at the end. The compiler can't leave explicit_bzero() out, as it may memset().
template <std::size_t size>
struct Secret {
  Secret() = default;
  Secret(const Secret&) = delete;
  Secret& operator=(const Secret&) = delete;
  ~Secret() { explicit_bzero(bytes.data(), bytes.size()); }

  std::array<char, size> bytes{};
};

using base::quoted;

tl::unexpected<Error> file_error(Code code, const std::string& path, const std::string& what) {
  return fail(code, "psk-file " + quoted(path) + what + "; make one with: echo \"lane:$(openssl rand -hex 32)\" > " +
                        quoted(path) + "; chmod 600 " + quoted(path));
}

tl::unexpected<Error> open_error(const std::string& path) {
  const std::string what = " can't be read: " + base::system_words(errno);
  if (errno == ENOENT || errno == ENOTDIR) return file_error(Code::kNotFound, path, what);
  if (errno == EACCES || errno == EPERM) return file_error(Code::kPermission, path, what);
  return file_error(Code::kSystem, path, what);
}

/// Of the open file, so that nothing can be put in its place after the look. An access list shows in the group's bits.
Result<void> check_rights(int fd, const std::string& path) {
  struct stat status {};
  if (fstat(fd, &status) != 0) return open_error(path);
  if (!S_ISREG(status.st_mode)) return file_error(Code::kInvalidArgument, path, " is no regular file");
  if (status.st_uid != geteuid() && status.st_uid != 0) {
    return file_error(Code::kPermission, path,
                      " belongs to user " + std::to_string(status.st_uid) + ", who could change it: it must be ours (" +
                          std::to_string(geteuid()) + ") or root's");
  }
  if ((status.st_mode & (S_IRWXG | S_IRWXO)) != 0)
    return file_error(Code::kPermission, path, " is open to others than its owner: chmod 600 " + quoted(path));
  return {};
}

/// What the file holds, within `room`.
Result<std::string_view> read_file(int fd, const std::string& path, std::span<char> room) {
  std::size_t size = 0;
  while (size < room.size()) {
    const ssize_t got = read(fd, room.data() + size, room.size() - size);
    if (got == 0) return std::string_view(room.data(), size);
    if (got > 0) {
      size += static_cast<std::size_t>(got);
    } else if (errno != EINTR) {
      return open_error(path);
    }
  }
  return file_error(Code::kInvalidArgument, path,
                    " is larger than " + std::to_string(kMaxFileBytes) + " bytes, which is no file of one key");
}

std::string_view without_end_spaces(std::string_view line) noexcept {
  while (!line.empty() && (line.back() == ' ' || line.back() == '\t' || line.back() == '\r')) line.remove_suffix(1);
  return line;
}

/// What a hexadecimal digit stands for.
std::optional<unsigned> digit_of(char c) noexcept {
  if (c >= '0' && c <= '9') return static_cast<unsigned>(c - '0');
  if (c >= 'a' && c <= 'f') return static_cast<unsigned>(c - 'a') + 10;
  if (c >= 'A' && c <= 'F') return static_cast<unsigned>(c - 'A') + 10;
  return std::nullopt;
}

Result<Psk> parse_line(std::string_view line) {
  const std::size_t colon = line.find(':');
  if (colon == std::string_view::npos)
    return fail(Code::kInvalidArgument, "there is no colon between identity and key");
  const std::string_view hex = line.substr(colon + 1);
  if (hex.size() % 2 != 0) return fail(Code::kInvalidArgument, "the key has an odd number of hexadecimal digits");
  Secret<Psk::kMaxKeyBytes> key;
  const std::size_t size = hex.size() / 2;
  if (size > key.bytes.size()) {
    return fail(Code::kInvalidArgument, "the key has " + std::to_string(size) + " bytes, and may have 16 to 64");
  }
  for (std::size_t i = 0; i < size; ++i) {
    const auto high = digit_of(hex[2 * i]);
    const auto low = digit_of(hex[2 * i + 1]);
    if (!high || !low) {
      return fail(Code::kInvalidArgument, "the key has something else than hexadecimal digits at its digit " +
                                              std::to_string(2 * i + (high ? 2 : 1)));
    }
    key.bytes[i] = static_cast<char>(*high << 4 | *low);
  }
  return Psk::create(line.substr(0, colon), std::as_bytes(std::span(key.bytes)).first(size));
}

Result<Psk> parse_file(std::string_view text, const std::string& path) {
  std::optional<Psk> found;
  for (std::size_t number = 1; !text.empty(); ++number) {
    const std::size_t end = text.find('\n');
    const std::string_view line = without_end_spaces(text.substr(0, end));
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    if (line.empty() || line.front() == '#') continue;
    const std::string where = ", line " + std::to_string(number) + ": ";
    if (found) return file_error(Code::kInvalidArgument, path, where + "there is a second key, and a lane has one");
    auto key = parse_line(line);
    if (!key) return file_error(key.error().code, path, where + key.error().text);
    found.emplace(*key);
  }
  if (!found) return file_error(Code::kInvalidArgument, path, ", line 1: there is no line identity:hex in it");
  return std::move(*found);
}

}  // namespace

Result<Psk> Psk::create(std::string_view identity, std::span<const std::byte> key) {
  const auto is_printable = [](char c) { return c >= 0x20 && c < 0x7f && c != ':'; };
  if (identity.empty() || identity.size() > kMaxIdentityBytes) {
    return fail(Code::kInvalidArgument,
                "the identity has " + std::to_string(identity.size()) + " bytes, and may have 1 to 128");
  }
  if (!std::all_of(identity.begin(), identity.end(), is_printable)) {
    return fail(Code::kInvalidArgument,
                "the identity \"" + base::printable(identity) + "\" isn't printable ASCII without a colon");
  }
  if (key.size() < kMinKeyBytes || key.size() > kMaxKeyBytes) {
    return fail(Code::kInvalidArgument, "the key has " + std::to_string(key.size()) + " bytes, and may have 16 to 64");
  }
  Psk psk;
  psk.identity_ = identity;
  std::copy(key.begin(), key.end(), psk.key_.begin());
  psk.size_ = key.size();
  return psk;
}

Psk::~Psk() { explicit_bzero(key_.data(), key_.size()); }

Result<Psk> read_psk(const std::string& path) {
  // A pipe must not make us wait here before the look at what it is.
  const base::UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK));
  if (!fd.valid()) return open_error(path);
  if (auto right = check_rights(fd.get(), path); !right) return tl::unexpected(std::move(right.error()));
  Secret<kMaxFileBytes + 1> room;
  const auto text = read_file(fd.get(), path, room.bytes);
  if (!text) return tl::unexpected(text.error());
  return parse_file(*text, path);
}

}  // namespace framelane::transport
