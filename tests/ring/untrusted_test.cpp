// SPDX-License-Identifier: MIT
// What the other side wrote is a lie until checked: it costs the liar its connection, and nobody else anything.
#include <cstring>

#include <gtest/gtest.h>

#include "forged_ring.hpp"
#include "harness.hpp"

namespace framelane::ring {
namespace {

using testing::Got;
using testing::intact;
using testing::kInstance;
using testing::Lane;
using testing::must;
using testing::TestConsumer;
using Broken = std::vector<std::pair<ConsumerId, std::string>>;

// --- consumers that lie

class LyingCursor : public ::testing::TestWithParam<std::int64_t> {};
INSTANTIATE_TEST_SUITE_P(Jumps, LyingCursor, ::testing::Values(-1, -6, 1, 1000, std::int64_t{1} << 62));

TEST_P(LyingCursor, IsIgnoredFromThenOn) {
  Lane lane({.sizes = {.burst = 8}, .when_full = WhenFull::kDropNew});
  TestConsumer liar(lane);
  TestConsumer honest(lane);
  for (int i = 0; i < 6; ++i) {
    ASSERT_TRUE(lane.send_slot());
    liar.take_all();
    honest.take_all();
  }
  lane.reclaim();
  ASSERT_TRUE(lane.control.broken().empty());
  const auto lie = liar.page().cursor.load() + static_cast<std::uint64_t>(GetParam());
  liar.page().cursor.store(lie);
  lane.reclaim();
  EXPECT_EQ(lane.control.broken(), (Broken{{liar.id(), "cursor"}}));
  for (std::uint64_t i = 6; i < 500; ++i) {
    ASSERT_TRUE(lane.send_slot()) << "nobody waits for the liar";
    const auto taken = honest.take();
    ASSERT_TRUE(taken && intact(*taken, i));
    honest.reader().release(taken->slot);
  }
  EXPECT_EQ(lane.control.broken().size(), 1u);
}

TEST(LyingConsumer, ThatScribblesOverItsPageHurtsNobody) {
  Lane lane({.when_full = WhenFull::kDropNew});
  TestConsumer honest(lane);
  TestConsumer liar(lane);
  std::memset(static_cast<void*>(&liar.page()), 0xff, sizeof(ConsumerPage));
  for (std::uint64_t i = 0; i < 500; ++i) {
    ASSERT_TRUE(lane.send_slot());
    const auto taken = honest.take();
    ASSERT_TRUE(taken && intact(*taken, i));
    honest.reader().release(taken->slot);
  }
  ASSERT_EQ(lane.control.broken().size(), 1u);
  EXPECT_EQ(lane.control.broken()[0].first, liar.id());
  lane.writer->inspect([&](const auto& links, const SlotPool&, std::uint32_t) {
    for (const auto& link : links) EXPECT_LE(lane.writer->lag(*link), 8u);
  });
}

TEST(LyingConsumer, ThatSaysTheProducerNeedntWaitOnlyMakesItWaitForTheTimeout) {
  Lane lane({.sizes = {.burst = 2}, .full_timeout_ns = 5'000'000, .stall_timeout_ns = base::kForever});
  TestConsumer liar(lane);
  ASSERT_TRUE(lane.send(2));
  liar.page().producer_waiting.store(77);
  EXPECT_FALSE(lane.send_slot());
  EXPECT_EQ(lane.counters().dropped_full, 1u);
}

// --- a producer that lies when it greets

struct Greeting {
  const char* field;
  void (*lie)(ReaderSettings&);
};
void PrintTo(const Greeting& greeting, std::ostream* out) { *out << greeting.field; }

class LyingGreeting : public ::testing::TestWithParam<Greeting> {};
INSTANTIATE_TEST_SUITE_P(
    Fields, LyingGreeting,
    ::testing::Values(Greeting{"entry_count", [](ReaderSettings& s) { s.entry_count = 0; }},
                      Greeting{"entry_count", [](ReaderSettings& s) { s.entry_count = 64; }},
                      Greeting{"entry_count", [](ReaderSettings& s) { s.entry_count = 255; }},
                      Greeting{"entry_count", [](ReaderSettings& s) { s.entry_count = 1u << 31; }},
                      Greeting{"entry_count", [](ReaderSettings& s) { s.entry_count = 128; }},
                      Greeting{"size of the ring segment", [](ReaderSettings& s) { s.entry_count *= 2, s.start *= 2; }},
                      Greeting{"size of the consumer page", [](ReaderSettings& s) { s.page = {}; }},
                      Greeting{"colour", [](ReaderSettings& s) { s.colour = kMaxConsumers; }},
                      Greeting{"start", [](ReaderSettings& s) { s.start = s.entry_count - 1; }},
                      Greeting{"start", [](ReaderSettings& s) { s.start = kSeqMask; }},
                      Greeting{"number of the last control message",
                               [](ReaderSettings& s) { s.start_number = s.start; }},
                      Greeting{"instance_id", [](ReaderSettings& s) { s.instance_id[15] ^= 1; }}));

TEST_P(LyingGreeting, IsRefusedByName) {
  Lane lane({});
  try {
    TestConsumer consumer(lane, {.lie = GetParam().lie});
    FAIL() << "it believed a wrong " << GetParam().field;
  } catch (const std::runtime_error& error) {
    EXPECT_EQ(std::string(error.what()).rfind("protocol: ", 0), 0u) << error.what();
    EXPECT_NE(std::string(error.what()).find(GetParam().field), std::string::npos) << error.what();
  }
}

// --- a producer that lies in shared memory: a ring of its own making

class LyingProducer : public ::testing::Test, public ControlIn, protected testing::ForgedRing {
 protected:
  void join() {
    reader_ = must(greet());
    must(reader_->add_segment(kSpec, data()));
  }
  void expect_refused(const std::string& field) {
    Got taken;
    const auto polled = reader_->poll(taken, *this);
    ASSERT_FALSE(polled) << field;
    EXPECT_EQ(polled.error().code, Code::kProtocol);
    EXPECT_NE(polled.error().text.find(field), std::string::npos) << polled.error().text;
    EXPECT_EQ(reader_->held(), 0u) << "no hold is left behind";
    for (const auto& word : reader_->page().holds) EXPECT_EQ(word.load(), 0u);
  }
  Result<std::uint64_t> apply_up_to(std::uint16_t ctl) override { return number_of_(ctl); }

  std::unique_ptr<Reader> reader_;
  std::function<Result<std::uint64_t>(std::uint16_t)> number_of_ = [](std::uint16_t ctl) -> Result<std::uint64_t> {
    return ctl;
  };
};

TEST_F(LyingProducer, OfWhatTheHeaderSaysIsRefusedByName) {
  ASSERT_TRUE(greet());
  const auto expect = [&](auto& field, const char* name) {
    const auto saved = field;
    field = static_cast<std::remove_cvref_t<decltype(field)>>(field + 1);
    const auto greeted = greet();
    field = saved;
    ASSERT_FALSE(greeted) << name;
    EXPECT_EQ(greeted.error().code, Code::kProtocol);
    EXPECT_NE(greeted.error().text.find(name), std::string::npos) << greeted.error().text;
  };
  expect(header().magic, "magic");
  expect(header().abi_version, "abi_version");
  expect(header().byte_order, "byte_order");
  expect(header().header_size, "header_size");
  expect(header().entry_size, "entry_size");
  expect(header().entry_count, "entry_count");
  expect(header().page_size, "page_size");
  expect(header().instance_id[7], "instance_id");
}

TEST_F(LyingProducer, TellingTheTruthIsBelieved) {
  join();
  publish(kEntries, 0, 4096, 7);
  Got taken;
  ASSERT_EQ(must(reader_->poll(taken, *this)), Reader::Step::kTaken);
  EXPECT_EQ(taken.data, taken.record - 7 * 1024 + 8192 + 7 * 4096);
  EXPECT_EQ(reader_->page().holds[0].load(), 1u << 7);
  reader_->release(7);
  EXPECT_EQ(reader_->page().holds[0].load(), 0u);
}

TEST_F(LyingProducer, OfASlotThatNoSegmentHasIsRefused) {
  for (const std::uint16_t slot : {std::uint16_t{8}, std::uint16_t{4095}, std::uint16_t{4096}, std::uint16_t{65535}}) {
    join();
    publish(kEntries, 0, 1, slot);
    expect_refused("slot");
  }
}

TEST_F(LyingProducer, OfASizeBeyondTheSlotIsRefused) {
  join();
  publish(kEntries, 0, 4097, 0);
  expect_refused("size");
}

TEST_F(LyingProducer, OfASizeBeyondTheEntryIsRefused) {
  join();
  publish(kEntries, kTagInline, 33, 0);
  expect_refused("of an inline payload");
}

TEST_F(LyingProducer, OfSideDataBeyondTheRecordIsRefused) {
  for (const std::uint32_t size : {0u, 961u, 1024u, 65536u, 0x7fffffffu, ~0u}) {
    join();
    record(3).extra_size = size;
    publish(kEntries, kTagSideData, 100, 3);
    expect_refused("extra_size " + std::to_string(size));
  }
}

TEST_F(LyingProducer, OfSideDataThatNoTagAnnouncesIsNotRead) {
  join();
  record(3).extra_size = ~0u;
  publish(kEntries, 0, 100, 3);
  Got taken;
  ASSERT_EQ(must(reader_->poll(taken, *this)), Reader::Step::kTaken);
  EXPECT_EQ(taken.side_data, 0u);
}

TEST_F(LyingProducer, OfSideDataUpToTheRecordsEndIsBelieved) {
  join();
  record(7).extra_size = 960;
  publish(kEntries, kTagSideData, 100, 7);
  Got taken;
  ASSERT_EQ(must(reader_->poll(taken, *this)), Reader::Step::kTaken);
  record(7).extra_size = ~0u;
  EXPECT_EQ(taken.side_data, 960u);
}

TEST_F(LyingProducer, ThatReusesASlotInFrontOfItsReaderIsCaught) {
  join();
  publish(kEntries, 0, 100, 3);
  publish(kEntries + 1, 0, 100, 3);
  Got taken;
  ASSERT_EQ(must(reader_->poll(taken, *this)), Reader::Step::kTaken);
  const auto polled = reader_->poll(taken, *this);
  ASSERT_FALSE(polled);
  EXPECT_NE(polled.error().text.find("slot"), std::string::npos) << polled.error().text;
  EXPECT_NE(polled.error().text.find("slot 3"), std::string::npos) << polled.error().text;
  EXPECT_EQ(reader_->held(), 1u) << "the first hold is still ours";
}

TEST_F(LyingProducer, OfMoreControlMessagesThanEntriesIsRefused) {
  join();
  publish(kEntries, kTagInline, 8, 0, 1);
  expect_refused("control messages");
}

TEST_F(LyingProducer, OfControlMessagesThatMakeTheCountGoBackIsRefused) {
  join();
  Got taken;
  for (std::uint64_t i = 0; i < 5; ++i) {
    publish(kEntries + i, kTagInline, 8, 0, 0);
    ASSERT_EQ(must(reader_->poll(taken, *this)), Reader::Step::kTaken);
  }
  publish(kEntries + 5, kTagInline, 8, 0, 3);
  expect_refused("control messages");
}

TEST_F(LyingProducer, OfAControlMessageThatDoesntComeIsReported) {
  join();
  number_of_ = [](std::uint16_t) { return fail(Code::kProtocol, "message 9 didn't come"); };
  publish(kEntries, 0, 8, 0, 9);
  expect_refused("message 9");
}

TEST_F(LyingProducer, OfTheOldestEntryIsRefused) {
  for (const std::uint64_t oldest : {std::uint64_t{0}, std::uint64_t{kEntries}, kSeqMask, ~std::uint64_t{0}}) {
    header().oldest_live = oldest;
    join();
    publish(2 * kEntries, kTagInline, 8, 0);  // overwritten, but nothing was retired
    expect_refused("oldest_live");
    entry(0).tag = 0;
  }
}

TEST_F(LyingProducer, CannotKeepItsReaderInATake) {
  join();
  // Everything is overwritten, and what is overwritten is always one further on.
  for (std::uint64_t i = 0; i < kEntries; ++i) publish(kEntries + i, kTagRetired, 8, 0);
  Got taken;
  const auto polled = reader_->poll(taken, *this);
  ASSERT_TRUE(polled);
  EXPECT_EQ(*polled, Reader::Step::kEmpty);
}

class LyingProducerToLatest : public LyingProducer {};
TEST_F(LyingProducerToLatest, CannotKeepItInAWalk) {
  reader_ = must(greet(true));
  // Tags far ahead, of entries that lie elsewhere.
  for (std::uint64_t i = 0; i < kEntries; ++i) entry(i).tag = make_tag((std::uint64_t{1} << 46) * 3 + i * 77, 0);
  Got taken;
  const auto polled = reader_->poll(taken, *this);
  EXPECT_TRUE(!polled || *polled == Reader::Step::kEmpty);
}

// --- segments

struct SegmentLie {
  const char* field;
  void (*lie)(SegmentSpec&);
};
void PrintTo(const SegmentLie& lie, std::ostream* out) { *out << lie.field; }

class LyingSegment : public LyingProducer, public ::testing::WithParamInterface<SegmentLie> {};
INSTANTIATE_TEST_SUITE_P(
    Fields, LyingSegment,
    ::testing::Values(SegmentLie{"slot_count", [](SegmentSpec& s) { s.slot_count = 0; }},
                      SegmentLie{"slot_count", [](SegmentSpec& s) { s.slot_count = kMaxSlots + 1; }},
                      SegmentLie{"slot_count", [](SegmentSpec& s) { s.slot_count = ~0u; }},
                      SegmentLie{"first_slot", [](SegmentSpec& s) { s.first_slot = kMaxSlots - 7; }},
                      SegmentLie{"first_slot", [](SegmentSpec& s) { s.first_slot = ~0u; }},
                      SegmentLie{"record_stride", [](SegmentSpec& s) { s.record_stride = 0; }},
                      SegmentLie{"record_stride", [](SegmentSpec& s) { s.record_stride = 1000; }},
                      SegmentLie{"record_stride", [](SegmentSpec& s) { s.record_stride = 1u << 31; }},
                      SegmentLie{"slot_size", [](SegmentSpec& s) { s.slot_size = 0; }},
                      SegmentLie{"slot_size", [](SegmentSpec& s) { s.slot_size = std::uint64_t{1} << 32; }},
                      SegmentLie{"slot_stride", [](SegmentSpec& s) { s.slot_stride = 4032; }},
                      SegmentLie{"slot_stride", [](SegmentSpec& s) { s.slot_stride = 4100; }},
                      SegmentLie{"slot_stride", [](SegmentSpec& s) { s.slot_stride = 4160; }},
                      SegmentLie{"slot_stride", [](SegmentSpec& s) { s.slot_stride = ~std::uint64_t{63}; }},
                      SegmentLie{"slots_offset", [](SegmentSpec& s) { s.slots_offset = 8191; }},
                      SegmentLie{"slots_offset", [](SegmentSpec& s) { s.slots_offset = 4096; }},
                      SegmentLie{"slot", [](SegmentSpec& s) { s.slots_offset = 12288; }},
                      SegmentLie{"slot", [](SegmentSpec& s) { s.slots_offset = ~std::uint64_t{63}; }},
                      SegmentLie{"total_bytes", [](SegmentSpec& s) { s.total_bytes += 4096; }},
                      SegmentLie{"total_bytes", [](SegmentSpec& s) { s.total_bytes = 0; }}));

TEST_P(LyingSegment, IsRefusedByName) {
  reader_ = must(greet());
  SegmentSpec spec = kSpec;
  GetParam().lie(spec);
  const auto added = reader_->add_segment(spec, data());
  ASSERT_FALSE(added);
  EXPECT_EQ(added.error().code, Code::kProtocol);
  EXPECT_NE(added.error().text.find(GetParam().field), std::string::npos) << added.error().text;
}

TEST_F(LyingProducer, OfASegmentThatOverlapsOrIsTwiceThereIsRefused) {
  join();
  SegmentSpec spec = kSpec;
  EXPECT_FALSE(reader_->add_segment(spec, data())) << "the same again";
  spec.id = 2;
  EXPECT_FALSE(reader_->add_segment(spec, data())) << "the same slots";
  spec.first_slot = 7;
  EXPECT_FALSE(reader_->add_segment(spec, data())) << "one slot in common";
  spec.first_slot = 8;
  EXPECT_TRUE(reader_->add_segment(spec, data()));
  spec.first_slot = 16;
  EXPECT_FALSE(reader_->add_segment(spec, data())) << "the same id";
}

TEST_F(LyingProducer, OfASegmentThatWasNeverThereIsRefused) {
  join();
  EXPECT_FALSE(reader_->retire_segment(2));
  EXPECT_TRUE(reader_->retire_segment(1));
  EXPECT_FALSE(reader_->retire_segment(1));
  publish(kEntries, 0, 8, 0);
  expect_refused("slot");
}

TEST_F(LyingProducer, ThatRetiresWhatIsHeldTakesNothingAway) {
  join();
  std::memset(slot(0), 0x5a, kSpec.slot_size);
  publish(kEntries, 0, 4096, 0);
  Got taken;
  ASSERT_EQ(must(reader_->poll(taken, *this)), Reader::Step::kTaken);
  EXPECT_TRUE(reader_->retire_segment(1));
  for (std::size_t i = 0; i < 4096; ++i) ASSERT_EQ(taken.data[i], std::byte{0x5a});
  reader_->release(0);
  SegmentSpec spec = kSpec;
  spec.id = 2;
  EXPECT_TRUE(reader_->add_segment(spec, data()));
}

}  // namespace
}  // namespace framelane::ring
