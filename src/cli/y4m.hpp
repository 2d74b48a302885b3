// SPDX-License-Identifier: MIT
#pragma once

#include "cli/frame_file.hpp"

// YUV4MPEG2: a line that says what the video is, then for each frame the line FRAME and its planes without padding.
namespace framelane::cli {

/// Which of its bytes belong to the picture, in the order of a Y4M file; neighbours are joined. Without a layout the
/// planes lie as the caps imply. Errors: kUnsupported (a format that Y4M lacks; names those that it has), kProtocol (a
/// layout that can't be).
[[nodiscard]] Result<std::vector<Extent>> picture_extents(const format::VideoFormat& video,
                                                          const format::PlaneLayout& layout);

/// "YUV4MPEG2 W640 …", without the end of the line, as caps. Errors: kProtocol, kUnsupported.
[[nodiscard]] Result<std::string> y4m_caps(std::string_view header);
/// The line for these caps, with its end. Errors: kUnsupported.
[[nodiscard]] Result<std::string> y4m_header(std::string_view caps);

/// Errors: as open_reader() and open_writer().
[[nodiscard]] Result<std::unique_ptr<FrameReader>> open_y4m_reader(ByteSource source, const ReadOptions& options);
[[nodiscard]] Result<std::unique_ptr<FrameWriter>> open_y4m_writer(ByteSink sink, const WriteOptions& options);

}  // namespace framelane::cli
