// SPDX-License-Identifier: MIT
#include "layout.hpp"

#include <algorithm>
#include <cctype>
#include <cstring>
#include <string_view>

namespace framelane::python {
namespace {

/// `kind` 'i', 'u' or 'f' of `size` bytes; without the struct module's letter when there is none.
Element element(char kind, unsigned size, bool swapped = false) {
  const char* const letters = kind == 'f' ? "??efd" : kind == 'i' ? "?bhiq" : "?BHIQ";
  const unsigned log = size == 1 ? 1 : size == 2 ? 2 : size == 4 ? 3 : size == 8 ? 4 : 0;
  char letter = letters[log];
  // numpy's own int64 is "l" where that has 64 bits.
  if constexpr (sizeof(long) == 8) letter = letter == 'q' ? 'l' : letter == 'Q' ? 'L' : letter;
  Element made;
  made.kind = static_cast<std::uint8_t>(kind);
  made.size = static_cast<std::uint8_t>(size);
  made.format[0] = swapped && size > 1 ? '>' : letter;
  // With an order the struct module's sizes are the standard ones, where "l" has 32 bits.
  if (swapped && size > 1) made.format[1] = letter == 'l' ? 'q' : letter == 'L' ? 'Q' : letter;
  return made;
}

bool is_number(unsigned size) noexcept { return size == 1 || size == 2 || size == 4 || size == 8; }

/// Names of the planes in the order of their offsets, one letter or two for each.
std::vector<std::string> plane_names(std::string_view format, std::size_t count) {
  if (count == 1) {
    std::string name(format);
    std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return std::tolower(c); });
    return {name};
  }
  if (count == 2) return {"y", format == "NV21" || format == "NV61" ? "vu" : "uv"};
  if (format.starts_with("GBR")) return {"g", "b", "r", "a"};
  if (format.starts_with("YV")) return {"y", "v", "u", "a"};
  return {"y", "u", "v", "a"};
}

Array plane_array(const framelane_plane& plane, const framelane_video_format& video, std::string name, bool packed) {
  const std::string_view format = video.format;
  Array array;
  array.name = std::move(name);
  array.offset = plane.offset;
  const auto columns = static_cast<Py_ssize_t>(plane.columns);
  const auto stride = static_cast<Py_ssize_t>(plane.stride);
  // Rows that only pad an odd height are no part of the picture.
  const bool full = plane.columns == static_cast<std::uint32_t>(video.width);
  const auto rows =
      static_cast<Py_ssize_t>(full ? std::min(plane.rows, static_cast<std::uint32_t>(video.height)) : plane.rows);
  if (!is_number(plane.sample_size) || (plane.channels == 0 && plane.sample_size == 0)) {
    array.rank = 2;
    array.shape = {rows, stride};
    array.strides = {stride, 1};
    return array;
  }
  array.element = element('u', plane.sample_size, format.ends_with("BE"));
  const auto sample = static_cast<Py_ssize_t>(plane.sample_size);
  const auto channels = static_cast<Py_ssize_t>(plane.channels == 0 ? 1 : plane.channels);
  array.rank = packed || channels > 1 ? 3 : 2;
  array.shape = {rows, columns, channels};
  array.strides = {stride, sample * channels, sample};
  return array;
}

void put_field(PyObject* dict, const char* key, PyObject* value, bool& fine) { fine = put(dict, key, value) && fine; }

}  // namespace

Py_ssize_t Array::size() const noexcept {
  Py_ssize_t size = element.size;
  for (int i = 0; i < rank; ++i) size *= shape[static_cast<std::size_t>(i)];
  return size;
}

Py_ssize_t Array::reach() const noexcept {
  if (size() == 0) return 0;
  Py_ssize_t reach = element.size;
  for (std::size_t i = 0; i < static_cast<std::size_t>(rank); ++i) reach += (shape[i] - 1) * strides[i];
  return reach;
}

bool Array::is_contiguous() const noexcept {
  Py_ssize_t wanted = element.size;
  for (auto i = static_cast<std::size_t>(rank); i-- > 0;) {
    if (shape[i] != 1 && strides[i] != wanted) return false;
    wanted *= shape[i];
  }
  return true;
}

bool Array::is_fortran_contiguous() const noexcept {
  Py_ssize_t wanted = element.size;
  for (std::size_t i = 0; i < static_cast<std::size_t>(rank); ++i) {
    if (shape[i] != 1 && strides[i] != wanted) return false;
    wanted *= shape[i];
  }
  return true;
}

void Array::make_contiguous() noexcept {
  Py_ssize_t stride = element.size;
  for (auto i = static_cast<std::size_t>(rank); i-- > 0;) {
    strides[i] = stride;
    stride *= shape[i];
  }
}

Array bytes_array(std::size_t size) {
  Array array;
  array.shape[0] = static_cast<Py_ssize_t>(size);
  array.strides[0] = 1;
  return array;
}

bool element_of(const char* name, Element& made) {
  const std::int32_t type = framelane_tensor_type_of(name);
  if (type < 0) return false;
  made = element(name[0], framelane_tensor_type_size(type));
  return true;
}

Layout* Layout::make(framelane_format* format, const char* text, std::uint64_t caps_id) {
  auto* const layout = new Layout(format, text, caps_id);
  if (format == nullptr) return layout;
  layout->kind_ = framelane_format_kind(format);
  layout->unit_ = framelane_format_frame_size(format);
  if (layout->kind_ == FRAMELANE_FORMAT_VIDEO) layout->add_video();
  if (layout->kind_ == FRAMELANE_FORMAT_AUDIO) layout->add_audio();
  if (layout->kind_ == FRAMELANE_FORMAT_TENSORS) layout->add_tensors();
  return layout;
}

Layout* Layout::parse(const char* caps) {
  framelane_format* format = nullptr;
  const framelane_code code = framelane_format_parse(caps, &format);
  if (code != FRAMELANE_OK) {
    raise(code);
    return nullptr;
  }
  return make(format, framelane_format_caps(format), 0);
}

Layout::~Layout() {
  if (format_ != nullptr) framelane_format_unref(format_);
}

void Layout::add_video() {
  framelane_video_format video{};
  video.size = sizeof video;
  if (framelane_format_get_video(format_, &video) != FRAMELANE_OK) return;
  const auto names = plane_names(video.format, video.num_planes);
  for (std::uint32_t i = 0; i < video.num_planes; ++i) {
    arrays_.push_back(plane_array(video.planes[i], video, names[i], video.num_planes == 1));
  }
}

void Layout::add_audio() {
  framelane_audio_format audio{};
  audio.size = sizeof audio;
  if (framelane_format_get_audio(format_, &audio) != FRAMELANE_OK || audio.sample_size == 0) return;
  const std::string_view format = audio.format;
  const char kind = format.starts_with("F") ? 'f' : format.starts_with("U") ? 'u' : 'i';
  const auto sample = static_cast<Py_ssize_t>(audio.sample_size);
  const auto channels = static_cast<Py_ssize_t>(audio.channels);
  interleaved_ = audio.interleaved != 0;
  unit_ = static_cast<std::uint64_t>(sample * channels);
  Array array;
  array.name = "samples";
  array.rank = 2;
  array.shape = {0, channels};
  array.strides = {sample * channels, sample};
  if (is_number(audio.sample_size)) {
    array.element = element(kind, audio.sample_size, format.ends_with("BE"));
  } else {  // 24 bits: numpy has no such number, so its bytes
    array.rank = 3;
    array.shape[2] = sample;
    array.strides[2] = 1;
  }
  arrays_.push_back(std::move(array));
}

void Layout::add_tensors() {
  const std::size_t count = framelane_format_num_tensors(format_);
  for (std::size_t i = 0; i < count; ++i) {
    framelane_tensor tensor{};
    tensor.size = sizeof tensor;
    if (framelane_format_get_tensor(format_, i, &tensor) != FRAMELANE_OK) return;
    const char* const type = framelane_tensor_type_name(tensor.type);
    Array array;
    array.name = tensor.name[0] != '\0' ? tensor.name : std::to_string(i);
    array.element = element(type[0], tensor.element_size);
    array.rank = static_cast<int>(tensor.rank);
    std::copy_n(tensor.shape, tensor.rank, array.shape.begin());
    array.make_contiguous();
    array.offset = tensor.offset;
    arrays_.push_back(std::move(array));
  }
}

int Layout::find(const char* name) const noexcept {
  for (std::size_t i = 0; i < arrays_.size(); ++i) {
    if (arrays_[i].name == name) return static_cast<int>(i);
  }
  return -1;
}

bool Layout::array(std::size_t index, std::size_t size, Array& array) const {
  array = arrays_[index];
  if (kind_ == FRAMELANE_FORMAT_AUDIO) {
    const auto samples = static_cast<Py_ssize_t>(size / unit_);
    array.shape[0] = samples;
    if (!interleaved_) {
      const auto sample = static_cast<Py_ssize_t>(unit_) / array.shape[1];  // of 24 bits: three elements
      array.strides[0] = sample;
      array.strides[1] = sample * samples;
    }
    return true;
  }
  if (array.offset + static_cast<std::uint64_t>(array.reach()) <= size) return true;
  raise(FRAMELANE_PROTOCOL, "a frame of %zu bytes can't hold \"%s\", which its caps (%s) put at byte %llu", size,
        array.name.c_str(), text(), static_cast<unsigned long long>(array.offset));
  return false;
}

bool Layout::whole(std::size_t size, Array& array) const {
  if (arrays_.size() == 1) return this->array(0, size, array);
  array = bytes_array(size);
  return true;
}

PyObject* Layout::caps() {
  if (!caps_) {
    const Ref module(PyImport_ImportModule("framelane._caps"));
    const Ref type(module ? PyObject_GetAttrString(module.get(), "Caps") : nullptr);
    const Ref no_arguments(PyTuple_New(0));
    const Ref named(fields());
    if (!type || !no_arguments || !named) return nullptr;
    caps_ = Ref(PyObject_Call(type.get(), no_arguments.get(), named.get()));
  }
  return Ref::of(caps_.get()).release();
}

PyObject* Layout::fields() const {
  Ref fields(PyDict_New());
  if (!fields) return nullptr;
  const char* const kinds[] = {"other", "video", "audio", "tensors"};
  bool fine = true;
  put_field(fields.get(), "text", PyUnicode_FromFormat("%s", text()), fine);  // a peer's: maybe no UTF-8
  put_field(fields.get(), "kind", PyUnicode_FromString(kinds[kind_ >= 0 && kind_ < 4 ? kind_ : 0]), fine);
  put_field(fields.get(), "frame_size", PyLong_FromUnsignedLongLong(unit_), fine);
  if (kind_ == FRAMELANE_FORMAT_VIDEO) fine = put_video(fields.get()) && fine;
  if (kind_ == FRAMELANE_FORMAT_AUDIO) fine = put_audio(fields.get()) && fine;
  if (format_ != nullptr) {
    put_field(fields.get(), "framerate", PyFloat_FromDouble(framelane_format_frame_rate(format_)), fine);
  }
  fine = put_arrays(fields.get()) && fine;
  return fine ? fields.release() : nullptr;
}

bool Layout::put_video(PyObject* fields) const {
  framelane_video_format video{};
  video.size = sizeof video;
  if (framelane_format_get_video(format_, &video) != FRAMELANE_OK) return true;
  return put(fields, "format", PyUnicode_FromString(video.format)) &&
         put(fields, "width", PyLong_FromLong(video.width)) && put(fields, "height", PyLong_FromLong(video.height)) &&
         put(fields, "interlace_mode", PyUnicode_FromString(video.interlace_mode));
}

bool Layout::put_audio(PyObject* fields) const {
  framelane_audio_format audio{};
  audio.size = sizeof audio;
  if (framelane_format_get_audio(format_, &audio) != FRAMELANE_OK) return true;
  return put(fields, "format", PyUnicode_FromString(audio.format)) &&
         put(fields, "rate", PyLong_FromLong(audio.rate)) && put(fields, "channels", PyLong_FromLong(audio.channels));
}

/// {name: (dtype, shape)}: what f[name] gives; of audio the number of samples is -1.
bool Layout::put_arrays(PyObject* fields) const {
  Ref arrays(PyDict_New());
  if (!arrays) return false;
  for (const Array& array : arrays_) {
    Array told = array;
    if (kind_ == FRAMELANE_FORMAT_AUDIO) told.shape[0] = -1;
    Ref pair(PyTuple_New(2));
    PyObject* const dtype = dtype_name(array.element);
    PyObject* const shape = tuple_of(told.shape.data(), told.rank);
    if (!pair || dtype == nullptr || shape == nullptr) {
      Py_XDECREF(dtype);
      Py_XDECREF(shape);
      return false;
    }
    PyTuple_SetItem(pair.get(), 0, dtype);
    PyTuple_SetItem(pair.get(), 1, shape);
    if (PyDict_SetItemString(arrays.get(), array.name.c_str(), pair.get()) != 0) return false;
  }
  return PyDict_SetItemString(fields, "arrays", arrays.get()) == 0;
}

PyObject* tuple_of(const Py_ssize_t* values, int count) {
  Ref tuple(PyTuple_New(count));
  if (!tuple) return nullptr;
  for (int i = 0; i < count; ++i) {
    PyObject* const value = PyLong_FromSsize_t(values[i]);
    if (value == nullptr) return nullptr;
    PyTuple_SetItem(tuple.get(), i, value);
  }
  return tuple.release();
}

PyObject* dtype_name(const Element& element) {
  if (element.is_swapped()) return PyUnicode_FromFormat(">%c%d", element.kind, element.size);
  const char* const word = element.kind == 'f' ? "float" : element.kind == 'i' ? "int" : "uint";
  return PyUnicode_FromFormat("%s%d", word, element.size * 8);
}

}  // namespace framelane::python
