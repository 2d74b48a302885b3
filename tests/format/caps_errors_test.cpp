// SPDX-License-Identifier: MIT
// Each bad text gets one error that says where, what was expected, and what would parse.
#include <ostream>
#include <string>

#include <gtest/gtest.h>

#include "framelane/format/caps.hpp"

namespace framelane::format {
namespace {

enum class Kind { kVideo, kAudio, kTensor };

struct Bad {
  Kind kind;
  std::string text;
  std::size_t position;
  std::string words;  // part of the sentence
  Code code = Code::kInvalidArgument;
};

void PrintTo(const Bad& bad, std::ostream* out) { *out << testing::PrintToString(bad.text); }

template <class Format>
Error error_as(const std::string& text) {
  const auto parsed = Format::parse(text);
  return parsed ? Error{Code::kSystem, "accepted"} : parsed.error();
}

Error error_of(Kind kind, const std::string& text) {
  switch (kind) {
    case Kind::kVideo:
      return error_as<VideoFormat>(text);
    case Kind::kAudio:
      return error_as<AudioFormat>(text);
    default:
      return error_as<TensorFormat>(text);
  }
}

class BadCaps : public testing::TestWithParam<Bad> {};

TEST_P(BadCaps, AreRefusedAtTheirPosition) {
  const Error error = error_of(GetParam().kind, GetParam().text);
  EXPECT_EQ(error.code, GetParam().code) << error.text;
  const std::string position = "position " + std::to_string(GetParam().position) + ":";
  EXPECT_NE(error.text.find(position), std::string::npos) << error.text;
  EXPECT_NE(error.text.find(GetParam().words), std::string::npos) << error.text;
  // The error's own example is one that this parser takes.
  const std::size_t example = error.text.find("example: ");
  ASSERT_NE(example, std::string::npos);
  EXPECT_EQ(error_of(GetParam().kind, error.text.substr(example + 9)).text, "accepted");
}

constexpr Kind V = Kind::kVideo;
constexpr Kind A = Kind::kAudio;
constexpr Kind T = Kind::kTensor;
const std::string kVideo = "video/x-raw,format=I420,width=4,height=4";               // 40 bytes
const std::string kTensor = "other/tensors,types=uint8,framerate=30/1,dimensions=";  // 52 bytes

const Bad kBadSyntax[] = {
    {V, "", 1, "a media type"},
    {V, "  ", 3, "a media type"},
    {V, ",", 1, "a media type"},
    {V, std::string("video/x-raw\0,", 13), 12, "','"},
    {V, "video/x-raw,", 13, "a field's name"},
    {V, "video/x-raw,=3", 13, "a field's name"},
    {V, "video/x-raw,3=3", 13, "a field's name"},
    {V, "video/x-raw,format", 19, "'='"},
    {V, "video/x-raw,format=", 20, "a value"},
    {V, "video/x-raw,format=(string)", 28, "a value"},
    {V, "video/x-raw,format=(string", 27, "')'"},
    {V, "video/x-raw,format=()I420", 21, "a type"},
    {V, "video/x-raw,format=\"I420", 25, "'\"'"},
    {V, "video/x-raw,format=\"I420\\", 26, "'\"'"},
    {V, "video/x-raw,format=I420 width=4", 25, "','"},
    {V, "video/x-raw,format={I420", 25, "'}'"},
    {V, "video/x-raw,format={I420,[1}", 28, "']'"},
    {V, "video/x-raw,format={\"I420}", 27, "'\"'"},
    {V, "video/x-raw(", 13, "a feature"},
    {V, "video/x-raw(memory:SystemMemory", 32, "')'"},
    {V, "video/x-raw;video/x-raw", 13, "the end"},
    {V, kVideo + "; " + kVideo, 43, "the end"},
    {V, kVideo + ",x=\xff", 44, "a value"},
};
const Bad kBadVideo[] = {
    {V, "audio/x-raw,rate=4", 1, "expected video/x-raw"},
    {V, "ANY", 1, "expected video/x-raw"},
    {V, "video/x-raw,width=4,height=4", 29, "\"format\" is missing"},
    {V, "video/x-raw,format=I420,height=4", 33, "\"width\" is missing"},
    {V, "video/x-raw,format=I420,width=4", 32, "\"height\" is missing"},
    {V, "video/x-raw,format=I420,width=0,height=4", 31, "from 1"},
    {V, "video/x-raw,format=I420,width=-4,height=4", 31, "from 1"},
    {V, "video/x-raw,format=I420,width=4.0,height=4", 31, "a whole number"},
    {V, "video/x-raw,format=I420,width=0x,height=4", 31, "a whole number"},
    {V, "video/x-raw,format=I420,width=2147483648,height=4", 31, "a whole number"},
    {V, "video/x-raw,format=I420,width=[1,4],height=4", 31, "one fixed value"},
    {V, "video/x-raw,format=I420,width=(string)4,height=4", 39, "the type (int)"},
    {V, "video/x-raw,format={I420,NV12},width=4,height=4", 20, "one fixed value"},
    {V, "video/x-raw,format=\"\",width=4,height=4", 20, "a word"},
    {V, kVideo + ",framerate=(int)30", 57, "the type (fraction)"},
    {V, kVideo + ",framerate=30/0", 52, "a fraction"},
    {V, kVideo + ",framerate=-1/1", 52, "a fraction"},
    {V, kVideo + ",framerate=30/1/1", 52, "a fraction"},
    {V, kVideo + ",framerate=/", 52, "a fraction"},
    {V, "video/x-raw(memory:DMABuf),format=I420,width=4,height=4", 12, "memory:DMABuf", Code::kUnsupported},
    {V, "video/x-raw(meta:a,memory:GLMemory),format=I420,width=4,height=4", 12, "GLMemory", Code::kUnsupported},
};
const Bad kBadAudio[] = {
    {A, "video/x-raw", 1, "expected audio/x-raw"},
    {A, "audio/x-raw,rate=4,channels=1", 30, "\"format\" is missing"},
    {A, "audio/x-raw,format=S8,channels=1", 33, "\"rate\" is missing"},
    {A, "audio/x-raw,format=S8,rate=4", 29, "\"channels\" is missing"},
    {A, "audio/x-raw,format=S8,rate=0,channels=1", 28, "from 1"},
    {A, "audio/x-raw,format=S8,rate=4,channels=1,layout=planar", 48, "non-interleaved"},
    {A, "audio/x-raw,format=S8,rate=4,channels=1,channel-mask=left", 54, "a 64-bit mask"},
    {A, "audio/x-raw,format=S8,rate=4,channels=1,channel-mask=0x10000000000000000", 54, "a 64-bit mask"},
};
const Bad kBadTensors[] = {
    {T, "other/tensor,type=uint8,dimension=3", 1, "expected other/tensors"},
    {T, "other/tensors,format=flexible,framerate=0/1", 22, "flexible", Code::kUnsupported},
    {T, "other/tensors,format=sparse,framerate=0/1", 22, "sparse", Code::kUnsupported},
    {T, "other/tensors,format=dense,framerate=0/1", 22, "static"},
    {T, "other/tensors,dimensions=3,framerate=0/1", 41, "\"types\" is missing"},
    {T, "other/tensors,types=uint8,framerate=0/1", 40, "\"dimensions\" is missing"},
    {T, "other/tensors,types=uint8,dimensions=3", 39, "\"framerate\" is missing"},
    {T, "other/tensors,types=uint9,dimensions=3,framerate=0/1", 21, "uint9"},
    {T, "other/tensors,types=uint8.,dimensions=3,framerate=0/1", 21, "element types"},
    {T, "other/tensors,types=uint8.int8,dimensions=3,framerate=0/1", 43, "2 tensors"},
    {T, "other/tensors,num_tensors=2,types=uint8,dimensions=3,framerate=0/1", 27, "expected 1"},
    {T, kTensor + "0", 53, "from 1"},
    {T, kTensor + "3:", 53, "3:640:480"},
    {T, kTensor + "3:-1", 53, "3:640:480"},
    {T, kTensor + "4294967296", 53, "3:640:480"},
    {T, kTensor + "1:1:1:1:1:1:1:1:1:1:1:1:1:1:1:1:1", 53, "1 to 16"},
};
INSTANTIATE_TEST_SUITE_P(Syntax, BadCaps, testing::ValuesIn(kBadSyntax));
INSTANTIATE_TEST_SUITE_P(Video, BadCaps, testing::ValuesIn(kBadVideo));
INSTANTIATE_TEST_SUITE_P(Audio, BadCaps, testing::ValuesIn(kBadAudio));
INSTANTIATE_TEST_SUITE_P(Tensors, BadCaps, testing::ValuesIn(kBadTensors));

TEST(CapsError, RefusesMoreTensorsThanNnstreamerHas) {
  std::string types = "uint8";
  std::string dimensions = "1";
  for (int i = 0; i < 256; ++i) {
    types += ".uint8";
    dimensions += ".1";
  }
  const std::string caps = "other/tensors,types=" + types + ",dimensions=" + dimensions + ",framerate=0/1";
  EXPECT_NE(error_of(T, caps).text.find("at most 256"), std::string::npos);
}

TEST(CapsError, ShowsNoControlCharactersAndNoEndlessText) {
  const std::string text = error_of(V, "video/x-raw,format=\x1b[2J" + std::string(100'000, 'x')).text;
  EXPECT_EQ(text.find('\x1b'), std::string::npos);
  EXPECT_LT(text.size(), 500u);
  EXPECT_LT(error_of(V, std::string(100'000, 'x')).text.size(), 500u);
  EXPECT_LT(error_of(V, kVideo + ",framerate=" + std::string(100'000, '1')).text.size(), 500u);
}

}  // namespace
}  // namespace framelane::format
