// SPDX-License-Identifier: MIT
#include "cli/byte_sink.hpp"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <climits>
#include <utility>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.hpp"
#include "base/text.hpp"
#include "cli/byte_pieces.hpp"
#include "cli/interruption.hpp"

namespace framelane::cli {
namespace {

constexpr auto kGrace = std::chrono::seconds(1);

bool cut(int fd, std::uint64_t size) {
  int cut = 0;
  do {
    cut = ftruncate(fd, static_cast<off_t>(size));
  } while (cut != 0 && errno == EINTR);
  return cut == 0;
}

}  // namespace

Result<ByteSink> ByteSink::open(const std::string& path, const Interruption* interruption) {
  const bool standard = path == "-";
  const std::string name = standard ? "standard output" : base::quoted(path);
  base::UniqueFd fd(standard ? fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3)
                             : open_patiently(path, O_WRONLY | O_CREAT | O_CLOEXEC, interruption));
  if (!fd.valid()) return cannot("write", name, errno);
  struct stat status {};
  if (fstat(fd.get(), &status) == 0 && S_ISFIFO(status.st_mode)) fcntl(fd.get(), F_SETPIPE_SZ, kPipeBytes);
  ByteSink sink(std::move(fd), name, interruption);
  sink.emptied_ = standard || !S_ISREG(status.st_mode);
  return sink;
}

ByteSink::ByteSink(base::UniqueFd fd, std::string name, const Interruption* interruption)
    : fd_(std::move(fd)), name_(std::move(name)), interruption_(interruption) {
  struct stat status {};
  const int flags = fcntl(fd_.get(), F_GETFL);
  const off_t at = lseek(fd_.get(), 0, SEEK_CUR);
  // Under O_APPEND even pwrite() writes at the end.
  const bool ours = flags >= 0 && (flags & O_APPEND) == 0 && at >= 0;
  if (ours && fstat(fd_.get(), &status) == 0 && S_ISREG(status.st_mode)) start_ = static_cast<std::uint64_t>(at);
}

tl::unexpected<Error> ByteSink::cannot_write(int error) const {
  if (error == EPIPE) return fail(Code::kPeerLost, "whoever read " + name_ + " has closed it");
  return fail(Code::kSystem, "cannot write " + name_ + ": " + base::system_words(error));
}

bool ByteSink::gave_up() {
  if (interruption_ == nullptr || !interruption_->came()) return false;
  if (give_up_ns_ == 0) give_up_ns_ = base::deadline_after(kGrace);
  return base::monotonic_ns() >= give_up_ns_;
}

// Whoever opens a file may still find that it has nothing to write: then the file stays as it was.
Result<void> ByteSink::empty_first() {
  if (!emptied_ && !cut(fd_.get(), 0)) return cannot_write(errno);
  emptied_ = true;
  return {};
}

Result<void> ByteSink::write_pieces(std::span<iovec> pieces) {
  if (auto emptied = empty_first(); !emptied) return emptied;
  pieces = pieces_after(pieces, 0);
  while (!pieces.empty()) {
    if (gave_up()) return fail(Code::kInterrupted, "interrupted while nobody read " + name_);
    const ssize_t put =
        writev(fd_.get(), pieces.data(), static_cast<int>(std::min<std::size_t>(pieces.size(), IOV_MAX)));
    if (put < 0 && errno != EINTR) return cannot_write(errno);
    const std::size_t written = put < 0 ? 0 : static_cast<std::size_t>(put);
    position_ += written;
    pieces = pieces_after(pieces, written);
  }
  return {};
}

Result<void> ByteSink::write(std::span<const std::byte> bytes) {
  iovec piece{const_cast<std::byte*>(bytes.data()), bytes.size()};  // NOLINT: writev only reads it
  return write_pieces({&piece, 1});
}

Result<void> ByteSink::patch(std::uint64_t offset, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t put = pwrite(fd_.get(), bytes.data(), bytes.size(), static_cast<off_t>(start_.value_or(0) + offset));
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0) return cannot_write(put < 0 ? errno : ENOSPC);
    bytes = bytes.subspan(static_cast<std::size_t>(put));
    offset += static_cast<std::uint64_t>(put);
  }
  return {};
}

Result<void> ByteSink::take_back(std::uint64_t position) {
  if (!start_ || position >= position_) return {};
  const std::uint64_t end = *start_ + position;
  struct stat status {};
  // What stood behind our bytes in the file before isn't ours to cut.
  const bool last = fstat(fd_.get(), &status) == 0 && static_cast<std::uint64_t>(status.st_size) == *start_ + position_;
  if (last && !cut(fd_.get(), end)) return cannot_write(errno);
  if (lseek(fd_.get(), static_cast<off_t>(end), SEEK_SET) < 0) return cannot_write(errno);
  position_ = position;
  return {};
}

Result<void> ByteSink::close() {
  if (fd_.valid()) {
    if (auto emptied = empty_first(); !emptied) return emptied;
  }
  const int fd = fd_.release();
  if (fd >= 0 && ::close(fd) != 0 && errno != EINTR) return cannot_write(errno);
  return {};
}

}  // namespace framelane::cli
