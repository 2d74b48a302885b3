// SPDX-License-Identifier: MIT
// Runs a pipeline and prints one line for everything that arrives at the sink pad of its element `out`: what two
// pipelines print can be compared. Raw video is summed over its pixels, not over the padding between them.
//
//   dump [--video-meta] 'videotestsrc num-buffers=3 ! fakesink name=out'
//
// Ends with 0 at EOS, 1 after an error (its text goes to standard error), 2 when the pipeline can't be made.
#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <string>

#include <gst/gst.h>
#include <gst/video/video.h>

namespace {

struct Dump {
  bool video_meta = false;  // answer ALLOCATION queries as an element that looks at GstVideoMeta
  bool has_video = false;
  GstVideoInfo video;
};

std::string number(guint64 value) { return value == G_MAXUINT64 ? "none" : std::to_string(value); }

std::string sum(GstBuffer* buffer) {
  GChecksum* const checksum = g_checksum_new(G_CHECKSUM_SHA1);
  GstMapInfo map;
  if (gst_buffer_map(buffer, &map, GST_MAP_READ)) {
    g_checksum_update(checksum, map.data, static_cast<gssize>(map.size));
    gst_buffer_unmap(buffer, &map);
  }
  std::string text = g_checksum_get_string(checksum);
  g_checksum_free(checksum);
  return text;
}

// From GStreamer 1.26 on, gst_video_frame_copy() takes the padding along where strides are alike.
void clear_padding(GstVideoFrame& frame) {
  for (guint plane = 0; plane < GST_VIDEO_FRAME_N_PLANES(&frame); ++plane) {
    gint components[GST_VIDEO_MAX_COMPONENTS];
    gst_video_format_info_component(frame.info.finfo, plane, components);
    const gint bytes = GST_VIDEO_FRAME_COMP_WIDTH(&frame, components[0]) *
                       GST_VIDEO_FORMAT_INFO_PSTRIDE(frame.info.finfo, components[0]);
    const gint stride = GST_VIDEO_FRAME_PLANE_STRIDE(&frame, plane);
    for (gint row = 0; bytes > 0 && row < GST_VIDEO_FRAME_COMP_HEIGHT(&frame, components[0]); ++row) {
      std::memset(static_cast<char*>(frame.data[plane]) + row * stride + bytes, 0,
                  static_cast<std::size_t>(stride - bytes));
    }
  }
}

// Brings a frame to the default layout with zeros for padding, so that frames of all layouts can be compared.
GstBuffer* packed(Dump& dump, GstBuffer* buffer) {
  GstVideoFrame from;
  GstVideoFrame to;
  GstBuffer* const copy = gst_buffer_new_allocate(nullptr, GST_VIDEO_INFO_SIZE(&dump.video), nullptr);
  gst_buffer_memset(copy, 0, 0, GST_VIDEO_INFO_SIZE(&dump.video));
  if (!gst_video_frame_map(&from, &dump.video, buffer, GST_MAP_READ)) return copy;
  if (gst_video_frame_map(&to, &dump.video, copy, GST_MAP_WRITE)) {
    gst_video_frame_copy(&to, &from);
    clear_padding(to);
    gst_video_frame_unmap(&to);
  }
  gst_video_frame_unmap(&from);
  return copy;
}

// How the bytes are cut into memories; of raw video that is the allocator's affair.
std::string memories(const Dump& dump, GstBuffer* buffer) {
  std::string text;
  for (guint i = 0; i < gst_buffer_n_memory(buffer) && !dump.has_video; ++i) {
    text += '+' + std::to_string(gst_memory_get_sizes(gst_buffer_peek_memory(buffer, i), nullptr, nullptr));
  }
  return text;
}

void print_buffer(Dump& dump, GstBuffer* buffer) {
  const std::string cut = memories(dump, buffer);
  GstBuffer* const whole = dump.has_video ? packed(dump, buffer) : gst_buffer_ref(buffer);
  std::printf("buffer pts=%s dts=%s duration=%s offset=%s offset_end=%s flags=%08x size=%zu%s sha1=%s\n",
              number(GST_BUFFER_PTS(buffer)).c_str(), number(GST_BUFFER_DTS(buffer)).c_str(),
              number(GST_BUFFER_DURATION(buffer)).c_str(), number(GST_BUFFER_OFFSET(buffer)).c_str(),
              number(GST_BUFFER_OFFSET_END(buffer)).c_str(),
              GST_BUFFER_FLAGS(buffer) & ~static_cast<guint>(GST_BUFFER_FLAG_TAG_MEMORY),
              gst_buffer_get_size(dump.video_meta ? whole : buffer), cut.c_str(), sum(whole).c_str());
  gst_buffer_unref(whole);
}

void print_segment(const GstSegment& s) {
  std::printf("segment format=%s rate=%g applied=%g flags=%d start=%s stop=%s time=%s duration=%s base=%s offset=%s\n",
              gst_format_get_name(s.format), s.rate, s.applied_rate, static_cast<int>(s.flags), number(s.start).c_str(),
              number(s.stop).c_str(), number(s.time).c_str(), number(s.duration).c_str(), number(s.base).c_str(),
              number(s.offset).c_str());
}

void print_stream_start(GstEvent* event) {
  const char* id = nullptr;
  GstStreamFlags flags = GST_STREAM_FLAG_NONE;
  gst_event_parse_stream_start(event, &id);
  gst_event_parse_stream_flags(event, &flags);
  std::printf("stream-start flags=%d id=%s\n", static_cast<int>(flags), id);
}

void print_caps(Dump& dump, GstEvent* event) {
  GstCaps* caps = nullptr;
  gst_event_parse_caps(event, &caps);
  char* const text = gst_caps_to_string(caps);
  std::printf("caps %s\n", text);
  g_free(text);
  dump.has_video = g_str_has_prefix(gst_structure_get_name(gst_caps_get_structure(caps, 0)), "video/x-raw") != FALSE &&
                   gst_video_info_from_caps(&dump.video, caps) != FALSE;
}

void print_tag(GstEvent* event) {
  GstTagList* tags = nullptr;
  gst_event_parse_tag(event, &tags);
  char* const text = gst_tag_list_to_string(tags);
  std::printf("tag scope=%d %s\n", static_cast<int>(gst_tag_list_get_scope(tags)), text);
  g_free(text);
}

void print_event(Dump& dump, GstEvent* event) {
  switch (GST_EVENT_TYPE(event)) {
    case GST_EVENT_STREAM_START:
      return print_stream_start(event);
    case GST_EVENT_CAPS:
      return print_caps(dump, event);
    case GST_EVENT_TAG:
      return print_tag(event);
    case GST_EVENT_SEGMENT: {
      const GstSegment* segment = nullptr;
      gst_event_parse_segment(event, &segment);
      return print_segment(*segment);
    }
    case GST_EVENT_GAP: {
      GstClockTime pts = 0;
      GstClockTime duration = 0;
      gst_event_parse_gap(event, &pts, &duration);
      std::printf("gap pts=%s duration=%s\n", number(pts).c_str(), number(duration).c_str());
      return;
    }
    case GST_EVENT_CUSTOM_DOWNSTREAM: {
      char* const text = gst_structure_to_string(gst_event_get_structure(event));
      std::printf("custom %s\n", text);
      g_free(text);
      return;
    }
    default:
      std::printf("%s\n", GST_EVENT_TYPE_NAME(event));
  }
}

GstPadProbeReturn on_pad(GstPad*, GstPadProbeInfo* info, gpointer user) {
  Dump& dump = *static_cast<Dump*>(user);
  if (GST_IS_BUFFER(info->data)) print_buffer(dump, GST_BUFFER_CAST(info->data));
  if (GST_IS_BUFFER_LIST(info->data)) {
    for (guint i = 0; i < gst_buffer_list_length(GST_BUFFER_LIST_CAST(info->data)); ++i) {
      print_buffer(dump, gst_buffer_list_get(GST_BUFFER_LIST_CAST(info->data), i));
    }
  }
  if (GST_IS_EVENT(info->data)) print_event(dump, GST_EVENT_CAST(info->data));
  if (dump.video_meta && GST_IS_QUERY(info->data) && GST_QUERY_TYPE(info->data) == GST_QUERY_ALLOCATION) {
    gst_query_add_allocation_meta(GST_QUERY_CAST(info->data), GST_VIDEO_META_API_TYPE, nullptr);
    return GST_PAD_PROBE_HANDLED;
  }
  std::fflush(stdout);
  return GST_PAD_PROBE_OK;
}

void print_message(const char* kind, GstMessage* message, void (*parse)(GstMessage*, GError**, gchar**)) {
  GError* error = nullptr;
  gchar* debug = nullptr;
  parse(message, &error, &debug);
  std::fprintf(stderr, "%s %s %d %s: %s (%s)\n", kind, g_quark_to_string(error->domain), error->code,
               GST_MESSAGE_SRC_NAME(message), error->message, debug == nullptr ? "" : debug);
  g_error_free(error);
  g_free(debug);
}

int run(GstElement* pipeline) {
  if (gst_element_set_state(pipeline, GST_STATE_PLAYING) == GST_STATE_CHANGE_FAILURE)
    std::fprintf(stderr, "no PLAYING\n");
  GstBus* const bus = gst_element_get_bus(pipeline);
  int result = -1;
  while (result < 0) {
    GstMessage* const message = gst_bus_timed_pop_filtered(
        bus, GST_CLOCK_TIME_NONE,
        static_cast<GstMessageType>(GST_MESSAGE_EOS | GST_MESSAGE_ERROR | GST_MESSAGE_WARNING | GST_MESSAGE_LATENCY));
    if (GST_MESSAGE_TYPE(message) == GST_MESSAGE_EOS) result = 0;
    if (GST_MESSAGE_TYPE(message) == GST_MESSAGE_LATENCY) gst_bin_recalculate_latency(GST_BIN(pipeline));
    if (GST_MESSAGE_TYPE(message) == GST_MESSAGE_WARNING) print_message("warning", message, gst_message_parse_warning);
    if (GST_MESSAGE_TYPE(message) == GST_MESSAGE_ERROR) {
      print_message("error", message, gst_message_parse_error);
      result = 1;
    }
    gst_message_unref(message);
  }
  gst_element_set_state(pipeline, GST_STATE_NULL);
  // All there are: a test counts them.
  while (GstMessage* const message = gst_bus_pop_filtered(bus, GST_MESSAGE_ERROR)) {
    print_message("error", message, gst_message_parse_error);
    gst_message_unref(message);
  }
  gst_object_unref(bus);
  return result;
}

}  // namespace

int main(int argc, char** argv) {
  gst_init(&argc, &argv);
  static Dump dump;
  int first = 1;
  if (first < argc && std::strcmp(argv[first], "--video-meta") == 0) {
    dump.video_meta = true;
    ++first;
  }
  GError* error = nullptr;
  GstElement* const pipeline = first < argc ? gst_parse_launch(argv[first], &error) : nullptr;
  GstElement* const out =
      pipeline == nullptr || !GST_IS_BIN(pipeline) ? nullptr : gst_bin_get_by_name(GST_BIN(pipeline), "out");
  if (error != nullptr || out == nullptr) {
    std::fprintf(stderr, "no pipeline: %s\n", error == nullptr ? "no element named out" : error->message);
    return 2;
  }
  GstPad* const pad = gst_element_get_static_pad(out, "sink");
  gst_pad_add_probe(pad,
                    static_cast<GstPadProbeType>(GST_PAD_PROBE_TYPE_DATA_DOWNSTREAM |
                                                 GST_PAD_PROBE_TYPE_QUERY_DOWNSTREAM | GST_PAD_PROBE_TYPE_PUSH),
                    on_pad, &dump, nullptr);
  const int result = run(pipeline);
  gst_object_unref(pad);
  gst_object_unref(out);
  gst_object_unref(pipeline);
  gst_deinit();  // the tracer of leaks speaks now
  return result;
}
