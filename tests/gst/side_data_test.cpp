// SPDX-License-Identifier: MIT
// Side data that no lanesink wrote: another application's own, and a hostile producer's.
#include <cstring>
#include <optional>

#include <gst/video/video.h>

#include "framelane/lane/producer.hpp"

#include "pipeline.hpp"

namespace framelane::gst::test {
namespace {

using Bytes = std::vector<std::byte>;

constexpr const char* kPlanar =
    "audio/x-raw,format=S16LE,rate=48000,channels=2,layout=non-interleaved,channel-mask=(bitmask)0x3";
constexpr gsize kFrame = 400;

template <class... Numbers>
std::string raw(Numbers... numbers) {
  std::string text;
  (text.append(reinterpret_cast<const char*>(&numbers), sizeof numbers), ...);
  return text;
}

std::string record(std::uint32_t kind, const std::string& content) {
  return raw(kind, static_cast<std::uint32_t>(content.size())) + content;
}

Bytes side_data(const std::string& records) {
  const std::string text = "GST1" + records;
  Bytes bytes(text.size());
  std::memcpy(bytes.data(), text.data(), text.size());
  return bytes;
}

class SideDataTest : public LaneTest {
 protected:
  void SetUp() override {
    LaneTest::SetUp();
    auto settings = settings_of<ProducerSettings>("x");
    auto producer = Producer::open(settings);
    ASSERT_TRUE(producer) << producer.error().text;
    producer_.emplace(std::move(*producer));
    receiving_.emplace("lanesrc name=src lane=x timestamp-mode=producer ! fakesink name=out async=false");
    receiving_->play();
    ASSERT_TRUE(producer_->wait_for_consumers(1, kHang));
    ASSERT_TRUE(producer_->set_caps(kPlanar));
  }
  void TearDown() override {
    receiving_.reset();
    producer_.reset();
    LaneTest::TearDown();
  }
  void send(const Bytes& side) {
    ASSERT_TRUE(producer_->publish_copy(Bytes(kFrame), {}, Wake::kNow, side));
    ASSERT_TRUE(producer_->end_of_stream());
  }

  std::optional<Producer> producer_;
  std::optional<Pipeline> receiving_;
};

TEST_F(SideDataTest, OfAnotherApplicationIsPassedOver) {
  Tap tap(receiving_->element("out"), "sink");
  tap.keep_only(1);
  send(Bytes(100, std::byte{0xff}));
  EXPECT_TRUE(receiving_->ends());
  EXPECT_EQ(tap.count(), 1u);
  EXPECT_EQ(stat(receiving_->element("src"), "skipped-metas"), 1u);
}

TEST_F(SideDataTest, OfAKindThatIsNotKnownIsPassedOver) {
  Tap tap(receiving_->element("out"), "sink");
  tap.keep_only(1);
  send(side_data(record(4711, "later") + record(4, raw(std::uint64_t{7}, std::uint64_t{8}) + "timestamp/x-unix")));
  EXPECT_TRUE(receiving_->ends());
  ASSERT_EQ(tap.count(), 1u);
  EXPECT_NE(gst_buffer_get_reference_timestamp_meta(tap.seen()[0].buffer, nullptr), nullptr);
}

TEST_F(SideDataTest, OfMetasThatNobodyRegisteredIsLeftOut) {
  Tap tap(receiving_->element("out"), "sink");
  tap.keep_only(1);
  const std::string name = "FramelaneNobodysMeta";
  send(side_data(record(6, raw(static_cast<std::uint32_t>(name.size())) + name + name + ", a=(int)1;") +
                 record(7, raw(static_cast<std::uint32_t>(name.size())) + name + "whatever a later version wrote")));
  EXPECT_TRUE(receiving_->ends());
  EXPECT_EQ(tap.count(), 1u);
  EXPECT_EQ(stat(receiving_->element("src"), "skipped-metas"), 2u);
}

struct Lie {
  const char* words;
  std::string records;
};
void PrintTo(const Lie& lie, std::ostream* out) { *out << lie.words << ' ' << lie.records.size(); }

class LyingSideData : public SideDataTest, public ::testing::WithParamInterface<Lie> {};

TEST_P(LyingSideData, EndsWithOneClearError) {
  send(side_data(GetParam().records));
  EXPECT_TRUE(ends_with_error(*receiving_, GetParam().words));
}

constexpr auto kMost = ~std::uint64_t{0};
INSTANTIATE_TEST_SUITE_P(
    Records, LyingSideData,
    ::testing::Values(Lie{"longer than the side data", "abc"},
                      Lie{"longer than the side data", raw(std::uint32_t{4}, std::uint32_t{100}) + "short"},
                      Lie{"longer than the side data", raw(std::uint32_t{4}, ~std::uint32_t{0})},
                      Lie{"memories", record(1, "")}, Lie{"memories", record(1, "abc")},
                      Lie{"memories", record(1, raw(std::uint32_t{200}, std::uint32_t{201}))},
                      Lie{"memories", record(1, raw(~std::uint32_t{0}, std::uint32_t{401}))},
                      Lie{"memories", record(1, std::string(800, '\0'))}, Lie{"video", record(2, "abc")},
                      Lie{"audio", record(3, "")}, Lie{"audio", record(3, raw(std::uint64_t{100}))},
                      Lie{"audio", record(3, raw(std::uint64_t{100}, std::uint64_t{0}))},
                      Lie{"audio", record(3, raw(std::uint64_t{100}, std::uint64_t{0}, std::uint64_t{199}))},
                      Lie{"audio", record(3, raw(std::uint64_t{100}, std::uint64_t{0}, std::uint64_t{201}))},
                      Lie{"audio", record(3, raw(std::uint64_t{100}, kMost - 99, std::uint64_t{0}))},
                      Lie{"audio", record(3, raw(kMost / 2 + 1, std::uint64_t{0}, std::uint64_t{0}))},
                      Lie{"reference time", record(4, "short")},
                      Lie{"reference time", record(4, raw(std::uint64_t{1}, kMost) + "%%% no caps")},
                      Lie{"reference time", record(4, raw(kMost, kMost) + "timestamp/x-unix")},
                      Lie{"crop", record(5, raw(std::uint32_t{1}))},
                      Lie{"custom meta", record(6, raw(~std::uint32_t{0}) + "name")},
                      Lie{"serialised meta", record(7, raw(std::uint32_t{5}) + "name")},
                      Lie{"custom meta", record(6, raw(std::uint32_t{4}) + "name%%%")}));

TEST_F(SideDataTest, PaddingThatNoStrideCanHaveIsRefused) {
  ASSERT_TRUE(producer_->set_caps("video/x-raw,format=GRAY8,width=64,height=48,framerate=30/1"));
  format::Event event;
  event.type = format::EventType::kState;
  event.text = "framelane-layout, offset=(guint64)< 0 >, stride=(int)< 96 >, align0=(uint)4294967295;";
  ASSERT_TRUE(producer_->send(event));
  EXPECT_TRUE(ends_with_error(*receiving_, "padding"));
}

}  // namespace
}  // namespace framelane::gst::test
