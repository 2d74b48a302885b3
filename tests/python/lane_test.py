# SPDX-License-Identifier: MIT
"""What the Python tests share: a lane folder of their own, and child processes with time limits."""
import os
import subprocess
import sys
import tempfile
import threading
import time
import unittest

LIMIT = 60.0  # seconds; a hang, not a slow machine


class LaneTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="fl", dir="/tmp")
        self.addCleanup(folder.cleanup)
        self.directory = folder.name
        before = os.environ.get("FRAMELANE_DIR")
        os.environ["FRAMELANE_DIR"] = folder.name
        self.addCleanup(self._restore, before)

    def _restore(self, before):
        if before is None:
            del os.environ["FRAMELANE_DIR"]
        else:
            os.environ["FRAMELANE_DIR"] = before

    def start(self, code, *arguments, **settings):
        """A Python process that runs `code`; killed at the end of the test."""
        process = subprocess.Popen([sys.executable, "-c", code, *arguments], stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True, **settings)
        self.addCleanup(self.end, process)
        return process

    def run_code(self, code, *arguments):
        """What `code` prints, in a process of its own that must end well."""
        process = self.start(code, *arguments)
        out, err = process.communicate(timeout=LIMIT)
        self.assertEqual(process.returncode, 0, err)
        return out

    @staticmethod
    def end(process):
        if process.poll() is None:
            process.kill()
        process.communicate(timeout=LIMIT)

    def wait_until(self, true, what):
        deadline = time.monotonic() + LIMIT
        while not true():
            self.assertLess(time.monotonic(), deadline, what)
            time.sleep(0.005)

    def meanwhile(self, work, other):
        """Runs `work` and, on another thread, `other`, which only gets a turn where `work` gives up the GIL. What work
        returned, and what other did, or None when it had no turn until work was done."""
        started, go, done, said = threading.Event(), threading.Event(), [], []

        def run():
            started.set()
            go.wait(LIMIT)
            if not done:
                said.append(other())

        thread = threading.Thread(target=run)
        thread.start()
        self.assertTrue(started.wait(LIMIT))
        before = sys.getswitchinterval()
        sys.setswitchinterval(LIMIT)  # nobody is made to give up the GIL
        try:
            go.set()
            result = work()
            done.append(True)
        finally:
            sys.setswitchinterval(before)
            thread.join(LIMIT)
        return result, said[0] if said else None

    def wait_for_slots(self, consumer):
        """Until nothing is held any more."""
        self.wait_until(lambda: consumer.stats()["held"] == 0, "slots are still held")


def pair(framelane, lane="cam0", consumer=None, **settings):
    """A producer and a consumer that is connected, in one process."""
    producer = framelane.Producer(lane, **settings)
    taker = framelane.Consumer(lane, **dict({"timeout": LIMIT}, **(consumer or {})))
    taker.connect()
    producer.wait_for_consumers(1, timeout=LIMIT)
    return producer, taker
