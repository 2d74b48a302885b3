# SPDX-License-Identifier: MIT
"""Events that cross between processes, in both directions."""

import unittest

from lane_test import LaneTest, buffers

DELTA_UNIT = 0x2000
ENCODED = ("videotestsrc is-live=true ! video/x-raw,width=64,height=48,framerate=100/1 ! "
           "vp8enc deadline=1 keyframe-max-dist=100000")


def is_delta(line):
    flags = next(word for word in line.split() if word.startswith("flags="))
    return int(flags.removeprefix("flags="), 16) & DELTA_UNIT != 0


class Crossing(LaneTest):
    def test_a_late_joiner_gets_a_key_unit_that_it_asked_for(self):
        first = self.dump("lanesrc lane=x timestamp-mode=producer ! fakesink name=out")
        sending = self.launch(f"{ENCODED} ! lanesink lane=x wait-for-consumers=1")
        self.until_prints(first, "buffer", 30)
        late = self.dump("lanesrc lane=x timestamp-mode=producer ! fakesink name=out")
        self.until_prints(late, "buffer", 10)  # the encoder alone would make the next one in 1000 s
        self.assertFalse(is_delta(buffers(late)[0]))
        self.assertTrue(is_delta(buffers(late)[1]))
        self.assertTrue(sending.running())

    def test_requests_and_ends_go_through_a_process_between(self):
        last = self.dump("lanesrc lane=b timestamp-mode=producer ! fakesink name=out")
        self.launch("lanesrc lane=a timestamp-mode=producer ! lanesink lane=b wait-for-consumers=1")
        sending = self.launch(f"{ENCODED} ! lanesink lane=a wait-for-consumers=1", "-e")
        self.until_prints(last, "buffer", 20)
        late = self.dump("lanesrc lane=b timestamp-mode=producer ! fakesink name=out")
        self.until_prints(late, "buffer", 5)  # its wish went back through both lanes
        self.assertFalse(is_delta(buffers(late)[0]))
        sending.signal(2)
        self.finish(sending)
        for process in (last, late):
            self.finish(process)
            self.assertEqual(process.out[-1], "eos")


if __name__ == "__main__":
    unittest.main()
