// SPDX-License-Identifier: MIT
#pragma once

#include <optional>
#include <string>

#include <gst/gst.h>

#include "framelane/base/result.hpp"

#include "lane/gst_ptr.hpp"

// What events carry as text, both directions. Fields that have no text form (pointers, objects) stay behind; each kind
// is logged once.
namespace framelane::gst {

/// True the first time that this is asked of `what`: for the log.
[[nodiscard]] bool is_first(const std::string& what);

/// Empty if even what has a text form can't be read back.
[[nodiscard]] std::optional<std::string> text_of(const GstStructure* structure);
/// All of it, or empty when a field has no text form.
[[nodiscard]] std::optional<std::string> whole_text_of(const GstStructure* structure);
/// Null if it isn't one.
[[nodiscard]] StructurePtr structure_of(const std::string& text_untrusted);
/// The same for caps; null for one that can't be read.
[[nodiscard]] CapsPtr caps_of(const std::string& text_untrusted);

[[nodiscard]] std::optional<std::string> text_of(const GstTagList* tags);
/// Transfer full; null if they can't be read.
[[nodiscard]] GstTagList* tags_of(const std::string& text_untrusted);

[[nodiscard]] std::string text_of(GstToc* toc, bool updated);
/// A TOC event. Errors: kProtocol.
[[nodiscard]] Result<EventPtr> toc_event(const std::string& text_untrusted);

}  // namespace framelane::gst
