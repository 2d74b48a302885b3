// SPDX-License-Identifier: MIT
// What clients and servers have in common.
#pragma once

#include "object.hpp"

namespace framelane::python {

/// Arguments of Client and Server: a name, or requests= and responses=, and settings. False with an exception set; the
/// settings' strings belong to the arguments.
bool rpc_settings(PyObject* arguments, PyObject* named, const char* what, bool client, const char*& lane,
                  framelane_rpc_settings& settings);

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

}  // namespace framelane::python
