// SPDX-License-Identifier: MIT
#include "object.hpp"

#include <chrono>
#include <cmath>
#include <cstdarg>
#include <cstring>

#include <pthread.h>

namespace framelane::python {
namespace {

constexpr int kNumCodes = FRAMELANE_SYSTEM + 1;
PyObject* exceptions[kNumCodes];  // by code; live with the process
PyObject* released_error;
unsigned generation;  // counted by pthread_atfork

PyObject* exception_of(framelane_code code) {
  const auto index = static_cast<int>(code);
  return index > 0 && index < kNumCodes ? exceptions[index] : exceptions[FRAMELANE_SYSTEM];
}

std::int64_t now_ns() noexcept {
  return std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count();
}

PyObject* set(PyObject* type, PyObject* message) {
  if (message != nullptr) PyErr_SetObject(type, message);
  Py_XDECREF(message);
  return nullptr;
}

}  // namespace

PyObject* raise(framelane_code code) {
  return set(exception_of(code),
             PyUnicode_DecodeUTF8(framelane_error_text(), static_cast<Py_ssize_t>(std::strlen(framelane_error_text())),
                                  "replace"));
}

PyObject* raise(framelane_code code, const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  PyErr_FormatV(exception_of(code), format, arguments);
  va_end(arguments);
  return nullptr;
}

PyObject* raise_released(const char* what, const char* advice) {
  return set(released_error, PyUnicode_FromFormat("this %s was given back already; %s", what, advice));
}

bool load_errors() {
  if (pthread_atfork(nullptr, nullptr, [] { ++generation; }) != 0) {
    PyErr_NoMemory();
    return false;
  }
  const Ref module(PyImport_ImportModule("framelane._errors"));
  const Ref by_code(module ? PyObject_GetAttrString(module.get(), "BY_CODE") : nullptr);
  if (!by_code) return false;
  for (int code = 1; code < kNumCodes; ++code) {
    exceptions[code] = PySequence_GetItem(by_code.get(), code - 1);
    if (exceptions[code] == nullptr) return false;
  }
  released_error = PyObject_GetAttrString(module.get(), "ReleasedError");
  return released_error != nullptr;
}

unsigned fork_generation() noexcept { return generation; }

bool check_process(unsigned made, const char* what) {
  if (made == generation) return true;
  raise(FRAMELANE_INVALID_ARGUMENT, "this %s belongs to the process that forked; open one in this process", what);
  return false;
}

bool to_timeout(PyObject* seconds, std::int64_t& ns) {
  if (seconds == nullptr || seconds == Py_None) {
    ns = FRAMELANE_FOREVER;
    return true;
  }
  const double value = PyFloat_AsDouble(seconds);
  if (value == -1.0 && PyErr_Occurred() != nullptr) return false;
  if (std::isnan(value)) {
    PyErr_SetString(PyExc_ValueError, "a time must be a number of seconds, or None");
    return false;
  }
  ns = value >= 9e9 ? FRAMELANE_FOREVER : value <= 0 ? 0 : static_cast<std::int64_t>(value * 1e9);
  return true;
}

std::int64_t deadline_after(std::int64_t timeout_ns) noexcept {
  const std::int64_t now = now_ns();
  return timeout_ns > FRAMELANE_FOREVER - now ? FRAMELANE_FOREVER : now + timeout_ns;
}

std::int64_t left_until(std::int64_t deadline_ns) noexcept {
  if (deadline_ns == FRAMELANE_FOREVER) return FRAMELANE_FOREVER;
  const std::int64_t left = deadline_ns - now_ns();
  return left > 0 ? left : 0;
}

PyObject* from_time(std::uint64_t ns) {
  if (ns == FRAMELANE_NO_TIME) Py_RETURN_NONE;
  return PyLong_FromUnsignedLongLong(ns);
}

PyObject* from_clock_time(std::int64_t ns) {
  if (ns == FRAMELANE_NO_CLOCK_TIME) Py_RETURN_NONE;
  return PyLong_FromLongLong(ns);
}

const char* text_of(PyObject* object, const char* what) {
  if (PyUnicode_Check(object) == 0) {
    PyErr_Format(PyExc_TypeError, "%s must be a str", what);
    return nullptr;
  }
  Py_ssize_t size = 0;
  const char* const text = PyUnicode_AsUTF8AndSize(object, &size);
  if (text != nullptr && std::strlen(text) != static_cast<std::size_t>(size)) {
    PyErr_Format(PyExc_ValueError, "%s has a NUL character in it", what);
    return nullptr;
  }
  return text;
}

bool put(PyObject* dict, const char* key, PyObject* value) {
  const Ref owned(value);
  return owned && PyDict_SetItemString(dict, key, owned.get()) == 0;
}

PyTypeObject* add_type(PyObject* module, PyType_Spec& spec, const char* name) {
  PyObject* const type = PyType_FromSpec(&spec);
  if (type == nullptr) return nullptr;
#if PY_VERSION_HEX < 0x030A0000
  // What Py_TPFLAGS_DISALLOW_INSTANTIATION does later: such an object would have nothing behind it.
  const PyType_Slot* slot = spec.slots;
  while (slot->slot != 0 && slot->slot != Py_tp_new) ++slot;
  if (slot->slot == 0) reinterpret_cast<PyTypeObject*>(type)->tp_new = nullptr;
#endif
  Py_INCREF(type);  // PyModule_AddObject takes one
  if (PyModule_AddObject(module, name, type) != 0) {
    Py_DECREF(type);
    Py_DECREF(type);
    return nullptr;
  }
  return reinterpret_cast<PyTypeObject*>(type);
}

}  // namespace framelane::python
