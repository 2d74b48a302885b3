// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include "cli/byte_sink.hpp"
#include "cli/byte_source.hpp"
#include "cli/frame_file.hpp"

namespace framelane::cli::testing {

/// A file of this content, open at its start, that has no name.
inline ByteSource source_of(const std::string& content) {
  base::UniqueFd fd(memfd_create("input", MFD_CLOEXEC));
  EXPECT_EQ(write(fd.get(), content.data(), content.size()), static_cast<ssize_t>(content.size()));
  lseek(fd.get(), 0, SEEK_SET);
  return {std::move(fd), "input", nullptr};
}

/// All that a reader gives: the frames, and how it ended.
struct Contents {
  std::string caps;
  std::vector<std::string> frames;
  std::string error;  ///< empty: the end of the file
};

inline Contents read_all(FileFormat format, const std::string& content, const ReadOptions& options = {}) {
  Contents contents;
  auto reader = open_reader(format, source_of(content), options);
  if (!reader) {
    contents.error = reader.error().text;
    return contents;
  }
  contents.caps = (*reader)->info().caps;
  std::vector<std::byte> room(static_cast<std::size_t>((*reader)->info().frame_size));
  for (;;) {
    const auto read = (*reader)->next(room);
    if (!read) contents.error = read.error().text;
    if (!read || !*read) return contents;
    contents.frames.emplace_back(reinterpret_cast<const char*>(room.data()), read->size);
  }
}

/// Why a file can't be read at all.
inline std::string refusal(FileFormat format, const std::string& content, const ReadOptions& options = {}) {
  const auto reader = open_reader(format, source_of(content), options);
  return reader ? "(it was read)" : reader.error().text;
}

/// Writes frames to a file, and returns its bytes, or the error's text.
inline std::string write_all(FileFormat format, const WriteOptions& options, const std::vector<std::string>& frames) {
  char path[] = "/tmp/flXXXXXX";
  const base::UniqueFd fd(mkstemp(path));
  auto sink = ByteSink::open(path, nullptr);
  unlink(path);
  auto writer = open_writer(format, std::move(*sink), options);
  if (!writer) return writer.error().text;
  for (const std::string& frame : frames) {
    if (const auto written = (*writer)->write(std::as_bytes(std::span(frame))); !written) return written.error().text;
  }
  if (const auto finished = (*writer)->finish(); !finished) return finished.error().text;
  std::string bytes(static_cast<std::size_t>(lseek(fd.get(), 0, SEEK_END)), '\0');
  EXPECT_EQ(pread(fd.get(), bytes.data(), bytes.size(), 0), static_cast<ssize_t>(bytes.size()));
  return bytes;
}

}  // namespace framelane::cli::testing
