// SPDX-License-Identifier: MIT
// framelane_frame_info as attributes and keyword arguments: pts, dts, duration, offset, offset_end, due, capture,
// flags, type_id; times are ns, None is "none".
#pragma once

#include "object.hpp"

namespace framelane::python {

/// Sets one member by its name. 1: done; 0: there is no such member; -1: an exception is set.
int set_info(framelane_frame_info& info, const char* name, PyObject* value);
/// The member as an int or None; nullptr with an exception set.
PyObject* get_info(const framelane_frame_info& info, const char* name);

}  // namespace framelane::python
