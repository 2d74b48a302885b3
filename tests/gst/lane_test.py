# SPDX-License-Identifier: MIT
"""What the element tests share: processes with time limits, and directories of their own."""

import os
import shutil
import signal
import subprocess
import tempfile
import threading
import time
import unittest

DUMP = os.environ["FRAMELANE_DUMP"]
LIMIT = 60.0  # seconds; a hang, not a slow machine


class Process:
    """A child whose output is read all the time, so that it never waits for us."""

    def __init__(self, command, env):
        self.popen = subprocess.Popen(command, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                      stderr=subprocess.PIPE, text=True, errors="replace")
        self.out = []
        self.err = []
        self._threads = [threading.Thread(target=self._read, args=pair, daemon=True)
                         for pair in ((self.popen.stdout, self.out), (self.popen.stderr, self.err))]
        for thread in self._threads:
            thread.start()

    @staticmethod
    def _read(stream, lines):
        for line in stream:
            lines.append(line.rstrip("\n"))

    @property
    def pid(self):
        return self.popen.pid

    def signal(self, number):
        self.popen.send_signal(number)

    def running(self):
        return self.popen.poll() is None

    def wait(self, seconds=LIMIT):
        """Exit status; the output is complete."""
        status = self.popen.wait(seconds)
        for thread in self._threads:
            thread.join(seconds)
        return status

    def end(self):
        if self.running():
            self.popen.send_signal(signal.SIGCONT)
            self.popen.kill()
        self.popen.wait(LIMIT)
        for thread in self._threads:
            thread.join(LIMIT)
        self.popen.stdout.close()
        self.popen.stderr.close()


class LaneTest(unittest.TestCase):
    def setUp(self):
        self.directory = tempfile.mkdtemp(prefix="framelane-test-")
        self.addCleanup(shutil.rmtree, self.directory)
        self.env = dict(os.environ, FRAMELANE_DIR=os.path.join(self.directory, "lanes"))

    def start(self, *command):
        process = Process(command, self.env)
        self.addCleanup(process.end)
        return process

    def launch(self, pipeline, *options):
        """A gst-launch-1.0 process."""
        return self.start("gst-launch-1.0", *options, *pipeline.split())

    def dump(self, pipeline, *options):
        """A process that prints what reaches the element `out`."""
        return self.start(DUMP, *options, pipeline)

    def finish(self, process, status=0):
        self.assertEqual(process.wait(), status, "\n".join(process.err[-20:] + process.out[-5:]))
        return process

    def until(self, what, condition, seconds=LIMIT):
        """Waits for a condition; only a hang makes it fail."""
        end = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > end:
                self.fail("never came: " + what)
            time.sleep(0.01)

    def until_prints(self, process, text, times=1):
        def printed():
            return sum(text in line for line in list(process.out)) >= times or not process.running()

        self.until(text, printed)
        self.assertTrue(sum(text in line for line in process.out) >= times, "\n".join(process.err))


CROSSES = ("stream-start", "caps", "segment", "tag", "gap", "custom", "eos", "buffer")


def crossing(lines, ids=False):
    """The lines that a lane carries, without what the receiving pipeline decides: where the segment lies in its running
    time, and the ids that a pipeline without a lane makes up by itself."""
    kept = []
    for line in lines:
        kind = line.split(" ", 1)[0]
        if kind not in CROSSES:
            continue
        if kind == "segment":
            line = line[:line.index(" base=")]
        if kind == "stream-start" and not ids:
            line = line[:line.index(" id=")]
        kept.append(line)
    return kept


def buffers(process):
    return [line for line in process.out if line.startswith("buffer")]


class ComparingTest(LaneTest):
    """The same pipeline with and without a lane."""

    def through_a_lane(self, source, sender="lanesink", receiver="lanesrc", options=()):
        """Sends with gst-launch, receives with dump. Returns the receiver."""
        receiving = self.dump(f"{receiver} lane=x ! fakesink name=out", *options)
        sending = self.launch(f"{source} ! {sender} lane=x")
        self.finish(sending)
        return self.finish(receiving)

    def same(self, source, ids=False, **kwargs):
        direct = self.finish(self.dump(f"{source} ! fakesink name=out"))
        received = self.through_a_lane(source, **kwargs)
        self.assertTrue(buffers(direct))
        self.assertEqual(crossing(received.out, ids), crossing(direct.out, ids))
        return received
