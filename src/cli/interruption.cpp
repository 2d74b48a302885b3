// SPDX-License-Identifier: MIT
#include "cli/interruption.hpp"

#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <utility>

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "cli/command.hpp"

namespace framelane::cli {
namespace {

constexpr int kNudge = SIGUSR2;
constexpr int kNudgeEvery = 20;  // ms

// Without SA_RESTART, so that a blocking call returns.
void handle_nudges() {
  struct sigaction action {};
  action.sa_handler = [](int) {};
  sigemptyset(&action.sa_mask);
  sigaction(kNudge, &action, nullptr);
}

}  // namespace

Interruption::Interruption() : stop_(eventfd(0, EFD_CLOEXEC)), worker_(pthread_self()) {
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);
  handle_nudges();
  thread_ = std::thread([this] { watch(); });
}

Interruption::~Interruption() {
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = write(stop_.get(), &one, sizeof one);
  thread_.join();
}

void Interruption::on_interrupt(std::function<void()> callback) {
  const std::lock_guard lock(mutex_);
  callback_ = std::move(callback);
  if (came() && callback_) callback_();
}

void Interruption::tell() {
  const std::lock_guard lock(mutex_);
  came_.store(true, std::memory_order_release);
  if (callback_) callback_();
}

bool Interruption::stopped_within(int milliseconds) const {
  pollfd stop{stop_.get(), POLLIN, 0};
  return poll(&stop, 1, milliseconds) > 0;
}

void Interruption::watch() {
  for (;;) {
    pollfd fds[2] = {{signals_.fd(), POLLIN, 0}, {stop_.get(), POLLIN, 0}};
    if (poll(fds, 2, -1) < 0) continue;
    if (fds[1].revents != 0) return;
    if (signals_.came()) break;
  }
  tell();
  while (!stopped_within(kNudgeEvery)) {
    pthread_kill(worker_, kNudge);
    pollfd again{signals_.fd(), POLLIN, 0};
    if (poll(&again, 1, 0) > 0) std::_Exit(kInterrupted);
  }
}

int open_patiently(const std::string& path, int flags, const Interruption* interruption) {
  for (;;) {
    const int fd = open(path.c_str(), flags, 0666);
    if (fd >= 0 || errno != EINTR || (interruption != nullptr && interruption->came())) return fd;
  }
}

}  // namespace framelane::cli
