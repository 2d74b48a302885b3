// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "framelane/base/result.hpp"
#include "framelane/format/caps.hpp"
#include "framelane/format/frame_info.hpp"
#include "framelane/format/plane_layout.hpp"

#include "cli/byte_sink.hpp"
#include "cli/byte_source.hpp"

// Files of frames: what `send` reads and `recv` writes. Each format has a file of its own.
namespace framelane::cli {

enum class FileFormat {
  kRaw,  ///< the frames' bytes one after the other, nothing else
  kY4m,  ///< YUV4MPEG2: raw video with a line of text before each frame
  kWav,  ///< RIFF WAVE
  kNpy,  ///< one array of numpy's
};

/// "raw", "y4m", "wav", "npy".
[[nodiscard]] std::string_view to_string(FileFormat format) noexcept;
/// By the end of the name, in either case; nothing when it says nothing.
[[nodiscard]] std::optional<FileFormat> format_of_name(std::string_view path);
/// By the first bytes of the content; kRaw when they say nothing.
[[nodiscard]] FileFormat format_of_content(std::span<const std::byte> start);
/// Bytes that format_of_content() looks at.
inline constexpr std::size_t kMagicBytes = 12;

/// A fraction; n == 0: not known.
struct Rate {
  int n = 0;
  int d = 1;
  friend bool operator==(const Rate&, const Rate&) = default;
};

/// "30", "29.97", "30000/1001". Errors: kInvalidArgument.
[[nodiscard]] Result<Rate> parse_rate(const std::string& text);

/// Of a stream's unit, exactly, in ns from the first one's; kNoTime where the rate isn't known, or after 126 years.
[[nodiscard]] std::uint64_t time_of(std::uint64_t units, Rate rate) noexcept;

/// Bytes that belong to a picture, without those that pad its rows.
struct Extent {
  std::uint64_t offset = 0;
  std::uint64_t size = 0;
  friend bool operator==(const Extent&, const Extent&) = default;
};

/// Pieces of a frame for readv and writev; `pieces` is used again.
[[nodiscard]] std::span<iovec> pieces_of(const std::byte* frame, const std::vector<Extent>& extents,
                                         std::vector<iovec>& pieces);

/// What a file has been found to hold.
struct StreamInfo {
  std::string caps;               ///< empty: none
  std::uint64_t frame_size = 0;   ///< in the lane; the last one may be smaller. At least 1
  Rate units;                     ///< per second: frames, or samples of all channels; n == 0: not known
  std::uint32_t frame_units = 1;  ///< of a whole frame: 1, or the samples of a block
};

/// What was read of a frame; nothing behind the last one.
struct FrameRead {
  std::size_t size = 0;     ///< bytes
  std::uint32_t units = 0;  ///< of StreamInfo::units
  [[nodiscard]] explicit operator bool() const noexcept { return size != 0; }
};

/// What the user says of a file that it doesn't say itself.
struct ReadOptions {
  std::string caps;                                         ///< raw: what the frames are
  std::uint64_t frame_size = 0;                             ///< raw: bytes; 0: by the caps
  std::uint32_t block = 1024;                               ///< audio: samples of all channels in a frame
  bool whole = false;                                       ///< npy: the array is one frame
  Rate fps;                                                 ///< n == 0: what the file says
  std::uint64_t max_frame_size = std::uint64_t{256} << 20;  ///< bytes
};

/// Reads the frames of one file. Errors of a file that is damaged or ends too early: kProtocol; the text says where.
class FrameReader {
 public:
  virtual ~FrameReader() = default;
  /// Known from the start.
  [[nodiscard]] const StreamInfo& info() const noexcept { return info_; }
  /// Reads a frame to `into`, which has room for info().frame_size bytes.
  /// Errors: kProtocol, kInterrupted, kSystem.
  [[nodiscard]] virtual Result<FrameRead> next(std::span<std::byte> into) = 0;
  /// Back to the first frame. Errors: kUnsupported (a pipe).
  [[nodiscard]] Result<void> rewind();

 protected:
  FrameReader(ByteSource source, StreamInfo info);
  virtual void restart() {}
  /// "'a.y4m' ends at byte 1234, in frame 7: 96 of its 4096 bytes are missing"
  [[nodiscard]] tl::unexpected<Error> truncated(const std::string& in_what, std::uint64_t missing,
                                                std::uint64_t wanted) const;
  [[nodiscard]] tl::unexpected<Error> damaged(const std::string& what) const;

  ByteSource source_;
  StreamInfo info_;
  std::uint64_t frames_ = 0;  // read since the start

 private:
  std::uint64_t first_;
};

/// Reads the header of what `source` holds.
/// Errors: kProtocol (damaged), kUnsupported (well-formed, but nothing for a lane), kTooLarge (a frame beyond the
/// limit), kInvalidArgument (an option is missing or wrong), kInterrupted, kSystem.
[[nodiscard]] Result<std::unique_ptr<FrameReader>> open_reader(FileFormat format, ByteSource source,
                                                               const ReadOptions& options);

/// Writes frames to one file, which after an error still holds whole frames only, unless it is a pipe.
class FrameWriter {
 public:
  virtual ~FrameWriter() = default;
  /// Errors: kProtocol (a frame that doesn't fit the format), those of ByteSink::write().
  [[nodiscard]] Result<void> write(std::span<const std::byte> frame);
  /// The planes of the next frames lie elsewhere. Errors: kProtocol (a layout that can't be).
  [[nodiscard]] virtual Result<void> set_layout(const format::PlaneLayout&) { return {}; }
  /// Completes the header and closes the file.
  /// Errors: kProtocol (fewer frames than the header had to promise), kSystem.
  [[nodiscard]] virtual Result<void> finish() { return sink_.close(); }

 protected:
  explicit FrameWriter(ByteSink sink) : sink_(std::move(sink)) {}
  /// Puts one frame; what it has written of it when it fails is taken back. Errors: as write().
  [[nodiscard]] virtual Result<void> put(std::span<const std::byte> frame) = 0;

  ByteSink sink_;
  std::uint64_t frames_ = 0;  // written whole
};

struct WriteOptions {
  std::string caps;
  format::PlaneLayout layout;
  std::uint64_t frames = 0;  ///< how many there will be; 0: not known
  bool whole = false;        ///< npy: the one frame is the array
};

/// Errors: kUnsupported (caps that the format can't hold; says what can), those of ByteSink::write().
[[nodiscard]] Result<std::unique_ptr<FrameWriter>> open_writer(FileFormat format, ByteSink sink,
                                                               const WriteOptions& options);

/// Value of a field of caps text, without its type; empty when there is none. Not checked.
[[nodiscard]] std::string caps_field(std::string_view caps, std::string_view field);

/// A decimal number of at most `most`, nothing else around it.
[[nodiscard]] std::optional<std::uint64_t> parse_number(std::string_view text, std::uint64_t most);

}  // namespace framelane::cli
