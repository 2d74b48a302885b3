/* SPDX-License-Identifier: MIT */
/* A lane in a GLib main loop, beside a timer.    glib_loop [LANE] */
#include <glib-unix.h>
#include <glib.h>
#include <stdio.h>

#include "framelane/framelane.h"

typedef struct {
  GMainLoop* loop;
  framelane_consumer* consumer;
  guint64 frames;
  int result;
} application;

static void quit(application* app, int result) {
  app->result = result;
  g_main_loop_quit(app->loop);
}

/* Called when the next take wouldn't wait. Takes what is there, and goes back to the loop. */
static gboolean on_frames(gint fd, GIOCondition condition, gpointer user) {
  application* const app = user;
  framelane_frame* frame = NULL;
  framelane_code code;
  (void)fd;
  (void)condition;
  while ((code = framelane_consumer_try_take(app->consumer, &frame)) == FRAMELANE_OK) {
    app->frames += 1;
    framelane_frame_unref(frame);
  }
  if (code == FRAMELANE_TIMEOUT) return G_SOURCE_CONTINUE;
  if (code != FRAMELANE_END_OF_STREAM) fprintf(stderr, "glib_loop: %s\n", framelane_error_text());
  quit(app, code == FRAMELANE_END_OF_STREAM ? 0 : 1);
  return G_SOURCE_REMOVE;
}

static gboolean on_patience_over(gpointer user) {
  fprintf(stderr, "glib_loop: no end of stream came\n");
  quit(user, 1);
  return G_SOURCE_REMOVE;
}

int main(int argc, char** argv) {
  application app = {.loop = g_main_loop_new(NULL, FALSE)};
  int fd = -1;
  if (framelane_consumer_open(argc > 1 ? argv[1] : "plain", NULL, &app.consumer) != FRAMELANE_OK ||
      framelane_consumer_event_fd(app.consumer, &fd) != FRAMELANE_OK) {
    fprintf(stderr, "glib_loop: %s\n", framelane_error_text());
    quit(&app, 1);
  } else {
    const guint frames = g_unix_fd_add(fd, G_IO_IN, on_frames, &app);
    const guint patience = g_timeout_add_seconds(30, on_patience_over, &app);
    g_main_loop_run(app.loop);
    if (app.result == 0) g_source_remove(patience);
    if (app.result != 0 && g_main_context_find_source_by_id(NULL, frames) != NULL) g_source_remove(frames);
    printf("%" G_GUINT64_FORMAT " frames\n", app.frames);
  }
  framelane_consumer_close(app.consumer);
  g_main_loop_unref(app.loop);
  return app.result;
}
