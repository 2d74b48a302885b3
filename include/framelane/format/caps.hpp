// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "framelane/base/result.hpp"

namespace framelane::format {

// Formats of raw frames, to and from the caps text that a lane carries (GStreamer's, e.g.
// "video/x-raw, format=(string)I420, width=(int)640, height=(int)480, framerate=(fraction)30/1"), without GStreamer.
//
// parse() takes one structure with fixed values in any of GStreamer's spellings, and ignores fields that the struct
// doesn't have. Errors of every parse(): kInvalidArgument (says the position, counted in bytes from 1, what was
// expected, and an example), kUnsupported (a well-formed format whose frames are not plain bytes in memory).
// to_caps() writes GStreamer's own spelling; parse() of it gives an equal struct.
//
// Threads: any, as for any struct. Real time: they allocate; use them while negotiating. Units: sizes are bytes.

/// A run of rows in a video frame.
struct Plane {
  std::uint64_t offset = 0;  ///< of the first row, from the start of the frame
  std::uint32_t stride = 0;  ///< from one row to the next
  std::uint32_t rows = 0;

  friend bool operator==(const Plane&, const Plane&) = default;
};

/// How the samples of a plane lie in its rows: an array of shape [Plane::rows, columns, channels].
struct PlaneSamples {
  std::uint32_t columns = 0;      ///< points in a row
  std::uint32_t channels = 0;     ///< samples of a point, side by side; 0: they share bytes, as in RGB16
  std::uint32_t sample_size = 0;  ///< bytes of one sample; of a whole point where channels is 0

  friend bool operator==(const PlaneSamples&, const PlaneSamples&) = default;
};

/// video/x-raw.
struct VideoFormat {
  std::string format;  ///< GStreamer's name, e.g. "I420"
  int width = 0;       ///< pixels
  int height = 0;      ///< pixels
  int fps_n = 0;       ///< frames per second = fps_n / fps_d, in lowest terms; 0/1 = variable or not known
  int fps_d = 1;
  std::string interlace_mode;  ///< empty = progressive

  [[nodiscard]] static Result<VideoFormat> parse(std::string_view caps);
  [[nodiscard]] std::string to_caps() const;

  /// The planes in the order of their offsets, with GStreamer's default strides (rows are padded to 4 bytes).
  /// Errors: kInvalidArgument (a size below 1), kTooLarge (a side beyond 2^24), kUnsupported (a format or interlace
  ///         mode that this table lacks).
  [[nodiscard]] Result<std::vector<Plane>> planes() const;

  /// Of each of planes(), in the same order. Errors: as planes().
  [[nodiscard]] Result<std::vector<PlaneSamples>> samples() const;

  /// Bytes of one frame with these planes. Errors: as planes().
  [[nodiscard]] Result<std::uint64_t> frame_size() const;

  friend bool operator==(const VideoFormat&, const VideoFormat&) = default;
};

/// audio/x-raw.
struct AudioFormat {
  std::string format;  ///< GStreamer's name, e.g. "S16LE"
  int rate = 0;        ///< samples per second and channel
  int channels = 0;
  bool interleaved = true;                    ///< also when the caps say nothing
  std::optional<std::uint64_t> channel_mask;  ///< GStreamer wants one for more than two channels; 0 = no positions

  [[nodiscard]] static Result<AudioFormat> parse(std::string_view caps);
  [[nodiscard]] std::string to_caps() const;

  /// Bytes of one sample of one channel. Errors: kUnsupported (a format that this table lacks).
  [[nodiscard]] Result<std::uint32_t> sample_size() const;

  /// Bytes of one sample of all channels. Errors: as sample_size(), kInvalidArgument (no channels).
  [[nodiscard]] Result<std::uint64_t> bytes_per_sample() const;

  friend bool operator==(const AudioFormat&, const AudioFormat&) = default;
};

/// Element types, with NNStreamer's numbers.
enum class TensorType : std::uint8_t {
  kInt32 = 0,
  kUint32 = 1,
  kInt16 = 2,
  kUint16 = 3,
  kInt8 = 4,
  kUint8 = 5,
  kFloat64 = 6,
  kFloat32 = 7,
  kInt64 = 8,
  kUint64 = 9,
  kFloat16 = 10,
};

/// NNStreamer's name, e.g. "float32".
[[nodiscard]] std::string_view to_string(TensorType type) noexcept;
/// Bytes of one element.
[[nodiscard]] std::uint32_t size_of(TensorType type) noexcept;

/// One tensor of a set.
struct Tensor {
  TensorType type = TensorType::kUint8;
  std::vector<std::uint32_t> dimensions;  ///< innermost first: C's [H][W][3] is 3:W:H. 1 to 16 of them, each at least 1
  std::string name = {};  ///< [A-Za-z0-9_-]{0,63}; empty = none. Travels in a field of its own, which others ignore

  /// Bytes. Errors: kInvalidArgument (no dimensions or one that is 0), kTooLarge (beyond 2^63).
  [[nodiscard]] Result<std::uint64_t> size() const;

  friend bool operator==(const Tensor&, const Tensor&) = default;
};

/// other/tensors with format=static: 1 to 256 tensors, one after the other without padding.
struct TensorFormat {
  std::vector<Tensor> tensors;
  int fps_n = 0;  ///< sets per second = fps_n / fps_d, in lowest terms; 0/1 = variable or not known
  int fps_d = 1;

  [[nodiscard]] static Result<TensorFormat> parse(std::string_view caps);
  [[nodiscard]] std::string to_caps() const;

  /// Bytes of one set. Errors: as Tensor::size(), kInvalidArgument (no tensors).
  [[nodiscard]] Result<std::uint64_t> frame_size() const;

  friend bool operator==(const TensorFormat&, const TensorFormat&) = default;
};

/// Frames per second that the caps of a video (raw or not), of images or of tensors state; nothing when they state none
/// or 0/1, and for everything else, text that isn't caps included.
[[nodiscard]] std::optional<double> frame_rate(std::string_view caps);

}  // namespace framelane::format
