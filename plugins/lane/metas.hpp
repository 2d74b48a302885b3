// SPDX-License-Identifier: MIT
#pragma once

#include <atomic>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <gst/gst.h>

#include "framelane/base/result.hpp"

#include "lane/media.hpp"
#include "lane/side_data.hpp"

// What a buffer carries beside its bytes, times and flags, in the side data of a frame, both directions.
namespace framelane::gst {

/// The producer's end. One thread, but for skipped().
class MetaSender {
 public:
  /// What crosses in at most `room` bytes.
  MetaSender(GstElement* element, std::size_t room) : element_(element), writer_(room) {}

  /// How the payload lies in the lane.
  struct Payload {
    const Media& media;
    gsize size;
    bool as_it_is;  ///< as in the buffer, so that what the metas say of places in it holds
  };
  /// The side data of a buffer; empty when it needs none. Valid until the next call.
  [[nodiscard]] std::span<const std::byte> write(GstBuffer* buffer, const Payload& payload);
  /// Metas that didn't cross, so far.
  [[nodiscard]] std::uint64_t skipped() const noexcept { return skipped_.load(std::memory_order_relaxed); }

 private:
  void write_memories(GstBuffer* buffer, gsize size);
  void write_meta(GstBuffer* buffer, GstMeta* meta, const Payload& payload);
  void write_audio(const GstAudioMeta& meta);
  void write_reference(const GstReferenceTimestampMeta& meta);
  void write_custom(GstMeta* meta);
  void write_other(GstMeta* meta);
  void begin_named(SideKind kind, std::string_view name);
  void end(const char* name);
  void skip(const char* name, const char* why);

  GstElement* const element_;
  SideWriter writer_;
  std::atomic<std::uint64_t> skipped_{0};
};

/// The consumer's end. One thread, but for skipped().
class MetaReceiver {
 public:
  explicit MetaReceiver(GstElement* element) : element_(element) {}

  struct Video {
    GstVideoFrameFlags flags;
    gint id;
  };

  /// Reads what a frame of `size` bytes has; everything of an earlier frame is forgotten.
  /// Errors: kProtocol (says which record can't be).
  [[nodiscard]] Result<void> read(std::span<const std::byte> side_data_untrusted, const Media& media, gsize size);

  /// Sizes of the memories that the payload was in; empty for one.
  [[nodiscard]] const std::vector<gsize>& memories() const noexcept { return memories_; }
  [[nodiscard]] const std::optional<Video>& video() const noexcept { return video_; }
  /// Where the planes of raw audio lie when not one behind the other.
  [[nodiscard]] const std::optional<AudioLayout>& audio() const noexcept { return audio_; }
  /// The metas that say nothing of places in the payload. Errors: kProtocol.
  [[nodiscard]] Result<void> add_others(GstBuffer* buffer);
  /// Metas that nobody here knows, so far.
  [[nodiscard]] std::uint64_t skipped() const noexcept { return skipped_.load(std::memory_order_relaxed); }

 private:
  [[nodiscard]] Result<void> read_record(const SideRecord& record, const Media& media, gsize size);
  [[nodiscard]] Result<void> add_record(GstBuffer* buffer, const SideRecord& record);
  [[nodiscard]] Result<void> add_custom(GstBuffer* buffer, SideFields fields);
  [[nodiscard]] Result<void> add_serialised(GstBuffer* buffer, SideFields fields);
  void skip(const std::string& name, const char* why);

  GstElement* const element_;
  std::vector<std::byte> bytes_;  // a copy: the producer can write into the shared ones at any time
  std::vector<gsize> memories_;
  std::optional<Video> video_;
  std::optional<AudioLayout> audio_;
  std::atomic<std::uint64_t> skipped_{0};
};

}  // namespace framelane::gst
