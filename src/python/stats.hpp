// SPDX-License-Identifier: MIT
// Counters as dicts. Each function returns nullptr with an exception set.
#pragma once

#include "object.hpp"

namespace framelane::python {

PyObject* consumer_stats(const framelane_consumer* consumer);
PyObject* producer_stats(const framelane_producer* producer);
PyObject* client_stats(const framelane_client* client);
PyObject* server_stats(const framelane_server* server);

}  // namespace framelane::python
