// SPDX-License-Identifier: MIT
// What a consumer could try with the descriptors that it was sent.
#include <cerrno>
#include <cstring>
#include <string>
#include <vector>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/child.hpp"
#include "base/unique_fd.hpp"
#include "memory/sealed_memory.hpp"

namespace framelane::memory {
namespace {

constexpr std::byte kFrame{0x42};

enum class Way { kAsSent, kReopened };

/// A segment with content, and a descriptor of it as an attacker would hold it.
class HostileReceiver : public testing::TestWithParam<Way> {
 protected:
  void SetUp() override {
    auto created = create_sealed("test", 4 * page_size(), sharing());
    ASSERT_TRUE(created) << created.error().text;
    memory_ = std::move(*created);
    std::memset(memory_.mapping.data(), static_cast<int>(kFrame), size());
    if (GetParam() == Way::kAsSent) {
      fd_.reset(dup(memory_.fd.get()));
    } else {
      fd_.reset(open(("/proc/self/fd/" + std::to_string(memory_.fd.get())).c_str(), O_RDWR | O_CLOEXEC));
    }
    ASSERT_TRUE(fd_.valid()) << std::strerror(errno);
  }

  virtual Sharing sharing() const { return Sharing::kReadOnly; }
  std::size_t size() const { return memory_.mapping.size(); }
  off_t file_size() const { return static_cast<off_t>(size()); }
  std::size_t changed() const {
    std::size_t count = 0;
    for (std::size_t i = 0; i < size(); ++i) count += memory_.mapping.data()[i] != kFrame ? 1 : 0;
    return count;
  }

  SealedMemory memory_;
  base::UniqueFd fd_;
};

TEST_P(HostileReceiver, CanNotMapItWritable) {
  for (const int protection : {PROT_WRITE, PROT_READ | PROT_WRITE, PROT_READ | PROT_WRITE | PROT_EXEC}) {
    EXPECT_EQ(mmap(nullptr, size(), protection, MAP_SHARED, fd_.get(), 0), MAP_FAILED) << protection;
    EXPECT_EQ(errno, EPERM);
  }
}

TEST_P(HostileReceiver, CanNotMakeItsMappingWritable) {
  auto mapping = map_received(fd_.get(), size(), Sharing::kReadOnly);
  ASSERT_TRUE(mapping) << mapping.error().text;
  EXPECT_EQ(mprotect(mapping->data(), size(), PROT_READ | PROT_WRITE), -1);
  EXPECT_EQ(errno, EACCES);
  void* const again = mremap(mapping->data(), 0, size(), MREMAP_MAYMOVE);  // a second mapping of the same pages
  if (again != MAP_FAILED) {
    EXPECT_EQ(mprotect(again, size(), PROT_READ | PROT_WRITE), -1);
    munmap(again, size());
  }
}

TEST_P(HostileReceiver, DiesRatherThanWritesThroughItsMapping) {
  auto mapping = map_received(fd_.get(), size(), Sharing::kReadOnly);
  ASSERT_TRUE(mapping);
  const int status = test::in_child([&] {
    // Mapped here, since the parent's mapping is not inherited.
    auto own = map_received(fd_.get(), size(), Sharing::kReadOnly);
    signal(SIGSEGV, SIG_DFL);
    *const_cast<volatile std::byte*>(own->data()) = std::byte{1};
    return 0;
  });
  EXPECT_EQ(status, -SIGSEGV);
  EXPECT_EQ(changed(), 0u);
}

TEST_P(HostileReceiver, CanNotWriteTheFile) {
  const std::vector<char> junk(size(), 'x');
  EXPECT_EQ(pwrite(fd_.get(), junk.data(), junk.size(), 0), -1);
  EXPECT_EQ(errno, EPERM);
  lseek(fd_.get(), 0, SEEK_SET);
  EXPECT_EQ(write(fd_.get(), junk.data(), 1), -1);
  auto source = create_sealed("junk", size(), Sharing::kReadOnly);
  ASSERT_TRUE(source);
  EXPECT_LE(copy_file_range(source->fd.get(), nullptr, fd_.get(), nullptr, size(), 0), 0);
  EXPECT_EQ(changed(), 0u);
}

TEST_P(HostileReceiver, CanNotWriteThroughProcMem) {
  auto mapping = map_received(fd_.get(), size(), Sharing::kReadOnly);
  ASSERT_TRUE(mapping);
  const base::UniqueFd mem(open("/proc/self/mem", O_RDWR | O_CLOEXEC));
  ASSERT_TRUE(mem.valid());
  const char junk[8] = {};
  EXPECT_LE(pwrite(mem.get(), junk, sizeof junk, static_cast<off_t>(reinterpret_cast<std::uintptr_t>(mapping->data()))),
            0);
  EXPECT_EQ(changed(), 0u);
}

TEST_P(HostileReceiver, CanNotResizeIt) {
  for (const off_t wanted : {off_t{0}, file_size() - 1, file_size() + 1, 2 * file_size()}) {
    EXPECT_EQ(ftruncate(fd_.get(), wanted), -1) << wanted;
    EXPECT_EQ(errno, EPERM);
  }
  EXPECT_EQ(fallocate(fd_.get(), 0, 0, 2 * file_size()), -1);
  EXPECT_EQ(changed(), 0u);
}

TEST_P(HostileReceiver, CanNotPunchHoles) {
  EXPECT_EQ(fallocate(fd_.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, file_size()), -1);
  EXPECT_EQ(errno, EPERM);
  EXPECT_EQ(fallocate(fd_.get(), FALLOC_FL_ZERO_RANGE | FALLOC_FL_KEEP_SIZE, 0, file_size()), -1);
  EXPECT_EQ(fallocate(fd_.get(), FALLOC_FL_COLLAPSE_RANGE, 0, static_cast<off_t>(page_size())), -1);
  auto mapping = map_received(fd_.get(), size(), Sharing::kReadOnly);
  ASSERT_TRUE(mapping);
  EXPECT_EQ(madvise(mapping->data(), size(), MADV_REMOVE), -1);
  EXPECT_EQ(changed(), 0u);
}

TEST_P(HostileReceiver, CanNotAddSeals) {
  EXPECT_EQ(fcntl(fd_.get(), F_ADD_SEALS, F_SEAL_WRITE), -1);
  EXPECT_EQ(errno, EPERM);
}

TEST_P(HostileReceiver, GetsOnlyAPrivateCopyWhenItMapsPrivately) {
  void* const copy = mmap(nullptr, size(), PROT_READ | PROT_WRITE, MAP_PRIVATE, fd_.get(), 0);
  ASSERT_NE(copy, MAP_FAILED);
  std::memset(copy, 0, size());
  EXPECT_EQ(changed(), 0u);
  munmap(copy, size());
}

/// The one kind of memory that a consumer may write: its own page.
class HostilePageOwner : public HostileReceiver {
 protected:
  Sharing sharing() const override { return Sharing::kReadWrite; }
};

TEST_P(HostilePageOwner, CanNotResizeIt) {
  for (const off_t wanted : {off_t{0}, file_size() - 1, file_size() + 1, 2 * file_size()}) {
    EXPECT_EQ(ftruncate(fd_.get(), wanted), -1) << wanted;
    EXPECT_EQ(errno, EPERM);
  }
  EXPECT_EQ(fallocate(fd_.get(), FALLOC_FL_COLLAPSE_RANGE, 0, static_cast<off_t>(page_size())), -1);
  EXPECT_EQ(changed(), 0u);
}

TEST_P(HostilePageOwner, CanNotTakeThePagesFromUnderTheProducer) {
  // Holes may be punched where writing is allowed; the producer must then read zeros, and not die.
  (void)fallocate(fd_.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, file_size());
  const std::size_t zeroed = changed();
  EXPECT_TRUE(zeroed == 0 || zeroed == size()) << zeroed;
  memory_.mapping.data()[0] = std::byte{1};
  EXPECT_EQ(memory_.mapping.data()[0], std::byte{1});
}

TEST_P(HostilePageOwner, CanNotSealTheProducerOut) {
  EXPECT_EQ(fcntl(fd_.get(), F_ADD_SEALS, F_SEAL_WRITE), -1);
  EXPECT_EQ(fcntl(fd_.get(), F_ADD_SEALS, F_SEAL_FUTURE_WRITE), -1);
}

TEST_P(HostilePageOwner, WritesWhatTheProducerReads) {
  auto mapping = map_received(fd_.get(), size(), Sharing::kReadWrite);
  ASSERT_TRUE(mapping) << mapping.error().text;
  mapping->data()[17] = std::byte{9};
  EXPECT_EQ(memory_.mapping.data()[17], std::byte{9});
}

const auto kWays = testing::Values(Way::kAsSent, Way::kReopened);
const auto kWayName = [](const testing::TestParamInfo<Way>& info) {
  return info.param == Way::kAsSent ? "AsSent" : "ReopenedThroughProc";
};
INSTANTIATE_TEST_SUITE_P(Descriptor, HostileReceiver, kWays, kWayName);
INSTANTIATE_TEST_SUITE_P(Descriptor, HostilePageOwner, kWays, kWayName);

}  // namespace
}  // namespace framelane::memory
