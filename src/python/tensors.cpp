// SPDX-License-Identifier: MIT
#include "tensors.hpp"

#include <cstring>
#include <limits>
#include <vector>

namespace framelane::python {
namespace {

/// "float32" of a str, of numpy.float32 or of a numpy.dtype. False with an exception set.
bool type_of(PyObject* dtype, const char* name, std::int32_t& type) {
  Ref word(Ref::of(dtype));
  for (const char* const attribute : {"name", "__name__"}) {
    if (PyUnicode_Check(word.get()) != 0 || PyObject_HasAttrString(dtype, attribute) == 0) continue;
    word = Ref(PyObject_GetAttrString(dtype, attribute));
    if (!word) return false;
  }
  const char* const text = text_of(word.get(), "a tensor's type");
  if (text == nullptr) return false;
  type = framelane_tensor_type_of(text);
  if (type < 0) {
    PyErr_Format(PyExc_ValueError,
                 "tensor \"%s\": there is no type \"%s\"; int8 to int64, uint8 to uint64, float16 to "
                 "float64 are",
                 name, text);
  }
  return type >= 0;
}

bool shape_of(PyObject* shape, framelane_tensor& tensor) {
  const Py_ssize_t rank = PySequence_Size(shape);
  if (rank < 0) return false;
  if (rank < 1 || rank > FRAMELANE_MAX_RANK) {
    PyErr_Format(PyExc_ValueError, "tensor \"%s\": a shape has 1 to %d dimensions", tensor.name, FRAMELANE_MAX_RANK);
    return false;
  }
  tensor.rank = static_cast<std::uint32_t>(rank);
  for (Py_ssize_t i = 0; i < rank; ++i) {
    const Ref item(PySequence_GetItem(shape, i));
    const Py_ssize_t length = item ? PyNumber_AsSsize_t(item.get(), PyExc_OverflowError) : -1;
    if (length == -1 && PyErr_Occurred() != nullptr) return false;
    if (length < 1 || length > std::numeric_limits<std::int32_t>::max()) {
      PyErr_Format(PyExc_ValueError, "tensor \"%s\": a dimension of %zd is none", tensor.name, length);
      return false;
    }
    tensor.shape[i] = static_cast<std::uint32_t>(length);
  }
  return true;
}

bool tensor_of(PyObject* key, PyObject* value, framelane_tensor& tensor) {
  tensor.size = sizeof tensor;
  const char* const name = text_of(key, "a tensor's name");
  if (name == nullptr) return false;
  if (std::strlen(name) >= sizeof tensor.name) {
    PyErr_Format(PyExc_ValueError, "a tensor's name has at most %zu bytes: \"%s\"", sizeof tensor.name - 1, name);
    return false;
  }
  std::strcpy(tensor.name, name);
  if (PyTuple_Check(value) == 0 || PyTuple_Size(value) != 2) {
    PyErr_Format(PyExc_TypeError, "tensor \"%s\" must be (dtype, shape), such as (\"float32\", (80, 100))", name);
    return false;
  }
  return type_of(PyTuple_GetItem(value, 0), name, tensor.type) && shape_of(PyTuple_GetItem(value, 1), tensor);
}

/// A number as a fraction: 30, 29.97 or Fraction(30000, 1001).
bool fraction_of(PyObject* framerate, int& numerator, int& denominator) {
  numerator = 0;
  denominator = 1;
  if (framerate == nullptr) return true;
  const Ref module(PyImport_ImportModule("fractions"));
  const Ref exact(module ? PyObject_CallMethod(module.get(), "Fraction", "O", framerate) : nullptr);
  const Ref fraction(exact ? PyObject_CallMethod(exact.get(), "limit_denominator", "i", 1001) : nullptr);
  const Ref above(fraction ? PyObject_GetAttrString(fraction.get(), "numerator") : nullptr);
  const Ref below(fraction ? PyObject_GetAttrString(fraction.get(), "denominator") : nullptr);
  if (!above || !below) return false;
  const long over = PyLong_AsLong(above.get());
  denominator = static_cast<int>(PyLong_AsLong(below.get()));  // at most 1001
  if (PyErr_Occurred() != nullptr) return false;
  if (over > std::numeric_limits<int>::max()) {
    PyErr_SetString(PyExc_ValueError, "a framerate is at most 2147483647 frames a second");
    return false;
  }
  numerator = static_cast<int>(over);
  return true;
}

}  // namespace

Layout* tensors_layout(PyObject* tensors, PyObject* framerate) {
  if (PyDict_Check(tensors) == 0 || PyDict_Size(tensors) == 0) {
    PyErr_SetString(PyExc_TypeError, "tensors must be a dict such as {\"mel\": (\"float32\", (80, 100))}");
    return nullptr;
  }
  std::vector<framelane_tensor> all;
  PyObject* key = nullptr;
  PyObject* value = nullptr;
  for (Py_ssize_t at = 0; PyDict_Next(tensors, &at, &key, &value) != 0;) {
    if (!tensor_of(key, value, all.emplace_back())) return nullptr;
  }
  int numerator = 0;
  int denominator = 1;
  if (!fraction_of(framerate, numerator, denominator)) return nullptr;
  framelane_format* format = nullptr;
  const framelane_code code = framelane_format_from_tensors(all.data(), all.size(), numerator, denominator, &format);
  if (code != FRAMELANE_OK) {
    raise(code);
    return nullptr;
  }
  return Layout::make(format, framelane_format_caps(format), 0);
}

}  // namespace framelane::python
