// SPDX-License-Identifier: MIT
#pragma once

#include <string>
#include <utility>

#include "framelane/base/result.hpp"

namespace framelane::cli {

/// A new private directory in $TMPDIR or /tmp; removed with all that is in it when this goes.
class TempDir {
 public:
  /// Errors: kPermission, kSystem (the text names the directory and what to do).
  [[nodiscard]] static Result<TempDir> create();
  TempDir(TempDir&& other) noexcept : path_(std::exchange(other.path_, {})) {}
  TempDir& operator=(TempDir&&) = delete;
  ~TempDir();

  [[nodiscard]] const std::string& path() const noexcept { return path_; }

 private:
  explicit TempDir(std::string path) : path_(std::move(path)) {}
  std::string path_;
};

}  // namespace framelane::cli
