// SPDX-License-Identifier: MIT
#include "transport/monitor.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <condition_variable>
#include <limits>
#include <mutex>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include <pthread.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "framelane/base/log.hpp"

#include "base/clock.hpp"
#include "base/text.hpp"
#include "base/unique_fd.hpp"
#include "transport/per_process.hpp"

namespace framelane::transport {
namespace {

constexpr std::uint64_t kWakeId = 0;  // of the event fd, which isn't an entry
constexpr std::uint32_t kLastEvents = EPOLLHUP | EPOLLERR | EPOLLRDHUP;
constexpr std::int64_t kNsPerMs = 1'000'000;

/// One watched descriptor (fd >= 0) or timer. All fields but the callback are guarded by the core's mutex.
struct Entry {
  int fd = -1;
  std::uint32_t wanted = 0;
  bool armed = true;
  std::int64_t due_ns = 0;
  std::int64_t period_ns = 0;  // 0: once
  Monitor::Callback callback;
};

}  // namespace

// Every descriptor is in the epoll set with EPOLLONESHOT and is armed again after its callback. That masks hang-ups,
// too, which epoll would otherwise report for ever; and ids instead of pointers make events of ended watches harmless.
struct MonitorCore {
  Result<void> start();
  std::uint64_t add(std::shared_ptr<Entry> entry);
  bool arm_locked(std::uint64_t id, Entry& entry, int operation) const;
  void set_events(std::uint64_t id, std::uint32_t events);
  void remove(std::uint64_t id);
  void post(Monitor::Task task);
  void call(const Monitor::Task& task);
  void wake() const noexcept;
  [[nodiscard]] bool on_this_thread() const noexcept;

  void loop();
  [[nodiscard]] int wait_ms();
  void run(std::uint64_t id, std::uint32_t events);
  void after_callback_locked(std::uint64_t id, Entry& entry, std::uint32_t events);
  void run_due_timers();
  void run_tasks();
  void end_of_callback();

  const pid_t pid = getpid();
  base::UniqueFd epoll;
  base::UniqueFd event;
  std::mutex mutex;
  std::condition_variable callback_ended;
  std::unordered_map<std::uint64_t, std::shared_ptr<Entry>> entries;
  std::set<std::pair<std::int64_t, std::uint64_t>> timers;  // due_ns, id
  std::vector<Monitor::Task> tasks;
  std::uint64_t next_id = kWakeId + 1;
  std::uint64_t running = 0;  // id of the entry whose callback runs
  bool ended = false;         // the thread
};

namespace {

thread_local const MonitorCore* this_threads_core = nullptr;

void* thread_main(void* argument) {
  auto* const core = static_cast<MonitorCore*>(argument);
  this_threads_core = core;
  core->loop();
  return nullptr;
}

/// Starts a detached thread that no signal is delivered to: handlers are the application's, and belong on its threads.
int start_thread(MonitorCore* core) {
  pthread_attr_t attributes;
  if (const int rc = pthread_attr_init(&attributes); rc != 0) return rc;
  pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  pthread_t thread{};
  const int rc = pthread_create(&thread, &attributes, thread_main, core);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  pthread_attr_destroy(&attributes);
  return rc;
}

}  // namespace

Result<void> MonitorCore::start() {
  epoll.reset(epoll_create1(EPOLL_CLOEXEC));
  event.reset(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!epoll.valid() || !event.valid())
    return fail(Code::kSystem, "cannot create an epoll set: " + base::system_words(errno));
  epoll_event wanted{};
  wanted.events = EPOLLIN;
  wanted.data.u64 = kWakeId;
  if (epoll_ctl(epoll.get(), EPOLL_CTL_ADD, event.get(), &wanted) != 0) {
    return fail(Code::kSystem, "cannot watch an event fd: " + base::system_words(errno));
  }
  const int rc = start_thread(this);
  if (rc == 0) return {};
  return fail(Code::kSystem, std::string("cannot start the monitor thread: ") + base::system_words(rc));
}

bool MonitorCore::on_this_thread() const noexcept { return this_threads_core == this && pid == getpid(); }

void MonitorCore::wake() const noexcept {
  const std::uint64_t one = 1;
  // EAGAIN means that a wake is on its way already.
  [[maybe_unused]] const ssize_t written = write(event.get(), &one, sizeof one);
}

bool MonitorCore::arm_locked(std::uint64_t id, Entry& entry, int operation) const {
  epoll_event wanted{};
  wanted.events = entry.wanted | EPOLLONESHOT;
  wanted.data.u64 = id;
  entry.armed = epoll_ctl(epoll.get(), operation, entry.fd, &wanted) == 0;
  return entry.armed;
}

/// 0 when the descriptor can't be watched (errno says why).
std::uint64_t MonitorCore::add(std::shared_ptr<Entry> entry) {
  const std::lock_guard lock(mutex);
  const std::uint64_t id = next_id++;
  if (entry->fd >= 0 && !arm_locked(id, *entry, EPOLL_CTL_ADD)) return 0;
  if (entry->fd < 0) {
    timers.emplace(entry->due_ns, id);
    if (timers.begin()->second == id && !on_this_thread()) wake();
  }
  entries.emplace(id, std::move(entry));
  return id;
}

void MonitorCore::set_events(std::uint64_t id, std::uint32_t events) {
  const std::lock_guard lock(mutex);
  const auto found = entries.find(id);
  if (found == entries.end() || found->second->fd < 0) return;
  found->second->wanted = events;
  if (events == 0 && !found->second->armed) return;  // the kernel can't keep quiet about a hang-up: leave it disarmed
  arm_locked(id, *found->second, EPOLL_CTL_MOD);
}

void MonitorCore::remove(std::uint64_t id) {
  std::shared_ptr<Entry> entry;  // destroyed after the lock is released: its callback may own anything
  std::unique_lock lock(mutex);
  if (const auto found = entries.find(id); found != entries.end()) {
    entry = std::move(found->second);
    entries.erase(found);
    if (entry->fd >= 0) {
      epoll_ctl(epoll.get(), EPOLL_CTL_DEL, entry->fd, nullptr);
    } else {
      timers.erase({entry->due_ns, id});
    }
  }
  if (!on_this_thread()) callback_ended.wait(lock, [&] { return running != id; });
}

void MonitorCore::post(Monitor::Task task) {
  const std::lock_guard lock(mutex);
  tasks.push_back(std::move(task));
  wake();
}

void MonitorCore::call(const Monitor::Task& task) {
  bool done = false;
  std::unique_lock lock(mutex);
  if (!ended) {
    tasks.push_back([&] {
      task();
      const std::lock_guard guard(mutex);
      done = true;
    });
    wake();
    callback_ended.wait(lock, [&] { return done || ended; });
    if (done) return;
  }
  lock.unlock();  // the thread has ended, so nothing else runs
  task();
}

void MonitorCore::loop() {
  pthread_setname_np(pthread_self(), "framelane-mon");
  std::array<epoll_event, 64> events{};
  while (true) {
    const int count = epoll_wait(epoll.get(), events.data(), static_cast<int>(events.size()), wait_ms());
    if (count < 0 && errno != EINTR) {
      // Somebody closed our descriptors. To go on would be a loop without a wait.
      base::log(base::LogLevel::kError,
                "the monitor thread ends, since epoll_wait failed: " + base::system_words(errno));
      {
        const std::lock_guard lock(mutex);
        ended = true;
      }
      callback_ended.notify_all();
      return;
    }
    for (int i = 0; i < count; ++i) {
      const epoll_event& happened = events[static_cast<std::size_t>(i)];
      if (happened.data.u64 != kWakeId) {
        run(happened.data.u64, happened.events);
        continue;
      }
      std::uint64_t wakes = 0;
      [[maybe_unused]] const ssize_t got = read(event.get(), &wakes, sizeof wakes);
    }
    run_due_timers();
    run_tasks();
  }
}

int MonitorCore::wait_ms() {
  const std::lock_guard lock(mutex);
  if (timers.empty()) return -1;
  const std::int64_t left = timers.begin()->first - base::monotonic_ns();
  if (left <= 0) return 0;
  return static_cast<int>(std::min<std::int64_t>(left / kNsPerMs + 1, std::numeric_limits<int>::max()));
}

void MonitorCore::run(std::uint64_t id, std::uint32_t events) {
  std::shared_ptr<Entry> entry;
  {
    const std::lock_guard lock(mutex);
    const auto found = entries.find(id);
    if (found == entries.end()) return;  // ended since epoll_wait returned
    entry = found->second;
    entry->armed = false;
    running = id;
  }
  entry->callback(events);
  {
    const std::lock_guard lock(mutex);
    after_callback_locked(id, *entry, events);
  }
  // If the watch has ended, this was the last reference; what the callback owns goes before the one who waits for it
  // goes on.
  entry.reset();
  end_of_callback();
}

/// Arms the descriptor or timer again, if its watch goes on.
void MonitorCore::after_callback_locked(std::uint64_t id, Entry& entry, std::uint32_t events) {
  if (!entries.contains(id)) return;
  if (entry.fd >= 0) {
    const bool last = (events & kLastEvents) != 0 || (entry.wanted & EPOLLONESHOT) != 0;
    if (!entry.armed && !last && entry.wanted != 0) arm_locked(id, entry, EPOLL_CTL_MOD);
  } else if (entry.period_ns > 0) {
    entry.due_ns = base::monotonic_ns() + entry.period_ns;
    timers.emplace(entry.due_ns, id);
  } else {
    entries.erase(id);
  }
}

void MonitorCore::end_of_callback() {
  {
    const std::lock_guard lock(mutex);
    running = 0;
  }
  callback_ended.notify_all();
}

void MonitorCore::run_due_timers() {
  const std::int64_t now = base::monotonic_ns();
  while (true) {
    std::uint64_t id = 0;
    {
      const std::lock_guard lock(mutex);
      if (timers.empty() || timers.begin()->first > now) return;
      id = timers.begin()->second;
      timers.erase(timers.begin());
    }
    run(id, 0);
  }
}

void MonitorCore::run_tasks() {
  std::vector<Monitor::Task> ready;
  {
    const std::lock_guard lock(mutex);
    if (tasks.empty()) return;
    ready.swap(tasks);
  }
  for (Monitor::Task& task : ready) {
    task();
    task = nullptr;
  }
  end_of_callback();
}

Watch::Watch(Watch&& other) noexcept : core_(std::move(other.core_)), id_(other.id_.exchange(0)) {}

Watch& Watch::operator=(Watch&& other) noexcept {
  if (this == &other) return *this;
  reset();
  core_ = std::move(other.core_);
  id_ = other.id_.exchange(0);
  return *this;
}

void Watch::set_events(std::uint32_t events) noexcept {
  const std::uint64_t id = id_;
  // In a forked child the epoll set is still the parent's.
  if (id != 0 && core_->pid == getpid()) core_->set_events(id, events);
}

void Watch::reset() noexcept {
  const std::uint64_t id = id_.exchange(0);
  if (id != 0 && core_->pid == getpid()) core_->remove(id);
}

Result<Monitor*> Monitor::instance() {
  struct Slot {
    std::mutex mutex;
    std::unique_ptr<Monitor> monitor;
  };
  auto& slot = per_process<Slot>();
  const std::lock_guard lock(slot.mutex);
  if (slot.monitor == nullptr) {
    auto core = std::make_shared<MonitorCore>();
    if (auto started = core->start(); !started) return tl::unexpected(std::move(started.error()));
    slot.monitor = std::make_unique<Monitor>(std::move(core));
  }
  return slot.monitor.get();
}

Result<Watch> Monitor::watch(int fd, std::uint32_t events, Callback callback) {
  auto entry = std::make_shared<Entry>();
  entry->fd = fd;
  entry->wanted = events;
  entry->callback = std::move(callback);
  const std::uint64_t id = fd >= 0 ? core_->add(std::move(entry)) : 0;
  if (id != 0) return Watch(core_, id);
  return fail(Code::kSystem, "cannot watch file descriptor " + std::to_string(fd) + ": " +
                                 (fd >= 0 ? base::system_words(errno) : std::string("it is not open")));
}

Watch Monitor::after(std::chrono::nanoseconds delay, Task task) {
  auto entry = std::make_shared<Entry>();
  entry->due_ns = base::deadline_after(delay);
  entry->callback = [run = std::move(task)](std::uint32_t) { run(); };
  return Watch(core_, core_->add(std::move(entry)));
}

Watch Monitor::every(std::chrono::nanoseconds period, Task task) {
  auto entry = std::make_shared<Entry>();
  entry->period_ns = std::max<std::int64_t>(period.count(), kNsPerMs);
  entry->due_ns = base::deadline_after(std::chrono::nanoseconds(entry->period_ns));
  entry->callback = [run = std::move(task)](std::uint32_t) { run(); };
  return Watch(core_, core_->add(std::move(entry)));
}

void Monitor::post(Task task) { core_->post(std::move(task)); }

void Monitor::call(const Task& task) {
  if (on_this_thread()) return task();
  core_->call(task);
}

bool Monitor::on_this_thread() const noexcept { return core_->on_this_thread(); }

}  // namespace framelane::transport
