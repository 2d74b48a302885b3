// SPDX-License-Identifier: MIT
#include "cli/y4m.hpp"

#include <numeric>

#include <gmock/gmock.h>

#include "frame_file_fixture.hpp"

namespace framelane::cli {
namespace {

using ::testing::HasSubstr;
using testing::read_all;
using testing::refusal;
using ::testing::SizeIs;
using testing::write_all;

std::string counting(std::size_t size, char first = 0) {
  std::string text(size, '\0');
  std::iota(text.begin(), text.end(), first);
  return text;
}

TEST(Y4m, HeaderBecomesCaps) {
  EXPECT_EQ(*y4m_caps("YUV4MPEG2 W640 H480 F30000:1001 Ip A1:1 C420mpeg2 XYSCSS=420MPEG2"),
            "video/x-raw, format=(string)I420, width=(int)640, height=(int)480, framerate=(fraction)30000/1001, "
            "pixel-aspect-ratio=(fraction)1/1, chroma-site=(string)mpeg2");
  EXPECT_THAT(*y4m_caps("YUV4MPEG2 W2 H2 F0:0 Ib Cmono"),
              HasSubstr("format=(string)GRAY8, width=(int)2, height=(int)2, framerate=(fraction)0/1, "
                        "interlace-mode=(string)interleaved, field-order=(string)bottom-field-first"));
}

TEST(Y4m, CapsBecomeAHeaderThatReadsAsTheSameCaps) {
  for (const char* format : {"I420", "Y41B", "Y42B", "Y444", "GRAY8", "GRAY16_LE", "I420_10LE", "I422_12LE"}) {
    const std::string caps =
        std::string("video/x-raw, format=(string)") + format +
        ", width=(int)7, height=(int)5, framerate=(fraction)25/1, pixel-aspect-ratio=(fraction)4/3";
    std::string header = *y4m_header(caps);
    ASSERT_EQ(header.back(), '\n');
    header.pop_back();
    EXPECT_EQ(*y4m_caps(header), caps);
  }
}

TEST(Y4m, PacksAndPadsRows) {
  // 5x3 in I420: rows of 5 padded to 8 bytes, of 3 to 4; GStreamer has an even number of rows.
  const std::string picture = counting(5 * 3 + 2 * (3 * 2));
  const std::string file = "YUV4MPEG2 W5 H3 F25:1 Ip A0:0 C420\nFRAME\n" + picture + "FRAME Ip XANY\n" + picture;
  const auto contents = read_all(FileFormat::kY4m, file);
  EXPECT_EQ(contents.error, "");
  ASSERT_THAT(contents.frames, SizeIs(2));
  ASSERT_THAT(contents.frames[0], SizeIs(8 * 4 + 2 * (4 * 2)));
  EXPECT_EQ(contents.frames[0].substr(0, 5), picture.substr(0, 5));
  EXPECT_EQ(contents.frames[0].substr(8, 5), picture.substr(5, 5));
  EXPECT_EQ(contents.frames[0].substr(32, 3), picture.substr(15, 3));
  EXPECT_EQ(write_all(FileFormat::kY4m, {contents.caps, {}, 0, false}, contents.frames),
            "YUV4MPEG2 W5 H3 F25:1 Ip A0:0 C420\nFRAME\n" + picture + "FRAME\n" + picture);
}

TEST(Y4m, WritesPlanesFromWhereTheProducerSaysTheyLie) {
  const std::string caps = "video/x-raw,format=GRAY8,width=2,height=2";
  const auto layout =
      format::PlaneLayout::parse("framelane-layout, offset=(guint64)< 4 >, stride=(int)< 8 >, top=(uint)0");
  ASSERT_TRUE(layout) << layout.error().text;
  EXPECT_EQ(write_all(FileFormat::kY4m, {caps, *layout, 0, false}, {counting(16)}),
            std::string("YUV4MPEG2 W2 H2 F0:0 Ip A0:0 Cmono\nFRAME\n\4\5\14\15"));
  EXPECT_THAT(write_all(FileFormat::kY4m, {caps, *layout, 0, false}, {counting(13)}), HasSubstr("too small"));
  EXPECT_THAT(write_all(FileFormat::kY4m, {caps, {.places = {{0, 1}}}, 0, false}, {}), HasSubstr("overlap"));
  const std::string i420 = "video/x-raw,format=I420,width=2,height=2";
  EXPECT_THAT(write_all(FileFormat::kY4m, {i420, *layout, 0, false}, {}), HasSubstr("a layout of 1 planes"));
}

TEST(Y4m, PicturesOfMoreRowsThanItHasRoomForAreRefused) {
  EXPECT_THAT(write_all(FileFormat::kY4m, {"video/x-raw,format=GRAY8,width=1,height=65536", {}, 0, false}, {}),
              HasSubstr("W1 H65536"));
  EXPECT_EQ(write_all(FileFormat::kY4m, {"video/x-raw,format=GRAY8,width=1,height=65537", {}, 0, false}, {}),
            "Y4M is written with at most 65536 rows, and the video has 65537: use --format raw");
}

TEST(Y4m, HostileHeadersAreRefusedWithASentence) {
  for (const char* fields : {"", "W5", "W0 H5", "W-5 H5", "W99999999999999999999 H5", "W65537 H5", "W5x H5", "W H",
                             "W5 H5 F30", "W5 H5 F1:0", "W5 H5 F-1:1", "W5 H5 Iz", "W5 H5 I", "W5 H5 C",
                             "W5 H5 C444alpha", "W5 H5 Cnonsense", "W5 H5 A1:0", "W65536 H65536"}) {
    EXPECT_NE(refusal(FileFormat::kY4m, std::string("YUV4MPEG2 ") + fields + "\n"), "(it was read)") << fields;
  }
  EXPECT_THAT(refusal(FileFormat::kY4m, "YUV4MPEG2 " + std::string(5000, 'X')), HasSubstr("too long"));
  EXPECT_THAT(refusal(FileFormat::kY4m, "YUV4MPEG2 W5 H5"), HasSubstr("ends at byte 15"));
  EXPECT_THAT(refusal(FileFormat::kY4m, "RIFF\n"), HasSubstr("is no Y4M"));
}

TEST(Y4m, SaysWhereATruncatedFileEndsAfterItsWholeFrames) {
  const std::string file = "YUV4MPEG2 W4 H4 Cmono\nFRAME\n" + counting(16) + "FRAME\n" + counting(9);
  const auto contents = read_all(FileFormat::kY4m, file);
  EXPECT_THAT(contents.frames, SizeIs(1));
  EXPECT_EQ(contents.error, "input ends at byte 59, in frame 1: 7 of its 16 bytes are missing");
  EXPECT_THAT(read_all(FileFormat::kY4m, "YUV4MPEG2 W4 H4 Cmono\nFRA").error, HasSubstr("3 of its 6 bytes"));
  EXPECT_THAT(read_all(FileFormat::kY4m, "YUV4MPEG2 W4 H4 Cmono\nFRAMES\n").error,
              HasSubstr("expected the word FRAME"));
  EXPECT_THAT(read_all(FileFormat::kY4m, "YUV4MPEG2 W4 H4 Cmono\nfoo").error, HasSubstr("damaged at byte 25"));
}

TEST(Y4m, FormatsThatItLacksAreRefusedWithAnAlternative) {
  EXPECT_THAT(write_all(FileFormat::kY4m, {"video/x-raw,format=BGRA,width=2,height=2", {}, 0, false}, {}),
              HasSubstr("--format raw"));
}

TEST(FrameFile, RatesAreExact) {
  EXPECT_EQ(*parse_rate("30"), (Rate{30, 1}));
  EXPECT_EQ(*parse_rate("30000/1001"), (Rate{30000, 1001}));
  EXPECT_EQ(*parse_rate("29.97"), (Rate{30000, 1001}));
  EXPECT_EQ(*parse_rate("12.5"), (Rate{25, 2}));
  for (const char* text : {"", "0", "-1", "1/0", "30/", "/1", "1e3", "12.", "1.2345", "9999999999", "x"}) {
    EXPECT_FALSE(parse_rate(text)) << text;
  }
}

TEST(FrameFile, FieldsOfCapsAreFoundByTheirWholeName) {
  const std::string caps = "video/x-raw, width=(int)4, pixel-aspect-ratio=(fraction)1/2,site=jpeg";
  EXPECT_EQ(caps_field(caps, "pixel-aspect-ratio"), "1/2");
  EXPECT_EQ(caps_field(caps, "site"), "jpeg");
  EXPECT_EQ(caps_field(caps, "ratio"), "");
  EXPECT_EQ(caps_field("a, x=(", "x"), "");
  EXPECT_EQ(caps_field("a, x", "x"), "");
  EXPECT_EQ(caps_field("a, x = ", "x"), "");
  EXPECT_EQ(caps_field("a, x = (fraction) 30/1, y=2", "x"), "30/1");
}

TEST(FrameFile, TimesFollowExactlyFromTheRateWhileTheyFit) {
  EXPECT_EQ(time_of(0, {30, 1}), 0u);
  EXPECT_EQ(time_of(30000, {30000, 1001}), 1'001'000'000'000u);
  EXPECT_EQ(time_of(1, {3, 1}), 333'333'333u);
  EXPECT_EQ(time_of(4, {1, 1'000'000'000}), 4'000'000'000'000'000'000u);
  EXPECT_EQ(time_of(19, {1, 1'000'000'000}), format::kNoTime);  // 19e18 ns don't fit in 64 bits
  EXPECT_EQ(time_of(std::uint64_t{1} << 60, {1, 1'000'000'000}), format::kNoTime);
  EXPECT_EQ(time_of(7, {0, 1}), format::kNoTime);
}

TEST(FrameFile, RawFramesFollowFromCapsOrSize) {
  ReadOptions options;
  EXPECT_THAT(refusal(FileFormat::kRaw, "", options), HasSubstr("--caps"));
  options.caps = "video/x-raw,format=GRAY8,width=4,height=2";
  const auto contents = read_all(FileFormat::kRaw, counting(18), options);
  EXPECT_THAT(contents.frames, SizeIs(2));
  EXPECT_EQ(contents.error, "input ends at byte 18, in frame 2: 6 of its 8 bytes are missing");
  options.caps = "audio/x-raw,format=S16LE,rate=8000,channels=2";
  options.block = 4;
  EXPECT_THAT(read_all(FileFormat::kRaw, counting(24), options).frames, ::testing::ElementsAre(SizeIs(16), SizeIs(8)));
  options.caps = "video/x-h264";
  EXPECT_THAT(refusal(FileFormat::kRaw, "", options), HasSubstr("--frame-size"));
  options.frame_size = 5;
  EXPECT_THAT(read_all(FileFormat::kRaw, counting(10), options).frames, SizeIs(2));
  options.caps = "video/x-h264,framerate=100/3";
  EXPECT_EQ((*open_reader(FileFormat::kRaw, testing::source_of(""), options))->info().units, (Rate{100, 3}));
  options.caps = "video/x-h264, framerate = (fraction)30000/1001";
  EXPECT_EQ((*open_reader(FileFormat::kRaw, testing::source_of(""), options))->info().units, (Rate{30000, 1001}));
  options.frame_size = options.max_frame_size + 1;
  EXPECT_THAT(refusal(FileFormat::kRaw, "", options), HasSubstr("--max-frame-size"));
}

}  // namespace
}  // namespace framelane::cli
