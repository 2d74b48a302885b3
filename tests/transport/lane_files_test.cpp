// SPDX-License-Identifier: MIT
#include "transport/lane_files.hpp"

#include <atomic>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "support.hpp"

namespace framelane::transport {
namespace {

namespace fs = std::filesystem;
constexpr uid_t kNobody = 65534;

mode_t mode_of(const std::string& path) {
  struct stat status {};
  EXPECT_EQ(lstat(path.c_str(), &status), 0) << path;
  return status.st_mode & 07777;
}

bool is_socket(const std::string& path) {
  struct stat status {};
  return lstat(path.c_str(), &status) == 0 && S_ISSOCK(status.st_mode);
}

base::UniqueFd bind_socket(const std::string& path) {
  base::UniqueFd fd(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::strncpy(address.sun_path, path.c_str(), sizeof address.sun_path - 1);
  EXPECT_EQ(bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0) << std::strerror(errno);
  return fd;
}

Code code_of(const Result<LaneFiles>& result) { return result ? Code{} : result.error().code; }

/// Runs `body` in a child that no longer is root (if we are).
int as_user(uid_t user, const std::function<int()>& body) {
  Child child([&] {
    if (getuid() == 0 && setresuid(user, user, user) != 0) return 99;
    return body();
  });
  return child.wait();
}

TEST(LaneDirectory, IsCreatedForItsOwnerOnly) {
  const TempDirectory temp;
  const mode_t before = umask(0);
  const auto prepared = prepare_directory(temp / "lanes/");
  umask(before);
  ASSERT_TRUE(prepared.has_value()) << prepared.error().text;
  EXPECT_EQ(mode_of(temp / "lanes"), 0700u);
  EXPECT_TRUE(prepare_directory(temp / "lanes").has_value());
  EXPECT_TRUE(check_directory(temp / "lanes").has_value());
}

TEST(LaneDirectory, OnlyItsLastPartIsCreated) {
  const TempDirectory temp;
  const auto prepared = prepare_directory(temp / "no/lanes");
  ASSERT_FALSE(prepared.has_value());
  EXPECT_EQ(prepared.error().code, Code::kNotFound);
  EXPECT_TRUE(has(prepared.error().text, "the directory above it does not exist")) << prepared.error().text;
  EXPECT_EQ(check_directory(temp / "lanes").error().code, Code::kNotFound);
}

TEST(LaneDirectory, ASymbolicLinkIsRefused) {
  const TempDirectory temp;
  fs::create_directory(temp / "real");
  fs::permissions(temp / "real", fs::perms::owner_all);
  fs::create_symlink(temp / "real", temp / "link");
  for (const std::string& path : {temp / "link", temp / "link/", temp / "link//"}) {
    const auto prepared = prepare_directory(path);
    ASSERT_FALSE(prepared.has_value()) << path;
    EXPECT_EQ(prepared.error().code, Code::kPermission);
    EXPECT_TRUE(has(prepared.error().text, "is a symbolic link")) << prepared.error().text;
  }
}

TEST(LaneDirectory, AFileIsRefused) {
  const TempDirectory temp;
  std::ofstream(temp / "file") << "x";
  const auto prepared = prepare_directory(temp / "file");
  ASSERT_FALSE(prepared.has_value());
  EXPECT_TRUE(has(prepared.error().text, "is not a directory")) << prepared.error().text;
}

TEST(LaneDirectory, OneThatOthersCanWriteIsRefused) {
  const TempDirectory temp;
  for (const mode_t mode : {0770u, 0702u, 01777u}) {
    ASSERT_EQ(chmod(temp.path().c_str(), mode), 0);
    const auto claimed = LaneFiles::claim(temp.path(), "cam0");
    EXPECT_EQ(code_of(claimed), Code::kPermission) << std::oct << mode;
    EXPECT_TRUE(has(claimed.error().text, "chmod 700 '" + temp.path() + "'")) << claimed.error().text;
  }
  ASSERT_EQ(chmod(temp.path().c_str(), 0755), 0);
  EXPECT_TRUE(LaneFiles::claim(temp.path(), "cam0").has_value());
}

TEST(LaneDirectory, OneOfAnotherUserIsRefused) {
  if (getuid() != 0) GTEST_SKIP() << "needs root, to give a directory away";
  const TempDirectory temp;
  ASSERT_EQ(chown(temp.path().c_str(), kNobody, kNobody), 0);
  const auto claimed = LaneFiles::claim(temp.path(), "cam0");
  EXPECT_EQ(code_of(claimed), Code::kPermission);
  EXPECT_TRUE(has(claimed.error().text, "belongs to user 65534, not to user 0")) << claimed.error().text;
}

TEST(LaneDirectory, OneThatCannotBeWrittenIsRefused) {
  const TempDirectory temp;
  if (getuid() == 0) {
    ASSERT_EQ(chown(temp.path().c_str(), kNobody, kNobody), 0);
  }
  ASSERT_EQ(chmod(temp.path().c_str(), 0500), 0);
  EXPECT_EQ(as_user(kNobody, [&] { return static_cast<int>(code_of(LaneFiles::claim(temp.path(), "cam0"))); }),
            static_cast<int>(Code::kPermission));
  EXPECT_EQ(as_user(kNobody, [&] { return static_cast<int>(code_of(LaneFiles::claim(temp / "sub", "cam0"))); }),
            static_cast<int>(Code::kPermission));
}

TEST(LaneFiles, TheSocketIsForItsOwnerOnly) {
  const TempDirectory temp;
  const mode_t before = umask(0);
  const auto claimed = LaneFiles::claim(temp.path(), "cam0");
  umask(before);
  ASSERT_TRUE(claimed.has_value()) << claimed.error().text;
  EXPECT_EQ(claimed->socket_path(), temp / "cam0");
  EXPECT_EQ(mode_of(temp / "cam0"), 0600u);
  EXPECT_EQ(mode_of(temp / "cam0.lock"), 0600u);
}

TEST(LaneFiles, ALaneIsClaimedOnceInAProcess) {
  const TempDirectory temp;
  fs::create_directory(temp / "lanes");
  fs::permissions(temp / "lanes", fs::perms::owner_all);
  fs::create_symlink(temp.path(), temp / "other-way");
  auto first = LaneFiles::claim(temp / "lanes", "cam0");
  ASSERT_TRUE(first.has_value());
  for (const std::string& path : {temp / "lanes", temp / "other-way/lanes"}) {
    const auto second = LaneFiles::claim(path, "cam0");
    EXPECT_EQ(code_of(second), Code::kInUse);
    EXPECT_TRUE(has(second.error().text, "this process (" + std::to_string(getpid()) + ' ' + own_name() + ')'))
        << second.error().text;
  }
  // The refused claims must not have ended the lock.
  EXPECT_EQ(Child([&] { return static_cast<int>(code_of(LaneFiles::claim(temp / "lanes", "cam0"))); }).wait(),
            static_cast<int>(Code::kInUse));
  EXPECT_TRUE(LaneFiles::claim(temp / "lanes", "cam1").has_value());
  first->release();
  EXPECT_TRUE(LaneFiles::claim(temp / "lanes", "cam0").has_value());
}

TEST(LaneFiles, TheLoserIsToldWhichProcessHasTheLane) {
  const TempDirectory temp;
  const auto first = LaneFiles::claim(temp.path(), "cam0");
  ASSERT_TRUE(first.has_value());
  const std::string expected = "in use by process " + std::to_string(getpid()) + " (" + own_name() + ')';
  Child child([&] {
    const auto second = LaneFiles::claim(temp.path(), "cam0");
    if (code_of(second) != Code::kInUse) return 1;
    return has(second.error().text, expected) ? 0 : 2;
  });
  EXPECT_EQ(child.wait(), 0);
  EXPECT_TRUE(is_socket(temp / "cam0"));
}

TEST(LaneFiles, TheLockFileSaysWhoHoldsIt) {
  const TempDirectory temp;
  auto claimed = LaneFiles::claim(temp.path(), "cam0");
  ASSERT_TRUE(claimed.has_value());
  const auto content = [&] {
    std::ifstream file(temp / "cam0.lock");
    return std::string(std::istreambuf_iterator<char>(file), {});
  };
  // Read in a child: to close the file here would end the lock.
  Child child([&] { return content() == std::to_string(getppid()) + ' ' + own_name() + '\n' ? 0 : 1; });
  EXPECT_EQ(child.wait(), 0);
  claimed->release();
  EXPECT_EQ(content(), "");
}

TEST(LaneFiles, AKilledOwnersLaneIsFreeAlthoughItsChildLivesOn) {
  const TempDirectory temp;
  const Signal ready;
  const Signal end;
  Child owner([&] {
    const auto claimed = LaneFiles::claim(temp.path(), "cam0");
    if (!claimed) return 1;
    if (fork() == 0) {  // holds copies of all descriptors of the lane
      ready.send();
      (void)end.wait();
      _exit(0);
    }
    pause();
    return 2;
  });
  ASSERT_TRUE(ready.wait());
  EXPECT_EQ(code_of(LaneFiles::claim(temp.path(), "cam0")), Code::kInUse);
  owner.kill(SIGKILL);
  EXPECT_EQ(owner.wait(), 128 + SIGKILL);
  const auto claimed = LaneFiles::claim(temp.path(), "cam0");
  EXPECT_TRUE(claimed.has_value()) << claimed.error().text;
  end.send();
}

TEST(LaneFiles, AForkedChildRemovesAndUnlocksNothing) {
  const TempDirectory temp;
  auto claimed = LaneFiles::claim(temp.path(), "cam0");
  ASSERT_TRUE(claimed.has_value());
  Child child([&] {
    claimed->release();
    return 0;
  });
  ASSERT_EQ(child.wait(), 0);
  EXPECT_TRUE(is_socket(temp / "cam0"));
  EXPECT_EQ(Child([&] { return static_cast<int>(code_of(LaneFiles::claim(temp.path(), "cam0"))); }).wait(),
            static_cast<int>(Code::kInUse));
}

TEST(LaneFiles, AStaleSocketIsReplaced) {
  const TempDirectory temp;
  bind_socket(temp / "cam0").reset();
  ASSERT_TRUE(is_socket(temp / "cam0"));
  EXPECT_EQ(ControlSocket::connect(temp / "cam0").error().code, Code::kNotFound);
  const auto claimed = LaneFiles::claim(temp.path(), "cam0");
  ASSERT_TRUE(claimed.has_value()) << claimed.error().text;
  EXPECT_TRUE(ControlSocket::connect(temp / "cam0").has_value());
}

TEST(LaneFiles, NothingButASocketIsReplaced) {
  const TempDirectory temp;
  std::ofstream(temp / "file") << "precious";
  fs::create_directory(temp / "directory");
  fs::create_symlink(temp / "file", temp / "link");
  for (const char* const name : {"file", "directory", "link"}) {
    const auto claimed = LaneFiles::claim(temp.path(), name);
    EXPECT_EQ(code_of(claimed), Code::kInvalidArgument) << name;
    EXPECT_TRUE(has(claimed.error().text, "is not a socket")) << claimed.error().text;
  }
  EXPECT_EQ(fs::file_size(temp / "file"), 8u);
  EXPECT_TRUE(fs::is_symlink(temp / "link"));
}

TEST(LaneFiles, ALockFileThatIsNoFileIsRefused) {
  const TempDirectory temp;
  fs::create_symlink(temp / "elsewhere", temp / "cam0.lock");
  EXPECT_FALSE(LaneFiles::claim(temp.path(), "cam0").has_value());
  EXPECT_FALSE(fs::exists(temp / "elsewhere"));
  ASSERT_EQ(mkfifo((temp / "cam1.lock").c_str(), 0600), 0);
  EXPECT_EQ(code_of(LaneFiles::claim(temp.path(), "cam1")), Code::kInvalidArgument);
}

TEST(LaneFiles, ReleaseRemovesTheSocketAndKeepsTheLockFile) {
  const TempDirectory temp;
  { ASSERT_TRUE(LaneFiles::claim(temp.path(), "cam0").has_value()); }
  EXPECT_FALSE(fs::exists(temp / "cam0"));
  EXPECT_TRUE(fs::exists(temp / "cam0.lock"));
}

TEST(LaneFiles, OnlyItsOwnSocketIsRemoved) {
  const TempDirectory temp;
  auto claimed = LaneFiles::claim(temp.path(), "cam0");
  ASSERT_TRUE(claimed.has_value());
  fs::rename(temp / "cam0", temp / "moved");  // keeps the inode in use, so that the new socket gets another one
  const auto other = bind_socket(temp / "cam0");
  claimed->release();
  EXPECT_TRUE(is_socket(temp / "cam0"));
}

TEST(LaneFiles, AMovedClaimIsReleasedOnce) {
  const TempDirectory temp;
  auto first = LaneFiles::claim(temp.path(), "cam0");
  auto second = LaneFiles::claim(temp.path(), "cam1");
  ASSERT_TRUE(first && second);
  *first = std::move(*second);  // gives cam0 back
  EXPECT_FALSE(fs::exists(temp / "cam0"));
  EXPECT_TRUE(is_socket(temp / "cam1"));
  EXPECT_EQ(first->socket_path(), temp / "cam1");
  EXPECT_TRUE(LaneFiles::claim(temp.path(), "cam0").has_value());
  EXPECT_EQ(code_of(LaneFiles::claim(temp.path(), "cam1")), Code::kInUse);
}

TEST(LaneFiles, APathBeyondTheLimitOfSocketsIsRefused) {
  const TempDirectory temp;
  const std::size_t room = kMaxSocketPath - temp.path().size() - 1;
  EXPECT_TRUE(LaneFiles::claim(temp.path(), std::string(room, 'a')).has_value());
  const auto claimed = LaneFiles::claim(temp.path(), std::string(room + 1, 'a'));
  EXPECT_EQ(code_of(claimed), Code::kTooLarge);
  EXPECT_TRUE(has(claimed.error().text, "108 bytes, and the system allows 107")) << claimed.error().text;
  EXPECT_EQ(ControlSocket::connect(temp / std::string(room + 1, 'a')).error().code, Code::kTooLarge);
}

TEST(LaneFiles, ANameIsNoPath) {
  const TempDirectory temp;
  for (const char* const name : {"", ".", "..", "a/b", "../cam0", ".hidden"}) {
    EXPECT_EQ(code_of(LaneFiles::claim(temp.path(), name)), Code::kInvalidArgument) << name;
  }
  EXPECT_TRUE(fs::is_empty(temp.path()));
}

TEST(LaneFiles, OfManyThreadsOneGetsTheLane) {
  const TempDirectory temp;
  for (int round = 0; round < 50; ++round) {
    std::atomic<int> winners{0};
    std::atomic<int> losers{0};
    std::vector<Result<LaneFiles>> results;
    for (int i = 0; i < 4; ++i) results.emplace_back(fail(Code::kSystem));
    std::vector<std::thread> threads;
    for (auto& result : results) {
      threads.emplace_back([&] {
        result = LaneFiles::claim(temp.path(), "cam0");
        if (result) ++winners;
        if (code_of(result) == Code::kInUse) ++losers;
      });
    }
    for (std::thread& thread : threads) thread.join();
    ASSERT_EQ(winners, 1);
    ASSERT_EQ(losers, 3);
  }
}

TEST(LaneFiles, RefusedClaimsLeakNothing) {
  const TempDirectory temp;
  const auto first = LaneFiles::claim(temp.path(), "cam0");
  std::ofstream(temp / "file") << "x";
  const std::size_t before = open_fds();
  for (int i = 0; i < 20; ++i) {
    EXPECT_FALSE(LaneFiles::claim(temp.path(), "cam0").has_value());
    EXPECT_FALSE(LaneFiles::claim(temp.path(), "file").has_value());
  }
  EXPECT_EQ(open_fds(), before);
}

}  // namespace
}  // namespace framelane::transport
