// SPDX-License-Identifier: MIT
// The elements of one transport, and what all of them say of how frames travel.
#include <cstdlib>
#include <fstream>
#include <optional>

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "pipeline.hpp"

namespace framelane::gst::test {
namespace {

const std::string kLive = "videotestsrc is-live=true ! video/x-raw,format=GRAY8,width=64,height=48,framerate=100/1 ! ";

std::string text_of(GstElement* element, const char* property) {
  char* text = nullptr;
  g_object_get(element, property, &text, nullptr);
  const std::string copy = text == nullptr ? "" : text;
  g_free(text);
  return copy;
}

std::string field_of(const GstStructure* structure, const char* field) {
  const char* const text = gst_structure_get_string(structure, field);
  return text == nullptr ? "" : text;
}

struct Elements {
  const char* transport;
  const char* prefix;
};

class OneTransport : public LaneTest, public ::testing::WithParamInterface<Elements> {
 protected:
  bool is_tcp() const { return GetParam().transport == std::string("tcp"); }
  std::string end(const char* which, const std::string& options = "") const {
    return std::string(GetParam().prefix) + which + " name=" + which + " lane=x " +
           (is_tcp() ? "port=" + port_ + " " : "") + options;
  }
  const std::string port_ = free_port();
};

TEST_P(OneTransport, BothEndsSayWhichItIs) {
  Pipeline sending(kLive + end("sink"));
  Pipeline receiving(end("src") + " ! fakesink name=out");
  GstElement* const source = receiving.element("src");
  GstElement* const sink = sending.element("sink");
  EXPECT_EQ(text_of(source, "transport"), "");
  EXPECT_EQ(text_of(sink, "descriptor"), "");
  std::string added;
  g_signal_connect(sink, "consumer-added", G_CALLBACK(+[](GstElement*, guint, GstStructure* info, std::string* text) {
                     *text = field_of(info, "transport") + " " + field_of(info, "address");
                   }),
                   &added);
  sending.play();
  receiving.play();
  Tap tap(receiving.element("out"), "sink");
  ASSERT_TRUE(comes([&] { return tap.count() > 0; }));
  EXPECT_EQ(text_of(source, "transport"), GetParam().transport);
  EXPECT_NE(text_of(source, "transport-reason"), "");
  EXPECT_TRUE(text_of(sink, "descriptor").starts_with("lane." + std::string(GetParam().transport) + "://"));
  EXPECT_TRUE(added.starts_with(std::string(GetParam().transport) + (is_tcp() ? " 127.0.0.1:" : " "))) << added;
  GstStructure* stats = nullptr;
  g_object_get(source, "stats", &stats, nullptr);
  EXPECT_EQ(field_of(stats, "transport"), GetParam().transport);
  EXPECT_EQ(field_of(stats, "transport-reason"), text_of(source, "transport-reason"));
  gst_structure_free(stats);
  sending.set(GST_STATE_NULL);  // the signal's handler has this frame's text
}

TEST_P(OneTransport, AMessageSaysItWithTheReason) {
  Pipeline sending(kLive + end("sink"));
  Pipeline receiving(end("src") + " ! fakesink");
  sending.play();
  receiving.play();
  GstBus* const bus = gst_element_get_bus(receiving.get());
  std::optional<std::string> transport;
  EXPECT_TRUE(comes([&] {
    GstMessage* const message = gst_bus_pop_filtered(bus, GST_MESSAGE_ELEMENT);
    if (message == nullptr) return false;
    const GstStructure* const structure = gst_message_get_structure(message);
    if (gst_structure_has_name(structure, "framelane-transport")) {
      transport = field_of(structure, "transport");
      EXPECT_NE(field_of(structure, "lane"), "");
      EXPECT_NE(field_of(structure, "reason"), "");
    }
    gst_message_unref(message);
    return transport.has_value();
  }));
  EXPECT_EQ(transport, GetParam().transport);
  gst_object_unref(bus);
}

TEST_P(OneTransport, LanesOfOthersAreRefused) {
  const std::string prefix = GetParam().prefix;
  for (const std::string other : {"shm", "uds", "tcp"}) {
    if (other == GetParam().transport) continue;
    const std::string lane =
        " lane=lane." + other + (other == "tcp" ? "://127.0.0.1:7411/x" : "://" + directory_ + "/x");
    Pipeline sending("videotestsrc ! " + prefix + "sink" + lane);
    sending.set(GST_STATE_PLAYING);
    EXPECT_TRUE(ends_with_error(sending, "use lanesink"));
    Pipeline receiving(prefix + "src" + lane + " ! fakesink");
    receiving.set(GST_STATE_PLAYING);
    EXPECT_TRUE(ends_with_error(receiving, "use lanesrc"));
  }
}

INSTANTIATE_TEST_SUITE_P(With, OneTransport,
                         ::testing::Values(Elements{"shm", "shmring"}, Elements{"uds", "udslane"},
                                           Elements{"tcp", "tcplane"}),
                         [](const auto& each) { return std::string(each.param.transport); });

class TransportsTest : public LaneTest {};

TEST_F(TransportsTest, ANameIsServedOverSharedMemoryAndUdsAtOnce) {
  Pipeline sending(kLive + "lanesink name=sink lane=x");
  sending.play();
  EXPECT_EQ(text_of(sending.element("sink"), "descriptor"),
            "lane.shm://" + directory_ + "/lanes/x,lane.uds://" + directory_ + "/lanes/x");
  for (const char* const source : {"shmringsrc", "udslanesrc", "lanesrc"}) {
    Pipeline receiving(std::string(source) + " name=src lane=x num-buffers=5 ! fakesink");
    EXPECT_TRUE(receiving.play().ends()) << source;
  }
}

TEST_F(TransportsTest, TheDescriptorHasThePortThatTheSystemChose) {
  Pipeline sending(kLive + "tcplanesink name=sink lane=x port=0");
  sending.play();
  const std::string descriptor = text_of(sending.element("sink"), "descriptor");
  EXPECT_EQ(descriptor.find(":0/"), std::string::npos) << descriptor;
  Pipeline receiving("tcplanesrc num-buffers=5 lane=" + descriptor + " ! fakesink");
  EXPECT_TRUE(receiving.play().ends());
  sending.set(GST_STATE_NULL);
  EXPECT_EQ(text_of(sending.element("sink"), "descriptor"), "");
}

TEST_F(TransportsTest, ADescriptorSaysMoreThanHostAndPort) {
  const std::string lane = "lane.tcp://127.0.0.1:" + free_port() + "/x";
  Pipeline sending(kLive + "tcplanesink name=sink host=nowhere.invalid port=1 lane=" + lane);
  sending.play();
  EXPECT_EQ(text_of(sending.element("sink"), "descriptor"), lane);
}

TEST_F(TransportsTest, AnIpv6HostNeedsNoBrackets) {
  Pipeline sending("videotestsrc ! tcplanesink name=sink lane=x host=::1 port=0");
  if (sending.set(GST_STATE_PAUSED) == GST_STATE_CHANGE_FAILURE) GTEST_SKIP() << "no IPv6 here";
  EXPECT_TRUE(text_of(sending.element("sink"), "descriptor").starts_with("lane.tcp://[::1]:"));
}

TEST_F(TransportsTest, AddressesThatOthersReachNeedAKeyOrToBeCalledInsecure) {
  Pipeline open("videotestsrc ! tcplanesink lane=x host=0.0.0.0 port=0");
  open.set(GST_STATE_PLAYING);
  EXPECT_TRUE(ends_with_error(open, "insecure"));
  Pipeline meant(kLive + "tcplanesink name=sink lane=x host=0.0.0.0 port=0 insecure=true");
  meant.play();
  EXPECT_NE(text_of(meant.element("sink"), "descriptor"), "");
}

TEST_F(TransportsTest, WhoConnectsAndSaysNothingIsTurnedAway) {
  Pipeline sending(kLive + "udslanesink name=sink lane=x handshake-timeout=50000000");
  sending.play();
  const int peer = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  (directory_ + "/lanes/x.stream").copy(address.sun_path, sizeof address.sun_path - 1);
  ASSERT_EQ(::connect(peer, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  EXPECT_TRUE(comes([&] {
    char bytes[256];
    const ssize_t size = ::recv(peer, bytes, sizeof bytes, MSG_DONTWAIT);
    return size == 0 || (size < 0 && errno == ECONNRESET);
  }));
  ::close(peer);
}

// --- TLS

class Keys : public LaneTest {
 protected:
  void SetUp() override {
    LaneTest::SetUp();
    key_ = directory_ + "/a.key";
    other_key_ = directory_ + "/b.key";
    if (std::getenv("FRAMELANE_TEST_TLS") == nullptr) GTEST_SKIP() << "built without TLS";
    std::ofstream(key_) << "lane:" << std::string(64, 'a') << "\n";
    std::ofstream(other_key_) << "lane:" << std::string(64, 'b') << "\n";
    for (const std::string& file : {key_, other_key_}) ::chmod(file.c_str(), 0600);
  }
  std::string end(const char* element, const std::string& key) const {
    return std::string(element) + " name=end lane=x port=" + port_ + (key.empty() ? "" : " psk-file=" + key) + " ";
  }
  std::string key_, other_key_;
  const std::string port_ = free_port();
};

TEST_F(Keys, FramesCrossWithTheSameOne) {
  Pipeline sending(kLive + end("tcplanesink", key_) + "host=0.0.0.0");
  sending.play();
  Pipeline receiving(end("tcplanesrc", key_) + "num-buffers=5 ! fakesink");
  EXPECT_TRUE(receiving.play().ends());
}

TEST_F(Keys, AnotherOneOrNoneIsAnError) {
  Pipeline sending(kLive + end("tcplanesink", key_));
  sending.play();
  for (const std::string& key : {other_key_, std::string()}) {
    Pipeline receiving(end("tcplanesrc", key) + "connect-timeout=1000000000 ! fakesink");
    receiving.set(GST_STATE_PLAYING);
    EXPECT_TRUE(ends_with_error(receiving, "psk"));
  }
}

TEST_F(Keys, AFileThatIsNotThereIsNamed) {
  const std::string missing = directory_ + "/no.key";
  Pipeline sending("videotestsrc ! " + end("tcplanesink", missing));
  sending.set(GST_STATE_PLAYING);
  EXPECT_TRUE(ends_with_error(sending, missing.c_str()));
  Pipeline receiving(end("tcplanesrc", missing) + "! fakesink");
  receiving.set(GST_STATE_PLAYING);
  EXPECT_TRUE(ends_with_error(receiving, missing.c_str()));
}

}  // namespace
}  // namespace framelane::gst::test
