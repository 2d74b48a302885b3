// SPDX-License-Identifier: MIT
#pragma once

#include <string>
#include <string_view>
#include <utility>

#include <tl/expected.hpp>

namespace framelane {

/// Why a call did not do what was asked. Full and empty are reported as values where they are expected, not here.
enum class Code {
  kTimeout = 1,      ///< nothing came, or no room became free, in time
  kEndOfStream,      ///< the producer ended the stream; nothing follows
  kInterrupted,      ///< interrupt() was called; holds until resume()
  kPeerLost,         ///< the other process died or closed without an end of stream
  kProtocol,         ///< the peer broke the protocol or the ABI; the text names the field
  kInvalidArgument,  ///< a value that can never work; the text says what would
  kNotFound,         ///< no such lane, directory or file
  kInUse,            ///< another live producer has the lane; the text names its process
  kPermission,       ///< the system or the peer does not allow it
  kTooLarge,         ///< a frame beyond max-frame-size or a path beyond its limit
  kNoMemory,         ///< memory, address space or a resource limit is exhausted
  kFull,             ///< all loans are out, or the ring is full and the call must not wait
  kRefused,          ///< the producer rejected this consumer; the text is its sentence
  kUnsupported,      ///< this kernel, build or peer lacks what is needed
  kSystem,           ///< any other system error; the text holds its words
};

/// The field's name of a code, e.g. "timeout".
[[nodiscard]] std::string_view to_string(Code code) noexcept;

/// A code for programs, a sentence for people.
struct Error {
  Code code;
  std::string text;
};

template <class T>
using Result = tl::expected<T, Error>;

/// Shorthand for returning an error from a function of any Result type.
[[nodiscard]] inline tl::unexpected<Error> fail(Code code, std::string text = {}) {
  return tl::unexpected<Error>(Error{code, std::move(text)});
}

}  // namespace framelane
