// SPDX-License-Identifier: MIT
#include "processes.hpp"

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <thread>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

namespace framelane::lane_test {
namespace {

constexpr int kPatienceMs = 30'000;
constexpr unsigned kWatchdogSeconds = 120;
constexpr const char* kRoleFlag = "--in-role";

std::map<std::string, Role>& roles() {
  static std::map<std::string, Role> instance;
  return instance;
}

/// waitpid with a time-out; 0 when it didn't end.
pid_t wait_for(pid_t pid, int& status) {
  for (int waited = 0; waited < kPatienceMs; ++waited) {
    const pid_t got = waitpid(pid, &status, WNOHANG);
    if (got != 0) return got;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return 0;
}

/// The program again, in a role. `fd` is the child's end of its channel.
pid_t start(const std::string& role, const Arguments& arguments, int fd) {
  // Everything before the fork: after it only what is safe in a signal handler may be called.
  std::vector<std::string> texts{"/proc/self/exe", kRoleFlag, role, std::to_string(fd)};
  texts.insert(texts.end(), arguments.begin(), arguments.end());
  std::vector<char*> argv;
  for (std::string& text : texts) argv.push_back(text.data());
  argv.push_back(nullptr);
  const pid_t pid = fork();
  if (pid != 0) return pid;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  fcntl(fd, F_SETFD, 0);
  execv(argv[0], argv.data());
  _exit(127);
}

}  // namespace

void Channel::send(const std::string& text) const {
  [[maybe_unused]] const ssize_t sent = ::send(fd_.get(), text.data(), text.size(), MSG_NOSIGNAL);
}

std::optional<std::string> Channel::receive() const {
  pollfd readable{fd_.get(), POLLIN, 0};
  int rc = 0;
  do {
    rc = poll(&readable, 1, kPatienceMs);
  } while (rc < 0 && errno == EINTR);
  if (rc != 1) return std::nullopt;
  char text[4096];
  const ssize_t size = recv(fd_.get(), text, sizeof text, 0);
  if (size <= 0) return std::nullopt;
  return std::string(text, static_cast<std::size_t>(size));
}

RoleOf::RoleOf(const std::string& name, Role role) { roles()[name] = std::move(role); }

Child::Child(const std::string& role, const Arguments& arguments) : channel_(base::UniqueFd()) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) std::abort();
  channel_ = Channel(base::UniqueFd(ends[0]));
  const base::UniqueFd theirs(ends[1]);
  pid_ = start(role, arguments, theirs.get());
}

Child::~Child() {
  if (pid_ > 0) kill_now();
}

void Child::stop() {
  kill(pid_, SIGSTOP);
  siginfo_t info{};
  ASSERT_EQ(waitid(P_PID, static_cast<id_t>(pid_), &info, WSTOPPED | WEXITED | WNOWAIT), 0);
  ASSERT_EQ(info.si_code, CLD_STOPPED) << "it ended instead";
}

void Child::go_on() { kill(pid_, SIGCONT); }

void Child::kill_now() {
  kill_and_reap(pid_);
  pid_ = -1;
}

std::optional<int> Child::wait() {
  int status = 0;
  if (wait_for(pid_, status) != pid_) return std::nullopt;
  pid_ = -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

void kill_and_reap(pid_t pid) {
  kill(pid, SIGKILL);
  int status = 0;
  if (wait_for(pid, status) != pid) std::fprintf(stderr, "process %d could not be reaped\n", pid);
}

int run_tests_or_role(int argc, char** argv) {
  if (argc >= 4 && std::string(argv[1]) == kRoleFlag) {
    alarm(kWatchdogSeconds);
    Channel parent(base::UniqueFd(std::atoi(argv[3])));
    const auto role = roles().find(argv[2]);
    return role == roles().end() ? 126 : role->second(parent, Arguments(argv + 4, argv + argc));
  }
  ::testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}

}  // namespace framelane::lane_test

int main(int argc, char** argv) { return framelane::lane_test::run_tests_or_role(argc, argv); }
