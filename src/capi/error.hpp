// SPDX-License-Identifier: MIT
#pragma once

#include <exception>
#include <new>
#include <string_view>
#include <utility>

#include "framelane/base/result.hpp"
#include "framelane/framelane.h"

namespace framelane::capi {

/// Keeps code and text for framelane_error_text() of this thread, and returns the code. No allocation.
framelane_code report(Code code, std::string_view text) noexcept;
inline framelane_code report(const Error& error) noexcept { return report(error.code, error.text); }

template <class T>
framelane_code code_of(const Result<T>& result) noexcept {
  return result ? FRAMELANE_OK : report(result.error());
}

/// What was reported on this thread last, as a Result of any type.
[[nodiscard]] tl::unexpected<Error> last_error();

/// Fails with kInvalidArgument: `what` is NULL.
framelane_code missing(const char* what) noexcept;

/// No exception crosses the border: what `call` (which returns a framelane_code) throws becomes a code.
template <class Call>
framelane_code guarded(Call&& call) noexcept {
  try {
    return std::forward<Call>(call)();
  } catch (const std::bad_alloc&) {
    return report(Code::kNoMemory, "out of memory");
  } catch (const std::exception& error) {
    return report(Code::kSystem, error.what());
  }
}

}  // namespace framelane::capi
