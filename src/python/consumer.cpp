// SPDX-License-Identifier: MIT
#include "frame.hpp"
#include "handle.hpp"
#include "settings.hpp"
#include "stats.hpp"
#include "types.hpp"

namespace framelane::python {
namespace {

using ConsumerHandle = Handle<framelane_consumer, framelane_consumer_close, framelane_consumer_interrupt>;

struct Consumer {
  PyObject ob_base;
  ConsumerHandle handle;
  Layout* layout;  // of the last frame
  Frame* last;     // of the iteration
  std::int64_t timeout_ns;
  PyObject* lane;
};

PyTypeObject* consumer_type;

Consumer* consumer_of(PyObject* self) { return reinterpret_cast<Consumer*>(self); }
framelane_consumer* handle_of(PyObject* self) { return consumer_of(self)->handle.get("consumer"); }

#define FIELD(name) offsetof(framelane_consumer_settings, name)
const Setting kSettings[] = {
    {"mode", SettingKind::kChoice, FIELD(mode), {"every", "latest"}},
    {"gating", SettingKind::kBool, FIELD(gating)},
    {"reconnect", SettingKind::kBool, FIELD(reconnect)},
    {"max_held", SettingKind::kUint32, FIELD(max_held)},
    {"connect_timeout", SettingKind::kSeconds, FIELD(connect_timeout_ns)},
    {"max_frame_size", SettingKind::kUint64, FIELD(max_frame_size)},
    {"spin", SettingKind::kChoice, FIELD(spin), {"adaptive", "busy", "off"}},
    {"spin_budget", SettingKind::kDouble, FIELD(spin_budget)},
    {"transport", SettingKind::kChoice, FIELD(transport), {"auto", "shm", "uds", "tcp"}},
    {"psk_file", SettingKind::kText, FIELD(psk_file)},
};
#undef FIELD

PyObject* busy() {
  PyErr_SetString(PyExc_RuntimeError, "another thread is taking from this consumer; one at a time");
  return nullptr;
}

/// Waits for a frame: FRAMELANE_OK, an error of the library, or -1 with an exception set.
int take_handle(Consumer* self, std::int64_t timeout_ns, framelane_frame** frame) {
  framelane_consumer* const handle = self->handle.get("consumer");
  if (handle == nullptr) return -1;
  if (self->handle.is_used()) {
    busy();
    return -1;
  }
  // Where frames keep coming, the GIL isn't worth giving up.
  const int code = framelane_consumer_try_take(handle, frame);
  if (code != FRAMELANE_TIMEOUT || timeout_ns <= 0) return code;
  return self->handle.wait(timeout_ns, [frame](framelane_consumer* from, std::int64_t slice) {
    return framelane_consumer_take(from, slice, frame);
  });
}

/// The layout of `frame`. nullptr with an exception set.
Layout* layout_of(Consumer* self, const framelane_frame* frame) {
  const std::uint64_t id = framelane_frame_caps_id(frame);
  if (self->layout != nullptr && self->layout->caps_id() == id) return self->layout;
  framelane_format* format = nullptr;
  const framelane_code code = framelane_frame_get_format(frame, &format);
  if (code == FRAMELANE_PROTOCOL) {  // planes that can't lie where the stream says
    raise(code);
    return nullptr;
  }
  // Caps that nobody can parse are bytes to us; Frame.caps says their text.
  Layout* const layout = Layout::make(format, framelane_frame_caps(frame), id);
  if (self->layout != nullptr) self->layout->unuse();
  self->layout = layout;
  return layout;
}

PyObject* frame_or_raise(Consumer* self, int code, framelane_frame* frame) {
  if (code < 0) return nullptr;
  if (code != FRAMELANE_OK) return raise(static_cast<framelane_code>(code));
  Layout* const layout = layout_of(self, frame);
  if (layout == nullptr) {
    framelane_frame_unref(frame);
    return nullptr;
  }
  return make_frame(frame, layout);
}

PyObject* raise_timeout(std::int64_t timeout_ns, PyObject* lane) {
  const Ref seconds(PyFloat_FromDouble(static_cast<double>(timeout_ns) / 1e9));
  if (!seconds) return nullptr;
  const Ref words(PyUnicode_FromFormat("no frame of \"%U\" came within %S s", lane, seconds.get()));
  Py_ssize_t size = 0;
  const char* const text = words ? PyUnicode_AsUTF8AndSize(words.get(), &size) : nullptr;
  return text == nullptr ? nullptr : raise(FRAMELANE_TIMEOUT, "%s", text);
}

void give_last_back(Consumer* self) {
  Frame* const last = std::exchange(self->last, nullptr);
  if (last == nullptr) return;
  if (!last->held) last->give_back();
  Py_DECREF(&last->ob_base);
}

/// The next frame of the iteration; the one before is given back.
PyObject* iterate(Consumer* self, int code, framelane_frame* frame) {
  PyObject* const made = frame_or_raise(self, code, frame);
  if (made != nullptr) self->last = reinterpret_cast<Frame*>(Ref::of(made).release());
  return made;
}

PyObject* next(PyObject* object) {
  Consumer* const self = consumer_of(object);
  give_last_back(self);
  framelane_frame* frame = nullptr;
  const int code = take_handle(self, self->timeout_ns, &frame);
  if (code == FRAMELANE_END_OF_STREAM) return nullptr;  // StopIteration
  if (code == FRAMELANE_TIMEOUT) return raise_timeout(self->timeout_ns, self->lane);
  return iterate(self, code, frame);
}

/// For `async for`: the next frame of the iteration, None when none is there, False at the end.
PyObject* poll(PyObject* object, PyObject*) {
  Consumer* const self = consumer_of(object);
  give_last_back(self);
  framelane_frame* frame = nullptr;
  const int code = take_handle(self, 0, &frame);
  if (code == FRAMELANE_END_OF_STREAM) Py_RETURN_FALSE;
  if (code == FRAMELANE_TIMEOUT) Py_RETURN_NONE;
  return iterate(self, code, frame);
}

/// `timeout` given, or the consumer's own.
bool timeout_of(Consumer* self, PyObject* given, std::int64_t& ns) {
  ns = self->timeout_ns;
  return given == nullptr || to_timeout(given, ns);
}

PyObject* take(PyObject* object, PyObject* arguments, PyObject* named) {
  static const char* const kNames[] = {"timeout", nullptr};
  Consumer* const self = consumer_of(object);
  PyObject* timeout = nullptr;
  std::int64_t ns = 0;
  if (PyArg_ParseTupleAndKeywords(arguments, named, "|O", keywords(kNames), &timeout) == 0) return nullptr;
  if (!timeout_of(self, timeout, ns)) return nullptr;
  framelane_frame* frame = nullptr;
  const int code = take_handle(self, ns, &frame);
  if (code == FRAMELANE_TIMEOUT) return raise_timeout(ns, self->lane);
  return frame_or_raise(self, code, frame);
}

PyObject* take_many(PyObject* object, PyObject* arguments, PyObject* named) {
  static const char* const kNames[] = {"count", "timeout", nullptr};
  Consumer* const self = consumer_of(object);
  Py_ssize_t count = 0;
  PyObject* timeout = nullptr;
  std::int64_t ns = 0;
  if (PyArg_ParseTupleAndKeywords(arguments, named, "n|O", keywords(kNames), &count, &timeout) == 0) return nullptr;
  if (!timeout_of(self, timeout, ns)) return nullptr;
  if (count < 1) {
    PyErr_SetString(PyExc_ValueError, "take_many() takes at least one frame");
    return nullptr;
  }
  Ref frames(PyList_New(0));
  for (Py_ssize_t taken = 0; taken < count && frames; ++taken) {
    framelane_frame* frame = nullptr;
    const int code = take_handle(self, taken == 0 ? ns : 0, &frame);
    // What stands behind the last frame is said by the next call.
    if (taken > 0 && code > 0) break;
    if (code == FRAMELANE_TIMEOUT) return raise_timeout(ns, self->lane);
    const Ref made(frame_or_raise(self, code, frame));
    if (!made || PyList_Append(frames.get(), made.get()) != 0) return nullptr;
  }
  return frames.release();
}

PyObject* try_take(PyObject* object, PyObject*) {
  Consumer* const self = consumer_of(object);
  framelane_frame* frame = nullptr;
  const int code = take_handle(self, 0, &frame);
  if (code == FRAMELANE_TIMEOUT) Py_RETURN_NONE;
  return frame_or_raise(self, code, frame);
}

PyObject* connect(PyObject* object, PyObject* arguments, PyObject* named) {
  static const char* const kNames[] = {"timeout", nullptr};
  Consumer* const self = consumer_of(object);
  PyObject* timeout = nullptr;
  std::int64_t ns = 0;
  if (PyArg_ParseTupleAndKeywords(arguments, named, "|O", keywords(kNames), &timeout) == 0) return nullptr;
  if (!timeout_of(self, timeout, ns)) return nullptr;
  if (handle_of(object) == nullptr) return nullptr;
  if (self->handle.is_used()) return busy();
  const int code = self->handle.wait(ns, framelane_consumer_connect);
  if (code < 0) return nullptr;
  if (code != FRAMELANE_OK) return raise(static_cast<framelane_code>(code));
  Py_RETURN_NONE;
}

PyObject* fileno(PyObject* object, PyObject*) {
  framelane_consumer* const handle = handle_of(object);
  if (handle == nullptr) return nullptr;
  if (consumer_of(object)->handle.is_used()) return busy();  // the first call changes who waits
  int fd = -1;
  if (const framelane_code code = framelane_consumer_event_fd(handle, &fd); code != FRAMELANE_OK) return raise(code);
  return PyLong_FromLong(fd);
}

PyObject* request_key_unit(PyObject* object, PyObject*) {
  framelane_consumer* const handle = handle_of(object);
  if (handle == nullptr) return nullptr;
  framelane_upstream wish;
  framelane_upstream_init(&wish, sizeof wish);
  const framelane_code code = framelane_consumer_send_upstream(handle, &wish);
  if (code != FRAMELANE_OK) return raise(code);
  Py_RETURN_NONE;
}

PyObject* stats(PyObject* object, PyObject*) {
  framelane_consumer* const handle = handle_of(object);
  return handle == nullptr ? nullptr : consumer_stats(handle);
}

PyObject* close(PyObject* object, PyObject*) {
  Consumer* const self = consumer_of(object);
  give_last_back(self);
  self->handle.close();
  Py_RETURN_NONE;
}

PyObject* enter(PyObject* object, PyObject*) {
  return handle_of(object) == nullptr ? nullptr : Ref::of(object).release();
}

PyObject* iter(PyObject* object) { return Ref::of(object).release(); }

PyObject* aiter(PyObject* object) {
  const Ref module(PyImport_ImportModule("framelane._aio"));
  const Ref frames(module ? PyObject_GetAttrString(module.get(), "frames") : nullptr);
  return frames ? PyObject_CallFunctionObjArgs(frames.get(), object, nullptr) : nullptr;
}

PyObject* descriptor(PyObject* object, void*) {
  framelane_consumer* const handle = handle_of(object);
  return handle == nullptr ? nullptr : PyUnicode_FromString(framelane_consumer_descriptor(handle));
}

PyObject* lane(PyObject* object, void*) { return Ref::of(consumer_of(object)->lane).release(); }

PyObject* timeout(PyObject* object, void*) {
  const std::int64_t ns = consumer_of(object)->timeout_ns;
  if (ns == FRAMELANE_FOREVER) Py_RETURN_NONE;
  return PyFloat_FromDouble(static_cast<double>(ns) / 1e9);
}

PyObject* closed(PyObject* object, void*) { return PyBool_FromLong(consumer_of(object)->handle.is_open() ? 0 : 1); }

PyObject* new_consumer(PyTypeObject* type, PyObject* arguments, PyObject* named) {
  PyObject* lane = nullptr;
  if (PyArg_ParseTuple(arguments, "U:Consumer", &lane) == 0) return nullptr;
  const char* const name = text_of(lane, "a lane's name");
  const Ref settings(named == nullptr ? PyDict_New() : PyDict_Copy(named));
  if (name == nullptr || !settings) return nullptr;
  std::int64_t timeout_ns = FRAMELANE_FOREVER;
  if (PyObject* const given = PyDict_GetItemString(settings.get(), "timeout")) {
    if (!to_timeout(given, timeout_ns) || PyDict_DelItemString(settings.get(), "timeout") != 0) return nullptr;
  }
  framelane_consumer_settings wanted;
  framelane_consumer_settings_init(&wanted, sizeof wanted);
  if (!apply_settings(settings.get(), "Consumer", kSettings, std::size(kSettings), &wanted)) return nullptr;
  framelane_consumer* handle = nullptr;
  const framelane_code code = framelane_consumer_open(name, &wanted, &handle);
  if (code != FRAMELANE_OK) return raise(code);
  auto* const self = make<Consumer>(type);
  if (self == nullptr) {
    framelane_consumer_close(handle);
    return nullptr;
  }
  self->handle.set(handle);
  self->timeout_ns = timeout_ns;
  self->lane = Ref::of(lane).release();
  return &self->ob_base;
}

void dealloc(PyObject* object) {
  Consumer* const self = consumer_of(object);
  give_last_back(self);
  self->handle.close();
  if (self->layout != nullptr) self->layout->unuse();
  Py_XDECREF(self->lane);
  free_object(object);
}

PyMethodDef methods[] = {
    {"take", method(take), METH_VARARGS | METH_KEYWORDS,
     "take(timeout=...)\n--\n\nWaits for the next frame, at most `timeout` seconds (None: for ever; the default is\n"
     "the consumer's own). It is valid until release() or its last reference.\n"
     "Raises TimeoutError, EndOfStream, NotFound, PeerLost, Interrupted, ProtocolError, ..."},
    {"try_take", try_take, METH_NOARGS, "try_take()\n--\n\nThe next frame if it is there, else None; never waits."},
    {"take_many", method(take_many), METH_VARARGS | METH_KEYWORDS,
     "take_many(count, timeout=...)\n--\n\nWaits for one frame and takes up to `count` that are there, as a list.\n"
     "Beyond max_held they are private copies."},
    {"connect", method(connect), METH_VARARGS | METH_KEYWORDS,
     "connect(timeout=...)\n--\n\nWaits until a producer is connected; a take does that by itself."},
    {"fileno", fileno, METH_NOARGS,
     "fileno()\n--\n\nA descriptor for select, poll, epoll or an event loop: readable when a take wouldn't wait. It\n"
     "isn't to be read; call try_take() until it says None."},
    {"request_key_unit", request_key_unit, METH_NOARGS,
     "request_key_unit()\n--\n\nAsks the producer for a frame that stands alone (encoded video)."},
    {"stats", stats, METH_NOARGS,
     "stats()\n--\n\nThe counters as a dict; `latency` is a dict of its own, in ns. Any thread."},
    {"interrupt", act_on<handle_of, framelane_consumer_interrupt>, METH_NOARGS,
     "interrupt()\n--\n\nMakes takes raise Interrupted, until resume(). Any thread."},
    {"resume", act_on<handle_of, framelane_consumer_resume>, METH_NOARGS, "resume()\n--\n\nEnds interrupt()."},
    {"close", close, METH_NOARGS,
     "close()\n--\n\nLeaves the lane; a thread that waits raises Interrupted. Frames that are held stay readable."},
    {"_poll", poll, METH_NOARGS, nullptr},
    {"__enter__", enter, METH_NOARGS, nullptr},
    {"__exit__", close, METH_VARARGS, nullptr},
    {nullptr, nullptr, 0, nullptr}};

PyGetSetDef properties[] = {
    {"lane", lane, nullptr, "What it was opened with.", nullptr},
    {"descriptor", descriptor, nullptr, "The same in its one canonical spelling.", nullptr},
    {"timeout", timeout, nullptr, "Seconds that an iteration waits for a frame; None: for ever.", nullptr},
    {"closed", closed, nullptr, "True after close().", nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr}};

const char kDoc[] =
    "Consumer(lane, *, timeout=None, mode=\"every\", gating=True, reconnect=True, max_held=4, connect_timeout=10.0,\n"
    "         max_frame_size=268435456, spin=\"adaptive\", spin_budget=0.02, transport=\"auto\", psk_file=None)\n--\n\n"
    "Receiving end of a lane. `for f in consumer` (or `async for`) gives each frame, and ends at the end of the\n"
    "stream; `timeout` (seconds) bounds the wait for each one and raises TimeoutError. It connects in the first\n"
    "take, and again when the producer comes back, so either side may start first.\n\n"
    "mode: \"every\" frame in order, or always the \"latest\". gating: the producer waits for us. reconnect: wait for\n"
    "the lane to come back when the producer leaves without an end of stream; else PeerLost. max_held: frames that\n"
    "are held at once; further ones are private copies, counted in stats()[\"copied\"]. Times are seconds.\n"
    "One thread takes at a time; frames may be given back on any thread.";

PyType_Slot slots[] = {{Py_tp_doc, const_cast<char*>(kDoc)},
                       {Py_tp_new, reinterpret_cast<void*>(new_consumer)},
                       {Py_tp_dealloc, reinterpret_cast<void*>(dealloc)},
                       {Py_tp_methods, methods},
                       {Py_tp_getset, properties},
                       {Py_tp_iter, reinterpret_cast<void*>(iter)},
                       {Py_tp_iternext, reinterpret_cast<void*>(next)},
                       {Py_am_aiter, reinterpret_cast<void*>(aiter)},
                       {0, nullptr}};
PyType_Spec spec = {"framelane.Consumer", sizeof(Consumer), 0, Py_TPFLAGS_DEFAULT, slots};

}  // namespace

bool add_consumer_type(PyObject* module) {
  consumer_type = add_type(module, spec, "Consumer");
  return consumer_type != nullptr;
}

}  // namespace framelane::python
