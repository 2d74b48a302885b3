/* SPDX-License-Identifier: MIT */
/* Sends thirty grey pictures over a lane and ends the stream.    plain_producer [LANE [PICTURES]] */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "framelane/framelane.h"

enum { kWidth = 320, kHeight = 240 };
static const char kCaps[] =
    "video/x-raw, format=(string)GRAY8, width=(int)320, height=(int)240, framerate=(fraction)30/1";
static const int64_t kSecond = 1000000000;

static int complain(const char* what) {
  fprintf(stderr, "plain_producer: %s: %s (%s)\n", what, framelane_error_text(),
          framelane_code_name(framelane_error_code()));
  return 1;
}

static int send_picture(framelane_producer* producer, int number) {
  framelane_loan* loan = NULL; /* a slot of shared memory: what is written here is what consumers read */
  if (framelane_producer_loan(producer, kWidth * kHeight, &loan) != FRAMELANE_OK) return complain("loan");
  memset(framelane_loan_data(loan), number & 0xff, kWidth * kHeight);

  framelane_frame_info info;
  framelane_frame_info_init(&info, sizeof info);
  info.pts = (uint64_t)number * (uint64_t)(kSecond / 30);
  info.duration = (uint64_t)(kSecond / 30);
  if (framelane_producer_publish(producer, loan, kWidth * kHeight, &info, NULL, NULL) == FRAMELANE_OK) return 0;
  framelane_loan_discard(loan); /* after an error it is still ours */
  return complain("publish");
}

static int send_pictures(framelane_producer* producer, int count) {
  /* A lane waits for nobody by itself. This one wants somebody to see its first picture. */
  if (framelane_producer_wait_for_consumers(producer, 1, 30 * kSecond) != FRAMELANE_OK) return complain("wait");
  if (framelane_producer_set_caps(producer, kCaps) != FRAMELANE_OK) return complain("caps");
  for (int i = 0; i < count; ++i) {
    if (send_picture(producer, i) != 0) return 1;
  }
  return framelane_producer_end_of_stream(producer) == FRAMELANE_OK ? 0 : complain("end of stream");
}

int main(int argc, char** argv) {
  framelane_producer_settings settings;
  framelane_producer_settings_init(&settings, sizeof settings); /* the defaults */
  settings.burst = 16;                                          /* pictures that a pause of the consumer may cost */

  framelane_producer* producer = NULL;
  if (framelane_producer_open(argc > 1 ? argv[1] : "plain", &settings, &producer) != FRAMELANE_OK)
    return complain("open");
  const int result = send_pictures(producer, argc > 2 ? atoi(argv[2]) : 30);
  framelane_producer_close(producer);
  return result;
}
