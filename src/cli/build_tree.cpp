// SPDX-License-Identifier: MIT
#include "cli/build_tree.hpp"

#include <cstdlib>

namespace framelane::cli {

namespace fs = std::filesystem;

fs::path own_path() {
  std::error_code error;
  return fs::read_symlink("/proc/self/exe", error);
}

std::optional<std::string> build_tree_plugin_path() {
  const fs::path plugins = own_path().parent_path() / ".." / ".." / "plugins" / "lane";
  std::error_code error;
  if (!fs::is_directory(plugins, error)) return std::nullopt;
  const char* before = std::getenv("GST_PLUGIN_PATH");
  const std::string path = fs::weakly_canonical(plugins, error).string();
  return before == nullptr || *before == '\0' ? path : path + ":" + before;
}

}  // namespace framelane::cli
