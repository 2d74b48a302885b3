// SPDX-License-Identifier: MIT
#include "dlpack.hpp"

#include <cstdlib>
#include <cstring>
#include <new>

#include "copy.hpp"

namespace framelane::python {
namespace {

constexpr char kLegacyName[] = "dltensor";
constexpr char kLegacyUsed[] = "used_dltensor";
constexpr char kVersionedName[] = "dltensor_versioned";
constexpr char kVersionedUsed[] = "used_dltensor_versioned";

/// A managed tensor with what its pointers point to. Freed by whoever consumed it, on any thread, without the GIL.
template <class Managed>
struct Exported {
  Managed managed{};
  std::int64_t shape[kMaxRank];
  std::int64_t strides[kMaxRank];
  Lease* lease = nullptr;        // of a view
  void* private_copy = nullptr;  // of a copy

  static void end(Managed* managed) noexcept {
    auto* const self = static_cast<Exported*>(managed->manager_ctx);
    drop(self->lease);
    std::free(self->private_copy);
    delete self;
  }
};

/// Where the capsule was not consumed.
template <class Managed>
void end_capsule(PyObject* capsule, const char* name) {
  if (PyCapsule_IsValid(capsule, name) == 0) return;
  auto* const managed = static_cast<Managed*>(PyCapsule_GetPointer(capsule, name));
  managed->deleter(managed);
}
void end_legacy(PyObject* capsule) { end_capsule<DLManagedTensor>(capsule, kLegacyName); }
void end_versioned(PyObject* capsule) { end_capsule<DLManagedTensorVersioned>(capsule, kVersionedName); }

template <class Managed>
bool describe(Exported<Managed>& out, const Array& array, std::byte* data) {
  DLTensor& tensor = out.managed.dl_tensor;
  for (int i = 0; i < array.rank; ++i) {
    const auto at = static_cast<std::size_t>(i);
    if (array.strides[at] % array.element.size != 0) {
      PyErr_SetString(PyExc_BufferError, "DLPack can't describe strides that are no multiple of the element's size");
      return false;
    }
    out.shape[i] = array.shape[at];
    out.strides[i] = array.strides[at] / array.element.size;
  }
  const char kind = static_cast<char>(array.element.kind);
  tensor.data = data;
  tensor.device = {kDlCpu, 0};
  tensor.ndim = array.rank;
  tensor.dtype = {static_cast<std::uint8_t>(kind == 'i'   ? 0
                                            : kind == 'u' ? 1
                                                          : 2),
                  static_cast<std::uint8_t>(array.element.size * 8), 1};
  tensor.shape = out.shape;
  tensor.strides = out.strides;  // never null: DLPack 1.2 asks for them
  return true;
}

/// The bytes of a copy=True export, 64-byte aligned. nullptr with an exception set.
std::byte* private_copy(Block* block, const Array& array, Array& packed) {
  packed = array;
  packed.offset = 0;
  packed.make_contiguous();
  const auto size = (static_cast<std::size_t>(packed.size()) + 63) / 64 * 64;
  auto* const memory = static_cast<std::byte*>(std::aligned_alloc(64, size == 0 ? 64 : size));
  if (memory == nullptr) {
    PyErr_NoMemory();
    return nullptr;
  }
  copy_array(packed, memory, array, block->data + array.offset);
  return memory;
}

template <class Managed>
PyObject* export_block(Block* block, const Array& array, bool copy, const char* name, PyCapsule_Destructor destructor) {
  auto* const out = new (std::nothrow) Exported<Managed>;
  if (out == nullptr) return PyErr_NoMemory();
  out->managed.manager_ctx = out;
  out->managed.deleter = Exported<Managed>::end;
  Array packed;
  std::byte* data = block->data + array.offset;
  if (copy) {
    out->private_copy = data = private_copy(block, array, packed);
  } else {
    block->lease->use();
    out->lease = block->lease;
  }
  PyObject* capsule = nullptr;
  if (data != nullptr && describe(*out, copy ? packed : array, data)) {
    if constexpr (std::is_same_v<Managed, DLManagedTensorVersioned>) {
      out->managed.version = {1, 0};
      out->managed.flags = copy ? kDlIsCopied : block->writable ? 0 : kDlReadOnly;
    }
    capsule = PyCapsule_New(&out->managed, name, destructor);
  }
  if (capsule == nullptr) Exported<Managed>::end(&out->managed);
  return capsule;
}

/// True when `device` is None or (1, 0).
bool is_our_device(PyObject* device) {
  if (device == Py_None) return true;
  long type = 0;
  long id = 0;
  if (PyTuple_Check(device) == 0 || PyArg_ParseTuple(device, "ll", &type, &id) == 0) {
    PyErr_Clear();
    return false;
  }
  return type == kDlCpu && id == 0;
}

/// False with an exception set.
bool read_version(PyObject* version, long& major, long& minor) {
  if (PyTuple_Check(version) != 0) return PyArg_ParseTuple(version, "ll:max_version", &major, &minor) != 0;
  PyErr_SetString(PyExc_TypeError, "max_version must be a tuple, such as (1, 0)");
  return false;
}

}  // namespace

PyObject* dlpack(PyObject* self, PyObject* arguments, PyObject* named) {
  static const char* const kNames[] = {"stream", "max_version", "dl_device", "copy", nullptr};
  PyObject *stream = Py_None, *max_version = Py_None, *device = Py_None, *copy = Py_None;
  if (PyArg_ParseTupleAndKeywords(arguments, named, "|$OOOO", keywords(kNames), &stream, &max_version, &device,
                                  &copy) == 0) {
    return nullptr;
  }
  if (stream != Py_None || !is_our_device(device)) {
    PyErr_SetString(PyExc_BufferError, "a lane's memory is the CPU's: stream must be None, dl_device None or (1, 0)");
    return nullptr;
  }
  const int wants_copy = copy == Py_None ? 0 : PyObject_IsTrue(copy);
  if (wants_copy < 0) return nullptr;
  long major = 0;
  long minor = 0;
  if (max_version != Py_None && !read_version(max_version, major, minor)) return nullptr;
  // Only now: what the arguments ran may have given it back.
  auto* const block = reinterpret_cast<Block*>(self);
  const Array* const array = block->whole();
  if (array == nullptr) return nullptr;
  if (array->element.is_swapped()) {
    PyErr_SetString(PyExc_BufferError, "DLPack has no big-endian elements; use numpy() and convert");
    return nullptr;
  }
  // A large copy is made without the GIL: another thread may give the block back meanwhile.
  Lease* const lease = block->lease;
  lease->use();
  PyObject* const capsule =
      major >= 1 ? export_block<DLManagedTensorVersioned>(block, *array, wants_copy != 0, kVersionedName, end_versioned)
                 : export_block<DLManagedTensor>(block, *array, wants_copy != 0, kLegacyName, end_legacy);
  lease->unuse();
  return capsule;
}

PyObject* dlpack_device(PyObject*, PyObject*) { return Py_BuildValue("(ii)", kDlCpu, 0); }

bool Borrowed::borrow(PyObject* owner) {
  const Ref method(PyObject_GetAttrString(owner, "__dlpack__"));
  const Ref nothing(PyTuple_New(0));
  const Ref version(Py_BuildValue("{s:(ii)}", "max_version", 1, 0));
  if (!method || !nothing || !version) return false;
  capsule_ = Ref(PyObject_Call(method.get(), nothing.get(), version.get()));
  if (!capsule_ && PyErr_ExceptionMatches(PyExc_TypeError) != 0) {  // it only knows the older form
    PyErr_Clear();
    capsule_ = Ref(PyObject_Call(method.get(), nothing.get(), nullptr));
  }
  if (!capsule_) return false;
  if (PyCapsule_IsValid(capsule_.get(), kVersionedName) != 0) {
    versioned_ = static_cast<DLManagedTensorVersioned*>(PyCapsule_GetPointer(capsule_.get(), kVersionedName));
    PyCapsule_SetName(capsule_.get(), kVersionedUsed);
    if (versioned_->version.major == 1) return describe(versioned_->dl_tensor);
  } else if (PyCapsule_IsValid(capsule_.get(), kLegacyName) != 0) {
    legacy_ = static_cast<DLManagedTensor*>(PyCapsule_GetPointer(capsule_.get(), kLegacyName));
    PyCapsule_SetName(capsule_.get(), kLegacyUsed);
    return describe(legacy_->dl_tensor);
  }
  PyErr_SetString(PyExc_BufferError, "__dlpack__() returned nothing that DLPack 1 knows");
  return false;
}

bool Borrowed::describe(const DLTensor& tensor) {
  const unsigned size = tensor.dtype.bits / 8u;
  const bool known =
      tensor.dtype.code <= 2 && tensor.dtype.lanes == 1 && tensor.dtype.bits % 8 == 0 && size >= 1 && size <= 8;
  if (tensor.device.device_type != kDlCpu && tensor.device.device_type != kDlCudaHost) {
    PyErr_SetString(PyExc_BufferError, "the array isn't in the CPU's memory; copy it there first");
    return false;
  }
  if (!known || tensor.ndim < 0 || tensor.ndim > kMaxRank) {
    PyErr_SetString(PyExc_BufferError, "the array has elements or dimensions that no lane carries");
    return false;
  }
  array_.element.kind = static_cast<std::uint8_t>("iuf"[tensor.dtype.code]);
  array_.element.size = static_cast<std::uint8_t>(size);
  array_.element.format[0] = ' ';
  array_.rank = tensor.ndim;
  for (int i = 0; i < tensor.ndim; ++i)
    array_.shape[static_cast<std::size_t>(i)] = static_cast<Py_ssize_t>(tensor.shape[i]);
  array_.make_contiguous();
  for (int i = 0; i < tensor.ndim && tensor.strides != nullptr; ++i) {
    array_.strides[static_cast<std::size_t>(i)] = static_cast<Py_ssize_t>(tensor.strides[i]) * array_.element.size;
  }
  data_ = static_cast<const std::byte*>(tensor.data) + tensor.byte_offset;
  return true;
}

Borrowed::~Borrowed() {
  if (legacy_ != nullptr && legacy_->deleter != nullptr) legacy_->deleter(legacy_);
  if (versioned_ != nullptr && versioned_->deleter != nullptr) versioned_->deleter(versioned_);
}

}  // namespace framelane::python
