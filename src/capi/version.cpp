// SPDX-License-Identifier: MIT
#include <string_view>

#include "framelane/framelane.h"

namespace {

// The header's numbers are checked against the build's: it is the one that is told once.
#define TEXT_OF(number) #number
#define VERSION_TEXT(major, minor, patch) TEXT_OF(major) "." TEXT_OF(minor) "." TEXT_OF(patch)
static_assert(std::string_view(FRAMELANE_VERSION) ==
                  VERSION_TEXT(FRAMELANE_VERSION_MAJOR, FRAMELANE_VERSION_MINOR, FRAMELANE_VERSION_PATCH),
              "framelane.h and meson.build state different versions");

}  // namespace

const char* framelane_version(void) { return FRAMELANE_VERSION; }

uint32_t framelane_version_number(void) {
  return FRAMELANE_VERSION_MAJOR * 10000 + FRAMELANE_VERSION_MINOR * 100 + FRAMELANE_VERSION_PATCH;
}
