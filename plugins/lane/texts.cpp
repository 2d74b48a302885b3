// SPDX-License-Identifier: MIT
#include "lane/texts.hpp"

#include <mutex>
#include <set>
#include <utility>
#include <vector>

#define GST_CAT_DEFAULT lane_debug
#include "lane/debug.hpp"

namespace framelane::gst {
namespace {

/// GStreamer's parser tries each open bracket as several things, so its time doubles with each that is never closed.
/// Brackets in quoted strings are no brackets.
bool is_shallow(const std::string& text_untrusted) noexcept {
  constexpr int kMostOpen = 10;
  int open = 0;
  bool quoted = false;
  for (std::size_t i = 0; i < text_untrusted.size(); ++i) {
    const char c = text_untrusted[i];
    if (c == '\\') {
      ++i;  // what follows stands for itself
    } else if (c == '"') {
      quoted = !quoted;
    } else if (!quoted && (c == '[' || c == '{' || c == '<')) {
      if (++open > kMostOpen) return false;
    } else if (!quoted && (c == ']' || c == '}' || c == '>') && open > 0) {
      --open;
    }
  }
  return !quoted;
}

constexpr guint kDeepestEntry = 64;

/// Whether a value can be written, and read back: an object is written as its name.
bool crosses(const GValue* value) {
  if (const StringPtr text(gst_value_serialize(value)); text == nullptr) return false;
  const StructurePtr alone(gst_structure_new_empty("alone"));
  gst_structure_set_value(alone.get(), "value", value);
  const StringPtr text(gst_structure_to_string(alone.get()));
  const StructurePtr read = structure_of(text.get());
  return read != nullptr && gst_structure_has_field_typed(read.get(), "value", G_VALUE_TYPE(value)) != FALSE;
}

gboolean has_text(GQuark field, GValue* value, gpointer structure) {
  if (crosses(value)) return TRUE;
  const std::string name =
      std::string(gst_structure_get_name(static_cast<GstStructure*>(structure))) + "." + g_quark_to_string(field);
  if (is_first(name)) {
    GST_WARNING("field %s (%s) doesn't cross the lane: it has no text form", name.c_str(), G_VALUE_TYPE_NAME(value));
  }
  return FALSE;
}

// --- table of contents: a structure with a flat list of entries, each with its depth, so that nothing nests and
// quotation marks don't multiply

void add_entry(GValue* list, GstTocEntry* entry, guint depth) {
  gint64 start = GST_CLOCK_STIME_NONE;
  gint64 stop = GST_CLOCK_STIME_NONE;
  GstTocLoopType loop = GST_TOC_LOOP_NONE;
  gint repeat = 0;
  gst_toc_entry_get_start_stop_times(entry, &start, &stop);
  gst_toc_entry_get_loop(entry, &loop, &repeat);
  GstStructure* const made = gst_structure_new(
      "entry", "depth", G_TYPE_UINT, depth, "type", G_TYPE_INT, static_cast<gint>(gst_toc_entry_get_entry_type(entry)),
      "uid", G_TYPE_STRING, gst_toc_entry_get_uid(entry), "start", G_TYPE_INT64, start, "stop", G_TYPE_INT64, stop,
      "loop", G_TYPE_INT, static_cast<gint>(loop), "repeat", G_TYPE_INT, repeat, nullptr);
  const GstTagList* const tags = gst_toc_entry_get_tags(entry);
  if (const auto text = tags == nullptr ? std::nullopt : text_of(tags))
    gst_structure_set(made, "tags", G_TYPE_STRING, text->c_str(), nullptr);
  GValue item = G_VALUE_INIT;
  g_value_init(&item, GST_TYPE_STRUCTURE);
  g_value_take_boxed(&item, made);
  gst_value_list_append_and_take_value(list, &item);
  if (depth == kDeepestEntry) return;
  for (GList* sub = gst_toc_entry_get_sub_entries(entry); sub != nullptr; sub = sub->next)
    add_entry(list, static_cast<GstTocEntry*>(sub->data), depth + 1);
}

bool is_entry_type(gint type) {
  return type >= GST_TOC_ENTRY_TYPE_ANGLE && type <= GST_TOC_ENTRY_TYPE_CHAPTER && type != GST_TOC_ENTRY_TYPE_INVALID;
}

/// Null if it isn't one.
GstTocEntry* entry_of(const GstStructure* text_untrusted, guint& depth) {
  gint type = 0;
  gint loop = 0;
  gint repeat = 0;
  gint64 start = 0;
  gint64 stop = 0;
  const char* const uid = gst_structure_get_string(text_untrusted, "uid");
  const bool all = gst_structure_get(text_untrusted, "depth", G_TYPE_UINT, &depth, "type", G_TYPE_INT, &type, "start",
                                     G_TYPE_INT64, &start, "stop", G_TYPE_INT64, &stop, "loop", G_TYPE_INT, &loop,
                                     "repeat", G_TYPE_INT, &repeat, nullptr) != FALSE;
  if (!all || uid == nullptr || !is_entry_type(type)) return nullptr;
  GstTocEntry* const entry = gst_toc_entry_new(static_cast<GstTocEntryType>(type), uid);
  gst_toc_entry_set_start_stop_times(entry, start, stop);
  gst_toc_entry_set_loop(entry, static_cast<GstTocLoopType>(loop), repeat);
  if (const char* const tags = gst_structure_get_string(text_untrusted, "tags")) {
    if (GstTagList* const read = tags_of(tags)) gst_toc_entry_set_tags(entry, read);
  }
  return entry;
}

/// Hangs the entries into each other. False: the list can't be.
bool fill(GstToc* toc, const GValue* list) {
  std::vector<GstTocEntry*> path;  // the last entry of each depth
  for (guint i = 0; i < gst_value_list_get_size(list); ++i) {
    const GValue* const item = gst_value_list_get_value(list, i);
    guint depth = 0;
    GstTocEntry* const entry =
        GST_VALUE_HOLDS_STRUCTURE(item) ? entry_of(gst_value_get_structure(item), depth) : nullptr;
    if (entry == nullptr) return false;
    if (depth > path.size() || depth > kDeepestEntry) {
      gst_mini_object_unref(GST_MINI_OBJECT_CAST(entry));
      return false;
    }
    path.resize(depth);
    if (depth == 0) {
      gst_toc_append_entry(toc, entry);
    } else {
      gst_toc_entry_append_sub_entry(path.back(), entry);
    }
    path.push_back(entry);
  }
  return true;
}

}  // namespace

bool is_first(const std::string& what) {
  constexpr std::size_t kMost = 256;  // names come from applications; after that, silence
  static std::mutex mutex;
  static std::set<std::string> seen;
  const std::lock_guard lock(mutex);
  return seen.size() < kMost && seen.insert(what).second;
}

std::optional<std::string> text_of(const GstStructure* structure) {
  const StructurePtr copy(gst_structure_copy(structure));
  gst_structure_filter_and_map_in_place(copy.get(), has_text, copy.get());
  return whole_text_of(copy.get());
}

std::optional<std::string> whole_text_of(const GstStructure* structure) {
  // Fields without a text form are written as NULL; what can't be read here can't be read there either.
  const StringPtr text(structure == nullptr ? nullptr : gst_structure_to_string(structure));
  if (text == nullptr || structure_of(text.get()) == nullptr) return std::nullopt;
  return text.get();
}

StructurePtr structure_of(const std::string& text_untrusted) {
  if (!is_shallow(text_untrusted)) return nullptr;
  return StructurePtr(gst_structure_from_string(text_untrusted.c_str(), nullptr));
}

CapsPtr caps_of(const std::string& text_untrusted) {
  return CapsPtr(is_shallow(text_untrusted) ? gst_caps_from_string(text_untrusted.c_str()) : nullptr);
}

std::optional<std::string> text_of(const GstTagList* tags) {
  const StringPtr all(gst_tag_list_to_string(tags));
  if (GstTagList* const read = all == nullptr ? nullptr : tags_of(all.get())) {
    gst_tag_list_unref(read);
    return all.get();
  }
  // One that has no text form spoils them all: without it, then.
  GstTagList* const kept = gst_tag_list_new_empty();
  for (gint i = 0; i < gst_tag_list_n_tags(tags); ++i) {
    const char* const name = gst_tag_list_nth_tag_name(tags, i);
    for (guint k = 0; k < gst_tag_list_get_tag_size(tags, name); ++k) {
      const GValue* const value = gst_tag_list_get_value_index(tags, name, k);
      if (crosses(value)) {
        gst_tag_list_add_value(kept, GST_TAG_MERGE_APPEND, name, value);
      } else if (is_first(std::string("tag ") + name)) {
        GST_WARNING("tag %s doesn't cross the lane: it has no text form", name);
      }
    }
  }
  const StringPtr text(gst_tag_list_to_string(kept));
  gst_tag_list_unref(kept);
  return text == nullptr ? std::nullopt : std::optional<std::string>(text.get());
}

GstTagList* tags_of(const std::string& text_untrusted) {
  // GStreamer asserts on the prefix instead of failing.
  return text_untrusted.starts_with("taglist") && is_shallow(text_untrusted)
             ? gst_tag_list_new_from_string(text_untrusted.c_str())
             : nullptr;
}

std::string text_of(GstToc* toc, bool updated) {
  const StructurePtr made(gst_structure_new("framelane-toc", "scope", G_TYPE_INT,
                                            static_cast<gint>(gst_toc_get_scope(toc)), "updated", G_TYPE_BOOLEAN,
                                            gboolean{updated}, nullptr));
  const GstTagList* const tags = gst_toc_get_tags(toc);
  if (const auto text = tags == nullptr ? std::nullopt : text_of(tags))
    gst_structure_set(made.get(), "tags", G_TYPE_STRING, text->c_str(), nullptr);
  GValue list = G_VALUE_INIT;
  g_value_init(&list, GST_TYPE_LIST);
  for (GList* entry = gst_toc_get_entries(toc); entry != nullptr; entry = entry->next)
    add_entry(&list, static_cast<GstTocEntry*>(entry->data), 0);
  gst_structure_take_value(made.get(), "entries", &list);
  const StringPtr text(gst_structure_to_string(made.get()));
  return text.get();
}

Result<EventPtr> toc_event(const std::string& text_untrusted) {
  const auto broken = [] { return fail(Code::kProtocol, "the producer sent a table of contents that can't be read"); };
  const StructurePtr read = structure_of(text_untrusted);
  gint scope = 0;
  gboolean updated = FALSE;
  if (read == nullptr ||
      !gst_structure_get(read.get(), "scope", G_TYPE_INT, &scope, "updated", G_TYPE_BOOLEAN, &updated, nullptr))
    return broken();
  if (scope != GST_TOC_SCOPE_GLOBAL && scope != GST_TOC_SCOPE_CURRENT) return broken();
  GstToc* const toc = gst_toc_new(static_cast<GstTocScope>(scope));
  if (const char* const tags = gst_structure_get_string(read.get(), "tags")) {
    if (GstTagList* const list = tags_of(tags)) gst_toc_set_tags(toc, list);
  }
  const GValue* const entries = gst_structure_get_value(read.get(), "entries");
  const bool fine = entries == nullptr || (GST_VALUE_HOLDS_LIST(entries) && fill(toc, entries));
  EventPtr event(fine ? gst_event_new_toc(toc, updated) : nullptr);
  gst_mini_object_unref(GST_MINI_OBJECT_CAST(toc));
  if (event == nullptr) return broken();
  return event;
}

}  // namespace framelane::gst
