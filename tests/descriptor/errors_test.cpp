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

const std::string kExamples = "cam0, lane.shm:///run/user/1000/framelane/cam0 or lane.tcp://192.0.2.7:7411/cam0";

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
  EXPECT_TRUE(mentions(error, kExamples)) << error.text;
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
    {"http://host/cam0", 1, "lane.shm:"},
    {"shm:///tmp/cam0", 1, "one of"},
    {"host:7411", 1, "one of"},
    {":cam0", 1, "one of"},
    {"LANE:cam0", 1, "one of"},
    {"lane.shmm:///a", 1, "one of"},
    {"lane.:///a", 1, "one of"},
    {"lane.shm", 5, kNameChar},
    {"lane.tpc://h:1", 1, "one of"},
    {"shm://cam0:1", 1, "one of"},
    {"LANE.TCP://h:1", 1, "one of"},
    {"[]:80", 1, "one of"},
    {"[::1", 1, "one of"},
    {"::1", 1, "one of"},
    {"lane.uds:/tmp/cam0", 11, "lane.uds://"},
    {"lane.tcp:h:1/cam0", 10, "lane.tcp://"},
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
const std::string kHost = "a host's name, an IPv4 address, or an IPv6 address in brackets";
const std::string kLabel = "of a host's name";
const std::string kPort = "a port from 1 to 65535";
const Bad kBadHosts[] = {
    {"lane.tcp://", 12, kHost},
    {"lane.tcp:///cam0", 12, kHost},
    {"lane.tcp://:80/cam0", 12, kHost},
    {"lane.tcp://.h:80/cam0", 12, kLabel},
    {"lane.tcp://h..i:80/cam0", 14, kLabel},
    {"lane.tcp://h.:80/cam0", 14, kLabel},
    {"lane.tcp://-h:80/cam0", 12, kLabel},
    {"lane.tcp://h-:80/cam0", 14, kLabel},
    {"lane.tcp://h-.i:80/cam0", 14, kLabel},
    {"lane.tcp://h h:80/cam0", 13, "':'"},
    {"lane.tcp://h%41:80/cam0", 13, "':'"},
    {"lane.tcp://me@h:80/cam0", 14, "without a user"},
    {"lane.tcp://me:secret@h:80/cam0", 15, kPort},
    {"lane.tcp://1.2.3:80/cam0", 12, kHost},
    {"lane.tcp://127.1:80/cam0", 12, kHost},
    {"lane.tcp://0x7f.0.0.1:80/cam0", 12, kHost},
    {"lane.tcp://h.0x7f:80/cam0", 12, kHost},
    {"lane.tcp://192.0.2.256:80/cam0", 12, kHost},
    {"lane.tcp://" + std::string(64, 'h') + ":80/cam0", 75, "63 between dots"},
    {"lane.tcp://[]:80/cam0", 13, "an IPv6 address"},
    {"lane.tcp://[::1", 16, "']'"},
    {"lane.tcp://[::1:80/cam0", 19, "']'"},
    {"lane.tcp://[::g]:80/cam0", 13, "an IPv6 address"},
    {"lane.tcp://[1.2.3.4]:80/cam0", 13, "an IPv6 address"},
    {"lane.tcp://[fe80::1%eth0]:80/cam0", 20, "a network interface"},
    {"lane.tcp://[fe80::1%25]:80/cam0", 23, "a network interface"},
    {"lane.tcp://::1:80/cam0", 12, kHost},
    {"lane.tcp://fe80::1:80/cam0", 17, "in brackets"},
    {"lane.tcp://2001:db8::1/cam0", 12, kHost},
};
const Bad kBadPorts[] = {
    {"lane.tcp://h/cam0", 13, "':' and a port"},
    {"lane.tcp://h", 13, "':' and a port"},
    {"lane.tcp://[::1]/cam0", 17, "':' and a port"},
    {"lane.tcp://h:/cam0", 14, kPort},
    {"lane.tcp://h:", 14, kPort},
    {"lane.tcp://h:0/cam0", 14, kPort},
    {"lane.tcp://h:65536/cam0", 14, kPort},
    {"lane.tcp://h:99999999999999999999/cam0", 14, kPort},
    {"lane.tcp://h:+80/cam0", 14, kPort},
    {"lane.tcp://h:-1/cam0", 14, kPort},
    {"lane.tcp://h: 80/cam0", 14, kPort},
    {"lane.tcp://h:080/cam0", 14, kPort},
    {"lane.tcp://h:8o/cam0", 15, "'/' and the lane's name"},
    {"lane.tcp://h:80", 16, "'/' and the lane's name"},
    {"lane.tcp://h:80/", 17, kName},
    {"lane.tcp://h:80//cam0", 17, kName},
    {"lane.tcp://h:80/a/cam0", 18, kNameChar},
    {"lane.tcp://h:80/..", 17, kName},
    {"lane.tcp://h:80/cam0?x=1", 21, kNameChar},
    {"lane.tcp://h:80/cam0#x", 21, kNameChar},
    {"lane.tcp://h:80/cam0\n", 21, kNameChar},
    {"lane.tcp://h:80/cam%2F", 20, "%2F"},
};
const Bad kBadPipes[] = {
    {"lane.pipe://", 13, kHost},        {"lane.pipe:///cam0", 13, kHost}, {"lane.pipe://./", 15, kName},
    {"lane.pipe://../cam0", 14, "'/'"}, {"lane.pipe://.", 14, "'/'"},     {"lane.pipe://./a/b", 16, kNameChar},
    {"lane.pipe://.\\cam0", 14, "'/'"},
};
const Bad kBadLists[] = {
    {"lane.tcp://h:80/cam0,", 22, kName},
    {"lane.shm:///tmp/cam0,h:80", 22, "one of"},
    {"cam0,lane.tcp://h:0/cam0", 19, kPort},

    {",", 1, kName},
    {"cam0,", 6, kName},
    {",cam0", 1, kName},
    {"cam0,,cam1", 6, kName},
    {"cam0, cam1", 6, kName},
};
INSTANTIATE_TEST_SUITE_P(Names, BadDescriptor, testing::ValuesIn(kBadNames));
INSTANTIATE_TEST_SUITE_P(Schemes, BadDescriptor, testing::ValuesIn(kBadSchemes));
INSTANTIATE_TEST_SUITE_P(Paths, BadDescriptor, testing::ValuesIn(kBadPaths));
INSTANTIATE_TEST_SUITE_P(Hosts, BadDescriptor, testing::ValuesIn(kBadHosts));
INSTANTIATE_TEST_SUITE_P(Ports, BadDescriptor, testing::ValuesIn(kBadPorts));
INSTANTIATE_TEST_SUITE_P(Pipes, BadDescriptor, testing::ValuesIn(kBadPipes));
INSTANTIATE_TEST_SUITE_P(Lists, BadDescriptor, testing::ValuesIn(kBadLists));

TEST(DescriptorError, GivesExamplesThatParse) {
  EXPECT_TRUE(Descriptor::parse("cam0"));
  EXPECT_TRUE(Descriptor::parse("lane.shm:///run/user/1000/framelane/cam0"));
  EXPECT_TRUE(Descriptor::parse("lane.tcp://192.0.2.7:7411/cam0"));
}

TEST(DescriptorError, ShowsNoControlCharactersAndNoEndlessText) {
  const Error error = error_of("\x1b[2J" + std::string(100'000, 'x'));
  EXPECT_EQ(error.text.find('\x1b'), std::string::npos);
  EXPECT_LT(error.text.size(), 500u);
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

TEST(SocketPath, IsTooLongAnywhereInAList) {
  const Error error = error_of("cam0,lane.uds:///" + std::string(102, 'd') + "/cam0");
  EXPECT_EQ(error.code, Code::kTooLarge);
  EXPECT_TRUE(mentions(error, "position 6:")) << error.text;
}

TEST(SocketPath, IsUnsupportedForATransportWithoutOne) {
  for (const char* text : {"lane.tcp://127.0.0.1:7411/cam0", "lane.pipe://./cam0"}) {
    const auto path = Descriptor::parse(text)->socket_path();
    ASSERT_FALSE(path);
    EXPECT_EQ(path.error().code, Code::kUnsupported);
  }
}

TEST(PipePath, IsUnsupportedForOtherTransports) {
  const auto path = Descriptor::parse("cam0")->addresses().front().pipe_path();
  ASSERT_FALSE(path);
  EXPECT_EQ(path.error().code, Code::kUnsupported);
}

TEST(TypedDescriptor, RefusesWhatParsingWould) {
  const Result<Descriptor> all[] = {
      Descriptor::named(""),
      Descriptor::named("a,b"),
      Descriptor::named("lane:a"),
      Descriptor::shm("", "cam0"),
      Descriptor::shm("tmp", "cam0"),
      Descriptor::shm("/tmp/", "cam0"),
      Descriptor::shm("/tmp", "a/b"),
      Descriptor::uds("/tmp/..", "cam0"),
      Descriptor::tcp("", 80, "cam0"),
      Descriptor::tcp("h:90", 80, "cam0"),
      Descriptor::tcp("h:90/cam0,lane.tcp://h", 80, "cam0"),
      Descriptor::tcp("[::1]", 80, "cam0"),
      Descriptor::tcp("h", 80, "%41"),
      Descriptor::pipe("a/b", "cam0"),
      Descriptor::list({}),
  };
  for (const auto& one : all) {
    EXPECT_FALSE(one) << one->to_string();
    if (!one) {
      EXPECT_EQ(one.error().code, Code::kInvalidArgument) << one.error().text;
    }
  }
}

}  // namespace
}  // namespace framelane::descriptor
