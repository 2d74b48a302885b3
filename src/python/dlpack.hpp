// SPDX-License-Identifier: MIT
// DLPack 1.0: arrays between libraries without a copy. Its structs are declared here, as the headers of distributions
// are older than the versioned one (https://dmlc.github.io/dlpack/latest/c_api.html).
#pragma once

#include "block.hpp"

namespace framelane::python {

inline constexpr std::int32_t kDlCpu = 1;
inline constexpr std::int32_t kDlCudaHost = 3;
inline constexpr std::uint64_t kDlReadOnly = 1;
inline constexpr std::uint64_t kDlIsCopied = 2;

struct DLDevice {
  std::int32_t device_type;
  std::int32_t device_id;
};

struct DLDataType {
  std::uint8_t code;  ///< 0 int, 1 uint, 2 float
  std::uint8_t bits;
  std::uint16_t lanes;
};

struct DLTensor {
  void* data;
  DLDevice device;
  std::int32_t ndim;
  DLDataType dtype;
  std::int64_t* shape;
  std::int64_t* strides;  ///< elements
  std::uint64_t byte_offset;
};

struct DLManagedTensor {
  DLTensor dl_tensor;
  void* manager_ctx;
  void (*deleter)(DLManagedTensor* self);
};

struct DLPackVersion {
  std::uint32_t major;
  std::uint32_t minor;
};

struct DLManagedTensorVersioned {
  DLPackVersion version;
  void* manager_ctx;
  void (*deleter)(DLManagedTensorVersioned* self);
  std::uint64_t flags;
  DLTensor dl_tensor;
};

/// __dlpack__(*, stream=None, max_version=None, dl_device=None, copy=None) of any Block.
PyObject* dlpack(PyObject* self, PyObject* arguments, PyObject* named);
/// __dlpack_device__(): the CPU.
PyObject* dlpack_device(PyObject* self, PyObject* unused);

/// What another library lends by its __dlpack__.
class Borrowed {
 public:
  Borrowed() noexcept = default;
  Borrowed(const Borrowed&) = delete;
  Borrowed& operator=(const Borrowed&) = delete;
  ~Borrowed();
  /// False with an exception set.
  bool borrow(PyObject* owner);

  [[nodiscard]] const std::byte* data() const noexcept { return data_; }
  [[nodiscard]] const Array& array() const noexcept { return array_; }

 private:
  bool describe(const DLTensor& tensor);

  Ref capsule_;
  DLManagedTensor* legacy_ = nullptr;
  DLManagedTensorVersioned* versioned_ = nullptr;
  const std::byte* data_ = nullptr;
  Array array_;
};

}  // namespace framelane::python
