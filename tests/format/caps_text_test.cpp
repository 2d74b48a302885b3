// SPDX-License-Identifier: MIT
#include "format/caps_text.hpp"

#include <random>
#include <string>

#include <gtest/gtest.h>

#include "framelane/format/caps.hpp"

namespace framelane::format {
namespace {

TEST(CapsValue, LeavesWordsAsTheyAre) {
  for (const char* word : {"I420", "1/2", "a-b_c+d.e:f/g", "0"}) EXPECT_EQ(caps_value(word), word);
}

TEST(CapsValue, EscapesEverythingElse) {
  EXPECT_EQ(caps_value(""), "\"\"");
  EXPECT_EQ(caps_value("a b"), "\"a\\ b\"");
  EXPECT_EQ(caps_value("\"\\,"), "\"\\\"\\\\\\,\"");
  EXPECT_EQ(caps_value("\n\xff"), "\"\\012\\377\"");
}

TEST(CapsValue, IsReadBackAsItWas) {
  std::mt19937 random(5);
  for (int i = 0; i < 5'000; ++i) {
    std::string text;
    for (std::size_t size = 1 + random() % 12; size > 0; --size) text += static_cast<char>(random());
    const auto caps = Caps::parse("a/b, x=(string)" + caps_value(text) + ", y=1", "");
    ASSERT_TRUE(caps) << caps.error().text;
    EXPECT_EQ(caps->string("x").value_or("none"), text);
  }
}

/// Text that is caps but for a few edits.
std::string garbled(std::mt19937& random) {
  static const std::string kSeeds[] = {
      "video/x-raw, format=(string)I420, width=(int)640, height=(int)480, framerate=(fraction)30/1",
      "video/x-raw(memory:SystemMemory), format={ I420, \"NV12\" }, width=[ 1, 640 ], array=< 1, < 2 > >;",
      "audio/x-raw, format=(string)S16LE, layout=(string)interleaved, rate=(int)48000, channels=(int)2, "
      "channel-mask=(bitmask)0x0000000000000003",
      "other/tensors, format=(string)static, num_tensors=(int)2, types=(string)\"uint8\\,float32\", "
      "dimensions=(string)\"3:640:480\\,10\", framerate=(fraction)30/1",
  };
  static const std::string kSpice = std::string("(){}[]<>\"\\,;=/: \0\377019", 21);
  std::string text = kSeeds[random() % std::size(kSeeds)];
  for (std::size_t edits = random() % 6; edits > 0 && !text.empty(); --edits) {
    const std::size_t at = random() % text.size();
    switch (random() % 4) {
      case 0:
        text[at] = kSpice[random() % kSpice.size()];
        break;
      case 1:
        text.erase(at, 1 + random() % 8);
        break;
      case 2:
        text.insert(at, text.substr(random() % text.size(), random() % 20));
        break;
      default:
        text.insert(at, 1, kSpice[random() % kSpice.size()]);
    }
  }
  return text;
}

/// Whatever is accepted must print as something that means the same.
template <class Format>
bool accepts(const std::string& text) {
  const auto format = Format::parse(text);
  if (!format) {
    EXPECT_FALSE(format.error().text.empty());
    return false;
  }
  const auto again = Format::parse(format->to_caps());
  EXPECT_TRUE(again && *again == *format) << text << "\n" << format->to_caps();
  return true;
}

TEST(CapsText, GivesAFormatOrAnErrorWhateverItIs) {
  std::mt19937 random(20261130);
  int accepted = 0;
  int refused = 0;
  for (int i = 0; i < 50'000; ++i) {
    const std::string text = garbled(random);
    const bool video = accepts<VideoFormat>(text);
    const bool audio = accepts<AudioFormat>(text);
    const bool tensors = accepts<TensorFormat>(text);
    (void)frame_rate(text);
    ++(video || audio || tensors ? accepted : refused);
  }
  EXPECT_GT(accepted, 1'000);
  EXPECT_GT(refused, 1'000);
}

TEST(CapsText, DoesNotExhaustTheStackHoweverDeeplyItNests) {
  const std::string deep(1'000'000, '{');
  EXPECT_FALSE(Caps::parse("a/b, x=" + deep, ""));
  EXPECT_TRUE(Caps::parse("a/b, x=" + deep + std::string(1'000'000, '}'), ""));
}

}  // namespace
}  // namespace framelane::format
