# SPDX-License-Identifier: MIT
"""GStreamer's own `leaks` tracer: no object of a pipeline with our elements outlives it."""

import unittest

from lane_test import LaneTest

VIDEO = "videotestsrc num-buffers=20 ! video/x-raw,width=64,height=48"


class Leaks(LaneTest):
    def setUp(self):
        super().setUp()
        self.env.update(GST_TRACERS="leaks", GST_DEBUG="GST_TRACER:7", GST_DEBUG_NO_COLOR="1")

    def assert_clean(self, process, status=0):
        self.finish(process, status)
        # Without the tracer's last line it wasn't there, and its silence means nothing.
        self.assertTrue(any("leaks" in line for line in process.err), process.err[-5:])
        alive = [line for line in process.err if ": object-alive, " in line and "new format string" not in line]
        self.assertEqual(alive, [])

    def through_a_lane(self, before, after="fakesink name=out"):
        receiving = self.dump(f"lanesrc lane=x ! {after}")
        sending = self.dump(f"{before} ! identity name=out ! lanesink lane=x")
        self.assert_clean(sending)
        self.assert_clean(receiving)

    def test_slots_of_the_pool(self):
        self.through_a_lane(VIDEO)

    def test_copies(self):
        self.through_a_lane(f"{VIDEO} ! videorate ! video/x-raw,framerate=60/1 ! tee ! queue")

    def test_encoded(self):
        self.through_a_lane(f"{VIDEO} ! vp8enc deadline=1", "vp8dec ! fakesink name=out")

    def test_caps_that_are_refused(self):
        receiving = self.dump("lanesrc lane=x ! audio/x-raw ! fakesink name=out")
        sending = self.dump(f"{VIDEO} ! identity name=out ! lanesink lane=x full-timeout=100000000")
        self.assert_clean(receiving, 1)
        self.assert_clean(sending)

    def test_lane_that_never_comes(self):
        self.assert_clean(self.dump("lanesrc lane=nobody connect-timeout=100000000 ! fakesink name=out"), 1)


if __name__ == "__main__":
    unittest.main()
