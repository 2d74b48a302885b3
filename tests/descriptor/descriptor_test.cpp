// SPDX-License-Identifier: MIT
#include "framelane/descriptor/descriptor.hpp"

#include <random>
#include <string>

#include <gtest/gtest.h>

#include "environment.hpp"

namespace framelane::descriptor {
namespace {

using test::Environment;

const std::string kLetters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";

Address only(const std::string& text) {
  const auto parsed = Descriptor::parse(text);
  EXPECT_TRUE(parsed) << parsed.error().text;
  if (!parsed) return {};
  EXPECT_EQ(parsed->addresses().size(), 1u);
  return parsed->addresses().front();
}

std::string canonical(const std::string& text) {
  const auto parsed = Descriptor::parse(text);
  return parsed ? parsed->to_string() : parsed.error().text;
}

TEST(BareName, AsksForTheBestTransportInTheRuntimeDirectory) {
  const Environment dir("FRAMELANE_DIR", "/run/lanes");
  for (const char* text : {"cam0", "lane:cam0"}) {
    const Address address = only(text);
    EXPECT_EQ(address.transport, Transport::kAny);
    EXPECT_EQ(address.name, "cam0");
    EXPECT_EQ(address.directory, "");
    EXPECT_EQ(address.socket_path().value_or("none"), "/run/lanes/cam0");
  }
}

TEST(BareName, MayHaveAnyOfItsLettersAndLengths) {
  const std::string names[] = {"a", "0", "A_-9", "lane", "shm", std::string(64, 'z'), "x-", "x_"};
  for (const std::string& name : names) {
    EXPECT_EQ(only(name).name, name);
    EXPECT_EQ(only("lane:" + name).name, name);
    EXPECT_EQ(only("lane.shm:///tmp/" + name).name, name);
  }
}

TEST(ShmAddress, NamesDirectoryAndLane) {
  const Address address = only("lane.shm:///run/user/1000/framelane/cam0");
  EXPECT_EQ(address.transport, Transport::kShm);
  EXPECT_EQ(address.name, "cam0");
  EXPECT_EQ(address.directory, "/run/user/1000/framelane");
  EXPECT_EQ(address.socket_path().value_or("none"), "/run/user/1000/framelane/cam0");
}

TEST(ShmAddress, MayLieInTheRootDirectory) {
  const Address address = only("lane.shm:///cam0");
  EXPECT_EQ(address.directory, "/");
  EXPECT_EQ(address.socket_path().value_or("none"), "/cam0");
  EXPECT_EQ(canonical("lane.shm:///cam0"), "lane.shm:///cam0");
}

TEST(ShmAddress, DoesNotDependOnTheEnvironment) {
  const Environment dir("FRAMELANE_DIR", "/elsewhere");
  EXPECT_EQ(only("lane.shm:///tmp/cam0").socket_path().value_or("none"), "/tmp/cam0");
}

TEST(ShmAddress, DecodesPercentEncoding) {
  EXPECT_EQ(only("lane.shm:///a%20b/c%2c%25%C3%bc/cam0").directory, "/a b/c,%\xc3\xbc");
  EXPECT_EQ(only("lane.shm:///tmp/%63am%2D0").name, "cam-0");
}

TEST(ShmAddress, TakesDotsThatAreNotAWholePart) {
  EXPECT_EQ(only("lane.shm:///.hidden/a..b/.../cam0").directory, "/.hidden/a..b/...");
}

TEST(Printing, IsCanonical) {
  EXPECT_EQ(canonical("cam0"), "cam0");
  EXPECT_EQ(canonical("lane:cam0"), "cam0");
  EXPECT_EQ(canonical("lane.shm:///tmp/cam0"), "lane.shm:///tmp/cam0");
  EXPECT_EQ(canonical("lane.shm:///%74mp/%63am0"), "lane.shm:///tmp/cam0");
  EXPECT_EQ(canonical("lane.shm:///a%20b%c3%bc%2c/cam0"), "lane.shm:///a%20b%C3%BC%2C/cam0");
}

/// A random descriptor in a random spelling: a byte of the path may stand as it is or percent-encoded.
class RandomText {
 public:
  explicit RandomText(std::uint32_t seed) : random_(seed) {}

  std::string next() {
    const std::string lane = name();
    if (pick(3) == 0) return (pick(2) == 0 ? "" : "lane:") + lane;
    std::string path;
    for (std::size_t parts = pick(4); parts > 0; --parts) path += "/" + part();
    return "lane.shm://" + path + "/" + lane;
  }

 private:
  std::size_t pick(std::size_t count) { return std::uniform_int_distribution<std::size_t>(0, count - 1)(random_); }

  std::string name() {
    std::string text(1, kLetters[pick(kLetters.size())]);
    for (std::size_t more = pick(20); more > 0; --more) text += (kLetters + "_-")[pick(kLetters.size() + 2)];
    return text;
  }

  std::string part() {
    std::string text(1, kLetters[pick(kLetters.size())]);
    for (std::size_t more = pick(5); more > 0; --more) {
      const auto byte = static_cast<unsigned char>(1 + pick(255));
      const bool plain = (kLetters + "-._~!$&'()*+;=:@").find(static_cast<char>(byte)) != std::string::npos;
      if (byte == '/') continue;
      text += plain && pick(4) != 0 ? std::string(1, static_cast<char>(byte)) : encoded(byte);
    }
    return text;
  }

  std::string encoded(unsigned char byte) {
    const char* digits = pick(2) == 0 ? "0123456789abcdef" : "0123456789ABCDEF";
    return std::string("%") + digits[byte >> 4] + digits[byte & 15];
  }

  std::mt19937 random_;
};

TEST(Printing, IsTheInverseOfParsing) {
  RandomText texts(20261130);
  for (int i = 0; i < 20'000; ++i) {
    const std::string text = texts.next();
    const auto parsed = Descriptor::parse(text);
    ASSERT_TRUE(parsed) << text << ": " << parsed.error().text;
    const std::string printed = parsed->to_string();
    const auto again = Descriptor::parse(printed);
    ASSERT_TRUE(again) << printed << ": " << again.error().text;
    EXPECT_EQ(*again, *parsed) << text;
    EXPECT_EQ(again->to_string(), printed) << text;
  }
}

TEST(Printing, KeepsDifferentPlacesApart) {
  const char* texts[] = {
      "cam0", "cam1", "Cam0", "lane.shm:///cam0", "lane.shm:///a/cam0", "lane.shm:///a%20/cam0", "lane.shm:///a+/cam0"};
  for (const char* one : texts) {
    for (const char* other : texts) EXPECT_EQ(canonical(one) == canonical(other), one == other) << one << " " << other;
  }
}

TEST(Parsing, SurvivesMutationsOfValidText) {
  RandomText texts(7);
  std::mt19937 random(8);
  const std::string spice = std::string("/%:,. \0\n.", 9) + kLetters;
  int refused = 0;
  for (int i = 0; i < 50'000; ++i) {
    std::string text = texts.next();
    for (std::size_t edits = 1 + random() % 3; edits > 0 && !text.empty(); --edits) {
      const std::size_t at = random() % text.size();
      switch (random() % 3) {
        case 0:
          text[at] = spice[random() % spice.size()];
          break;
        case 1:
          text.erase(at, 1 + random() % 3);
          break;
        default:
          text.insert(at, 1, static_cast<char>(random()));
      }
    }
    const auto parsed = Descriptor::parse(text);
    if (parsed) {
      const auto again = Descriptor::parse(parsed->to_string());
      EXPECT_TRUE(again && *again == *parsed) << text;
    } else {
      ++refused;
      EXPECT_FALSE(parsed.error().text.empty());
    }
  }
  EXPECT_GT(refused, 1000);
}

}  // namespace
}  // namespace framelane::descriptor
