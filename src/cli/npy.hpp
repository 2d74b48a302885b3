// SPDX-License-Identifier: MIT
#pragma once

#include "cli/frame_file.hpp"

// numpy's .npy, versions 1 to 3: one array after a line of Python that describes it.
namespace framelane::cli {

/// What the header says of the array.
struct NpyHeader {
  format::TensorType type = format::TensorType::kUint8;
  bool fortran_order = false;
  std::vector<std::uint64_t> shape;  ///< outermost first, as numpy writes it; empty: one number
  friend bool operator==(const NpyHeader&, const NpyHeader&) = default;
};

/// "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }". Nothing else of Python is understood.
/// Errors: kProtocol (damaged; says what was expected), kUnsupported (big-endian, objects, structures, complex …).
[[nodiscard]] Result<NpyHeader> parse_npy_header(std::string_view text);

/// The whole header, magic and length included; the same size for every shape[0].
[[nodiscard]] std::string npy_header(const NpyHeader& header);

/// Errors: as open_reader() and open_writer().
[[nodiscard]] Result<std::unique_ptr<FrameReader>> open_npy_reader(ByteSource source, const ReadOptions& options);
[[nodiscard]] Result<std::unique_ptr<FrameWriter>> open_npy_writer(ByteSink sink, const WriteOptions& options);

}  // namespace framelane::cli
