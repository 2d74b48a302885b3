// SPDX-License-Identifier: MIT
#include "cli/bench_gst_elements.hpp"

#include <algorithm>
#include <cstring>
#include <limits>

#include <gst/base/gstbasesink.h>
#include <gst/base/gstpushsrc.h>
#include <time.h>

#include "base/clock.hpp"

namespace framelane::cli::bench_gst {
namespace {

constexpr std::size_t kPage = 4096;
constexpr std::int64_t kSecondNs = 1'000'000'000;

// First bytes of a frame.
struct Head {
  std::int64_t written_ns;
  std::uint64_t number;
};

unsigned char content_of(std::uint64_t number) { return static_cast<unsigned char>(number % 251); }

std::int64_t process_cpu_ns() {
  timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return time.tv_sec * kSecondNs + time.tv_nsec;
}

void sleep_until(std::int64_t when_ns) {
  const timespec when{when_ns / kSecondNs, when_ns % kSecondNs};
  clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &when, nullptr);
}

// --- source

class Source {
 public:
  Source(GstBaseSrc* element, const Job& job, Record& record) : element_(element), job_(job), record_(record) {
    caps_ = gst_caps_from_string(job.caps.c_str());
    gst_base_src_set_format(element_, GST_FORMAT_TIME);
    gst_base_src_set_live(element_, job.fps > 0);
    gst_base_src_set_blocksize(element_, static_cast<guint>(job.frame_bytes));
  }
  ~Source() { gst_caps_unref(caps_); }
  Source(const Source&) = delete;
  Source& operator=(const Source&) = delete;

  [[nodiscard]] GstCaps* caps() const { return gst_caps_ref(caps_); }
  void decide_allocation(GstQuery* query) const;
  GstFlowReturn fill(GstBuffer* buffer);

 private:
  void pace();
  GstFlowReturn finish();

  GstBaseSrc* const element_;
  const Job& job_;
  Record& record_;
  GstCaps* caps_ = nullptr;
  std::uint64_t next_ = 0;
  std::int64_t start_ns_ = 0;  // of a paced run
  std::int64_t cpu_ns_ = 0;    // of the process, at the first measured frame
};

// A source that has memory of its own and takes no other: a pool, since fresh memory for each frame would cost more
// than what is measured.
void Source::decide_allocation(GstQuery* query) const {
  if (job_.way != Way::kShmCopy && job_.way != Way::kFloor) return;
  while (gst_query_get_n_allocation_pools(query) > 0) gst_query_remove_nth_allocation_pool(query, 0);
  while (gst_query_get_n_allocation_params(query) > 0) gst_query_remove_nth_allocation_param(query, 0);
  GstBufferPool* const pool = gst_buffer_pool_new();
  gst_query_add_allocation_pool(query, pool, static_cast<guint>(job_.frame_bytes), 2, 0);
  gst_object_unref(pool);
}

void Source::pace() {
  if (job_.fps <= 0) return;
  if (next_ == 0) start_ns_ = base::monotonic_ns();
  sleep_until(start_ns_ + static_cast<std::int64_t>(static_cast<double>(next_) * 1e9 / job_.fps));
}

GstFlowReturn Source::finish() {
  record_.producer_cpu_ns.store(process_cpu_ns() - cpu_ns_);
  while (record_.done.value.load(std::memory_order_acquire) == 0) sleep_until(base::monotonic_ns() + 1'000'000);
  return GST_FLOW_EOS;
}

GstFlowReturn Source::fill(GstBuffer* buffer) {
  if (next_ == job_.warm_up) cpu_ns_ = process_cpu_ns();
  if (next_ == job_.total()) return finish();
  pace();
  GstMapInfo map;
  if (!gst_buffer_map(buffer, &map, GST_MAP_WRITE) || map.size < job_.frame_bytes) {
    GST_ELEMENT_ERROR(element_, RESOURCE, WRITE, ("a buffer is too small or can't be written"), (nullptr));
    return GST_FLOW_ERROR;
  }
  std::memset(map.data, content_of(next_), job_.frame_bytes);
  const Head head{base::monotonic_ns(), next_};
  std::memcpy(map.data, &head, sizeof head);
  gst_buffer_unmap(buffer, &map);
  const double rate = job_.fps > 0 ? job_.fps : 60;
  GST_BUFFER_PTS(buffer) = static_cast<GstClockTime>(static_cast<double>(next_) * 1e9 / rate);
  GST_BUFFER_DURATION(buffer) = static_cast<GstClockTime>(1e9 / rate);
  ++next_;
  return GST_FLOW_OK;
}

// --- sink

class Sink {
 public:
  Sink(GstBaseSink* element, const Job& job, Record& record, std::span<std::uint32_t> samples)
      : element_(element),
        job_(job),
        record_(record),
        samples_(samples),
        caps_(gst_caps_from_string(job.caps.c_str())) {
    gst_base_sink_set_sync(element_, FALSE);
    gst_base_sink_set_last_sample_enabled(element_, FALSE);  // it would keep a frame of every transport
  }
  ~Sink() { gst_caps_unref(caps_); }
  Sink(const Sink&) = delete;
  Sink& operator=(const Sink&) = delete;

  [[nodiscard]] GstCaps* caps() const { return gst_caps_ref(caps_); }
  GstFlowReturn render(GstBuffer* buffer);

 private:
  void note(std::uint64_t number, std::int64_t written_ns, std::int64_t now);

  GstBaseSink* const element_;
  const Job& job_;
  Record& record_;
  const std::span<std::uint32_t> samples_;
  GstCaps* caps_ = nullptr;
  std::uint64_t next_ = 0;
  std::int64_t cpu_ns_ = 0;
};

// True if a byte of each page, and the last one, are those of frame `number`.
bool touch(const GstMapInfo& map, std::size_t size, std::uint64_t number) {
  const unsigned char wanted = content_of(number);
  unsigned char wrong = map.data[size - 1] ^ wanted;
  for (std::size_t at = kPage; at < size; at += kPage) wrong |= map.data[at] ^ wanted;
  return wrong == 0;
}

GstFlowReturn Sink::render(GstBuffer* buffer) {
  GstMapInfo map;
  if (!gst_buffer_map(buffer, &map, GST_MAP_READ)) return GST_FLOW_ERROR;
  Head head{0, 0};
  if (map.size >= job_.frame_bytes) std::memcpy(&head, map.data, sizeof head);
  const std::int64_t now = base::monotonic_ns();
  const bool good = map.size >= job_.frame_bytes && touch(map, job_.frame_bytes, head.number);
  gst_buffer_unmap(buffer, &map);
  if (!good || head.number < next_) {
    GST_ELEMENT_ERROR(element_, STREAM, FAILED, ("a frame arrived broken or twice"), (nullptr));
    return GST_FLOW_ERROR;
  }
  note(head.number, head.written_ns, now);
  return GST_FLOW_OK;
}

void Sink::note(std::uint64_t number, std::int64_t written_ns, std::int64_t now) {
  if (number != next_) record_.lost.fetch_add(number - next_, std::memory_order_relaxed);
  next_ = number + 1;
  if (number >= job_.warm_up) {
    const std::uint32_t count = record_.measured.load(std::memory_order_relaxed);
    if (count == 0) {
      cpu_ns_ = process_cpu_ns();
      record_.first_ns.store(now, std::memory_order_relaxed);
    }
    samples_[count] = static_cast<std::uint32_t>(
        std::clamp<std::int64_t>(now - written_ns, 0, std::numeric_limits<std::uint32_t>::max()));
    record_.last_ns.store(now, std::memory_order_relaxed);
    record_.measured.store(count + 1, std::memory_order_release);
  }
  record_.received.value.store(next_, std::memory_order_release);
  if (next_ != job_.total()) return;
  if (job_.way != Way::kFloor) record_.consumer_cpu_ns.store(process_cpu_ns() - cpu_ns_);
  record_.done.value.store(1, std::memory_order_release);
  GstStructure* const what = gst_structure_new_empty("last-frame");
  gst_element_post_message(GST_ELEMENT_CAST(element_), gst_message_new_application(GST_OBJECT_CAST(element_), what));
}

// --- GObject

struct SourceInstance {
  GstPushSrc parent;
  Source* impl;
};

struct SinkInstance {
  GstBaseSink parent;
  Sink* impl;
};

Source& source_of(gpointer object) { return *static_cast<SourceInstance*>(object)->impl; }
Sink& sink_of(gpointer object) { return *static_cast<SinkInstance*>(object)->impl; }

GstStaticPadTemplate source_pad = GST_STATIC_PAD_TEMPLATE("src", GST_PAD_SRC, GST_PAD_ALWAYS, GST_STATIC_CAPS_ANY);
GstStaticPadTemplate sink_pad = GST_STATIC_PAD_TEMPLATE("sink", GST_PAD_SINK, GST_PAD_ALWAYS, GST_STATIC_CAPS_ANY);

template <class Instance, GType (*kParent)()>
void finalize(GObject* object) {
  delete reinterpret_cast<Instance*>(object)->impl;
  G_OBJECT_CLASS(g_type_class_peek(kParent()))->finalize(object);
}

void source_class_init(gpointer klass, gpointer) {
  G_OBJECT_CLASS(klass)->finalize = finalize<SourceInstance, gst_push_src_get_type>;
  gst_element_class_add_static_pad_template(GST_ELEMENT_CLASS(klass), &source_pad);
  gst_element_class_set_static_metadata(GST_ELEMENT_CLASS(klass), "Bench source", "Source", "Writes frames",
                                        "Framelane");
  GstBaseSrcClass* const base = GST_BASE_SRC_CLASS(klass);
  base->get_caps = [](GstBaseSrc* element, GstCaps*) { return source_of(element).caps(); };
  base->decide_allocation = [](GstBaseSrc* element, GstQuery* query) -> gboolean {
    source_of(element).decide_allocation(query);
    return GST_BASE_SRC_CLASS(g_type_class_peek(GST_TYPE_PUSH_SRC))->decide_allocation(element, query);
  };
  GST_PUSH_SRC_CLASS(klass)->fill = [](GstPushSrc* element, GstBuffer* buffer) {
    return source_of(element).fill(buffer);
  };
}

void sink_class_init(gpointer klass, gpointer) {
  G_OBJECT_CLASS(klass)->finalize = finalize<SinkInstance, gst_base_sink_get_type>;
  gst_element_class_add_static_pad_template(GST_ELEMENT_CLASS(klass), &sink_pad);
  gst_element_class_set_static_metadata(GST_ELEMENT_CLASS(klass), "Bench sink", "Sink", "Reads frames", "Framelane");
  GstBaseSinkClass* const base = GST_BASE_SINK_CLASS(klass);
  // shmsrc has no caps of its own: it takes these, and needs no capsfilter that would cost it time.
  base->get_caps = [](GstBaseSink* element, GstCaps*) { return sink_of(element).caps(); };
  base->render = [](GstBaseSink* element, GstBuffer* buffer) { return sink_of(element).render(buffer); };
}

GType source_type() {
  static const GType type =
      g_type_register_static_simple(GST_TYPE_PUSH_SRC, "FramelaneBenchSource", sizeof(GstPushSrcClass),
                                    source_class_init, sizeof(SourceInstance), nullptr, static_cast<GTypeFlags>(0));
  return type;
}

GType sink_type() {
  static const GType type =
      g_type_register_static_simple(GST_TYPE_BASE_SINK, "FramelaneBenchSink", sizeof(GstBaseSinkClass), sink_class_init,
                                    sizeof(SinkInstance), nullptr, static_cast<GTypeFlags>(0));
  return type;
}

}  // namespace

GstElement* new_source(const Job& job, Record& record) {
  auto* const source = static_cast<SourceInstance*>(g_object_new(source_type(), nullptr));
  source->impl = new Source(GST_BASE_SRC_CAST(source), job, record);
  return GST_ELEMENT_CAST(source);
}

GstElement* new_sink(const Job& job, Record& record, std::span<std::uint32_t> samples) {
  auto* const sink = static_cast<SinkInstance*>(g_object_new(sink_type(), nullptr));
  sink->impl = new Sink(GST_BASE_SINK_CAST(sink), job, record, samples);
  return GST_ELEMENT_CAST(sink);
}

}  // namespace framelane::cli::bench_gst
