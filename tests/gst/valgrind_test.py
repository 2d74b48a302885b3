# SPDX-License-Identifier: MIT
"""Memcheck over both ends: no byte is read that was never written, none is lost, none is used after it was freed."""

import os
import shutil
import unittest

from lane_test import DUMP, LIMIT, LaneTest, buffers, over

FOUND_ERRORS = 99
VALGRIND = ("valgrind", "--quiet", "--leak-check=full", "--show-leak-kinds=definite",
            "--errors-for-leak-kinds=definite", f"--error-exitcode={FOUND_ERRORS}", "--num-callers=25",
            "--suppressions=" + os.path.join(os.path.dirname(os.path.abspath(__file__)), "valgrind.supp"))
VIDEO = "videotestsrc num-buffers=15 ! video/x-raw,format=I420,width=64,height=48,framerate=30/1"


@unittest.skipUnless(shutil.which("valgrind"), "valgrind is not installed")
class Memcheck(LaneTest):
    def setUp(self):
        super().setUp()
        self.env.update(G_SLICE="always-malloc", G_DEBUG="gc-friendly")

    def checked(self, pipeline, *options):
        return self.start(*VALGRIND, DUMP, *options, over(pipeline, self.lanes))

    def assert_clean(self, process, status=0):
        self.assertEqual(process.wait(5 * LIMIT), status, "\n".join(process.err[-60:]))

    def through_a_lane(self, before, after="fakesink name=out", sink=""):
        receiving = self.checked(f"lanesrc lane=x connect-timeout=100000000000 ! {after}")
        sending = self.checked(f"{before} ! identity name=out ! lanesink lane=x {sink}")
        self.assert_clean(sending)
        self.assert_clean(receiving)
        self.assertEqual(len(buffers(receiving)), len(buffers(sending)))

    def test_slots_of_the_pool(self):
        self.through_a_lane(VIDEO)

    def test_repeated_frames_and_an_in_place_element(self):
        self.through_a_lane(f"{VIDEO} ! videorate ! video/x-raw,framerate=60/1", "videobalance hue=0.1 ! "
                            "fakesink name=out")

    def test_planar_audio(self):
        self.through_a_lane("audiotestsrc num-buffers=15 ! audio/x-raw,format=F32LE,channels=2,layout=non-interleaved")

    def test_padded_planes(self):
        self.through_a_lane(f"{VIDEO} ! videocrop left=3 top=1")

    def test_encoded_frames_with_history(self):
        self.through_a_lane(f"{VIDEO} ! vp8enc deadline=1", sink="history=20 burst-time=100000000")

    def test_errors(self):
        self.assert_clean(self.checked("lanesrc lane=nobody connect-timeout=1000000 ! fakesink name=out"), 1)
        self.assert_clean(self.checked(f"{VIDEO} ! lanesink name=out lane=x wait-for-consumers=0 max-frame-size=9"), 1)

    def test_stopped_with_frames_on_their_way(self):
        receiving = self.checked("lanesrc lane=x connect-timeout=100000000000 num-buffers=5 ! fakesink name=out")
        sending = self.checked(f"{VIDEO.replace('=15', '=300')} ! identity name=out ! lanesink lane=x leaky=downstream")
        self.assert_clean(receiving)
        self.assert_clean(sending)


if __name__ == "__main__":
    unittest.main()
