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
/**
 * SECTION:element-udslanesink
 * @title: udslanesink
 * @short_description: lanesink that uses Unix domain sockets and nothing else
 *
 * |[
 * gst-launch-1.0 videotestsrc is-live=true ! udslanesink lane=cam0
 * gst-launch-1.0 videotestsrc is-live=true ! jpegenc ! udslanesink lane=lane.uds:///run/cams/cam0
 * ]|
 */

/**
 * SECTION:element-tcplanesink
 * @title: tcplanesink
 * @short_description: lanesink that uses TCP and nothing else
 *
 * |[
 * gst-launch-1.0 videotestsrc is-live=true ! jpegenc ! tcplanesink lane=cam0 port=7411
 * gst-launch-1.0 videotestsrc is-live=true ! jpegenc ! tcplanesink lane=cam0 host=192.0.2.7 psk-file=cam0.key
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
  object_class->finalize = finalize;
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
  reinterpret_cast<SinkInstance*>(instance)->impl =
      new LaneSink(sink, static_cast<SinkClass*>(klass)->variant->transport);
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

constexpr Variant kSinks[] = {
    {"lanesink", "GstLaneSink", Transport::kAuto, "Lane sink",
     "Sends frames to other processes through a lane, over the best transport that both sides have. Upstream writes "
     "into "
     "shared memory where it takes the pool or allocator that it is offered; up to 32 lanesrc read each frame where it "
     "lies. Either side may start first; caps, segment, tags and timestamps travel along. When a consumer falls behind "
     "by more than burst, leaky decides"},
    {"shmringsink", "GstShmRingSink", Transport::kShm, "Shared-memory ring sink",
     "Sends frames to other processes of this machine through a shared-memory ring, never by another way. Otherwise as "
     "lanesink: each frame is written once and read by up to 32 shmringsrc or lanesrc; either side may start first"},
    {"udslanesink", "GstUdsLaneSink", Transport::kUds, "Unix domain socket lane sink",
     "Sends frames to other processes of this machine over Unix domain sockets, never by another way: for consumers "
     "that "
     "may not map shared memory. Otherwise as lanesink: up to 32 udslanesrc or lanesrc; either side may start first"},
    {"tcplanesink", "GstTcpLaneSink", Transport::kTcp, "TCP lane sink",
     "Sends frames to other machines over TCP, never by another way. Serves loopback unless host says otherwise; then "
     "it "
     "needs psk-file (TLS 1.3) or insecure=true. Otherwise as lanesink: up to 32 tcplanesrc or lanesrc; either side "
     "may "
     "start first"},
};

void class_init(gpointer klass, gpointer data) {
  const auto* const variant = static_cast<const Variant*>(data);
  static_cast<SinkClass*>(klass)->variant = variant;
  GObjectClass* const object_class = G_OBJECT_CLASS(klass);
  object_class->set_property = Thunk<&LaneSink::set_property>::call;  // GObject inherits neither
  object_class->get_property = Thunk<&LaneSink::get_property>::call;
  install_properties(object_class, LaneSink::properties(variant->transport));
  gst_element_class_set_static_metadata(GST_ELEMENT_CLASS(klass), variant->long_name, "Sink/Network",
                                        variant->description, kAuthor);
}

void uri_init(gpointer iface, gpointer) {
  auto* const handler = static_cast<GstURIHandlerInterface*>(iface);
  handler->get_type = [](GType) { return GST_URI_SINK; };
  handler->get_protocols = uri_protocols;
  handler->get_uri = [](GstURIHandler* element) { return uri_of(LaneSink::of(element).lane()); };
  handler->set_uri = [](GstURIHandler* element, const gchar* uri, GError** error) -> gboolean {
    if (!check_uri(GST_ELEMENT_CAST(element), uri, descriptor::Side::kProducer, error)) return FALSE;
    LaneSink::of(element).set_lane(uri);
    g_object_notify(G_OBJECT(element), "lane");
    return TRUE;
  };
}

GType final_type(const Variant& variant) {
  const GTypeInfo info = {sizeof(SinkClass),    nullptr, nullptr, class_init, nullptr, &variant,
                          sizeof(SinkInstance), 0,       nullptr, nullptr};
  return g_type_register_static(base_type(), variant.type, &info, static_cast<GTypeFlags>(0));
}

}  // namespace

LaneSink& LaneSink::of(void* object) { return *static_cast<SinkInstance*>(object)->impl; }

bool register_sinks(GstPlugin* plugin) { return register_all(plugin, kSinks, final_type, uri_init); }

}  // namespace framelane::gst
