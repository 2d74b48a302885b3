// SPDX-License-Identifier: MIT
// What all types of the extension share: errors, the GIL, references.
#pragma once

#define PY_SSIZE_T_CLEAN
#include <cstddef>
#include <cstdint>
#include <utility>

#include <Python.h>

#include "framelane/framelane.h"

namespace framelane::python {

/// A strong reference. Needs the GIL wherever it is made, copied or destroyed.
class Ref {
 public:
  Ref() noexcept = default;
  explicit Ref(PyObject* stolen) noexcept : object_(stolen) {}
  static Ref of(PyObject* borrowed) noexcept {
    Py_XINCREF(borrowed);
    return Ref(borrowed);
  }
  Ref(Ref&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
  Ref& operator=(Ref&& other) noexcept {
    std::swap(object_, other.object_);
    return *this;
  }
  ~Ref() { Py_XDECREF(object_); }

  [[nodiscard]] PyObject* get() const noexcept { return object_; }
  [[nodiscard]] PyObject* release() noexcept { return std::exchange(object_, nullptr); }
  [[nodiscard]] explicit operator bool() const noexcept { return object_ != nullptr; }

 private:
  PyObject* object_ = nullptr;
};

/// A contiguous buffer of somebody else's, for the time of a call.
class Bytes {
 public:
  Bytes() noexcept = default;
  Bytes(const Bytes&) = delete;
  Bytes& operator=(const Bytes&) = delete;
  ~Bytes() {
    if (held_) PyBuffer_Release(&view_);
  }
  /// False with an exception set.
  bool get(PyObject* object) {
    held_ = PyObject_GetBuffer(object, &view_, PyBUF_SIMPLE) == 0;
    return held_;
  }
  [[nodiscard]] const void* data() const noexcept { return view_.buf; }
  [[nodiscard]] std::size_t size() const noexcept { return static_cast<std::size_t>(view_.len); }

 private:
  Py_buffer view_{};
  bool held_ = false;
};

/// Calls `work` without the GIL. No destructor takes it back: where the interpreter ends meanwhile, CPython ends this
/// thread in PyEval_RestoreThread(), and unwinding through a destructor would end the whole process.
template <class Work>
auto without_gil(Work work) {
  PyThreadState* const state = PyEval_SaveThread();
  const auto result = work();
  PyEval_RestoreThread(state);
  return result;
}

/// Bytes from which on a copy is made without the GIL: giving that up costs what copying a few KiB does.
inline constexpr std::size_t kWithoutGil = 64 << 10;

/// Sets the exception for a code, with the library's sentence, and returns nullptr.
PyObject* raise(framelane_code code);
/// The same with a sentence of its own (printf's).
[[gnu::format(printf, 2, 3)]] PyObject* raise(framelane_code code, const char* format, ...);
/// Use of a frame, loan or view that was given back; returns nullptr.
PyObject* raise_released(const char* what, const char* advice);
/// Imports the exception classes of framelane._errors. False with an exception set.
bool load_errors();

/// How many forks lie between the process that loaded this and the one that asks: handles belong to one process.
[[nodiscard]] unsigned fork_generation() noexcept;
/// False with an exception set in a child that inherited an object of generation `made`.
bool check_process(unsigned made, const char* what);

/// Seconds (a number, or None for ever) to ns. False with an exception set.
bool to_timeout(PyObject* seconds, std::int64_t& ns);
/// A time in ns, or None for "no time".
[[nodiscard]] PyObject* from_time(std::uint64_t ns);
[[nodiscard]] PyObject* from_clock_time(std::int64_t ns);

/// When a wait of `timeout_ns` that begins now is over, ns of CLOCK_MONOTONIC; FRAMELANE_FOREVER: never.
[[nodiscard]] std::int64_t deadline_after(std::int64_t timeout_ns) noexcept;
/// ns until then, not negative; FRAMELANE_FOREVER for a deadline that never comes.
[[nodiscard]] std::int64_t left_until(std::int64_t deadline_ns) noexcept;

/// A str's UTF-8, which lives as long as the str; nullptr with an exception set for anything else.
[[nodiscard]] const char* text_of(PyObject* object, const char* what);

/// Puts `value` (stolen) into a dict. False with an exception set, also when value is nullptr.
bool put(PyObject* dict, const char* key, PyObject* value);

/// What `step` (which is given ns to wait for) says when it isn't FRAMELANE_TIMEOUT any more or `timeout_ns` is over;
/// -1 with an exception set when a signal handler raised one. Waits in slices, so that Ctrl-C ends it, without the GIL.
template <class Step>
int wait_for(std::int64_t timeout_ns, Step step) {
  constexpr std::int64_t kSliceNs = 100'000'000;
  const std::int64_t deadline = deadline_after(timeout_ns);
  for (std::int64_t left = timeout_ns;;) {
    const std::int64_t slice = left < kSliceNs ? left : kSliceNs;
    const int code = without_gil([&]() -> int { return step(slice); });
    // What came is handed on, so that somebody gives it back; the interpreter runs the handler right after that.
    if (code != FRAMELANE_TIMEOUT) return code;
    if (PyErr_CheckSignals() != 0) return -1;
    left = left_until(deadline);
    if (left == 0) return code;
  }
}

/// Adds a type to the module. The type stays alive with the process.
PyTypeObject* add_type(PyObject* module, PyType_Spec& spec, const char* name);
/// Memory of an object without a garbage collector's head, which `type` makes; zeroed.
template <class Object>
Object* make(PyTypeObject* type) {
  return reinterpret_cast<Object*>(PyType_GenericAlloc(type, 0));
}
/// The end of every tp_dealloc.
inline void free_object(PyObject* self) {
  PyTypeObject* const type = Py_TYPE(self);
  PyObject_Free(self);
  Py_DECREF(type);
}

template <class Function>
PyCFunction method(Function function) {
  return reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(function));
}

/// A keyword list for PyArg_ParseTupleAndKeywords, which wants char** but writes nothing.
template <std::size_t N>
char** keywords(const char* const (&names)[N]) {
  return const_cast<char**>(names);
}

#if PY_VERSION_HEX >= 0x030A0000
inline constexpr unsigned long kFinal = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION;
#else
inline constexpr unsigned long kFinal = Py_TPFLAGS_DEFAULT;
#endif

}  // namespace framelane::python
