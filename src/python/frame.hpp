// SPDX-License-Identifier: MIT
#pragma once

#include "block.hpp"

namespace framelane::python {

/// A received frame.
struct Frame : Block {
  bool held;  ///< hold(): its iteration leaves it alone
};

/// Takes one reference to `frame` over. nullptr with an exception set; then the reference is gone.
PyObject* make_frame(framelane_frame* frame, Layout* layout);

bool add_frame_type(PyObject* module);

}  // namespace framelane::python
