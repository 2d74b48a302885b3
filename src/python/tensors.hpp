// SPDX-License-Identifier: MIT
#pragma once

#include "layout.hpp"

namespace framelane::python {

/// The layout of {"name": (dtype, shape)} and a frame rate (a number, a Fraction, or nullptr). nullptr with an
/// exception set.
Layout* tensors_layout(PyObject* tensors, PyObject* framerate);

}  // namespace framelane::python
