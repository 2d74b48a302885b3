// SPDX-License-Identifier: MIT
#include "memory/sealed_memory.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "base/child.hpp"

namespace framelane::memory {
namespace {

using test::in_child;

bool all_zero(const Mapping& mapping) {
  return std::all_of(mapping.data(), mapping.data() + mapping.size(), [](std::byte b) { return b == std::byte{0}; });
}

std::size_t resident_pages(const Mapping& mapping) {
  std::vector<unsigned char> pages(mapping.size() / page_size());
  EXPECT_EQ(mincore(mapping.data(), mapping.size(), pages.data()), 0);
  return static_cast<std::size_t>(std::count_if(pages.begin(), pages.end(), [](unsigned char p) { return p & 1; }));
}

bool kernel_populates() {
  void* page = mmap(nullptr, page_size(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  const bool can = madvise(page, page_size(), 23 /* MADV_POPULATE_WRITE */) == 0;
  munmap(page, page_size());
  return can;
}

TEST(SealedMemory, IsZeroedWritableAndRoundedUpToPages) {
  auto memory = create_sealed("test", page_size() + 1, Sharing::kReadOnly);
  ASSERT_TRUE(memory) << memory.error().text;
  EXPECT_EQ(memory->mapping.size(), 2 * page_size());
  EXPECT_TRUE(all_zero(memory->mapping));
  std::memset(memory->mapping.data(), 7, memory->mapping.size());
  EXPECT_EQ(memory->mapping.data()[page_size()], std::byte{7});
}

TEST(SealedMemory, CarriesTheSealsOfItsSharing) {
  constexpr int kFixedSize = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
  auto segment = create_sealed("test", 1, Sharing::kReadOnly);
  auto page = create_sealed("test", 1, Sharing::kReadWrite);
  ASSERT_TRUE(segment && page);
  constexpr int kOurs = kFixedSize | F_SEAL_FUTURE_WRITE | F_SEAL_WRITE;  // newer kernels add F_SEAL_EXEC
  EXPECT_EQ(fcntl(segment->fd.get(), F_GET_SEALS) & kOurs, kFixedSize | F_SEAL_FUTURE_WRITE);
  EXPECT_EQ(fcntl(page->fd.get(), F_GET_SEALS) & kOurs, kFixedSize);
}

TEST(SealedMemory, ClosesItsDescriptorOnExec) {
  auto memory = create_sealed("test", 1, Sharing::kReadOnly);
  ASSERT_TRUE(memory);
  EXPECT_TRUE(fcntl(memory->fd.get(), F_GETFD) & FD_CLOEXEC);
}

TEST(SealedMemory, IsNotInheritedByFork) {
  auto memory = create_sealed("test", 1, Sharing::kReadWrite);
  ASSERT_TRUE(memory);
  auto received = map_received(memory->fd.get(), 1, Sharing::kReadWrite);
  ASSERT_TRUE(received);
  const auto mapped = [](const Mapping& mapping) {
    unsigned char page = 0;
    return mincore(mapping.data(), mapping.size(), &page) == 0;
  };
  EXPECT_TRUE(mapped(memory->mapping));
  EXPECT_TRUE(mapped(*received));
  EXPECT_EQ(in_child([&] { return (mapped(memory->mapping) ? 1 : 0) + (mapped(*received) ? 2 : 0); }), 0);
}

TEST(SealedMemory, TakesAnyNameThatACallerHas) {
  EXPECT_TRUE(create_sealed("", 1, Sharing::kReadOnly));
  EXPECT_TRUE(create_sealed(std::string(5000, 'x'), 1, Sharing::kReadOnly));
}

TEST(SealedMemory, RefusesSizesThatCanNotBe) {
  const auto empty = create_sealed("test", 0, Sharing::kReadOnly);
  ASSERT_FALSE(empty);
  EXPECT_EQ(empty.error().code, Code::kInvalidArgument);
  constexpr std::size_t kMost = std::numeric_limits<std::size_t>::max();
  for (const std::size_t size : {kMost, kMost - 1, kMost / 2, kMost / 2 - page_size() + 1, kMost / 4}) {
    const auto memory = create_sealed("test", size, Sharing::kReadOnly);
    ASSERT_FALSE(memory) << size;
    EXPECT_EQ(memory.error().code, Code::kNoMemory) << memory.error().text;
  }
}

TEST(SealedMemory, NamesTheFileSizeLimitInsteadOfDyingOfIt) {
  const int status = in_child([] {
    const rlimit limit{64 * 1024, 64 * 1024};
    if (setrlimit(RLIMIT_FSIZE, &limit) != 0) return 2;
    if (!create_sealed("test", 64 * 1024, Sharing::kReadOnly)) return 3;
    const auto memory = create_sealed("test", 64 * 1024 + 1, Sharing::kReadOnly);
    if (memory || memory.error().code != Code::kNoMemory) return 4;
    return memory.error().text.find("RLIMIT_FSIZE") != std::string::npos ? 0 : 5;
  });
  EXPECT_EQ(status, 0);
}

TEST(SealedMemory, NamesTheAddressSpaceLimit) {
  const int status = in_child([] {
    unsigned long used_pages = 0;
    std::FILE* statm = std::fopen("/proc/self/statm", "r");
    if (statm == nullptr || std::fscanf(statm, "%lu", &used_pages) != 1) return 2;
    std::fclose(statm);
    const rlim_t room = used_pages * page_size() + (64u << 20);
    const rlimit limit{room, room};
    if (setrlimit(RLIMIT_AS, &limit) != 0) return 3;
    const auto memory = create_sealed("test", 256u << 20, Sharing::kReadOnly);
    if (memory || memory.error().code != Code::kNoMemory) return 4;
    return memory.error().text.find("RLIMIT_AS") != std::string::npos ? 0 : 5;
  });
  EXPECT_EQ(status, 0);
}

TEST(SealedMemory, SaysWhenNoDescriptorsAreLeft) {
  const int status = in_child([] {
    const rlimit none{0, 0};
    if (setrlimit(RLIMIT_NOFILE, &none) != 0) return 2;
    const auto memory = create_sealed("test", 1, Sharing::kReadOnly);
    return !memory && memory.error().code == Code::kSystem ? 0 : 3;
  });
  EXPECT_EQ(status, 0);
}

TEST(Mapping, MovesItsRangeAndUnmapsItOnce) {
  auto memory = create_sealed("test", 1, Sharing::kReadWrite);
  ASSERT_TRUE(memory);
  std::byte* const base = memory->mapping.data();
  unsigned char page = 0;
  {
    Mapping first = std::move(memory->mapping);
    EXPECT_EQ(memory->mapping.data(), nullptr);
    EXPECT_EQ(memory->mapping.size(), 0u);
    Mapping second;
    second = std::move(first);
    EXPECT_EQ(first.data(), nullptr);
    EXPECT_EQ(second.data(), base);
    Mapping& alias = second;
    second = std::move(alias);
    EXPECT_EQ(second.data(), base);
    EXPECT_EQ(mincore(base, page_size(), &page), 0);
  }
  EXPECT_EQ(mincore(base, page_size(), &page), -1);
  EXPECT_EQ(errno, ENOMEM);
}

TEST(Mapping, UnmapsWhatItHadWhenAnotherIsMovedIn) {
  auto one = create_sealed("test", 1, Sharing::kReadWrite);
  auto two = create_sealed("test", 1, Sharing::kReadWrite);
  ASSERT_TRUE(one && two);
  std::byte* const old = one->mapping.data();
  one->mapping = std::move(two->mapping);
  unsigned char page = 0;
  EXPECT_EQ(mincore(old, page_size(), &page), -1);
}

TEST(Prefault, AllocatesThePagesAskedForAndNoOthers) {
  if (!kernel_populates()) GTEST_SKIP() << "no MADV_POPULATE_WRITE (Linux 5.14)";
  auto memory = create_sealed("test", 16 * page_size(), Sharing::kReadOnly);
  ASSERT_TRUE(memory);
  EXPECT_EQ(resident_pages(memory->mapping), 0u);
  // A range that begins and ends inside pages covers these pages.
  EXPECT_TRUE(prefault(memory->mapping, 2 * page_size() + 5, 3 * page_size()));
  EXPECT_EQ(resident_pages(memory->mapping), 4u);
  EXPECT_TRUE(prefault(memory->mapping, 0, memory->mapping.size()));
  EXPECT_EQ(resident_pages(memory->mapping), 16u);
}

TEST(Prefault, KeepsTheBytes) {
  auto memory = create_sealed("test", 4 * page_size(), Sharing::kReadOnly);
  ASSERT_TRUE(memory);
  std::memset(memory->mapping.data(), 0x5a, 2 * page_size());
  (void)prefault(memory->mapping, 0, memory->mapping.size());
  for (std::size_t i = 0; i < memory->mapping.size(); ++i) {
    ASSERT_EQ(memory->mapping.data()[i], i < 2 * page_size() ? std::byte{0x5a} : std::byte{0}) << i;
  }
}

TEST(Prefault, RefusesRangesOutsideOfTheMapping) {
  auto memory = create_sealed("test", 4 * page_size(), Sharing::kReadOnly);
  ASSERT_TRUE(memory);
  const std::size_t size = memory->mapping.size();
  constexpr std::size_t kMost = std::numeric_limits<std::size_t>::max();
  EXPECT_FALSE(prefault(memory->mapping, 0, size + 1));
  EXPECT_FALSE(prefault(memory->mapping, size + 1, 0));
  EXPECT_FALSE(prefault(memory->mapping, 1, kMost));
  EXPECT_FALSE(prefault(memory->mapping, kMost, 1));
  EXPECT_EQ(resident_pages(memory->mapping), 0u);
}

TEST(Prefault, DoesNothingWhereTheMachineHasNoRoom) {
  // Far more than any machine has; address space is no problem on 64 bits.
  constexpr auto kSize = static_cast<std::size_t>(std::uint64_t{1} << 46);
  if (sizeof(std::size_t) < 8) GTEST_SKIP() << "needs a 64-bit address space";
  auto memory = create_sealed("test", kSize, Sharing::kReadWrite);
  if (!memory) GTEST_SKIP() << memory.error().text;
  const int status = in_child([&] {
    // Should the check ever fail, this child is what the out-of-memory killer takes.
    std::FILE* score = std::fopen("/proc/self/oom_score_adj", "w");
    if (score == nullptr || std::fputs("1000", score) < 0 || std::fclose(score) != 0) return 2;
    const auto mapping = map_received(memory->fd.get(), kSize, Sharing::kReadWrite);
    if (!mapping) return 3;
    return prefault(*mapping, 0, kSize) ? 4 : 0;
  });
  EXPECT_EQ(status, 0);
  struct stat file {};
  ASSERT_EQ(fstat(memory->fd.get(), &file), 0);
  EXPECT_EQ(file.st_blocks, 0);
}

}  // namespace
}  // namespace framelane::memory
