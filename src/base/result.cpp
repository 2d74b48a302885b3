// SPDX-License-Identifier: MIT
#include "framelane/base/result.hpp"

namespace framelane {

std::string_view to_string(Code code) noexcept {
  switch (code) {
    case Code::kTimeout:
      return "timeout";
    case Code::kEndOfStream:
      return "end-of-stream";
    case Code::kInterrupted:
      return "interrupted";
    case Code::kPeerLost:
      return "peer-lost";
    case Code::kProtocol:
      return "protocol";
    case Code::kInvalidArgument:
      return "invalid-argument";
    case Code::kNotFound:
      return "not-found";
    case Code::kInUse:
      return "in-use";
    case Code::kPermission:
      return "permission";
    case Code::kTooLarge:
      return "too-large";
    case Code::kNoMemory:
      return "no-memory";
    case Code::kFull:
      return "full";
    case Code::kRefused:
      return "refused";
    case Code::kUnsupported:
      return "unsupported";
    case Code::kSystem:
      return "system";
  }
  return "unknown";
}

}  // namespace framelane
