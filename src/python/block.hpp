// SPDX-License-Identifier: MIT
// What frames, loans, responses, requests and views have in common: bytes of a lane, and how to read them as arrays.
#pragma once

#include "layout.hpp"
#include "lease.hpp"

namespace framelane::python {

class Source;

/// What a block is called where it can't be used any more, and what to do instead.
struct Words {
  const char* what;
  const char* advice;
};

/// Head of each such Python object; zeroed by make(). Without a lease it was given back.
struct Block {
  PyObject ob_base;
  const Words* words;
  Lease* lease;
  Layout* layout;   // of a frame or loan; else nullptr
  std::byte* data;  // of the whole frame
  std::size_t size;
  Array* own;  // a view's array; else made when somebody asks for bytes that the layout has no array for
  bool writable;
  bool is_view;

  /// The array that this is as a whole, in `data`. nullptr with an exception set.
  const Array* whole();
  /// False with an exception set when it was given back.
  bool check() const;
  /// Gives it back, but for the views of it that others still have.
  void give_back() noexcept;
};

inline Block* block_of(PyObject* self) { return reinterpret_cast<Block*>(self); }

/// Takes `lease` over, one user. nullptr with an exception set; then the user is gone.
PyObject* make_view(Lease* lease, std::byte* data, std::size_t size, const Array& array, bool writable);

// Slots and methods of every such type.
void block_dealloc(PyObject* self);
int block_get_buffer(PyObject* self, Py_buffer* view, int flags);
void block_release_buffer(PyObject* self, Py_buffer* view);
PyObject* block_subscript(PyObject* self, PyObject* key);
int block_ass_subscript(PyObject* self, PyObject* key, PyObject* value);
/// The same of a writable one with a value that is open already. False with an exception set.
bool block_copy(PyObject* self, PyObject* key, const Source& source);
PyObject* block_numpy(PyObject* self, PyObject* unused);
PyObject* block_release(PyObject* self, PyObject* unused);
PyObject* block_enter(PyObject* self, PyObject* unused);
PyObject* block_address(PyObject* self, void* unused);
PyObject* block_nbytes(PyObject* self, void* unused);
PyObject* block_readonly(PyObject* self, void* unused);
PyObject* block_shape(PyObject* self, void* unused);
PyObject* block_strides(PyObject* self, void* unused);
PyObject* block_dtype(PyObject* self, void* unused);
PyObject* block_released(PyObject* self, void* unused);

extern const char kNumpyDoc[];
extern const char kDlpackDoc[];

bool add_view_type(PyObject* module);

#define FRAMELANE_BLOCK_METHODS                                                   \
  {"numpy", block_numpy, METH_NOARGS, kNumpyDoc},                                 \
      {"__dlpack__", method(dlpack), METH_VARARGS | METH_KEYWORDS, kDlpackDoc}, { \
    "__dlpack_device__", dlpack_device, METH_NOARGS, "The CPU: (1, 0)."           \
  }

#define FRAMELANE_BLOCK_PROPERTIES                                                                               \
  {"address", block_address, nullptr, "Where its bytes lie in this process, an int.", nullptr},                  \
      {"nbytes", block_nbytes, nullptr, "Bytes.", nullptr},                                                      \
      {"readonly", block_readonly, nullptr, "True where writing is refused.", nullptr},                          \
      {"shape", block_shape, nullptr, "Shape as one array, outermost dimension first.", nullptr},                \
      {"strides", block_strides, nullptr, "Bytes from one element to the next in each dimension.", nullptr},     \
      {"dtype", block_dtype, nullptr, "numpy's name of the element type, such as \"float32\".", nullptr}, {      \
    "released", block_released, nullptr, "True when it was given back; then it can't be used any more.", nullptr \
  }

}  // namespace framelane::python
