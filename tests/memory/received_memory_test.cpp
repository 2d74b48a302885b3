// SPDX-License-Identifier: MIT
// What a peer could send in place of memory that is safe to read.
#include <cerrno>
#include <cstdlib>
#include <string>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/unique_fd.hpp"
#include "memory/sealed_memory.hpp"

namespace framelane::memory {
namespace {

constexpr int kSegmentSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE | F_SEAL_SEAL;
constexpr int kPageSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

base::UniqueFd memfd(std::size_t size, int seals, unsigned flags = MFD_ALLOW_SEALING) {
  base::UniqueFd fd(memfd_create("test", MFD_CLOEXEC | flags));
  if (!fd.valid() || ftruncate(fd.get(), static_cast<off_t>(size)) != 0) return {};
  if (seals != 0 && fcntl(fd.get(), F_ADD_SEALS, seals) != 0) return {};
  return fd;
}

base::UniqueFd reopened(const base::UniqueFd& fd, int flags) {
  return base::UniqueFd(open(("/proc/self/fd/" + std::to_string(fd.get())).c_str(), flags | O_CLOEXEC));
}

/// The text of the error, "" when the memory was taken or the code is not kProtocol.
std::string refusal(int fd, std::size_t size, Sharing sharing, bool allow_unsealed = false) {
  const auto mapping = map_received(fd, size, sharing, allow_unsealed);
  if (mapping || mapping.error().code != Code::kProtocol) return {};
  return mapping.error().text;
}

bool mentions(const std::string& text, const std::string& what) { return text.find(what) != std::string::npos; }

TEST(ReceivedMemory, ShowsWhatTheCreatorWrites) {
  auto memory = create_sealed("test", 100, Sharing::kReadOnly);
  ASSERT_TRUE(memory);
  const auto mapping = map_received(memory->fd.get(), 100, Sharing::kReadOnly);
  ASSERT_TRUE(mapping) << mapping.error().text;
  EXPECT_EQ(mapping->size(), page_size());
  memory->mapping.data()[99] = std::byte{3};
  EXPECT_EQ(mapping->data()[99], std::byte{3});
}

TEST(ReceivedMemory, OutlivesItsDescriptorAndItsCreator) {
  Mapping mapping;
  {
    auto memory = create_sealed("test", 1, Sharing::kReadOnly);
    ASSERT_TRUE(memory);
    memory->mapping.data()[0] = std::byte{5};
    auto received = map_received(memory->fd.get(), 1, Sharing::kReadOnly);
    ASSERT_TRUE(received);
    mapping = std::move(*received);
  }
  EXPECT_EQ(mapping.data()[0], std::byte{5});
}

TEST(ReceivedMemory, IsRefusedWithoutEachOfItsSeals) {
  const std::pair<int, const char*> seals[] = {{F_SEAL_SHRINK, "F_SEAL_SHRINK"},
                                               {F_SEAL_GROW, "F_SEAL_GROW"},
                                               {F_SEAL_FUTURE_WRITE, "F_SEAL_FUTURE_WRITE"},
                                               {F_SEAL_SEAL, "F_SEAL_SEAL"}};
  for (const auto& [seal, name] : seals) {
    const auto segment = memfd(page_size(), kSegmentSeals & ~seal);
    EXPECT_TRUE(mentions(refusal(segment.get(), page_size(), Sharing::kReadOnly), name)) << name;
    if (seal == F_SEAL_FUTURE_WRITE) continue;
    const auto page = memfd(page_size(), kPageSeals & ~seal);
    EXPECT_TRUE(mentions(refusal(page.get(), page_size(), Sharing::kReadWrite), name)) << name;
  }
  const auto bare = memfd(page_size(), 0);
  EXPECT_TRUE(mentions(refusal(bare.get(), page_size(), Sharing::kReadOnly), "F_SEAL_SHRINK"));
}

TEST(ReceivedMemory, MayLackOnlyFutureWriteWhenUnsealedIsAllowed) {
  const auto older_kernel = memfd(page_size(), kSegmentSeals & ~F_SEAL_FUTURE_WRITE);
  EXPECT_TRUE(map_received(older_kernel.get(), page_size(), Sharing::kReadOnly, true));
  const auto shrinkable = memfd(page_size(), kSegmentSeals & ~F_SEAL_SHRINK);
  EXPECT_TRUE(mentions(refusal(shrinkable.get(), page_size(), Sharing::kReadOnly, true), "F_SEAL_SHRINK"));
}

TEST(ReceivedMemory, MustHaveExactlyTheSizeThatWasTold) {
  const auto fd = memfd(2 * page_size(), kSegmentSeals);
  EXPECT_TRUE(mentions(refusal(fd.get(), page_size(), Sharing::kReadOnly), "size"));
  EXPECT_TRUE(mentions(refusal(fd.get(), 2 * page_size() + 1, Sharing::kReadOnly), "size"));
  EXPECT_TRUE(map_received(fd.get(), page_size() + 1, Sharing::kReadOnly));
  EXPECT_TRUE(mentions(refusal(fd.get(), 0, Sharing::kReadOnly), "size"));
  EXPECT_TRUE(mentions(refusal(fd.get(), SIZE_MAX, Sharing::kReadOnly), "size"));
  const auto uneven = memfd(page_size() - 1, kSegmentSeals);
  EXPECT_TRUE(mentions(refusal(uneven.get(), page_size() - 1, Sharing::kReadOnly), "size"));
}

TEST(ReceivedMemory, MustBeAMemfd) {
  int pipe_fds[2];
  ASSERT_EQ(pipe2(pipe_fds, O_CLOEXEC), 0);
  const base::UniqueFd reader(pipe_fds[0]);
  const base::UniqueFd writer(pipe_fds[1]);
  const base::UniqueFd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const base::UniqueFd folder(open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  const base::UniqueFd device(open("/dev/zero", O_RDWR | O_CLOEXEC));
  char path[] = "/tmp/framelane-test-XXXXXX";
  const base::UniqueFd file(mkstemp(path));
  ASSERT_TRUE(file.valid());
  unlink(path);
  ASSERT_EQ(ftruncate(file.get(), static_cast<off_t>(page_size())), 0);
  EXPECT_TRUE(mentions(refusal(reader.get(), page_size(), Sharing::kReadOnly), "not of a memfd"));
  for (const int fd : {reader.get(), writer.get(), socket.get(), folder.get(), device.get(), file.get(), -1, 1 << 20}) {
    EXPECT_FALSE(refusal(fd, page_size(), Sharing::kReadOnly).empty()) << fd;
    EXPECT_FALSE(refusal(fd, page_size(), Sharing::kReadWrite).empty()) << fd;
  }
}

TEST(ReceivedMemory, MustBeOpenForItsUse) {
  const auto segment = memfd(page_size(), kSegmentSeals);
  const auto page = memfd(page_size(), kPageSeals);
  EXPECT_TRUE(map_received(reopened(segment, O_RDONLY).get(), page_size(), Sharing::kReadOnly));
  EXPECT_FALSE(refusal(reopened(page, O_RDONLY).get(), page_size(), Sharing::kReadWrite).empty());
  EXPECT_FALSE(refusal(reopened(page, O_WRONLY).get(), page_size(), Sharing::kReadWrite).empty());
  EXPECT_FALSE(refusal(reopened(segment, O_PATH).get(), page_size(), Sharing::kReadOnly).empty());
}

TEST(ReceivedMemory, IsRefusedAsAPageWhenItCanNotBeWritten) {
  const auto segment = memfd(page_size(), kSegmentSeals);
  EXPECT_TRUE(mentions(refusal(segment.get(), page_size(), Sharing::kReadWrite), "seal"));
  const auto written_out = memfd(page_size(), kPageSeals | F_SEAL_WRITE);
  EXPECT_TRUE(mentions(refusal(written_out.get(), page_size(), Sharing::kReadWrite), "seal"));
}

TEST(ReceivedMemory, IsRefusedInHugePagesThatAreNotThere) {
  constexpr std::size_t kHuge = std::size_t{2} << 20;
  constexpr unsigned kFlags = MFD_ALLOW_SEALING | MFD_HUGETLB | 21u << 26;  // 2^21 bytes: MFD_HUGE_2MB of newer headers
  const auto segment = memfd(kHuge, kSegmentSeals, kFlags);
  const auto page = memfd(kHuge, kPageSeals, kFlags);
  if (!segment.valid() || !page.valid()) GTEST_SKIP() << "no huge pages of 2 MiB in this kernel";
  EXPECT_TRUE(mentions(refusal(segment.get(), kHuge, Sharing::kReadOnly), "holes"));
  EXPECT_TRUE(mentions(refusal(page.get(), kHuge, Sharing::kReadWrite), "huge"));
  EXPECT_TRUE(mentions(refusal(page.get(), kHuge, Sharing::kReadOnly, true), "F_SEAL_FUTURE_WRITE"));
}

}  // namespace
}  // namespace framelane::memory
