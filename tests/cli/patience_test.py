# SPDX-License-Identifier: MIT
"""`framelane recv` where nobody sends for longer than it waits by itself."""

import subprocess
import unittest

from lane_case import LaneCase, y4m


class Patience(LaneCase):
    def test_without_a_timeout_a_producer_is_waited_for_beyond_the_default(self):
        receiver = self.start("recv", "cam0", self.path("b.y4m"), "--timeout", "none")
        with self.assertRaises(subprocess.TimeoutExpired):  # 10 s are the default
            receiver.wait(timeout=11)
        sender = self.start("send", "cam0", self.write("a.y4m", y4m()))
        self.finish(receiver)
        self.finish(sender)
        self.assertEqual(self.read("b.y4m"), y4m())


if __name__ == "__main__":
    unittest.main()
