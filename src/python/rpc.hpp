// SPDX-License-Identifier: MIT
// What clients and servers have in common.
#pragma once

#include "object.hpp"

namespace framelane::python {

/// Arguments of Client and Server: a name, or requests= and responses=, and settings. False with an exception set; the
/// settings' strings belong to the arguments.
bool rpc_settings(PyObject* arguments, PyObject* named, const char* what, bool client, const char*& lane,
                  framelane_rpc_settings& settings);

}  // namespace framelane::python
