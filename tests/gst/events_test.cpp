// SPDX-License-Identifier: MIT
// What crosses a lane downstream, row by row of the table of events.
#include "crossing.hpp"

namespace framelane::gst::test {
namespace {

class EventCrossing : public ::testing::Test {
 protected:
  /// A receiver that has had a first frame, so that events are seen by themselves.
  void flow() {
    ASSERT_TRUE(sender.has_consumers(1));
    ASSERT_EQ(sender.push(0), GST_FLOW_OK);
    ASSERT_TRUE(receiver.got_buffers(1));
    receiver.arrivals.forget();
  }
  const GstStructure* structure(GstEventType type) {
    EXPECT_TRUE(receiver.arrivals.has(type));
    return gst_event_get_structure(receiver.arrivals.event(type));
  }

  OwnLanes lanes_;  // before what opens a lane in it
  Sender sender;
  Receiver receiver;
};

GstEvent* custom(GstEventType type, const char* name = "mark", int number = 7) {
  return gst_event_new_custom(type, gst_structure_new(name, "n", G_TYPE_INT, number, nullptr));
}

int number_of(const GstStructure* structure) {
  int number = -1;
  gst_structure_get_int(structure, "n", &number);
  return number;
}

// --- rows

TEST_F(EventCrossing, StreamStartCapsSegmentAndBufferInOrder) {
  flow();
  GstEvent* const start = gst_event_new_stream_start("the id");
  gst_event_set_stream_flags(start, GST_STREAM_FLAG_SPARSE);
  ASSERT_TRUE(sender.send(start));
  GstCaps* const caps = gst_caps_from_string("video/x-raw,format=GRAY8,width=48,height=64,framerate=100/1");
  ASSERT_TRUE(sender.send(gst_event_new_caps(caps)));
  ASSERT_TRUE(sender.send_segment());
  ASSERT_EQ(sender.push(0), GST_FLOW_OK);
  ASSERT_TRUE(receiver.got_buffers(1));
  EXPECT_EQ(receiver.arrivals.words(), "stream-start caps segment buffer");
  const char* id = nullptr;
  GstStreamFlags flags = GST_STREAM_FLAG_NONE;
  gst_event_parse_stream_start(receiver.arrivals.event(GST_EVENT_STREAM_START), &id);
  gst_event_parse_stream_flags(receiver.arrivals.event(GST_EVENT_STREAM_START), &flags);
  EXPECT_STREQ(id, "the id");
  EXPECT_EQ(flags, GST_STREAM_FLAG_SPARSE);
  GstCaps* got = nullptr;
  gst_event_parse_caps(receiver.arrivals.event(GST_EVENT_CAPS), &got);
  EXPECT_TRUE(gst_caps_is_equal(got, caps));
  gst_caps_unref(caps);
}

TEST_F(EventCrossing, SegmentOfAnyFormatStartAndRate) {
  flow();
  for (const GstFormat format : {GST_FORMAT_TIME, GST_FORMAT_BYTES, GST_FORMAT_DEFAULT}) {
    GstSegment segment;
    gst_segment_init(&segment, format);
    segment.rate = 2.0;
    segment.start = segment.position = 5000;
    segment.stop = 900000;
    segment.time = 77;
    ASSERT_TRUE(sender.send(gst_event_new_segment(&segment)));
    receiver.arrivals.forget();
    ASSERT_EQ(sender.push(6000), GST_FLOW_OK);
    ASSERT_TRUE(receiver.got_buffers(1));
    const GstSegment* got = nullptr;
    ASSERT_TRUE(receiver.arrivals.has(GST_EVENT_SEGMENT));
    gst_event_parse_segment(receiver.arrivals.event(GST_EVENT_SEGMENT), &got);
    EXPECT_EQ(got->format, format);
    EXPECT_EQ(got->rate, 2.0);
    EXPECT_EQ(got->start, 5000u);
    EXPECT_EQ(got->stop, 900000u);
    EXPECT_EQ(got->time, 77u);
  }
}

TEST_F(EventCrossing, TagsWithTheirScope) {
  flow();
  GstTagList* const tags =
      gst_tag_list_new(GST_TAG_TITLE, "a \"title\", with; marks", GST_TAG_BITRATE, 128000u, nullptr);
  gst_tag_list_set_scope(tags, GST_TAG_SCOPE_GLOBAL);
  ASSERT_TRUE(sender.send(gst_event_new_tag(tags)));
  ASSERT_TRUE(receiver.arrivals.has(GST_EVENT_TAG));
  GstTagList* got = nullptr;
  gst_event_parse_tag(receiver.arrivals.event(GST_EVENT_TAG), &got);
  EXPECT_EQ(gst_tag_list_get_scope(got), GST_TAG_SCOPE_GLOBAL);
  char* title = nullptr;
  EXPECT_TRUE(gst_tag_list_get_string(got, GST_TAG_TITLE, &title));
  EXPECT_STREQ(title, "a \"title\", with; marks");
  g_free(title);
}

TEST_F(EventCrossing, Gap) {
  flow();
  ASSERT_TRUE(sender.send(gst_event_new_gap(40 * GST_MSECOND, 20 * GST_MSECOND)));
  ASSERT_TRUE(receiver.arrivals.has(GST_EVENT_GAP));
  GstClockTime pts = 0;
  GstClockTime duration = 0;
  gst_event_parse_gap(receiver.arrivals.event(GST_EVENT_GAP), &pts, &duration);
  EXPECT_EQ(pts, 40 * GST_MSECOND);
  EXPECT_EQ(duration, 20 * GST_MSECOND);
}

GstToc* table_of_contents(GstTocScope scope = GST_TOC_SCOPE_GLOBAL) {
  GstToc* const toc = gst_toc_new(scope);
  gst_toc_set_tags(toc, gst_tag_list_new(GST_TAG_TITLE, "the \"book\"", nullptr));
  GstTocEntry* const edition = gst_toc_entry_new(GST_TOC_ENTRY_TYPE_EDITION, "edition");
  for (gint64 i = 0; i < 2; ++i) {
    GstTocEntry* const chapter =
        gst_toc_entry_new(GST_TOC_ENTRY_TYPE_CHAPTER, ("chapter " + std::to_string(i)).c_str());
    gst_toc_entry_set_start_stop_times(chapter, i * 100, i * 100 + 100);
    gst_toc_entry_set_tags(chapter, gst_tag_list_new(GST_TAG_TITLE, "x = \"y\"; {z}", nullptr));
    GstTocEntry* const part = gst_toc_entry_new(GST_TOC_ENTRY_TYPE_CHAPTER, ("part " + std::to_string(i)).c_str());
    gst_toc_entry_set_loop(part, GST_TOC_LOOP_PING_PONG, 3);
    gst_toc_entry_append_sub_entry(chapter, part);
    gst_toc_entry_append_sub_entry(edition, chapter);
  }
  gst_toc_append_entry(toc, edition);
  return toc;
}

void expect_the_table(GstEvent* event) {
  GstToc* toc = nullptr;
  gboolean updated = FALSE;
  gst_event_parse_toc(event, &toc, &updated);
  EXPECT_TRUE(updated);
  EXPECT_EQ(gst_toc_get_scope(toc), GST_TOC_SCOPE_GLOBAL);
  GstTocEntry* const chapter = gst_toc_find_entry(toc, "chapter 1");
  GstTocEntry* const part = gst_toc_find_entry(toc, "part 1");
  ASSERT_TRUE(chapter != nullptr && part != nullptr);
  gint64 start = 0;
  gint64 stop = 0;
  gst_toc_entry_get_start_stop_times(chapter, &start, &stop);
  EXPECT_EQ(start, 100);
  EXPECT_EQ(stop, 200);
  char* title = nullptr;
  EXPECT_TRUE(gst_tag_list_get_string(gst_toc_entry_get_tags(chapter), GST_TAG_TITLE, &title));
  EXPECT_STREQ(title, "x = \"y\"; {z}");
  g_free(title);
  GstTocLoopType loop = GST_TOC_LOOP_NONE;
  gint repeat = 0;
  gst_toc_entry_get_loop(part, &loop, &repeat);
  EXPECT_EQ(loop, GST_TOC_LOOP_PING_PONG);
  EXPECT_EQ(repeat, 3);
  EXPECT_EQ(gst_toc_entry_get_parent(part), chapter);
  EXPECT_EQ(g_list_length(gst_toc_get_entries(toc)), 1u);
  gst_toc_unref(toc);
}

TEST_F(EventCrossing, TableOfContents) {
  flow();
  GstToc* const toc = table_of_contents();
  ASSERT_TRUE(sender.send(gst_event_new_toc(toc, TRUE)));
  gst_toc_unref(toc);
  ASSERT_TRUE(receiver.arrivals.has(GST_EVENT_TOC));
  expect_the_table(receiver.arrivals.event(GST_EVENT_TOC));
}

TEST_F(EventCrossing, CustomDownstream) {
  flow();
  ASSERT_TRUE(sender.send(custom(GST_EVENT_CUSTOM_DOWNSTREAM)));
  EXPECT_EQ(number_of(structure(GST_EVENT_CUSTOM_DOWNSTREAM)), 7);
}

TEST_F(EventCrossing, CustomBoth) {
  flow();
  ASSERT_TRUE(sender.send(custom(GST_EVENT_CUSTOM_BOTH)));
  EXPECT_EQ(number_of(structure(GST_EVENT_CUSTOM_BOTH)), 7);
}

TEST_F(EventCrossing, CustomSticky) {
  flow();
  ASSERT_TRUE(sender.send(custom(GST_EVENT_CUSTOM_DOWNSTREAM_STICKY)));
  EXPECT_EQ(number_of(structure(GST_EVENT_CUSTOM_DOWNSTREAM_STICKY)), 7);
}

TEST_F(EventCrossing, CustomOutOfBandWithTheNextFrame) {
  flow();
  ASSERT_TRUE(sender.send(custom(GST_EVENT_CUSTOM_DOWNSTREAM_OOB, "oob", 1)));
  ASSERT_TRUE(sender.send(custom(GST_EVENT_CUSTOM_BOTH_OOB, "both", 2)));
  ASSERT_EQ(sender.push(10), GST_FLOW_OK);
  ASSERT_TRUE(receiver.got_buffers(1));
  EXPECT_EQ(receiver.arrivals.words(), "custom-downstream-oob custom-both-oob buffer");
  EXPECT_EQ(number_of(structure(GST_EVENT_CUSTOM_BOTH_OOB)), 2);
}

TEST_F(EventCrossing, Eos) {
  flow();
  ASSERT_TRUE(sender.send(gst_event_new_eos()));
  EXPECT_TRUE(receiver.pipeline.ends());
  EXPECT_EQ(receiver.arrivals.words(), "eos");
}

TEST_F(EventCrossing, StreamCollectionStays) {
  flow();
  GstStreamCollection* const collection = gst_stream_collection_new("x");
  ASSERT_TRUE(sender.send(gst_event_new_stream_collection(collection)));
  gst_object_unref(collection);
  ASSERT_TRUE(sender.send(custom(GST_EVENT_CUSTOM_DOWNSTREAM)));
  ASSERT_TRUE(receiver.arrivals.has(GST_EVENT_CUSTOM_DOWNSTREAM));
  EXPECT_EQ(receiver.arrivals.words(), "custom-downstream");
}

// --- rules

TEST_F(EventCrossing, FieldsWithoutATextFormStayAndTheOthersCross) {
  flow();
  int something = 0;
  ASSERT_TRUE(sender.send(gst_event_new_custom(
      GST_EVENT_CUSTOM_DOWNSTREAM, gst_structure_new("mark", "pointer", G_TYPE_POINTER, &something, "n", G_TYPE_INT, 7,
                                                     "object", GST_TYPE_ELEMENT, sender.element(), nullptr))));
  const GstStructure* const got = structure(GST_EVENT_CUSTOM_DOWNSTREAM);
  EXPECT_EQ(number_of(got), 7);
  EXPECT_EQ(gst_structure_n_fields(got), 1);
}

TEST_F(EventCrossing, TextsThatAreTooLongStayAndTheStreamGoesOn) {
  flow();
  const auto long_event = [](GstEventType type, std::size_t bytes) {
    return gst_event_new_custom(
        type, gst_structure_new("long", "text", G_TYPE_STRING, std::string(bytes, 'x').c_str(), nullptr));
  };
  constexpr std::size_t kBeyondState = std::size_t{300} << 10;
  constexpr std::size_t kBeyondAll = std::size_t{9} << 20;
  ASSERT_TRUE(sender.send(long_event(GST_EVENT_CUSTOM_DOWNSTREAM_STICKY, kBeyondState)));
  ASSERT_TRUE(sender.send(long_event(GST_EVENT_CUSTOM_DOWNSTREAM, kBeyondAll)));
  sender.send(long_event(GST_EVENT_CUSTOM_DOWNSTREAM_OOB, kBeyondAll));
  ASSERT_TRUE(sender.send(custom(GST_EVENT_CUSTOM_DOWNSTREAM)));
  ASSERT_EQ(sender.push(GST_SECOND), GST_FLOW_OK);
  ASSERT_TRUE(receiver.got_buffers(1));
  EXPECT_EQ(receiver.arrivals.words(), "custom-downstream buffer");
}

TEST_F(EventCrossing, ALateJoinerGetsTheStickyEventsAsOfItsFirstFrame) {
  flow();
  GstToc* const toc = table_of_contents();
  ASSERT_TRUE(sender.send(gst_event_new_toc(toc, TRUE)));
  gst_toc_unref(toc);
  ASSERT_TRUE(sender.send(custom(GST_EVENT_CUSTOM_DOWNSTREAM_STICKY, "one", 1)));
  ASSERT_TRUE(sender.send(custom(GST_EVENT_CUSTOM_DOWNSTREAM_STICKY, "two", 2)));
  ASSERT_TRUE(sender.send(custom(GST_EVENT_CUSTOM_DOWNSTREAM_STICKY, "one", 3)));
  ASSERT_TRUE(sender.send(custom(GST_EVENT_CUSTOM_DOWNSTREAM, "passing")));
  ASSERT_TRUE(sender.send(gst_event_new_tag(gst_tag_list_new(GST_TAG_TITLE, "title", nullptr))));
  ASSERT_EQ(sender.push(10), GST_FLOW_OK);
  Receiver late;
  ASSERT_TRUE(sender.has_consumers(2));
  ASSERT_EQ(sender.push(20), GST_FLOW_OK);
  ASSERT_TRUE(late.got_buffers(1));
  EXPECT_EQ(late.arrivals.count("stream-start"), 1u);
  EXPECT_EQ(late.arrivals.count("caps"), 1u);
  EXPECT_EQ(late.arrivals.count("segment"), 1u);
  EXPECT_EQ(late.arrivals.count("tag"), 1u);
  EXPECT_EQ(late.arrivals.count("custom-downstream-sticky"), 2u);
  EXPECT_EQ(late.arrivals.count("custom-downstream"), 0u);
  ASSERT_TRUE(late.arrivals.has(GST_EVENT_TOC));
  expect_the_table(late.arrivals.event(GST_EVENT_TOC));
}

TEST_F(EventCrossing, AJoinerBeforeCapsWaitsForThem) {
  Sender caps_less("lane=early", nullptr);
  Pipeline early("lanesrc lane=early ! videoconvert ! fakesink name=out");
  Arrivals arrivals(early.element("out"), "sink");
  early.play();
  ASSERT_TRUE(caps_less.has_consumers(1));
  gst_harness_set_src_caps_str(caps_less.harness(), kGray);
  ASSERT_EQ(caps_less.push(0), GST_FLOW_OK);
  ASSERT_TRUE(comes([&] { return arrivals.count("buffer") == 1; }));
  EXPECT_EQ(arrivals.count("caps"), 1u) << arrivals.words();
}

TEST_F(EventCrossing, DownstreamThatCannotTakeTheCapsIsToldSo) {
  Pipeline wrong("lanesrc lane=x ! video/x-raw,format=RGB ! fakesink");
  wrong.play();
  ASSERT_TRUE(sender.has_consumers(2));
  ASSERT_EQ(sender.push(0), GST_FLOW_OK);
  GstBus* const bus = gst_element_get_bus(wrong.get());
  GstMessage* message = gst_bus_timed_pop_filtered(bus, 60 * GST_SECOND, GST_MESSAGE_ERROR);
  ASSERT_NE(message, nullptr);
  GError* error = nullptr;
  gst_message_parse_error(message, &error, nullptr);
  EXPECT_NE(std::string(error->message).find("format=(string)GRAY8"), std::string::npos) << error->message;
  EXPECT_NE(std::string(error->message).find("videoconvert"), std::string::npos) << error->message;
  g_error_free(error);
  gst_message_unref(message);
  wrong.set(GST_STATE_NULL);
  message = gst_bus_pop_filtered(bus, GST_MESSAGE_ERROR);
  EXPECT_EQ(message, nullptr) << "one error is enough";
  if (message != nullptr) gst_message_unref(message);
  gst_object_unref(bus);
}

class GroupIds : public LaneTest {};

TEST_F(GroupIds, AreSharedByLanesOfOneProducersGroupAndByNoOthers) {
  const auto group_of = [](Arrivals& arrivals) {
    guint group = 0;
    EXPECT_TRUE(arrivals.has(GST_EVENT_STREAM_START));
    EXPECT_TRUE(gst_event_parse_group_id(arrivals.event(GST_EVENT_STREAM_START), &group));
    return group;
  };
  Pipeline receiving(
      "lanesrc lane=a ! fakesink name=a  lanesrc lane=b ! fakesink name=b  lanesrc lane=c ! "
      "fakesink name=c");
  Arrivals a(receiving.element("a"), "sink");
  Arrivals b(receiving.element("b"), "sink");
  Arrivals c(receiving.element("c"), "sink");
  receiving.play();
  const char* const lanes[] = {"a", "b", "c"};
  const guint groups[] = {gst_util_group_id_next(), 0, gst_util_group_id_next()};
  std::vector<GstHarness*> harnesses;
  for (int i = 0; i < 3; ++i) {
    const std::string sender = "lanesink wait-for-consumers=0 lane=" + std::string(lanes[i]);
    harnesses.push_back(gst_harness_new_parse(over(sender).c_str()));
    GstEvent* const start = gst_event_new_stream_start(lanes[i]);
    gst_event_set_group_id(start, i == 1 ? groups[0] : groups[i]);
    gst_harness_push_event(harnesses.back(), start);
  }
  for (GstHarness* harness : harnesses) gst_harness_push_event(harness, gst_event_new_eos());
  EXPECT_EQ(group_of(a), group_of(b));
  EXPECT_NE(group_of(a), group_of(c));
  for (GstHarness* harness : harnesses) gst_harness_teardown(harness);
}

}  // namespace
}  // namespace framelane::gst::test
