// SPDX-License-Identifier: MIT
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <sys/types.h>

#include "base/unique_fd.hpp"

// Other processes for tests. A child is this test program started anew (never a bare fork: threads of the library may
// hold locks), in a role that the test file registers by name. It is killed and reaped when its Child goes, ends by an
// alarm if everything else fails, and dies with the test.
namespace framelane::lane_test {

/// One text message at a time, both ways.
class Channel {
 public:
  explicit Channel(base::UniqueFd fd) noexcept : fd_(std::move(fd)) {}
  void send(const std::string& text) const;
  /// Empty when the other side is gone or says nothing for 30 s.
  [[nodiscard]] std::optional<std::string> receive() const;

 private:
  base::UniqueFd fd_;
};

using Arguments = std::vector<std::string>;
using Role = std::function<int(Channel& parent, const Arguments& arguments)>;

/// At namespace scope: makes a role known.
struct RoleOf {
  RoleOf(const std::string& name, Role role);
};

class Child {
 public:
  explicit Child(const std::string& role, const Arguments& arguments = {});
  ~Child();
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  [[nodiscard]] pid_t pid() const noexcept { return pid_; }
  [[nodiscard]] Channel& channel() noexcept { return channel_; }
  [[nodiscard]] std::string receive() { return channel_.receive().value_or("(nothing)"); }

  void stop();  // SIGSTOP, and waits until it stands still
  void go_on();
  void kill_now();  // SIGKILL, and reaps
  /// Its exit status, or minus the signal that ended it; empty when it doesn't end within 30 s.
  [[nodiscard]] std::optional<int> wait();

 private:
  pid_t pid_ = -1;
  Channel channel_;
};

/// Reaps a process that isn't a Child but became ours (a grandchild, if this process is a subreaper).
void kill_and_reap(pid_t pid);

/// main() of a test program with roles.
int run_tests_or_role(int argc, char** argv);

}  // namespace framelane::lane_test
