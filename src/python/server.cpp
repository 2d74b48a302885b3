// SPDX-License-Identifier: MIT
#include "block.hpp"
#include "dlpack.hpp"
#include "handle.hpp"
#include "rpc.hpp"
#include "stats.hpp"
#include "types.hpp"

namespace framelane::python {
namespace {

using ServerHandle = Handle<framelane_server, framelane_server_close, framelane_server_interrupt>;

struct Server {
  PyObject ob_base;
  ServerHandle handle;
};

PyTypeObject* server_type;
PyTypeObject* request_type;

constexpr Words kWords = {"request", "read and answer it before that"};

Server* server_of(PyObject* self) { return reinterpret_cast<Server*>(self); }
framelane_server* handle_of(PyObject* self) { return server_of(self)->handle.get("server"); }

/// The library's request, nullptr with an exception set.
framelane_request* request_of(PyObject* self) {
  return block_of(self)->check() ? static_cast<framelane_request*>(block_of(self)->lease->handle()) : nullptr;
}

PyObject* make_request(framelane_request* handle) {
  const auto give_back = [](void* request) { framelane_request_free(static_cast<framelane_request*>(request)); };
  Lease* lease = Lease::make(handle, give_back);
  auto* const request = lease == nullptr ? nullptr : make<Block>(request_type);
  if (request == nullptr) {
    drop(lease);
    return PyErr_NoMemory();
  }
  request->words = &kWords;
  request->lease = lease;
  request->data = const_cast<std::byte*>(static_cast<const std::byte*>(framelane_request_data(handle)));
  request->size = framelane_request_size(handle);
  return &request->ob_base;
}

/// FRAMELANE_OK, an error of the library, or -1 with an exception set.
int next_handle(Server* self, std::int64_t timeout_ns, framelane_request** request) {
  if (self->handle.get("server") == nullptr) return -1;
  if (self->handle.is_used()) {
    PyErr_SetString(PyExc_RuntimeError, "another thread is waiting on this server; one at a time");
    return -1;
  }
  return self->handle.wait(timeout_ns, [request](framelane_server* handle, std::int64_t slice) {
    return framelane_server_next(handle, slice, request);
  });
}

PyObject* next(PyObject* self, PyObject* arguments, PyObject* named) {
  static const char* const kNames[] = {"timeout", nullptr};
  PyObject* timeout = nullptr;
  std::int64_t ns = 0;
  if (PyArg_ParseTupleAndKeywords(arguments, named, "|O", keywords(kNames), &timeout) == 0) return nullptr;
  if (!to_timeout(timeout, ns)) return nullptr;
  framelane_request* request = nullptr;
  const int code = next_handle(server_of(self), ns, &request);
  if (code < 0) return nullptr;
  return code == FRAMELANE_OK ? make_request(request) : raise(static_cast<framelane_code>(code));
}

PyObject* iterate(PyObject* self) {
  framelane_request* request = nullptr;
  const int code = next_handle(server_of(self), FRAMELANE_FOREVER, &request);
  if (code < 0 || code == FRAMELANE_INTERRUPTED) return nullptr;  // interrupt() ends the loop
  return code == FRAMELANE_OK ? make_request(request) : raise(static_cast<framelane_code>(code));
}

PyObject* iter(PyObject* self) { return Ref::of(self).release(); }

PyObject* stats(PyObject* self, PyObject*) {
  framelane_server* const handle = handle_of(self);
  return handle == nullptr ? nullptr : server_stats(handle);
}

PyObject* close(PyObject* self, PyObject*) {
  server_of(self)->handle.close();
  Py_RETURN_NONE;
}

PyObject* enter(PyObject* self, PyObject*) { return handle_of(self) == nullptr ? nullptr : Ref::of(self).release(); }

PyObject* new_server(PyTypeObject* type, PyObject* arguments, PyObject* named) {
  const char* lane = nullptr;
  framelane_rpc_settings settings;
  if (!rpc_settings(arguments, named, "Server", false, lane, settings)) return nullptr;
  framelane_server* handle = nullptr;
  if (const framelane_code code = framelane_server_open(lane, &settings, &handle); code != FRAMELANE_OK) {
    return raise(code);
  }
  auto* const self = make<Server>(type);
  if (self == nullptr) {
    framelane_server_close(handle);
    return nullptr;
  }
  self->handle.set(handle);
  return &self->ob_base;
}

void dealloc(PyObject* self) {
  server_of(self)->handle.close();
  free_object(self);
}

// --- requests

PyObject* respond(PyObject* self, PyObject* object) {
  Bytes answer;
  framelane_request* const request = answer.get(object) ? request_of(self) : nullptr;
  if (request == nullptr) return nullptr;
  Lease* const lease = block_of(self)->lease;  // another thread may give the request back meanwhile
  lease->use();
  const auto send = [&] { return framelane_request_respond(request, answer.data(), answer.size()); };
  const framelane_code code = answer.size() < kWithoutGil ? send() : without_gil(send);
  lease->unuse();
  if (code != FRAMELANE_OK) return raise(code);
  Py_RETURN_NONE;
}

PyObject* respond_error(PyObject* self, PyObject* arguments, PyObject* named) {
  static const char* const kNames[] = {"text", "code", nullptr};
  const char* text = nullptr;
  int number = FRAMELANE_REFUSED;
  if (PyArg_ParseTupleAndKeywords(arguments, named, "s|i", keywords(kNames), &text, &number) == 0) return nullptr;
  framelane_request* const request = request_of(self);
  if (request == nullptr) return nullptr;
  if (const framelane_code code = framelane_request_respond_error(request, number, text); code != FRAMELANE_OK) {
    return raise(code);
  }
  Py_RETURN_NONE;
}

PyObject* deadline(PyObject* self, void*) {
  framelane_request* const request = request_of(self);
  return request == nullptr ? nullptr : from_clock_time(framelane_request_deadline(request));
}

PyObject* cancelled(PyObject* self, void*) {
  framelane_request* const request = request_of(self);
  return request == nullptr ? nullptr : PyBool_FromLong(framelane_request_cancelled(request));
}

PyObject* answered(PyObject* self, void*) {
  framelane_request* const request = request_of(self);
  return request == nullptr ? nullptr : PyBool_FromLong(framelane_request_answered(request));
}

PyMethodDef server_methods[] = {
    {"next", method(next), METH_VARARGS | METH_KEYWORDS,
     "next(timeout=None)\n--\n\nWaits for the next request. Raises TimeoutError, Interrupted."},
    {"stats", stats, METH_NOARGS, "stats()\n--\n\nThe counters as a dict. Any thread."},
    {"interrupt", act_on<handle_of, framelane_server_interrupt>, METH_NOARGS,
     "interrupt()\n--\n\nEnds the loop over the server, until resume(). Any thread."},
    {"resume", act_on<handle_of, framelane_server_resume>, METH_NOARGS, "resume()\n--\n\nEnds interrupt()."},
    {"close", close, METH_NOARGS, "close()\n--\n\nLeaves both lanes: the client's waiting calls raise PeerLost."},
    {"__enter__", enter, METH_NOARGS, nullptr},
    {"__exit__", close, METH_VARARGS, nullptr},
    {nullptr, nullptr, 0, nullptr}};

const char kServerDoc[] =
    "Server(lane=None, *, requests=None, responses=None, burst=16, max_request_size=1048576,\n"
    "       max_response_size=1048576, spin=\"adaptive\", spin_budget=0.02, insecure=False, psk_file=None)\n--\n\n"
    "Answering end of a pair of lanes: `for request in server: request.respond(...)`. One thread waits at a time;\n"
    "requests may be answered on any, in any order.";

PyType_Slot server_slots[] = {{Py_tp_doc, const_cast<char*>(kServerDoc)},
                              {Py_tp_new, reinterpret_cast<void*>(new_server)},
                              {Py_tp_dealloc, reinterpret_cast<void*>(dealloc)},
                              {Py_tp_methods, server_methods},
                              {Py_tp_iter, reinterpret_cast<void*>(iter)},
                              {Py_tp_iternext, reinterpret_cast<void*>(iterate)},
                              {0, nullptr}};
PyType_Spec server_spec = {"framelane.Server", sizeof(Server), 0, Py_TPFLAGS_DEFAULT, server_slots};

PyMethodDef request_methods[] = {
    FRAMELANE_BLOCK_METHODS,
    {"respond", respond, METH_O, "respond(data)\n--\n\nAnswers with a copy of `data`; once."},
    {"respond_error", method(respond_error), METH_VARARGS | METH_KEYWORDS,
     "respond_error(text, code=13)\n--\n\nMakes the client's call raise: `code` is a number of the library's (13: "
     "Refused)."},
    {"release", block_release, METH_NOARGS, "release()\n--\n\nGives it back now; without an answer the call fails."},
    {"__enter__", block_enter, METH_NOARGS, nullptr},
    {"__exit__", block_release, METH_VARARGS, nullptr},
    {nullptr, nullptr, 0, nullptr}};

PyGetSetDef request_properties[] = {
    FRAMELANE_BLOCK_PROPERTIES,
    {"deadline", deadline, nullptr, "When the client stops waiting, ns of CLOCK_MONOTONIC, or None.", nullptr},
    {"cancelled", cancelled, nullptr, "True when nobody waits for the answer any more.", nullptr},
    {"answered", answered, nullptr, "True after respond() or respond_error().", nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr}};

const char kRequestDoc[] =
    "A request, read-only bytes where the client wrote them (bytes(request) copies). Answer it once; when the last\n"
    "reference goes without an answer, the client's call raises Refused.";

PyType_Slot request_slots[] = {{Py_tp_doc, const_cast<char*>(kRequestDoc)},
                               {Py_tp_dealloc, reinterpret_cast<void*>(block_dealloc)},
                               {Py_tp_methods, request_methods},
                               {Py_tp_getset, request_properties},
                               {Py_bf_getbuffer, reinterpret_cast<void*>(block_get_buffer)},
                               {Py_bf_releasebuffer, reinterpret_cast<void*>(block_release_buffer)},
                               {0, nullptr}};
PyType_Spec request_spec = {"framelane.Request", sizeof(Block), 0, kFinal, request_slots};

}  // namespace

bool add_server_types(PyObject* module) {
  server_type = add_type(module, server_spec, "Server");
  request_type = server_type == nullptr ? nullptr : add_type(module, request_spec, "Request");
  return request_type != nullptr;
}

}  // namespace framelane::python
