// SPDX-License-Identifier: MIT
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "framelane/format/caps.hpp"

namespace framelane::format {
namespace {

constexpr TensorType kAllTypes[] = {
    TensorType::kInt32, TensorType::kUint32, TensorType::kInt16,   TensorType::kUint16,
    TensorType::kInt8,  TensorType::kUint8,  TensorType::kFloat64, TensorType::kFloat32,
    TensorType::kInt64, TensorType::kUint64, TensorType::kFloat16,
};

TensorFormat parsed(const std::string& caps) {
  const auto tensors = TensorFormat::parse(caps);
  EXPECT_TRUE(tensors) << tensors.error().text;
  return tensors.value_or(TensorFormat{});
}

TEST(TensorCaps, AreReadAsNnstreamerPrintsThem) {
  EXPECT_EQ(parsed("other/tensors, format=(string)static, num_tensors=(int)2, types=(string)\"uint8\\,float32\", "
                   "dimensions=(string)\"3:640:480:1\\,10\", framerate=(fraction)30/1"),
            (TensorFormat{{{TensorType::kUint8, {3, 640, 480, 1}}, {TensorType::kFloat32, {10}}}, 30, 1}));
}

TEST(TensorCaps, AreReadAsPeopleTypeThem) {
  const TensorFormat want{{{TensorType::kUint8, {3, 4}}, {TensorType::kInt16, {7}}}, 0, 1};
  EXPECT_EQ(parsed("other/tensors,num_tensors=2,types=uint8.int16,dimensions=3:4.7,framerate=0/1"), want);
  EXPECT_EQ(parsed("other/tensors,format=static,types=\"uint8, int16\",dimensions=\"3:4 , 7\",framerate=0/1"), want);
}

TEST(TensorCaps, KeepTrailingOnesBecauseGStreamerComparesStrings) {
  const TensorFormat tensors = parsed("other/tensors,types=uint8,dimensions=80:1:1:1,framerate=0/1");
  EXPECT_EQ(tensors.tensors.front().dimensions, (std::vector<std::uint32_t>{80, 1, 1, 1}));
  EXPECT_NE(tensors.to_caps().find("80:1:1:1,"), std::string::npos) << tensors.to_caps();
}

TEST(TensorCaps, ArePrintedAsGStreamerPrintsThem) {
  EXPECT_EQ((TensorFormat{{{TensorType::kFloat32, {512, 1}}}, 100, 1}).to_caps(),
            "other/tensors, format=(string)static, num_tensors=(int)1, types=(string)float32, "
            "dimensions=(string)512:1, framerate=(fraction)100/1");
  EXPECT_EQ((TensorFormat{{{TensorType::kUint8, {3, 4}}, {TensorType::kInt64, {9}}}, 30, 1}).to_caps(),
            "other/tensors, format=(string)static, num_tensors=(int)2, types=(string)\"uint8\\,int64\", "
            "dimensions=(string)\"3:4\\,9\", framerate=(fraction)30/1");
}

TEST(TensorCaps, HaveNamesInAFieldOfTheirOwn) {
  const TensorFormat named{{{TensorType::kUint8, {3}, "rgb"}, {TensorType::kInt16, {7}}}, 0, 1};
  EXPECT_NE(named.to_caps().find(", names=(string)\"rgb\\,\", "), std::string::npos) << named.to_caps();
  EXPECT_EQ(parsed(named.to_caps()), named);
  EXPECT_EQ(parsed("other/tensors,types=uint8.int16,dimensions=3.7,names=rgb.,framerate=0/1"), named);
  const std::string caps = "other/tensors,types=uint8,dimensions=3,framerate=0/1,names=";
  for (const std::string& names : {std::string("a.b"), std::string("\"a b\""), std::string(64, 'n')}) {
    const auto refused = TensorFormat::parse(caps + names);
    ASSERT_FALSE(refused) << names;
    EXPECT_EQ(refused.error().code, Code::kInvalidArgument);
  }
  EXPECT_EQ(parsed(caps + std::string(63, 'n')).tensors.front().name, std::string(63, 'n'));
}

TEST(TensorCaps, ComeBackAsTheyWere) {
  TensorFormat many{{}, 1, 3};
  for (std::uint32_t i = 0; i < 256; ++i) {
    many.tensors.push_back({kAllTypes[i % std::size(kAllTypes)], std::vector<std::uint32_t>(1 + i % 16, i + 1)});
  }
  EXPECT_EQ(parsed(many.to_caps()), many);
}

TEST(TensorType, HasNnstreamersNumberNameAndSize) {
  const std::pair<const char*, std::uint32_t> rows[] = {{"int32", 4}, {"uint32", 4}, {"int16", 2},   {"uint16", 2},
                                                        {"int8", 1},  {"uint8", 1},  {"float64", 8}, {"float32", 4},
                                                        {"int64", 8}, {"uint64", 8}, {"float16", 2}};
  for (std::size_t i = 0; i < std::size(rows); ++i) {
    EXPECT_EQ(static_cast<std::size_t>(kAllTypes[i]), i);
    EXPECT_EQ(to_string(kAllTypes[i]), rows[i].first);
    EXPECT_EQ(size_of(kAllTypes[i]), rows[i].second);
  }
  EXPECT_EQ(to_string(static_cast<TensorType>(11)), "unknown");
  EXPECT_EQ(size_of(static_cast<TensorType>(11)), 0u);
}

TEST(TensorFrame, HasTheBytesOfAllItsTensors) {
  EXPECT_EQ((Tensor{TensorType::kUint8, {3, 640, 480}}).size().value_or(0), 921'600u);
  EXPECT_EQ((TensorFormat{{{TensorType::kUint8, {3, 5}}, {TensorType::kFloat64, {7}}}, 0, 1}).frame_size().value_or(0),
            15u + 56u);
}

TEST(TensorFrame, HasNoSizeWhenItCanNotHaveOne) {
  const auto code = [](const Tensor& tensor) {
    const auto size = TensorFormat{{tensor}, 0, 1}.frame_size();
    EXPECT_FALSE(size);
    return size ? Code::kSystem : size.error().code;
  };
  EXPECT_EQ(code({TensorType::kUint8, {}}), Code::kInvalidArgument);
  EXPECT_EQ(code({TensorType::kUint8, {3, 0}}), Code::kInvalidArgument);
  EXPECT_EQ(code({static_cast<TensorType>(99), {3}}), Code::kInvalidArgument);
  EXPECT_EQ(code({TensorType::kFloat64, {~0u, ~0u}}), Code::kTooLarge);
  EXPECT_FALSE(TensorFormat{}.frame_size());
  const Tensor half{TensorType::kUint8, {1u << 31, 1u << 31}};  // 2^62 bytes
  EXPECT_TRUE((TensorFormat{{half, half}, 0, 1}).frame_size());
  const auto three = TensorFormat{{half, half, half}, 0, 1}.frame_size();
  ASSERT_FALSE(three);
  EXPECT_EQ(three.error().code, Code::kTooLarge);
}

}  // namespace
}  // namespace framelane::format
