// SPDX-License-Identifier: MIT
// framelane._framelane: the types over the C ABI. The package's __init__.py gives them to its users.
#include "block.hpp"
#include "frame.hpp"
#include "types.hpp"

namespace framelane::python {
namespace {

PyModuleDef definition = {PyModuleDef_HEAD_INIT,
                          "_framelane",
                          "Frames between processes; use the package framelane.",
                          -1,
                          nullptr,
                          nullptr,
                          nullptr,
                          nullptr,
                          nullptr};

bool fill(PyObject* module) {
  return load_errors() && add_view_type(module) && add_frame_type(module) && add_consumer_type(module) &&
         add_loan_type(module) && add_producer_type(module) && add_client_types(module) && add_server_types(module) &&
         PyModule_AddStringConstant(module, "__version__", framelane_version()) == 0;
}

}  // namespace
}  // namespace framelane::python

PyMODINIT_FUNC PyInit__framelane() {  // NOLINT(bugprone-reserved-identifier): the name that CPython looks for
  framelane::python::Ref module(PyModule_Create(&framelane::python::definition));
  if (!module || !framelane::python::fill(module.get())) return nullptr;
  return module.release();
}
