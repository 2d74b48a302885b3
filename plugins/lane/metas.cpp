// SPDX-License-Identifier: MIT
#include "lane/metas.hpp"

#include <algorithm>
#include <numeric>

#define GST_CAT_DEFAULT lane_debug
#include "lane/debug.hpp"
#include "lane/texts.hpp"

namespace framelane::gst {
namespace {

// Metas that speak of the producer's own memory: nothing is lost without them.
bool stays_at_home(GType api) { return api == GST_PARENT_BUFFER_META_API_TYPE; }

#if GST_CHECK_VERSION(1, 24, 0)
// Metas with a record of their own, or none: the text form of GStreamer 1.24 must not bring them past our checks.
bool has_own_record(GType api) {
  return api == GST_VIDEO_META_API_TYPE || api == GST_AUDIO_META_API_TYPE || api == GST_VIDEO_CROP_META_API_TYPE ||
         api == GST_REFERENCE_TIMESTAMP_META_API_TYPE || stays_at_home(api);
}
#endif

tl::unexpected<Error> broken(const char* record) {
  return fail(Code::kProtocol, std::string("the producer sent side data whose record \"") + record + "\" can't be");
}

std::string name_in(SideFields& fields) {
  const auto length = fields.get<std::uint32_t>();
  return std::string(fields.text(length));
}

}  // namespace

// --- the producer's end

std::span<const std::byte> MetaSender::write(GstBuffer* buffer, const Payload& payload) {
  writer_.clear();
  if (payload.as_it_is && gst_buffer_n_memory(buffer) > 1) write_memories(buffer, payload.size);
  gpointer state = nullptr;
  while (GstMeta* const meta = gst_buffer_iterate_meta(buffer, &state)) write_meta(buffer, meta, payload);
  return writer_.bytes();
}

void MetaSender::write_memories(GstBuffer* buffer, gsize size) {
  if (gst_buffer_get_size(buffer) != size) return;  // less than all of it is sent
  writer_.begin(SideKind::kMemories);
  for (guint i = 0; i < gst_buffer_n_memory(buffer); ++i) {
    writer_.put(static_cast<std::uint32_t>(gst_memory_get_sizes(gst_buffer_peek_memory(buffer, i), nullptr, nullptr)));
  }
  end("memory boundaries");
}

void MetaSender::write_meta(GstBuffer* buffer, GstMeta* meta, const Payload& payload) {
  const GType api = meta->info->api;
  if (api == GST_VIDEO_META_API_TYPE) {
    const auto& video = *reinterpret_cast<GstVideoMeta*>(meta);
    if (!payload.media.is_video()) return skip("GstVideoMeta", "its caps aren't raw video");
    if (gst_buffer_get_video_meta(buffer) != &video) return skip("GstVideoMeta", "it isn't the buffer's first");
    if (video.flags == GST_VIDEO_FRAME_FLAG_NONE && video.id == 0) return;  // the layout says it all
    writer_.begin(SideKind::kVideo);
    writer_.put(static_cast<std::uint32_t>(video.flags));
    writer_.put(static_cast<std::uint32_t>(video.id));
    return end("GstVideoMeta");
  }
  if (api == GST_AUDIO_META_API_TYPE) {
    const auto& audio = *reinterpret_cast<GstAudioMeta*>(meta);
    if (payload.as_it_is && payload.media.is_planar_audio() && !is_packed(audio)) write_audio(audio);
    return;
  }
  if (api == GST_REFERENCE_TIMESTAMP_META_API_TYPE)
    return write_reference(*reinterpret_cast<GstReferenceTimestampMeta*>(meta));
  if (api == GST_VIDEO_CROP_META_API_TYPE) {
    if (payload.media.is_video() && payload.media.has_other_size(buffer)) return;  // it was cropped on its way
    const auto& crop = *reinterpret_cast<GstVideoCropMeta*>(meta);
    writer_.begin(SideKind::kCrop);
    for (const guint number : {crop.x, crop.y, crop.width, crop.height}) writer_.put(std::uint32_t{number});
    return end("GstVideoCropMeta");
  }
  if (gst_meta_info_is_custom(meta->info)) return write_custom(meta);
  if (!stays_at_home(api)) write_other(meta);
}

void MetaSender::write_audio(const GstAudioMeta& meta) {
  writer_.begin(SideKind::kAudio);
  writer_.put(std::uint64_t{meta.samples});
  for (gint i = 0; i < GST_AUDIO_INFO_CHANNELS(&meta.info); ++i) writer_.put(std::uint64_t{meta.offsets[i]});
  end("GstAudioMeta");
}

void MetaSender::write_reference(const GstReferenceTimestampMeta& meta) {
  const StringPtr text(gst_caps_to_string(meta.reference));
  writer_.begin(SideKind::kReferenceTime);
  writer_.put(std::uint64_t{meta.timestamp});
  writer_.put(std::uint64_t{meta.duration});
  writer_.put_text(text.get());
  end("GstReferenceTimestampMeta");
}

void MetaSender::write_custom(GstMeta* meta) {
  const std::string_view name = g_type_name(meta->info->type);
  const auto text = whole_text_of(gst_custom_meta_get_structure(reinterpret_cast<GstCustomMeta*>(meta)));
  if (!text) return skip(name.data(), "a field of it has no text form");
  begin_named(SideKind::kCustom, name);
  writer_.put_text(*text);
  end(name.data());
}

#if GST_CHECK_VERSION(1, 24, 0)
void MetaSender::write_other(GstMeta* meta) {
  GByteArray* const bytes = g_byte_array_new();
  const char* const name = g_type_name(meta->info->type);
  if (gst_meta_serialize_simple(meta, bytes)) {
    begin_named(SideKind::kSerialised, name);
    writer_.put_bytes(bytes->data, bytes->len);
    end(name);
  } else {
    skip(name, "its type doesn't serialise");
  }
  g_byte_array_unref(bytes);
}
#else
void MetaSender::write_other(GstMeta* meta) {
  skip(g_type_name(meta->info->type), "its type doesn't serialise with this version of GStreamer");
}
#endif

void MetaSender::begin_named(SideKind kind, std::string_view name) {
  writer_.begin(kind);
  writer_.put(static_cast<std::uint32_t>(name.size()));
  writer_.put_text(name);
}

void MetaSender::end(const char* name) {
  if (!writer_.end()) skip(name, "the side data would be more than max-side-data; raise it");
}

void MetaSender::skip(const char* name, const char* why) {
  skipped_.fetch_add(1, std::memory_order_relaxed);
  if (is_first(std::string("sent meta ") + name))
    GST_WARNING_OBJECT(element_, "%s doesn't cross the lane: %s", name, why);
}

// --- the consumer's end

Result<void> MetaReceiver::read(std::span<const std::byte> side_data_untrusted, const Media& media, gsize size) {
  bytes_.assign(side_data_untrusted.begin(), side_data_untrusted.end());
  memories_.clear();
  video_.reset();
  audio_.reset();
  if (bytes_.empty()) return {};
  if (!SideReader::is_ours(bytes_)) {
    bytes_.clear();
    skip("side data of an application", "only elements' is known");
    return {};
  }
  SideReader records(bytes_);
  for (;;) {
    const auto record = records.next();
    if (!record) return tl::unexpected(record.error());
    if (!*record) return {};
    if (auto done = read_record(**record, media, size); !done) return done;
  }
}

Result<void> MetaReceiver::read_record(const SideRecord& record, const Media& media, gsize size) {
  SideFields fields(record.content);
  if (record.kind == SideKind::kMemories) {
    memories_.resize(std::min<std::size_t>(fields.left() / sizeof(std::uint32_t), gst_buffer_get_max_memory() + 1));
    for (gsize& memory : memories_) memory = fields.get<std::uint32_t>();
    const guint64 sum = std::accumulate(memories_.begin(), memories_.end(), guint64{0});
    if (fields.left() != 0 || sum != size || memories_.size() > gst_buffer_get_max_memory()) return broken("memories");
  } else if (record.kind == SideKind::kVideo) {
    const auto flags = fields.get<std::uint32_t>();
    const auto id = fields.get<std::uint32_t>();
    if (!fields.ok()) return broken("video");
    video_ = Video{static_cast<GstVideoFrameFlags>(flags), static_cast<gint>(id)};
  } else if (record.kind == SideKind::kAudio) {
    AudioLayout layout;
    layout.samples = static_cast<gsize>(fields.get<std::uint64_t>());
    while (fields.left() >= sizeof(std::uint64_t)) {
      layout.offsets.push_back(static_cast<gsize>(fields.get<std::uint64_t>()));
    }
    if (!fields.ok() || !media.is_planar_audio() || !media.fits(layout, size)) return broken("audio");
    audio_ = std::move(layout);
  }
  return {};
}

Result<void> MetaReceiver::add_others(GstBuffer* buffer) {
  SideReader records(bytes_);
  for (;;) {
    const auto record = records.next();
    if (!record) return tl::unexpected(record.error());
    if (!*record) return {};
    if (auto done = add_record(buffer, **record); !done) return done;
  }
}

Result<void> MetaReceiver::add_record(GstBuffer* buffer, const SideRecord& record) {
  SideFields fields(record.content);
  switch (record.kind) {
    case SideKind::kReferenceTime: {
      const auto timestamp = fields.get<std::uint64_t>();
      const auto duration = fields.get<std::uint64_t>();
      const CapsPtr reference = caps_of(std::string(fields.text(fields.left())));
      if (!fields.ok() || reference == nullptr || timestamp == GST_CLOCK_TIME_NONE) return broken("reference time");
      gst_buffer_add_reference_timestamp_meta(buffer, reference.get(), timestamp, duration);
      return {};
    }
    case SideKind::kCrop: {
      std::array<guint, 4> numbers{};
      for (guint& number : numbers) number = fields.get<std::uint32_t>();
      if (!fields.ok()) return broken("crop");
      GstVideoCropMeta* const crop = gst_buffer_add_video_crop_meta(buffer);
      crop->x = numbers[0];
      crop->y = numbers[1];
      crop->width = numbers[2];
      crop->height = numbers[3];
      return {};
    }
    case SideKind::kCustom:
      return add_custom(buffer, fields);
    case SideKind::kSerialised:
      return add_serialised(buffer, fields);
    default:
      return {};
  }
}

Result<void> MetaReceiver::add_custom(GstBuffer* buffer, SideFields fields) {
  const std::string name = name_in(fields);
  const std::string text(fields.text(fields.left()));
  const StructurePtr structure = fields.ok() ? structure_of(text) : nullptr;
  if (structure == nullptr) return broken("custom meta");
  const GstMetaInfo* const info = gst_meta_get_info(name.c_str());
  if (info == nullptr || !gst_meta_info_is_custom(info)) {
    skip(name, "nobody called gst_meta_register_custom() for it in this process");
    return {};
  }
  GstCustomMeta* const meta = gst_buffer_add_custom_meta(buffer, name.c_str());
  if (meta == nullptr) return {};
  GstStructure* const into = gst_custom_meta_get_structure(meta);
  gst_structure_foreach(
      structure.get(),
      [](GQuark field, const GValue* value, gpointer target) -> gboolean {
        gst_structure_id_set_value(static_cast<GstStructure*>(target), field, value);
        return TRUE;
      },
      into);
  return {};
}

#if GST_CHECK_VERSION(1, 24, 0)
Result<void> MetaReceiver::add_serialised(GstBuffer* buffer, SideFields fields) {
  const std::string name = name_in(fields);
  const std::string_view bytes = fields.text(fields.left());
  if (!fields.ok()) return broken("serialised meta");
  const GstMetaInfo* const info = gst_meta_get_info(name.c_str());
  guint32 consumed = 0;
  GstMeta* const meta =
      info == nullptr || has_own_record(info->api)
          ? nullptr
          : gst_meta_deserialize(buffer, reinterpret_cast<const guint8*>(bytes.data()), bytes.size(), &consumed);
  if (meta == nullptr) skip(name, "its type isn't known in this process, or its version can't be read");
  // The bytes have a name of their own, which may be another one.
  if (meta != nullptr && has_own_record(meta->info->api)) gst_buffer_remove_meta(buffer, meta);
  return {};
}
#else
Result<void> MetaReceiver::add_serialised(GstBuffer*, SideFields fields) {
  const std::string name = name_in(fields);
  if (!fields.ok()) return broken("serialised meta");
  skip(name, "it takes GStreamer 1.24 or later to read it");
  return {};
}
#endif

void MetaReceiver::skip(const std::string& name, const char* why) {
  skipped_.fetch_add(1, std::memory_order_relaxed);
  if (is_first("received meta " + name))
    GST_WARNING_OBJECT(element_, "%s of the lane's frames is left out: %s", name.c_str(), why);
}

}  // namespace framelane::gst
