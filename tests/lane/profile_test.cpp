// SPDX-License-Identifier: MIT
// Which of the streams is taken where nothing but a measurement says it.
#include "lane/profile.hpp"

#include <optional>

#include <sys/stat.h>
#include <sys/utsname.h>

#include "lane/lanes.hpp"

namespace framelane::lane_test {
namespace {

using lane::faster_stream;
using lane::faster_stream_in;

std::string host_name() {
  utsname system{};
  uname(&system);
  return system.nodename;
}

/// A directory as the user's cache, and the profile in it.
class Profile : public testing::Test {
 protected:
  Profile() : cache_(directory_.path() + "/cache"), path_(cache_ + "/framelane/transports.profile") {
    std::filesystem::create_directories(cache_ + "/framelane");
    setenv("XDG_CACHE_HOME", cache_.c_str(), 1);
  }
  ~Profile() override {
    unsetenv("XDG_CACHE_HOME");
    setenv("HOME", home_.c_str(), 1);
  }
  void write(const std::string& text) const {
    std::ofstream(path_) << text;
    chmod(path_.c_str(), 0600);
  }
  [[nodiscard]] static std::string line(const std::string& order) {
    return "framelane-transports 1 " + host_name() + " " + order + "\n";
  }

  /// How a consumer that knows only the lane's name reaches a producer that shares no memory.
  [[nodiscard]] Consumer connect(const std::string& tcp_host, ConsumerSettings settings = {}) {
    ProducerSettings serves;
    serves.lane = "lane.uds://" + directory_.path() + "/cam0,lane.tcp://" + tcp_host + ":0/cam0";
    serves.insecure = true;
    producer_.reset();  // the last one has the lane
    producer_ = std::make_unique<Producer>(Producer::open(std::move(serves)).value());
    if (settings.lane.empty()) settings.lane = "cam0";
    auto consumer = Consumer::open(std::move(settings)).value();
    const auto connected = consumer.connect(kPatience);
    EXPECT_TRUE(connected) << (connected ? "" : connected.error().text);
    return consumer;
  }

  LaneDirectory directory_;
  std::string cache_;
  std::string path_;
  std::string home_ = std::getenv("HOME") != nullptr ? std::getenv("HOME") : "/";
  std::unique_ptr<Producer> producer_;
};

TEST(ProfileText, SaysTheFasterStreamOfThisHost) {
  EXPECT_EQ(faster_stream_in("framelane-transports 1 mill tcp uds\n", "mill"), Transport::kTcp);
  EXPECT_EQ(faster_stream_in("framelane-transports 1 mill uds tcp\n", "mill"), Transport::kUds);
}

TEST(ProfileText, IsNoneIfItIsBrokenOrOfAnotherHostOrVersion) {
  for (const char* const text : {"", "\n", "tcp uds\n", "framelane-transports 1 mill tcp uds",
                                 "framelane-transports 1 mill tcp\n", "framelane-transports 1 mill tcp tcp\n",
                                 "framelane-transports 2 mill tcp uds\n", "framelane-transports 1 farm tcp uds\n",
                                 "framelane-transports 1 mill tcp uds\nmore\n", "framelane-transports 1  tcp uds\n"})
    EXPECT_EQ(faster_stream_in(text, "mill"), std::nullopt) << text;
}

TEST_F(Profile, IsReadFromTheUsersCache) {
  EXPECT_EQ(faster_stream(), std::nullopt);
  write(line("tcp uds"));
  EXPECT_EQ(faster_stream(), Transport::kTcp);
  setenv("XDG_CACHE_HOME", "relative", 1);
  setenv("HOME", cache_.c_str(), 1);
  EXPECT_EQ(faster_stream(), std::nullopt);
  std::filesystem::create_directories(cache_ + "/.cache");
  std::filesystem::rename(cache_ + "/framelane", cache_ + "/.cache/framelane");
  EXPECT_EQ(faster_stream(), Transport::kTcp);
}

TEST_F(Profile, IsNoneIfOthersMayWriteItOrItIsNoPlainFile) {
  write(line("tcp uds"));
  chmod(path_.c_str(), 0620);
  EXPECT_EQ(faster_stream(), std::nullopt);
  std::filesystem::remove(path_);
  ASSERT_EQ(mkfifo(path_.c_str(), 0600), 0);
  EXPECT_EQ(faster_stream(), std::nullopt);
  std::filesystem::remove(path_);
  std::filesystem::create_directory(path_);
  EXPECT_EQ(faster_stream(), std::nullopt);
}

TEST_F(Profile, MakesANameFallBackToTheFasterStream) {
  EXPECT_EQ(connect("127.0.0.1").transport(), "uds");
  write(line("uds tcp"));
  EXPECT_EQ(connect("127.0.0.1").transport(), "uds");
  write(line("tcp uds"));
  const Consumer consumer = connect("127.0.0.1");
  EXPECT_EQ(consumer.transport(), "tcp");
  EXPECT_NE(consumer.transport_reason().find("shm: "), std::string::npos) << consumer.transport_reason();
  EXPECT_NE(consumer.transport_reason().find("faster than uds"), std::string::npos) << consumer.transport_reason();
}

TEST_F(Profile, DoesNotOverrideWhatWasAskedFor) {
  write(line("tcp uds"));
  ConsumerSettings by_address;
  by_address.lane = "lane.uds://" + directory_.path() + "/cam0";
  EXPECT_EQ(connect("127.0.0.1", by_address).transport(), "uds");
  ConsumerSettings by_setting;
  by_setting.transport = Transport::kUds;
  EXPECT_EQ(connect("127.0.0.1", by_setting).transport(), "uds");
}

TEST_F(Profile, TakesNoTcpThatIsNotOfTheLoopback) {
  write(line("tcp uds"));
  EXPECT_EQ(connect("0.0.0.0").transport(), "uds");
}

}  // namespace
}  // namespace framelane::lane_test
