// SPDX-License-Identifier: MIT
#include <string>
#include <utility>

#include <gtest/gtest.h>

#include "framelane/format/caps.hpp"

namespace framelane::format {
namespace {

AudioFormat parsed(const std::string& caps) {
  const auto audio = AudioFormat::parse(caps);
  EXPECT_TRUE(audio) << audio.error().text;
  return audio.value_or(AudioFormat{});
}

TEST(AudioCaps, AreReadAsGStreamerPrintsThem) {
  EXPECT_EQ(parsed("audio/x-raw, format=(string)S16LE, layout=(string)interleaved, rate=(int)48000, channels=(int)2, "
                   "channel-mask=(bitmask)0x0000000000000003"),
            (AudioFormat{"S16LE", 48000, 2, true, 3}));
}

TEST(AudioCaps, AreReadAsPeopleTypeThem) {
  EXPECT_EQ(parsed("audio/x-raw,rate=16000,channels=1,format=F32LE"), (AudioFormat{"F32LE", 16000, 1, true, {}}));
  EXPECT_EQ(parsed("audio/x-raw,rate=16000,channels=6,format=F32LE,layout=non-interleaved,channel-mask=(bitmask)63"),
            (AudioFormat{"F32LE", 16000, 6, false, 0x3f}));
}

TEST(AudioCaps, ArePrintedAsGStreamerPrintsThem) {
  EXPECT_EQ((AudioFormat{"S16LE", 48000, 2, true, 3}).to_caps(),
            "audio/x-raw, format=(string)S16LE, layout=(string)interleaved, rate=(int)48000, channels=(int)2, "
            "channel-mask=(bitmask)0x0000000000000003");
  EXPECT_EQ((AudioFormat{"U8", 8000, 1, false, {}}).to_caps(),
            "audio/x-raw, format=(string)U8, layout=(string)non-interleaved, rate=(int)8000, channels=(int)1");
}

TEST(AudioCaps, ComeBackAsTheyWere) {
  for (const AudioFormat& audio : {AudioFormat{"S24LE", 192000, 64, true, 0}, AudioFormat{"S8", 1, 1, false, {}},
                                   AudioFormat{"F64BE", 44100, 8, true, 0xfedcba9876543210}}) {
    EXPECT_EQ(parsed(audio.to_caps()), audio) << audio.to_caps();
  }
}

TEST(AudioSample, HasTheSizeOfItsFormat) {
  const std::pair<const char*, std::uint32_t> sizes[] = {
      {"S8", 1},    {"U8", 1},    {"S16LE", 2}, {"S16BE", 2},    {"U16LE", 2}, {"S18LE", 3}, {"S20BE", 3}, {"S24LE", 3},
      {"U24BE", 3}, {"S32LE", 4}, {"U32BE", 4}, {"S24_32LE", 4}, {"F32LE", 4}, {"F32BE", 4}, {"F64LE", 8},
  };
  for (const auto& [format, bytes] : sizes) {
    const AudioFormat audio{format, 48000, 5, true, {}};
    EXPECT_EQ(audio.sample_size().value_or(0), bytes) << format;
    EXPECT_EQ(audio.bytes_per_sample().value_or(0), 5 * bytes) << format;
  }
}

TEST(AudioSample, HasNoSizeWhenThatIsNotKnown) {
  for (const char* format : {"", "S16", "S8LE", "s16le", "S16XE", "S16LEX", "ENCODED", "F16LE"}) {
    const auto size = AudioFormat{format, 48000, 2, true, {}}.sample_size();
    ASSERT_FALSE(size) << format;
    EXPECT_EQ(size.error().code, Code::kUnsupported);
  }
  const auto no_channels = AudioFormat{"S16LE", 48000, 0, true, {}}.bytes_per_sample();
  ASSERT_FALSE(no_channels);
  EXPECT_EQ(no_channels.error().code, Code::kInvalidArgument);
}

}  // namespace
}  // namespace framelane::format
