// SPDX-License-Identifier: MIT
#include "cli/byte_source.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <cstring>
#include <utility>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/text.hpp"
#include "cli/byte_pieces.hpp"
#include "cli/interruption.hpp"

namespace framelane::cli {

Result<ByteSource> ByteSource::open(const std::string& path, const Interruption* interruption) {
  const bool standard = path == "-";
  const std::string name = standard ? "standard input" : base::quoted(path);
  base::UniqueFd fd(standard ? fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3)
                             : open_patiently(path, O_RDONLY | O_CLOEXEC, interruption));
  if (!fd.valid()) return cannot("read", name, errno);
  struct stat status {};
  if (fstat(fd.get(), &status) != 0) return cannot("read", name, errno);
  if (S_ISDIR(status.st_mode)) return cannot("read", name, EISDIR);
  if (S_ISFIFO(status.st_mode)) fcntl(fd.get(), F_SETPIPE_SZ, kPipeBytes);
  return ByteSource(std::move(fd), name, interruption);
}

ByteSource::ByteSource(base::UniqueFd fd, std::string name, const Interruption* interruption)
    : fd_(std::move(fd)), name_(std::move(name)), interruption_(interruption) {
  const off_t at = lseek(fd_.get(), 0, SEEK_CUR);
  if (at >= 0) start_ = static_cast<std::uint64_t>(at);
}

// One system call; 0 at the end.
Result<std::uint64_t> ByteSource::read_some(std::span<iovec> pieces) {
  for (;;) {
    if (interruption_ != nullptr && interruption_->came()) return fail(Code::kInterrupted);
    const int count = static_cast<int>(std::min<std::size_t>(pieces.size(), IOV_MAX));
    const ssize_t got = readv(fd_.get(), pieces.data(), count);
    if (got >= 0) return static_cast<std::uint64_t>(got);
    if (errno != EINTR) return cannot("read", name_, errno);
  }
}

Result<std::uint64_t> ByteSource::read_pieces(std::span<iovec> pieces) {
  std::uint64_t done = 0;
  while (!ahead_.empty() && !pieces.empty()) {
    const std::size_t taken = std::min(ahead_.size(), pieces.front().iov_len);
    std::memcpy(pieces.front().iov_base, ahead_.data(), taken);
    ahead_.erase(ahead_.begin(), ahead_.begin() + static_cast<std::ptrdiff_t>(taken));
    pieces = pieces_after(pieces, taken);
    done += taken;
  }
  pieces = pieces_after(pieces, 0);
  while (!pieces.empty()) {
    auto got = read_some(pieces);
    if (!got) return got;
    if (*got == 0) break;
    pieces = pieces_after(pieces, static_cast<std::size_t>(*got));
    done += *got;
  }
  position_ += done;
  return done;
}

Result<std::uint64_t> ByteSource::read(std::span<std::byte> into) {
  iovec piece{into.data(), into.size()};
  return read_pieces({&piece, 1});
}

Result<std::span<const std::byte>> ByteSource::peek(std::size_t most) {
  while (ahead_.size() < most) {
    const std::size_t had = ahead_.size();
    ahead_.resize(most);
    iovec piece{ahead_.data() + had, most - had};
    const auto got = read_some({&piece, 1});
    ahead_.resize(had + static_cast<std::size_t>(got.value_or(0)));
    if (!got) return tl::unexpected(got.error());
    if (*got == 0) break;
  }
  return std::span<const std::byte>(ahead_).first(std::min(most, ahead_.size()));
}

Result<std::uint64_t> ByteSource::skip(std::uint64_t count) {
  std::array<std::byte, 16384> waste;
  std::uint64_t done = 0;
  while (done < count) {
    const std::size_t now = static_cast<std::size_t>(std::min<std::uint64_t>(count - done, waste.size()));
    const auto got = read(std::span(waste).first(now));
    if (!got) return got;
    done += *got;
    if (*got < now) break;
  }
  return done;
}

Result<void> ByteSource::rewind(std::uint64_t position) {
  if (!start_ || lseek(fd_.get(), static_cast<off_t>(*start_ + position), SEEK_SET) < 0) {
    return fail(Code::kUnsupported, name_ + " can't be read again from its start: it is a pipe or a terminal");
  }
  ahead_.clear();
  position_ = position;
  return {};
}

}  // namespace framelane::cli
