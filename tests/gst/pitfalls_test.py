# SPDX-License-Identifier: MIT
"""What GStreamer's own elements between processes get wrong, measured on shmsink and unixfdsink of 1.22 and 1.28.

Here are those that need processes. In one process: life_test.cpp (caps that are not there yet, one mapping for all
frames, stopping without complaints, errors under a lock). Found at the same name after a SIGKILL, and Ctrl-C with a
stopped consumer: lifecycle_test.py. Hostile peers (slots never sent, memory too short): hostile_peer_test.cpp.
"""

import os
import signal
import time
import unittest

from lane_test import LaneTest, buffers, raw_peer

LIVE = "videotestsrc is-live=true ! video/x-raw,format=GRAY8,width=64,height=48,framerate=100/1"
LARGE = "videotestsrc is-live=true ! video/x-raw,format=GRAY8,width=640,height=480,framerate=200/1"  # 60 MB a second


def stopped(process):
    with open(f"/proc/{process.pid}/stat", encoding="ascii") as stat:
        return stat.read().rsplit(")", 1)[1].split()[0] == "T"


def cpu_seconds(process):
    with open(f"/proc/{process.pid}/stat", encoding="ascii") as stat:
        fields = stat.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def memory_kib(process):
    with open(f"/proc/{process.pid}/status", encoding="ascii") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmRSS"))


class Pitfalls(LaneTest):
    def receiver(self, options="", out="fakesink name=out"):
        return self.dump(f"lanesrc lane=x {options} ! {out}")

    def assert_idle(self, process):
        """A busy loop would use the whole of this time."""
        before, start = cpu_seconds(process), time.monotonic()
        time.sleep(1)
        self.assertLess(cpu_seconds(process) - before, 0.6 * (time.monotonic() - start))
        self.assertTrue(process.running())

    def test_small_frames_at_full_speed_do_not_deadlock(self):
        receiving = self.receiver()
        sending = self.launch("videotestsrc num-buffers=20000 pattern=black ! "
                              "video/x-raw,format=GRAY8,width=64,height=64 ! lanesink lane=x")
        self.finish(sending)
        self.finish(receiving)
        self.assertEqual(len(buffers(receiving)), 20000)

    def test_stopped_consumer_freezes_nobody_else(self):
        standing, going = self.receiver(), self.receiver()
        self.launch(f"{LIVE} ! lanesink lane=x wait-for-consumers=2")
        self.until_prints(standing, "buffer", 5)
        standing.signal(signal.SIGSTOP)
        self.until("stopped", lambda: stopped(standing))
        self.until_prints(going, "buffer", len(buffers(going)) + 100)
        standing.signal(signal.SIGCONT)
        self.until_prints(standing, "buffer", len(buffers(standing)) + 20)

    def test_slow_consumer_stalls_no_upstream_that_uses_the_pool(self):
        slow = self.receiver(out="identity sleep-time=200000 ! fakesink name=out")
        quick = self.receiver()
        sending = self.dump(f"{LIVE} ! identity name=out ! lanesink lane=x wait-for-consumers=2")
        self.until_prints(quick, "buffer", 200)
        self.assertLess(len(buffers(slow)), 150)
        self.assertEqual(sending.err, [])
        self.assertTrue(sending.running() and slow.running())

    def test_slow_consumer_lets_no_memory_grow(self):
        slow = self.receiver(out="identity sleep-time=100000 ! fakesink name=out")
        sending = self.dump(f"{LARGE} ! identity name=out ! lanesink lane=x wait-for-consumers=1")
        self.until_prints(sending, "buffer", 100)
        before = memory_kib(sending), memory_kib(slow)
        self.until_prints(sending, "buffer", len(buffers(sending)) + 400)  # 120 MB more
        self.assertLess(memory_kib(sending) - before[0], 40 << 10)
        self.assertLess(memory_kib(slow) - before[1], 40 << 10)

    def test_dead_producer_leaves_no_busy_loop(self):
        receiving = self.receiver()
        sending = self.launch(f"{LIVE} ! lanesink lane=x")
        self.until_prints(receiving, "buffer", 5)
        sending.signal(signal.SIGKILL)
        sending.wait()
        self.assert_idle(receiving)

    def test_peers_that_die_within_a_message_leave_no_busy_loop(self):
        sending = self.launch(f"{LIVE} ! lanesink lane=x")
        self.until_prints(self.receiver(), "buffer", 3)  # the file is there before anybody listens
        for message in b"", b"\0", b"\x7f" * 7, os.urandom(64), os.urandom(4096):
            with raw_peer("x", self.lanes) as peer:
                if message:
                    peer.send(message)
        self.assert_idle(sending)
        receiving = self.receiver()
        self.until_prints(receiving, "buffer", 10)

    def test_killed_consumers_leave_no_busy_loop(self):
        sending = self.launch(f"{LIVE} ! lanesink lane=x")
        for _ in range(3):
            receiving = self.receiver()
            self.until_prints(receiving, "buffer", 3)
            receiving.signal(signal.SIGKILL)
            receiving.wait()
        self.assert_idle(sending)

    def test_nothing_is_logged_when_they_stop(self):
        self.env["GST_DEBUG"] = "*:2"
        receiving = self.launch("lanesrc lane=x ! fakesink")
        sending = self.launch(f"{LIVE} ! lanesink lane=x wait-for-consumers=1")
        self.until_prints(receiving, "PLAYING")
        self.until_prints(sending, "PLAYING")
        time.sleep(0.3)
        for process in receiving, sending:
            process.signal(signal.SIGINT)
            process.wait()
            self.assertEqual([line for line in process.err if "ERROR" in line or "lane" in line], [])


if __name__ == "__main__":
    unittest.main()
