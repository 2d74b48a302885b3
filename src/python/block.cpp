// SPDX-License-Identifier: MIT
#include "block.hpp"

#include <new>

#include "copy.hpp"
#include "dlpack.hpp"

namespace framelane::python {

const char kNumpyDoc[] =
    "numpy()\n--\n\n"
    "The frame as numpy arrays on the lane's own memory: nothing is copied. A received frame's can't be written to.\n\n"
    "Packed video (BGR, RGB, GRAY8, ...): one array [height, width, channels]. Planar video: a dict of planes by\n"
    "name, \"y\" [height, width], and \"u\", \"v\" [rows, columns] or \"uv\" [rows, columns, 2], with the strides\n"
    "of the frame. Audio: [samples, channels]. A tensor: its own shape; several: a dict by name. All else: uint8\n"
    "[bytes]. The slot goes back to the lane when the last array is gone.";

const char kDlpackDoc[] =
    "__dlpack__(*, stream=None, max_version=None, dl_device=None, copy=None)\n--\n\n"
    "For from_dlpack() of numpy, torch, jax, ...: the lane's own memory, or with copy=True a private copy. Read-only\n"
    "memory is marked so from max_version (1, 0) on. Who asks without it is told nothing: torch then has a tensor\n"
    "that mustn't be written to (the process would get SIGSEGV); give it copy=True where that could happen.";

namespace {

PyTypeObject* view_type;

constexpr Words kViewWords = {"view", "take another one of its frame, loan or answer"};

/// Whether the bytes lie in the order that `flags` ask for.
bool is_in_order(const Array& array, int flags) {
  const auto asks_for = [flags](int what) { return (flags & what) == what; };
  if (asks_for(PyBUF_F_CONTIGUOUS)) return array.is_fortran_contiguous();
  if (asks_for(PyBUF_ANY_CONTIGUOUS)) return array.is_contiguous() || array.is_fortran_contiguous();
  return (asks_for(PyBUF_STRIDES) && !asks_for(PyBUF_C_CONTIGUOUS)) || array.is_contiguous();
}

/// Fills in a Py_buffer as `flags` ask. False with an exception set.
bool fill(Py_buffer* view, const Array& array, std::byte* data, bool writable, int flags) {
  if ((flags & PyBUF_WRITABLE) != 0 && !writable) {
    PyErr_SetString(PyExc_BufferError, "a received frame is read-only; copy it to change it");
    return false;
  }
  if (!is_in_order(array, flags)) {
    PyErr_SetString(PyExc_BufferError, "its bytes aren't contiguous in the order asked for; its rows may be padded");
    return false;
  }
  view->buf = data + array.offset;
  view->len = array.size();
  view->itemsize = array.element.size;
  view->readonly = writable ? 0 : 1;
  view->ndim = array.rank;
  view->format = (flags & PyBUF_FORMAT) != 0 ? const_cast<char*>(array.element.format) : nullptr;
  view->shape = (flags & PyBUF_ND) != 0 ? const_cast<Py_ssize_t*>(array.shape.data()) : nullptr;
  view->strides = (flags & PyBUF_STRIDES) == PyBUF_STRIDES ? const_cast<Py_ssize_t*>(array.strides.data()) : nullptr;
  view->suboffsets = nullptr;
  return true;
}

PyObject* as_numpy(PyObject* object) {
  static PyObject* asarray = nullptr;  // lives with the process
  if (asarray == nullptr) {
    const Ref numpy(PyImport_ImportModule("numpy"));
    if (!numpy) return nullptr;
    asarray = PyObject_GetAttrString(numpy.get(), "asarray");
    if (asarray == nullptr) return nullptr;
  }
  return PyObject_CallFunctionObjArgs(asarray, object, nullptr);
}

PyObject* view_at(Block* block, std::size_t index) {
  Array array;
  if (!block->layout->array(index, block->size, array)) return nullptr;
  block->lease->use();
  return make_view(block->lease, block->data, block->size, array, block->writable);
}

/// The array that a key names; -1 with an exception set.
int index_of(Block* block, PyObject* key) {
  const std::size_t count = block->layout == nullptr ? 0 : block->layout->arrays().size();
  if (PyUnicode_Check(key) != 0) {
    const char* const name = text_of(key, "a name");
    if (name == nullptr) return -1;
    const int index = block->layout == nullptr ? -1 : block->layout->find(name);
    if (index < 0) {
      Ref names(PyList_New(0));
      for (std::size_t i = 0; i < count && names; ++i) {
        const Ref one(PyUnicode_FromString(block->layout->arrays()[i].name.c_str()));
        if (!one || PyList_Append(names.get(), one.get()) != 0) return -1;
      }
      if (names) PyErr_Format(PyExc_KeyError, "there is no \"%s\" here, only %S", name, names.get());
    }
    return index;
  }
  const Py_ssize_t index = PyNumber_AsSsize_t(key, PyExc_IndexError);
  if (index == -1 && PyErr_Occurred() != nullptr) return -1;
  if (index < 0 || static_cast<std::size_t>(index) >= count) {
    PyErr_Format(PyExc_IndexError, "there are %zu arrays here, counted from 0", count);
    return -1;
  }
  return static_cast<int>(index);
}

/// `key`'s array, or for ... the `whole` of it, becomes a copy of `source`. False with an exception set.
bool copy_into(Block* block, const Array& whole, PyObject* key, const Source& source) {
  if (key == Py_Ellipsis) {
    // A whole frame may also come as its bytes, padding and all.
    const bool flat = !block->is_view && source.is_flat(block->size);
    const Array array = flat ? bytes_array(block->size) : whole;
    return copy_source(array, block->data + array.offset, source);
  }
  Array named;
  const int index = index_of(block, key);
  return index >= 0 && block->layout->array(static_cast<std::size_t>(index), block->size, named) &&
         copy_source(named, block->data + named.offset, source);
}

PyMethodDef view_methods[] = {
    FRAMELANE_BLOCK_METHODS,
    {"release", block_release, METH_NOARGS, "Gives it back now, instead of when the last reference goes."},
    {"__enter__", block_enter, METH_NOARGS, nullptr},
    {"__exit__", block_release, METH_VARARGS, nullptr},
    {nullptr, nullptr, 0, nullptr}};
PyGetSetDef view_properties[] = {FRAMELANE_BLOCK_PROPERTIES, {nullptr, nullptr, nullptr, nullptr, nullptr}};

const char kViewDoc[] =
    "An array in a frame, a loan or an answer: numpy.asarray(), memoryview() and from_dlpack() read the lane's own\n"
    "memory. The slot stays with us as long as any of them lives. Of a loan: view[...] = x copies into it, and\n"
    "refuses what has another shape or type.";

PyType_Slot view_slots[] = {{Py_tp_doc, const_cast<char*>(kViewDoc)},
                            {Py_tp_dealloc, reinterpret_cast<void*>(block_dealloc)},
                            {Py_tp_methods, view_methods},
                            {Py_tp_getset, view_properties},
                            {Py_mp_ass_subscript, reinterpret_cast<void*>(block_ass_subscript)},
                            {Py_bf_getbuffer, reinterpret_cast<void*>(block_get_buffer)},
                            {Py_bf_releasebuffer, reinterpret_cast<void*>(block_release_buffer)},
                            {0, nullptr}};
PyType_Spec view_spec = {"framelane.View", sizeof(Block), 0, kFinal, view_slots};

}  // namespace

bool Block::check() const {
  if (lease == nullptr) {
    raise_released(words->what, words->advice);
    return false;
  }
  return check_process(lease->made_in(), words->what);
}

const Array* Block::whole() {
  if (!check()) return nullptr;
  if (own != nullptr) return own;
  const bool fixed = layout != nullptr && layout->arrays().size() == 1 && layout->kind() != FRAMELANE_FORMAT_AUDIO;
  if (fixed) {
    const Array& only = layout->arrays()[0];
    if (only.offset + static_cast<std::uint64_t>(only.reach()) <= size) return &only;
  }
  Array array = bytes_array(size);
  if (layout != nullptr && !layout->whole(size, array)) return nullptr;
  own = new Array(std::move(array));
  return own;
}

void Block::give_back() noexcept { drop(lease); }

PyObject* make_view(Lease* lease, std::byte* data, std::size_t size, const Array& array, bool writable) {
  auto* const view = make<Block>(view_type);
  if (view == nullptr) {
    lease->unuse();
    return nullptr;
  }
  view->words = &kViewWords;
  view->lease = lease;
  view->data = data;
  view->size = size;
  view->own = new Array(array);
  view->writable = writable;
  view->is_view = true;
  return &view->ob_base;
}

void block_dealloc(PyObject* self) {
  Block* const block = block_of(self);
  drop(block->lease);
  if (block->layout != nullptr) block->layout->unuse();
  delete block->own;
  free_object(self);
}

int block_get_buffer(PyObject* self, Py_buffer* view, int flags) {
  Block* const block = block_of(self);
  const Array* const array = block->whole();
  view->obj = nullptr;
  if (array == nullptr || !fill(view, *array, block->data, block->writable, flags)) return -1;
  block->lease->use();
  view->internal = block->lease;
  Py_INCREF(self);
  view->obj = self;
  return 0;
}

void block_release_buffer(PyObject*, Py_buffer* view) { static_cast<Lease*>(view->internal)->unuse(); }

PyObject* block_subscript(PyObject* self, PyObject* key) {
  Block* const block = block_of(self);
  const int index = block->check() ? index_of(block, key) : -1;
  // The key's __index__() may have given it back.
  return index < 0 || !block->check() ? nullptr : view_at(block, static_cast<std::size_t>(index));
}

int block_ass_subscript(PyObject* self, PyObject* key, PyObject* value) {
  Block* const block = block_of(self);
  const Array* const array = block->whole();
  if (array == nullptr) return -1;
  if (!block->writable || value == nullptr) {
    PyErr_SetString(PyExc_TypeError, block->writable ? "arrays can't be deleted" : "a received frame is read-only");
    return -1;
  }
  // What the key and the value run, and other threads while the bytes are copied, may give it back meanwhile.
  Lease* const lease = block->lease;
  lease->use();
  Source source;
  const bool copied = source.open(value) && copy_into(block, *array, key, source);
  lease->unuse();
  return copied ? 0 : -1;
}

bool block_copy(PyObject* self, PyObject* key, const Source& source) {
  Block* const block = block_of(self);
  const Array* const array = block->whole();
  if (array == nullptr) return false;
  Lease* const lease = block->lease;  // as above
  lease->use();
  const bool copied = copy_into(block, *array, key, source);
  lease->unuse();
  return copied;
}

PyObject* block_numpy(PyObject* self, PyObject*) {
  Block* const block = block_of(self);
  if (!block->check()) return nullptr;
  const std::size_t count = block->is_view || block->layout == nullptr ? 0 : block->layout->arrays().size();
  if (count < 2) return as_numpy(self);
  Ref arrays(PyDict_New());
  for (std::size_t i = 0; i < count && arrays; ++i) {
    const Ref view(view_at(block, i));
    PyObject* const array = view ? as_numpy(view.get()) : nullptr;
    if (!put(arrays.get(), block->layout->arrays()[i].name.c_str(), array)) return nullptr;
  }
  return arrays.release();
}

PyObject* block_release(PyObject* self, PyObject*) {
  block_of(self)->give_back();
  Py_RETURN_NONE;
}

PyObject* block_enter(PyObject* self, PyObject*) {
  if (!block_of(self)->check()) return nullptr;
  return Ref::of(self).release();
}

PyObject* block_address(PyObject* self, void*) {
  const Array* const array = block_of(self)->whole();
  return array == nullptr ? nullptr : PyLong_FromVoidPtr(block_of(self)->data + array->offset);
}

PyObject* block_nbytes(PyObject* self, void*) {
  Block* const block = block_of(self);
  if (!block->check()) return nullptr;
  return block->is_view ? PyLong_FromSsize_t(block->own->size()) : PyLong_FromSize_t(block->size);
}

PyObject* block_readonly(PyObject* self, void*) { return PyBool_FromLong(block_of(self)->writable ? 0 : 1); }

PyObject* block_shape(PyObject* self, void*) {
  const Array* const array = block_of(self)->whole();
  return array == nullptr ? nullptr : tuple_of(array->shape.data(), array->rank);
}

PyObject* block_strides(PyObject* self, void*) {
  const Array* const array = block_of(self)->whole();
  return array == nullptr ? nullptr : tuple_of(array->strides.data(), array->rank);
}

PyObject* block_dtype(PyObject* self, void*) {
  const Array* const array = block_of(self)->whole();
  return array == nullptr ? nullptr : dtype_name(array->element);
}

PyObject* block_released(PyObject* self, void*) { return PyBool_FromLong(block_of(self)->lease == nullptr ? 1 : 0); }

bool add_view_type(PyObject* module) {
  view_type = add_type(module, view_spec, "View");
  return view_type != nullptr;
}

}  // namespace framelane::python
