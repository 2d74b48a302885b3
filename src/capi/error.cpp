// SPDX-License-Identifier: MIT
#include "capi/error.hpp"

#include <algorithm>
#include <cstdio>
#include <cstring>

namespace framelane::capi {
namespace {

struct LastError {
  framelane_code code;
  char text[1024];
};
constinit thread_local LastError last_error{FRAMELANE_OK, ""};

// The numbers are the C ABI's for ever.
static_assert(static_cast<int>(Code::kTimeout) == FRAMELANE_TIMEOUT);
static_assert(static_cast<int>(Code::kEndOfStream) == FRAMELANE_END_OF_STREAM);
static_assert(static_cast<int>(Code::kInterrupted) == FRAMELANE_INTERRUPTED);
static_assert(static_cast<int>(Code::kPeerLost) == FRAMELANE_PEER_LOST);
static_assert(static_cast<int>(Code::kProtocol) == FRAMELANE_PROTOCOL);
static_assert(static_cast<int>(Code::kInvalidArgument) == FRAMELANE_INVALID_ARGUMENT);
static_assert(static_cast<int>(Code::kNotFound) == FRAMELANE_NOT_FOUND);
static_assert(static_cast<int>(Code::kInUse) == FRAMELANE_IN_USE);
static_assert(static_cast<int>(Code::kPermission) == FRAMELANE_PERMISSION);
static_assert(static_cast<int>(Code::kTooLarge) == FRAMELANE_TOO_LARGE);
static_assert(static_cast<int>(Code::kNoMemory) == FRAMELANE_NO_MEMORY);
static_assert(static_cast<int>(Code::kFull) == FRAMELANE_FULL);
static_assert(static_cast<int>(Code::kRefused) == FRAMELANE_REFUSED);
static_assert(static_cast<int>(Code::kUnsupported) == FRAMELANE_UNSUPPORTED);
static_assert(static_cast<int>(Code::kSystem) == FRAMELANE_SYSTEM);

}  // namespace

framelane_code report(Code code, std::string_view text) noexcept {
  if (text.empty()) text = to_string(code);
  const std::size_t size = std::min(text.size(), sizeof last_error.text - 1);
  std::memmove(last_error.text, text.data(), size);  // it may be that very text
  last_error.text[size] = '\0';
  return last_error.code = static_cast<framelane_code>(code);
}

framelane_code missing(const char* what) noexcept {
  char text[96];
  const int size = std::snprintf(text, sizeof text, "%s is NULL", what);
  return report(Code::kInvalidArgument, {text, static_cast<std::size_t>(size)});
}

}  // namespace framelane::capi

const char* framelane_code_name(framelane_code code) {
  if (code == FRAMELANE_OK) return "ok";
  if (code < FRAMELANE_TIMEOUT || code > FRAMELANE_SYSTEM) return "unknown";
  return framelane::to_string(static_cast<framelane::Code>(code)).data();  // of literals
}

const char* framelane_error_text(void) { return framelane::capi::last_error.text; }
framelane_code framelane_error_code(void) { return framelane::capi::last_error.code; }
