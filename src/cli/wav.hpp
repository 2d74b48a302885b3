// SPDX-License-Identifier: MIT
#pragma once

#include "cli/frame_file.hpp"

// RIFF WAVE with PCM of 8, 16, 24 or 32 bits, or floating point of 32 or 64, also as WAVE_FORMAT_EXTENSIBLE.
namespace framelane::cli {

/// Content of a "fmt " chunk as caps. Errors: kProtocol (damaged), kUnsupported (another coding; names it).
[[nodiscard]] Result<format::AudioFormat> wav_format(std::span<const std::byte> chunk);

/// Header for audio of `data_bytes`, up to where the samples begin; nothing for that: not known, readers go on to the
/// end of the file. Errors: kUnsupported (caps that WAV can't hold).
[[nodiscard]] Result<std::vector<std::byte>> wav_header(const format::AudioFormat& audio,
                                                        std::optional<std::uint64_t> data_bytes);

/// Errors: as open_reader() and open_writer().
[[nodiscard]] Result<std::unique_ptr<FrameReader>> open_wav_reader(ByteSource source, const ReadOptions& options);
[[nodiscard]] Result<std::unique_ptr<FrameWriter>> open_wav_writer(ByteSink sink, const WriteOptions& options);

}  // namespace framelane::cli
