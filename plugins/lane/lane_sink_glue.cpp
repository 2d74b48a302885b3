// SPDX-License-Identifier: MIT
#include "lane/elements.hpp"
#include "lane/glue.hpp"
#include "lane/lane_sink.hpp"
#include "lane/signals.hpp"
#include "lane/thunk.hpp"

/**
 * SECTION:element-lanesink
 * @title: lanesink
 * @short_description: sends frames to other processes through a lane
 *
 * Every frame is written once, into shared memory, and read there by up to 32 processes. Upstream gets the lane's slots
 * as its buffers where it asks for them; other buffers are copied once, and `stats` counts them by reason. Either side
 * may start first. There is no need for a tee before it: the lane is the tee.
 *
 * |[
 * gst-launch-1.0 videotestsrc is-live=true ! video/x-raw,width=640,height=480 ! lanesink lane=cam0
 * gst-launch-1.0 filesrc location=film.webm ! decodebin ! lanesink lane=film sync=true
 * ]|
 */

/**
 * SECTION:element-shmringsink
 * @title: shmringsink
 * @short_description: lanesink that uses shared memory and nothing else
 *
 * |[
 * gst-launch-1.0 audiotestsrc is-live=true ! shmringsink lane=tone
 * gst-launch-1.0 videotestsrc num-buffers=300 ! shmringsink lane=cam0 wait-for-consumers=2
 * ]|
 */
namespace framelane::gst {
namespace {

using SinkInstance = Instance<GstBaseSink, LaneSink>;
using SinkClass = Class<GstBaseSinkClass>;

GstStaticPadTemplate pad_template = GST_STATIC_PAD_TEMPLATE("sink", GST_PAD_SINK, GST_PAD_ALWAYS, GST_STATIC_CAPS_ANY);

void finalize(GObject* object) {
  delete reinterpret_cast<SinkInstance*>(object)->impl;
  G_OBJECT_CLASS(g_type_class_peek(GST_TYPE_BASE_SINK))->finalize(object);
}

void base_class_init(gpointer klass, gpointer) {
  GObjectClass* const object_class = G_OBJECT_CLASS(klass);
  object_class->set_property = Thunk<&LaneSink::set_property>::call;
  object_class->get_property = Thunk<&LaneSink::get_property>::call;
  object_class->finalize = finalize;
  install_properties(object_class, LaneSink::properties());
  install_consumer_signals(G_TYPE_FROM_CLASS(klass));

  GstElementClass* const element_class = GST_ELEMENT_CLASS(klass);
  element_class->change_state = Thunk<&LaneSink::change_state>::call;
  element_class->send_event = Thunk<&LaneSink::send_event>::call;
  gst_element_class_add_static_pad_template(element_class, &pad_template);

  GstBaseSinkClass* const sink_class = GST_BASE_SINK_CLASS(klass);
  sink_class->event = Thunk<&LaneSink::event>::call;
  sink_class->set_caps = Thunk<&LaneSink::set_caps>::call;
  sink_class->wait_event = Thunk<&LaneSink::wait_event>::call;
  sink_class->render = Thunk<&LaneSink::render>::call;
  sink_class->propose_allocation = Thunk<&LaneSink::propose_allocation>::call;
  sink_class->unlock = Thunk<&LaneSink::unlock>::call;
  sink_class->unlock_stop = Thunk<&LaneSink::unlock_stop>::call;
}

void base_instance_init(GTypeInstance* instance, gpointer klass) {
  GstBaseSink* const sink = GST_BASE_SINK(instance);
  reinterpret_cast<SinkInstance*>(instance)->impl = new LaneSink(sink, &static_cast<SinkClass*>(klass)->shm_only);
  gst_base_sink_set_sync(sink, FALSE);
  // async stays true. With async=false a bin that changes state again while it starts (decodebin does) forgets that it
  // was PLAYING, and the end of a short file is never posted: filesrc ! decodebin ! fakesink async=false hangs the same
  // way.
  gst_base_sink_set_last_sample_enabled(sink, FALSE);  // it would pin a slot
  gst_base_sink_set_processing_deadline(sink, 0);
  gst_base_sink_set_drop_out_of_segment(sink, FALSE);  // a decoder behind the lane needs them
}

GType base_type() {
  static const GType type =
      g_type_register_static_simple(GST_TYPE_BASE_SINK, "GstLaneBaseSink", sizeof(SinkClass), base_class_init,
                                    sizeof(SinkInstance), base_instance_init, G_TYPE_FLAG_ABSTRACT);
  return type;
}

void class_init(gpointer klass, gpointer shm_only) {
  static_cast<SinkClass*>(klass)->shm_only = GPOINTER_TO_INT(shm_only);
  const bool shm = shm_only != nullptr;
  gst_element_class_set_static_metadata(
      GST_ELEMENT_CLASS(klass), shm ? "Shared-memory ring sink" : "Lane sink", "Sink/Network",
      shm ? "Sends frames to other processes of this machine through a shared-memory ring, never by another way. "
            "Otherwise as lanesink: each frame is written once and read by up to 32 shmringsrc or lanesrc; either side "
            "may start first"
          : "Sends frames to other processes through a lane, over the best transport that both sides have. Upstream "
            "writes into shared memory where it takes the pool or allocator that it is offered; up to 32 lanesrc read "
            "each frame where it lies. Either side may start first; caps, segment, tags and timestamps travel along. "
            "When a consumer falls behind by more than burst, leaky decides",
      kAuthor);
}

void uri_init(gpointer iface, gpointer) {
  auto* const handler = static_cast<GstURIHandlerInterface*>(iface);
  handler->get_type = [](GType) { return GST_URI_SINK; };
  handler->get_protocols = uri_protocols;
  handler->get_uri = [](GstURIHandler* element) { return uri_of(LaneSink::of(element).lane()); };
  handler->set_uri = [](GstURIHandler* element, const gchar* uri, GError**) -> gboolean {
    LaneSink::of(element).set_lane(uri);
    return TRUE;
  };
}

GType final_type(const char* name, bool shm_only) {
  const GTypeInfo info = {
      sizeof(SinkClass),    nullptr, nullptr, class_init, nullptr, GINT_TO_POINTER(shm_only ? 1 : 0),
      sizeof(SinkInstance), 0,       nullptr, nullptr};
  return g_type_register_static(base_type(), name, &info, static_cast<GTypeFlags>(0));
}

}  // namespace

LaneSink& LaneSink::of(void* object) { return *static_cast<SinkInstance*>(object)->impl; }

bool register_sinks(GstPlugin* plugin) {
  static const GType lane = final_type("GstLaneSink", false);
  static const GType ring = final_type("GstShmRingSink", true);
  // The look-up by URI takes the first handler whatever its rank, so there must be only one.
  static const GInterfaceInfo uri = {uri_init, nullptr, nullptr};
  g_type_add_interface_static(lane, GST_TYPE_URI_HANDLER, &uri);
  return gst_element_register(plugin, "lanesink", GST_RANK_NONE, lane) &&
         gst_element_register(plugin, "shmringsink", GST_RANK_NONE, ring);
}

}  // namespace framelane::gst
