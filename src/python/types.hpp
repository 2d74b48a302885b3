// SPDX-License-Identifier: MIT
#pragma once

#include "object.hpp"

namespace framelane::python {

// Each adds its types to the module. False with an exception set.
bool add_consumer_type(PyObject* module);
bool add_loan_type(PyObject* module);
bool add_producer_type(PyObject* module);
bool add_client_types(PyObject* module);
bool add_server_types(PyObject* module);

}  // namespace framelane::python
