// SPDX-License-Identifier: MIT
#include "base/thread.hpp"

#include <csignal>
#include <system_error>
#include <utility>

#include <pthread.h>

namespace framelane::base {

Result<std::thread> start_thread(const char* name, std::function<void()> body) {
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  Result<std::thread> thread = fail(Code::kSystem);
  try {
    thread = std::thread([name, run = std::move(body)] {
      pthread_setname_np(pthread_self(), name);
      run();
    });
  } catch (const std::system_error& error) {
    thread = fail(Code::kSystem, std::string("no thread could be started: ") + error.what());
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return thread;
}

}  // namespace framelane::base
