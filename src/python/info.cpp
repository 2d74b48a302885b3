// SPDX-License-Identifier: MIT
#include "info.hpp"

#include <cstring>
#include <limits>

namespace framelane::python {
namespace {

enum class Kind { kTime, kClock, kNumber };

struct Member {
  const char* name;
  Kind kind;
  std::size_t offset;
};

#define FIELD(name) offsetof(framelane_frame_info, name)
const Member kMembers[] = {
    {"pts", Kind::kTime, FIELD(pts)},
    {"dts", Kind::kTime, FIELD(dts)},
    {"duration", Kind::kTime, FIELD(duration)},
    {"offset", Kind::kTime, FIELD(offset)},
    {"offset_end", Kind::kTime, FIELD(offset_end)},
    {"due", Kind::kClock, FIELD(due_ns)},
    {"capture", Kind::kClock, FIELD(capture_ns)},
    {"flags", Kind::kNumber, FIELD(flags)},
    {"type_id", Kind::kNumber, FIELD(type_id)},
};
#undef FIELD

const Member* find(const char* name) {
  for (const Member& member : kMembers) {
    if (std::strcmp(member.name, name) == 0) return &member;
  }
  return nullptr;
}

template <class T>
int store(framelane_frame_info& info, const Member& member, T value) {
  if (PyErr_Occurred() != nullptr) return -1;
  std::memcpy(reinterpret_cast<char*>(&info) + member.offset, &value, sizeof value);
  return 1;
}

template <class T>
T load(const framelane_frame_info& info, const Member& member) {
  T value;
  std::memcpy(&value, reinterpret_cast<const char*>(&info) + member.offset, sizeof value);
  return value;
}

}  // namespace

int set_info(framelane_frame_info& info, const char* name, PyObject* value) {
  const Member* const member = find(name);
  if (member == nullptr) return 0;
  if (value == nullptr) {
    PyErr_Format(PyExc_TypeError, "%s can't be deleted; None says that there is none", name);
    return -1;
  }
  const bool none = value == Py_None;
  switch (member->kind) {
    case Kind::kTime:
      return store(info, *member,
                   static_cast<std::uint64_t>(none ? FRAMELANE_NO_TIME : PyLong_AsUnsignedLongLong(value)));
    case Kind::kClock:
      return store(info, *member, static_cast<std::int64_t>(none ? FRAMELANE_NO_CLOCK_TIME : PyLong_AsLongLong(value)));
    case Kind::kNumber: {
      const unsigned long number = none ? 0 : PyLong_AsUnsignedLong(value);
      if (PyErr_Occurred() == nullptr && number > std::numeric_limits<std::uint32_t>::max()) {
        PyErr_Format(PyExc_OverflowError, "%s has 32 bits", name);
      }
      return store(info, *member, static_cast<std::uint32_t>(number));
    }
  }
  return 0;
}

PyObject* get_info(const framelane_frame_info& info, const char* name) {
  const Member* const member = find(name);
  switch (member->kind) {
    case Kind::kTime:
      return from_time(load<std::uint64_t>(info, *member));
    case Kind::kClock:
      return from_clock_time(load<std::int64_t>(info, *member));
    case Kind::kNumber:
      return PyLong_FromUnsignedLong(load<std::uint32_t>(info, *member));
  }
  return nullptr;
}

}  // namespace framelane::python
