// SPDX-License-Identifier: MIT
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <utility>

namespace framelane::cli {

/// The file of this program.
[[nodiscard]] std::filesystem::path own_path();

/// When we run from a build tree, the value of GST_PLUGIN_PATH with which GStreamer finds the tree's elements, too.
[[nodiscard]] std::optional<std::string> build_tree_plugin_path();

}  // namespace framelane::cli
