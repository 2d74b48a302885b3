# SPDX-License-Identifier: MIT
"""An application at each end of a lane: `send` pushes numbered frames through an appsrc, `receive` pulls them from an
appsink and prints PTS, duration and the first bytes of each."""

import os
import sys

import gi

from lane_test import over

gi.require_version("Gst", "1.0")
gi.require_version("GstApp", "1.0")
from gi.repository import Gst, GstApp  # noqa: E402,F401 (GstApp gives the elements their methods)

COUNT = 25
CAPS = "video/x-raw,format=GRAY8,width=16,height=8,framerate=25/1"


def launch(text):
    return Gst.parse_launch(over(text, os.environ["FRAMELANE_DIR"]))


def frame(number):
    return bytes([number]) * (16 * 8)


def send():
    pipeline = launch(f"appsrc name=app format=time caps={CAPS} ! lanesink lane=x")
    app = pipeline.get_by_name("app")
    pipeline.set_state(Gst.State.PLAYING)
    for number in range(COUNT):
        buffer = Gst.Buffer.new_wrapped(frame(number))
        buffer.pts, buffer.duration = number * Gst.SECOND // 25, Gst.SECOND // 25
        if app.push_buffer(buffer) != Gst.FlowReturn.OK:
            sys.exit("a frame was refused")
    app.end_of_stream()
    message = pipeline.get_bus().timed_pop_filtered(Gst.CLOCK_TIME_NONE, Gst.MessageType.EOS | Gst.MessageType.ERROR)
    pipeline.set_state(Gst.State.NULL)
    return 0 if message.type == Gst.MessageType.EOS else 1


def receive():
    pipeline = launch("lanesrc lane=x ! appsink name=app sync=false")
    app = pipeline.get_by_name("app")
    pipeline.set_state(Gst.State.PLAYING)
    while sample := app.pull_sample():
        buffer = sample.get_buffer()
        print(buffer.pts, buffer.duration, buffer.extract_dup(0, 4).hex(), flush=True)
    pipeline.set_state(Gst.State.NULL)
    return 0


if __name__ == "__main__":
    Gst.init(None)
    sys.exit({"send": send, "receive": receive}[sys.argv[1]]())
