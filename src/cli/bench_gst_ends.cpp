// SPDX-License-Identifier: MIT
// The processes of `framelane bench gst`: each is one pipeline.
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <functional>
#include <memory>
#include <vector>

#include <fmt/format.h>
#include <gst/audio/audio.h>
#include <gst/gst.h>
#include <gst/video/video.h>
#include <poll.h>

#include "base/clock.hpp"
#include "base/cpu.hpp"
#include "cli/bench_gst.hpp"
#include "cli/bench_gst_elements.hpp"
#include "cli/bench_setup.hpp"
#include "cli/build_tree.hpp"
#include "cli/command.hpp"

namespace framelane::cli::bench_gst {
namespace {

constexpr guint64 kAudioSamples = 1024;  // of one buffer

struct Unref {
  void operator()(GstElement* element) const noexcept { gst_object_unref(element); }
  void operator()(GstCaps* caps) const noexcept { gst_caps_unref(caps); }
};
using PipelinePtr = std::unique_ptr<GstElement, Unref>;
using CapsPtr = std::unique_ptr<GstCaps, Unref>;

bool start_gstreamer() {
  if (const auto plugins = build_tree_plugin_path()) ::setenv("GST_PLUGIN_PATH", plugins->c_str(), 1);
  GError* error = nullptr;
  if (gst_init_check(nullptr, nullptr, &error)) return true;
  report_failure(fmt::format("GStreamer does not start: {}", error == nullptr ? "no reason given" : error->message));
  g_clear_error(&error);
  return false;
}

// An end's process is bound before GStreamer makes its threads: they inherit it.
bool start_end(const Job& job) {
  if (job.cpu.has_value()) {
    if (auto pinned = base::pin_this_thread(*job.cpu); !pinned) {
      report_failure(pinned.error().text);
      return false;
    }
  }
  return start_gstreamer();
}

GstElement* make(const char* factory) {
  GstElement* const element = gst_element_factory_make(factory, nullptr);
  if (element == nullptr) report_failure(fmt::format("there is no element {}", factory));
  return element;
}

GstElement* make_transport_sink(const Job& job) {
  GstElement* const sink = make(job.way == Way::kLane ? "lanesink" : "shmsink");
  if (sink == nullptr) return nullptr;
  if (job.way == Way::kLane) {
    // As shmsink does: wait for the consumer, first and always, and lose nothing.
    g_object_set(sink, "lane", "bench", "wait-for-consumers", 1, "full-timeout", GST_CLOCK_TIME_NONE, nullptr);
    gst_util_set_object_arg(G_OBJECT(sink), "leaky", "no");
    gst_util_set_object_arg(G_OBJECT(sink), "spin", job.spin.c_str());
  } else {
    g_object_set(sink, "socket-path", job.socket.c_str(), "shm-size", job.shm_size, "wait-for-connection", TRUE, "sync",
                 FALSE, "enable-last-sample", FALSE, nullptr);
  }
  return sink;
}

GstElement* make_transport_source(const Job& job) {
  GstElement* const source = make(job.way == Way::kLane ? "lanesrc" : "shmsrc");
  if (source == nullptr) return nullptr;
  if (job.way == Way::kLane) {
    g_object_set(source, "lane", "bench", nullptr);
    // Nothing is shown, so nothing is early: by the clock, frames from before this pipeline would be dropped.
    gst_util_set_object_arg(G_OBJECT(source), "timestamp-mode", "producer");
    gst_util_set_object_arg(G_OBJECT(source), "spin", job.spin.c_str());
  } else {
    g_object_set(source, "socket-path", job.socket.c_str(), "is-live", TRUE, nullptr);
  }
  return source;
}

// shmsrc fails where there is no socket yet. (lanesrc waits.)
bool wait_for_socket(const Job& job) {
  const std::int64_t deadline = base::deadline_after(2 * kPatience);
  std::error_code error;
  while (!std::filesystem::exists(job.socket, error)) {
    if (base::monotonic_ns() > deadline) {
      report_failure("shmsink made no socket");
      return false;
    }
    poll(nullptr, 0, 5);
  }
  return true;
}

int report_message(GstMessage* message) {
  GError* error = nullptr;
  gchar* debug = nullptr;
  gst_message_parse_error(message, &error, &debug);
  report_failure(
      fmt::format("{}: {} ({})", GST_MESSAGE_SRC_NAME(message), error->message, debug == nullptr ? "" : debug));
  g_error_free(error);
  g_free(debug);
  return kFailed;
}

std::uint64_t stat(const GstStructure* stats, const char* field) {
  guint64 value = 0;
  gst_structure_get_uint64(stats, field, &value);
  return value;
}

void note_stats(GstElement* sink, Record& record) {
  GstStructure* stats = nullptr;
  g_object_get(sink, "stats", &stats, nullptr);
  if (stats == nullptr) return;
  record.in_place = stat(stats, "in-place");
  record.full_waits = stat(stats, "full-waits");
  record.wakes = stat(stats, "wakes");
  gst_structure_free(stats);
}

// Plays until `last` comes: the end of the stream, or the sink's word that it has had the last frame.
int play(GstElement* pipeline, GstMessageType last, const std::function<void()>& before_stop) {
  gst_element_set_state(pipeline, GST_STATE_PLAYING);
  GstBus* const bus = gst_element_get_bus(pipeline);
  GstMessage* const message = gst_bus_timed_pop_filtered(
      bus, GST_CLOCK_TIME_NONE, static_cast<GstMessageType>(last | GST_MESSAGE_EOS | GST_MESSAGE_ERROR));
  int code = kOk;
  if (GST_MESSAGE_TYPE(message) == GST_MESSAGE_ERROR) {
    code = report_message(message);
  } else if (GST_MESSAGE_TYPE(message) != last) {
    code = report_failure("the stream ended before its last frame");
  }
  gst_message_unref(message);
  gst_object_unref(bus);
  if (before_stop) before_stop();
  gst_element_set_state(pipeline, GST_STATE_NULL);
  return code;
}

int play_pair(GstElement* first, GstElement* second, GstMessageType last,
              const std::function<void()>& before_stop = {}) {
  if (first == nullptr || second == nullptr) return kFailed;  // the process ends, and with it the other one
  const PipelinePtr pipeline(gst_pipeline_new(nullptr));
  gst_bin_add_many(GST_BIN(pipeline.get()), first, second, nullptr);
  if (!gst_element_link(first, second)) return report_failure("the elements can't be linked");
  return play(pipeline.get(), last, before_stop);
}

std::string missing_element() {
  for (const char* name : {"lanesink", "lanesrc", "shmsink", "shmsrc"}) {
    GstElementFactory* const factory = gst_element_factory_find(name);
    if (factory == nullptr) return name;
    gst_object_unref(factory);
  }
  return {};
}

std::string no_such_element(const std::string& name) {
  if (name.starts_with("shm")) return name + " is not installed; it is in gstreamer1.0-plugins-bad";
  return name + " is not found; run ./quickstart shell, or set GST_PLUGIN_PATH to where libgstframelane.so is";
}

// 0: frames of these caps have no size that could be known.
std::size_t frame_bytes(GstCaps* caps) {
  const GstStructure* const structure = gst_caps_get_structure(caps, 0);
  GstVideoInfo video;
  GstAudioInfo audio;
  if (gst_structure_has_name(structure, "video/x-raw") && gst_video_info_from_caps(&video, caps)) {
    return GST_VIDEO_INFO_SIZE(&video);
  }
  if (gst_structure_has_name(structure, "audio/x-raw") && gst_audio_info_from_caps(&audio, caps)) {
    return kAudioSamples * static_cast<std::size_t>(GST_AUDIO_INFO_BPF(&audio));
  }
  return 0;
}

}  // namespace

int probe(const std::string& text, Probe& result) {
  if (!start_gstreamer()) return kFailed;
  if (const std::string missing = missing_element(); !missing.empty()) return report_failure(no_such_element(missing));
  CapsPtr caps(gst_caps_from_string(text.c_str()));
  if (caps == nullptr || gst_caps_is_empty(caps.get()) || gst_caps_is_any(caps.get())) {
    return report_failure(
        fmt::format("\"{}\" are no caps; for example video/x-raw,format=NV12,width=64,height=48", text));
  }
  caps.reset(gst_caps_fixate(caps.release()));
  result.frame_bytes = frame_bytes(caps.get());
  gchar* const fixed = gst_caps_to_string(caps.get());
  const std::string fixed_text = fixed;
  g_free(fixed);
  if (result.frame_bytes < 64 || result.frame_bytes > (std::size_t{256} << 20)) {
    return report_failure(
        fmt::format("\"{}\" are no caps of raw video or audio with frames of 64 bytes to 256 MiB", fixed_text));
  }
  if (fixed_text.size() >= sizeof result.caps) return report_failure("the caps are too long");
  std::memcpy(result.caps, fixed_text.c_str(), fixed_text.size() + 1);
  return kOk;
}

int produce(const Job& job, Record& record) {
  if (!start_end(job)) return kFailed;
  GstElement* const sink = make_transport_sink(job);
  return play_pair(new_source(job, record), sink, GST_MESSAGE_EOS, [&] {
    if (job.way == Way::kLane) note_stats(sink, record);
  });
}

int consume(const Job& job, Record& record, std::span<std::uint32_t> samples) {
  if (!start_end(job)) return kFailed;
  if (job.way != Way::kLane && !wait_for_socket(job)) return kFailed;
  return play_pair(make_transport_source(job), new_sink(job, record, samples), GST_MESSAGE_APPLICATION);
}

int floor(const Job& job, Record& record, std::span<std::uint32_t> samples) {
  if (!start_end(job)) return kFailed;
  return play_pair(new_source(job, record), new_sink(job, record, samples), GST_MESSAGE_EOS);
}

}  // namespace framelane::cli::bench_gst
