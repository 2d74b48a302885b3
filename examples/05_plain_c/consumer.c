/* SPDX-License-Identifier: MIT */
/* Prints what comes over a lane until its end.    plain_consumer [LANE] */
#include <inttypes.h>
#include <stdio.h>

#include "framelane/framelane.h"

static const int64_t kSecond = 1000000000;

static int complain(const char* what) {
  fprintf(stderr, "plain_consumer: %s: %s (%s)\n", what, framelane_error_text(),
          framelane_code_name(framelane_error_code()));
  return 1;
}

static void print_format(const framelane_frame* frame) {
  framelane_format* format = NULL;
  framelane_video_format video = {.size = sizeof video};
  if (framelane_frame_get_format(frame, &format) != FRAMELANE_OK) return;
  if (framelane_format_get_video(format, &video) == FRAMELANE_OK)
    printf("%s, %d x %d, stride %" PRIu32 "\n", video.format, video.width, video.height, video.planes[0].stride);
  framelane_format_unref(format);
}

static void print_frame(const framelane_frame* frame) {
  const unsigned char* const bytes = framelane_frame_data(frame); /* read-only, where the producer wrote it */
  printf("frame %" PRIu64 " at %" PRIu64 " ms: grey %u\n", framelane_frame_seq(frame),
         framelane_frame_pts(frame) / 1000000, bytes[0]);
}

int main(int argc, char** argv) {
  framelane_consumer* consumer = NULL;
  if (framelane_consumer_open(argc > 1 ? argv[1] : "plain", NULL, &consumer) != FRAMELANE_OK) return complain("open");

  framelane_frame* frame = NULL;
  framelane_code code;
  uint64_t seen_caps = 0;
  while ((code = framelane_consumer_take(consumer, 30 * kSecond, &frame)) == FRAMELANE_OK) {
    if (framelane_frame_caps_id(frame) != seen_caps) print_format(frame);
    seen_caps = framelane_frame_caps_id(frame);
    print_frame(frame);
    framelane_frame_unref(frame); /* the slot goes back */
  }
  if (code != FRAMELANE_END_OF_STREAM) complain("take");
  framelane_consumer_close(consumer);
  return code == FRAMELANE_END_OF_STREAM ? 0 : 1;
}
