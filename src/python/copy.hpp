// SPDX-License-Identifier: MIT
// Copying arrays of any strides, with a check that they are alike.
#pragma once

#include "layout.hpp"

namespace framelane::python {

/// Copies the elements of one array to another of the same shape and element. The GIL is given up for large ones.
void copy_array(const Array& to, std::byte* to_data, const Array& from, const std::byte* from_data);

/// Copies `source` (anything with the buffer protocol or DLPack) into an array. Its element type must be the array's,
/// and its shape, but for dimensions of 1; contiguous bytes of the right size do, too. False with an exception set.
bool copy_object(const Array& to, std::byte* to_data, PyObject* source);

/// What array there is in a buffer. False: a format that no lane carries.
bool array_of(const Py_buffer& view, Array& array);

}  // namespace framelane::python
