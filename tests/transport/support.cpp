// SPDX-License-Identifier: MIT
#include "support.hpp"

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <thread>

#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.hpp"

namespace framelane::transport {
namespace {

constexpr int kWaitMs = 20'000;

}  // namespace

TempDirectory::TempDirectory() {
  std::string pattern = (std::filesystem::temp_directory_path() / "framelane-test-XXXXXX").string();
  if (mkdtemp(pattern.data()) == nullptr) ADD_FAILURE() << "mkdtemp: " << std::strerror(errno);
  path_ = pattern;
}

TempDirectory::~TempDirectory() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

Child::Child(const std::function<int()>& body) {
  pid_ = fork();
  if (pid_ == 0) _exit(body());
  EXPECT_GT(pid_, 0) << std::strerror(errno);
}

Child::~Child() {
  if (reaped_ || pid_ <= 0) return;
  ::kill(pid_, SIGKILL);
  waitpid(pid_, nullptr, 0);
}

void Child::kill(int signal) const { EXPECT_EQ(::kill(pid_, signal), 0); }

int Child::wait() {
  int status = 0;
  reaped_ = eventually([&] { return waitpid(pid_, &status, WNOHANG) == pid_; });
  if (!reaped_) return -1;
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

Signal::Signal() {
  int ends[2] = {-1, -1};
  EXPECT_EQ(pipe(ends), 0);
  read_.reset(ends[0]);
  write_.reset(ends[1]);
}

void Signal::send() const { EXPECT_EQ(write(write_.get(), "x", 1), 1); }

bool Signal::wait() const {
  pollfd wanted{read_.get(), POLLIN, 0};
  if (poll(&wanted, 1, kWaitMs) != 1) return false;
  char byte = 0;
  return read(read_.get(), &byte, 1) == 1;
}

bool eventually(const std::function<bool()>& condition) {
  const std::int64_t deadline = soon();
  while (base::monotonic_ns() < deadline) {
    if (condition()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return condition();
}

std::size_t open_fds() {
  std::size_t count = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) ++count;
  return count;
}

Pair connected_pair() {
  int ends[2] = {-1, -1};
  EXPECT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends), 0);
  return {ControlSocket(base::UniqueFd(ends[0]), AcceptFds::kNo),
          ControlSocket(base::UniqueFd(ends[1]), AcceptFds::kYes)};
}

ssize_t send_raw(int socket, const std::vector<std::byte>& bytes, const std::vector<int>& fds) {
  iovec part{const_cast<std::byte*>(bytes.data()), bytes.size()};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  const std::size_t size = fds.size() * sizeof(int);
  std::vector<std::uint64_t> control(CMSG_SPACE(size) / sizeof(std::uint64_t) + 1);  // aligned for cmsghdr
  if (!fds.empty()) {
    message.msg_control = control.data();
    message.msg_controllen = CMSG_SPACE(size);
    cmsghdr* const header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(size);
    std::memcpy(CMSG_DATA(header), fds.data(), size);
  }
  return sendmsg(socket, &message, MSG_NOSIGNAL);
}

std::string own_name() {
  std::ifstream file("/proc/self/comm");
  std::string name;
  std::getline(file, name);
  return name;
}

std::int64_t soon() { return base::deadline_after(std::chrono::milliseconds(kWaitMs)); }

}  // namespace framelane::transport
