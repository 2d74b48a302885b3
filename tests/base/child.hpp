// SPDX-License-Identifier: MIT
#pragma once

#include <chrono>
#include <thread>

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

namespace framelane::test {

/// Runs `body` in a forked child and returns its exit status, -signal when a signal ended it, -1000 when it had to be
/// killed after `limit`. The child leaves with _exit, so that nothing of the test runner runs twice.
template <class Body>
int in_child(Body body, std::chrono::seconds limit = std::chrono::seconds(30)) {
  const pid_t pid = fork();
  if (pid == 0) _exit(body());
  if (pid < 0) return -1001;
  const auto end = std::chrono::steady_clock::now() + limit;
  int status = 0;
  while (waitpid(pid, &status, WNOHANG) == 0) {
    if (std::chrono::steady_clock::now() > end) {
      kill(pid, SIGKILL);
      waitpid(pid, &status, 0);
      return -1000;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
}

}  // namespace framelane::test
