# SPDX-License-Identifier: MIT
"""Bad input: one error each, with a sentence that says what to do. Nothing hangs, nothing crashes."""

import os
import pwd
import signal
import unittest

from lane_test import TRANSPORT, LaneTest

NO_FILES = "TCP has no files"
SOURCE = "videotestsrc num-buffers=3 ! video/x-raw,width=64,height=48"


class BadInput(LaneTest):
    def error_of(self, pipeline, element, status=1):
        process = self.dump(pipeline)
        self.finish(process, status)
        ours = [line for line in process.err if line.startswith("error") and f" {element}: " in line]
        self.assertEqual(len(ours), 1, process.err)
        return ours[0]

    def sink_error(self, properties):
        return self.error_of(f"{SOURCE} ! lanesink name=out {properties}", "out")

    def source_error(self, properties):
        return self.error_of(f"lanesrc name=in {properties} ! fakesink name=out", "in")

    def test_no_such_lane_within_connect_timeout(self):
        error = self.source_error("lane=nobody connect-timeout=200000000")
        self.assertIn("nobody", error)
        self.assertIn("connect-timeout", error)

    def test_no_lane_at_all(self):
        self.assertIn("property lane", self.sink_error(""))
        self.assertIn("property lane", self.source_error(""))

    def test_lane_names(self):
        for name in ("a/b", "..", '"a b"', "x" * 200, "-x"):
            with self.subTest(name):
                for error in (self.sink_error(f"lane={name}"), self.source_error(f"lane={name}")):
                    self.assertIn("gst-resource-error-quark", error)

    def test_other_transports_than_shared_memory(self):
        error = self.error_of(f"{SOURCE} ! shmringsink name=out lane=lane.tcp://127.0.0.1:7411/x", "out")
        self.assertIn("lanesink", error)

    @unittest.skipIf(TRANSPORT == "tcp", NO_FILES)
    def test_directory_that_cannot_be_written(self):
        self.env["FRAMELANE_DIR"] = "/proc/framelane"
        self.assertIn("/proc/framelane", self.sink_error("lane=x"))

    @unittest.skipUnless(os.geteuid() == 0, "only root can give a directory away")
    @unittest.skipIf(TRANSPORT == "tcp", NO_FILES)
    def test_directory_of_somebody_else(self):
        lanes = self.env["FRAMELANE_DIR"]
        os.mkdir(lanes, 0o700)
        os.chown(lanes, pwd.getpwnam("nobody").pw_uid, -1)
        self.assertIn(lanes, self.sink_error("lane=x"))

    def test_lane_in_use_names_the_process(self):
        first = self.launch("videotestsrc is-live=true ! lanesink lane=x")
        self.until_served()
        # The system doesn't tell who has a port.
        self.assertIn("another port" if TRANSPORT == "tcp" else str(first.pid), self.sink_error("lane=x"))
        self.assertTrue(first.running())

    def test_stale_socket_is_replaced(self):
        killed = self.launch("videotestsrc is-live=true ! lanesink lane=x")
        self.until_served()
        killed.signal(signal.SIGKILL)
        killed.wait()
        self.finish(self.dump(f"{SOURCE} ! lanesink name=out lane=x wait-for-consumers=0"))

    @unittest.skipIf(TRANSPORT == "tcp", NO_FILES)
    def test_path_that_is_too_long(self):
        self.env["FRAMELANE_DIR"] = os.path.join(self.directory, "d" * 100)
        self.assertIn("107", self.sink_error("lane=x"))
        self.assertIn("107", self.source_error("lane=x"))

    def test_frame_larger_than_max_frame_size(self):
        error = self.sink_error("lane=x wait-for-consumers=0 max-frame-size=1000")
        self.assertIn("max-frame-size", error)

    def test_more_consumers_to_wait_for_than_there_can_be(self):
        self.assertIn("max-consumers", self.sink_error("lane=x wait-for-consumers=3 max-consumers=2"))

    def test_memory_that_cannot_be_had(self):
        process = self.start("sh", "-c", f"ulimit -v 600000; exec {os.environ['FRAMELANE_DUMP']} '{SOURCE} ! lanesink "
                             "name=out lane=x wait-for-consumers=0 burst=1000 max-frame-size=1073741824'")
        # 64x48 frames fit easily; the ones of 16 MiB do not.
        process.wait()
        large = ("videotestsrc num-buffers=2 ! video/x-raw,format=RGBA,width=4096,height=4096 ! "
                 "lanesink name=out lane=x wait-for-consumers=0 burst=500")
        process = self.start("sh", "-c", f"ulimit -v 900000; exec {os.environ['FRAMELANE_DUMP']} '{large}'")
        self.assertEqual(process.wait(), 1, process.err)
        ours = [line for line in process.err if line.startswith("error") and " out: " in line]
        self.assertEqual(len(ours), 1, process.err)

    def test_downstream_that_does_not_take_the_caps(self):
        receiving = self.dump("lanesrc name=in lane=x ! video/x-raw,format=RGB ! fakesink name=out")
        self.launch("videotestsrc num-buffers=10 ! video/x-raw,format=I420 ! lanesink lane=x")
        self.finish(receiving, 1)
        ours = [line for line in receiving.err if line.startswith("error") and " in: " in line]
        self.assertEqual(len(ours), 1, receiving.err)
        self.assertIn("videoconvert", ours[0])


if __name__ == "__main__":
    unittest.main()
