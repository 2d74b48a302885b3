// SPDX-License-Identifier: MIT
// No consumer can change a frame, an entry or the size of anything, whatever it does with what it was sent.
#include <cerrno>

#include <fcntl.h>
#include <linux/falloc.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "raw_peer.hpp"

namespace framelane::lane_test {
namespace {

class Sealed : public LaneTest {
 protected:
  Sealed() {
    ProducerSettings settings;
    settings.history = 4;
    producer_.emplace(produce(settings));
    publish_frames(*producer_, 0, 4, 10'000);
    raw_.emplace(directory_.path() + "/lane");
  }

  std::optional<Producer> producer_;
  std::optional<RawConsumer> raw_;
};

std::size_t size_of(int fd) {
  struct stat status {};
  EXPECT_EQ(fstat(fd, &status), 0);
  return static_cast<std::size_t>(status.st_size);
}

void expect_refused(long rc, const char* what) { EXPECT_EQ(rc, -1) << what << " got through"; }

/// Everything that could write through `fd`, or change its size.
void expect_unwritable(int fd) {
  const std::size_t size = size_of(fd);
  void* writable = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  EXPECT_EQ(writable, MAP_FAILED) << "a writable mapping got through";
  writable = mmap(nullptr, size, PROT_WRITE, MAP_SHARED, fd, 0);
  EXPECT_EQ(writable, MAP_FAILED) << "a write-only mapping got through";
  void* const readable = mmap(nullptr, size, PROT_READ, MAP_SHARED, fd, 0);
  ASSERT_NE(readable, MAP_FAILED) << std::strerror(errno);
  expect_refused(mprotect(readable, size, PROT_READ | PROT_WRITE), "mprotect");
  expect_refused(madvise(readable, size, MADV_REMOVE), "MADV_REMOVE");
  munmap(readable, size);
  const char junk[64] = "junk";
  expect_refused(pwrite(fd, junk, sizeof junk, 0), "pwrite");
  expect_refused(pwrite(fd, junk, sizeof junk, static_cast<off_t>(size)), "pwrite at the end");
  expect_refused(ftruncate(fd, 0), "ftruncate to 0");
  expect_refused(ftruncate(fd, static_cast<off_t>(size + 4096)), "ftruncate to more");
  expect_refused(fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 4096), "PUNCH_HOLE");
  expect_refused(fallocate(fd, FALLOC_FL_ZERO_RANGE, 0, 4096), "ZERO_RANGE");
  expect_refused(fallocate(fd, 0, 0, static_cast<off_t>(size + 4096)), "fallocate");
  expect_refused(fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE), "another seal");
  EXPECT_EQ(size_of(fd), size);
}

base::UniqueFd reopened(int fd, int flags) {
  const std::string path = "/proc/self/fd/" + std::to_string(fd);
  return base::UniqueFd(open(path.c_str(), flags | O_CLOEXEC));
}

TEST_F(Sealed, RingAndSegmentsCannotBeWritten) {
  ASSERT_GE(raw_->fds.size(), 3u);
  Consumer watcher = join();
  for (std::size_t i = 0; i < raw_->fds.size(); ++i) {
    if (i == 1) continue;  // its own page
    const int fd = raw_->fds[i].get();
    expect_unwritable(fd);
    for (const int flags : {O_RDWR, O_RDWR | O_TRUNC, O_WRONLY, O_RDWR | O_APPEND}) {
      const base::UniqueFd again = reopened(fd, flags);
      if (again.valid() && (flags & O_ACCMODE) != O_WRONLY) expect_unwritable(again.get());
      if (again.valid()) expect_refused(pwrite(again.get(), "x", 1, 0), "pwrite on a reopened descriptor");
    }
  }
  take_frames(watcher, 0, 4);                                            // history: what lay there all the time
  ASSERT_TRUE(ok(raw_->socket().send(wire::encode(wire::Leave{}, 0))));  // nobody waits for the raw one
  ASSERT_TRUE(eventually([&] { return !producer_->stats().consumers.at(0).gating; }));
  publish_frames(*producer_, 4, 8, 10'000);
  take_frames(watcher, 4, 8);
}

TEST_F(Sealed, OwnPageCannotChangeItsSize) {
  const int fd = raw_->fds[1].get();
  const std::size_t size = size_of(fd);
  for (const base::UniqueFd& again : {reopened(fd, O_RDWR), reopened(fd, O_RDWR | O_TRUNC)}) {
    for (const int target : {fd, again.get()}) {
      if (target < 0) continue;
      expect_refused(ftruncate(target, 0), "ftruncate to 0");
      expect_refused(ftruncate(target, static_cast<off_t>(size + 4096)), "ftruncate to more");
      expect_refused(fcntl(target, F_ADD_SEALS, F_SEAL_WRITE), "another seal");
    }
  }
  EXPECT_EQ(size_of(fd), size);
  publish_frames(*producer_, 4, 4);
  EXPECT_EQ(producer_->stats().consumers.at(0).lag, 8u);
}

TEST_F(Sealed, AHoleInTheOwnPageHurtsOnlyItsOwner) {
  // It is the consumer's to write, so a hole is as good as zeroes.
  const int fd = raw_->fds[1].get();
  Consumer watcher = join();
  EXPECT_EQ(fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, static_cast<off_t>(size_of(fd))), 0);
  for (std::uint64_t frame = 4; frame < 40; ++frame) {
    publish_frames(*producer_, frame, 1);
    while (watcher.try_take().value().has_value()) {
    }
  }
  EXPECT_TRUE(raw_->is_cut_off());
  EXPECT_EQ(watcher.stats().skipped, 0u);
  EXPECT_EQ(producer_->stats().evictions, 1u);
}

TEST_F(Sealed, ConsumersPagesAreTheirOwn) {
  RawConsumer other(directory_.path() + "/lane");
  struct stat ours {};
  struct stat theirs {};
  ASSERT_EQ(fstat(raw_->fds[1].get(), &ours), 0);
  ASSERT_EQ(fstat(other.fds[1].get(), &theirs), 0);
  EXPECT_NE(ours.st_ino, theirs.st_ino);
}

}  // namespace
}  // namespace framelane::lane_test
