// SPDX-License-Identifier: MIT
// Lanes as URIs: gst_element_make_from_uri(), uridecodebin, playbin.
#include <optional>

#include <glob.h>

#include "pipeline.hpp"

namespace framelane::gst::test {
namespace {

constexpr const char* kVideo = "videotestsrc num-buffers=30 ! video/x-raw,format=I420,width=64,height=48";

class UriTest : public LaneTest {
 protected:
  GstElement* make(GstURIType type, const char* uri) {
    g_clear_error(&error_);
    return gst_element_make_from_uri(type, uri, nullptr, &error_);
  }
  void TearDown() override {
    g_clear_error(&error_);
    LaneTest::TearDown();
  }
  GError* error_ = nullptr;
};

const char* factory_of(GstElement* element) { return GST_OBJECT_NAME(gst_element_get_factory(element)); }

std::string uri_of(GstElement* element) {
  char* const uri = gst_uri_handler_get_uri(GST_URI_HANDLER(element));
  const std::string text = uri == nullptr ? "" : uri;
  g_free(uri);
  return text;
}

TEST_F(UriTest, EveryTransportHasOne) {
  for (const char* const uri : {"lane:cam0", "lane.shm:///run/cams/cam0", "lane.uds:///run/cams/a%20b/cam0",
                                "lane.tcp://[::1]:7411/cam0", "lane.shm:///run/cam0,lane.tcp://h:7411/cam0"}) {
    SCOPED_TRACE(uri);
    ASSERT_TRUE(gst_uri_is_valid(uri));
    for (const GstURIType type : {GST_URI_SRC, GST_URI_SINK}) {
      GstElement* const element = make(type, uri);
      ASSERT_NE(element, nullptr) << error_->message;
      EXPECT_STREQ(factory_of(element), type == GST_URI_SRC ? "lanesrc" : "lanesink");
      EXPECT_EQ(uri_of(element), uri);
      char* lane = nullptr;
      g_object_get(element, "lane", &lane, nullptr);
      EXPECT_STREQ(lane, uri);
      g_free(lane);
      gst_object_unref(element);
    }
  }
}

TEST_F(UriTest, ANameIsOneToo) {
  GstElement* const source = gst_element_factory_make("lanesrc", nullptr);
  EXPECT_EQ(uri_of(source), "");
  g_object_set(source, "lane", "cam0", nullptr);
  EXPECT_EQ(uri_of(source), "lane:cam0");
  gst_object_unref(source);
}

TEST_F(UriTest, ElementsOfOneTransportTakeNone) {
  for (const char* const name :
       {"shmringsrc", "udslanesrc", "tcplanesrc", "shmringsink", "udslanesink", "tcplanesink"}) {
    GstElement* const element = gst_element_factory_make(name, nullptr);
    EXPECT_FALSE(GST_IS_URI_HANDLER(element)) << name;
    gst_object_unref(element);
  }
}

TEST_F(UriTest, WhatIsNoLaneIsRefusedWithTheReason) {
  for (const char* const uri : {"lane:", "lane:a/b", "lane:cam0?burst=4", "lane.shm://cam0", "lane.uds:///a/../b",
                                "lane.tcp://h:99999/cam0", "lane.tcp://h/cam0", "lane:cam0,"}) {
    SCOPED_TRACE(uri);
    g_clear_error(&error_);
    GstElement* const source = gst_element_factory_make("lanesrc", nullptr);
    EXPECT_FALSE(gst_uri_handler_set_uri(GST_URI_HANDLER(source), uri, &error_));
    ASSERT_NE(error_, nullptr);
    EXPECT_TRUE(g_error_matches(error_, GST_URI_ERROR, GST_URI_ERROR_BAD_URI));
    EXPECT_NE(std::string(error_->message).find("position"), std::string::npos) << error_->message;
    EXPECT_EQ(uri_of(source), "");
    gst_object_unref(source);
    EXPECT_EQ(make(GST_URI_SRC, uri), nullptr);
  }
}

TEST_F(UriTest, OnlyASinkMayLeaveThePortToTheSystem) {
  EXPECT_EQ(make(GST_URI_SRC, "lane.tcp://127.0.0.1:0/cam0"), nullptr);
  GstElement* const sink = make(GST_URI_SINK, "lane.tcp://127.0.0.1:0/cam0");
  ASSERT_NE(sink, nullptr);
  gst_object_unref(sink);
}

TEST_F(UriTest, ARunningElementKeepsItsLane) {
  Pipeline pipeline("lanesrc name=src lane=x ! fakesink");
  pipeline.play();
  GstURIHandler* const handler = GST_URI_HANDLER(pipeline.element("src"));
  EXPECT_FALSE(gst_uri_handler_set_uri(handler, "lane:other", &error_));
  EXPECT_TRUE(g_error_matches(error_, GST_URI_ERROR, GST_URI_ERROR_BAD_STATE));
  pipeline.set(GST_STATE_READY);
  g_clear_error(&error_);
  EXPECT_TRUE(gst_uri_handler_set_uri(handler, "lane:other", &error_));
}

// --- players

struct Played {
  const char* name;
  std::string sender;  // before the sink
  bool video = true;
};

/// Over each transport, since the address is the URI's.
class Players : public LaneTest, public ::testing::WithParamInterface<const char*> {
 protected:
  std::string address() const {
    const std::string scheme = GetParam();
    if (scheme == "lane:") return "lane:x";
    if (scheme == "lane.tcp:") return "lane.tcp://127.0.0.1:" + free_port() + "/x";
    return scheme + "//" + directory_ + "/lanes/x";
  }
  /// Plays what the sender sends with this player, to its end.
  void plays(const char* player, const Played& what) {
    SCOPED_TRACE(std::string(player) + " " + what.name);
    const std::string uri = address();
    Pipeline sending(what.sender + " ! lanesink lane=" + uri);
    sending.play();
    Pipeline playing(player);
    GstElement* const video = gst_element_factory_make("fakesink", nullptr);
    GstElement* const audio = gst_element_factory_make("fakesink", nullptr);
    g_object_set(playing.get(), "uri", uri.c_str(), "video-sink", video, "audio-sink", audio, nullptr);
    Tap tap(what.video ? video : audio, "sink");
    EXPECT_TRUE(playing.play().ends());
    EXPECT_GE(tap.count(), 20u);
    EXPECT_TRUE(sending.ends());
  }
};

std::optional<std::string> film() {
  glob_t found{};
  std::optional<std::string> path;
  if (glob("/usr/share/help/*/gnome-help/figures/display-dual-monitors.webm", 0, nullptr, &found) == 0) {
    path = found.gl_pathv[0];
  }
  globfree(&found);
  return path;
}

TEST_P(Players, PlaybinShowsRawVideo) { plays("playbin", {"raw", kVideo}); }

TEST_P(Players, PlaybinPlaysRawAudio) { plays("playbin", {"raw", "audiotestsrc num-buffers=30", false}); }

TEST_P(Players, PlaybinDecodesVideo) { plays("playbin", {"vp8", std::string(kVideo) + " ! vp8enc deadline=1"}); }

TEST_P(Players, PlaybinPlaysAFile) {
  if (!film()) GTEST_SKIP() << "gnome-user-docs is not installed";
  plays("playbin", {"webm", "filesrc location=" + *film()});
}

TEST_P(Players, UridecodebinDecodes) {
  const std::string uri = address();
  Pipeline sending(std::string(kVideo) + " ! jpegenc ! lanesink lane=" + uri);
  sending.play();
  Pipeline playing("uridecodebin uri=" + uri + " ! videoconvert ! fakesink name=out");
  Tap tap(playing.element("out"), "sink");
  EXPECT_TRUE(playing.play().ends());
  EXPECT_EQ(tap.count(), 30u);
  EXPECT_TRUE(sending.ends());
}

INSTANTIATE_TEST_SUITE_P(By, Players, ::testing::Values("lane:", "lane.shm:", "lane.uds:", "lane.tcp:"),
                         [](const auto& each) {
                           const std::string scheme = each.param;
                           return scheme == "lane:" ? "Name" : scheme.substr(5, 3);
                         });

}  // namespace
}  // namespace framelane::gst::test
