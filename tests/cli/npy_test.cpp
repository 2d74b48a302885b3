// SPDX-License-Identifier: MIT
#include "cli/npy.hpp"

#include <gmock/gmock.h>

#include "frame_file_fixture.hpp"

namespace framelane::cli {
namespace {

using format::TensorType;
using ::testing::HasSubstr;
using testing::read_all;
using testing::refusal;
using ::testing::SizeIs;
using testing::write_all;

std::string npy(const std::string& dictionary, const std::string& content, int version = 1) {
  const std::string text = dictionary + "\n";
  std::string length{static_cast<char>(text.size()), static_cast<char>(text.size() >> 8)};
  if (version > 1) length += std::string(2, '\0');
  return std::string("\x93NUMPY") + static_cast<char>(version) + std::string(1, '\0') + length + text + content;
}

std::string described(const std::string& descr, const std::string& shape, const std::string& fortran = "False") {
  return "{'descr': " + descr + ", 'fortran_order': " + fortran + ", 'shape': " + shape + ", }";
}

TEST(Npy, TheFirstAxisCountsTheFrames) {
  for (const int version : {1, 2, 3}) {
    const auto contents =
        read_all(FileFormat::kNpy, npy(described("'<f4'", "(2, 3, 4)"), std::string(96, 'x'), version));
    EXPECT_THAT(contents.caps, HasSubstr("other/tensors"));
    EXPECT_THAT(contents.caps, HasSubstr("types=(string)float32, dimensions=(string)4:3"));
    EXPECT_THAT(contents.frames, ::testing::ElementsAre(SizeIs(48), SizeIs(48)));
    EXPECT_EQ(contents.error, "");
  }
}

TEST(Npy, ArraysWithoutFramesAreOneOrNone) {
  ReadOptions options;
  options.whole = true;
  EXPECT_THAT(read_all(FileFormat::kNpy, npy(described("'|u1'", "(2, 3)"), "abcdef"), options).frames,
              ::testing::ElementsAre("abcdef"));
  EXPECT_THAT(read_all(FileFormat::kNpy, npy(described("'<i8'", "()"), "12345678")).frames, SizeIs(1));
  EXPECT_THAT(read_all(FileFormat::kNpy, npy(described("'|b1'", "(3,)"), "abc")).frames,
              ::testing::ElementsAre("a", "b", "c"));
  EXPECT_THAT(read_all(FileFormat::kNpy, npy(described("'<u2'", "(0, 3)"), "")).frames, SizeIs(0));
}

TEST(Npy, HeadersAreWrittenAsTheyAreRead) {
  for (const NpyHeader& header : {NpyHeader{TensorType::kFloat16, false, {}}, NpyHeader{TensorType::kInt8, false, {7}},
                                  NpyHeader{TensorType::kUint64, true, {1, 2, 3}}}) {
    const std::string text = npy_header(header);
    EXPECT_EQ(text.size() % 64, 0u);
    EXPECT_EQ(*parse_npy_header(text.substr(10)), header);
  }
  const NpyHeader few{TensorType::kUint8, false, {0, 4}};
  const NpyHeader many{TensorType::kUint8, false, {std::uint64_t{1} << 61, 4}};
  EXPECT_EQ(npy_header(few).size(), npy_header(many).size());
}

TEST(Npy, WritesHowManyFramesCame) {
  const std::string caps = "other/tensors,format=static,num_tensors=1,types=int16,dimensions=3:2,framerate=0/1";
  const std::string file = write_all(FileFormat::kNpy, {caps, {}, 0, false}, {"abcdefabcdef", "ghijklghijkl"});
  EXPECT_THAT(file, HasSubstr("'descr': '<i2', 'fortran_order': False, 'shape': (2, 2, 3), }"));
  const auto contents = read_all(FileFormat::kNpy, file);
  EXPECT_THAT(contents.frames, ::testing::ElementsAre("abcdefabcdef", "ghijklghijkl"));
  EXPECT_THAT(write_all(FileFormat::kNpy, {caps, {}, 0, true}, {"abcdefabcdef"}), HasSubstr("'shape': (2, 3), }"));
  EXPECT_THAT(write_all(FileFormat::kNpy, {caps, {}, 0, false}, {"short"}), HasSubstr("doesn't fit its caps"));
}

TEST(Npy, CapsThatItCannotHoldAreRefusedWithAnAlternative) {
  EXPECT_THAT(write_all(FileFormat::kNpy, {"video/x-raw,format=RGB,width=2,height=2", {}, 0, false}, {}),
              HasSubstr("--format raw"));
  EXPECT_THAT(
      write_all(
          FileFormat::kNpy,
          {"other/tensors,format=static,num_tensors=2,types=int16.int16,dimensions=3.2,framerate=0/1", {}, 0, false},
          {}),
      HasSubstr("--format raw"));
}

TEST(Npy, ArraysThatNoLaneCanCarryAreRefusedWithASentence) {
  const struct {
    std::string dictionary;
    const char* sentence;
  } rows[] = {
      {described("'|O'", "(2,)"), "pickled Python objects"},
      {described("'>f4'", "(2,)"), "big-endian"},
      {described("[('a', '<f4')]", "(2,)"), "structured"},
      {described("'<c8'", "(2,)"), "astype"},
      {described("'<U5'", "(2,)"), "astype"},
      {described("'<f4'", "(2, 3)", "True"), "Fortran"},
      {described("'<f4'", "(2, 0)"), "length 0"},
      {described("'<f4'", "(2, 4294967296)"), "larger than a lane"},
      {described("'<f4'", "(2, 4294967295, 4294967295, 4294967295)"), "larger than a lane"},
      {described("'<f4'", "(2, 65536, 65536)"), "--max-frame-size"},
      {described("'<f4'", "(2, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1)"), "16 axes"},
  };
  for (const auto& row : rows) EXPECT_THAT(refusal(FileFormat::kNpy, npy(row.dictionary, "")), HasSubstr(row.sentence));
  EXPECT_EQ(read_all(FileFormat::kNpy, npy(described("'<f4'", "(2,)", "True"), "12345678")).error, "");
}

TEST(Npy, HostileHeadersAreRefusedWithASentence) {
  for (const std::string& dictionary :
       {std::string(), std::string("{"), std::string("{}"), std::string("{'descr'"), std::string("{'descr' '<f4'}"),
        std::string("__import__('os')"), described("'<f4'", "(-1,)"), described("'<f4'", "(99999999999999999999,)"),
        described("'<f4'", "(1.5,)"), described("'<f4'", "(1"), described("'<f4'", "(,)"), described("'<f4'", "[1]"),
        described("'<f4'", "(1,)", "Maybe"), described("'<f4'", "(1,)") + "x", described("''", "(1,)"),
        described("'!f4'", "(1,)"), described("'<f4'", "(" + std::string(200, '1') + ")"),
        std::string("{'descr': '<f4', 'fortran_order': False, 'shape': (1,), 'more': 1}")}) {
    EXPECT_FALSE(parse_npy_header(dictionary)) << dictionary;
  }
  std::string axes;
  for (int i = 0; i < 40; ++i) axes += "1,";
  EXPECT_FALSE(parse_npy_header(described("'<f4'", "(" + axes + ")")));
  EXPECT_THAT(refusal(FileFormat::kNpy, "PK\3\4"), HasSubstr("ends at byte 4"));
  EXPECT_THAT(refusal(FileFormat::kNpy, "PK\3\4 something"), HasSubstr("is no NPY"));
  EXPECT_THAT(refusal(FileFormat::kNpy, npy(described("'<f4'", "(1,)"), "", 9)), HasSubstr("version 9"));
  EXPECT_THAT(refusal(FileFormat::kNpy, std::string("\x93NUMPY\2") + std::string(1, '\0') + "\xff\xff\xff\x7f"),
              HasSubstr("at most 65536"));
}

TEST(Npy, SaysWhereATruncatedArrayEnds) {
  const auto contents = read_all(FileFormat::kNpy, npy(described("'|u1'", "(3, 4)"), "abcdefg"));
  EXPECT_THAT(contents.frames, SizeIs(1));
  EXPECT_THAT(contents.error, HasSubstr("in frame 1 of 3: 1 of its 4 bytes are missing"));
}

}  // namespace
}  // namespace framelane::cli
