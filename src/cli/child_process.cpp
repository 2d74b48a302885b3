// SPDX-License-Identifier: MIT
#include "cli/child_process.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <map>

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.hpp"
#include "base/text.hpp"

namespace framelane::cli {
namespace {

using std::chrono::milliseconds;

sigset_t watched_signals() {
  sigset_t set;
  sigemptyset(&set);
  for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGCHLD}) sigaddset(&set, number);
  return set;
}

// First steps of a child, before it runs anything else. Only async-signal-safe calls.
void become_child(pid_t parent) {
  const sigset_t set = watched_signals();
  sigprocmask(SIG_UNBLOCK, &set, nullptr);
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(kill(getpid(), SIGKILL));  // the parent died before the line above
}

std::vector<std::string> environment_with(const std::vector<std::pair<std::string, std::string>>& changes) {
  std::map<std::string, std::string> all;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string text = *entry;
    const std::size_t equals = text.find('=');
    if (equals != std::string::npos) all[text.substr(0, equals)] = text.substr(equals + 1);
  }
  for (const auto& [name, value] : changes) all[name] = value;
  std::vector<std::string> lines;
  for (const auto& [name, value] : all) lines.push_back(name + "=" + value);
  return lines;
}

std::vector<char*> pointers_to(std::vector<std::string>& strings) {
  std::vector<char*> pointers;
  for (std::string& text : strings) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

// The ends of the pipes of a spawned child that it needs; all are closed by exec.
struct ChildFds {
  base::UniqueFd input;   // /dev/null: a child in its own group must not read the terminal
  base::UniqueFd output;  // invalid: the log
  base::UniqueFd log;     // invalid: inherit
  base::UniqueFd report;  // gets errno if exec fails, and just closes if it doesn't
};

[[noreturn]] void exec_child(const ChildFds& fds, const std::vector<char*>& arguments,
                             const std::vector<char*>& environment) {
  dup2(fds.input.get(), STDIN_FILENO);
  const int output = fds.output.valid() ? fds.output.get() : fds.log.get();
  if (output >= 0) dup2(output, STDOUT_FILENO);
  if (fds.log.valid()) dup2(fds.log.get(), STDERR_FILENO);
  execvpe(arguments[0], arguments.data(), environment.data());
  const int error = errno;
  [[maybe_unused]] const ssize_t written = write(fds.report.get(), &error, sizeof error);
  _exit(127);
}

Result<std::pair<base::UniqueFd, base::UniqueFd>> make_pipe() {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) == 0) return std::pair(base::UniqueFd(ends[0]), base::UniqueFd(ends[1]));
  return fail(Code::kSystem, fmt::format("cannot make a pipe: {}", base::system_words(errno)));
}

tl::unexpected<Error> cannot_start(const std::string& what, int error) {
  return fail(error == ENOENT ? Code::kNotFound : Code::kSystem,
              fmt::format("cannot start {}: {}", what, base::system_words(error)));
}

}  // namespace

TerminationSignals::TerminationSignals() {
  // Ignored by whoever started us, children would vanish before they are reaped, and with them how they ended.
  ::signal(SIGCHLD, SIG_DFL);
  const sigset_t set = watched_signals();
  sigprocmask(SIG_BLOCK, &set, &before_);
  fd_.reset(signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
}

TerminationSignals::~TerminationSignals() { sigprocmask(SIG_SETMASK, &before_, nullptr); }

bool TerminationSignals::came() noexcept {
  signalfd_siginfo info{};
  while (read(fd_.get(), &info, sizeof info) == static_cast<ssize_t>(sizeof info)) {
    if (info.ssi_signo != SIGCHLD) came_ = true;
  }
  return came_;
}

Result<ChildProcess> ChildProcess::fork(std::string name, const std::function<int()>& body,
                                        std::chrono::seconds watchdog) {
  std::fflush(nullptr);  // else the child would write what is buffered here once more
  const pid_t parent = getpid();
  const pid_t pid = ::fork();
  if (pid < 0) return cannot_start(name, errno);
  if (pid == 0) {
    become_child(parent);
    alarm(static_cast<unsigned>(watchdog.count()));
    const int code = body();
    std::fflush(nullptr);
    _exit(code);
  }
  return ChildProcess(std::move(name), pid, base::UniqueFd());
}

Result<ChildProcess> ChildProcess::spawn(const Spawn& what) {
  std::vector<std::string> arguments = what.command;
  std::vector<std::string> environment = environment_with(what.environment);
  const std::vector<char*> argument_pointers = pointers_to(arguments);
  const std::vector<char*> environment_pointers = pointers_to(environment);
  auto report = make_pipe();
  if (!report) return tl::unexpected(report.error());
  ChildFds fds;
  base::UniqueFd output;
  if (what.read_output) {
    auto pipe = make_pipe();
    if (!pipe) return tl::unexpected(pipe.error());
    output = std::move(pipe->first);
    fds.output = std::move(pipe->second);
  }
  fds.report = std::move(report->second);
  fds.input.reset(open("/dev/null", O_RDONLY | O_CLOEXEC));
  if (!what.log_file.empty()) {
    fds.log.reset(open(what.log_file.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600));
    if (!fds.log.valid()) return cannot_start(what.name, errno);
  }
  std::fflush(nullptr);
  const pid_t parent = getpid();
  const pid_t pid = ::fork();
  if (pid < 0) return cannot_start(what.name, errno);
  if (pid == 0) {
    become_child(parent);
    exec_child(fds, argument_pointers, environment_pointers);
  }
  ChildProcess child(what.name, pid, std::move(output));
  fds.report.reset();
  int error = 0;
  if (read(report->first.get(), &error, sizeof error) == static_cast<ssize_t>(sizeof error)) {
    return cannot_start(what.command[0], error);  // ~ChildProcess reaps it
  }
  return child;
}

ChildProcess::ChildProcess(std::string name, pid_t pid, base::UniqueFd output) noexcept
    : name_(std::move(name)), pid_(pid), output_(std::move(output)) {}

ChildProcess::ChildProcess(ChildProcess&& other) noexcept
    : name_(std::move(other.name_)),
      pid_(std::exchange(other.pid_, -1)),
      status_(other.status_),
      output_(std::move(other.output_)) {}

ChildProcess::~ChildProcess() { kill(); }

bool ChildProcess::running() {
  if (pid_ < 0 || status_.has_value()) return false;
  int status = 0;
  if (waitpid(pid_, &status, WNOHANG) == pid_) status_ = status;
  return !status_.has_value();
}

bool ChildProcess::wait(milliseconds timeout) {
  const std::int64_t deadline = base::deadline_after(timeout);
  while (running()) {
    if (base::monotonic_ns() >= deadline) return false;
    poll(nullptr, 0, 2);
  }
  return true;
}

void ChildProcess::signal(int number) noexcept {
  // Until it is reaped, the pid can't become another process's.
  if (pid_ > 0 && !status_.has_value()) ::kill(pid_, number);
}

void ChildProcess::kill() noexcept {
  if (pid_ < 0 || status_.has_value()) return;
  ::kill(pid_, SIGKILL);
  int status = 0;
  while (waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
  }
  status_ = status;
}

bool ChildProcess::succeeded() const noexcept {
  return status_.has_value() && WIFEXITED(*status_) && WEXITSTATUS(*status_) == 0;
}

std::string ChildProcess::end_text() const {
  if (!status_.has_value()) return "still runs";
  if (WIFSIGNALED(*status_)) {
    const int number = WTERMSIG(*status_);
    const char* what = number == SIGALRM ? "its watchdog" : strsignal(number);
    return fmt::format("was killed by signal {} ({})", number, what);
  }
  return fmt::format("exited with code {}", WEXITSTATUS(*status_));
}

GroupEnd wait_for_all(std::span<ChildProcess> children, TerminationSignals& signals, milliseconds timeout,
                      const ChildProcess** failed, const std::function<std::uint64_t()>& progress) {
  // Looking disturbs what is measured, so it is seldom.
  const std::int64_t longest_ms = progress ? 500 : 60'000;
  std::int64_t deadline = base::deadline_after(timeout);
  std::uint64_t seen = progress ? progress() : 0;
  GroupEnd end = GroupEnd::kAllSucceeded;
  for (;;) {
    bool any_running = false;
    for (ChildProcess& child : children) {
      if (child.running()) {
        any_running = true;
      } else if (!child.succeeded()) {
        *failed = &child;
        end = GroupEnd::kOneFailed;
      }
    }
    if (end != GroupEnd::kAllSucceeded || !any_running) break;
    if (progress && std::exchange(seen, progress()) != seen) deadline = base::deadline_after(timeout);
    const std::int64_t left_ms = (deadline - base::monotonic_ns()) / 1'000'000;
    if (left_ms <= 0) {
      end = GroupEnd::kTimedOut;
      break;
    }
    pollfd poll_fd{signals.fd(), POLLIN, 0};
    poll(&poll_fd, 1, static_cast<int>(std::min(left_ms, longest_ms)));
    if (signals.came()) {
      end = GroupEnd::kInterrupted;
      break;
    }
  }
  for (ChildProcess& child : children) child.kill();
  return end;
}

}  // namespace framelane::cli
