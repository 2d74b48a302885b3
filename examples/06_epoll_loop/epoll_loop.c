/* SPDX-License-Identifier: MIT */
/* Several lanes in one epoll loop, on one thread, until all have ended.    epoll_loop LANE... */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/epoll.h>

#include "framelane/framelane.h"

enum { kMostLanes = 16, kPatienceMs = 30000 };

typedef struct {
  const char* name;
  framelane_consumer* consumer;
  uint64_t frames;
  uint64_t bytes;
} lane;

static int complain(const char* what) {
  fprintf(stderr, "epoll_loop: %s: %s\n", what, framelane_error_text());
  return 1;
}

static int add_lane(int epoll_fd, lane* it) {
  int fd = -1;
  if (framelane_consumer_open(it->name, NULL, &it->consumer) != FRAMELANE_OK) return complain(it->name);
  if (framelane_consumer_event_fd(it->consumer, &fd) != FRAMELANE_OK) return complain(it->name);
  struct epoll_event event = {.events = EPOLLIN, .data = {.ptr = it}};
  if (epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &event) == 0) return 0;
  perror("epoll_loop: epoll_ctl");
  return 1;
}

/* Takes what is there: until FRAMELANE_TIMEOUT, which also makes the descriptor wait for the next. */
static framelane_code take_all(lane* it) {
  framelane_frame* frame = NULL;
  framelane_code code;
  while ((code = framelane_consumer_try_take(it->consumer, &frame)) == FRAMELANE_OK) {
    it->frames += 1;
    it->bytes += framelane_frame_size(frame);
    framelane_frame_unref(frame);
  }
  return code;
}

/* Returns how many lanes go on: one less, or as many; -1 after an error. */
static int serve(lane* it, int lanes) {
  switch (take_all(it)) {
    case FRAMELANE_TIMEOUT:
      return lanes;
    case FRAMELANE_END_OF_STREAM:
      printf("%s: %" PRIu64 " frames, %" PRIu64 " bytes\n", it->name, it->frames, it->bytes);
      framelane_consumer_close(it->consumer); /* closes its descriptor, and so takes it out of the loop */
      it->consumer = NULL;
      return lanes - 1;
    default:
      complain(it->name);
      return -1;
  }
}

static int loop(int epoll_fd, int lanes) {
  while (lanes > 0) {
    struct epoll_event events[kMostLanes];
    const int count = epoll_wait(epoll_fd, events, kMostLanes, kPatienceMs);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) {
      fprintf(stderr, "epoll_loop: nothing came\n");
      return 1;
    }
    for (int i = 0; i < count && lanes > 0; ++i) lanes = serve(events[i].data.ptr, lanes);
  }
  return lanes == 0 ? 0 : 1;
}

int main(int argc, char** argv) {
  lane lanes[kMostLanes] = {{0}};
  const int count = argc - 1;
  if (count < 1 || count > kMostLanes) {
    fprintf(stderr, "usage: epoll_loop LANE... (1 to %d)\n", kMostLanes);
    return 2;
  }
  const int epoll_fd = epoll_create1(EPOLL_CLOEXEC);
  int result = epoll_fd < 0;
  for (int i = 0; i < count && result == 0; ++i) {
    lanes[i].name = argv[i + 1];
    result = add_lane(epoll_fd, &lanes[i]);
  }
  if (result == 0) result = loop(epoll_fd, count);
  for (int i = 0; i < count; ++i) framelane_consumer_close(lanes[i].consumer);
  return result;
}
