// SPDX-License-Identifier: MIT
#include "frame.hpp"

#include <type_traits>

#include "dlpack.hpp"

namespace framelane::python {
namespace {

PyTypeObject* frame_type;

constexpr Words kWords = {"frame", "hold() keeps a frame beyond its iteration"};

Frame* frame_of(PyObject* self) { return static_cast<Frame*>(block_of(self)); }

/// A property: what `get` makes of the library's frame.
template <auto get>
PyObject* property(PyObject* self, void*) {
  Frame* const frame = frame_of(self);
  if (!frame->check()) return nullptr;
  return get(static_cast<const framelane_frame*>(frame->lease->handle()));
}

PyObject* pts(const framelane_frame* frame) { return from_time(framelane_frame_pts(frame)); }
PyObject* dts(const framelane_frame* frame) { return from_time(framelane_frame_dts(frame)); }
PyObject* duration(const framelane_frame* frame) { return from_time(framelane_frame_duration(frame)); }
PyObject* seq(const framelane_frame* frame) { return PyLong_FromUnsignedLongLong(framelane_frame_seq(frame)); }
PyObject* skipped(const framelane_frame* frame) { return PyLong_FromUnsignedLongLong(framelane_frame_skipped(frame)); }
PyObject* flags(const framelane_frame* frame) { return PyLong_FromUnsignedLong(framelane_frame_flags(frame)); }
PyObject* type_id(const framelane_frame* frame) { return PyLong_FromUnsignedLong(framelane_frame_type_id(frame)); }
PyObject* due(const framelane_frame* frame) { return from_clock_time(framelane_frame_due(frame)); }
PyObject* slot(const framelane_frame* frame) { return PyLong_FromLong(framelane_frame_slot(frame)); }
PyObject* is_copy(const framelane_frame* frame) { return PyBool_FromLong(framelane_frame_is_copy(frame)); }

PyObject* latency(const framelane_frame* frame) {
  const std::int64_t ns = framelane_frame_latency(frame);
  if (ns < 0) Py_RETURN_NONE;
  return PyLong_FromLongLong(ns);
}

PyObject* published(const framelane_frame* frame) {
  const std::int64_t ns = framelane_frame_published(frame);
  if (ns == 0) Py_RETURN_NONE;
  return PyLong_FromLongLong(ns);
}

template <auto member>
PyObject* of_info(const framelane_frame* frame) {
  framelane_frame_info info;
  framelane_frame_info_init(&info, sizeof info);
  if (const framelane_code code = framelane_frame_get_info(frame, &info); code != FRAMELANE_OK) return raise(code);
  if constexpr (std::is_same_v<std::remove_cvref_t<decltype(info.*member)>, std::int64_t>) {
    return from_clock_time(info.*member);
  } else {
    return from_time(info.*member);
  }
}
PyObject* offset(const framelane_frame* frame) { return of_info<&framelane_frame_info::offset>(frame); }
PyObject* offset_end(const framelane_frame* frame) { return of_info<&framelane_frame_info::offset_end>(frame); }
PyObject* capture(const framelane_frame* frame) { return of_info<&framelane_frame_info::capture_ns>(frame); }

PyObject* side_data(const framelane_frame* frame) {
  std::size_t size = 0;
  const void* const data = framelane_frame_side_data(frame, &size);
  return PyBytes_FromStringAndSize(static_cast<const char*>(data), static_cast<Py_ssize_t>(size));
}

PyObject* caps(PyObject* self, void*) {
  Frame* const frame = frame_of(self);
  return frame->check() ? frame->layout->caps() : nullptr;
}

PyObject* hold(PyObject* self, PyObject*) {
  Frame* const frame = frame_of(self);
  if (!frame->check()) return nullptr;
  frame->held = true;
  return Ref::of(self).release();
}

PyObject* repr(PyObject* self) {
  Frame* const frame = frame_of(self);
  if (frame->lease == nullptr) return PyUnicode_FromString("<framelane.Frame, given back>");
  const auto* const handle = static_cast<const framelane_frame*>(frame->lease->handle());
  // The caps are another process's words: quoted, so that no control character of theirs reaches a terminal.
  const Ref caps(PyUnicode_FromFormat("%s", frame->layout->text()));
  if (!caps) return nullptr;
  return PyUnicode_FromFormat("<framelane.Frame %llu, %zu bytes, %R>",
                              static_cast<unsigned long long>(framelane_frame_seq(handle)), frame->size, caps.get());
}

PyMethodDef methods[] = {
    FRAMELANE_BLOCK_METHODS,
    {"hold", hold, METH_NOARGS,
     "hold()\n--\n\nKeeps the frame beyond its iteration: until release(), the end of a `with` block, or the last\n"
     "reference. Returns the frame. A consumer that holds max_held frames gets private copies of the next ones."},
    {"release", block_release, METH_NOARGS,
     "release()\n--\n\nGives the slot back now. Arrays and views that read it keep it until they are gone."},
    {"__enter__", block_enter, METH_NOARGS, nullptr},
    {"__exit__", block_release, METH_VARARGS, nullptr},
    {nullptr, nullptr, 0, nullptr}};

PyGetSetDef properties[] = {
    FRAMELANE_BLOCK_PROPERTIES,
    {"caps", caps, nullptr, "The format, a Caps.", nullptr},
    {"pts", property<pts>, nullptr, "Presentation time, ns of the stream's segment, or None.", nullptr},
    {"dts", property<dts>, nullptr, "Decoding time, ns of the stream's segment, or None.", nullptr},
    {"duration", property<duration>, nullptr, "ns, or None.", nullptr},
    {"offset", property<offset>, nullptr, "In units of the format (frames, samples or bytes), or None.", nullptr},
    {"offset_end", property<offset_end>, nullptr, "In units of the format, or None.", nullptr},
    {"seq", property<seq>, nullptr, "Its number among the lane's frames, from 0.", nullptr},
    {"skipped", property<skipped>, nullptr, "Frames that this consumer lost directly before this one.", nullptr},
    {"latency", property<latency>, nullptr, "From publish to take, ns, or None when it wasn't stamped.", nullptr},
    {"published", property<published>, nullptr, "When, ns of CLOCK_MONOTONIC (time.monotonic_ns()), or None.", nullptr},
    {"due", property<due>, nullptr, "When it is due, ns of CLOCK_MONOTONIC, or None.", nullptr},
    {"capture", property<capture>, nullptr, "When its content was captured, ns of CLOCK_MONOTONIC, or None.", nullptr},
    {"flags", property<flags>, nullptr, "Bits of framelane.Flag.", nullptr},
    {"type_id", property<type_id>, nullptr, "The application's own number for the kind of payload; 0: none.", nullptr},
    {"slot", property<slot>, nullptr, "Index of its slot, the same for each frame that reuses it; -1: in none.",
     nullptr},
    {"is_copy", property<is_copy>, nullptr, "True for a private copy, made because max_held frames are held.", nullptr},
    {"side_data", property<side_data>, nullptr, "Bytes that the producer sent beside the payload.", nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr}};

const char kDoc[] =
    "A received frame: reads the slot where the producer wrote it. numpy.asarray(f), memoryview(f) and from_dlpack(f)\n"
    "see it as one array (video with several planes and sets of tensors as bytes), f.numpy() by its format,\n"
    "f[\"y\"] or f[0] a single plane or tensor. All of it is read-only. In a `for` loop it is valid until the next\n"
    "one is asked for; hold() keeps it. After that each use raises ReleasedError, while arrays that were made of\n"
    "it stay valid.";

PyType_Slot slots[] = {{Py_tp_doc, const_cast<char*>(kDoc)},
                       {Py_tp_dealloc, reinterpret_cast<void*>(block_dealloc)},
                       {Py_tp_repr, reinterpret_cast<void*>(repr)},
                       {Py_tp_methods, methods},
                       {Py_tp_getset, properties},
                       {Py_mp_subscript, reinterpret_cast<void*>(block_subscript)},
                       {Py_bf_getbuffer, reinterpret_cast<void*>(block_get_buffer)},
                       {Py_bf_releasebuffer, reinterpret_cast<void*>(block_release_buffer)},
                       {0, nullptr}};
PyType_Spec spec = {"framelane.Frame", sizeof(Frame), 0, kFinal, slots};

}  // namespace

PyObject* make_frame(framelane_frame* handle, Layout* layout) {
  const auto give_back = [](void* frame) { framelane_frame_unref(static_cast<framelane_frame*>(frame)); };
  Lease* lease = Lease::make(handle, give_back);
  if (lease == nullptr) return PyErr_NoMemory();
  auto* const frame = make<Frame>(frame_type);
  if (frame == nullptr) {
    drop(lease);
    return nullptr;
  }
  frame->words = &kWords;
  frame->lease = lease;
  frame->layout = layout;
  layout->use();
  // Nobody writes there: `writable` stays false.
  frame->data = const_cast<std::byte*>(static_cast<const std::byte*>(framelane_frame_data(handle)));
  frame->size = framelane_frame_size(handle);
  return &frame->ob_base;
}

bool add_frame_type(PyObject* module) {
  frame_type = add_type(module, spec, "Frame");
  return frame_type != nullptr;
}

}  // namespace framelane::python
