// SPDX-License-Identifier: MIT
#include <gst/base/gstpushsrc.h>

#include "lane/elements.hpp"
#include "lane/glue.hpp"
#include "lane/lane_src.hpp"
#include "lane/thunk.hpp"

/**
 * SECTION:element-lanesrc
 * @title: lanesrc
 * @short_description: receives the frames of a lane
 *
 * Frames are read where the producer wrote them, read-only. Caps, segment, tags and timestamps are the producer's; no
 * caps need to be typed. Either side may start first, and a producer that comes back is found again.
 *
 * |[
 * gst-launch-1.0 lanesrc lane=cam0 ! videoconvert ! autovideosink
 * gst-launch-1.0 lanesrc lane=film ! videoconvert ! x264enc ! mp4mux ! filesink location=film.mp4 -e
 * ]|
 */

/**
 * SECTION:element-shmringsrc
 * @title: shmringsrc
 * @short_description: lanesrc that uses shared memory and nothing else
 *
 * |[
 * gst-launch-1.0 shmringsrc lane=tone ! audioconvert ! autoaudiosink
 * gst-launch-1.0 shmringsrc lane=cam0 mode=latest ! videoconvert ! autovideosink
 * ]|
 */
/**
 * SECTION:element-udslanesrc
 * @title: udslanesrc
 * @short_description: lanesrc that uses Unix domain sockets and nothing else
 *
 * |[
 * gst-launch-1.0 udslanesrc lane=cam0 ! videoconvert ! autovideosink
 * gst-launch-1.0 udslanesrc lane=lane.uds:///run/cams/cam0 ! jpegdec ! videoconvert ! autovideosink
 * ]|
 */

/**
 * SECTION:element-tcplanesrc
 * @title: tcplanesrc
 * @short_description: lanesrc that uses TCP and nothing else
 *
 * |[
 * gst-launch-1.0 tcplanesrc lane=cam0 port=7411 ! jpegdec ! videoconvert ! autovideosink
 * gst-launch-1.0 tcplanesrc lane=cam0 host=192.0.2.7 psk-file=cam0.key ! jpegdec ! videoconvert ! autovideosink
 * ]|
 */
namespace framelane::gst {
namespace {

using SrcInstance = Instance<GstPushSrc, LaneSrc>;
using SrcClass = Class<GstPushSrcClass>;

GstStaticPadTemplate pad_template = GST_STATIC_PAD_TEMPLATE("src", GST_PAD_SRC, GST_PAD_ALWAYS, GST_STATIC_CAPS_ANY);

void finalize(GObject* object) {
  delete reinterpret_cast<SrcInstance*>(object)->impl;
  G_OBJECT_CLASS(g_type_class_peek(GST_TYPE_PUSH_SRC))->finalize(object);
}

void base_class_init(gpointer klass, gpointer) {
  GObjectClass* const object_class = G_OBJECT_CLASS(klass);
  object_class->finalize = finalize;

  GstElementClass* const element_class = GST_ELEMENT_CLASS(klass);
  element_class->change_state = Thunk<&LaneSrc::change_state>::call;
  element_class->send_event = Thunk<&LaneSrc::send_event>::call;
  gst_element_class_add_static_pad_template(element_class, &pad_template);

  GstBaseSrcClass* const src_class = GST_BASE_SRC_CLASS(klass);
  src_class->create = Thunk<&LaneSrc::create>::call;
  src_class->negotiate = Thunk<&LaneSrc::negotiate>::call;
  src_class->decide_allocation = Thunk<&LaneSrc::decide_allocation>::call;
  src_class->get_caps = Thunk<&LaneSrc::get_caps>::call;
  src_class->event = Thunk<&LaneSrc::event>::call;
  src_class->query = Thunk<&LaneSrc::query>::call;
  src_class->unlock = Thunk<&LaneSrc::unlock>::call;
  src_class->unlock_stop = Thunk<&LaneSrc::unlock_stop>::call;
}

void base_instance_init(GTypeInstance* instance, gpointer klass) {
  auto* const self = reinterpret_cast<SrcInstance*>(instance);
  self->impl = new LaneSrc(GST_BASE_SRC(instance), static_cast<SrcClass*>(klass)->variant->transport);
}

GType base_type() {
  static const GType type =
      g_type_register_static_simple(GST_TYPE_PUSH_SRC, "GstLaneBaseSrc", sizeof(SrcClass), base_class_init,
                                    sizeof(SrcInstance), base_instance_init, G_TYPE_FLAG_ABSTRACT);
  return type;
}

constexpr Variant kSources[] = {
    {"lanesrc", "GstLaneSrc", Transport::kAuto, "Lane source",
     "Receives frames from another process through a lane, over the best transport that both sides have. Buffers are "
     "read-only; over shared memory they lie where the producer wrote them. Caps, segment, tags and timestamps are the "
     "producer's, moved into this pipeline's time as timestamp-mode says. Either side may start first, and a producer "
     "that comes back is found again"},
    {"shmringsrc", "GstShmRingSrc", Transport::kShm, "Shared-memory ring source",
     "Receives frames from another process of this machine through a shared-memory ring, never by another way. "
     "Otherwise as lanesrc: read-only buffers, caps from the producer, and a producer that comes back is found"},
    {"udslanesrc", "GstUdsLaneSrc", Transport::kUds, "Unix domain socket lane source",
     "Receives frames from another process of this machine over a Unix domain socket, never by another way: where "
     "shared "
     "memory may not be mapped. Otherwise as lanesrc: caps from the producer, and a producer that comes back is found"},
    {"tcplanesrc", "GstTcpLaneSrc", Transport::kTcp, "TCP lane source",
     "Receives frames from another machine over TCP, never by another way; with psk-file encrypted by TLS 1.3. "
     "Otherwise "
     "as lanesrc: caps from the producer, and a producer that comes back is found"},
};

void class_init(gpointer klass, gpointer data) {
  const auto* const variant = static_cast<const Variant*>(data);
  static_cast<SrcClass*>(klass)->variant = variant;
  GObjectClass* const object_class = G_OBJECT_CLASS(klass);
  object_class->set_property = Thunk<&LaneSrc::set_property>::call;  // GObject inherits neither
  object_class->get_property = Thunk<&LaneSrc::get_property>::call;
  install_properties(object_class, LaneSrc::properties(variant->transport));
  gst_element_class_set_static_metadata(GST_ELEMENT_CLASS(klass), variant->long_name, "Source/Network",
                                        variant->description, kAuthor);
}

void uri_init(gpointer iface, gpointer) {
  auto* const handler = static_cast<GstURIHandlerInterface*>(iface);
  handler->get_type = [](GType) { return GST_URI_SRC; };
  handler->get_protocols = uri_protocols;
  handler->get_uri = [](GstURIHandler* element) { return uri_of(LaneSrc::of(element).lane()); };
  handler->set_uri = [](GstURIHandler* element, const gchar* uri, GError** error) -> gboolean {
    if (!check_uri(GST_ELEMENT_CAST(element), uri, descriptor::Side::kConsumer, error)) return FALSE;
    LaneSrc::of(element).set_lane(uri);
    g_object_notify(G_OBJECT(element), "lane");
    return TRUE;
  };
}

GType final_type(const Variant& variant) {
  const GTypeInfo info = {sizeof(SrcClass),    nullptr, nullptr, class_init, nullptr, &variant,
                          sizeof(SrcInstance), 0,       nullptr, nullptr};
  return g_type_register_static(base_type(), variant.type, &info, static_cast<GTypeFlags>(0));
}

}  // namespace

LaneSrc& LaneSrc::of(void* object) { return *static_cast<SrcInstance*>(object)->impl; }

bool register_sources(GstPlugin* plugin) { return register_all(plugin, kSources, final_type, uri_init); }

}  // namespace framelane::gst
