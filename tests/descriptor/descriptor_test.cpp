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

TEST(UdsAddress, IsTheSamePathByAnotherTransport) {
  const Address address = only("lane.uds:///tmp/cam0");
  EXPECT_EQ(address, (Address{Transport::kUds, "cam0", "/tmp", "", 0}));
  EXPECT_EQ(address.socket_path().value_or("none"), "/tmp/cam0");
}

TEST(TcpAddress, NamesHostPortAndLane) {
  EXPECT_EQ(only("lane.tcp://192.0.2.7:7411/cam0"), (Address{Transport::kTcp, "cam0", "", "192.0.2.7", 7411}));
  EXPECT_EQ(only("lane.tcp://Studio-2.example:65535/cam0").host, "studio-2.example");
  EXPECT_EQ(only("lane.tcp://h:1/cam0").port, 1);
  EXPECT_EQ(only("lane.tcp://my_container:80/%63am0").name, "cam0");
  EXPECT_EQ(only("lane.tcp://3com:80/cam0").host, "3com");
}

TEST(TcpAddress, TakesIp6InBrackets) {
  EXPECT_EQ(only("lane.tcp://[::1]:80/cam0").host, "::1");
  EXPECT_EQ(canonical("lane.tcp://[2001:DB8:0:0::7]:80/cam0"), "lane.tcp://[2001:db8::7]:80/cam0");
  EXPECT_EQ(only("lane.tcp://[fe80::1%25eth0]:80/cam0").host, "fe80::1%eth0");
  EXPECT_EQ(canonical("lane.tcp://[fe80::1%25eth0]:80/cam0"), "lane.tcp://[fe80::1%25eth0]:80/cam0");
}

TEST(TcpAddress, MayLeaveThePortToTheSystemOnTheProducersSide) {
  const auto parsed = Descriptor::parse("lane.tcp://127.0.0.1:0/cam0", Side::kProducer);
  ASSERT_TRUE(parsed) << parsed.error().text;
  EXPECT_EQ(parsed->addresses().front().port, 0);
}

TEST(PipeAddress, NamesServerAndLane) {
  EXPECT_EQ(only("lane.pipe://./cam0").pipe_path().value_or("none"), "\\\\.\\pipe\\cam0");
  EXPECT_EQ(only("lane.pipe://studio/cam0").pipe_path().value_or("none"), "\\\\studio\\pipe\\cam0");
}

TEST(List, KeepsTheOrder) {
  const std::string text = "lane.shm:///tmp/cam0,lane.tcp://[::1]:80/cam0,cam0,lane.pipe://./cam0";
  const auto parsed = Descriptor::parse(text);
  ASSERT_TRUE(parsed) << parsed.error().text;
  EXPECT_TRUE(parsed->is_list());
  EXPECT_EQ(parsed->to_string(), text);
  ASSERT_EQ(parsed->addresses().size(), 4u);
  EXPECT_EQ(parsed->addresses()[1].transport, Transport::kTcp);
  EXPECT_TRUE(parsed->names(Transport::kTcp));
  EXPECT_FALSE(parsed->names(Transport::kUds));
  EXPECT_FALSE(Descriptor::parse("cam0")->is_list());
}

TEST(TypedDescriptor, IsWhatItsTextWouldBe) {
  const auto text = [](const Result<Descriptor>& made) { return made ? made->to_string() : made.error().text; };
  EXPECT_EQ(text(Descriptor::named("cam0")), "cam0");
  EXPECT_EQ(text(Descriptor::shm("/a b", "cam0")), "lane.shm:///a%20b/cam0");
  EXPECT_EQ(text(Descriptor::uds("/", "cam0")), "lane.uds:///cam0");
  EXPECT_EQ(text(Descriptor::tcp("::1", 80, "cam0")), "lane.tcp://[::1]:80/cam0");
  EXPECT_EQ(text(Descriptor::tcp("fe80::1%eth0", 80, "cam0")), "lane.tcp://[fe80::1%25eth0]:80/cam0");
  EXPECT_EQ(text(Descriptor::tcp("H.example", 0, "cam0")), "lane.tcp://h.example:0/cam0");
  EXPECT_EQ(text(Descriptor::pipe(".", "cam0")), "lane.pipe://./cam0");
  EXPECT_EQ(text(Descriptor::list({only("cam0"), only("lane.tcp://h:1/cam0")})), "cam0,lane.tcp://h:1/cam0");
}

TEST(Address, KnowsWhetherItLiesInTheFileSystem) {
  EXPECT_TRUE(only("cam0").is_path());
  EXPECT_TRUE(only("lane.uds:///tmp/cam0").is_path());
  EXPECT_FALSE(only("lane.tcp://127.0.0.1:1/cam0").is_path());
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
    std::string text = address();
    while (pick(3) == 0) text += "," + address();
    return text;
  }

 private:
  std::string address() {
    const std::string lane = name();
    switch (pick(5)) {
      case 0:
        return (pick(2) == 0 ? "" : "lane:") + lane;
      case 1:
        return "lane.tcp://" + host() + ":" + std::to_string(1 + pick(65535)) + "/" + lane;
      case 2:
        return "lane.pipe://" + (pick(2) == 0 ? "." : label()) + "/" + lane;
      default:
        break;
    }
    std::string path;
    for (std::size_t parts = pick(4); parts > 0; --parts) path += "/" + part();
    return (pick(2) == 0 ? "lane.shm://" : "lane.uds://") + path + "/" + lane;
  }

  std::string label() { return "h" + name() + "h"; }

  std::string host() {
    if (pick(3) == 0) return std::to_string(pick(256)) + ".0." + std::to_string(pick(256)) + ".1";
    if (pick(2) == 0) return label() + (pick(2) == 0 ? "" : "." + label());
    static const char* const kGroups[] = {"::", "::1", "1::", "FE80::1%25eth0", "1:2:3:4:5:6:7:8", "::ffff:1.2.3.4"};
    return std::string("[") + kGroups[pick(std::size(kGroups))] + "]";
  }

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
  const char* texts[] = {"cam0",
                         "cam1",
                         "Cam0",
                         "lane.shm:///cam0",
                         "lane.shm:///a/cam0",
                         "lane.shm:///a%20/cam0",
                         "lane.shm:///a+/cam0",
                         "lane.uds:///cam0",
                         "lane.tcp://a:1/cam0",
                         "lane.tcp://a:2/cam0",
                         "lane.tcp://b:1/cam0",
                         "cam0,cam1"};
  for (const char* one : texts) {
    for (const char* other : texts) EXPECT_EQ(canonical(one) == canonical(other), one == other) << one << " " << other;
  }
}

TEST(Parsing, SurvivesMutationsOfValidText) {
  RandomText texts(7);
  std::mt19937 random(8);
  const std::string spice = std::string("/%:,. \0\n.[]@", 12) + kLetters;
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
