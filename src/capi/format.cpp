// SPDX-License-Identifier: MIT
// Caps as structs, so that no program needs a parser of its own.
#include <algorithm>
#include <atomic>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "framelane/format/caps.hpp"
#include "framelane/format/plane_layout.hpp"

#include "capi/handles.hpp"

struct framelane_format {
  std::atomic<std::uint32_t> refs{1};
  std::int32_t kind = FRAMELANE_FORMAT_OTHER;
  std::string caps;
  std::uint64_t frame_size = 0;
  double frame_rate = 0;
  framelane_video_format video{};
  framelane_audio_format audio{};
  std::vector<framelane_tensor> tensors;
};

namespace framelane::capi {
namespace {

using format::AudioFormat;
using format::PlaneLayout;
using format::Tensor;
using format::TensorFormat;
using format::TensorType;
using format::VideoFormat;
using Made = Result<std::unique_ptr<framelane_format>>;

std::unique_ptr<framelane_format> make(std::int32_t kind, std::string caps) {
  auto made = std::make_unique<framelane_format>();
  made->kind = kind;
  made->frame_rate = format::frame_rate(caps).value_or(0);
  made->caps = std::move(caps);
  return made;
}

Made from_video(const VideoFormat& from, std::string caps, const PlaneLayout& layout) {
  auto made = make(FRAMELANE_FORMAT_VIDEO, std::move(caps));
  framelane_video_format& to = made->video;
  to.width = from.width;
  to.height = from.height;
  to.fps_n = from.fps_n;
  to.fps_d = from.fps_d;
  copy_text(from.format, to.format);
  copy_text(from.interlace_mode, to.interlace_mode);
  const auto planes = format::planes(from, layout);
  const auto samples = from.samples();
  if (!planes && planes.error().code == Code::kProtocol) return tl::unexpected(planes.error());
  if (!planes || !samples) return made;  // a format whose planes aren't known
  to.num_planes = static_cast<std::uint32_t>(planes->size());
  for (std::size_t i = 0; i < planes->size(); ++i) {
    to.planes[i] = {(*planes)[i].offset,
                    (*planes)[i].stride,
                    (*planes)[i].rows,
                    (*samples)[i].columns,
                    (*samples)[i].channels,
                    (*samples)[i].sample_size,
                    0};
  }
  to.frame_size = made->frame_size = format::frame_size(from, layout).value_or(0);
  return made;
}

Made from_audio(const AudioFormat& from, std::string caps) {
  auto made = make(FRAMELANE_FORMAT_AUDIO, std::move(caps));
  framelane_audio_format& to = made->audio;
  to.rate = from.rate;
  to.channels = from.channels;
  to.interleaved = from.interleaved ? 1 : 0;
  to.has_channel_mask = from.channel_mask ? 1 : 0;
  to.channel_mask = from.channel_mask.value_or(0);
  copy_text(from.format, to.format);
  to.sample_size = from.sample_size().value_or(0);
  made->frame_size = from.bytes_per_sample().value_or(0);
  return made;
}

Made from_tensors(const TensorFormat& from, std::string caps) {
  auto made = make(FRAMELANE_FORMAT_TENSORS, std::move(caps));
  const auto all = from.frame_size();
  if (!all) return tl::unexpected(all.error());
  std::uint64_t offset = 0;
  for (const Tensor& tensor : from.tensors) {
    framelane_tensor to{};
    to.type = static_cast<std::int32_t>(tensor.type);
    to.rank = static_cast<std::uint32_t>(tensor.dimensions.size());
    to.element_size = format::size_of(tensor.type);
    to.offset = offset;
    to.bytes = tensor.size().value_or(0);
    std::reverse_copy(tensor.dimensions.begin(), tensor.dimensions.end(), to.shape);
    copy_text(tensor.name, to.name);
    offset += to.bytes;
    made->tensors.push_back(to);
  }
  made->frame_size = *all;
  return made;
}

std::string_view media_type(std::string_view caps) noexcept {
  while (!caps.empty() && caps.front() == ' ') caps.remove_prefix(1);
  return caps.substr(0, caps.find_first_of(" ,;("));
}

Made parse_video(const char* text, const std::string& layout) {
  const auto video = VideoFormat::parse(text);
  if (!video) return tl::unexpected(video.error());
  const auto places = layout.empty() ? PlaneLayout() : PlaneLayout::parse(layout);
  return places ? from_video(*video, text, *places) : Made(tl::unexpected(places.error()));
}

Made parse(const char* text, const std::string& layout = {}) {
  const std::string_view media = media_type(text);
  if (media == "video/x-raw") return parse_video(text, layout);
  if (media == "audio/x-raw") {
    const auto audio = AudioFormat::parse(text);
    return audio ? from_audio(*audio, text) : Made(tl::unexpected(audio.error()));
  }
  if (media == "other/tensors") {
    const auto tensors = TensorFormat::parse(text);
    return tensors ? from_tensors(*tensors, text) : Made(tl::unexpected(tensors.error()));
  }
  const std::size_t slash = media.find('/');
  if (slash == 0 || slash == std::string_view::npos || slash + 1 == media.size()) {
    return fail(Code::kInvalidArgument,
                "position 1: expected a media type, as in \"video/x-raw, format=(string)I420, width=(int)640, "
                "height=(int)480, framerate=(fraction)30/1\"");
  }
  return make(FRAMELANE_FORMAT_OTHER, text);
}

/// Text of the caller's in an array that may have no NUL.
template <std::size_t kSize>
std::string text_of(const char (&from)[kSize]) {
  return std::string(from, std::find(from, from + kSize, '\0'));
}

/// What was made of values must also be what others make of its text.
framelane_code hand_out(const std::string& caps, framelane_format** out) {
  auto made = parse(caps.c_str());
  if (!made) return report(made.error());
  *out = made->release();
  return FRAMELANE_OK;
}

Result<Tensor> to_tensor(const framelane_tensor* given) {
  framelane_tensor from{};
  auto code = copy_in(given, from, "framelane_tensor");
  if (code == FRAMELANE_OK) code = check_enum(from.type, FRAMELANE_TENSOR_FLOAT16, "type");
  if (code == FRAMELANE_OK && (from.rank < 1 || from.rank > FRAMELANE_MAX_RANK)) {
    code = report(Code::kInvalidArgument, "a tensor's rank is " + std::to_string(from.rank) + "; it must be 1 to 16");
  }
  if (code != FRAMELANE_OK) return last_error();
  Tensor to;
  to.type = static_cast<TensorType>(from.type);
  to.dimensions.assign(from.shape, from.shape + from.rank);
  std::reverse(to.dimensions.begin(), to.dimensions.end());
  to.name = text_of(from.name);
  return to;
}

framelane_code wrong_kind(const framelane_format* format, std::int32_t kind, const char* name) noexcept {
  if (format == nullptr) return missing("format");
  if (format->kind == kind) return FRAMELANE_OK;
  char text[64];
  std::snprintf(text, sizeof text, "these caps are not those of %s", name);
  return report(Code::kInvalidArgument, text);
}

}  // namespace

Result<framelane_format*> parse_format(const char* text, const std::string& layout) {
  return parse(text, layout).map([](auto made) { return made.release(); });
}

}  // namespace framelane::capi

using namespace framelane;
using namespace framelane::capi;

framelane_code framelane_format_parse(const char* caps, framelane_format** format) {
  if (format == nullptr) return missing("format");
  *format = nullptr;
  if (caps == nullptr) return missing("caps");
  return guarded([&] { return hand_out(caps, format); });
}

framelane_code framelane_format_from_video(const framelane_video_format* video, framelane_format** format) {
  if (format == nullptr) return missing("format");
  *format = nullptr;
  framelane_video_format from{};
  from.fps_d = 1;
  if (const auto code = copy_in(video, from, "framelane_video_format"); code != FRAMELANE_OK) return code;
  return guarded([&] {
    VideoFormat to;
    to.format = text_of(from.format);
    to.width = from.width;
    to.height = from.height;
    to.fps_n = from.fps_n;
    to.fps_d = from.fps_d != 0 ? from.fps_d : 1;
    to.interlace_mode = text_of(from.interlace_mode);
    return hand_out(to.to_caps(), format);
  });
}

framelane_code framelane_format_from_audio(const framelane_audio_format* audio, framelane_format** format) {
  if (format == nullptr) return missing("format");
  *format = nullptr;
  framelane_audio_format from{};
  from.interleaved = 1;
  if (const auto code = copy_in(audio, from, "framelane_audio_format"); code != FRAMELANE_OK) return code;
  return guarded([&] {
    AudioFormat to;
    to.format = text_of(from.format);
    to.rate = from.rate;
    to.channels = from.channels;
    to.interleaved = from.interleaved != 0;
    if (from.has_channel_mask != 0) to.channel_mask = from.channel_mask;
    return hand_out(to.to_caps(), format);
  });
}

framelane_code framelane_format_from_tensors(const framelane_tensor* tensors, size_t count, int32_t fps_n,
                                             int32_t fps_d, framelane_format** format) {
  if (format == nullptr) return missing("format");
  *format = nullptr;
  if (tensors == nullptr) return missing("tensors");
  if (count < 1 || count > 256) return report(Code::kInvalidArgument, "a frame holds 1 to 256 tensors");
  return guarded([&] {
    TensorFormat to;
    to.fps_n = fps_n;
    to.fps_d = fps_d != 0 ? fps_d : 1;
    for (std::size_t i = 0; i < count; ++i) {
      auto tensor = to_tensor(element(tensors, i));
      if (!tensor) return report(tensor.error());
      to.tensors.push_back(std::move(*tensor));
    }
    return hand_out(to.to_caps(), format);
  });
}

framelane_format* framelane_format_ref(framelane_format* format) {
  if (format != nullptr) format->refs.fetch_add(1, std::memory_order_relaxed);
  return format;
}

void framelane_format_unref(framelane_format* format) {
  if (format != nullptr && format->refs.fetch_sub(1, std::memory_order_acq_rel) == 1) delete format;
}

int32_t framelane_format_kind(const framelane_format* format) {
  return format != nullptr ? format->kind : FRAMELANE_FORMAT_OTHER;
}

const char* framelane_format_caps(const framelane_format* format) {
  return format != nullptr ? format->caps.c_str() : "";
}

uint64_t framelane_format_frame_size(const framelane_format* format) {
  return format != nullptr ? format->frame_size : 0;
}

double framelane_format_frame_rate(const framelane_format* format) {
  return format != nullptr ? format->frame_rate : 0;
}

framelane_code framelane_format_get_video(const framelane_format* format, framelane_video_format* video) {
  if (const auto code = wrong_kind(format, FRAMELANE_FORMAT_VIDEO, "raw video"); code != FRAMELANE_OK) return code;
  return copy_out(format->video, video, "framelane_video_format");
}

framelane_code framelane_format_get_audio(const framelane_format* format, framelane_audio_format* audio) {
  if (const auto code = wrong_kind(format, FRAMELANE_FORMAT_AUDIO, "raw audio"); code != FRAMELANE_OK) return code;
  return copy_out(format->audio, audio, "framelane_audio_format");
}

size_t framelane_format_num_tensors(const framelane_format* format) {
  return format != nullptr ? format->tensors.size() : 0;
}

framelane_code framelane_format_get_tensor(const framelane_format* format, size_t index, framelane_tensor* tensor) {
  if (const auto code = wrong_kind(format, FRAMELANE_FORMAT_TENSORS, "tensors"); code != FRAMELANE_OK) return code;
  if (index >= format->tensors.size()) return report(Code::kInvalidArgument, "these caps have no tensor of that index");
  return copy_out(format->tensors[index], tensor, "framelane_tensor");
}

const char* framelane_tensor_type_name(int32_t type) {
  if (type < 0 || type > FRAMELANE_TENSOR_FLOAT16) return "unknown";
  return to_string(static_cast<TensorType>(type)).data();  // of literals
}

uint32_t framelane_tensor_type_size(int32_t type) {
  return type < 0 || type > FRAMELANE_TENSOR_FLOAT16 ? 0 : format::size_of(static_cast<TensorType>(type));
}

int32_t framelane_tensor_type_of(const char* name) {
  for (int32_t type = 0; name != nullptr && type <= FRAMELANE_TENSOR_FLOAT16; ++type) {
    if (to_string(static_cast<TensorType>(type)) == name) return type;
  }
  return -1;
}
