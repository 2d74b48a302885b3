// SPDX-License-Identifier: MIT
// Each bad descriptor gets one error that says where, what was expected, and what would parse.
#include <ostream>
#include <string>

#include <gtest/gtest.h>

#include "framelane/descriptor/descriptor.hpp"

#include "environment.hpp"

namespace framelane::descriptor {
namespace {

using test::Environment;

Error error_of(const std::string& text) {
  const auto parsed = Descriptor::parse(text);
  EXPECT_FALSE(parsed) << "accepted: " << text;
  return parsed ? Error{Code::kSystem, ""} : parsed.error();
}

bool mentions(const Error& error, const std::string& what) { return error.text.find(what) != std::string::npos; }

struct Bad {
  std::string text;
  std::size_t position;
  std::string words;  // part of what was expected
};

void PrintTo(const Bad& bad, std::ostream* out) { *out << testing::PrintToString(bad.text); }

class BadDescriptor : public testing::TestWithParam<Bad> {};

TEST_P(BadDescriptor, IsRefusedAtItsPosition) {
  const Error error = error_of(GetParam().text);
  EXPECT_EQ(error.code, Code::kInvalidArgument);
  EXPECT_TRUE(mentions(error, "position " + std::to_string(GetParam().position) + ":")) << error.text;
  EXPECT_TRUE(mentions(error, GetParam().words)) << error.text;
  EXPECT_TRUE(mentions(error, "cam0 or lane.shm:///run/user/1000/framelane/cam0")) << error.text;
}

const std::string kName = "a lane's name";
const std::string kNameChar = "a letter, a digit, '_' or '-'";
const Bad kBadNames[] = {
    {"", 1, kName},
    {" ", 1, kName},
    {"cam 0", 4, kNameChar},
    {"cam0 ", 5, kNameChar},
    {"cam0\n", 5, kNameChar},
    {std::string("cam\0x", 5), 4, kNameChar},
    {"a/b", 2, kNameChar},
    {"/run/cam0", 1, kName},
    {"..", 1, kName},
    {"../cam0", 1, kName},
    {"a..b", 2, kNameChar},
    {"cam.0", 4, kNameChar},
    {"-cam", 1, kName},
    {"_cam", 1, kName},
    {"cam\xc3\xa9", 4, kNameChar},
    {"cam%30", 4, kNameChar},
    {std::string(65, 'a'), 65, "at most 64"},
    {std::string(200, 'a'), 65, "at most 64"},
    {"lane:", 6, kName},
    {"lane:a b", 7, kNameChar},
    {"lane://cam0", 6, kName},
    {"lane:" + std::string(200, 'a'), 70, "at most 64"},
};
const Bad kBadSchemes[] = {
    {"http://host/cam0", 1, "lane.shm:"}, {"shm:///tmp/cam0", 1, "one of"},
    {"host:7411", 1, "one of"},           {":cam0", 1, "one of"},
    {"LANE:cam0", 1, "one of"},           {"lane.shmm:///a", 1, "one of"},
    {"lane.:///a", 1, "one of"},          {"lane.shm", 5, kNameChar},
};
const Bad kBadPaths[] = {
    {"lane.shm:", 10, "lane.shm://"},
    {"lane.shm:/tmp/cam0", 11, "lane.shm://"},
    {"lane.shm://", 12, "an absolute path"},
    {"lane.shm://tmp/cam0", 12, "an absolute path"},
    {"lane.shm:///", 13, kName},
    {"lane.shm:///tmp/", 17, kName},
    {"lane.shm:////cam0", 13, "no empty parts"},
    {"lane.shm:///a//cam0", 15, "no empty parts"},
    {"lane.shm:///a/../cam0", 15, "\"..\""},
    {"lane.shm:///a/./cam0", 15, "\"..\""},
    {"lane.shm:///a/%2e%2E/cam0", 15, "\"..\""},
    {"lane.shm:///a/..", 15, kName},
    {"lane.shm:///a b/cam0", 14, "%20"},
    {"lane.shm:///a?x=1/cam0", 14, "%XX"},
    {"lane.shm:///a#b/cam0", 14, "%XX"},
    {"lane.shm:///a\\b/cam0", 14, "%XX"},
    {"lane.shm:///a\xff/cam0", 14, "%XX"},
    {"lane.shm:///a%2fb/cam0", 14, "%2F"},
    {"lane.shm:///a%00b/cam0", 14, "%00"},
    {"lane.shm:///a%", 15, "hexadecimal"},
    {"lane.shm:///a%/cam0", 15, "hexadecimal"},
    {"lane.shm:///a%4/cam0", 16, "hexadecimal"},
    {"lane.shm:///a%g0/cam0", 15, "hexadecimal"},
    {"lane.shm:///tmp/cam%20", 20, kNameChar},
    {"lane.shm:///tmp/cam0?max=3", 21, kNameChar},
    {"lane.shm:///tmp/" + std::string(65, 'b'), 81, "at most 64"},
};
const Bad kBadLists[] = {
    {",", 1, kName}, {"cam0,", 6, kName}, {",cam0", 1, kName}, {"cam0,,cam1", 6, kName}, {"cam0, cam1", 6, kName},
};
INSTANTIATE_TEST_SUITE_P(Names, BadDescriptor, testing::ValuesIn(kBadNames));
INSTANTIATE_TEST_SUITE_P(Schemes, BadDescriptor, testing::ValuesIn(kBadSchemes));
INSTANTIATE_TEST_SUITE_P(Paths, BadDescriptor, testing::ValuesIn(kBadPaths));
INSTANTIATE_TEST_SUITE_P(Lists, BadDescriptor, testing::ValuesIn(kBadLists));

TEST(DescriptorError, GivesExamplesThatParse) {
  EXPECT_TRUE(Descriptor::parse("cam0"));
  EXPECT_TRUE(Descriptor::parse("lane.shm:///run/user/1000/framelane/cam0"));
}

TEST(DescriptorError, ShowsNoControlCharactersAndNoEndlessText) {
  const Error error = error_of("\x1b[2J" + std::string(100'000, 'x'));
  EXPECT_EQ(error.text.find('\x1b'), std::string::npos);
  EXPECT_LT(error.text.size(), 500u);
}

TEST(DescriptorError, KnowsTheSchemesThatAreNotBuiltYet) {
  for (const char* scheme : {"lane.uds", "lane.tcp", "lane.pipe"}) {
    const Error error = error_of(std::string(scheme) + "://x/cam0");
    EXPECT_EQ(error.code, Code::kUnsupported);
    EXPECT_TRUE(mentions(error, scheme)) << error.text;
    EXPECT_TRUE(mentions(error, "not built yet")) << error.text;
  }
}

TEST(DescriptorError, KnowsListsThatAreNotBuiltYet) {
  const Error error = error_of("lane.shm:///tmp/cam0,cam0");
  EXPECT_EQ(error.code, Code::kUnsupported);
  EXPECT_TRUE(mentions(error, "position 22:")) << error.text;
}

TEST(SocketPath, MayHave107BytesAndNoMore) {
  const std::string fits = "/" + std::string(101, 'd') + "/cam0";
  ASSERT_EQ(fits.size(), kMaxSocketPath);
  const auto parsed = Descriptor::parse("lane.shm://" + fits);
  ASSERT_TRUE(parsed) << parsed.error().text;
  EXPECT_EQ(parsed->socket_path().value_or("none"), fits);
  const std::string too_long = "/" + std::string(102, 'd') + "/cam0";
  const Error error = error_of("lane.shm://" + too_long);
  EXPECT_EQ(error.code, Code::kTooLarge);
  EXPECT_TRUE(mentions(error, too_long)) << error.text;
  EXPECT_TRUE(mentions(error, "108")) << error.text;
}

TEST(SocketPath, CountsDecodedBytes) {
  std::string path = "/" + std::string(98, 'd');
  for (int i = 0; i < 3; ++i) path += "%20";
  EXPECT_TRUE(Descriptor::parse("lane.shm://" + path + "/cam0"));
}

TEST(SocketPath, IsTooLongInATooLongRuntimeDirectory) {
  const std::string where = "/" + std::string(102, 'd');
  const Environment dir("FRAMELANE_DIR", where.c_str());
  const auto parsed = Descriptor::parse("cam0");
  ASSERT_TRUE(parsed);
  const auto path = parsed->socket_path();
  ASSERT_FALSE(path);
  EXPECT_EQ(path.error().code, Code::kTooLarge);
  EXPECT_TRUE(mentions(path.error(), where + "/cam0 has 108 bytes")) << path.error().text;
}

TEST(SocketPath, IsRefusedInARelativeDirectory) {
  const Environment dir("FRAMELANE_DIR", "lanes");
  const auto path = Descriptor::parse("cam0")->socket_path();
  ASSERT_FALSE(path);
  EXPECT_EQ(path.error().code, Code::kInvalidArgument);
  EXPECT_TRUE(mentions(path.error(), "FRAMELANE_DIR")) << path.error().text;
}

TEST(SocketPath, IsUnsupportedForATransportWithoutOne) {
  const Address tcp{Transport::kTcp, "cam0", "", "127.0.0.1", 7411};
  const auto path = tcp.socket_path();
  ASSERT_FALSE(path);
  EXPECT_EQ(path.error().code, Code::kUnsupported);
}

}  // namespace
}  // namespace framelane::descriptor
