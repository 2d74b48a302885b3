// SPDX-License-Identifier: MIT
#include "cli/wav.hpp"

#include <gmock/gmock.h>

#include "frame_file_fixture.hpp"

namespace framelane::cli {
namespace {

using ::testing::HasSubstr;
using testing::read_all;
using testing::refusal;
using ::testing::SizeIs;
using testing::write_all;

std::string u16(unsigned value) { return {static_cast<char>(value), static_cast<char>(value >> 8)}; }
std::string u32(std::uint32_t value) { return u16(value & 0xffff) + u16(value >> 16); }
std::string chunk(const std::string& id, const std::string& content) {
  return id + u32(static_cast<std::uint32_t>(content.size())) + content + std::string(content.size() % 2, '\0');
}
std::string fmt_chunk(unsigned tag, unsigned channels, std::uint32_t rate, unsigned alignment, unsigned bits) {
  return chunk("fmt ", u16(tag) + u16(channels) + u32(rate) + u32(rate * alignment) + u16(alignment) + u16(bits));
}
std::string wav(const std::string& chunks) {
  return "RIFF" + u32(static_cast<std::uint32_t>(4 + chunks.size())) + "WAVE" + chunks;
}

TEST(Wav, PcmAndFloatBecomeCaps) {
  const struct {
    unsigned tag;
    unsigned bits;
    const char* format;
  } rows[] = {{1, 8, "U8"}, {1, 16, "S16LE"}, {1, 24, "S24LE"}, {1, 32, "S32LE"}, {3, 32, "F32LE"}, {3, 64, "F64LE"}};
  for (const auto& row : rows) {
    const auto contents = read_all(FileFormat::kWav, wav(fmt_chunk(row.tag, 2, 44100, row.bits / 4, row.bits) +
                                                         chunk("data", std::string(row.bits / 4 * 3, 'x'))));
    EXPECT_THAT(contents.caps, HasSubstr(std::string("format=(string)") + row.format +
                                         ", layout=(string)interleaved, "
                                         "rate=(int)44100, channels=(int)2"));
    EXPECT_THAT(contents.frames, ::testing::ElementsAre(SizeIs(row.bits / 4 * 3)));
    EXPECT_EQ(contents.error, "");
  }
}

TEST(Wav, BlocksEndWithAShortOneAndOtherChunksArePassedOver) {
  ReadOptions options;
  options.block = 4;
  const std::string file = wav(chunk("LIST", "odd") + fmt_chunk(1, 1, 8000, 2, 16) + chunk("fact", "four") +
                               chunk("data", std::string(22, 's')) + chunk("LIST", "after"));
  EXPECT_THAT(read_all(FileFormat::kWav, file, options).frames,
              ::testing::ElementsAre(SizeIs(8), SizeIs(8), SizeIs(6)));
}

TEST(Wav, WhatIsWrittenReadsAsTheSame) {
  for (const char* caps :
       {"audio/x-raw, format=(string)S16LE, layout=(string)interleaved, rate=(int)48000, channels=(int)1",
        "audio/x-raw, format=(string)S24LE, layout=(string)interleaved, rate=(int)96000, "
        "channels=(int)6, channel-mask=(bitmask)0x0000000000000c0f",
        "audio/x-raw, format=(string)U8, layout=(string)interleaved, rate=(int)8000, channels=(int)1"}) {
    const std::string samples(18 * 3, 'a');
    const std::string file = write_all(FileFormat::kWav, {caps, {}, 0, false}, {samples, samples.substr(0, 18)});
    const auto contents = read_all(FileFormat::kWav, file);
    EXPECT_EQ(contents.caps, caps);
    EXPECT_EQ(contents.frames.at(0), samples + samples.substr(0, 18));
    EXPECT_EQ(contents.error, "");
  }
}

TEST(Wav, OddSizesAreCountedAndNotPadded) {
  const std::string file = write_all(
      FileFormat::kWav, {"audio/x-raw,format=U8,rate=8000,channels=1,layout=interleaved", {}, 0, false}, {"abc"});
  EXPECT_EQ(file.size(), 44u + 3);
  EXPECT_EQ(file.substr(4, 4), u32(39));
  EXPECT_EQ(file.substr(40, 4), u32(3));
}

TEST(Wav, FilesFromAPipeAreReadToTheirEnd) {
  for (const std::uint32_t size : {0xffffffffu, 0x7fff0000u, 0u}) {
    std::string file = wav(fmt_chunk(1, 1, 8000, 2, 16)) + "data" + u32(size) + std::string(6, 's');
    file.replace(4, 4, u32(size == 0 ? 36 : size));
    const auto contents = read_all(FileFormat::kWav, file);
    EXPECT_EQ(contents.error, "");
    EXPECT_THAT(contents.frames, ::testing::ElementsAre(SizeIs(6)));
    EXPECT_THAT(read_all(FileFormat::kWav, file + "t").error, HasSubstr("in a sample: 1 of its 2 bytes"));
  }
  // Really empty, with a chunk behind it that is no sample.
  EXPECT_THAT(
      read_all(FileFormat::kWav, wav(fmt_chunk(1, 1, 8000, 2, 16) + chunk("data", "") + chunk("LIST", "four"))).frames,
      SizeIs(0));
}

TEST(Wav, SaysHowMuchOfATruncatedFileIsMissing) {
  ReadOptions options;
  options.block = 2;
  std::string file = wav(fmt_chunk(1, 1, 8000, 2, 16) + chunk("data", std::string(100, 's')));
  file.resize(44 + 7);
  const auto contents = read_all(FileFormat::kWav, file, options);
  EXPECT_THAT(contents.frames, ::testing::ElementsAre(SizeIs(4), SizeIs(2)));
  EXPECT_EQ(contents.error, "input ends at byte 51, in the samples: 93 of its 100 bytes are missing");
}

TEST(Wav, SaysThatTheSamplesAreNotWhole) {
  for (const std::size_t size : {1u, 3u, 5u, 7u, 1024u * 4 + 2}) {
    const auto contents =
        read_all(FileFormat::kWav, wav(fmt_chunk(1, 2, 8000, 4, 16) + chunk("data", std::string(size, 's'))));
    std::size_t came = 0;
    for (const std::string& frame : contents.frames) came += frame.size();
    EXPECT_EQ(came, size / 4 * 4);
    const std::string bytes = std::to_string(size);
    EXPECT_EQ(contents.error, "input is damaged at byte " + std::to_string(44 + size) + ": its " + bytes +
                                  " bytes of samples aren't whole samples of 4 bytes");
  }
}

TEST(Wav, HostileHeadersAreRefusedWithASentence) {
  const std::string data = chunk("data", "samples!");
  for (const std::string& file :
       {std::string(), std::string("RIFF"), std::string("RIFFxxxxAVI ") + data, wav(data),
        wav(chunk("fmt ", "short") + data), wav(chunk("fmt ", std::string(2000, 'x'))), wav("fmt \xff\xff\xff\xff"),
        wav("LIST\xff\xff\xff\xff"), wav(fmt_chunk(1, 0, 8000, 0, 16) + data),
        wav(fmt_chunk(1, 65535, 8000, 2, 16) + data), wav(fmt_chunk(1, 1, 0, 2, 16) + data),
        wav(fmt_chunk(1, 1, 0xffffffff, 2, 16) + data), wav(fmt_chunk(1, 1, 8000, 4, 16) + data),
        wav(fmt_chunk(1, 1, 8000, 0, 0) + data), wav(fmt_chunk(2, 1, 8000, 2, 16) + data),
        wav(fmt_chunk(3, 1, 8000, 2, 16) + data), wav(fmt_chunk(0xfffe, 1, 8000, 2, 16) + data),
        "RIFX" + wav(data).substr(4), "RF64" + wav(data).substr(4)}) {
    EXPECT_NE(refusal(FileFormat::kWav, file), "(it was read)");
  }
}

TEST(Wav, CapsThatItCannotHoldAreRefusedWithAnAlternative) {
  for (const char* caps :
       {"audio/x-raw,format=S16BE,rate=8000,channels=1", "audio/x-raw,format=S24_32LE,rate=8000,channels=1",
        "audio/x-raw,format=S16LE,rate=8000,channels=2,layout=non-interleaved"}) {
    EXPECT_THAT(write_all(FileFormat::kWav, {caps, {}, 0, false}, {}), HasSubstr("--format raw")) << caps;
  }
  EXPECT_THAT(write_all(FileFormat::kWav, {"audio/x-raw,format=S16LE,rate=8000,channels=2", {}, 0, false}, {"abc"}),
              HasSubstr("whole samples"));
}

}  // namespace
}  // namespace framelane::cli
