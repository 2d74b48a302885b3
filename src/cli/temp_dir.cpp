// SPDX-License-Identifier: MIT
#include "cli/temp_dir.hpp"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "base/text.hpp"

namespace framelane::cli {
namespace {

// A socket's path has at most 107 bytes, and a lane's name up to 64 of them: a deep $TMPDIR would leave no room.
constexpr std::size_t kLongestBase = 24;

std::string base_directory() {
  const char* wish = std::getenv("TMPDIR");
  return wish != nullptr && *wish == '/' && std::strlen(wish) <= kLongestBase ? wish : "/tmp";
}

}  // namespace

Result<TempDir> TempDir::create() {
  std::string path = base_directory() + "/framelane-XXXXXX";
  if (::mkdtemp(path.data()) != nullptr) return TempDir(std::move(path));
  const int error = errno;
  return fail(
      error == EACCES || error == EROFS ? Code::kPermission : Code::kSystem,
      "cannot make a directory " + path + ": " + base::system_words(error) + "; set TMPDIR to one that can be written");
}

TempDir::~TempDir() {
  if (path_.empty()) return;
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

}  // namespace framelane::cli
