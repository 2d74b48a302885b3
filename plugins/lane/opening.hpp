// SPDX-License-Identifier: MIT
#pragma once

#include <string>

#include "framelane/base/result.hpp"

namespace framelane::gst {

/// Whether an element of this name may open this lane. Errors: kInvalidArgument (no lane, or one that shared memory
/// doesn't reach while the element knows nothing else).
[[nodiscard]] inline Result<void> check_lane(const std::string& lane, bool shm_only, const char* any_transport) {
  if (lane.empty()) return fail(Code::kInvalidArgument, "no lane: set the property lane, for example lane=cam0");
  const bool has_scheme = lane.find("://") != std::string::npos;
  if (!shm_only || !has_scheme || lane.starts_with("lane.shm://")) return {};
  return fail(Code::kInvalidArgument, "this element knows shared memory only, and \"" + lane +
                                          "\" is something else; use " + any_transport +
                                          ", or a bare name or lane.shm://");
}

}  // namespace framelane::gst
