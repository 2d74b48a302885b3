// SPDX-License-Identifier: MIT
#include "producer.hpp"

#include <cstring>
#include <iterator>
#include <new>

#include "copy.hpp"
#include "info.hpp"
#include "settings.hpp"
#include "stats.hpp"
#include "tensors.hpp"
#include "types.hpp"

namespace framelane::python {
namespace {

PyTypeObject* producer_type;

Producer* producer_of(PyObject* self) { return reinterpret_cast<Producer*>(self); }
framelane_producer* handle_of(PyObject* self) { return producer_of(self)->handle.get("producer"); }

#define FIELD(name) offsetof(framelane_producer_settings, name)
const Setting kSettings[] = {
    {"burst", SettingKind::kUint32, FIELD(burst)},
    {"burst_time", SettingKind::kSeconds, FIELD(burst_time_ns)},
    {"leaky", SettingKind::kChoice, FIELD(leaky), {"no", "upstream", "downstream"}},
    {"full_timeout", SettingKind::kSeconds, FIELD(full_timeout_ns)},
    {"stall_timeout", SettingKind::kSeconds, FIELD(stall_timeout_ns)},
    {"history", SettingKind::kUint32, FIELD(history)},
    {"max_loans", SettingKind::kUint32, FIELD(max_loans)},
    {"max_held", SettingKind::kUint32, FIELD(max_held)},
    {"max_consumers", SettingKind::kUint32, FIELD(max_consumers)},
    {"max_frame_size", SettingKind::kUint64, FIELD(max_frame_size)},
    {"max_side_data", SettingKind::kUint32, FIELD(max_side_data)},
    {"stamps", SettingKind::kChoice, FIELD(stamps), {"auto", "on", "off"}},
    {"spin", SettingKind::kChoice, FIELD(spin), {"adaptive", "busy", "off"}},
    {"spin_budget", SettingKind::kDouble, FIELD(spin_budget)},
    {"linger", SettingKind::kSeconds, FIELD(linger_ns)},
    {"handshake_timeout", SettingKind::kSeconds, FIELD(handshake_timeout_ns)},
    {"transport", SettingKind::kChoice, FIELD(transport), {"auto", "shm", "uds", "tcp"}},
    {"insecure", SettingKind::kBool, FIELD(insecure)},
    {"psk_file", SettingKind::kText, FIELD(psk_file)},
    {"unsealed", SettingKind::kBool, FIELD(unsealed)},
};
#undef FIELD

PyObject* none_or_raise(framelane_code code) {
  if (code != FRAMELANE_OK) return raise(code);
  Py_RETURN_NONE;
}

bool set_layout(Producer* self, Layout* layout) {
  framelane_producer* const handle = layout == nullptr ? nullptr : self->handle.get("producer");
  if (handle == nullptr) {
    if (layout != nullptr) layout->unuse();
    return false;
  }
  const framelane_code code = self->call([&] { return framelane_producer_set_caps(handle, layout->text()); });
  if (code != FRAMELANE_OK) {
    layout->unuse();
    raise(code);
    return false;
  }
  if (self->layout != nullptr) self->layout->unuse();
  self->layout = layout;
  return true;
}

// --- loans and frames

/// Bytes of a frame: what is asked for, else what the caps say.
bool frame_size(const Producer* self, PyObject* size, PyObject* samples, std::size_t& bytes) {
  const bool audio = self->layout != nullptr && self->layout->kind() == FRAMELANE_FORMAT_AUDIO;
  if (samples != Py_None) {
    bytes = PyLong_AsSize_t(samples);
    if (PyErr_Occurred() == nullptr && !audio) PyErr_SetString(PyExc_ValueError, "only audio caps have samples");
    if (audio && __builtin_mul_overflow(bytes, self->layout->unit(), &bytes) && PyErr_Occurred() == nullptr)
      PyErr_SetString(PyExc_OverflowError, "more samples than memory can hold");
  } else if (size != Py_None) {
    bytes = PyLong_AsSize_t(size);
  } else if (self->layout == nullptr || self->layout->unit() == 0 || audio) {
    PyErr_SetString(PyExc_ValueError, audio ? "how many samples? loan(samples=480)"
                                            : "the caps don't say how large a frame is: loan(size) in bytes");
  } else {
    bytes = self->layout->unit();
  }
  if (PyErr_Occurred() != nullptr) return false;
  if (self->layout != nullptr && !audio && !self->layout->arrays().empty() && bytes < self->layout->unit()) {
    PyErr_Format(PyExc_ValueError, "%zu bytes are too few: a frame of %s has %zu", bytes, self->layout->text(),
                 static_cast<std::size_t>(self->layout->unit()));
    return false;
  }
  return true;
}

PyObject* loan(PyObject* self, PyObject* arguments, PyObject* named) {
  static const char* const kNames[] = {"size", "samples", nullptr};
  PyObject* size = Py_None;
  PyObject* samples = Py_None;
  if (PyArg_ParseTupleAndKeywords(arguments, named, "|O$O", keywords(kNames), &size, &samples) == 0) return nullptr;
  std::size_t bytes = 0;
  return frame_size(producer_of(self), size, samples, bytes) ? make_loan(producer_of(self), bytes) : nullptr;
}

/// What publish() was given beside the data.
struct Attributes {
  framelane_frame_info info;
  Ref side_data;
};

/// False with an exception set.
bool read_attributes(PyObject* named, Attributes& read) {
  framelane_frame_info_init(&read.info, sizeof read.info);
  PyObject* key = nullptr;
  PyObject* value = nullptr;
  for (Py_ssize_t at = 0; named != nullptr && PyDict_Next(named, &at, &key, &value) != 0;) {
    const char* const name = text_of(key, "a name");
    if (name == nullptr) return false;
    if (std::strcmp(name, "side_data") == 0) {
      read.side_data = Ref(PyBytes_FromObject(value));
      if (!read.side_data) return false;
      continue;
    }
    const int set = set_info(read.info, name, value);
    if (set == 0) {
      PyErr_Format(PyExc_TypeError,
                   "publish() has no \"%s\"; it has pts, dts, duration, offset, offset_end, due, "
                   "capture, flags, type_id, side_data",
                   name);
    }
    if (set != 1) return false;
  }
  return true;
}

/// A loan that carries `attributes`, which are used up. Empty with an exception set.
Ref loan_with(Producer* self, std::size_t size, Attributes& attributes) {
  Ref lent(make_loan(self, size));
  if (!lent) return lent;
  auto* const loan = static_cast<Loan*>(block_of(lent.get()));
  loan->info = attributes.info;
  loan->side_data = attributes.side_data.release();
  return lent;
}

PyObject* publish_if(bool filled, const Ref& lent) {
  return filled ? publish_loan(static_cast<Loan*>(block_of(lent.get()))) : nullptr;
}

/// Without a shape: copied by the library, which counts that.
PyObject* publish_bytes(Producer* self, const void* data, std::size_t size, const Attributes& attributes) {
  framelane_producer* const handle = self->handle.get("producer");
  framelane_publish_options options;
  if (handle == nullptr || !side_data_of(attributes.side_data.get(), options)) return nullptr;
  std::int32_t state = FRAMELANE_PUBLISHED;
  const framelane_code code = self->call(
      [&] { return framelane_producer_publish_copy(handle, data, size, &attributes.info, &options, &state); });
  return code != FRAMELANE_OK ? raise(code) : PyBool_FromLong(state == FRAMELANE_PUBLISHED ? 1 : 0);
}

PyObject* publish_shapeless(Producer* self, PyObject* data, const Attributes& attributes) {
  if (PyObject_CheckBuffer(data) != 0) {
    Bytes bytes;
    return bytes.get(data) ? publish_bytes(self, bytes.data(), bytes.size(), attributes) : nullptr;
  }
  Source source;
  if (!source.open(data)) return nullptr;
  if (source.array()->is_contiguous()) return publish_bytes(self, source.data(), source.size(), attributes);
  PyErr_SetString(PyExc_BufferError, "the array isn't contiguous, and the lane has no caps that say a shape");
  return nullptr;
}

bool check_count(Py_ssize_t given, std::size_t wanted) {
  if (static_cast<std::size_t>(given) == wanted) return true;
  PyErr_Format(PyExc_ValueError, "a frame has %zu arrays, not %zd", wanted, given);
  return false;
}

/// Audio, of which the data say how long it is.
PyObject* publish_audio(Producer* self, PyObject* data, Attributes& attributes) {
  PyObject* key = Py_Ellipsis;
  PyObject* value = data;
  if (PyDict_Check(data) != 0) {
    Py_ssize_t at = 0;
    if (!check_count(PyDict_Size(data), 1) || PyDict_Next(data, &at, &key, &value) == 0) return nullptr;
  }
  const Ref named(Ref::of(key));  // what open() runs may change the dict
  const Ref array(Ref::of(value));
  const std::size_t unit = self->layout->unit();
  Source source;
  if (!source.open(array.get())) return nullptr;
  const Ref lent(loan_with(self, source.size() / unit * unit, attributes));
  return lent ? publish_if(block_copy(lent.get(), named.get(), source), lent) : nullptr;
}

bool fill_from_dict(PyObject* loan, PyObject* arrays) {
  if (!check_count(PyDict_Size(arrays), block_of(loan)->layout->arrays().size())) return false;
  PyObject* key = nullptr;
  PyObject* value = nullptr;
  for (Py_ssize_t at = 0; PyDict_Next(arrays, &at, &key, &value) != 0;) {
    const Ref name(Ref::of(key));  // what the value runs may change the dict
    const Ref array(Ref::of(value));
    if (block_ass_subscript(loan, name.get(), array.get()) != 0) return false;
  }
  return true;
}

PyObject* publish(PyObject* object, PyObject* arguments, PyObject* named) {
  Producer* const self = producer_of(object);
  PyObject* data = nullptr;
  Attributes attributes;
  if (PyArg_ParseTuple(arguments, "O:publish", &data) == 0 || !read_attributes(named, attributes)) return nullptr;
  if (self->layout == nullptr || self->layout->arrays().empty()) return publish_shapeless(self, data, attributes);
  if (self->layout->kind() == FRAMELANE_FORMAT_AUDIO) return publish_audio(self, data, attributes);
  const Ref lent(loan_with(self, self->layout->unit(), attributes));
  if (!lent) return nullptr;
  return publish_if(PyDict_Check(data) != 0 ? fill_from_dict(lent.get(), data)
                                            : block_ass_subscript(lent.get(), Py_Ellipsis, data) == 0,
                    lent);
}

// --- the stream

PyObject* set_caps(PyObject* object, PyObject* caps) {
  const char* const text = text_of(caps, "caps");
  if (text == nullptr || !set_layout(producer_of(object), Layout::parse(text))) return nullptr;
  Py_RETURN_NONE;
}

PyObject* send_eos(PyObject* object, PyObject*) {
  framelane_producer* const handle = handle_of(object);
  if (handle == nullptr) return nullptr;
  return none_or_raise(producer_of(object)->call([&] { return framelane_producer_end_of_stream(handle); }));
}

PyObject* flush(PyObject* object, PyObject*) {
  framelane_producer* const handle = handle_of(object);
  if (handle == nullptr) return nullptr;
  return none_or_raise(producer_of(object)->call([&] { return framelane_producer_flush_stop(handle); }));
}

int event_type(const char* kind) {
  struct Named {
    const char* name;
    int type;
  };
  constexpr Named kNamed[] = {{"stream-start", FRAMELANE_EVENT_STREAM_START},
                              {"tag", FRAMELANE_EVENT_TAG},
                              {"gap", FRAMELANE_EVENT_GAP},
                              {"custom", FRAMELANE_EVENT_CUSTOM},
                              {"state", FRAMELANE_EVENT_STATE}};
  for (const Named& named : kNamed) {
    if (std::strcmp(named.name, kind) == 0) return named.type;
  }
  PyErr_Format(PyExc_ValueError, "there is no event \"%s\": stream-start, tag, gap, custom or state", kind);
  return 0;
}

PyObject* send_event(PyObject* object, PyObject* arguments, PyObject* named) {
  static const char* const kNames[] = {"kind", "text", "number", "pts", "duration", nullptr};
  const char* kind = nullptr;
  PyObject *pts = Py_None, *duration = Py_None;
  framelane_event event;
  framelane_event_init(&event, sizeof event);
  if (PyArg_ParseTupleAndKeywords(arguments, named, "s|sI$OO", keywords(kNames), &kind, &event.text, &event.number,
                                  &pts, &duration) == 0) {
    return nullptr;
  }
  framelane_producer* const handle = handle_of(object);
  event.type = handle == nullptr ? 0 : event_type(kind);
  if (event.type == 0) return nullptr;
  if (pts != Py_None) event.pts = PyLong_AsUnsignedLongLong(pts);
  if (duration != Py_None) event.duration = PyLong_AsUnsignedLongLong(duration);
  if (PyErr_Occurred() != nullptr) return nullptr;
  return none_or_raise(producer_of(object)->call([&] { return framelane_producer_send(handle, &event); }));
}

PyObject* request_dict(const framelane_upstream& request) {
  const char* const kinds[] = {"", "key-unit", "custom", "qos"};
  const char* const kind = request.type >= 1 && request.type <= 3 ? kinds[request.type] : "";
  return Py_BuildValue("{s:s,s:I,s:I,s:s,s:N,s:N}", "kind", kind, "consumer", request.consumer, "number",
                       request.number, "text", request.text == nullptr ? "" : request.text, "headers",
                       PyBool_FromLong(request.headers), "time", from_time(request.time));
}

PyObject* take_requests(PyObject* object, PyObject*) {
  framelane_producer* const handle = handle_of(object);
  Ref requests(handle == nullptr ? nullptr : PyList_New(0));
  while (requests) {
    framelane_upstream request;
    framelane_upstream_init(&request, sizeof request);
    const framelane_code code = framelane_producer_take_upstream(handle, &request);
    if (code == FRAMELANE_TIMEOUT) break;
    if (code != FRAMELANE_OK) return raise(code);
    const Ref one(request_dict(request));
    if (!one || PyList_Append(requests.get(), one.get()) != 0) return nullptr;
  }
  return requests.release();
}

// --- the lane

template <class Step>
PyObject* wait(PyObject* object, PyObject* timeout, Step step) {
  std::int64_t ns = 0;
  if (handle_of(object) == nullptr || !to_timeout(timeout, ns)) return nullptr;
  const int code = producer_of(object)->handle.wait(ns, step);
  return code < 0 ? nullptr : none_or_raise(static_cast<framelane_code>(code));
}

PyObject* wait_for_consumers(PyObject* object, PyObject* arguments, PyObject* named) {
  static const char* const kNames[] = {"count", "timeout", nullptr};
  unsigned count = 1;
  PyObject* timeout = nullptr;
  if (PyArg_ParseTupleAndKeywords(arguments, named, "|IO", keywords(kNames), &count, &timeout) == 0) return nullptr;
  return wait(object, timeout, [count](framelane_producer* handle, std::int64_t slice) {
    return framelane_producer_wait_for_consumers(handle, count, slice);
  });
}

PyObject* drain(PyObject* object, PyObject* arguments, PyObject* named) {
  static const char* const kNames[] = {"timeout", nullptr};
  PyObject* timeout = nullptr;
  if (PyArg_ParseTupleAndKeywords(arguments, named, "|O", keywords(kNames), &timeout) == 0) return nullptr;
  return wait(object, timeout, framelane_producer_drain);
}

PyObject* reserve(PyObject* object, PyObject* size) {
  const std::size_t bytes = PyLong_AsSize_t(size);
  framelane_producer* const handle = PyErr_Occurred() != nullptr ? nullptr : handle_of(object);
  if (handle == nullptr) return nullptr;
  return none_or_raise(producer_of(object)->call([&] { return framelane_producer_reserve(handle, bytes); }));
}

PyObject* stats(PyObject* object, PyObject*) {
  framelane_producer* const handle = handle_of(object);
  return handle == nullptr ? nullptr : producer_stats(handle);
}

PyObject* close(PyObject* object, PyObject*) {
  producer_of(object)->handle.close();
  Py_RETURN_NONE;
}

PyObject* enter(PyObject* object, PyObject*) {
  return handle_of(object) == nullptr ? nullptr : Ref::of(object).release();
}

/// A block that ends well ends the stream, too; after an exception consumers see a producer that was lost.
PyObject* leave(PyObject* object, PyObject* arguments) {
  PyObject *type = nullptr, *value = nullptr, *traceback = nullptr;
  if (PyArg_ParseTuple(arguments, "OOO", &type, &value, &traceback) == 0) return nullptr;
  if (type == Py_None && producer_of(object)->handle.is_open()) {
    const Ref ended(send_eos(object, nullptr));
    // A stream that has ended already is no fault.
    if (!ended && PyErr_ExceptionMatches(PyExc_ValueError) != 0) PyErr_Clear();
  }
  producer_of(object)->handle.close();
  if (PyErr_Occurred() != nullptr) return nullptr;
  Py_RETURN_NONE;
}

PyObject* caps(PyObject* object, void*) {
  Layout* const layout = producer_of(object)->layout;
  if (layout == nullptr) Py_RETURN_NONE;
  return layout->caps();
}

PyObject* num_consumers(PyObject* object, void*) {
  framelane_producer* const handle = handle_of(object);
  return handle == nullptr ? nullptr : PyLong_FromUnsignedLong(framelane_producer_num_consumers(handle));
}

PyObject* descriptor(PyObject* object, void*) {
  framelane_producer* const handle = handle_of(object);
  return handle == nullptr ? nullptr : PyUnicode_FromString(framelane_producer_descriptor(handle));
}

PyObject* lane(PyObject* object, void*) { return Ref::of(producer_of(object)->lane).release(); }
PyObject* closed(PyObject* object, void*) { return PyBool_FromLong(producer_of(object)->handle.is_open() ? 0 : 1); }

/// Takes `key` out of a dict: a new reference, or nullptr when it isn't there or None.
Ref taken(PyObject* dict, const char* key) {
  Ref value(Ref::of(PyDict_GetItemString(dict, key)));
  if (value) PyDict_DelItemString(dict, key);
  return value.get() == Py_None ? Ref() : std::move(value);
}

/// The layout that caps=, or tensors= and framerate=, ask for. False with an exception set; nullptr: none of them.
bool wanted_layout(PyObject* settings, Layout*& layout) {
  const Ref caps(taken(settings, "caps"));
  const Ref tensors(taken(settings, "tensors"));
  const Ref framerate(taken(settings, "framerate"));
  if ((caps && tensors) || (framerate && !tensors)) {
    PyErr_SetString(PyExc_TypeError, "give either caps, or tensors (and their framerate)");
    return false;
  }
  if (!caps && !tensors) return true;
  const char* const text = caps ? text_of(caps.get(), "caps") : nullptr;
  layout = tensors ? tensors_layout(tensors.get(), framerate.get()) : text == nullptr ? nullptr : Layout::parse(text);
  return layout != nullptr;
}

PyObject* new_producer(PyTypeObject* type, PyObject* arguments, PyObject* named) {
  PyObject* lane = nullptr;
  if (PyArg_ParseTuple(arguments, "U:Producer", &lane) == 0) return nullptr;
  const char* const name = text_of(lane, "a lane's name");
  const Ref settings(named == nullptr ? PyDict_New() : PyDict_Copy(named));
  Layout* layout = nullptr;
  if (name == nullptr || !settings || !wanted_layout(settings.get(), layout)) return nullptr;
  framelane_producer_settings wanted;
  framelane_producer_settings_init(&wanted, sizeof wanted);
  framelane_producer* handle = nullptr;
  const bool fine = apply_settings(settings.get(), "Producer", kSettings, std::size(kSettings), &wanted);
  const framelane_code code = fine ? framelane_producer_open(name, &wanted, &handle) : FRAMELANE_OK;
  auto* const self = handle == nullptr ? nullptr : make<Producer>(type);
  if (self == nullptr) {
    if (handle != nullptr) framelane_producer_close(handle);
    if (layout != nullptr) layout->unuse();
    return code == FRAMELANE_OK ? nullptr : raise(code);
  }
  Ref owned(&self->ob_base);
  self->handle.set(handle);
  self->publishing = new std::mutex;
  self->lane = Ref::of(lane).release();
  if (layout != nullptr && !set_layout(self, layout)) return nullptr;
  return owned.release();
}

void dealloc(PyObject* object) {
  Producer* const self = producer_of(object);
  self->handle.close();
  if (self->layout != nullptr) self->layout->unuse();
  delete self->publishing;
  Py_XDECREF(self->lane);
  free_object(object);
}

PyMethodDef methods[] = {
    {"loan", method(loan), METH_VARARGS | METH_KEYWORDS,
     "loan(size=None, *, samples=None)\n--\n\nLends a slot: `with p.loan() as f:` publishes it at the end of the\n"
     "block. The caps say how large it is; else `size` in bytes, or `samples` of audio. Raises Full when max_loans\n"
     "are out."},
    {"publish", method(publish), METH_VARARGS | METH_KEYWORDS,
     "publish(data, *, pts=None, dts=None, duration=None, offset=None, offset_end=None, due=None, capture=None,\n"
     "        flags=0, type_id=0, side_data=b\"\")\n--\n\n"
     "Copies bytes, an array (buffer protocol or DLPack), or a dict of arrays by name into a slot and publishes it.\n"
     "Its shape and type must be those of the caps: else ValueError. True: sent; False: dropped by the policy.\n"
     "Times are ns."},
    {"set_caps", set_caps, METH_O,
     "set_caps(text)\n--\n\nThe format of the frames from here on, in GStreamer's words."},
    {"send_eos", send_eos, METH_NOARGS,
     "send_eos()\n--\n\nEnds the stream: consumers' loops end behind the last frame. Leaving the producer's `with`\n"
     "block does that, too, unless it raises."},
    {"send_event", method(send_event), METH_VARARGS | METH_KEYWORDS,
     "send_event(kind, text=\"\", number=0, *, pts=None, duration=None)\n--\n\nSends an event in order with the\n"
     "frames: kind is \"stream-start\" (text = id), \"tag\", \"gap\" (pts, duration in ns), \"custom\" or \"state\"\n"
     "(text = serialised structure)."},
    {"flush", flush, METH_NOARGS, "flush()\n--\n\nConsumers drop the frames that they haven't taken yet."},
    {"take_requests", take_requests, METH_NOARGS,
     "take_requests()\n--\n\nWhat consumers asked for since the last call, a list of dicts; never waits."},
    {"wait_for_consumers", method(wait_for_consumers), METH_VARARGS | METH_KEYWORDS,
     "wait_for_consumers(count=1, timeout=None)\n--\n\nWaits until so many are connected. Raises TimeoutError."},
    {"drain", method(drain), METH_VARARGS | METH_KEYWORDS,
     "drain(timeout=None)\n--\n\nWaits until every gating consumer took everything. Raises TimeoutError."},
    {"reserve", reserve, METH_O, "reserve(size)\n--\n\nMakes room for frames of `size` bytes ahead of time."},
    {"stats", stats, METH_NOARGS,
     "stats()\n--\n\nThe counters as a dict; `consumers` is a list of dicts, latencies are in ns. Any thread."},
    {"interrupt", act_on<handle_of, framelane_producer_interrupt>, METH_NOARGS,
     "interrupt()\n--\n\nMakes waits raise Interrupted, until resume(). Any thread."},
    {"resume", act_on<handle_of, framelane_producer_resume>, METH_NOARGS, "resume()\n--\n\nEnds interrupt()."},
    {"close", close, METH_NOARGS, "close()\n--\n\nEnds the lane; consumers finish what is published."},
    {"__enter__", enter, METH_NOARGS, nullptr},
    {"__exit__", leave, METH_VARARGS, nullptr},
    {nullptr, nullptr, 0, nullptr}};

PyGetSetDef properties[] = {
    {"lane", lane, nullptr, "What it was opened with.", nullptr},
    {"descriptor", descriptor, nullptr, "Where the lane is, canonical, with the port that the system chose.", nullptr},
    {"caps", caps, nullptr, "The format, a Caps, or None.", nullptr},
    {"num_consumers", num_consumers, nullptr, "Consumers that are connected.", nullptr},
    {"closed", closed, nullptr, "True after close().", nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr}};

const char kDoc[] =
    "Producer(lane, *, caps=None, tensors=None, framerate=None, burst=8, burst_time=0, leaky=\"no\",\n"
    "         full_timeout=1.0, stall_timeout=5.0, history=0, max_loans=16, max_held=4, max_consumers=32,\n"
    "         max_frame_size=268435456, max_side_data=960, stamps=\"auto\", spin=\"adaptive\", spin_budget=0.02,\n"
    "         linger=2.0, handshake_timeout=2.0, transport=\"auto\",\n"
    "         insecure=False, psk_file=None, unsealed=False)\n--\n\n"
    "Sending end of a lane. The format is `caps` in GStreamer's words (\"video/x-raw, format=BGR, width=640, ...\"),\n"
    "or `tensors`, a dict of (dtype, shape) by name with shapes outermost dimension first, such as\n"
    "{\"mel\": (\"float32\", (80, 100))}, and their `framerate` (a number or a Fraction).\n\n"
    "burst: frames that the lane absorbs while a consumer pauses. leaky: what happens beyond: \"no\" waits up to\n"
    "full_timeout and then drops the new frame, \"upstream\" drops it at once, \"downstream\" takes the oldest one\n"
    "from the slow consumers. Times are seconds. Loans may be filled on any thread; frames are published one after\n"
    "the other.";

PyType_Slot slots[] = {{Py_tp_doc, const_cast<char*>(kDoc)},
                       {Py_tp_new, reinterpret_cast<void*>(new_producer)},
                       {Py_tp_dealloc, reinterpret_cast<void*>(dealloc)},
                       {Py_tp_methods, methods},
                       {Py_tp_getset, properties},
                       {0, nullptr}};
PyType_Spec spec = {"framelane.Producer", sizeof(Producer), 0, Py_TPFLAGS_DEFAULT, slots};

}  // namespace

bool add_producer_type(PyObject* module) {
  producer_type = add_type(module, spec, "Producer");
  return producer_type != nullptr;
}

}  // namespace framelane::python
