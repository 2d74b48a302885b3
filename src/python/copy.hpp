// SPDX-License-Identifier: MIT
// Copying arrays of any strides, with a check that they are alike.
#pragma once

#include "dlpack.hpp"

namespace framelane::python {

/// Copies the elements of one array to another of the same shape and element. The GIL is given up for large ones.
void copy_array(const Array& to, std::byte* to_data, const Array& from, const std::byte* from_data);

/// Somebody else's array, lent by the buffer protocol or DLPack. Needs the GIL.
class Source {
 public:
  Source() noexcept = default;
  Source(const Source&) = delete;
  Source& operator=(const Source&) = delete;
  ~Source() {
    if (has_view_) PyBuffer_Release(&view_);
  }
  /// Once. False with an exception set.
  bool open(PyObject* object);

  /// Bytes of its elements.
  [[nodiscard]] std::size_t size() const noexcept;
  /// Whether that is `size` bytes without a shape.
  [[nodiscard]] bool is_flat(std::size_t size) const noexcept;
  /// nullptr: elements that no lane carries; format() has struct's letters for them.
  [[nodiscard]] const Array* array() const noexcept { return is_known_ ? &array_ : nullptr; }
  [[nodiscard]] const std::byte* data() const noexcept { return data_; }
  [[nodiscard]] const char* format() const noexcept { return view_.format == nullptr ? "" : view_.format; }

 private:
  Py_buffer view_{};
  Borrowed borrowed_;
  Array array_;
  const std::byte* data_ = nullptr;
  bool has_view_ = false;
  bool is_known_ = false;
};

/// Copies `source` into an array. Its element type must be the array's, and its shape, but for dimensions of 1;
/// contiguous bytes of the right size do, too. False with an exception set.
bool copy_source(const Array& to, std::byte* to_data, const Source& source);

/// What array there is in a buffer. False: a format that no lane carries.
bool array_of(const Py_buffer& view, Array& array);

}  // namespace framelane::python
