// SPDX-License-Identifier: MIT
#include <csignal>
#include <string_view>

#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "c_lanes.hpp"

namespace framelane::capi_test {

ProducerProcess::ProducerProcess(const char* lane) {
  int fds[2];
  if (pipe(fds) != 0) std::abort();
  pid_ = fork();
  if (pid_ == 0) {  // nothing but exec: other threads may hold locks
    dup2(fds[1], STDOUT_FILENO);
    close(fds[0]);
    close(fds[1]);
    execl("/proc/self/exe", "capi_test", "--produce", lane, nullptr);
    _exit(127);
  }
  close(fds[1]);
  from_ = fds[0];
}

bool ProducerProcess::has_published() const {
  pollfd ready{from_, POLLIN, 0};
  char byte = 0;
  return poll(&ready, 1, 30'000) == 1 && read(from_, &byte, 1) == 1;
}

void ProducerProcess::kill_now() {
  if (pid_ <= 0) return;
  kill(pid_, SIGKILL);
  waitpid(pid_, nullptr, 0);
  close(from_);
  pid_ = -1;
}

int produce_until_killed(const char* lane) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  alarm(60);
  framelane_producer* producer = nullptr;
  framelane_producer_settings settings;
  framelane_producer_settings_init(&settings, sizeof settings);
  settings.history = 4;
  if (framelane_producer_open(lane, &settings, &producer) != FRAMELANE_OK) return 1;
  const std::string frame(5000, 'x');
  if (framelane_producer_publish_copy(producer, frame.data(), frame.size(), nullptr, nullptr, nullptr) != FRAMELANE_OK)
    return 1;
  if (write(STDOUT_FILENO, "!", 1) != 1) return 1;
  for (;;) pause();
}

}  // namespace framelane::capi_test

int main(int argc, char** argv) {
  if (argc == 3 && std::string_view(argv[1]) == "--produce") {
    return framelane::capi_test::produce_until_killed(argv[2]);
  }
  ::testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
