// SPDX-License-Identifier: MIT
#pragma once

#include <memory>
#include <string>

#include "framelane/base/result.hpp"

#include "transport/tls_session.hpp"

namespace framelane::transport {

/// libframelane-tls, loaded for good.
class TlsLibrary {
 public:
  /// The one of this build: beside the file that holds this code (libframelane.so), else where the loader looks. Loaded
  /// at the first call that finds it. Threads: any. Errors: kUnsupported (the text says what to install).
  [[nodiscard]] static Result<const TlsLibrary*> get();
  /// `file`: a path or a name for the loader. Errors: as get().
  [[nodiscard]] static Result<TlsLibrary> load(const std::string& file);

  /// Errors: kNoMemory, kSystem (OpenSSL's configuration forbids what a lane needs).
  [[nodiscard]] Result<std::unique_ptr<TlsSession>> open(const TlsSettings& settings) const;

 private:
  explicit TlsLibrary(TlsOpen entry) noexcept : open_(entry) {}

  TlsOpen open_;
};

}  // namespace framelane::transport
