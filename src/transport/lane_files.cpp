// SPDX-License-Identifier: MIT
#include "transport/lane_files.hpp"

#include <array>
#include <cerrno>
#include <cstring>
#include <mutex>
#include <set>
#include <string_view>
#include <tuple>
#include <utility>

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/text.hpp"
#include "transport/per_process.hpp"

// Linux 6.16; older C libraries don't name it.
#ifndef SO_PASSRIGHTS
#define SO_PASSRIGHTS 83
#endif

namespace framelane::transport {
namespace {

constexpr int kBacklog = 128;
constexpr int kLockAttempts = 16;

/// The lanes that this process has claimed. A second claim in the process must not even open the lock file: closing it
/// again would end the first one's record lock.
struct Registry {
  using Key = std::tuple<dev_t, ino_t, std::string>;  // directory, name
  std::mutex mutex;
  std::set<Key> claimed;
};

using base::quoted;

/// An error for `what` that failed with errno.
tl::unexpected<Error> system_error(const std::string& what) {
  switch (errno) {
    case EACCES:
    case EPERM:
    case EROFS:
      return fail(Code::kPermission,
                  what + ": " + base::system_words(errno) +
                      "; give this user access to it, or set FRAMELANE_DIR to a directory of its own");
    case ENOENT:
      return fail(Code::kNotFound, what + ": " + base::system_words(errno));
    default:
      return fail(Code::kSystem, what + ": " + base::system_words(errno));
  }
}

std::string without_trailing_slashes(std::string path) {
  // "link/" would follow a symbolic link in spite of O_NOFOLLOW.
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  return path;
}

Result<void> check_status(const std::string& directory, const struct stat& status) {
  const std::string what = "the lane directory " + quoted(directory);
  const std::string remedy = "; set FRAMELANE_DIR to a directory of your own";
  if (S_ISLNK(status.st_mode))
    return fail(Code::kPermission, what + " is a symbolic link, which others could turn" + remedy);
  if (!S_ISDIR(status.st_mode)) return fail(Code::kPermission, what + " is not a directory" + remedy);
  if (status.st_uid != geteuid()) {
    return fail(Code::kPermission, what + " belongs to user " + std::to_string(status.st_uid) + ", not to user " +
                                       std::to_string(geteuid()) + " who runs this" + remedy);
  }
  if ((status.st_mode & (S_IWGRP | S_IWOTH)) != 0) {
    return fail(Code::kPermission, what + " can be written by other users; run: chmod 700 " + quoted(directory));
  }
  return {};
}

/// Opens the directory itself (O_PATH, no link followed) and checks it.
Result<base::UniqueFd> open_directory(const std::string& directory) {
  base::UniqueFd fd(open(directory.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC));
  if (!fd.valid()) return system_error("cannot open the lane directory " + quoted(directory));
  struct stat status {};
  if (fstat(fd.get(), &status) != 0) return system_error("cannot examine the lane directory " + quoted(directory));
  if (auto checked = check_status(directory, status); !checked) return tl::unexpected(std::move(checked.error()));
  return fd;
}

Result<base::UniqueFd> make_directory(const std::string& directory) {
  if (mkdir(directory.c_str(), 0700) != 0 && errno != EEXIST) {
    if (errno == ENOENT) {
      return fail(Code::kNotFound, "cannot create the lane directory " + quoted(directory) +
                                       ": the directory above it does not exist; create it or set FRAMELANE_DIR");
    }
    return system_error("cannot create the lane directory " + quoted(directory));
  }
  return open_directory(directory);
}

/// First line of a small file, "" when it can't be read.
std::string first_line(int fd) {
  std::array<char, 128> buffer{};
  const ssize_t size = pread(fd, buffer.data(), buffer.size(), 0);
  const std::string_view text(buffer.data(), size > 0 ? static_cast<std::size_t>(size) : 0);
  return std::string(text.substr(0, text.find('\n')));
}

std::string process_name(const std::string& pid) {
  const base::UniqueFd fd(open(("/proc/" + pid + "/comm").c_str(), O_RDONLY | O_CLOEXEC));
  return fd.valid() ? first_line(fd.get()) : std::string();
}

/// "process 1234 (gst-launch-1.0)": who holds the lock, as the kernel says; "" when nobody does any more.
std::string lock_holder(int lock) {
  struct flock query {};
  query.l_type = F_WRLCK;
  query.l_whence = SEEK_SET;
  if (fcntl(lock, F_GETLK, &query) != 0) return "another process";
  if (query.l_type == F_UNLCK) return {};
  // From another pid namespace the kernel gives no pid; then what the holder wrote about itself has to do.
  if (query.l_pid <= 0) return "process " + first_line(lock) + " of another container";
  const std::string pid = std::to_string(query.l_pid);
  const std::string name = process_name(pid);
  return "process " + pid + (name.empty() ? std::string() : " (" + name + ')');
}

tl::unexpected<Error> in_use(const std::string& path, const std::string& holder) {
  return fail(Code::kInUse,
              "the lane " + quoted(path) + " is in use by " + holder + ": end that one or choose another lane name");
}

/// For people who look at the file, and for lock_holder(). Not needed for the lock, so failures don't matter.
void write_holder(int lock) {
  const std::string text = std::to_string(getpid()) + ' ' + process_name("self") + '\n';
  rlimit limit{};
  // A write beyond the limit would kill us with SIGXFSZ.
  if (getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur < text.size()) return;
  if (ftruncate(lock, 0) != 0) return;
  [[maybe_unused]] const ssize_t written = pwrite(lock, text.data(), text.size(), 0);
}

bool same_file(const struct stat& a, const struct stat& b) noexcept {
  return a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

enum class LockOutcome { kLocked, kHeld, kReplaced };

/// Tries the lock once. kReplaced: somebody removed the file before we had it, so another process may lock a new one.
Result<LockOutcome> try_lock(int directory, const std::string& file, int lock) {
  struct stat ours {};
  if (fstat(lock, &ours) != 0) return system_error("cannot examine the lock file " + quoted(file));
  if (!S_ISREG(ours.st_mode)) {
    return fail(Code::kInvalidArgument, "the lock file " + quoted(file) + " is not a regular file: remove it");
  }
  struct flock request {};
  request.l_type = F_WRLCK;
  request.l_whence = SEEK_SET;
  if (fcntl(lock, F_SETLK, &request) != 0) {
    if (errno == EAGAIN || errno == EACCES) return LockOutcome::kHeld;
    return system_error("cannot lock the file " + quoted(file));
  }
  struct stat there {};
  const bool same = fstatat(directory, file.c_str(), &there, AT_SYMLINK_NOFOLLOW) == 0 && same_file(ours, there);
  return same ? LockOutcome::kLocked : LockOutcome::kReplaced;
}

Registry::Key registry_key(int directory, const std::string& name) {
  struct stat status {};
  fstat(directory, &status);
  return {status.st_dev, status.st_ino, name};
}

Result<base::UniqueFd> open_listener() {
  base::UniqueFd fd(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd.valid()) return fail(Code::kSystem, "cannot create a socket: " + base::system_words(errno));
  // bind() gives the file this mode (less the umask), so that it is never open to others, not even for a moment.
  if (fchmod(fd.get(), 0600) != 0)
    return fail(Code::kSystem, "cannot set the mode of a socket: " + base::system_words(errno));
  // No consumer sends descriptors. Where the kernel can refuse them for us (accepted sockets inherit this), they don't
  // even cost us a close(), which somebody else's file could make slow.
  const int none = 0;
  [[maybe_unused]] const int rc = setsockopt(fd.get(), SOL_SOCKET, SO_PASSRIGHTS, &none, sizeof none);
  return fd;
}

// Where no lane ever was, a socket may be another program's. (Where one was, a child that a dead producer forked may
// still listen.)
bool somebody_listens(const sockaddr_un& address) {
  const base::UniqueFd probe(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!probe.valid() || connect(probe.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0)
    return true;
  return errno != ECONNREFUSED && errno != ENOENT;
}

}  // namespace

Result<sockaddr_un> unix_address(const std::string& path) {
  sockaddr_un address{};
  static_assert(sizeof address.sun_path == kMaxSocketPath + 1);
  if (path.size() > kMaxSocketPath) {
    return fail(Code::kTooLarge, "the socket path " + quoted(path) + " has " + std::to_string(path.size()) +
                                     " bytes, and the system allows " + std::to_string(kMaxSocketPath) +
                                     ": set FRAMELANE_DIR to a shorter directory");
  }
  if (path.empty() || path.find('\0') != std::string::npos)
    return fail(Code::kInvalidArgument, "a socket path must be a file name");
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.data(), path.size());
  return address;
}

Result<void> check_directory(const std::string& directory) {
  auto opened = open_directory(without_trailing_slashes(directory));
  if (!opened) return tl::unexpected(std::move(opened.error()));
  return {};
}

Result<void> prepare_directory(const std::string& directory) {
  auto opened = make_directory(without_trailing_slashes(directory));
  if (!opened) return tl::unexpected(std::move(opened.error()));
  return {};
}

Result<LaneFiles> LaneFiles::claim(const std::string& directory, const std::string& name) {
  const std::string parent = without_trailing_slashes(directory);
  if (name.empty() || name.find_first_of(std::string_view("/\0", 2)) != std::string::npos || name[0] == '.') {
    return fail(Code::kInvalidArgument, "a lane name must be a plain file name, unlike " + quoted(name));
  }
  LaneFiles files;
  files.name_ = name;
  files.socket_path_ = parent + '/' + name;
  auto address = unix_address(files.socket_path_);
  if (!address) return tl::unexpected(std::move(address.error()));
  files.address_ = *address;
  auto opened = make_directory(parent);
  if (!opened) return tl::unexpected(std::move(opened.error()));
  files.directory_ = std::move(*opened);
  for (const auto step : {&LaneFiles::lock, &LaneFiles::replace_stale_socket, &LaneFiles::bind_and_listen}) {
    if (auto done = (files.*step)(); !done) return tl::unexpected(std::move(done.error()));
  }
  return files;
}

Result<void> LaneFiles::lock() {
  auto& registry = per_process<Registry>();
  {
    const std::lock_guard guard(registry.mutex);
    if (!registry.claimed.insert(registry_key(directory_.get(), name_)).second) {
      return in_use(socket_path_, "this process (" + std::to_string(getpid()) + ' ' + process_name("self") + ')');
    }
    pid_ = getpid();  // from here on release() takes it out of the registry
  }
  const std::string file = name_ + ".lock";
  for (int attempt = 0; attempt < kLockAttempts; ++attempt) {
    base::UniqueFd lock(
        openat(directory_.get(), file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600));
    if (!lock.valid()) return system_error("cannot open the lock file " + quoted(socket_path_ + ".lock"));
    const auto outcome = try_lock(directory_.get(), file, lock.get());
    if (!outcome) return tl::unexpected(outcome.error());
    if (*outcome == LockOutcome::kLocked) {
      struct stat before {};
      claimed_before_ = fstat(lock.get(), &before) == 0 && before.st_size != 0;
      write_holder(lock.get());
      lock_ = std::move(lock);
      return {};
    }
    if (*outcome == LockOutcome::kReplaced) continue;
    if (const std::string holder = lock_holder(lock.get()); !holder.empty()) return in_use(socket_path_, holder);
  }
  return in_use(socket_path_, "processes that come and go");
}

Result<void> LaneFiles::replace_stale_socket() {
  struct stat there {};
  if (fstatat(directory_.get(), name_.c_str(), &there, AT_SYMLINK_NOFOLLOW) != 0) {
    if (errno == ENOENT) return {};
    return system_error("cannot examine " + quoted(socket_path_));
  }
  if (!S_ISSOCK(there.st_mode)) {
    return fail(Code::kInvalidArgument,
                quoted(socket_path_) + " exists and is not a socket: remove it or choose another lane name");
  }
  if (!claimed_before_ && somebody_listens(address_)) {
    return fail(Code::kInUse,
                "another program listens on " + quoted(socket_path_) + ": choose another lane name or directory");
  }
  if (unlinkat(directory_.get(), name_.c_str(), 0) == 0 || errno == ENOENT) return {};
  return system_error("cannot remove the stale socket " + quoted(socket_path_));
}

SocketFile::SocketFile(int directory, std::string path) noexcept : path_(std::move(path)) {
  struct stat there {};
  if (fstatat(directory, path_.c_str(), &there, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISSOCK(there.st_mode)) return;
  pid_ = getpid();
  device_ = there.st_dev;
  inode_ = there.st_ino;
}

void SocketFile::remove(int directory) noexcept {
  struct stat there {};
  if (std::exchange(pid_, 0) != getpid()) return;
  if (fstatat(directory, path_.c_str(), &there, AT_SYMLINK_NOFOLLOW) != 0) return;
  if (there.st_dev == device_ && there.st_ino == inode_) unlinkat(directory, path_.c_str(), 0);
}

Result<void> LaneFiles::bind_and_listen() {
  auto listener = open_listener();
  if (!listener) return tl::unexpected(std::move(listener.error()));
  if (bind(listener->get(), reinterpret_cast<const sockaddr*>(&address_), sizeof address_) != 0) {
    return system_error("cannot create the socket " + quoted(socket_path_));
  }
  socket_ = SocketFile(directory_.get(), name_);
  if (!socket_) {
    return fail(Code::kSystem,
                "the lane directory was moved while the socket " + quoted(socket_path_) + " was created");
  }
  if (listen(listener->get(), kBacklog) != 0) return system_error("cannot listen on " + quoted(socket_path_));
  listener_ = std::move(*listener);
  return {};
}

LaneFiles::LaneFiles(LaneFiles&& other) noexcept
    : directory_(std::move(other.directory_)),
      lock_(std::move(other.lock_)),
      listener_(std::move(other.listener_)),
      name_(std::move(other.name_)),
      socket_path_(std::move(other.socket_path_)),
      pid_(std::exchange(other.pid_, 0)),
      socket_(std::move(other.socket_)) {}

LaneFiles& LaneFiles::operator=(LaneFiles&& other) noexcept {
  if (this == &other) return *this;
  release();
  directory_ = std::move(other.directory_);
  lock_ = std::move(other.lock_);
  listener_ = std::move(other.listener_);
  name_ = std::move(other.name_);
  socket_path_ = std::move(other.socket_path_);
  pid_ = std::exchange(other.pid_, 0);
  socket_ = std::move(other.socket_);
  return *this;
}

void LaneFiles::release() noexcept {
  const bool ours = pid_ == getpid();
  // While we still have the lock: afterwards another process could bind between the look and the unlink.
  if (ours) socket_.remove(directory_.get());
  listener_.reset();
  if (ours && lock_.valid()) [[maybe_unused]]
    const int rc = ftruncate(lock_.get(), 0);
  lock_.reset();
  if (ours) {
    auto& registry = per_process<Registry>();
    const std::lock_guard guard(registry.mutex);
    registry.claimed.erase(registry_key(directory_.get(), name_));
  }
  directory_.reset();
  pid_ = 0;
}

}  // namespace framelane::transport
