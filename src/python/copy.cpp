// SPDX-License-Identifier: MIT
#include "copy.hpp"

#include <cstring>
#include <string_view>

namespace framelane::python {
namespace {

/// The same elements with dimensions of 1 left out.
Array squeezed(const Array& array) {
  Array out = array;
  out.rank = 0;
  for (std::size_t i = 0; i < static_cast<std::size_t>(array.rank); ++i) {
    if (array.shape[i] == 1) continue;
    out.shape[static_cast<std::size_t>(out.rank)] = array.shape[i];
    out.strides[static_cast<std::size_t>(out.rank++)] = array.strides[i];
  }
  return out;
}

bool same_shape(const Array& one, const Array& other) {
  if (one.rank != other.rank) return false;
  for (std::size_t i = 0; i < static_cast<std::size_t>(one.rank); ++i) {
    if (one.shape[i] != other.shape[i]) return false;
  }
  return true;
}

void copy_dimension(const Array& to, std::byte* to_data, const Array& from, const std::byte* from_data,
                    std::size_t dimension) {
  const auto rank = static_cast<std::size_t>(to.rank);
  const std::size_t element = to.element.size;
  if (dimension == rank) {
    std::memcpy(to_data, from_data, element);
    return;
  }
  const Py_ssize_t count = to.shape[dimension];
  const auto packed = static_cast<Py_ssize_t>(element);
  if (dimension + 1 == rank && to.strides[dimension] == packed && from.strides[dimension] == packed) {
    std::memcpy(to_data, from_data, static_cast<std::size_t>(count) * element);
    return;
  }
  for (Py_ssize_t i = 0; i < count; ++i) {
    copy_dimension(to, to_data + i * to.strides[dimension], from, from_data + i * from.strides[dimension],
                   dimension + 1);
  }
}

/// "float32 (80, 100)"
PyObject* words(const Array& array) {
  const Ref dtype(dtype_name(array.element));
  const Ref shape(tuple_of(array.shape.data(), array.rank));
  return dtype && shape ? PyUnicode_FromFormat("%U %S", dtype.get(), shape.get()) : nullptr;
}

bool refuse(const Array& to, PyObject* given) {
  const Ref wanted(words(to));
  if (wanted && given != nullptr) {
    PyErr_Format(PyExc_ValueError, "\"%s\" takes %U, not %U", to.name.empty() ? "this array" : to.name.c_str(),
                 wanted.get(), given);
  }
  Py_XDECREF(given);
  return false;
}

bool copy_checked(const Array& to, std::byte* to_data, const Array& from, const std::byte* from_data) {
  const bool alike = to.element.kind == from.element.kind && to.element.size == from.element.size &&
                     to.element.is_swapped() == from.element.is_swapped();
  if (alike && same_shape(squeezed(to), squeezed(from))) {
    copy_array(to, to_data, from, from_data);
    return true;
  }
  // Bytes that somebody made elsewhere.
  if (from.rank == 1 && from.element.size == 1 && from.is_contiguous() && to.is_contiguous() &&
      to.size() == from.size()) {
    Array bytes = bytes_array(static_cast<std::size_t>(from.size()));
    copy_array(bytes, to_data, bytes, from_data);
    return true;
  }
  return refuse(to, words(from));
}

}  // namespace

void copy_array(const Array& to, std::byte* to_data, const Array& from, const std::byte* from_data) {
  if (to.size() == 0) return;
  const auto copy = [&] {
    if (to.is_contiguous() && from.is_contiguous()) {
      std::memcpy(to_data, from_data, static_cast<std::size_t>(to.size()));
    } else {
      copy_dimension(squeezed(to), to_data, squeezed(from), from_data, 0);
    }
    return 0;
  };
  if (static_cast<std::size_t>(to.size()) < kWithoutGil) {
    copy();
  } else {
    without_gil(copy);
  }
}

bool array_of(const Py_buffer& view, Array& array) {
  std::string_view format = view.format == nullptr ? "B" : view.format;
  const bool swapped = format.starts_with('>') || format.starts_with('!');
  if (!format.empty() && std::string_view("@=<>!").find(format[0]) != std::string_view::npos) format.remove_prefix(1);
  if (format.size() != 1 || view.ndim > kMaxRank || view.itemsize < 1 || view.itemsize > 8) return false;
  const char letter = format[0];
  const auto is_one_of = [letter](std::string_view letters) { return letters.find(letter) != std::string_view::npos; };
  const char kind = is_one_of("bhilqn") ? 'i' : is_one_of("BHILQNc") ? 'u' : is_one_of("efd") ? 'f' : '\0';
  if (kind == '\0') return false;
  array.element.kind = static_cast<std::uint8_t>(kind);
  array.element.size = static_cast<std::uint8_t>(view.itemsize);
  array.element.format[0] = swapped && view.itemsize > 1 ? '>' : letter;
  array.rank = view.ndim;
  for (int i = 0; i < view.ndim; ++i) {
    array.shape[static_cast<std::size_t>(i)] = view.shape[i];
    array.strides[static_cast<std::size_t>(i)] = view.strides[i];
  }
  return true;
}

bool Source::open(PyObject* object) {
  if (PyObject_CheckBuffer(object) != 0) {
    if (PyObject_GetBuffer(object, &view_, PyBUF_FULL_RO) != 0) return false;
    has_view_ = true;
    is_known_ = view_.suboffsets == nullptr && array_of(view_, array_);
    data_ = static_cast<const std::byte*>(view_.buf);
    return true;
  }
  if (PyObject_HasAttrString(object, "__dlpack__") == 0) {
    PyErr_SetString(PyExc_TypeError, "expected bytes, an array, or something else with the buffer protocol or DLPack");
    return false;
  }
  is_known_ = borrowed_.borrow(object);
  array_ = borrowed_.array();
  data_ = borrowed_.data();
  return is_known_;
}

std::size_t Source::size() const noexcept { return static_cast<std::size_t>(has_view_ ? view_.len : array_.size()); }

bool Source::is_flat(std::size_t size) const noexcept {
  return is_known_ && array_.rank == 1 && array_.element.size == 1 && this->size() == size;
}

bool copy_source(const Array& to, std::byte* to_data, const Source& source) {
  if (source.array() != nullptr) return copy_checked(to, to_data, *source.array(), source.data());
  return refuse(to, PyUnicode_FromFormat("elements of format \"%s\"", source.format()));
}

}  // namespace framelane::python
