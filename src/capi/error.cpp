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
constinit thread_local LastError kept{FRAMELANE_OK, ""};

}  // namespace

framelane_code report(Code code, std::string_view text) noexcept {
  if (text.empty()) text = to_string(code);
  const std::size_t size = std::min(text.size(), sizeof kept.text - 1);
  std::memmove(kept.text, text.data(), size);  // it may be that very text
  kept.text[size] = '\0';
  return kept.code = static_cast<framelane_code>(code);
}

tl::unexpected<Error> last_error() { return fail(static_cast<Code>(kept.code), kept.text); }

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

const char* framelane_error_text(void) { return framelane::capi::kept.text; }
framelane_code framelane_error_code(void) { return framelane::capi::kept.code; }
