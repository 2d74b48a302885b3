// SPDX-License-Identifier: MIT
#pragma once

#include "cli/frame_file.hpp"

namespace framelane::cli {

/// Frames without any header: all of one size, which the caps or the user say. Errors: as open_reader().
[[nodiscard]] Result<std::unique_ptr<FrameReader>> open_raw_reader(ByteSource source, const ReadOptions& options);
[[nodiscard]] Result<std::unique_ptr<FrameWriter>> open_raw_writer(ByteSink sink);

/// A frame's size within the limit. Errors: kTooLarge.
[[nodiscard]] Result<void> check_frame_size(std::uint64_t size, const ReadOptions& options);

}  // namespace framelane::cli
