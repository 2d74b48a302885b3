// SPDX-License-Identifier: MIT
// Looks at a camera's pictures and checks each one, until its end or COUNT pictures.    viewer [LANE [COUNT]]
#include <cstdio>
#include <cstdlib>

#include "framelane/format/caps.hpp"
#include "framelane/lane/consumer.hpp"

#include "camera.hpp"

namespace {

int complain(const char* what) {
  std::fprintf(stderr, "viewer: %s\n", what);
  return 1;
}

/// Whether the picture is the one that its time says, in every row.
bool is_right(const framelane::Frame& frame) {
  if (frame.size() != camera::kFrameBytes) return false;
  const std::uint64_t number = frame.pts() / static_cast<std::uint64_t>(camera::kInterval.count());
  for (int y = 0; y < camera::kHeight; ++y) {
    const auto row = frame.bytes().subspan(static_cast<std::size_t>(y) * camera::kWidth, camera::kWidth);
    for (int x = 0; x < camera::kWidth; ++x) {
      if (row[static_cast<std::size_t>(x)] != camera::luma(number, x)) return false;
    }
  }
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  framelane::ConsumerSettings settings;
  settings.lane = argc > 1 ? argv[1] : "camera";
  settings.gating = false;  // it only watches: the camera never waits for it
  const unsigned long long most = argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 0;
  auto consumer = framelane::Consumer::open(settings);
  if (!consumer) return complain(consumer.error().text.c_str());

  unsigned long long pictures = 0;
  unsigned long long lost = 0;
  while (most == 0 || pictures < most) {
    auto frame = consumer->take(std::chrono::seconds(30));
    if (!frame && frame.error().code == framelane::Code::kEndOfStream) break;
    if (!frame) return complain(frame.error().text.c_str());
    if (pictures == 0) std::printf("%s\n", consumer->caps().c_str());
    if (!is_right(*frame)) return complain("a picture isn't what the camera took");
    ++pictures;
    lost += frame->skipped();
  }
  std::printf("%llu pictures, all of them right; %llu lost\n", pictures, lost);
  return 0;
}
