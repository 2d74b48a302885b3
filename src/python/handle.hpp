// SPDX-License-Identifier: MIT
#pragma once

#include "object.hpp"

namespace framelane::python {

/// A handle of the library that some threads may be using while another one closes it: the last one out does it then.
/// Everything here needs the GIL.
template <class Library, void (*close_it)(Library*), void (*interrupt)(Library*)>
class Handle {
 public:
  void set(Library* handle) noexcept {
    handle_ = handle;
    made_in_ = fork_generation();
  }
  /// nullptr with an exception set when it is closed, or inherited by fork().
  [[nodiscard]] Library* get(const char* what) const {
    if (handle_ == nullptr || closing_) {
      raise(FRAMELANE_INVALID_ARGUMENT, "this %s is closed", what);
      return nullptr;
    }
    return check_process(made_in_, what) ? handle_ : nullptr;
  }
  [[nodiscard]] bool is_open() const noexcept { return handle_ != nullptr && !closing_; }
  [[nodiscard]] bool is_used() const noexcept { return users_ > 0; }

  /// What `work` says of the handle, without the GIL.
  template <class Work>
  auto call(Work work) {
    ++users_;
    const auto result = without_gil([&] { return work(handle_); });
    leave();
    return result;
  }
  /// wait_for() of `step`, which is given the handle and ns to wait for.
  template <class Step>
  int wait(std::int64_t timeout_ns, Step step) {
    ++users_;
    const int code = wait_for(timeout_ns, [&](std::int64_t slice) -> int { return step(handle_, slice); });
    leave();
    return code;
  }
  /// Waiting threads are interrupted, and close it.
  void close() {
    if (handle_ == nullptr || closing_) return;
    closing_ = true;
    if (users_ > 0) {
      interrupt(handle_);
    } else {
      finish();
    }
  }

 private:
  void leave() {
    if (--users_ == 0 && closing_) finish();
  }
  void finish() {
    Library* const handle = std::exchange(handle_, nullptr);
    without_gil([handle] {
      close_it(handle);
      return 0;
    });
  }

  Library* handle_;
  int users_;
  bool closing_;
  unsigned made_in_;
};

/// A method that takes and returns nothing, over a call of the library that can't fail.
template <auto handle_of, auto act>
PyObject* act_on(PyObject* self, PyObject*) {
  auto* const handle = handle_of(self);
  if (handle == nullptr) return nullptr;
  act(handle);
  Py_RETURN_NONE;
}

}  // namespace framelane::python
