// SPDX-License-Identifier: MIT
// "No allocation and no system call on a frame's way while both sides are awake", counted, not argued.
//
// Allocations are counted at operator new and, in our own code, at malloc (linked with --wrap). System calls are
// counted in a child by a seccomp filter that traps every one of them.
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <new>
#include <thread>

#include <gtest/gtest.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

#include "base/clock.hpp"
#include "harness.hpp"

namespace {

std::atomic<std::uint64_t> allocations{0};  // of every thread

}  // namespace

extern "C" {
void* __real_malloc(std::size_t size);
void* __wrap_malloc(std::size_t size) {
  allocations.fetch_add(1, std::memory_order_relaxed);
  return __real_malloc(size);
}
void* __real_calloc(std::size_t count, std::size_t size);
void* __wrap_calloc(std::size_t count, std::size_t size) {
  allocations.fetch_add(1, std::memory_order_relaxed);
  return __real_calloc(count, size);
}
void* __real_realloc(void* old, std::size_t size);
void* __wrap_realloc(void* old, std::size_t size) {
  allocations.fetch_add(1, std::memory_order_relaxed);
  return __real_realloc(old, size);
}
}

// The array and nothrow forms of the standard library call these. (Inlined, free() would seem to be called on what new
// made.)
[[gnu::noinline]] void* operator new(std::size_t size) {
  if (void* const memory = std::malloc(size == 0 ? 1 : size)) return memory;  // counted there
  throw std::bad_alloc();
}
[[gnu::noinline]] void* operator new(std::size_t size, std::align_val_t align) {
  allocations.fetch_add(1, std::memory_order_relaxed);
  const auto to = static_cast<std::size_t>(align);
  if (void* const memory = std::aligned_alloc(to, (size + to - 1) / to * to)) return memory;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }

namespace framelane::ring {
namespace {

using testing::Got;
using testing::intact;
using testing::JoinOptions;
using testing::Lane;
using testing::must;
using testing::TestConsumer;

constexpr std::uint64_t kRounds = 10'000;

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
constexpr bool kSanitizer = true;
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer) || __has_feature(address_sanitizer)
constexpr bool kSanitizer = true;
#else
constexpr bool kSanitizer = false;
#endif
#else
constexpr bool kSanitizer = false;
#endif

/// What the child tells. In memory that both share.
struct Report {
  std::atomic<std::uint64_t> frames_intact;
  std::atomic<std::uint64_t> allocations;
  std::atomic<std::uint64_t> system_calls;
  std::atomic<std::uint64_t> last_call;
  std::atomic<std::uint64_t> wakes;
};
Report* report = nullptr;

void on_system_call(int, siginfo_t* info, void* context) {
  report->system_calls.fetch_add(1);
  report->last_call.store(static_cast<std::uint64_t>(info->si_syscall));
#if defined(__x86_64__)
  static_cast<ucontext_t*>(context)->uc_mcontext.gregs[REG_RAX] = -ENOSYS;
#elif defined(__aarch64__)
  static_cast<ucontext_t*>(context)->uc_mcontext.regs[0] = static_cast<unsigned long long>(-ENOSYS);
#else
  (void)context;
#endif
}

/// From here on every system call of this thread, and of those that it starts, is trapped and counted, but for the
/// handler's own return and the end of the process. There is no way back.
bool trap_system_calls() {
  struct sigaction action {};
  action.sa_sigaction = on_system_call;
  action.sa_flags = SA_SIGINFO | SA_NODEFER;
  if (sigaction(SIGSYS, &action, nullptr) != 0) return false;
  sock_filter filter[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_rt_sigreturn, 1, 0),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_exit_group, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP),
  };
  const sock_fprog program{sizeof filter / sizeof *filter, filter};
  // All threads at once, so that a consumer's thread is counted, too.
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program) == 0;
}

/// One loan, publish, poll and release of a frame in a slot, and one of an inline frame.
void one_round(Lane& lane, TestConsumer& consumer, std::uint64_t number, bool wake) {
  static constexpr format::FrameInfo kInfo{.pts = 1, .due_ns = 2};
  const auto check = [&](Got& taken) {
    do {
      if (consumer.reader().poll(taken, consumer).value() != Reader::Step::kTaken) return;
    } while (taken.marker);
    if (!intact(taken, number)) return;
    if (!taken.is_inline) consumer.reader().release(taken.slot);
    consumer.reader().count_taken(taken.index, taken.skipped, false, taken.publish_ns);
    report->frames_intact.fetch_add(1);
  };
  Got taken;
  const SlotRef slot = lane.writer->loan(4096).value();
  testing::fill(slot.data, 4096, number);
  if (lane.writer->publish({&slot, nullptr, 4096, &kInfo, false, wake}).value()) check(taken);
  std::byte bytes[kInlineBytes];
  testing::fill(bytes, sizeof bytes, number);
  if (lane.writer->publish({nullptr, bytes, sizeof bytes, &kInfo, false, wake}).value()) check(taken);
}

class FramePath : public ::testing::Test {
 protected:
  void SetUp() override {
    if (kSanitizer) GTEST_SKIP() << "a sanitizer allocates and calls the system on its own";
    void* const memory = mmap(nullptr, sizeof(Report), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(memory, MAP_FAILED);
    report = new (memory) Report{};
  }
  void TearDown() override {
    if (report != nullptr) munmap(report, sizeof(Report));
    report = nullptr;
  }

  /// Runs `prepare` and, with every system call trapped, `measure` in a child.
  template <class Prepare, class Measure>
  void in_child(Prepare prepare, Measure measure) {
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      alarm(60);  // a hang ends, too
      auto state = prepare();
      if (!trap_system_calls()) _exit(2);
      report->system_calls = 0;
      const std::uint64_t before = allocations.load();
      measure(*state);
      report->allocations = allocations.load() - before;
      _exit(0);
    }
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFEXITED(status)) << "signal " << WTERMSIG(status);
    ASSERT_EQ(WEXITSTATUS(status), 0);
  }

  static bool clock_is_a_system_call() {
    // Without a vDSO clock each stamp is one system call that is not ours to avoid.
    const pid_t child = fork();
    if (child == 0) {
      if (!trap_system_calls()) _exit(2);
      report->system_calls = 0;
      (void)base::monotonic_ns();
      _exit(report->system_calls == 0 ? 0 : 1);
    }
    int status = 0;
    waitpid(child, &status, 0);
    return WEXITSTATUS(status) == 1;
  }
};

struct Both {
  explicit Both(WriterSettings settings, int others = 0) : lane(std::move(settings)), consumer(lane) {
    for (int i = 0; i < others; ++i) idle.push_back(std::make_unique<TestConsumer>(lane, JoinOptions{.gating = false}));
  }
  Lane lane;
  TestConsumer consumer;
  std::vector<std::unique_ptr<TestConsumer>> idle;
};

TEST_F(FramePath, OfTheCountersThemselvesCounts) {
  in_child([] { return std::make_unique<int>(0); },
           [](int&) {
             syscall(SYS_getppid);
             syscall(SYS_futex, nullptr, 0, 0, nullptr, nullptr, 0);
             delete new int(1);
             std::free(std::malloc(100));
             std::vector<int> some(100);
             std::string(100, 'x');
           });
  EXPECT_EQ(report->system_calls, 2u);
  EXPECT_EQ(report->last_call, static_cast<std::uint64_t>(SYS_futex));
  EXPECT_GE(report->allocations, 2u) << "the compiler may leave out some of the four";
}

class FramePathOf : public FramePath, public ::testing::WithParamInterface<std::tuple<StampKind, bool, WhenFull>> {};
INSTANTIATE_TEST_SUITE_P(Kinds, FramePathOf,
                         ::testing::Combine(::testing::Values(StampKind::kAuto, StampKind::kOn, StampKind::kOff),
                                            ::testing::Bool(),
                                            ::testing::Values(WhenFull::kWait, WhenFull::kPassOver)));

TEST_P(FramePathOf, HasNoAllocationAndNoSystemCall) {
  // No structured binding: clang 14 can't capture one in a lambda.
  const StampKind stamps = std::get<0>(GetParam());
  const bool wake = std::get<1>(GetParam());
  const WhenFull when_full = std::get<2>(GetParam());
  if (stamps != StampKind::kOff && clock_is_a_system_call()) GTEST_SKIP() << "this machine's clock is a system call";
  in_child(
      [&] {
        auto both = std::make_unique<Both>(WriterSettings{.when_full = when_full, .stamps = stamps});
        one_round(both->lane, both->consumer, 0, true);  // the first frame brings its segment
        report->frames_intact = 0;
        return both;
      },
      [&](Both& both) {
        for (std::uint64_t i = 0; i < kRounds; ++i) one_round(both.lane, both.consumer, i, wake);
      });
  EXPECT_EQ(report->frames_intact, 2 * kRounds);
  EXPECT_EQ(report->system_calls, 0u) << "the last one was number " << report->last_call;
  EXPECT_EQ(report->allocations, 0u);
}

TEST_F(FramePath, HasNoneWithOthersThatLagOrAreLapped) {
  in_child(
      [&] {
        auto both = std::make_unique<Both>(WriterSettings{.stamps = StampKind::kOff}, 31);
        one_round(both->lane, both->consumer, 0, true);
        for (auto& other : both->idle) (void)other->take_entry();  // maps the segment
        report->frames_intact = 0;
        return both;
      },
      [&](Both& both) {
        for (std::uint64_t i = 0; i < kRounds; ++i) {
          one_round(both.lane, both.consumer, i, true);
          if (i % 100 != 0) continue;
          Got taken;
          TestConsumer& lapped = *both.idle[i / 100 % 31];
          (void)lapped.reader().poll(taken, lapped).value();
          if (taken.data != nullptr) lapped.reader().release(taken.slot);
        }
      });
  EXPECT_EQ(report->frames_intact, 2 * kRounds);
  EXPECT_EQ(report->system_calls, 0u) << "the last one was number " << report->last_call;
  EXPECT_EQ(report->allocations, 0u);
}

TEST_F(FramePath, HasNoneWithAConsumerThatSpinsOnAnotherThread) {
  if (base::online_cpus() < 2) GTEST_SKIP() << "nobody spins on one CPU";
  if (clock_is_a_system_call()) GTEST_SKIP() << "this machine's clock is a system call";
  static std::atomic<bool> started{false};
  static std::atomic<bool> go{false};
  static std::atomic<std::uint64_t> done{0};
  in_child(
      [&] {
        auto both = std::make_unique<Both>(WriterSettings{
            .full_timeout_ns = base::kForever, .stall_timeout_ns = base::kForever, .spin = SpinKind::kBusy});
        one_round(both->lane, both->consumer, 0, true);
        report->frames_intact = 0;
        Both* const shared = both.get();
        std::thread([shared] {
          TestConsumer& consumer = shared->consumer;
          started = true;
          while (!go) base::cpu_relax();
          Got taken;
          for (std::uint64_t i = 1; i <= kRounds;) {
            if (consumer.reader().poll(taken, consumer).value() != Reader::Step::kTaken) {
              base::cpu_relax();
              continue;
            }
            if (taken.marker) continue;
            if (intact(taken, i)) report->frames_intact.fetch_add(1);
            consumer.reader().release(taken.slot);
            ++i;
          }
          done = 1;
          for (;;) base::cpu_relax();  // its end would be a system call
        }).detach();
        while (!started) std::this_thread::yield();  // a thread's start calls the system, with its signals blocked
        return both;
      },
      [&](Both& both) {
        static constexpr format::FrameInfo kInfo{};
        go = true;
        for (std::uint64_t i = 1; i <= kRounds; ++i) {
          const SlotRef slot = both.lane.writer->loan(64).value();
          testing::fill(slot.data, 64, i);
          if (!both.lane.writer->publish({&slot, nullptr, 64, &kInfo}).value()) _exit(3);
        }
        while (done == 0) base::cpu_relax();
      });
  EXPECT_EQ(report->frames_intact, kRounds);
  EXPECT_EQ(report->system_calls, 0u) << "the last one was number " << report->last_call;
  EXPECT_EQ(report->allocations, 0u);
}

}  // namespace
}  // namespace framelane::ring
