// SPDX-License-Identifier: MIT
#include "lane/signals.hpp"

#include <memory>

#define GST_CAT_DEFAULT lane_debug
#include "lane/debug.hpp"
#include "lane/lane_sink.hpp"
#include "lane/lane_src.hpp"
#include "lane/stats.hpp"

namespace framelane::gst {
namespace {

guint added_signal = 0;
guint removed_signal = 0;

// The monitor's thread may still be about to call when the element goes.
class WeakElement {
 public:
  explicit WeakElement(GstElement* element) { g_weak_ref_init(&ref_, element); }
  ~WeakElement() { g_weak_ref_clear(&ref_); }
  WeakElement(const WeakElement&) = delete;
  WeakElement& operator=(const WeakElement&) = delete;
  [[nodiscard]] ObjectPtr get() { return ObjectPtr(static_cast<GstObject*>(g_weak_ref_get(&ref_))); }

 private:
  GWeakRef ref_;
};

}  // namespace

void install_consumer_signals(GType type) {
  added_signal = g_signal_new("consumer-added", type, G_SIGNAL_RUN_LAST, 0, nullptr, nullptr, nullptr, G_TYPE_NONE, 2,
                              G_TYPE_UINT, GST_TYPE_STRUCTURE);
  removed_signal = g_signal_new("consumer-removed", type, G_SIGNAL_RUN_LAST, 0, nullptr, nullptr, nullptr, G_TYPE_NONE,
                                3, G_TYPE_UINT, GST_TYPE_STRUCTURE, G_TYPE_STRING);
}

void announce_consumers(GstElement* element, const std::shared_ptr<SinkSession>& session) {
  const auto weak = std::make_shared<WeakElement>(element);
  session->producer().on_consumer(
      [weak, weak_session = std::weak_ptr(session)](const ConsumerInfo& info, bool joined, std::string_view reason) {
        if (const auto alive = joined ? weak_session.lock() : nullptr) alive->on_joined(info.id);
        const ObjectPtr sink = weak->get();
        if (sink == nullptr) return;
        const StructurePtr structure = structure_of(info);
        if (joined) {
          GST_INFO_OBJECT(sink.get(), "consumer %u joined over %s: %s, pid %d", info.id,
                          std::string(to_string(info.transport)).c_str(), info.name.c_str(), info.pid);
          g_signal_emit(sink.get(), added_signal, 0, info.id, structure.get());
        } else {
          const std::string why(reason);
          GST_INFO_OBJECT(sink.get(), "consumer %u left: %s", info.id, why.c_str());
          g_signal_emit(sink.get(), removed_signal, 0, info.id, structure.get(), why.c_str());
        }
        g_object_notify(G_OBJECT(sink.get()), "num-consumers");
      });
  // Not on the monitor's thread: what upstream makes of an event may take its time.
  session->producer().on_request([weak] {
    const ObjectPtr sink = weak->get();
    if (sink == nullptr) return;
    const auto push = [](GstElement* alive, gpointer) { LaneSink::of(alive).on_requests(); };
    gst_element_call_async(GST_ELEMENT_CAST(sink.get()), push, nullptr, nullptr);
  });
}

void watch_flushes(GstElement* source, Consumer& consumer) {
  const auto weak = std::make_shared<WeakElement>(source);
  consumer.on_flush([weak] {
    const ObjectPtr alive = weak->get();
    if (alive == nullptr) return;
    const auto flush = [](GstElement* object, gpointer) { LaneSrc::of(object).on_flush(); };
    gst_element_call_async(GST_ELEMENT_CAST(alive.get()), flush, nullptr, nullptr);
  });
}

}  // namespace framelane::gst
