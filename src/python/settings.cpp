// SPDX-License-Identifier: MIT
#include "settings.hpp"

#include <cstring>
#include <limits>
#include <string>

namespace framelane::python {
namespace {

template <class T>
bool store(void* target, const Setting& setting, T value) {
  std::memcpy(static_cast<char*>(target) + setting.offset, &value, sizeof value);
  return true;
}

/// Says of which setting a value is none: TypeError, or ValueError where Python's own said that it is out of range.
bool refuse(const Setting& setting, PyObject* value, const char* wanted) {
  const bool type = PyErr_Occurred() != nullptr && PyErr_ExceptionMatches(PyExc_TypeError) != 0;
  const bool range = PyErr_Occurred() == nullptr || PyErr_ExceptionMatches(PyExc_OverflowError) != 0 ||
                     PyErr_ExceptionMatches(PyExc_ValueError) != 0;
  if (!type && !range) return false;  // something else went wrong
  PyErr_Clear();
  PyErr_Format(type ? PyExc_TypeError : PyExc_ValueError, "%s=%R: it must be %s", setting.name, value, wanted);
  return false;
}

bool store_seconds(void* target, const Setting& setting, PyObject* value) {
  std::int64_t ns = 0;
  if (!to_timeout(value, ns)) return refuse(setting, value, "a number of seconds, or None");
  return store(target, setting, ns);
}

bool store_number(void* target, const Setting& setting, PyObject* value) {
  const unsigned long long number = PyLong_AsUnsignedLongLong(value);
  if (setting.kind == SettingKind::kUint64) {
    if (PyErr_Occurred() != nullptr) return refuse(setting, value, "a whole number from 0 to 18446744073709551615");
    return store(target, setting, static_cast<std::uint64_t>(number));
  }
  if (PyErr_Occurred() != nullptr || number > std::numeric_limits<std::uint32_t>::max()) {
    return refuse(setting, value, "a whole number from 0 to 4294967295");
  }
  return store(target, setting, static_cast<std::uint32_t>(number));
}

bool store_choice(void* target, const Setting& setting, PyObject* value) {
  const char* const word = text_of(value, setting.name);
  if (word == nullptr) return false;
  std::string words;
  for (std::size_t i = 0; i < setting.words.size() && setting.words[i] != nullptr; ++i) {
    if (std::strcmp(word, setting.words[i]) == 0) return store(target, setting, static_cast<std::int32_t>(i));
    words += (i == 0 ? "\"" : ", \"") + std::string(setting.words[i]) + "\"";
  }
  PyErr_Format(PyExc_ValueError, "%s=\"%s\": it is one of %s", setting.name, word, words.c_str());
  return false;
}

bool store_text(void* target, const Setting& setting, PyObject* value) {
  const char* text = nullptr;
  if (value != Py_None && (text = text_of(value, setting.name)) == nullptr) return false;
  return store(target, setting, text);
}

bool store_setting(void* target, const Setting& setting, PyObject* value) {
  switch (setting.kind) {
    case SettingKind::kSeconds:
      return store_seconds(target, setting, value);
    case SettingKind::kUint32:
    case SettingKind::kUint64:
      return store_number(target, setting, value);
    case SettingKind::kChoice:
      return store_choice(target, setting, value);
    case SettingKind::kText:
      return store_text(target, setting, value);
    case SettingKind::kBool: {
      const int truth = PyObject_IsTrue(value);
      return truth >= 0 && store(target, setting, static_cast<std::int32_t>(truth));
    }
    case SettingKind::kDouble: {
      const double number = PyFloat_AsDouble(value);
      if (PyErr_Occurred() != nullptr) return refuse(setting, value, "a number");
      return store(target, setting, number);
    }
  }
  return false;
}

}  // namespace

bool apply_settings(PyObject* named, const char* what, const Setting* settings, std::size_t count, void* target) {
  PyObject* key = nullptr;
  PyObject* value = nullptr;
  for (Py_ssize_t at = 0; named != nullptr && PyDict_Next(named, &at, &key, &value) != 0;) {
    const char* const name = text_of(key, "a setting's name");
    if (name == nullptr) return false;
    const Setting* found = nullptr;
    for (std::size_t i = 0; i < count; ++i) found = std::strcmp(settings[i].name, name) == 0 ? &settings[i] : found;
    if (found == nullptr) {
      std::string names;
      for (std::size_t i = 0; i < count; ++i) names += (i == 0 ? "" : ", ") + std::string(settings[i].name);
      PyErr_Format(PyExc_TypeError, "%s has no setting \"%s\"; it has %s", what, name, names.c_str());
      return false;
    }
    if (!store_setting(target, *found, value)) return false;
  }
  return true;
}

}  // namespace framelane::python
