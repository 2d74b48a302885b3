// SPDX-License-Identifier: MIT
#include <algorithm>

#include "block.hpp"
#include "handle.hpp"
#include "rpc.hpp"
#include "stats.hpp"
#include "types.hpp"

namespace framelane::python {
namespace {

using ClientHandle = Handle<framelane_client, framelane_client_close, framelane_client_interrupt>;

struct Client {
  PyObject ob_base;
  ClientHandle handle;
  std::int64_t connect_timeout_ns;
};

/// A request that was sent.
struct Call {
  PyObject ob_base;
  framelane_call* handle;
  Client* client;
  bool waiting;
};

PyTypeObject* client_type;
PyTypeObject* call_type;

Client* client_of(PyObject* self) { return reinterpret_cast<Client*>(self); }
Call* call_of(PyObject* self) { return reinterpret_cast<Call*>(self); }
framelane_client* handle_of(PyObject* self) { return client_of(self)->handle.get("client"); }

/// What a wait says when the call, not the wait, is over; the library's sentence stands.
constexpr int kOver = -2;

PyObject* view_of(framelane_response* response) {
  const auto give_back = [](void* handle) { framelane_response_unref(static_cast<framelane_response*>(handle)); };
  Lease* const lease = Lease::make(response, give_back);
  if (lease == nullptr) return PyErr_NoMemory();
  const std::size_t size = framelane_response_size(response);
  auto* const data = static_cast<const std::byte*>(framelane_response_data(response));
  return make_view(lease, const_cast<std::byte*>(data), size, bytes_array(size), false);
}

/// The answer of a call, which `timeout_ns` bounds the wait for. nullptr with an exception set.
PyObject* answer_of(Client* client, framelane_call* call, std::int64_t timeout_ns) {
  framelane_response* response = nullptr;
  const int code = client->handle.wait(timeout_ns, [&](framelane_client*, std::int64_t slice) -> int {
    const framelane_code said = framelane_call_wait(call, slice, &response);
    return said == FRAMELANE_TIMEOUT && framelane_call_pending(call) == 0 ? kOver : said;
  });
  if (code == -1) return nullptr;
  if (code != FRAMELANE_OK) return raise(code == kOver ? FRAMELANE_TIMEOUT : static_cast<framelane_code>(code));
  return view_of(response);
}

/// Connects, in slices. Each of them is a connect of its own to the library, so connect_timeout, which bounds them all,
/// is counted here. False with an exception set.
bool connect_until(Client* client, std::int64_t deadline_ns) {
  const std::int64_t own = deadline_after(client->connect_timeout_ns);
  const int code = client->handle.wait(left_until(std::min(deadline_ns, own)), framelane_client_connect);
  if (code == FRAMELANE_TIMEOUT && own <= deadline_ns) {
    raise(FRAMELANE_NOT_FOUND, "%s, or raise connect_timeout", framelane_error_text());
  } else if (code > 0) {
    raise(static_cast<framelane_code>(code));
  }
  return code == FRAMELANE_OK;
}

/// Connects and sends; the answer may come until the deadline. nullptr with an exception set.
framelane_call* start_call(Client* client, const Bytes& request, std::int64_t deadline_ns) {
  framelane_client* const to = client->handle.get("client");
  if (to == nullptr) return nullptr;
  if (framelane_client_connected(to) == 0 && !connect_until(client, deadline_ns)) return nullptr;
  if (client->handle.get("client") == nullptr) return nullptr;  // closed meanwhile
  framelane_call* call = nullptr;
  // The first request of its size makes slots, which takes as long as zeroing them.
  const framelane_code code = client->handle.call([&](framelane_client* handle) {
    return framelane_client_start(handle, request.data(), request.size(), left_until(deadline_ns), &call);
  });
  if (code != FRAMELANE_OK) raise(code);
  return call;
}

bool parse(PyObject* arguments, PyObject* named, Bytes& request, std::int64_t& timeout_ns) {
  static const char* const kNames[] = {"request", "timeout", nullptr};
  PyObject* object = nullptr;
  PyObject* timeout = nullptr;
  return PyArg_ParseTupleAndKeywords(arguments, named, "O|O", keywords(kNames), &object, &timeout) != 0 &&
         request.get(object) && to_timeout(timeout, timeout_ns);
}

PyObject* call(PyObject* self, PyObject* arguments, PyObject* named) {
  Bytes request;
  std::int64_t ns = 0;
  if (!parse(arguments, named, request, ns)) return nullptr;
  const std::int64_t deadline = deadline_after(ns);
  framelane_call* const sent = start_call(client_of(self), request, deadline);
  if (sent == nullptr) return nullptr;
  PyObject* const answer = answer_of(client_of(self), sent, left_until(deadline));
  framelane_call_free(sent);
  return answer;
}

PyObject* start(PyObject* self, PyObject* arguments, PyObject* named) {
  Bytes request;
  std::int64_t ns = 0;
  if (!parse(arguments, named, request, ns)) return nullptr;
  framelane_call* const sent = start_call(client_of(self), request, deadline_after(ns));
  if (sent == nullptr) return nullptr;
  auto* const made = make<Call>(call_type);
  if (made == nullptr) {
    framelane_call_free(sent);
    return nullptr;
  }
  made->handle = sent;
  made->client = client_of(Ref::of(self).release());
  return &made->ob_base;
}

PyObject* wait(PyObject* self, PyObject* arguments, PyObject* named) {
  static const char* const kNames[] = {"timeout", nullptr};
  Call* const call = call_of(self);
  PyObject* timeout = nullptr;
  std::int64_t ns = 0;
  if (PyArg_ParseTupleAndKeywords(arguments, named, "|O", keywords(kNames), &timeout) == 0) return nullptr;
  if (!to_timeout(timeout, ns) || call->client->handle.get("client") == nullptr) return nullptr;
  if (call->waiting) {
    PyErr_SetString(PyExc_RuntimeError, "another thread waits for this call");
    return nullptr;
  }
  if (call->handle == nullptr) return raise(FRAMELANE_INVALID_ARGUMENT, "the call was cancelled");
  call->waiting = true;
  PyObject* const answer = answer_of(call->client, call->handle, ns);
  call->waiting = false;
  return answer;
}

PyObject* cancel(PyObject* self, PyObject*) {
  Call* const call = call_of(self);
  if (call->waiting) {
    PyErr_SetString(PyExc_RuntimeError, "another thread waits for this call");
    return nullptr;
  }
  framelane_call_free(std::exchange(call->handle, nullptr));
  Py_RETURN_NONE;
}

PyObject* pending(PyObject* self, void*) {
  Call* const call = call_of(self);
  if (call->waiting) Py_RETURN_TRUE;  // the handle is that thread's alone
  return PyBool_FromLong(call->handle == nullptr ? 0 : framelane_call_pending(call->handle));
}

void dealloc_call(PyObject* self) {
  framelane_call_free(call_of(self)->handle);
  Py_XDECREF(&call_of(self)->client->ob_base);
  free_object(self);
}

PyObject* connect(PyObject* self, PyObject* arguments, PyObject* named) {
  static const char* const kNames[] = {"timeout", nullptr};
  PyObject* timeout = nullptr;
  std::int64_t ns = 0;
  if (PyArg_ParseTupleAndKeywords(arguments, named, "|O", keywords(kNames), &timeout) == 0) return nullptr;
  if (handle_of(self) == nullptr || !to_timeout(timeout, ns)) return nullptr;
  if (!connect_until(client_of(self), deadline_after(ns))) return nullptr;
  Py_RETURN_NONE;
}

PyObject* stats(PyObject* self, PyObject*) {
  framelane_client* const handle = handle_of(self);
  return handle == nullptr ? nullptr : client_stats(handle);
}

PyObject* close(PyObject* self, PyObject*) {
  client_of(self)->handle.close();
  Py_RETURN_NONE;
}

PyObject* enter(PyObject* self, PyObject*) { return handle_of(self) == nullptr ? nullptr : Ref::of(self).release(); }

PyObject* connected(PyObject* self, void*) {
  framelane_client* const handle = handle_of(self);
  return handle == nullptr ? nullptr : PyBool_FromLong(framelane_client_connected(handle));
}

PyObject* new_client(PyTypeObject* type, PyObject* arguments, PyObject* named) {
  const char* lane = nullptr;
  framelane_rpc_settings settings;
  if (!rpc_settings(arguments, named, "Client", true, lane, settings)) return nullptr;
  framelane_client* handle = nullptr;
  if (const framelane_code code = framelane_client_open(lane, &settings, &handle); code != FRAMELANE_OK) {
    return raise(code);
  }
  auto* const self = make<Client>(type);
  if (self == nullptr) {
    framelane_client_close(handle);
    return nullptr;
  }
  self->handle.set(handle);
  self->connect_timeout_ns = settings.connect_timeout_ns;
  return &self->ob_base;
}

void dealloc_client(PyObject* self) {
  client_of(self)->handle.close();
  free_object(self);
}

PyMethodDef client_methods[] = {
    {"call", method(call), METH_VARARGS | METH_KEYWORDS,
     "call(request, timeout=None)\n--\n\nSends bytes and waits for the answer, a read-only View on the frame in which\n"
     "the server wrote it (bytes(answer) copies it). The server drops a request whose timeout (seconds) is over.\n"
     "Raises TimeoutError, PeerLost, Full, TooLarge, ..., and what the server answers with respond_error()."},
    {"start", method(start), METH_VARARGS | METH_KEYWORDS,
     "start(request, timeout=None)\n--\n\nSends bytes; the answer comes from the Call's wait(). Up to `burst` at a "
     "time."},
    {"connect", method(connect), METH_VARARGS | METH_KEYWORDS,
     "connect(timeout=None)\n--\n\nWaits until a server is there; a call does that by itself."},
    {"stats", stats, METH_NOARGS, "stats()\n--\n\nThe counters as a dict. Any thread."},
    {"interrupt", act_on<handle_of, framelane_client_interrupt>, METH_NOARGS,
     "interrupt()\n--\n\nMakes waits raise Interrupted, until resume(). Any thread."},
    {"resume", act_on<handle_of, framelane_client_resume>, METH_NOARGS, "resume()\n--\n\nEnds interrupt()."},
    {"close", close, METH_NOARGS, "close()\n--\n\nLeaves both lanes. Answers stay readable."},
    {"__enter__", enter, METH_NOARGS, nullptr},
    {"__exit__", close, METH_VARARGS, nullptr},
    {nullptr, nullptr, 0, nullptr}};

PyGetSetDef client_properties[] = {{"connected", connected, nullptr, "True while a server is there.", nullptr},
                                   {nullptr, nullptr, nullptr, nullptr, nullptr}};

const char kClientDoc[] =
    "Client(lane=None, *, requests=None, responses=None, burst=16, max_request_size=1048576,\n"
    "       max_response_size=1048576, connect_timeout=10.0, spin=\"adaptive\", spin_budget=0.02,\n"
    "       insecure=False, psk_file=None)\n--\n\n"
    "Asking end of a pair of lanes: bytes to a Server, and each one's answer. Any thread may call.";

PyType_Slot client_slots[] = {{Py_tp_doc, const_cast<char*>(kClientDoc)},
                              {Py_tp_new, reinterpret_cast<void*>(new_client)},
                              {Py_tp_dealloc, reinterpret_cast<void*>(dealloc_client)},
                              {Py_tp_methods, client_methods},
                              {Py_tp_getset, client_properties},
                              {0, nullptr}};
PyType_Spec client_spec = {"framelane.Client", sizeof(Client), 0, Py_TPFLAGS_DEFAULT, client_slots};

PyMethodDef call_methods[] = {
    {"wait", method(wait), METH_VARARGS | METH_KEYWORDS,
     "wait(timeout=None)\n--\n\nThe answer, as of Client.call(). TimeoutError with `pending` still True: wait again."},
    {"cancel", cancel, METH_NOARGS, "cancel()\n--\n\nGives the call up, and tells the server."},
    {nullptr, nullptr, 0, nullptr}};

PyGetSetDef call_properties[] = {
    {"pending", pending, nullptr, "True until it was answered, failed or given up.", nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr}};

PyType_Slot call_slots[] = {
    {Py_tp_doc, const_cast<char*>(
                    "A request that was sent and has no answer yet. When the last reference goes, it is cancelled.")},
    {Py_tp_dealloc, reinterpret_cast<void*>(dealloc_call)},
    {Py_tp_methods, call_methods},
    {Py_tp_getset, call_properties},
    {0, nullptr}};
PyType_Spec call_spec = {"framelane.Call", sizeof(Call), 0, kFinal, call_slots};

}  // namespace

bool add_client_types(PyObject* module) {
  client_type = add_type(module, client_spec, "Client");
  call_type = client_type == nullptr ? nullptr : add_type(module, call_spec, "Call");
  return call_type != nullptr;
}

}  // namespace framelane::python
