// SPDX-License-Identifier: MIT
#include "framelane/lane/consumer.hpp"

#include <algorithm>
#include <utility>
#include <variant>

#include "base/clock.hpp"
#include "capi/handles.hpp"

struct framelane_consumer {
  explicit framelane_consumer(framelane::Consumer&& opened) : consumer(std::move(opened)) {}
  ~framelane_consumer() {
    consumer.close();
    if (caps != nullptr) caps->unref();
  }

  framelane::Consumer consumer;
  framelane::capi::PoolUse<framelane_frame> frames;
  // The taking thread's.
  framelane::capi::Caps* caps = nullptr;  // of the last frame; null: none
  framelane::format::Event event;         // the last one: its text is the caller's
};

namespace framelane::capi {
namespace {

/// The caps that hold now, with a reference for a frame; null when there are none. False: no memory.
bool current_caps(framelane_consumer& consumer, Caps*& caps) noexcept {
  const std::string& text = consumer.consumer.caps();
  const std::string& layout = consumer.consumer.plane_layout();
  const bool same = consumer.caps != nullptr ? consumer.caps->is(text, layout) : text.empty();
  if (!same) {
    if (consumer.caps != nullptr) std::exchange(consumer.caps, nullptr)->unref();
    if (!text.empty()) {
      consumer.caps = Caps::create(text, layout);
      if (consumer.caps == nullptr) return false;
    }
  }
  caps = consumer.caps;
  if (caps != nullptr) caps->ref();
  return true;
}

framelane_code hand_out(framelane_consumer& consumer, Frame&& taken, framelane_frame** out) noexcept {
  framelane_frame* const handle = consumer.frames.get();
  if (handle == nullptr) return report(Code::kNoMemory, "no memory for the handle of a frame");
  if (!current_caps(consumer, handle->caps)) {
    handle->pool->put(handle);
    return report(Code::kNoMemory, "no memory for the caps of a frame");
  }
  handle->frame = std::move(taken);
  handle->taken_ns = handle->frame.published() != 0 ? base::monotonic_ns() : 0;
  handle->refs.store(1, std::memory_order_relaxed);
  *out = handle;
  return FRAMELANE_OK;
}

const char* transport_name(const std::string& name) noexcept {
  for (const char* known : {"shm", "uds", "tcp"}) {
    if (name == known) return known;
  }
  return "";
}

std::int32_t transport_number(const std::string& name) noexcept {
  for (const Transport transport : {Transport::kShm, Transport::kUds, Transport::kTcp}) {
    if (to_string(transport) == name) return static_cast<std::int32_t>(transport);
  }
  return FRAMELANE_TRANSPORT_AUTO;
}

framelane_consumer_stats to_c(const ConsumerStats& from) noexcept {
  framelane_consumer_stats to{};
  to.held = from.held;
  to.taken = from.taken;
  to.skipped = from.skipped;
  to.copied = from.copied;
  to.sleeps = from.sleeps;
  to.spins = from.spins;
  to.connections = from.connections;
  to.connected = from.connected ? 1 : 0;
  to.gating = from.gating ? 1 : 0;
  to.demoted = from.demoted ? 1 : 0;
  to.transport = transport_number(from.transport);
  to.latency = latency_to_c(from.latency);
  to.clock_offset_error_ns = from.clock_offset_error_ns;
  return to;
}

}  // namespace

framelane_event event_to_c(const format::Event& event) noexcept {
  framelane_event to{};
  to.type = static_cast<std::int32_t>(event.type);
  to.number = event.number;
  to.group = event.group;
  to.pts = event.pts;
  to.duration = event.duration;
  const format::Segment& segment = event.segment;
  to.segment = {static_cast<std::uint32_t>(segment.format),
                segment.flags,
                segment.rate,
                segment.applied_rate,
                segment.base,
                segment.offset,
                segment.start,
                segment.stop,
                segment.time,
                segment.position,
                segment.duration};
  to.text = event.text.c_str();
  return to;
}

}  // namespace framelane::capi

using namespace framelane;
using namespace framelane::capi;

framelane_code framelane_consumer_open(const char* lane, const framelane_consumer_settings* settings,
                                       framelane_consumer** consumer) {
  if (consumer == nullptr) return missing("consumer");
  *consumer = nullptr;
  return guarded([&]() -> framelane_code {
    auto wanted = to_settings(lane, settings);
    if (!wanted) return report(wanted.error());
    auto opened = Consumer::open(std::move(*wanted));
    if (!opened) return report(opened.error());
    auto handle = std::make_unique<framelane_consumer>(std::move(*opened));
    if (handle->frames.pool() == nullptr) throw std::bad_alloc();
    *consumer = handle.release();
    return FRAMELANE_OK;
  });
}

void framelane_consumer_close(framelane_consumer* consumer) { delete consumer; }

framelane_code framelane_consumer_connect(framelane_consumer* consumer, int64_t timeout_ns) {
  if (consumer == nullptr) return missing("consumer");
  return guarded([&] { return code_of(consumer->consumer.connect(timeout_of(timeout_ns))); });
}

framelane_code framelane_consumer_take(framelane_consumer* consumer, int64_t timeout_ns, framelane_frame** frame) {
  if (frame == nullptr) return missing("frame");
  *frame = nullptr;
  if (consumer == nullptr) return missing("consumer");
  auto taken = consumer->consumer.take(timeout_of(timeout_ns));
  return taken ? hand_out(*consumer, std::move(*taken), frame) : report(taken.error());
}

framelane_code framelane_consumer_try_take(framelane_consumer* consumer, framelane_frame** frame) {
  if (frame == nullptr) return missing("frame");
  *frame = nullptr;
  if (consumer == nullptr) return missing("consumer");
  auto taken = consumer->consumer.try_take();
  if (!taken) return report(taken.error());
  if (!*taken) return report(Code::kTimeout, "no frame is there");
  return hand_out(*consumer, std::move(**taken), frame);
}

framelane_code framelane_consumer_take_many(framelane_consumer* consumer, int64_t timeout_ns, framelane_frame** frames,
                                            size_t capacity, size_t* count) {
  if (count == nullptr) return missing("count");
  *count = 0;
  if (frames == nullptr) return missing("frames");
  if (capacity == 0) return report(Code::kInvalidArgument, "capacity is 0; take_many needs room for a frame");
  std::fill_n(frames, capacity, nullptr);
  if (const auto code = framelane_consumer_take(consumer, timeout_ns, &frames[0]); code != FRAMELANE_OK) return code;
  *count = 1;
  while (*count < capacity) {
    auto taken = consumer->consumer.try_take();
    if (!taken || !*taken) break;  // an error comes again at the next call
    if (hand_out(*consumer, std::move(**taken), &frames[*count]) != FRAMELANE_OK) break;
    ++*count;
  }
  return FRAMELANE_OK;
}

framelane_code framelane_consumer_take_item(framelane_consumer* consumer, int64_t timeout_ns, framelane_frame** frame,
                                            framelane_event* event) {
  if (frame == nullptr) return missing("frame");
  *frame = nullptr;
  if (consumer == nullptr) return missing("consumer");
  if (const auto code = check_struct(event, "framelane_event"); code != FRAMELANE_OK) return code;
  write_struct(framelane_event{}, event);
  auto item = consumer->consumer.take_item(timeout_of(timeout_ns));
  if (!item) return report(item.error());
  if (auto* taken = std::get_if<Frame>(&*item)) return hand_out(*consumer, std::move(*taken), frame);
  consumer->event = std::get<format::Event>(std::move(*item));
  write_struct(event_to_c(consumer->event), event);
  return FRAMELANE_OK;
}

framelane_code framelane_consumer_event_fd(framelane_consumer* consumer, int* fd) {
  if (fd == nullptr) return missing("fd");
  *fd = -1;
  if (consumer == nullptr) return missing("consumer");
  return guarded([&] {
    const auto opened = consumer->consumer.event_fd();
    if (opened) *fd = *opened;
    return code_of(opened);
  });
}

const char* framelane_consumer_caps(const framelane_consumer* consumer) {
  return consumer != nullptr ? consumer->consumer.caps().c_str() : "";
}

framelane_code framelane_consumer_send_upstream(framelane_consumer* consumer, const framelane_upstream* upstream) {
  if (consumer == nullptr) return missing("consumer");
  framelane_upstream from = default_upstream();
  if (const auto code = copy_in(upstream, from, "framelane_upstream"); code != FRAMELANE_OK) return code;
  if (from.type < FRAMELANE_UPSTREAM_KEY_UNIT || from.type > FRAMELANE_UPSTREAM_QOS) {
    return report(Code::kInvalidArgument, "framelane_upstream.type is none of FRAMELANE_UPSTREAM_");
  }
  return guarded([&] {
    format::Request request;
    request.type = static_cast<format::RequestType>(from.type);
    request.number = from.number;
    request.headers = from.headers != 0;
    request.time = from.time;
    request.proportion = from.proportion;
    request.jitter_ns = from.jitter_ns;
    request.text = or_empty(from.text);
    return code_of(consumer->consumer.send_upstream(request));
  });
}

framelane_code framelane_consumer_on_connection(framelane_consumer* consumer, framelane_connection_fn notify,
                                                void* user) {
  if (consumer == nullptr) return missing("consumer");
  return guarded([&] {
    Consumer::ConnectionCallback callback;
    if (notify != nullptr) callback = [notify, user](bool connected) { notify(connected ? 1 : 0, user); };
    consumer->consumer.on_connection(std::move(callback));
    return FRAMELANE_OK;
  });
}

framelane_code framelane_consumer_on_flush(framelane_consumer* consumer, framelane_notify_fn notify, void* user) {
  if (consumer == nullptr) return missing("consumer");
  return guarded([&] {
    Consumer::FlushCallback callback;
    if (notify != nullptr) callback = [notify, user] { notify(user); };
    consumer->consumer.on_flush(std::move(callback));
    return FRAMELANE_OK;
  });
}

int32_t framelane_consumer_flushing(const framelane_consumer* consumer) {
  return consumer != nullptr && consumer->consumer.flushing() ? 1 : 0;
}

framelane_code framelane_consumer_producer_id(const framelane_consumer* consumer, uint8_t* id) {
  if (consumer == nullptr) return missing("consumer");
  if (id == nullptr) return missing("id");
  const auto from = consumer->consumer.producer_id();
  std::copy(from.begin(), from.end(), id);
  return FRAMELANE_OK;
}

void framelane_consumer_interrupt(framelane_consumer* consumer) {
  if (consumer != nullptr) consumer->consumer.interrupt();
}

void framelane_consumer_resume(framelane_consumer* consumer) {
  if (consumer != nullptr) consumer->consumer.resume();
}

framelane_code framelane_consumer_get_stats(const framelane_consumer* consumer, framelane_consumer_stats* stats) {
  if (consumer == nullptr) return missing("consumer");
  if (const auto code = check_struct(stats, "framelane_consumer_stats"); code != FRAMELANE_OK) return code;
  return guarded([&] {
    write_struct(to_c(consumer->consumer.stats()), stats);
    return FRAMELANE_OK;
  });
}

const char* framelane_consumer_transport(const framelane_consumer* consumer) {
  return consumer != nullptr ? transport_name(consumer->consumer.transport()) : "";
}

size_t framelane_consumer_transport_reason(const framelane_consumer* consumer, char* text, size_t capacity) {
  std::size_t length = print_text("", text, capacity);
  if (consumer == nullptr) return length;
  guarded([&] {
    length = print_text(consumer->consumer.transport_reason(), text, capacity);
    return FRAMELANE_OK;
  });
  return length;
}

const char* framelane_consumer_descriptor(const framelane_consumer* consumer) {
  return consumer != nullptr ? consumer->consumer.descriptor().c_str() : "";
}
