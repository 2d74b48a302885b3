// SPDX-License-Identifier: MIT
// Settings of the library's structs as keyword arguments.
#pragma once

#include <array>
#include <string_view>

#include "object.hpp"

namespace framelane::python {

/// How a value is given in Python and what it becomes.
enum class SettingKind {
  kSeconds,  ///< number of seconds, None = for ever; int64 ns
  kUint32,
  kUint64,
  kBool,  ///< int32
  kDouble,
  kChoice,  ///< one of the words; its index as int32
  kText,    ///< str or path, None = nothing; const char*
};

struct Setting {
  const char* name;
  SettingKind kind;
  std::size_t offset;                     ///< in the struct
  std::array<const char*, 4> words = {};  ///< of a kChoice
};

/// Puts what `named` (may be nullptr) says into the struct. Strings belong to objects that `named` keeps. False with an
/// exception set: TypeError that lists all names for one that doesn't exist, ValueError for a word that isn't one.
bool apply_settings(PyObject* named, const char* what, const Setting* settings, std::size_t count, void* target);

}  // namespace framelane::python
