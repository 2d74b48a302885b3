# SPDX-License-Identifier: MIT
"""Who comes first, who goes away, and how a process ends."""

import signal
import time
import unittest

from lane_test import LaneTest, buffers

LIVE = "videotestsrc is-live=true ! video/x-raw,format=GRAY8,width=64,height=48,framerate=100/1"


def stopped(process):
    with open(f"/proc/{process.pid}/stat", encoding="ascii") as stat:
        return stat.read().rsplit(")", 1)[1].split()[0] == "T"


class Lifecycle(LaneTest):
    def receiver(self, options="", out="fakesink name=out"):
        return self.dump(f"lanesrc lane=x {options} ! {out}")

    def stop(self, process):
        process.signal(signal.SIGSTOP)
        self.until("stopped", lambda: stopped(process))

    def test_producer_first(self):
        sending = self.launch(f"{LIVE} ! lanesink lane=x")
        self.until_served()
        receiving = self.receiver()
        self.until_prints(receiving, "buffer", 20)
        self.assertTrue(sending.running())

    def test_consumer_first(self):
        receiving = self.receiver()
        time.sleep(0.3)
        self.assertTrue(receiving.running())
        self.launch(f"{LIVE} ! lanesink lane=x")
        self.until_prints(receiving, "buffer", 20)

    def test_file_waits_for_its_consumer(self):
        sending = self.launch("videotestsrc num-buffers=300 ! video/x-raw,width=64,height=48 ! lanesink lane=x")
        time.sleep(0.5)
        self.assertTrue(sending.running())
        receiving = self.receiver()
        self.finish(sending)
        self.finish(receiving)
        self.assertEqual(len(buffers(receiving)), 300)

    def test_producer_killed_and_restarted_ten_times(self):
        receiving = self.receiver()
        seen = 0
        for _ in range(10):
            sending = self.launch(f"{LIVE} ! lanesink lane=x")
            self.until_prints(receiving, "buffer", seen + 5)
            sending.signal(signal.SIGKILL)
            sending.wait()
            seen = len(buffers(receiving))
        self.assertTrue(receiving.running())
        last = self.launch("videotestsrc num-buffers=10 ! video/x-raw,format=GRAY8,width=64,height=48 ! "
                           "lanesink lane=x")
        self.finish(last)
        self.finish(receiving)  # and an end of stream still ends it
        self.assertEqual(sum(line.startswith("stream-start") for line in receiving.out), 11)
        self.assertEqual(receiving.err, [])

    def test_no_reconnect_ends_with_the_producer(self):
        receiving = self.receiver("reconnect=false")
        sending = self.launch(f"{LIVE} ! lanesink lane=x")
        self.until_prints(receiving, "buffer", 5)
        sending.signal(signal.SIGKILL)
        self.finish(receiving)
        self.assertTrue(any(line.startswith("warning") for line in receiving.err))

    def interrupt_with_a_stopped_consumer(self, source, *options):
        receiving = self.receiver()
        sending = self.launch(f"{source} ! lanesink lane=x", *options)
        self.until_prints(receiving, "buffer", 5)
        self.stop(receiving)
        time.sleep(0.5)  # long enough for the lane to be full
        sending.signal(signal.SIGINT)
        sending.wait(30)
        receiving.signal(signal.SIGCONT)
        return receiving

    def test_ctrl_c_with_a_stopped_consumer(self):
        self.interrupt_with_a_stopped_consumer(LIVE)

    def test_ctrl_c_with_a_stopped_consumer_and_a_file(self):
        self.interrupt_with_a_stopped_consumer(LIVE.replace("is-live=true", "num-buffers=100000"))

    def test_ctrl_c_and_eos_with_a_stopped_consumer(self):
        receiving = self.interrupt_with_a_stopped_consumer(LIVE, "-e")
        self.finish(receiving)
        self.assertEqual(receiving.out[-1], "eos")

    def test_ctrl_c_with_a_transform_before_the_sink(self):
        self.interrupt_with_a_stopped_consumer(
            "videotestsrc num-buffers=100000 ! video/x-raw,format=RGB,width=64,height=48 ! videoconvert ! "
            "video/x-raw,format=I420 ! queue")

    def test_ctrl_c_of_a_receiver_without_a_producer(self):
        receiving = self.launch("lanesrc lane=x connect-timeout=18446744073709551615 ! fakesink")
        self.until_prints(receiving, "PLAYING")
        receiving.signal(signal.SIGINT)
        receiving.wait(30)

    def test_ctrl_c_and_eos_of_a_receiver_without_a_producer(self):
        receiving = self.launch("lanesrc lane=x connect-timeout=18446744073709551615 ! fakesink", "-e")
        self.until_prints(receiving, "PLAYING")
        receiving.signal(signal.SIGINT)
        self.finish(receiving)

    def test_ctrl_c_of_a_sender_without_a_consumer(self):
        sending = self.launch("videotestsrc ! lanesink lane=x")
        self.until_prints(sending, "PLAYING")
        sending.signal(signal.SIGINT)
        sending.wait(30)

    def test_killed_consumer_does_not_harm_the_other(self):
        first = self.receiver()
        second = self.receiver()
        sending = self.launch("videotestsrc num-buffers=400 ! video/x-raw,format=GRAY8,width=64,height=48,"
                              "framerate=200/1 ! lanesink lane=x sync=true leaky=no wait-for-consumers=2")
        self.until_prints(first, "buffer", 20)
        first.signal(signal.SIGKILL)
        self.finish(sending)
        self.finish(second)
        self.assertEqual(len(buffers(second)), 400)


if __name__ == "__main__":
    unittest.main()
