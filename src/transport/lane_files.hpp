// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <string>

#include <sys/types.h>
#include <sys/un.h>

#include "framelane/base/result.hpp"

#include "base/unique_fd.hpp"

namespace framelane::transport {

/// Bytes that a socket path may have on Linux.
inline constexpr std::size_t kMaxSocketPath = 107;

/// The address of a socket's path. Errors: kTooLarge (names path and length), kInvalidArgument (no file's name).
[[nodiscard]] Result<sockaddr_un> unix_address(const std::string& path);

/// Checks that a lane's directory is safe: a directory and no symlink, ours, writable by nobody else.
/// Errors: kNotFound (isn't there), kPermission (the text says what is wrong and what to do), kSystem.
[[nodiscard]] Result<void> check_directory(const std::string& directory);

/// The same, and creates the last component (mode 0700) if it isn't there.
/// Errors: those of check_directory(); kNotFound means that its parent isn't there.
[[nodiscard]] Result<void> prepare_directory(const std::string& directory);

/// A socket's file: removed only by the process that bound it, and only while it is still the one that was bound.
///
/// Threads: one at a time.
class SocketFile {
 public:
  SocketFile() = default;
  /// Just bound, at `path`, seen from `directory` (AT_FDCWD: a whole path, or from where the process stands).
  SocketFile(int directory, std::string path) noexcept;
  /// A socket was there.
  [[nodiscard]] explicit operator bool() const noexcept { return pid_ != 0; }
  /// `directory` as above.
  void remove(int directory) noexcept;

 private:
  std::string path_;
  pid_t pid_ = 0;  // of the process that bound it; 0 = nothing to remove
  dev_t device_ = 0;
  ino_t inode_ = 0;
};

/// A producer's claim to a lane: NAME.lock (which stays) and the listening socket NAME.
///
/// The lock is a record lock, because a flock would live on in a forked child when its owner is killed. Record locks
/// end when *any* descriptor of the file is closed in the owning process: nothing else may open NAME.lock there. A
/// registry of the process keeps two claims of one process apart.
///
/// Threads: claim() from any thread; an object from one thread at a time. A forked child may destroy its copy: that
///          removes nothing and unlocks nothing.
class LaneFiles {
 public:
  /// Prepares the directory, takes the lock and listens on DIRECTORY/NAME (mode 0600). A socket that lies there is
  /// stale, because we have the lock, and is replaced.
  /// Errors: kInUse (the text names pid and name of the process that has the lane), kTooLarge (path of more than
  /// kMaxSocketPath bytes), kInvalidArgument (something that isn't a socket lies there, or a name with '/'),
  /// kNotFound and kPermission (see prepare_directory()), kSystem.
  [[nodiscard]] static Result<LaneFiles> claim(const std::string& directory, const std::string& name);

  LaneFiles(LaneFiles&& other) noexcept;
  LaneFiles& operator=(LaneFiles&& other) noexcept;
  LaneFiles(const LaneFiles&) = delete;
  LaneFiles& operator=(const LaneFiles&) = delete;
  ~LaneFiles() { release(); }

  /// The listening SOCK_SEQPACKET socket, non-blocking; -1 after release().
  [[nodiscard]] int listener() const noexcept { return listener_.get(); }
  [[nodiscard]] const std::string& socket_path() const noexcept { return socket_path_; }

  /// Removes the socket, if it is still the one that this process bound, and gives the lock back.
  void release() noexcept;

 private:
  LaneFiles() = default;
  [[nodiscard]] Result<void> lock();
  [[nodiscard]] Result<void> replace_stale_socket();
  [[nodiscard]] Result<void> bind_and_listen();

  base::UniqueFd directory_;  // O_PATH; what was checked is what is used
  base::UniqueFd lock_;
  base::UniqueFd listener_;
  std::string name_;
  std::string socket_path_;
  sockaddr_un address_{};  // of socket_path_
  pid_t pid_ = 0;          // of the process that claimed; 0 = nothing claimed
  SocketFile socket_;
  bool claimed_before_ = false;  // the lock file names an earlier producer
};

}  // namespace framelane::transport
