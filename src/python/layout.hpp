// SPDX-License-Identifier: MIT
// How the bytes of a frame are arrays, by its caps.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "object.hpp"

namespace framelane::python {

inline constexpr int kMaxRank = FRAMELANE_MAX_RANK;

/// What one number is, in the words of struct (and numpy) and of DLPack.
struct Element {
  char format[3] = "B";     ///< struct module: "B", ">H", ...
  std::uint8_t kind = 'u';  ///< 'i', 'u' or 'f'
  std::uint8_t size = 1;    ///< bytes

  [[nodiscard]] bool is_swapped() const noexcept { return format[0] == '>'; }
};

/// Where an array lies in its frame. shape and strides count from the outermost dimension; strides are bytes.
struct Array {
  std::string name;
  Element element;
  int rank = 1;
  std::array<Py_ssize_t, kMaxRank> shape{};
  std::array<Py_ssize_t, kMaxRank> strides{};
  std::uint64_t offset = 0;  ///< bytes

  [[nodiscard]] Py_ssize_t size() const noexcept;             ///< bytes of its elements
  [[nodiscard]] Py_ssize_t reach() const noexcept;            ///< bytes from its first to behind its last element
  [[nodiscard]] bool is_contiguous() const noexcept;          ///< in C's order, the last dimension's elements first
  [[nodiscard]] bool is_fortran_contiguous() const noexcept;  ///< the first dimension's elements first
  void make_contiguous() noexcept;                            ///< sets the strides of C's order
};

/// Bytes without a shape: [size].
[[nodiscard]] Array bytes_array(std::size_t size);
/// What `name` says: "float32", "uint8", ...; false when no lane carries that.
bool element_of(const char* name, Element& element);

/// What caps say of all their frames. Counted under the GIL.
class Layout {
 public:
  /// Of parsed caps (a reference of the caller's; nullptr: none, or caps that can't be parsed) and their text.
  static Layout* make(framelane_format* format, const char* text, std::uint64_t caps_id);
  /// Of `caps` text. nullptr with an exception set (InvalidArgument, Unsupported).
  static Layout* parse(const char* caps);

  void use() noexcept { ++users_; }
  void unuse() noexcept {
    if (--users_ == 0) delete this;
  }

  [[nodiscard]] std::uint64_t caps_id() const noexcept { return caps_id_; }
  [[nodiscard]] int kind() const noexcept { return kind_; }
  [[nodiscard]] const char* text() const noexcept { return text_.c_str(); }
  /// Bytes of a frame; of audio: of one sample of all channels; 0 when the caps don't say.
  [[nodiscard]] std::uint64_t unit() const noexcept { return unit_; }
  /// The arrays of a frame of video or tensors; one of audio, whose number of samples is that of each frame.
  [[nodiscard]] const std::vector<Array>& arrays() const noexcept { return arrays_; }
  /// Where `name` is; -1.
  [[nodiscard]] int find(const char* name) const noexcept;
  /// Array `index` of a frame of `size` bytes. False with an exception set when the frame is too small for it.
  bool array(std::size_t index, std::size_t size, Array& array) const;
  /// The whole of a frame of `size` bytes as one array: its only one, else its bytes.
  bool whole(std::size_t size, Array& array) const;

  /// A framelane.Caps, made once. A new reference; nullptr with an exception set.
  [[nodiscard]] PyObject* caps();

 private:
  Layout(framelane_format* format, const char* text, std::uint64_t caps_id)
      : format_(format), text_(text), caps_id_(caps_id) {}
  ~Layout();
  void add_video();
  void add_audio();
  void add_tensors();
  [[nodiscard]] PyObject* fields() const;
  bool put_video(PyObject* fields) const;
  bool put_audio(PyObject* fields) const;
  bool put_arrays(PyObject* fields) const;

  framelane_format* format_;
  std::string text_;
  std::uint64_t caps_id_;
  int users_ = 1;
  int kind_ = FRAMELANE_FORMAT_OTHER;
  bool interleaved_ = true;
  std::uint64_t unit_ = 0;
  std::vector<Array> arrays_;
  Ref caps_;
};

/// Shape as a tuple. nullptr with an exception set.
[[nodiscard]] PyObject* tuple_of(const Py_ssize_t* values, int count);
/// numpy's name of an element type, "float32" or ">u2".
[[nodiscard]] PyObject* dtype_name(const Element& element);

}  // namespace framelane::python
